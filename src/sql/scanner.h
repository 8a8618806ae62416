// The lexer: one pass over a text, each piece handed to a sink. Written once and used twice: with a
// sink that only hashes (the shape, for the cache) and, when the cache does not know the shape,
// with one that keeps tokens for the rules. No allocation, no recursion, linear time whatever the
// text is.
//
// It cuts a text as PostgreSQL 15 to 18 do; where PostgreSQL would report an error the scan is
// `broken`, and the statement goes to the primary, whose error message the client then gets.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "sql/classifier.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

enum class TokenType : std::uint8_t {
  name,          ///< not quoted: may be a key word
  quoted_name,   ///< "…", with the quotes
  unicode_name,  ///< U&"…"
  literal,       ///< any string or bit string
  number,
  parameter,  ///< $1
  op,
  left_paren,
  right_paren,
  left_bracket,
  right_bracket,
  comma,
  dot,
  semicolon,
  cast,   ///< ::
  other,  ///< : := and ..
};

enum class ScanEnd : std::uint8_t { complete, broken };

namespace scan_detail {

enum CharacterKind : std::uint8_t {
  kNameStart = 1,
  kNamePart = 2,
  kDigit = 4,
  kSpace = 8,
  kOperator = 16,
  kHexDigit = 32,
  kSignKeeper = 64,  ///< An operator with one of these may end in + or -.
};

constexpr std::array<std::uint8_t, 256> make_characters() {
  std::array<std::uint8_t, 256> kinds{};
  for (std::size_t c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
    const bool digit = c >= '0' && c <= '9';
    const bool hex = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    std::uint8_t kind = 0;
    if (letter) kind |= kNameStart;
    if (letter || digit || c == '$') kind |= kNamePart;
    if (digit) kind |= kDigit;
    if (hex) kind |= kHexDigit;
    if (c == ' ' || (c >= '\t' && c <= '\r')) kind |= kSpace;
    kinds[c] = kind;
  }
  for (char c :
       {'~', '!', '@', '#', '^', '&', '|', '`', '?', '+', '-', '*', '/', '%', '<', '>', '='}) {
    kinds[static_cast<unsigned char>(c)] |= kOperator;
  }
  for (char c : {'~', '!', '@', '#', '^', '&', '|', '`', '?', '%'}) {
    kinds[static_cast<unsigned char>(c)] |= kSignKeeper;
  }
  return kinds;
}
inline constexpr std::array<std::uint8_t, 256> kCharacters = make_characters();

inline bool is(char c, std::uint8_t kind) noexcept {
  return (kCharacters[static_cast<unsigned char>(c)] & kind) != 0;
}

inline const char* digits_end(const char* at, const char* end) noexcept {
  while (at != end && (is(*at, kDigit) || *at == '_')) ++at;
  return at;
}

inline const char* exponent_end(const char* at, const char* end) noexcept {
  if (at == end || (*at != 'e' && *at != 'E')) return at;
  const char* digit = at + 1;
  if (digit != end && (*digit == '+' || *digit == '-')) ++digit;
  return digit != end && is(*digit, kDigit) ? digits_end(digit, end) : at;
}

/// Where the number ends that begins at `at` with a digit, or with a dot that has one behind it.
inline const char* number_end(const char* at, const char* end) noexcept {
  const auto peek = [at, end](std::size_t ahead) {
    return static_cast<std::size_t>(end - at) > ahead ? at[ahead] : '\0';
  };
  if (*at == '0') {
    const char radix = static_cast<char>(peek(1) | 0x20);
    if ((radix == 'x' || radix == 'o' || radix == 'b') && is(peek(peek(2) == '_' ? 3 : 2), kHexDigit)) {
      at += 2;
      while (at != end && (is(*at, kHexDigit) || *at == '_')) ++at;
      return at;
    }
  }
  at = digits_end(at, end);
  if (at != end && *at == '.' && (end - at == 1 || at[1] != '.')) at = digits_end(at + 1, end);
  return exponent_end(at, end);
}

}  // namespace scan_detail

/// A sink has `void token(TokenType, const char* begin, const char* end)` and `void comment(Bytes)`, which is given what stands
/// between the marks of a block comment; comments to the end of the line mean nothing to anybody.
template <class Sink>
class Scanner {
 public:
  Scanner(Bytes text, Dialect dialect, Sink& sink) noexcept
      : begin_(text.data()),
        at_(text.data()),
        end_(text.data() + text.size()),
        dialect_(dialect),
        sink_(sink) {}

