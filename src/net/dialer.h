// dialer: names and addresses to connections. Names are resolved by libuv's thread pool and
// remembered for a while, because a pool that fills up asks for the same name again and again.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>

#include "io/io.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/transport.h"

namespace pgweir::net {

class SocketDialer final : public io::Dialer {
 public:
  SocketDialer(Loop& loop, Resolver& resolver) : loop_(loop), resolver_(resolver) {}

  /// For connections dialled from now on.
  void configure(const SocketOptions& options) noexcept { options_ = options; }

  std::unique_ptr<io::Transport> dial(const io::Address& address, io::TransportUser& user) override;

 private:
  Loop& loop_;
  Resolver& resolver_;
  SocketOptions options_;
};

}  // namespace pgweir::net
