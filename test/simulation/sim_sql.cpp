#include "sim_sql.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/text.h"

namespace pgweir::sim {
namespace {

std::string without_comments(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = text.find("/*");
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find("*/", open);
    text = close == std::string_view::npos ? std::string_view() : text.substr(close + 2);
    out += ' ';
  }
  return std::string(trimmed(out));
}

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether `word` stands in `text` by itself.
bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool left = at == 0 || !is_word_char(text[at - 1]);
    const bool right = at + word.size() == text.size() || !is_word_char(text[at + word.size()]);
    if (left && right) return true;
  }
  return false;
}

std::uint32_t tables_in(std::string_view text) {
  std::uint32_t tables = 0;
  for (std::size_t i = 0; i < kTables; ++i) {
    if (has_word(text, table_name(i))) tables |= 1U << i;
  }
  return tables;
}

std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
      text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

/// The next word of `rest`, taken off it.
std::string_view next_word(std::string_view& rest) {
  rest = trimmed(rest);
  std::size_t end = 0;
  if (!rest.empty() && rest.front() == '"') {
    end = rest.find('"', 1);
    end = end == std::string_view::npos ? rest.size() : end + 1;
  } else {
    while (end < rest.size() && (is_word_char(rest[end]) || rest[end] == '.')) ++end;
  }
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

/// What stands behind `opening`, up to `closing`.
std::string_view between(std::string_view text, std::string_view opening, char closing) {
  const std::size_t at = text.find(opening);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + opening.size());
  return text.substr(0, text.find(closing));
}

/// A 'quoted' or E'quoted' literal at the front of `rest`, taken off it.
std::string take_literal(std::string_view& rest) {
  std::string out;
  const std::size_t open = rest.find('\'');
  if (open == std::string_view::npos) return out;
  const bool escapes = open > 0 && (rest[open - 1] == 'E' || rest[open - 1] == 'e');
  rest.remove_prefix(open + 1);
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '\'') {
      if (rest.empty() || rest.front() != '\'') break;
      rest.remove_prefix(1);
    } else if (c == '\\' && escapes && !rest.empty()) {
      out += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    out += c;
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> read_set_configs(std::string_view text) {
  static constexpr std::string_view kCall = "set_config(";
  std::vector<std::pair<std::string, std::string>> calls;
  for (std::size_t at = text.find(kCall); at != std::string_view::npos; at = text.find(kCall)) {
    text.remove_prefix(at + kCall.size());
    std::string name = take_literal(text);
    calls.emplace_back(std::move(name), take_literal(text));
  }
  return calls;
}

void read_set(Statement& statement, std::string_view rest) {
  statement.verb = Verb::set;
  std::string_view name = next_word(rest);
  if (equals_ignoring_case(name, "session")) name = next_word(rest);
  if (equals_ignoring_case(name, "local")) {
    statement.local = true;
    name = next_word(rest);
  }
  statement.name = std::string(unquoted(name));
  rest = trimmed(rest);
  if (!rest.empty() && rest.front() == '=') {
    rest.remove_prefix(1);
  } else {
    std::string_view copy = rest;
    if (equals_ignoring_case(next_word(copy), "to")) rest = copy;
  }
  rest = trimmed(rest);
  const bool literal = rest.find('\'') != std::string_view::npos;
  statement.value = literal ? take_literal(rest) : std::string(unquoted(rest));
}

void read_select(Statement& statement, std::string_view lower, std::string_view text) {
  if (lower.find("hidden_write") != std::string_view::npos ||
      lower.find("===") != std::string_view::npos) {
    statement.verb = Verb::hidden_write;
    statement.tables = 1U << kHiddenTable;
  } else if (lower.find("1/0") != std::string_view::npos) {
    statement.verb = Verb::divide;
  } else if (lower.find("set_config(") != std::string_view::npos) {
    statement.verb = Verb::set_config;
    statement.configs = read_set_configs(text);
  } else if (lower.find("pg_catalog.") == std::string_view::npos &&
             lower.find(" from ") != std::string_view::npos &&
             (tables_in(lower) != 0 || lower.find("nowhere") != std::string_view::npos)) {
    statement.verb = Verb::select;
    statement.tables = tables_in(lower);
    statement.missing = statement.tables == 0;
    const std::string seconds(between(lower, "pg_sleep(", ')'));
    if (!seconds.empty()) statement.sleep_seconds = std::strtod(seconds.c_str(), nullptr);
    if (const std::size_t at = lower.find(" limit "); at != std::string_view::npos) {
      statement.rows = std::max(1, std::atoi(std::string(lower.substr(at + 7)).c_str()));
    }
  } else {
    statement.verb = Verb::system;
  }
}

}  // namespace

