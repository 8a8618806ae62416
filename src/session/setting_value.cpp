#include "session/setting_value.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace pgweir::session {
namespace {

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A string at the front of `text`, taken off; nullopt when there is none, or what it means depends on the session.
std::optional<std::string> take_string(std::string_view& text) {
  if (!text.starts_with('\'')) return std::nullopt;
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\' || text[i] == '\0') return std::nullopt;
    if (text[i] != '\'') {
      value += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '\'') {
      value += text[++i];
    } else {
      text = trimmed(text.substr(i + 1));
      return value;
    }
  }
  return std::nullopt;
}

bool take(std::string_view& text, std::string_view token) noexcept {
  if (text.size() < token.size() || !equals_ignoring_case(text.substr(0, token.size()), token)) return false;
  text = trimmed(text.substr(token.size()));
  return true;
}

}  // namespace

bool can_travel(std::string_view name) noexcept {
  static constexpr std::array<std::string_view, 7> kStay = {
      "role", "session_authorization", "seed", "is_superuser", "default_transaction_read_only", "transaction_isolation", "in_hot_standby"};
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return is_word(c) || c == '.'; });
  return plain && std::find(kStay.begin(), kStay.end(), name) == kStay.end() && !name.starts_with("transaction_") &&
         !name.starts_with("pgweir.");
}

bool may_change_literals(std::string_view name) noexcept {
  static constexpr std::array<std::string_view, 14> kDoNot = {
      "application_name", "search_path", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
      "client_min_messages", "extra_float_digits", "bytea_output", "synchronous_commit", "work_mem", "maintenance_work_mem", "jit",
      "default_transaction_isolation"};
  // PostgreSQL itself parses anew when search_path has changed, and a setting of an application's own is nothing to its parser.
  if (name.find('.') != std::string_view::npos || name.starts_with("enable_") || name.starts_with("log_")) return false;
  return std::none_of(kDoNot.begin(), kDoNot.end(), [&](std::string_view known) { return equals_ignoring_case(known, name); });
}

std::optional<std::string> setting_value(std::string_view as_written) {
  std::string_view text = trimmed(as_written);
  if (text.starts_with('\'')) {
    std::optional<std::string> value = take_string(text);
    return text.empty() ? value : std::nullopt;
  }
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const bool number = at < text.size() && ((text[at] >= '0' && text[at] <= '9') || text[at] == '.');
  if (at == text.size() || (at == 1 && !number)) return std::nullopt;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (!is_word(text[i]) && !(number && text[i] == '.')) return std::nullopt;
  }
  return number ? std::string(text) : to_lower(text);
}

std::optional<std::pair<std::string, std::string>> set_config_call(Bytes sql) {
  std::string_view text = trimmed(sql);
  if (!take(text, "select") || sql.size() > 4096) return std::nullopt;
  take(text, "pg_catalog.");
  if (!take(text, "set_config") || !take(text, "(")) return std::nullopt;
  std::optional<std::string> name = take_string(text);
  if (!name || !take(text, ",")) return std::nullopt;
  std::optional<std::string> value = take_string(text);
  if (!value || !take(text, ",") || !take(text, "false") || !take(text, ")")) return std::nullopt;
  take(text, ";");
  if (!text.empty()) return std::nullopt;
  return std::pair(to_lower(*name), std::move(*value));
}

}  // namespace pgweir::session
