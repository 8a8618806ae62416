#include "net/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <system_error>

#include "base/text.h"

namespace pgweir::net {
namespace {

void set_option(int fd, int level, int name, int value) noexcept {
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

void Fd::reset() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string error_text(int error) { return std::generic_category().message(error); }

std::string unix_path(const io::Address& address) {
  return concat({address.host, "/.s.PGSQL.", std::to_string(address.port)});
}

std::string to_string(const io::Address& address) {
  if (address.kind == io::Address::Kind::unix_socket) return "unix:" + unix_path(address);
  const bool v6 = address.host.find(':') != std::string::npos;
  return concat({v6 ? "[" : "", address.host, v6 ? "]:" : ":", std::to_string(address.port)});
}

Result<SocketAddress> unix_address(const io::Address& address) {
  const std::string path = unix_path(address);
  SocketAddress out;
  auto* un = reinterpret_cast<sockaddr_un*>(&out.storage);
  if (path.size() >= sizeof un->sun_path) {
    return Error(concat({"unix socket path \"", path, "\" is too long: expected less than ",
                         std::to_string(sizeof un->sun_path), " bytes"}));
  }
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.data(), path.size());
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (path.front() == '@') {
    un->sun_path[0] =
        '\0';  // Linux's abstract names begin with NUL, and end where the length says.
  } else {
    ++out.size;
  }
  return out;
}

SocketAddress literal_address(const std::string& host, std::uint16_t port) {
  SocketAddress out;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    out.size = sizeof *v4;
  } else if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    out.size = sizeof *v6;
  }
  set_port(out, port);
  return out;
}

std::vector<SocketAddress> all_addresses(const addrinfo* found, std::uint16_t port) {
  std::vector<SocketAddress> out;
  for (; found; found = found->ai_next) {
    if (found->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    address.size = found->ai_addrlen;
    set_port(address, port);
    out.push_back(address);
  }
  return out;
}

void set_port(SocketAddress& address, std::uint16_t port) noexcept {
  if (address.family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  } else if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  }
}

io::Address to_address(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return {.kind = io::Address::Kind::tcp, .host = text, .port = ntohs(v4->sin_port)};
  }
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return {.kind = io::Address::Kind::tcp, .host = text, .port = ntohs(v6->sin6_port)};
  }
  return {.kind = io::Address::Kind::unix_socket, .host = "", .port = 0};
}

void apply(const SocketOptions& options, int fd) noexcept {
  if (options.socket_buffer_bytes > 0) {
    set_option(fd, SOL_SOCKET, SO_SNDBUF, options.socket_buffer_bytes);
    set_option(fd, SOL_SOCKET, SO_RCVBUF, options.socket_buffer_bytes);
  }
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.user_timeout.count() > 0) {
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options.user_timeout.count()));
  }
  if (!options.keepalive) return;
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (options.keepalive_idle.count() > 0) {
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(options.keepalive_idle.count()));
  }
  if (options.keepalive_interval.count() > 0) {
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL,
               static_cast<int>(options.keepalive_interval.count()));
  }
  if (options.keepalive_count > 0)
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options.keepalive_count);
}

}  // namespace pgweir::net
