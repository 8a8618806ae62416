#include "net/dialer.h"

#include "base/text.h"

namespace pgweir::net {
namespace {

/// A transport that may still wait for its name; it leaves the queue when it dies.
class DialledTransport final : public io::Transport, private NameUser {
 public:
  DialledTransport(Loop& loop, io::TransportUser& user, const io::Address& address,
                   const SocketOptions& options)
      : port_(address.port), socket_(loop, user, address, options) {}
  ~DialledTransport() = default;

  void begin(Resolver& resolver, const io::Address& address) {
    if (address.kind == io::Address::Kind::unix_socket) {
      Result<SocketAddress> path = unix_address(address);
      if (path) {
        socket_.connect({*path});
      } else {
        socket_.fail(path.error());
      }
      return;
    }
    if (SocketAddress literal = literal_address(address.host, address.port); literal.size > 0) {
      socket_.connect({literal});
      return;
    }
    resolver.resolve(address.host, *this);
  }

  void send(Bytes bytes) noexcept override { socket_.send(bytes); }
  bool congested() const noexcept override { return socket_.congested(); }
  void pause(bool on) noexcept override { socket_.pause(on); }
  void close() noexcept override { socket_.close(); }
  io::Address peer() const override { return socket_.peer(); }
  io::Address local() const override { return socket_.local(); }
  std::int64_t peer_uid() const noexcept override { return socket_.peer_uid(); }

 private:
  void on_resolved(const Result<std::vector<SocketAddress>>& found) noexcept override {
    if (socket_.state() != SocketState::resolving) return;  // Closed meanwhile.
    if (!found) {
      socket_.fail(found.error());
      return;
    }
    std::vector<SocketAddress> addresses = *found;
    for (SocketAddress& address : addresses) set_port(address, port_);
    socket_.connect(std::move(addresses));
  }

  std::uint16_t port_;
  SocketTransport socket_;
};

}  // namespace

std::unique_ptr<io::Transport> SocketDialer::dial(const io::Address& address,
                                                  io::TransportUser& user) {
  auto transport = std::make_unique<DialledTransport>(loop_, user, address, options_);
  transport->begin(resolver_, address);
  return transport;
}

}  // namespace pgweir::net
