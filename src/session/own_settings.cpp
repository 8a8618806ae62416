#include "session/own_settings.h"

#include <array>

#include "base/text.h"

namespace pgweir::session {
namespace {

struct Row {
  OwnSetting setting;
  std::string_view name;
};
constexpr std::array<Row, 4> kRows = {{{OwnSetting::causal_key, "pgweir.causal_key"},
                                       {OwnSetting::read_consistency, "pgweir.read_consistency"},
                                       {OwnSetting::last_route, "pgweir.last_route"},
                                       {OwnSetting::token, "pgweir.token"}}};

bool is_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

/// Takes blanks and one word off the front.
Bytes take_word(Bytes& sql) noexcept {
  sql = trimmed(sql);
  std::size_t size = 0;
  while (size < sql.size() && is_name(sql[size])) ++size;
  const Bytes word = sql.substr(0, size);
  sql = trimmed(sql.substr(size));
  return word;
}

Bytes without_semicolons(Bytes sql) noexcept {
  sql = trimmed(sql);
  while (!sql.empty() && sql.front() == ';') sql = trimmed(sql.substr(1));
  while (!sql.empty() && sql.back() == ';') sql = trimmed(sql.substr(0, sql.size() - 1));
  return sql;
}

/// Nothing is left but semicolons, blanks and one comment.
bool ends(Bytes sql) noexcept {
  sql = without_semicolons(sql);
  if (sql.empty()) return true;
  if (sql.starts_with("--")) return sql.find('\n') == Bytes::npos;
  return sql.starts_with("/*") && sql.find("*/") == sql.size() - 2 && sql.find("/*", 2) == Bytes::npos && sql.size() >= 4;
}

/// A quoted string without escapes, or a word; nullopt when it is something else.
std::optional<std::string> take_value(Bytes& sql) {
  if (sql.empty() || sql.front() != '\'') {
    const Bytes word = take_word(sql);
    return word.empty() ? std::nullopt : std::optional<std::string>(word);
  }
  std::string value;
  for (std::size_t i = 1; i < sql.size(); ++i) {
    if (sql[i] == '\\' || sql[i] == '\0') return std::nullopt;  // What it means depends on the session.
    if (sql[i] != '\'') {
      value += sql[i];
    } else if (i + 1 < sql.size() && sql[i + 1] == '\'') {
      value += sql[++i];
    } else {
      sql = sql.substr(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

/// Asked of every unit: nearly all are done with here.
bool may_be_one(Bytes sql) noexcept {
  const std::size_t first = sql.find_first_not_of(" \t\r\n");
  if (first == Bytes::npos || sql.size() - first < 5) return false;
  const auto letter = [&](std::size_t i) { return static_cast<char>(sql[first + i] | 0x20); };
  if (letter(0) == 'r') return letter(1) == 'e' && letter(2) == 's';
  return letter(0) == 's' && (letter(1) == 'h' || (letter(1) == 'e' && letter(2) == 't'));
}

}  // namespace

std::optional<OwnSetting> own_setting(std::string_view name) noexcept {
  for (const Row& row : kRows) {
    if (equals_ignoring_case(row.name, name)) return row.setting;
  }
  return std::nullopt;
}

std::string_view to_string(OwnSetting setting) noexcept {
  for (const Row& row : kRows) {
    if (row.setting == setting) return row.name;
  }
  return "?";
}

Error refused_value(OwnSetting setting, std::string_view value, std::string_view expected) {
  constexpr std::size_t kShownMax = 200;
  const std::string_view more = value.size() > kShownMax ? "..." : "";
  return Error("22023", concat({"invalid value for parameter \"", to_string(setting), "\": \"", value.substr(0, kShownMax), more, "\": ", expected}));
}

std::optional<OwnOrder> own_order(Bytes sql) {
  if (!may_be_one(sql)) return std::nullopt;
  const Bytes verb = take_word(sql);
  OwnOrder order;
  if (equals_ignoring_case(verb, "set")) {
    order.what = OwnOrder::What::set;
  } else if (equals_ignoring_case(verb, "reset")) {
    order.what = OwnOrder::What::reset;
  } else if (!equals_ignoring_case(verb, "show")) {
    return std::nullopt;
  }
  Bytes name = take_word(sql);
  if (order.what == OwnOrder::What::set && equals_ignoring_case(name, "session")) name = take_word(sql);
  const std::optional<OwnSetting> setting = own_setting(name);
  if (!setting) return std::nullopt;
  order.setting = *setting;
  if (order.what == OwnOrder::What::set) {
    if (!sql.empty() && sql.front() == '=') {
      sql = trimmed(sql.substr(1));
    } else if (!equals_ignoring_case(take_word(sql), "to")) {
      return std::nullopt;
    }
    const bool quoted = sql.starts_with('\'');
    const std::optional<std::string> value = take_value(sql);
    if (!value) return std::nullopt;
    if (!quoted && equals_ignoring_case(*value, "default")) {
      order.what = OwnOrder::What::reset;
    } else {
      order.value = *value;
    }
  }
  return ends(sql) ? std::optional<OwnOrder>(std::move(order)) : std::nullopt;
}

}  // namespace pgweir::session
