#include "net/transport.h"

#include <netinet/in.h>

#include "harness.h"

namespace pgweir::net {
namespace {

std::string pattern(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 31 + i / 251);
  return out;
}

TEST_CASE("bytes arrive in both directions", "[net]") {
  World world;
  Pair pair(world);
  pair.say("ping");
  pair.user.on_data = [&](Bytes) { pair.transport->send("pong"); };
  std::string back;
  REQUIRE(world.until([&] { return (back += pair.received()) == "pong"; }));
  REQUIRE(pair.user.got == "ping");
}

TEST_CASE("small sends of one turn leave together and nothing leaves twice", "[net]") {
  World world;
  Pair pair(world);
  for (int i = 0; i < 100; ++i) pair.transport->send("0123456789");
  REQUIRE(pair.received().empty());
  std::string back;
  REQUIRE(world.until([&] { return (back += pair.received()).size() >= 1000; }));
  REQUIRE(back.size() == 1000);
  REQUIRE_FALSE(pair.transport->congested());
}

TEST_CASE("a large send goes out behind what was gathered before it", "[net]") {
  World world;
  Pair pair(world);
  const std::string large = pattern(50'000);
  pair.transport->send("head");
  pair.transport->send(large);
  pair.transport->send("tail");
  std::string back = pair.received();
  REQUIRE(back == "head" + large);
  REQUIRE(world.until([&] { return (back += pair.received()).size() >= large.size() + 8; }));
  REQUIRE(back == "head" + large + "tail");
}

TEST_CASE("a forwarded message has left when the callback that forwarded it has returned",
          "[net]") {
  World world;
  Pair from(world);
  Pair to(world);
  bool gone_before_turn = false;
  std::string back;
  from.user.on_data = [&](Bytes bytes) { to.transport->send(bytes); };
  from.say("row");
  REQUIRE(world.until([&] {
    back += to.received();
    gone_before_turn = back == "row";  // turn() comes before the flush at its end.
    return gone_before_turn;
  }));
}

TEST_CASE("a slow reader gets megabytes unchanged and the sender hears when it may go on",
          "[net]") {
  World world;
  Pair pair(world);
  const std::string all = pattern(8'000'000);
  std::size_t given = 0;
  const auto give = [&] {
    while (given < all.size() && !pair.transport->congested()) {
      const std::size_t size = std::min<std::size_t>(all.size() - given, 1 + given % 20'000);
      pair.transport->send(Bytes(all).substr(given, size));
      given += size;
    }
  };
  pair.user.on_room = give;
  give();
  std::string back;
  REQUIRE(world.until([&] {
    if (given < all.size() && !pair.transport->congested()) give();
    char buffer[30'000];
    const ssize_t got = ::recv(pair.other.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) back.append(buffer, static_cast<std::size_t>(got));
    world.loop.now();
    return back.size() == all.size();
  }));
  REQUIRE(back == all);
  REQUIRE(pair.user.drained > 0);
  REQUIRE_FALSE(pair.transport->congested());
}

TEST_CASE("sends to a full socket are kept in order", "[net]") {
  World world;
  Pair pair(world);
  std::string all;
  while (!pair.transport->congested()) {
    const std::string part = pattern(9'000);
    pair.transport->send(part);
    all += part;
  }
  for (int i = 0; i < 10; ++i) {
    pair.transport->send("small");
    all += "small";
  }
  std::string back;
  REQUIRE(world.until([&] { return (back += pair.received()).size() >= all.size(); }));
  REQUIRE(back == all);
  REQUIRE(pair.user.drained == 1);
}

TEST_CASE("a paused transport reads nothing more and goes on when resumed", "[net]") {
  World world;
  Pair pair(world);
  pair.transport->pause(true);
  pair.say("later");
  int turns = 0;
  REQUIRE(world.until([&] { return ++turns > 5; }));
  REQUIRE(pair.user.got.empty());
  pair.transport->pause(false);
  REQUIRE(world.until([&] { return pair.user.got == "later"; }));
}

TEST_CASE("a pause that is taken back in the same turn loses nothing", "[net]") {
  World world;
  Pair pair(world);
  pair.transport->pause(true);
  pair.transport->pause(false);
  pair.say("now");
  REQUIRE(world.until([&] { return pair.user.got == "now"; }));
}

TEST_CASE("a peer that leaves during a pause is noticed when reading goes on", "[net]") {
  World world;
  Pair pair(world);
  pair.transport->pause(true);
  pair.say("last words");
  pair.other.reset();
  int turns = 0;
  REQUIRE(world.until([&] { return ++turns > 3; }));
  pair.transport->pause(false);
  REQUIRE(world.until([&] { return pair.user.closed > 0; }));
  REQUIRE(pair.user.got == "last words");
}

TEST_CASE("the end of the peer's stream is told once, after its last bytes", "[net]") {
  World world;
  Pair pair(world);
  pair.say("bye");
  pair.other.reset();
  REQUIRE(world.until([&] { return pair.user.closed > 0; }));
  REQUIRE(pair.user.got == "bye");
  REQUIRE(pair.user.closed == 1);
  REQUIRE(pair.user.reason == "connection closed by the peer");
  pair.transport->send("nobody hears this");
  pair.transport->close();
  int turns = 0;
  REQUIRE(world.until([&] { return ++turns > 3; }));
  REQUIRE(pair.user.closed == 1);
}

TEST_CASE("a peer's reset in the middle of a large answer ends the connection, also during a pause",
          "[net]") {
  World world;
  Host host;
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  REQUIRE(listener.ok());
  const std::string name = (*listener)->name();
  const auto port = static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress where = literal_address("127.0.0.1", port);
  REQUIRE(::connect(client.get(), where.get(), where.size) == 0);
  REQUIRE(::send(client.get(), "x", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(world.until([&] { return host.guests.size() == 1 && host.guests[0]->user.got == "x"; }));
  Host::Guest& guest = *host.guests[0];
  const bool paused = GENERATE(false, true);
  guest.transport->pause(paused);
  while (!guest.transport->congested()) guest.transport->send(pattern(100'000));
  REQUIRE(::send(client.get(), "y", 1, MSG_NOSIGNAL) == 1);
  int turns = 0;
  REQUIRE(world.until([&] { return ++turns > 2; }));
  const linger hard{.l_onoff = 1, .l_linger = 0};
  REQUIRE(setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
  client.reset();
  REQUIRE(world.until([&] { return guest.user.closed > 0; }));
  REQUIRE(guest.user.closed == 1);
  REQUIRE_FALSE(guest.transport->congested());
}

TEST_CASE("what a server says before it breaks off arrives even when writing to it fails",
          "[net]") {
  World world;
  Pair pair(world);
  pair.say("FATAL: going down");
  pair.other.reset();
  pair.transport->send("a query that nobody reads");
  REQUIRE(world.until([&] { return pair.user.closed > 0; }));
  REQUIRE(pair.user.got == "FATAL: going down");
}

TEST_CASE("close sends what was given, then tells its user, and never from within the call",
          "[net]") {
  World world;
  Pair pair(world);
  pair.transport->send("goodbye");
  pair.transport->close();
  REQUIRE(pair.user.closed == 0);
  pair.transport->send("too late");
  REQUIRE(world.until([&] { return pair.user.closed == 1; }));
  REQUIRE(pair.received() == "goodbye");
  char byte = 0;
  REQUIRE(::recv(pair.other.get(), &byte, 1, MSG_DONTWAIT) == 0);
}

TEST_CASE("close waits for a slow reader to take the rest", "[net]") {
  World world;
  Pair pair(world);
  std::size_t given = 0;
  while (!pair.transport->congested()) {
    pair.transport->send(pattern(100'000));
    given += 100'000;
  }
  pair.transport->close();
  REQUIRE(pair.transport->state() == SocketState::flushing);
  std::size_t got = 0;
  REQUIRE(world.until([&] {
    got += pair.received().size();
    return pair.user.closed == 1;
  }));
  got += pair.received().size();
  REQUIRE(got == given);
}

TEST_CASE("a closing transport whose peer goes away ends at once", "[net]") {
  World world;
  Pair pair(world);
  while (!pair.transport->congested()) pair.transport->send(pattern(100'000));
  pair.transport->close();
  pair.other.reset();
  REQUIRE(world.until([&] { return pair.user.closed == 1; }));
}

TEST_CASE("a transport can be destroyed from the callback of another one", "[net]") {
  World world;
  Pair one(world);
  Pair two(world);
  two.transport->send("staged and dropped");
  one.user.on_data = [&](Bytes bytes) {
    two.transport.reset();
    REQUIRE(bytes == "kill");
  };
  two.say("unread");
  one.say("kill");
  REQUIRE(world.until([&] { return !two.transport; }));
  int turns = 0;
  REQUIRE(world.until([&] { return ++turns > 3; }));
  REQUIRE(two.user.closed == 0);
}

TEST_CASE("a last message reaches a peer whose own bytes were never read", "[net]") {
  World world;
  Host host;
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  const std::string name = (*listener)->name();
  const auto port = static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress where = literal_address("127.0.0.1", port);
  REQUIRE(::connect(client.get(), where.get(), where.size) == 0);
  REQUIRE(::send(client.get(), "hello", 5, MSG_NOSIGNAL) == 5);
  REQUIRE(world.until([&] { return host.guests.size() == 1; }));
  host.guests[0]->transport->pause(true);
  REQUIRE(::send(client.get(), "more", 4, MSG_NOSIGNAL) == 4);
  host.guests[0]->transport->send("sorry, too many clients");
  host.guests[0]->transport->close();
  REQUIRE(world.until([&] { return host.guests[0]->user.closed == 1; }));
  char buffer[100];
  const ssize_t got = ::recv(client.get(), buffer, sizeof buffer, 0);
  REQUIRE(std::string_view(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0))) ==
          "sorry, too many clients");
}

}  // namespace
}  // namespace pgweir::net
