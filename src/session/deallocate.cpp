#include "session/deallocate.h"

#include "base/text.h"

namespace pgweir::session {
namespace {

bool is_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Takes one plain word off the front, blanks included.
Bytes take_word(Bytes& sql) noexcept {
  sql = trimmed(sql);
  std::size_t size = 0;
  while (size < sql.size() && is_name(sql[size])) ++size;
  const Bytes word = sql.substr(0, size);
  sql = trimmed(sql.substr(size));
  return word;
}

}  // namespace

std::string deallocated_name(Bytes sql) {
  // Asked of every statement: nearly all are done with here.
  const std::size_t first = sql.find_first_not_of(" \t\r\n");
  if (first == Bytes::npos || (sql[first] != 'd' && sql[first] != 'D')) return {};
  sql = trimmed(sql);
  if (!equals_ignoring_case(take_word(sql), "deallocate")) return {};
  if (!sql.empty() && sql.back() == ';') sql = trimmed(sql.substr(0, sql.size() - 1));
  Bytes rest = sql;
  if (equals_ignoring_case(take_word(rest), "prepare") && !rest.empty()) sql = rest;
  if (sql.size() >= 2 && sql.front() == '"' && sql.back() == '"') {
    std::string name;
    for (std::size_t i = 1; i + 1 < sql.size(); ++i) {
      if (sql[i] == '"' && (i + 2 >= sql.size() || sql[++i] != '"')) return {};
      name += sql[i];
    }
    return name;
  }
  rest = sql;
  const Bytes word = take_word(rest);
  if (!rest.empty() || equals_ignoring_case(word, "all")) return {};
  return to_lower(word);
}

bool forgets_statements(Bytes sql) {
  const std::size_t first = sql.find_first_not_of(" \t\r\n");
  if (first == Bytes::npos || (sql[first] != 'd' && sql[first] != 'D')) return false;
  sql = trimmed(sql);
  const Bytes verb = take_word(sql);
  const bool deallocates = equals_ignoring_case(verb, "deallocate");
  if (!deallocates && !equals_ignoring_case(verb, "discard")) return false;
  Bytes rest = sql;
  if (deallocates && equals_ignoring_case(take_word(rest), "prepare")) sql = rest;
  return equals_ignoring_case(take_word(sql), "all") && (sql.empty() || sql == ";");
}

}  // namespace pgweir::session
