#include "base/ip.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace pgweir {
namespace {

constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

IpAddress mask_of(bool v6, unsigned bits) noexcept {
  IpAddress mask{.v6 = v6};
  for (unsigned i = 0; i < bits; ++i)
    mask.bytes[i / 8] = static_cast<unsigned char>(mask.bytes[i / 8] | (0x80U >> (i % 8)));
  return mask;
}

/// As written: an IPv4 address within IPv6 stays one of IPv6.
std::optional<IpAddress> parse_plain(std::string_view text) noexcept {
  char terminated[64];
  if (text.empty() || text.size() >= sizeof terminated) return std::nullopt;
  *std::copy(text.begin(), text.end(), terminated) = '\0';
  IpAddress ip;
  if (inet_pton(AF_INET, terminated, ip.bytes.data()) == 1) return ip;
  ip.v6 = true;
  if (inet_pton(AF_INET6, terminated, ip.bytes.data()) == 1) return ip;
  return std::nullopt;
}

bool is_mapped(const IpAddress& ip) noexcept {
  return ip.v6 && std::equal(kMapped.begin(), kMapped.end(), ip.bytes.begin());
}

IpAddress last_four(const IpAddress& ip) noexcept {
  IpAddress v4;
  std::copy(ip.bytes.begin() + kMapped.size(), ip.bytes.end(), v4.bytes.begin());
  return v4;
}

/// A network within ::ffff:0:0/96 is one of IPv4: addresses in it are read as such.
IpNetwork unmapped(const IpNetwork& network) noexcept {
  const bool within = is_mapped(network.address) &&
                      std::all_of(network.mask.bytes.begin(), network.mask.bytes.begin() + kMapped.size(),
                                  [](unsigned char byte) { return byte == 0xff; });
  return within ? IpNetwork{last_four(network.address), last_four(network.mask)} : network;
}

}  // namespace

std::optional<IpAddress> parse_ip(std::string_view text) noexcept {
  std::optional<IpAddress> ip = parse_plain(text.substr(0, text.find('%')));
  return ip && is_mapped(*ip) ? last_four(*ip) : ip;
}

bool IpNetwork::holds(const IpAddress& ip) const noexcept {
  if (ip.v6 != address.v6) return false;
  for (std::size_t i = 0; i < ip.bytes.size(); ++i) {
    if (((ip.bytes[i] ^ address.bytes[i]) & mask.bytes[i]) != 0) return false;
  }
  return true;
}

std::optional<IpNetwork> parse_network(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::optional<IpAddress> address = parse_plain(text.substr(0, slash));
  const std::string_view length = text.substr(slash + 1);
  unsigned bits = 0;
  const auto [end, problem] = std::from_chars(length.data(), length.data() + length.size(), bits);
  if (!address || problem != std::errc() || end != length.data() + length.size() ||
      bits > (address->v6 ? 128U : 32U)) {
    return std::nullopt;
  }
  return unmapped({*address, mask_of(address->v6, bits)});
}

std::optional<IpNetwork> parse_network(std::string_view address, std::string_view mask) noexcept {
  const std::optional<IpAddress> ip = parse_plain(address);
  const std::optional<IpAddress> of_mask = parse_plain(mask);
  if (!ip || !of_mask || ip->v6 != of_mask->v6) return std::nullopt;
  return unmapped({*ip, *of_mask});
}

bool is_loopback(const IpAddress& ip) noexcept {
  static constexpr std::array<unsigned char, 16> kV6 = {0, 0, 0, 0, 0, 0, 0, 0,
                                                        0, 0, 0, 0, 0, 0, 0, 1};
  return ip.v6 ? ip.bytes == kV6 : ip.bytes[0] == 127;
}

}  // namespace pgweir
