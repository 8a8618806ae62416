// The shape of a text: a keyed hash of its tokens without their literals. 128 bits of SipHash-1-3,
// so that a client who does not know the key can't make a write look like a read that is in the
// cache.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
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
    ++words_;
  }

  Shape finish() noexcept {
    word(words_);
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
  std::uint64_t words_ = 0;
};

/// Takes tokens and hashes what makes the shape. Each word that is fed has its kind in the top byte
/// and up to seven bytes below, so that two lists of tokens never give the same words.
class ShapeSink {
 public:
  ShapeSink(ShapeKey key, Dialect dialect, Bytes text) noexcept
      : hash_(key), end_(text.data() + text.size()) {
    hash_.word(dialect.standard_conforming_strings ? 1 : 0);
  }

  void token(TokenType type, const char* begin, const char* end) noexcept {
    switch (type) {
      case TokenType::name:
        return name(begin, end);
      case TokenType::quoted_name:
      case TokenType::unicode_name:
      case TokenType::op:
        return bytes(type, begin, end);
      case TokenType::literal:
      case TokenType::number:
      case TokenType::parameter:
        return value(type);
      case TokenType::left_paren: {
        const bool after_in = list_ == List::in;
        close_list();
        if (after_in) list_ = List::open;
        return hash_.word(tag(type));
      }
      case TokenType::comma:
        if (list_ == List::value) {
          list_ = List::comma;
          return;
        }
        close_list();
        return hash_.word(tag(type));
      case TokenType::dot:
        close_list();
        list_ = List::dot;
        return hash_.word(tag(type));
      case TokenType::right_paren:
      case TokenType::left_bracket:
      case TokenType::right_bracket:
      case TokenType::semicolon:
      case TokenType::cast:
      case TokenType::other:
        close_list();
        return hash_.word(tag(type));
    }
  }

  void hint(Hint hint) noexcept { hash_.word(kHintTag | static_cast<std::uint64_t>(hint)); }
  Shape finish() noexcept { return hash_.finish(); }

 private:
  /// `IN (1, 2, 3)` has the shape of `IN (1)`: lists of any length share an entry of the cache.
  enum class List : std::uint8_t { no, dot, in, open, value, comma };

  static constexpr std::uint64_t kNameTag = 0x80ULL << 56;
  static constexpr std::uint64_t kMoreTag = 0x81ULL << 56;
  static constexpr std::uint64_t kHintTag = 0x82ULL << 56;
  static constexpr std::uint64_t kSevenBytes = (1ULL << 56) - 1;

  static std::uint64_t tag(TokenType type) noexcept {
    return (static_cast<std::uint64_t>(type) + 1) << 56;
  }

  void close_list() noexcept {
    // A comma that was held back, and nothing to be taken together with it behind it.
    if (list_ == List::comma) hash_.word(tag(TokenType::comma));
    list_ = List::no;
  }

  void value(TokenType type) noexcept {
    if (list_ == List::comma) {
      list_ = List::value;
      return;
    }
    list_ = list_ == List::open ? List::value : List::no;
    hash_.word(tag(type));
  }

  void name(const char* begin, const char* end) noexcept {
    const bool after_dot = list_ == List::dot;
    close_list();
    std::uint64_t tag = kNameTag;
    std::uint64_t chunk = 0;
    for (const char* at = begin; at < end; at += 7) {
      chunk = lower(load(at, end));
      hash_.word(tag | chunk);
      tag = kMoreTag;
    }
    // A function may be called schema.in(…); how many arguments it has must not be lost.
    if (end - begin == 2 && !after_dot && chunk == ('i' | ('n' << 8))) list_ = List::in;
  }

  void bytes(TokenType type, const char* begin, const char* end) noexcept {
    close_list();
    std::uint64_t word_tag = tag(type);
    hash_.word(word_tag | static_cast<std::uint64_t>(end - begin));
    for (const char* at = begin; at < end; at += 7) hash_.word(kMoreTag | load(at, end));
  }

  /// Up to seven bytes as a little-endian number, zeros behind them.
  std::uint64_t load(const char* at, const char* end) const noexcept {
    std::uint64_t value = 0;
    const std::size_t size = static_cast<std::size_t>(end - at);
    if constexpr (std::endian::native == std::endian::little) {
      if (static_cast<std::size_t>(end_ - at) >= sizeof value) {
        std::memcpy(&value, at, sizeof value);
        return value & (size >= 7 ? kSevenBytes : (1ULL << (size * 8)) - 1);
      }
    }
    for (std::size_t i = 0; i < 7 && i < size; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << (i * 8);
    }
    return value;
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

  SipHash hash_;
  const char* end_;
  List list_ = List::no;
};

}  // namespace pgweir::sql
