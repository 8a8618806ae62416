// IP addresses as bytes, and networks of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pgweir {

struct IpAddress {
  bool v6 = false;
  std::array<unsigned char, 16> bytes{};  ///< the first four of IPv4

  bool operator==(const IpAddress&) const = default;
};

/// "10.1.2.3", "fe80::1", "fe80::1%eth0" (the zone says nothing here); an IPv4 address that is written
/// as IPv6 (::ffff:10.1.2.3) is IPv4. nullopt: none of these.
std::optional<IpAddress> parse_ip(std::string_view text) noexcept;

struct IpNetwork {
  IpAddress address;
  IpAddress mask;

  /// Never across the two families.
  bool holds(const IpAddress& ip) const noexcept;
  bool operator==(const IpNetwork&) const = default;
};

/// "10.0.0.0/8", "::1/128"; ::ffff:10.0.0.0/104 is the first of them. Bits of the address behind the mask don't matter.
std::optional<IpNetwork> parse_network(std::string_view text) noexcept;
/// Of an address and its mask written out: 10.0.0.0 255.0.0.0.
std::optional<IpNetwork> parse_network(std::string_view address, std::string_view mask) noexcept;
/// This machine alone can be reached by it: 127.0.0.0/8, ::1.
bool is_loopback(const IpAddress& ip) noexcept;

}  // namespace pgweir
