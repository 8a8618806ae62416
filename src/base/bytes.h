// base: what every module stands on: Result and Error, Bytes, ids, time, the intrusive list, chance,
// the log. It uses nothing of the project and does no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pgweir {

/// A view of bytes that somebody else owns. Bytes of the wire and text are the same type: PostgreSQL's
/// protocol is mostly text, and string_view brings the slicing and searching that both need.
using Bytes = std::string_view;

/// As substr(), for the paths that every message takes: nothing is checked, and no call is left where the compiler has inlined enough.
[[gnu::always_inline]] inline Bytes behind(Bytes bytes, std::size_t at) noexcept { return {bytes.data() + at, bytes.size() - at}; }
[[gnu::always_inline]] inline Bytes front_of(Bytes bytes, std::size_t size) noexcept { return {bytes.data(), size}; }

/// Big-endian numbers, as PostgreSQL's protocol writes them. `at` must have the bytes.
inline std::uint16_t load_u16(const char* at) noexcept {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  return static_cast<std::uint16_t>((p[0] << 8) | p[1]);
}
inline std::uint32_t load_u32(const char* at) noexcept {
  const auto* p = reinterpret_cast<const unsigned char*>(at);
  return (std::uint32_t{p[0]} << 24) | (std::uint32_t{p[1]} << 16) | (std::uint32_t{p[2]} << 8) | p[3];
}
inline void store_u16(char* at, std::uint16_t value) noexcept {
  at[0] = static_cast<char>(value >> 8);
  at[1] = static_cast<char>(value);
}
inline void store_u32(char* at, std::uint32_t value) noexcept {
  at[0] = static_cast<char>(value >> 24);
  at[1] = static_cast<char>(value >> 16);
  at[2] = static_cast<char>(value >> 8);
  at[3] = static_cast<char>(value);
}

}  // namespace pgweir
