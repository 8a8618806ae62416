// What a client sends before its first message: packets with a length and no type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace pgweir::protocol {

/// As PostgreSQL's; a longer one is refused, so that an unknown peer can't make us keep much.
inline constexpr std::uint32_t kStartupSizeMax = 10000;

struct SslRequest {};
struct GssRequest {};
struct CancelRequest {
  std::uint32_t pid = 0;
  std::uint32_t key = 0;
};
using Parameter = std::pair<std::string, std::string>;
struct Startup {
  std::uint16_t major = 3;
  std::uint16_t minor = 0;
  std::vector<Parameter> parameters;          ///< In the order sent, without the _pq_ ones.
  std::vector<std::string> protocol_options;  ///< Names that begin with "_pq_.".

  /// Whether NegotiateProtocolVersion is due: something newer than 3.0 was asked for.
  bool asks_for_more() const noexcept { return minor > 0 || !protocol_options.empty(); }
  /// The value of a parameter, the last one when it was sent twice; nullptr when it was not.
  const std::string* find(std::string_view name) const noexcept;
};
using StartupPacket = std::variant<SslRequest, GssRequest, CancelRequest, Startup>;

/// The size of the packet at the front of `bytes`, its length field included; nullopt until that is
/// there. An error when it is below 8 or above kStartupSizeMax.
Result<std::optional<std::uint32_t>> startup_size(Bytes bytes);

/// Reads one whole packet, length field included. Errors have PgBouncer's texts where it has one,
/// and the SQLSTATE PostgreSQL uses.
Result<StartupPacket> parse_startup(Bytes packet);

/// Splits the startup parameter `options` as PostgreSQL does: words between blanks, a backslash
/// takes the next byte as it is, and of the words only "-c name=value", "-cname=value" and
/// "--name=value" are allowed. A dash in a name is an underscore.
Result<std::vector<Parameter>> parse_options(Bytes value);

}  // namespace pgweir::protocol
