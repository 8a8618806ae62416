#include "net/port_group.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace pgweir::net {
namespace {

constexpr int kConnectPatienceMs = 20;

bool bound_address(int socket, SocketAddress& address) noexcept {
  address.size = sizeof address.storage;
  return getsockname(socket, address.get(), &address.size) == 0 &&
         (address.family() == AF_INET || address.family() == AF_INET6);
}

/// "0100007F:1900": the words of the address as the machine holds them, the port as people write
/// it.
std::string as_in_proc(const SocketAddress& address) {
  std::uint32_t words[4] = {};
  std::size_t count = 1;
  std::uint16_t port = 0;
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    std::memcpy(words, &v4->sin_addr, sizeof v4->sin_addr);
    port = ntohs(v4->sin_port);
  } else {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    std::memcpy(words, &v6->sin6_addr, sizeof v6->sin6_addr);
    port = ntohs(v6->sin6_port);
    count = 4;
  }
  std::string text;
  char part[16];
  for (std::size_t i = 0; i < count; ++i)
    text.append(part, static_cast<std::size_t>(std::snprintf(part, sizeof part, "%08X", words[i])));
  return text.append(part,
                     static_cast<std::size_t>(std::snprintf(part, sizeof part, ":%04X", port)));
}

bool attach(int socket, sock_filter* code, std::size_t size) noexcept {
  const sock_fprog program{static_cast<unsigned short>(size), code};
  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

}  // namespace

std::size_t group_size(int socket) {
  SocketAddress own;
  if (!bound_address(socket, own)) return 0;
  const char* path = own.family() == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> table(std::fopen(path, "re"), &std::fclose);
  if (!table) return 0;
  const std::string wanted = as_in_proc(own);
  std::size_t found = 0;
  char line[512];
  bool heading = true;
  while (std::fgets(line, sizeof line, table.get())) {
    if (std::exchange(heading, false)) continue;
    char local[64] = "";
    unsigned state = 0;
    if (std::sscanf(line, "%*s %63s %*s %x", local, &state) != 2) continue;
    if (state != 0x0A) break;  // Those that listen come first, and there may be very many others.
    if (wanted == local) ++found;
  }
  return found;
}

bool steer_to(int socket, std::size_t number) noexcept {
  sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, static_cast<std::uint32_t>(number))};
  return attach(socket, code, 1);
}

bool steer_past(int socket, std::size_t number, std::size_t size) noexcept {
  if (size < 2) return false;
  const auto last = static_cast<std::uint32_t>(size - 1);
  // One of 0 … last - 1 by chance; whoever would hit the number gets the last one in its place.
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM)),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, last),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, last), BPF_STMT(BPF_RET | BPF_A, 0)};
  return attach(socket, code, sizeof code / sizeof code[0]);
}

void stop_steering(int socket) noexcept {
  const int unused = 0;
  (void)setsockopt(socket, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof unused);
}

Probe knock_at_own_port(int socket) noexcept {
  SocketAddress to;
  if (!bound_address(socket, to)) return {};
  if (to.family() == AF_INET) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&to.storage);
    if (v4->sin_addr.s_addr == htonl(INADDR_ANY)) v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&to.storage);
    if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) v6->sin6_addr = in6addr_loopback;
  }
  Probe probe;
  probe.connection = Fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const linger reset{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(probe.connection.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  (void)::connect(probe.connection.get(), to.get(), to.size);
  pollfd stands{.fd = probe.connection.get(), .events = POLLOUT, .revents = 0};
  const bool connected =
      ::poll(&stands, 1, kConnectPatienceMs) == 1 && (stands.revents & (POLLERR | POLLHUP)) == 0;
  if (!connected || !bound_address(probe.connection.get(), probe.from)) probe.connection.reset();
  return probe;
}

}  // namespace pgweir::net
