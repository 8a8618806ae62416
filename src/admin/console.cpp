#include "admin/console.h"

#include <algorithm>

#include "admin/orders.h"
#include "base/text.h"
#include "protocol/extended.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"

namespace pgweir::admin {
namespace {

constexpr std::string_view kProtocolError =
    "08P01";  // PgBouncer's SQLSTATE for all that is its own.
constexpr std::size_t kKeptBytesMax = 65536;
constexpr std::size_t kStatementsMax = 1000;

// --- Values on the wire
// --------------------------------------------------------------------------------

std::int16_t size_of(Type type) noexcept {
  switch (type) {
    case Type::int4:
      return 4;
    case Type::int8:
      return 8;
    case Type::text:
    case Type::numeric:
      break;
  }
  return -1;
}

void append_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    out += static_cast<char>(value >> shift);
}

/// A whole number that is not negative, as numeric's base 10000 digits.
std::string binary_numeric(std::uint64_t value) {
  std::vector<std::uint64_t> digits;  // Lowest first.
  for (; value > 0; value /= 10000) digits.push_back(value % 10000);
  const std::size_t weight = digits.empty() ? 0 : digits.size() - 1;
  // Zeros at the low end are not stored.
  const auto first =
      std::find_if(digits.begin(), digits.end(), [](std::uint64_t digit) { return digit != 0; });
  std::string out;
  append_big_endian(out, static_cast<std::uint64_t>(digits.end() - first), 2);
  append_big_endian(out, weight, 2);
  append_big_endian(out, 0, 2);  // Sign: positive.
  append_big_endian(out, 0, 2);  // No digits behind the point.
  for (auto digit = digits.rbegin(); digit.base() != first; ++digit)
    append_big_endian(out, *digit, 2);
  return out;
}

std::string binary(Type type, const std::string& text) {
  if (type == Type::text) return text;
  std::string out;
  if (type == Type::numeric) return binary_numeric(std::strtoull(text.c_str(), nullptr, 10));
  append_big_endian(out, static_cast<std::uint64_t>(std::strtoll(text.c_str(), nullptr, 10)),
                    size_of(type));
  return out;
}

std::uint16_t format_of(std::span<const std::uint16_t> formats, std::size_t column) noexcept {
  if (formats.empty()) return 0;
  return formats.size() == 1 ? formats[0] : formats[column];
}

void append_columns(std::string& out, const Command& command,
                    std::span<const std::uint16_t> formats) {
  if (command.columns.empty()) return protocol::append_no_data(out);
  std::vector<protocol::Column> columns;
  for (std::size_t i = 0; i < command.columns.size(); ++i) {
    const Column& column = command.columns[i];
    columns.push_back({column.name, static_cast<std::uint32_t>(column.type), size_of(column.type),
                       format_of(formats, i)});
  }
  protocol::append_row_description(out, columns);
}

void append_row(std::string& out, const Command& command, const Row& row,
                std::span<const std::uint16_t> formats) {
  std::vector<std::string> made;
  made.reserve(row.size());
  std::vector<std::optional<Bytes>> values;
  values.reserve(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row[i]) {
      values.emplace_back();
    } else if (format_of(formats, i) == 0) {
      values.emplace_back(*row[i]);
    } else {
      values.emplace_back(made.emplace_back(binary(command.columns[i].type, *row[i])));
    }
  }
  protocol::append_data_row(out, values);
}

void append_failure(std::string& out, const Error& error) {
  protocol::append_error(out, "ERROR",
                         error.sqlstate().empty() ? kProtocolError : Bytes(error.sqlstate()),
                         error.text());
}

void append_notice_of(std::string& out, const Answer& answer) {
  if (!answer.notice.empty())
    protocol::append_notice(out, "NOTICE", "00000", answer.notice, answer.notice_detail);
}

}  // namespace

Access access_of(const config::Settings& settings, std::string_view user) noexcept {
  if (settings.auth_type == config::AuthType::any || config::listed(settings.admin_users, user))
    return Access::admin;
  return config::listed(settings.stats_users, user) ? Access::stats : Access::none;
}

bool is_console_database(std::string_view name) noexcept {
  return name == "pgbouncer" || name == "pgweir";
}

ConsoleSession::ConsoleSession(World& world, Access access) : world_(world), access_(access) {}

ConsoleSession::~ConsoleSession() {
  if (busy()) world_.forget(*this);
}

void ConsoleSession::append_welcome(std::string& out) const {
  protocol::append_parameter_status(out, "server_version",
                                    concat({world_.settings()->announce_version, "/bouncer"}));
  protocol::append_parameter_status(out, "client_encoding", "UTF8");
  protocol::append_parameter_status(out, "server_encoding", "UTF8");
  protocol::append_parameter_status(out, "DateStyle", "ISO");
  protocol::append_parameter_status(out, "TimeZone", "GMT");
  protocol::append_parameter_status(out, "standard_conforming_strings", "on");
  protocol::append_parameter_status(out, "is_superuser", "on");
}

