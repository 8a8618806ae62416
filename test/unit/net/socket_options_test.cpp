// The options that sockets are opened with, as the kernel tells them.
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstdlib>

#include "harness.h"
#include "net/socket.h"

namespace pgweir::net {
namespace {

/// The descriptors of this process that are TCP sockets bound to `port` of loopback.
std::vector<int> sockets_on(std::uint16_t port) {
  std::vector<int> found;
  DIR* folder = ::opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sin_family == AF_INET && ntohs(address.sin_port) == port)
      found.push_back(fd);
  }
  ::closedir(folder);
  return found;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(fd, level, name, &value, &size) == 0);
  return value;
}

bool listens(int fd) { return option(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0; }

std::uint16_t port_of(const io::Listener& listener) {
  const std::string name = listener.name();
  return static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
}

TEST_CASE("accepted and dialled sockets have the keepalive, buffers and time-out that were asked for",
          "[net]") {
  using namespace std::chrono_literals;
  const SocketOptions asked{.keepalive = true,
                            .keepalive_idle = 71s,
                            .keepalive_interval = 13s,
                            .keepalive_count = 4,
                            .socket_buffer_bytes = 20000,
                            .user_timeout = 17000ms};
  World world;
  world.network.configure({}, asked);
  world.dialer.configure(asked);
  Host host;
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  REQUIRE(listener.ok());
  Recorder user;
  auto transport = world.dialer.dial({.host = "127.0.0.1", .port = port_of(**listener)}, user);
  transport->send("x");
  REQUIRE(world.until([&] { return host.guests.size() == 1 && user.connected; }));
  int looked_at = 0;
  for (const std::uint16_t port : {port_of(**listener), transport->local().port}) {
    for (const int fd : sockets_on(port)) {
      if (listens(fd)) continue;
      ++looked_at;
      CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
      CHECK(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 71);
      CHECK(option(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 13);
      CHECK(option(fd, IPPROTO_TCP, TCP_KEEPCNT) == 4);
      CHECK(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 17000);
      CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
      // The kernel doubles what it is told.
      CHECK(option(fd, SOL_SOCKET, SO_SNDBUF) == 40000);
      CHECK(option(fd, SOL_SOCKET, SO_RCVBUF) == 40000);
    }
  }
  CHECK(looked_at == 2);
}

TEST_CASE("keepalive can be turned off", "[net]") {
  World world;
  world.network.configure({}, {.keepalive = false});
  Host host;
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  REQUIRE(listener.ok());
  Recorder user;
  auto transport = world.dialer.dial({.host = "127.0.0.1", .port = port_of(**listener)}, user);
  transport->send("x");
  REQUIRE(world.until([&] { return host.guests.size() == 1; }));
  int looked_at = 0;
  for (const int fd : sockets_on(port_of(**listener))) {
    if (listens(fd)) continue;
    ++looked_at;
    CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 0);
  }
  CHECK(looked_at == 1);
}

TEST_CASE("a listener has the backlog and waits for data as asked", "[net]") {
  for (const bool defer : {false, true}) {
    CAPTURE(defer);
    World world;
    world.network.configure({.backlog = 37, .defer_accept = defer}, {});
    Host host;
    auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
    REQUIRE(listener.ok());
    int looked_at = 0;
    for (const int fd : sockets_on(port_of(**listener))) {
      if (!listens(fd)) continue;
      ++looked_at;
      tcp_info info{};
      socklen_t size = sizeof info;
      REQUIRE(::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0);
      CHECK(info.tcpi_sacked == 37);  // Of a listening socket: its backlog.
      CHECK((option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0) == defer);
    }
    CHECK(looked_at == 1);
  }
}

}  // namespace
}  // namespace pgweir::net
