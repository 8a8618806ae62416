#include "tokens/lsn.h"

#include <cstdio>

namespace pgweir::tokens {

namespace {

/// One to eight hex digits, nothing else.
std::optional<std::uint32_t> parse_half(Bytes text) noexcept {
  if (text.empty() || text.size() > 8) return std::nullopt;
  std::uint32_t value = 0;
  for (char c : text) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<unsigned>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  return value;
}

}  // namespace

std::optional<Lsn> parse_lsn(Bytes text) noexcept {
  const std::size_t slash = text.find('/');
  if (slash == Bytes::npos) return std::nullopt;
  const std::optional<std::uint32_t> high = parse_half(text.substr(0, slash));
  const std::optional<std::uint32_t> low = parse_half(text.substr(slash + 1));
  if (!high || !low) return std::nullopt;
  return Lsn{std::uint64_t{*high} << 32 | *low};
}

std::string to_string(Lsn lsn) {
  char text[20];
  const int length =
      std::snprintf(text, sizeof text, "%X/%X", static_cast<unsigned>(lsn.value >> 32),
                    static_cast<unsigned>(lsn.value & 0xFFFF'FFFFU));
  return {text, static_cast<std::size_t>(length)};
}

Lsn before_page_header(Lsn insert, WalGeometry geometry) noexcept {
  constexpr std::uint64_t kShortHeaderBytes = 24;
  constexpr std::uint64_t kLongHeaderBytes =
      40;  // The first page of a segment says more about itself.
  if (geometry.block_bytes == 0 || geometry.segment_bytes == 0) return insert;
  const std::uint64_t in_page = insert.value % geometry.block_bytes;
  const Lsn page_start{insert.value - in_page};
  const bool first_of_segment = page_start.value % geometry.segment_bytes == 0;
  return in_page == (first_of_segment ? kLongHeaderBytes : kShortHeaderBytes) ? page_start : insert;
}

}  // namespace pgweir::tokens