void ConsoleSession::on_message(char type, Bytes body, std::string& out) {
  if (finished_) return;
  if (!busy() || type == protocol::frontend::kTerminate) return handle(type, body, out);
  kept_bytes_ += body.size() + 1;
  if (kept_bytes_ > kKeptBytesMax)
    return break_off("too much was sent while a command is under way", out);
  kept_.push_back({type, std::string(body)});
}

void ConsoleSession::complete(const Status& how, std::string& out) {
  if (!busy() || finished_) return;
  const std::string_view words = busy_with_->words;
  const bool in_query = busy_in_query_;
  busy_with_ = nullptr;
  if (how) {
    protocol::append_command_complete(out, words.substr(0, words.find(' ')));
  } else {
    append_failure(out, how.error());
    skip_to_sync_ = !in_query;
  }
  if (in_query) protocol::append_ready(out, protocol::transaction_status::kIdle);
  while (!kept_.empty() && !busy() && !finished_) {
    const Kept kept = std::move(kept_.front());
    kept_.pop_front();
    kept_bytes_ -= kept.body.size() + 1;
    handle(kept.type, kept.body, out);
  }
}

void ConsoleSession::cancel(std::string& out) {
  if (!busy()) return;
  world_.forget(*this);
  complete(Error("57014", "canceling statement due to user request"), out);
}

void ConsoleSession::handle(char type, Bytes body, std::string& out) {
  using namespace protocol::frontend;
  if (skip_to_sync_ && type != kSync && type != kTerminate) return;
  switch (type) {
    case kQuery:
      return on_query(body, out);
    case kParse:
      return on_parse(body, out);
    case kBind:
      return on_bind(body, out);
    case kDescribe:
      return on_describe(body, out);
    case kExecute:
      return on_execute(body, out);
    case kClose:
      return on_close(body, out);
    case kSync:
      return on_sync(out);
    case kFlush:
      return;
    case kTerminate:
      finished_ = true;
      return;
    case kFunctionCall:
      append_failure(out, Error("0A000", "the console has no functions"));
      return protocol::append_ready(out, protocol::transaction_status::kIdle);
    // A client that gives up on a COPY that never began; PostgreSQL ignores them too.
    case kCopyData:
    case kCopyDone:
    case kCopyFail:
      return;
    default:
      return break_off("invalid frontend message type", out);
  }
}

void ConsoleSession::on_query(Bytes body, std::string& out) {
  protocol::Reader reader(body);
  const Bytes text = reader.cstring();
  if (reader.failed() || !reader.at_end()) return break_off("broken Query packet", out);
  // A simple Query ends the unnamed statement and the portals, as in PostgreSQL.
  portals_.clear();
  statements_.erase("");
  Statement statement;
  Result<Answer> answer = [&]() -> Result<Answer> {
    Result<Found> found = find_command(text);
    if (!found) return std::move(found).error();
    statement = {found->command, std::string(found->argument)};
    return run(statement);
  }();
  if (!answer) {
    append_failure(out, answer.error());
    return protocol::append_ready(out, protocol::transaction_status::kIdle);
  }
  append_notice_of(out, *answer);
  switch (answer->then) {
    case Answer::Then::goodbye:
      return;
    case Answer::Then::later:
      busy_in_query_ = true;
      return;
    case Answer::Then::ready:
      break;
  }
  if (!statement.command->columns.empty()) append_columns(out, *statement.command, {});
  for (const Row& row : answer->rows) append_row(out, *statement.command, row, {});
  protocol::append_command_complete(out, answer->tag);
  protocol::append_ready(out, protocol::transaction_status::kIdle);
}

Result<Answer> ConsoleSession::run(const Statement& statement) {
  const Command& command = *statement.command;
  bool allowed =
      access_ == Access::admin || (access_ == Access::stats && command.access == Access::stats);
  if (!allowed && access_ != Access::none && command.run == set_setting) {
    const std::optional<SetText> set = parse_set(statement.argument);
    allowed = set && is_ignored_set(set->name);
  }
  if (!allowed) return Error("admin access needed");
  Result<Answer> answer = command.run({command, statement.argument, world_, *this});
  if (answer && answer->then == Answer::Then::later) {
    busy_with_ = &command;
    busy_in_query_ = false;
  }
  if (answer && answer->then == Answer::Then::goodbye) finished_ = true;
  return answer;
}

void ConsoleSession::on_parse(Bytes body, std::string& out) {
  const std::optional<protocol::Parse> parse = protocol::parse_parse(body);
  if (!parse) return break_off("broken Parse packet", out);
  const auto old = statements_.find(parse->name);
  if (old != statements_.end() && !parse->name.empty()) {
    return fail(Error("42P05", concat({"prepared statement \"", parse->name, "\" already exists"})),
                out);
  }
  if (statements_.size() >= kStatementsMax)
    return fail(Error("54000", "too many prepared statements"), out);
  Result<Found> found = find_command(parse->query);
  if (!found) return fail(found.error(), out);
  statements_[std::string(parse->name)] = {found->command, std::string(found->argument)};
  protocol::append_parse_complete(out);
}

