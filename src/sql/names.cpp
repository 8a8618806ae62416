#include "sql/names.h"

#include <cstdint>
#include <vector>

#include "sql/query_walker.h"
#include "sql/tokens.h"

namespace pgweir::sql {
namespace {

constexpr std::size_t kNameBytesMax = 63;

/// PostgreSQL cuts at a whole character; so do we, taking the text for UTF-8.
void truncate(std::string& name) {
  if (name.size() <= kNameBytesMax) return;
  std::size_t size = kNameBytesMax;
  while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xC0) == 0x80) --size;
  name.resize(size);
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

/// The number in the first `digits` hex digits of `text`; false when they are not there.
bool hex(Bytes text, std::size_t digits, std::uint32_t& value) {
  if (text.size() < digits) return false;
  value = 0;
  for (char c : text.substr(0, digits)) {
    const char low = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    else if (low >= 'a' && low <= 'f')
      value = value * 16 + static_cast<std::uint32_t>(low - 'a' + 10);
    else
      return false;
  }
  return true;
}

/// \XXXX, \+XXXXXX and \\ inside U&"…".
bool decode_unicode(std::string& name) {
  std::string out;
  std::uint32_t high_surrogate = 0;
  for (Bytes rest = name; !rest.empty();) {
    if (rest.front() != '\\') {
      if (high_surrogate != 0) return false;
      out += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    rest.remove_prefix(1);
    if (rest.starts_with('\\')) {
      if (high_surrogate != 0) return false;
      out += '\\';
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t digits = rest.starts_with('+') ? 6 : 4;
    if (digits == 6) rest.remove_prefix(1);
    std::uint32_t code = 0;
    if (!hex(rest, digits, code) || code == 0 || code > 0x10FFFF) return false;
    rest.remove_prefix(digits);
    const bool is_low = code >= 0xDC00 && code < 0xE000;
    if (is_low != (high_surrogate != 0)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      high_surrogate = code;
      continue;
    }
    if (is_low) code = 0x10000 + ((high_surrogate - 0xD800) << 10) + (code - 0xDC00);
    high_surrogate = 0;
    append_utf8(out, code);
  }
  if (high_surrogate != 0) return false;
  name = std::move(out);
  return true;
}

}  // namespace

bool fold_name(TokenType type, Bytes token, std::string& out) {
  out.clear();
  if (type == TokenType::name) {
    for (char c : token) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    truncate(out);
    return true;
  }
  const std::size_t prefix = type == TokenType::unicode_name ? 3 : 1;  // U&"
  const Bytes body = token.substr(prefix, token.size() - prefix - 1);
  for (std::size_t i = 0; i < body.size(); ++i) {
    out += body[i];
    if (body[i] == '"') ++i;  // The second of a pair.
  }
  if (type == TokenType::unicode_name && !decode_unicode(out)) return false;
  truncate(out);
  return true;
}

RelationName parse_relation_name(Bytes text) {
  std::vector<Token> tokens;
  TokenSink sink(text, tokens);
  RelationName name;
  if (Scanner<TokenSink>(text, {}, sink).run() == ScanEnd::broken) return name;
  const std::size_t end = QueryWalker::read_name(text, Tokens(tokens), 0, name);
  if (end != tokens.size()) name = {};
  return name;
}

}  // namespace pgweir::sql
