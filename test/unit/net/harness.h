// harness: a loop that turns until something is so, over real loopback sockets with short bounds.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "net/dialer.h"
#include "net/loop.h"
#include "net/network.h"
#include "net/resolver.h"
#include "net/transport.h"

namespace pgweir::net {

class QuietLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message) noexcept override {
    lines.push_back(std::string(to_string(level)) + " " + std::string(message));
  }
  bool wants(LogLevel) const noexcept override { return true; }
  std::vector<std::string> lines;
};

struct World final : io::Turner {
  Loop loop;
  QuietLog log;
  Resolver resolver{loop};
  Tls tls{loop};
  SocketDialer dialer{loop, resolver, tls};
  SocketNetwork network{loop, log};
  std::function<bool()> done;
  Time give_up{};
  int turns = 0;

  Time turn() noexcept override {
    ++turns;
    if (done() || loop.now() >= give_up) loop.stop();
    return loop.now() + std::chrono::milliseconds(5);
  }
  /// Whether `condition` came true within five seconds.
  bool until(std::function<bool()> condition) {
    done = std::move(condition);
    give_up = Time(std::chrono::duration_cast<Duration>(
                  std::chrono::steady_clock::now().time_since_epoch())) +
              std::chrono::seconds(5);
    loop.run(*this);
    return done();
  }
};

/// Records what a transport tells.
struct Recorder final : io::TransportUser {
  void on_connected() noexcept override { connected = true; }
  void on_bytes(Bytes bytes) noexcept override {
    ++spans;
    got += bytes;
    if (on_data) on_data(bytes);
  }
  void on_drained() noexcept override {
    ++drained;
    if (on_room) on_room();
  }
  void on_closed(const Error& why) noexcept override {
    ++closed;
    reason = why.text();
  }

  bool connected = false;
  int spans = 0;
  int drained = 0;
  int closed = 0;
  std::string got;
  std::string reason;
  std::function<void(Bytes)> on_data;
  std::function<void()> on_room;
};

/// Admits everybody.
struct Host final : io::Acceptor {
  struct Guest {
    Recorder user;
    std::unique_ptr<io::Transport> transport;
  };
  void on_accepted(std::unique_ptr<io::Door> door) noexcept override {
    auto guest = std::make_unique<Guest>();
    guest->transport = door->admit(guest->user);
    guests.push_back(std::move(guest));
  }
  std::vector<std::unique_ptr<Guest>> guests;
};

/// A transport with a plain socket at the other end.
struct Pair {
  explicit Pair(World& world) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    other = Fd(ends[1]);
    transport = std::make_unique<SocketTransport>(world.loop, user, Fd(ends[0]), io::Address{},
                                                  io::Address{}, -1);
  }
  /// What has arrived at the other end by now.
  std::string received() const {
    std::string out;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::recv(other.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;) {
      out.append(buffer, static_cast<std::size_t>(got));
    }
    return out;
  }
  void say(std::string_view text) const {
    REQUIRE(::send(other.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  Recorder user;
  Fd other;
  std::unique_ptr<SocketTransport> transport;
};

}  // namespace pgweir::net