  ScanEnd run() noexcept {
    using namespace scan_detail;
    while (at_ != end_) {
      const char c = *at_;
      const std::uint8_t kind = kCharacters[static_cast<unsigned char>(c)];
      bool fine = true;
      if ((kind & kNameStart) != 0) {
        fine = name();
      } else if ((kind & kSpace) != 0) {
        ++at_;
      } else if ((kind & kDigit) != 0) {
        fine = number();
      } else if ((kind & kOperator) != 0) {
        fine = operator_or_comment();
      } else {
        fine = other(c);
      }
      if (!fine) return ScanEnd::broken;
    }
    return ScanEnd::complete;
  }

 private:
  enum class Escapes : std::uint8_t { none, backslash };

  [[gnu::always_inline]] void emit(TokenType type, const char* begin) noexcept {
    sink_.token(type, begin, at_);
  }
  bool next_is(char c) const noexcept { return at_ != end_ && *at_ == c; }
  char peek(std::size_t ahead) const noexcept {
    return static_cast<std::size_t>(end_ - at_) > ahead ? at_[ahead] : '\0';
  }
  bool single(TokenType type) noexcept {
    ++at_;
    emit(type, at_ - 1);
    return true;
  }

  bool name() noexcept {
    using namespace scan_detail;
    const char* begin = at_;
    // In locals: what a sink writes may be anything, so members would be read again for each byte.
    const char* at = begin + 1;
    const char* const end = end_;
    while (at != end && is(*at, kNamePart)) ++at;
    at_ = at;
    if (at - begin == 1 && at_ != end_ && (*at_ == '\'' || *at_ == '&')) {
      switch (*begin) {
        case 'e':
        case 'E':
          if (*at_ == '\'') return literal(begin, Escapes::backslash);
          break;
        case 'b':
        case 'B':
        case 'x':
        case 'X':
          if (*at_ == '\'') return literal(begin, Escapes::none);
          break;
        case 'n':
        case 'N':
          if (*at_ == '\'') return literal(begin, plain());
          break;
        case 'u':
        case 'U':
          if (*at_ == '&' && peek(1) == '\'') {
            // PostgreSQL refuses these while backslashes are escapes.
            if (!dialect_.standard_conforming_strings) return false;
            ++at_;
            return literal(begin, Escapes::none);
          }
          if (*at_ == '&' && peek(1) == '"') {
            ++at_;
            return quoted(TokenType::unicode_name, begin);
          }
          break;
        default:
          break;
      }
    }
    emit(TokenType::name, begin);
    return true;
  }

  bool number() noexcept {
    const char* begin = at_;
    at_ = scan_detail::number_end(at_, end_);
    // "123abc" is an error since PostgreSQL 15; before, it was a number with an alias.
    if (at_ != end_ && scan_detail::is(*at_, scan_detail::kNameStart)) return false;
    emit(TokenType::number, begin);
    return true;
  }

  bool operator_or_comment() noexcept {
    if (*at_ == '-' && peek(1) == '-') return line_comment();
    if (*at_ == '/' && peek(1) == '*') return block_comment();
    // PostgreSQL takes the longest run, cuts it before a comment, and takes trailing + and - off
    // unless one of
    // ~!@#^&|`?% is in it. A run past kRunMax is an error there, or one-character operators.
    static constexpr int kRunMax = 128;
    const char* begin = at_;
    bool may_end_in_sign = false;
    for (int n = 0; n < kRunMax && at_ != end_ && scan_detail::is(*at_, scan_detail::kOperator);
         ++n) {
      if ((*at_ == '-' && peek(1) == '-') || (*at_ == '/' && peek(1) == '*')) break;
      if (scan_detail::is(*at_, scan_detail::kSignKeeper)) may_end_in_sign = true;
      ++at_;
    }
    if (!may_end_in_sign) {
      while (at_ - begin > 1 && (at_[-1] == '+' || at_[-1] == '-')) --at_;
    }
    emit(TokenType::op, begin);
    return true;
  }

  bool other(char c) noexcept {
    switch (c) {
      case '(':
        return single(TokenType::left_paren);
      case ')':
        return single(TokenType::right_paren);
      case '[':
        return single(TokenType::left_bracket);
      case ']':
        return single(TokenType::right_bracket);
      case ',':
        return single(TokenType::comma);
      case ';':
        return single(TokenType::semicolon);
      case '\'':
        return literal(at_, plain());
      case '"':
        return quoted(TokenType::quoted_name, at_);
      case '$':
        return dollar();
      case '.':
        if (scan_detail::is(peek(1), scan_detail::kDigit)) return number();
        if (peek(1) == '.') {  // 1..2 is a range, not 1. and .2
          at_ += 2;
          emit(TokenType::other, at_ - 2);
          return true;
        }
        return single(TokenType::dot);
      case ':': {
        const char* begin = at_++;
        const bool cast = next_is(':');
        if (cast || next_is('=')) ++at_;
        emit(cast ? TokenType::cast : TokenType::other, begin);
        return true;
      }
      default:
        return false;
    }
  }

