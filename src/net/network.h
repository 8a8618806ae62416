// network: listening sockets, TCP and Unix.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "io/io.h"
#include "net/loop.h"
#include "net/socket.h"

namespace pgweir::net {

struct ListenOptions {
  int backlog = 128;
  bool reuse_port = false;
  /// Accept only when the client has sent something.
  bool defer_accept = true;
  unsigned unix_socket_mode = 0777;
  /// Group name or number of a Unix socket; empty leaves it.
  std::string unix_socket_group = {};
};

class SocketNetwork final : public io::Network {
 public:
  SocketNetwork(Loop& loop, Log& log) : loop_(loop), log_(log) {}

  /// For sockets that are accepted, and listeners that are opened, from now on.
  void configure(const ListenOptions& listening, const SocketOptions& accepted) {
    listening_ = listening;
    accepted_ = accepted;
  }

  /// A TCP host of "*" is every address of the machine, IPv4 and IPv6; a name is all its addresses.
  Result<std::unique_ptr<io::Listener>> listen(const io::Address& address,
                                               io::Acceptor& acceptor) override;

  /// Sockets that the process was started with: see take_passed_sockets() in process.h.
  void pass(std::vector<Fd> sockets) { passed_ = std::move(sockets); }
  std::vector<Inherited> inherited(io::Acceptor& acceptor) override;

 private:
  Result<Fd> open_tcp(const SocketAddress& address) const;
  Result<Fd> open_unix(const io::Address& address) const;

  Loop& loop_;
  Log& log_;
  ListenOptions listening_;
  SocketOptions accepted_;
  std::vector<Fd> passed_;
};

}  // namespace pgweir::net
