#include "admin/orders.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>

#include "admin/console.h"
#include "base/pooler_error.h"
#include "base/text.h"

namespace pgweir::admin {
namespace {

/// A name as it was written bare, in double or in single quotes; nullopt when more than one word is
/// there.
std::optional<std::string> parse_name(std::string_view text) {
  if (text.empty()) return std::string();
  const char quote = text[0];
  if (quote != '"' && quote != '\'') {
    for (char c : text) {
      if (std::isspace(static_cast<unsigned char>(c)) != 0) return std::nullopt;
    }
    return std::string(text);
  }
  std::string name;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != quote) {
      name += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == quote) {
      name += text[++i];
    } else {
      return i + 1 == text.size() ? std::optional(name) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> parse_id(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long id = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || text[0] == '-' || errno != 0 || *end != '\0' || id == 0) return std::nullopt;
  return id;
}

enum class Argument : std::uint8_t { none, database_or_all, database, client };

Argument argument_of(Verb verb) noexcept {
  switch (verb) {
    case Verb::reload:
    case Verb::suspend:
    case Verb::shutdown:
    case Verb::shutdown_wait_for_servers:
    case Verb::shutdown_wait_for_clients:
      return Argument::none;
    case Verb::pause:
    case Verb::resume:
    case Verb::kill:
    case Verb::reconnect:
    case Verb::wait_close:
      return Argument::database_or_all;
    case Verb::disable:
    case Verb::enable:
      return Argument::database;
    case Verb::kill_client:
      return Argument::client;
  }
  return Argument::none;
}

}  // namespace

Result<Answer> give_order(const Call& call) {
  const Verb verb = call.command.verb;
  const std::optional<std::string> name = parse_name(call.argument);
  const std::string whole =
      concat({call.command.words, call.argument.empty() ? "" : " ", call.argument});
  const Error invalid(concat({"invalid command '", whole, "', use SHOW HELP;"}));
  if (!name) return invalid;
  Order order{.verb = verb, .database = "", .client_id = 0};
  switch (argument_of(verb)) {
    case Argument::none:
      if (!name->empty()) return invalid;
      break;
    case Argument::database:
      if (name->empty()) return Error("a database is required");
      [[fallthrough]];
    case Argument::database_or_all:
      if (is_console_database(*name))
        return Error(concat({"cannot ", to_lower(call.command.words), " admin db: ", *name}));
      order.database = *name;
      break;
    case Argument::client: {
      const std::optional<std::uint64_t> id = parse_id(*name);
      if (!id) return Error("invalid client pointer supplied");
      order.client_id = *id;
      break;
    }
  }
  Result<Progress> progress = call.world.begin(order, call.asker);
  if (!progress) {
    // The reason names files and lines; it belongs into the log, which has it.
    if (verb == Verb::reload)
      return error_of(PoolerError::reload_failed);
    return std::move(progress).error();
  }
  Answer answer;
  answer.tag = call.command.words.substr(0, call.command.words.find(' '));
  if (*progress == Progress::later) answer.then = Answer::Then::later;
  // As PgBouncer does: the connection drops without an answer.
  if (verb == Verb::shutdown) answer.then = Answer::Then::goodbye;
  return answer;
}

bool is_ignored_set(std::string_view name) noexcept {
  for (std::string_view ignored :
       {"client_encoding", "default_transaction_isolation", "standard_conforming_strings",
        "datestyle", "timezone", "extra_float_digits", "application_name"}) {
    if (equals_ignoring_case(name, ignored)) return true;
  }
  return false;
}

std::optional<SetText> parse_set(std::string_view text) {
  const auto is_name_char = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  std::size_t at = 0;
  while (at < text.size() && is_name_char(text[at])) ++at;
  SetText set;
  set.name = text.substr(0, at);
  std::string_view rest = trimmed(text.substr(at));
  if (!rest.empty() && rest[0] == '=') {
    rest.remove_prefix(1);
  } else if (rest.size() > 2 && equals_ignoring_case(rest.substr(0, 2), "to") &&
             (rest[2] == '\'' || std::isspace(static_cast<unsigned char>(rest[2])) != 0)) {
    rest.remove_prefix(2);
  } else {
    return std::nullopt;
  }
  rest = trimmed(rest);
  if (set.name.empty() || rest.empty()) return std::nullopt;
  if (rest[0] == '\'') {
    const std::optional<std::string> value = parse_name(rest);
    if (!value) return std::nullopt;
    set.value = *value;
  } else {
    set.value = rest;
  }
  return set;
}

Result<Answer> set_setting(const Call& call) {
  const std::optional<SetText> set = parse_set(call.argument);
  if (!set) {
    return Error(concat({"invalid command 'SET", call.argument.empty() ? "" : " ", call.argument,
                         "', use SHOW HELP;"}));
  }
  Answer answer;
  if (is_ignored_set(set->name)) {
    answer.tag = "SET";
    answer.notice = "SET ignored";
    return answer;
  }
  // What was wrong with it stands in the log, where PgBouncer has it too.
  if (!call.world.set(to_lower(set->name), set->value)) return Error("SET failed");
  answer.tag = concat({"SET ", set->name, "=", set->value});
  return answer;
}

Result<Answer> show_help(const Call&) {
  Answer answer;
  answer.tag = "SHOW";
  answer.notice = "Console usage";
  for (const Command& command : commands()) {
    if (command.doc.empty()) continue;
    answer.notice_detail +=
        concat({"\n\t", command.words, command.arguments.empty() ? "" : " ", command.arguments});
  }
  return answer;
}

Result<Answer> refuse_fds(const Call&) {
  return Error("0A000",
               "SHOW FDS is not supported: sockets are not handed over, restart with so_reuseport "
               "and peers instead");
}

Result<Answer> show_fixed(const Call& call) {
  const std::string_view name = call.command.columns[0].name;
  std::string value = "on";
  if (name == "client_encoding") value = "UTF-8";
  if (name == "default_transaction_isolation") value = "read committed";
  if (name == "datestyle") value = "ISO";
  if (name == "timezone") value = "GMT";
  Answer answer;
  answer.rows = {{value}};
  answer.tag = "SHOW";
  return answer;
}

}  // namespace pgweir::admin
