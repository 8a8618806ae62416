// What a pooler does with two transports: pass on, stop the source while the other side is behind,
// go on.
#include <random>

#include "harness.h"

namespace pgweir::net {
namespace {

struct Forwarder final : io::TransportUser {
  void on_bytes(Bytes bytes) noexcept override {
    while (!bytes.empty()) {
      const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + dice() % 30'000);
      to->send(bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
    if (to->congested()) {
      ++pauses;
      from->pause(true);
    }
    // What a pause is worth: not more than a few spans pile up behind a slow peer.
    passed_on_while_congested = to->congested() ? passed_on_while_congested + 1 : 0;
    worst = std::max(worst, passed_on_while_congested);
  }
  void on_drained() noexcept override {}
  void on_closed(const Error&) noexcept override { closed = true; }

  std::minstd_rand dice{7};
  io::Transport* from = nullptr;
  io::Transport* to = nullptr;
  int pauses = 0;
  int passed_on_while_congested = 0;
  int worst = 0;
  bool closed = false;
};

struct Target final : io::TransportUser {
  void on_bytes(Bytes) noexcept override {}
  void on_drained() noexcept override { source->pause(false); }
  void on_closed(const Error&) noexcept override {}
  io::Transport* source = nullptr;
};

TEST_CASE("megabytes pass through to a slow reader in order and within bounds", "[net]") {
  World world;
  int in[2];
  int out[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, in) == 0);
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, out) == 0);
  const Fd writer(in[1]);
  const Fd reader(out[1]);
  Forwarder forwarder;
  Target target;
  SocketTransport source(world.loop, forwarder, Fd(in[0]), {}, io::Address{}, -1);
  SocketTransport sink(world.loop, target, Fd(out[0]), {}, io::Address{}, -1);
  forwarder.from = target.source = &source;
  forwarder.to = &sink;

  constexpr std::size_t kAll = 20'000'000;
  std::minstd_rand dice(1);
  std::string all(kAll, '\0');
  for (char& c : all) c = static_cast<char>(dice());
  std::size_t written = 0;
  std::size_t read = 0;
  bool same = true;
  std::string buffer(100'000, '\0');
  REQUIRE(world.until([&] {
    for (int step = 0; step < 20; ++step) {
      const std::size_t give = std::min<std::size_t>(kAll - written, 1 + dice() % 90'000);
      const ssize_t put = ::send(writer.get(), all.data() + written, give, MSG_NOSIGNAL);
      if (put > 0) written += static_cast<std::size_t>(put);
      // Reads less than it is offered, so that the way out fills up.
      if (step % 2 != 0) continue;
      const ssize_t got = ::recv(reader.get(), buffer.data(), 1 + dice() % buffer.size(), 0);
      if (got <= 0) continue;
      same = same && all.compare(read, static_cast<std::size_t>(got), buffer.data(),
                                 static_cast<std::size_t>(got)) == 0;
      read += static_cast<std::size_t>(got);
    }
    return read == kAll;
  }));
  REQUIRE(same);
  REQUIRE(forwarder.pauses > 0);
  REQUIRE(forwarder.worst <= 2);
}

TEST_CASE("both sides behind at once, and one of them resets: the other hears of it", "[net]") {
  World world;
  Pair client(world);
  Pair server(world);
  client.user.on_data = [&](Bytes) {};
  while (!client.transport->congested()) client.transport->send(std::string(100'000, 'x'));
  while (!server.transport->congested()) server.transport->send(std::string(100'000, 'x'));
  client.transport->pause(true);
  server.transport->pause(true);
  client.say("a query that has to wait");
  int turns = 0;
  REQUIRE(world.until([&] { return ++turns > 3; }));
  client.other.reset();
  REQUIRE(world.until([&] { return client.user.closed == 1; }));
  REQUIRE(server.user.closed == 0);
}

}  // namespace
}  // namespace pgweir::net