Statement read_statement(std::string_view raw) {
  Statement statement;
  statement.text = without_comments(raw);
  statement.marker = find_marker(raw);
  const std::string_view text = statement.text;
  const std::string lower = to_lower(text);
  std::string_view rest = text;
  const std::string verb = to_lower(next_word(rest));
  if (verb.empty()) {
    statement.verb = Verb::empty;
  } else if (verb == "select" && trimmed(rest).empty()) {
    statement.verb = Verb::nothing;
  } else if (verb == "select" || verb == "table" || verb == "values") {
    read_select(statement, lower, text);
  } else if (verb == "update" || verb == "insert" || verb == "delete" ||
             (verb == "with" && (has_word(lower, "update") || has_word(lower, "insert")))) {
    statement.verb = Verb::write;
    statement.tables = tables_in(lower);
    statement.returning = has_word(lower, "returning");
  } else if (verb == "with") {
    read_select(statement, lower, text);
  } else if (verb == "create") {
    statement.verb = Verb::create_table;
    statement.tables = 1U << kFreshTable;
  } else if (verb == "call") {
    statement.verb = Verb::commit_and_fail;
    statement.tables = 1;
  } else if (verb == "copy") {
    statement.verb = has_word(lower, "stdin") ? Verb::copy_in : Verb::copy_out;
    statement.tables = tables_in(lower);
  } else if (verb == "begin" || verb == "start") {
    statement.verb = Verb::begin;
    statement.read_only = lower.find("read only") != std::string::npos;
    statement.repeatable = lower.find("repeatable read") != std::string::npos;
  } else if (verb == "commit" || verb == "end") {
    statement.verb = Verb::commit;
    statement.chain = lower.ends_with("and chain");
  } else if (verb == "rollback" || verb == "abort") {
    statement.verb = lower.starts_with("rollback to") ? Verb::rollback_to : Verb::rollback;
    statement.chain = lower.ends_with("and chain");
  } else if (verb == "set" && lower.starts_with("set transaction")) {
    statement.verb = Verb::set_transaction;
  } else if (verb == "set") {
    read_set(statement, rest);
  } else if (verb == "reset") {
    statement.name = std::string(unquoted(next_word(rest)));
    statement.verb = equals_ignoring_case(statement.name, "all") ? Verb::reset_all : Verb::reset;
  } else if (verb == "discard") {
    statement.verb = Verb::discard_all;
  } else if (verb == "show") {
    statement.verb = Verb::show;
    statement.name = std::string(unquoted(next_word(rest)));
  } else if (verb == "prepare") {
    statement.verb = Verb::prepare;
    statement.name = std::string(unquoted(next_word(rest)));
    const std::size_t as = lower.find(" as ");
    statement.value = as == std::string::npos ? "" : std::string(text.substr(as + 4));
  } else if (verb == "execute") {
    statement.verb = Verb::execute;
    statement.name = std::string(unquoted(next_word(rest)));
  } else if (verb == "deallocate") {
    statement.name = std::string(unquoted(next_word(rest)));
    statement.verb =
        equals_ignoring_case(statement.name, "all") ? Verb::deallocate_all : Verb::deallocate;
  } else if (verb == "listen") {
    statement.verb = Verb::listen;
    statement.name = std::string(unquoted(next_word(rest)));
  } else if (verb == "unlisten") {
    statement.verb = Verb::unlisten;
  } else if (verb == "notify") {
    statement.verb = Verb::notify;
    statement.name = std::string(unquoted(next_word(rest)));
    statement.value = std::string(between(rest, "'", '\''));
  } else {
    statement.verb = Verb::system;
  }
  return statement;
}

std::vector<Statement> read_statements(std::string_view text) {
  std::vector<Statement> statements;
  bool quoted = false;
  std::size_t from = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '\'') quoted = !quoted;
    if (i < text.size() && (quoted || text[i] != ';')) continue;
    Statement statement = read_statement(text.substr(from, i - from));
    if (statement.verb != Verb::empty) statements.push_back(std::move(statement));
    from = i + 1;
  }
  // A marker in a comment at the front speaks for all statements that have none of their own.
  const std::optional<Marker> marker = find_marker(text);
  for (Statement& statement : statements) {
    if (!statement.marker) statement.marker = marker;
  }
  if (statements.empty()) statements.push_back({});
  return statements;
}

}  // namespace pgweir::sim