  Escapes plain() const noexcept {
    return dialect_.standard_conforming_strings ? Escapes::none : Escapes::backslash;
  }

  /// at_ is on the opening quote. A string that is continued on a later line keeps the escapes it
  /// began with.
  bool literal(const char* begin, Escapes escapes) noexcept {
    do {
      ++at_;
      if (!string_body(escapes)) return false;
    } while (continued());
    sink_.token(TokenType::literal, begin, literal_end_);
    return true;
  }
  bool string_body(Escapes escapes) noexcept {
    for (;;) {
      if (escapes == Escapes::none) {
        const void* quote =
            at_ == end_ ? nullptr : std::memchr(at_, '\'', static_cast<std::size_t>(end_ - at_));
        if (quote == nullptr) return false;
        at_ = static_cast<const char*>(quote);
      } else {
        while (at_ != end_ && *at_ != '\'') {
          if (*at_ == '\\') {
            ++at_;
            if (at_ == end_) return false;
          }
          ++at_;
        }
        if (at_ == end_) return false;
      }
      ++at_;
      if (!next_is('\'')) {
        literal_end_ = at_;
        return true;
      }
      ++at_;
    }
  }
  /// White space and `--` comments with a line end among them, then a quote: the string goes on.
  /// Otherwise they are skipped, which the caller would do anyway.
  bool continued() noexcept {
    bool line_end = false;
    for (;;) {
      if (at_ == end_) return false;
      if (*at_ == '\n' || *at_ == '\r') {
        line_end = true;
        ++at_;
      } else if (scan_detail::is(*at_, scan_detail::kSpace)) {
        ++at_;
      } else if (*at_ == '-' && peek(1) == '-') {
        line_comment();
      } else {
        return line_end && *at_ == '\'';
      }
    }
  }

  /// at_ is on the opening quote.
  bool quoted(TokenType type, const char* begin) noexcept {
    const char* first = ++at_;
    for (;;) {
      const void* quote =
          at_ == end_ ? nullptr : std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_));
      if (quote == nullptr) return false;
      at_ = static_cast<const char*>(quote) + 1;
      if (!next_is('"')) break;
      ++at_;
    }
    if (at_ - first == 1) return false;  // PostgreSQL: zero-length delimited identifier
    emit(type, begin);
    return true;
  }

  bool dollar() noexcept {
    using namespace scan_detail;
    const char* begin = at_++;
    if (at_ != end_ && is(*at_, kDigit)) {
      while (at_ != end_ && is(*at_, kDigit)) ++at_;
      if (at_ != end_ && is(*at_, kNameStart)) return false;
      emit(TokenType::parameter, begin);
      return true;
    }
    if (at_ != end_ && is(*at_, kNameStart)) {
      while (at_ != end_ && is(*at_, kNamePart) && *at_ != '$') ++at_;
    }
    if (!next_is('$')) return false;
    ++at_;
    const Bytes delimiter(begin, static_cast<std::size_t>(at_ - begin));
    // Linear: a failed comparison from one $ never runs past the next one.
    for (;;) {
      const void* found =
          at_ == end_ ? nullptr : std::memchr(at_, '$', static_cast<std::size_t>(end_ - at_));
      if (found == nullptr) return false;
      at_ = static_cast<const char*>(found);
      if (static_cast<std::size_t>(end_ - at_) < delimiter.size()) return false;
      if (std::memcmp(at_, delimiter.data(), delimiter.size()) == 0) break;
      ++at_;
    }
    at_ += delimiter.size();
    emit(TokenType::literal, begin);
    return true;
  }

  bool line_comment() noexcept {
    const char* at = at_;
    while (at != end_ && *at != '\n' && *at != '\r') ++at;
    at_ = at;
    return true;
  }

  /// Comments nest; only a depth is kept.
  bool block_comment() noexcept {
    const char* begin = at_ + 2;
    std::size_t depth = 0;
    while (end_ - at_ >= 2) {
      if (at_[0] == '/' && at_[1] == '*') {
        ++depth;
        at_ += 2;
      } else if (at_[0] == '*' && at_[1] == '/') {
        at_ += 2;
        if (--depth == 0) {
          sink_.comment(Bytes(begin, static_cast<std::size_t>(at_ - 2 - begin)));
          return true;
        }
      } else {
        ++at_;
      }
    }
    return false;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  const char* literal_end_ = nullptr;
  Dialect dialect_;
  Sink& sink_;
};

}  // namespace pgweir::sql
