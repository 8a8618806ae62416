// The PROXY protocol, versions 1 and 2: what a proxy puts in front of a connection so that whoever is
// behind it learns who the client is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace pgweir::protocol {

struct ProxyHeader {
  std::size_t size = 0;  ///< on the wire
  /// The client's IP address and port. Empty and 0 when the proxy speaks for itself (a health check), or
  /// for a client that came to it by other means than TCP.
  std::string host = {};
  std::uint16_t port = 0;
};

/// The header at the front of `bytes`; nullopt until all of it is there. An error when it is none: on a
/// connection that must begin with one, nothing else may be taken for the client's words.
Result<std::optional<ProxyHeader>> parse_proxy_header(Bytes bytes);

/// The header of who speaks for himself and for no client, in version 2.
void append_proxy_local(std::string& out);

}  // namespace pgweir::protocol
