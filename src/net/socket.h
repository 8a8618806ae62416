// socket: file descriptors, socket addresses and socket options, as the rest of net needs them.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/io.h"

struct addrinfo;

namespace pgweir::net {

/// Owns a descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// A socket address of any family with its length.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};

/// How sockets behave; every zero leaves the system's own value.
struct SocketOptions {
  bool keepalive = true;
  std::chrono::seconds keepalive_idle{0};
  std::chrono::seconds keepalive_interval{0};
  int keepalive_count = 0;
  int socket_buffer_bytes = 0;
  std::chrono::milliseconds user_timeout{0};

  bool operator==(const SocketOptions&) const = default;
};

/// "the system's words for `error`".
std::string error_text(int error);

/// "127.0.0.1:5432", "[::1]:5432", "unix:/tmp/.s.PGSQL.5432".
std::string to_string(const io::Address& address);
/// "/tmp/.s.PGSQL.5432", "@name/.s.PGSQL.5432".
std::string unix_path(const io::Address& address);

/// A Unix socket's address; an error when the path is longer than the system allows.
Result<SocketAddress> unix_address(const io::Address& address);
/// The address of an IPv4 or IPv6 literal; size 0 when `host` is a name.
SocketAddress literal_address(const std::string& host, std::uint16_t port);
/// Every stream address of a getaddrinfo() answer, with `port` put in.
std::vector<SocketAddress> all_addresses(const addrinfo* found, std::uint16_t port);

void set_port(SocketAddress& address, std::uint16_t port) noexcept;

/// What a socket address says of an IP peer; for a Unix socket only its kind.
io::Address to_address(const SocketAddress& address);

/// TCP_NODELAY and what `options` asks for. Options that the system refuses are left as they are.
void apply(const SocketOptions& options, int fd) noexcept;

}  // namespace pgweir::net
