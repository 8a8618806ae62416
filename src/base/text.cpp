#include "base/text.h"

#include <algorithm>

namespace pgweir {
namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string doubled(std::string_view text, char quote, bool backslash_too) {
  std::string out;
  out.reserve(text.size() + 3);
  for (char c : text) {
    if (c == quote || (backslash_too && c == '\\')) out += c;
    out += c;
  }
  return out;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string concat(std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (std::string_view part : parts) size += part.size();
  std::string out;
  out.reserve(size);
  for (std::string_view part : parts) out += part;
  return out;
}

std::string quote_literal(std::string_view text) {
  const bool backslash = text.find('\\') != std::string_view::npos;
  return concat({backslash ? "E'" : "'", doubled(text, '\'', backslash), "'"});
}

std::string quote_identifier(std::string_view text) {
  return concat({"\"", doubled(text, '"', false), "\""});
}

}  // namespace pgweir
