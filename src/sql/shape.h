// The shape of a text: a keyed hash of its tokens without their literals. 128 bits of SipHash-1-3,
// so that a client who does not know the key can't make a write look like a read that is in the
// cache.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "sql/hint.h"
#include "sql/scanner.h"
#include "sql/statement_class.h"

namespace pgweir::sql {

struct ShapeKey {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

/// SipHash-1-3 over whole words, with the 128-bit output.
class SipHash {
 public:
  explicit SipHash(ShapeKey key) noexcept
      : v0_(key.first ^ 0x736f6d6570736575U),
        v1_(key.second ^ 0x646f72616e646f6dU ^ 0xeeU),
        v2_(key.first ^ 0x6c7967656e657261U),
        v3_(key.second ^ 0x7465646279746573U) {}

  void word(std::uint64_t value) noexcept {
    v3_ ^= value;
    round();
    v0_ ^= value;
  }

  /// `size` in bytes: the last word may be filled up.
  Shape finish(std::uint64_t size) noexcept {
    word(size);
    v2_ ^= 0xeeU;
    round();
    round();
    round();
    Shape shape;
    shape.low = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xddU;
    round();
    round();
    round();
    shape.high = v0_ ^ v1_ ^ v2_ ^ v3_;
    return shape;
  }

 private:
  [[gnu::always_inline]] void round() noexcept {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
};

/// Of the `size` bytes at `bytes`; seven more behind them must be there to write to.
inline Shape keyed_hash(ShapeKey key, char* bytes, std::size_t size) noexcept {
  std::memset(bytes + size, 0, sizeof(std::uint64_t) - 1);
  SipHash hash(key);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    hash.word(word);
  }
  return hash.finish(size);
}

/// Takes tokens and writes down what makes the shape: for each token a tag, a byte below any that a token begins with, and
/// behind it, for names, quoted names and operators, their text. No text of these holds such a byte outside of double
/// quotes, and quotes end themselves, so two lists of tokens never give the same bytes.
class ShapeSink {
 public:
  /// `written` is emptied and filled; its memory is the caller's to keep.
  ShapeSink(ShapeKey key, Dialect dialect, Bytes text, std::vector<char>& written)
      : key_(key), end_(text.data() + text.size()) {
    // Two bytes for each of the text is the most, and whole words are written at the end.
    if (written.size() < 2 * text.size() + kSlack) written.resize(2 * text.size() + kSlack);
    begin_ = at_ = written.data();
    *at_++ = dialect.standard_conforming_strings ? '\x01' : '\x02';
  }

  [[gnu::always_inline]] void token(TokenType type, const char* begin, const char* end) noexcept {
    switch (type) {
      case TokenType::name:
        return name(begin, end);
      case TokenType::quoted_name:
      case TokenType::unicode_name:
      case TokenType::op:
        close_list();
        put(tag(type));
        return copy(begin, end, [](std::uint64_t bytes) { return bytes; });
      case TokenType::literal:
      case TokenType::number:
      case TokenType::parameter:
        return value(type);
      case TokenType::left_paren: {
        const bool after_in = list_ == List::in;
        close_list();
        if (after_in) list_ = List::open;
        return put(tag(type));
      }
      case TokenType::comma:
        if (list_ == List::value) {
          list_ = List::comma;
          return;
        }
        close_list();
        return put(tag(type));
      case TokenType::dot:
        close_list();
        list_ = List::dot;
        return put(tag(type));
      case TokenType::other:
        // `:`, `:=` and `..` are told apart, too.
        close_list();
        put(tag(type));
        return put(static_cast<char>(static_cast<unsigned char>(end[-1]) & 0x1F));
      case TokenType::right_paren:
      case TokenType::left_bracket:
      case TokenType::right_bracket:
      case TokenType::semicolon:
      case TokenType::cast:
        close_list();
        return put(tag(type));
    }
  }

  void comment(Bytes comment) noexcept {
    const CommentHint hint = parse_hint(comment);
    if (!hint.any()) return;
    put(kHintTag);
    put(static_cast<char>(static_cast<int>(hint.target) | (hint.named ? kNamedBit : 0)));
  }

  Shape finish() noexcept { return keyed_hash(key_, begin_, static_cast<std::size_t>(at_ - begin_)); }

 private:
  /// `IN (1, 2, 3)` has the shape of `IN (1)`: lists of any length share an entry of the cache.
  enum class List : std::uint8_t { no, dot, in, open, value, comma };

  static constexpr std::size_t kSlack = 64;
  static constexpr char kHintTag = 0x1F;
  static constexpr int kNamedBit = 4;

  static constexpr char tag(TokenType type) noexcept { return static_cast<char>(static_cast<int>(type) + 3); }

  void put(char byte) noexcept { *at_++ = byte; }

  [[gnu::always_inline]] void close_list() noexcept {
    if (list_ == List::no) return;
    // A comma that was held back, and nothing to be taken together with it behind it.
    if (list_ == List::comma) put(tag(TokenType::comma));
    list_ = List::no;
  }

  void value(TokenType type) noexcept {
    if (list_ == List::comma) {
      list_ = List::value;
      return;
    }
    list_ = list_ == List::open ? List::value : List::no;
    put(tag(type));
  }

  void name(const char* begin, const char* end) noexcept {
    const bool after_dot = list_ == List::dot;
    close_list();
    char* const to = at_;
    *to = tag(TokenType::name);
    at_ = to + 1;
    copy(begin, end, lower);
    // A function may be called schema.in(…); how many arguments it has must not be lost.
    if (end - begin == 2 && !after_dot && at_[-2] == 'i' && at_[-1] == 'n') list_ = List::in;
  }

  /// Eight bytes at once where the text has as many; what is written too much is written over.
  template <class Change>
  [[gnu::always_inline]] void copy(const char* begin, const char* end, Change change) noexcept {
    char* to = at_;
    at_ += end - begin;
    do {
      std::uint64_t word = 0;
      if (end_ - begin >= static_cast<std::ptrdiff_t>(sizeof word)) {
        std::memcpy(&word, begin, sizeof word);
      } else {
        std::memcpy(&word, begin, static_cast<std::size_t>(end_ - begin));
      }
      word = change(word);
      std::memcpy(to, &word, sizeof word);
      begin += sizeof word;
      to += sizeof word;
    } while (begin < end);
  }

  /// A to Z in lower case, eight bytes at once; other bytes as they are.
  static std::uint64_t lower(std::uint64_t x) noexcept {
    constexpr std::uint64_t kOnes = 0x0101010101010101U;
    const std::uint64_t low_bits = x & (0x7f * kOnes);
    const std::uint64_t above_z = low_bits + (0x7f - 'Z') * kOnes;
    const std::uint64_t from_a = low_bits + (0x80 - 'A') * kOnes;
    const std::uint64_t upper = ~x & (above_z ^ from_a) & (0x80 * kOnes);
    return x | (upper >> 2);
  }

  ShapeKey key_;
  const char* end_;
  char* begin_;
  char* at_;
  List list_ = List::no;
};

}  // namespace pgweir::sql
