// Sixteen bytes of a text at once, and which of them are of some kind, as a bit for each (the lowest for the first). With SSE2,
// which every x86-64 has, and the same written plainly for other machines; a test holds the two against each other.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pgweir::sql {

inline constexpr std::size_t kBlockBytes = 16;

namespace block_detail {

/// The bytes at which an outline can't just go on (outline.h): where a value, a quoted name or a comment may begin, and the
/// byte 0. `#`, `%` and `&` lie between the quotes and are taken along, because a range is cheaper to find than a set.
constexpr bool is_stop(unsigned char c) noexcept {
  return c == 0 || c == '-' || (c >= '"' && c <= '\'') || (c >= '/' && c <= '9');
}

constexpr std::array<bool, 256> make_stops() {
  std::array<bool, 256> stops{};
  for (std::size_t c = 0; c < 256; ++c) stops[c] = is_stop(static_cast<unsigned char>(c));
  return stops;
}
inline constexpr std::array<bool, 256> kStops = make_stops();

}  // namespace block_detail

class PortableBlock {
 public:
  static PortableBlock load(const char* from) noexcept {
    PortableBlock block;
    std::memcpy(block.bytes_.data(), from, kBlockBytes);
    return block;
  }
  void store(char* to) const noexcept { std::memcpy(to, bytes_.data(), kBlockBytes); }
  std::uint32_t equal(char c) const noexcept {
    return bits([c](char byte) { return byte == c; });
  }
  std::uint32_t stops() const noexcept {
    return bits([](char byte) { return block_detail::kStops[static_cast<unsigned char>(byte)]; });
  }

 private:
  template <class Test>
  std::uint32_t bits(Test test) const noexcept {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < kBlockBytes; ++i) found |= static_cast<std::uint32_t>(test(bytes_[i])) << i;
    return found;
  }
  std::array<char, kBlockBytes> bytes_;
};

#if defined(__SSE2__)

class Sse2Block {
 public:
  static Sse2Block load(const char* from) noexcept {
    return Sse2Block(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  void store(char* to) const noexcept { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes_); }
  std::uint32_t equal(char c) const noexcept { return bits(_mm_cmpeq_epi8(bytes_, _mm_set1_epi8(c))); }
  std::uint32_t stops() const noexcept {
    const __m128i quotes = within('"', '\'');
    const __m128i digits = within('/', '9');
    const __m128i minus = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('-'));
    const __m128i zero = _mm_cmpeq_epi8(bytes_, _mm_setzero_si128());
    return bits(_mm_or_si128(_mm_or_si128(quotes, digits), _mm_or_si128(minus, zero)));
  }

 private:
  explicit Sse2Block(__m128i bytes) noexcept : bytes_(bytes) {}
  static std::uint32_t bits(__m128i mask) noexcept { return static_cast<std::uint32_t>(_mm_movemask_epi8(mask)); }
  /// SSE2 compares signed bytes only: moved up so far that `last` is the highest of them, one comparison finds a range.
  __m128i within(char first, char last) const noexcept {
    const int up = 0x7F - last;
    const __m128i moved = _mm_add_epi8(bytes_, _mm_set1_epi8(static_cast<char>(up)));
    return _mm_cmpgt_epi8(moved, _mm_set1_epi8(static_cast<char>(first + up - 1)));
  }
  __m128i bytes_;
};
using ByteBlock = Sse2Block;

#else

using ByteBlock = PortableBlock;

#endif

}  // namespace pgweir::sql