void ConsoleSession::on_bind(Bytes body, std::string& out) {
  const std::optional<protocol::Bind> bind = protocol::parse_bind(body);
  if (!bind) return break_off("broken Bind packet", out);
  const auto statement = statements_.find(bind->statement);
  if (statement == statements_.end()) {
    return fail(
        Error("26000", concat({"prepared statement \"", bind->statement, "\" does not exist"})),
        out);
  }
  protocol::Reader reader(bind->rest);
  for (std::uint16_t left = reader.u16(); left > 0 && !reader.failed(); --left) reader.u16();
  if (const std::uint16_t parameters = reader.u16(); parameters > 0) {
    return fail(Error("08P01", concat({"bind message supplies ", std::to_string(parameters),
                                       " parameters, but prepared statement \"", bind->statement,
                                       "\" requires 0"})),
                out);
  }
  Portal portal;
  portal.statement = statement->second;
  for (std::uint16_t left = reader.u16(); left > 0 && !reader.failed(); --left)
    portal.formats.push_back(reader.u16());
  if (reader.failed() || !reader.at_end()) return break_off("broken Bind packet", out);
  const std::size_t columns = portal.statement.command->columns.size();
  if (portal.formats.size() > 1 && portal.formats.size() != columns) {
    return fail(Error("08P01", concat({"bind message has ", std::to_string(portal.formats.size()),
                                       " result formats but query has ", std::to_string(columns),
                                       " columns"})),
                out);
  }
  for (std::uint16_t format : portal.formats) {
    if (format > 1)
      return fail(Error("22023", concat({"unsupported format code: ", std::to_string(format)})),
                  out);
  }
  if (!bind->portal.empty() && portals_.count(bind->portal) != 0) {
    return fail(Error("42P03", concat({"cursor \"", bind->portal, "\" already exists"})), out);
  }
  if (portals_.size() >= kStatementsMax) return fail(Error("54000", "too many portals"), out);
  portals_.insert_or_assign(std::string(bind->portal), std::move(portal));
  protocol::append_bind_complete(out);
}

void ConsoleSession::on_describe(Bytes body, std::string& out) {
  const std::optional<protocol::Target> target = protocol::parse_describe(body);
  if (!target) return break_off("broken Describe packet", out);
  if (target->is_statement()) {
    const auto found = statements_.find(target->name);
    if (found == statements_.end()) {
      return fail(
          Error("26000", concat({"prepared statement \"", target->name, "\" does not exist"})),
          out);
    }
    protocol::append_parameter_description(out, {});
    return append_columns(out, *found->second.command, {});
  }
  const auto found = portals_.find(target->name);
  if (found == portals_.end())
    return fail(Error("34000", concat({"portal \"", target->name, "\" does not exist"})), out);
  append_columns(out, *found->second.statement.command, found->second.formats);
}

void ConsoleSession::on_execute(Bytes body, std::string& out) {
  const std::optional<protocol::Execute> execute = protocol::parse_execute(body);
  if (!execute) return break_off("broken Execute packet", out);
  const auto found = portals_.find(execute->portal);
  if (found == portals_.end())
    return fail(Error("34000", concat({"portal \"", execute->portal, "\" does not exist"})), out);
  Portal& portal = found->second;
  if (!portal.ran) {
    Result<Answer> answer = run(portal.statement);
    if (!answer) return fail(answer.error(), out);
    portal.ran = true;
    portal.answer = std::move(*answer);
    append_notice_of(out, portal.answer);
    if (portal.answer.then != Answer::Then::ready) return;
  }
  send_rows(portal, execute->max_rows, out);
}

void ConsoleSession::send_rows(Portal& portal, std::uint32_t rows_max, std::string& out) {
  const std::vector<Row>& rows = portal.answer.rows;
  const std::size_t left = rows.size() - portal.next_row;
  const std::size_t count = rows_max == 0 ? left : std::min<std::size_t>(rows_max, left);
  for (std::size_t i = 0; i < count; ++i) {
    append_row(out, *portal.statement.command, rows[portal.next_row++], portal.formats);
  }
  // As PostgreSQL does: a limit that is reached exactly suspends too.
  if (rows_max != 0 && count == rows_max) return protocol::append_portal_suspended(out);
  protocol::append_command_complete(out, portal.answer.tag);
}

void ConsoleSession::on_close(Bytes body, std::string& out) {
  const std::optional<protocol::Target> target = protocol::parse_close(body);
  if (!target) return break_off("broken Close packet", out);
  if (target->is_statement()) {
    if (const auto found = statements_.find(target->name); found != statements_.end())
      statements_.erase(found);
  } else {
    if (const auto found = portals_.find(target->name); found != portals_.end())
      portals_.erase(found);
  }
  protocol::append_close_complete(out);
}

void ConsoleSession::on_sync(std::string& out) {
  skip_to_sync_ = false;
  portals_.clear();
  protocol::append_ready(out, protocol::transaction_status::kIdle);
}

void ConsoleSession::fail(const Error& error, std::string& out) {
  append_failure(out, error);
  skip_to_sync_ = true;
}

void ConsoleSession::break_off(std::string_view what, std::string& out) {
  protocol::append_error(out, "FATAL", kProtocolError, what);
  finished_ = true;
}

}  // namespace pgweir::admin
