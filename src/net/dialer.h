// dialer: names and addresses to connections, encrypted where that is asked for. Names are resolved
// by libuv's thread pool and remembered for a while, because a pool that fills up asks for the same
// name again and again.
#pragma once

#include <memory>

#include "io/io.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/tls.h"
#include "net/transport.h"

namespace pgweir::net {

class SocketDialer final : public io::Dialer {
 public:
  SocketDialer(Loop& loop, Resolver& resolver, Tls& tls) noexcept
      : loop_(loop), resolver_(resolver), tls_(tls) {}

  /// For connections dialled from now on.
  void configure(const SocketOptions& options) noexcept { options_ = options; }

  std::vector<io::KnownName> names() const override { return resolver_.names(); }
  using io::Dialer::dial;
  /// Unix sockets are never encrypted.
  std::unique_ptr<io::Transport> dial(const io::Address& address, io::TransportUser& user,
                                      const io::DialTls& tls) override;

 private:
  Loop& loop_;
  Resolver& resolver_;
  Tls& tls_;
  SocketOptions options_;
};

}  // namespace pgweir::net
