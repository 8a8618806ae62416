#include "net/network.h"

#include <sys/stat.h>

#include "base/text.h"
#include "harness.h"

namespace pgweir::net {
namespace {

/// A directory that goes away with its sockets.
struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/pgweir-net-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryFolder() {
    ::unlink((path + "/.s.PGSQL.1").c_str());
    ::rmdir(path.c_str());
  }
  std::string path;
};

std::uint16_t port_of(const io::Listener& listener) {
  const std::string name = listener.name();
  return static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
}

TEST_CASE("a dialled connection over TCP stands and carries bytes given before it stood", "[net]") {
  World world;
  Host host;
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  REQUIRE(listener.ok());
  const std::string to = GENERATE("127.0.0.1", "localhost");
  Recorder user;
  auto transport = world.dialer.dial({.host = to, .port = port_of(**listener)}, user);
  transport->send("early");
  REQUIRE_FALSE(user.connected);
  REQUIRE(
      world.until([&] { return host.guests.size() == 1 && host.guests[0]->user.got == "early"; }));
  REQUIRE(user.connected);
  REQUIRE(transport->dial_failure() == io::DialFailure::none);
  REQUIRE(transport->local() == host.guests[0]->transport->peer());
  REQUIRE(transport->peer() == host.guests[0]->transport->local());
  host.guests[0]->transport->send("answer");
  REQUIRE(world.until([&] { return user.got == "answer"; }));
}

TEST_CASE("a refused dial names the address and the cause, and not from within dial", "[net]") {
  World world;
  Host host;
  std::uint16_t port = 0;
  {
    auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
    port = port_of(**listener);
  }
  Recorder user;
  auto transport = world.dialer.dial({.host = "127.0.0.1", .port = port}, user);
  REQUIRE(user.closed == 0);
  REQUIRE(world.until([&] { return user.closed == 1; }));
  REQUIRE(user.reason == "connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
  REQUIRE(transport->dial_failure() == io::DialFailure::connect);
  REQUIRE_FALSE(user.connected);
}

TEST_CASE("a name that does not exist is an error that says so, and is remembered", "[net]") {
  World world;
  Recorder first;
  auto one = world.dialer.dial({.host = "no-such-host.invalid", .port = 1}, first);
  REQUIRE(world.until([&] { return first.closed == 1; }));
  REQUIRE(first.reason.rfind("resolve no-such-host.invalid: ", 0) == 0);
  REQUIRE(one->dial_failure() == io::DialFailure::name);
  Recorder second;
  auto two = world.dialer.dial({.host = "no-such-host.invalid", .port = 1}, second);
  REQUIRE(second.closed == 0);
  REQUIRE(world.until([&] { return second.closed == 1; }));
}

TEST_CASE("a dial that is given up while its name is looked up leaves nothing behind", "[net]") {
  World world;
  Recorder user;
  auto transport = world.dialer.dial({.host = "localhost", .port = 1}, user);
  transport.reset();
  auto closing = world.dialer.dial({.host = "localhost", .port = 1}, user);
  closing->close();
  REQUIRE(world.until([&] { return user.closed == 1; }));
}

TEST_CASE("the next address is tried when the first refuses", "[net]") {
  World world;
  Host host;
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  const std::uint16_t port = port_of(**listener);
  Recorder user;
  SocketTransport transport(world.loop, user, {.host = "db", .port = port}, {});
  transport.connect({literal_address("127.0.0.2", 1), literal_address("127.0.0.1", port)});
  REQUIRE(world.until([&] { return user.connected; }));
  REQUIRE(transport.peer().host == "127.0.0.1");
}

TEST_CASE("a Unix socket knows who comes, has its mode, and its path goes with the listener",
          "[net]") {
  TemporaryFolder folder;
  World world;
  Host host;
  world.network.configure({.unix_socket_mode = 0700}, {});
  const io::Address address{.kind = io::Address::Kind::unix_socket, .host = folder.path, .port = 1};
  {
    auto listener = world.network.listen(address, host);
    REQUIRE(listener.ok());
    REQUIRE((*listener)->name() == "unix:" + folder.path + "/.s.PGSQL.1");
    struct stat found {};
    REQUIRE(::stat((folder.path + "/.s.PGSQL.1").c_str(), &found) == 0);
    REQUIRE((found.st_mode & 0777) == 0700);
    Recorder user;
    auto transport = world.dialer.dial(address, user);
    REQUIRE(world.until([&] { return user.connected && host.guests.size() == 1; }));
    REQUIRE(host.guests[0]->transport->peer_uid() == static_cast<std::int64_t>(::getuid()));
    REQUIRE(host.guests[0]->transport->peer().host ==
            concat({"unix(", std::to_string(::getpid()), ")"}));
    REQUIRE(host.guests[0]->transport->local() == address);
    auto second = world.network.listen(address, host);
    REQUIRE_FALSE(second.ok());
    REQUIRE(second.error().text().find("unix socket is in use, cannot continue") == 0);
  }
  REQUIRE(::access((folder.path + "/.s.PGSQL.1").c_str(), F_OK) != 0);
}

TEST_CASE("a Unix socket that a dead process left behind is replaced", "[net]") {
  TemporaryFolder folder;
  World world;
  Host host;
  const io::Address address{.kind = io::Address::Kind::unix_socket, .host = folder.path, .port = 1};
  {
    const SocketAddress where = *unix_address(address);
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(::bind(dead.get(), where.get(), where.size) == 0);
  }
  REQUIRE(::access((folder.path + "/.s.PGSQL.1").c_str(), F_OK) == 0);
  REQUIRE(world.network.listen(address, host).ok());
}

TEST_CASE("an abstract Unix socket works without a file", "[net]") {
  World world;
  Host host;
  const io::Address address{.kind = io::Address::Kind::unix_socket,
                            .host = "@pgweir-test-" + std::to_string(::getpid()),
                            .port = 1};
  auto listener = world.network.listen(address, host);
  REQUIRE(listener.ok());
  Recorder user;
  auto transport = world.dialer.dial(address, user);
  REQUIRE(world.until([&] { return user.connected && host.guests.size() == 1; }));
}

TEST_CASE("a missing Unix socket is an error that names its path", "[net]") {
  World world;
  Recorder user;
  auto transport = world.dialer.dial(
      {.kind = io::Address::Kind::unix_socket, .host = "/nowhere", .port = 7}, user);
  REQUIRE(world.until([&] { return user.closed == 1; }));
  REQUIRE(user.reason == "connect to unix:/nowhere/.s.PGSQL.7: No such file or directory");
}

TEST_CASE("a path that is too long for a socket is refused, not cut", "[net]") {
  World world;
  Host host;
  const io::Address address{
      .kind = io::Address::Kind::unix_socket, .host = "/" + std::string(200, 'x'), .port = 1};
  auto listener = world.network.listen(address, host);
  REQUIRE_FALSE(listener.ok());
  REQUIRE(listener.error().text().find("is too long") != std::string::npos);
}

TEST_CASE("a port that is taken can't be listened on", "[net]") {
  World world;
  Host host;
  auto first = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  const std::uint16_t port = port_of(**first);
  auto second = world.network.listen({.host = "127.0.0.1", .port = port}, host);
  REQUIRE_FALSE(second.ok());
  REQUIRE(second.error().text() ==
          concat({"listen on 127.0.0.1:", std::to_string(port), ": Address already in use"}));
}

TEST_CASE("a refused guest sees the end of the stream", "[net]") {
  struct Refuser final : io::Acceptor {
    void on_accepted(std::unique_ptr<io::Door>) noexcept override { ++refused; }
    int refused = 0;
  };
  World world;
  Refuser refuser;
  world.network.configure({.defer_accept = false}, {});
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, refuser);
  Recorder user;
  auto transport = world.dialer.dial({.host = "127.0.0.1", .port = port_of(**listener)}, user);
  REQUIRE(world.until([&] { return user.closed == 1; }));
  REQUIRE(refuser.refused == 1);
}

TEST_CASE("newcomers get past a socket that leaves a shared port, who had knocked gets in",
          "[net]") {
  World world;
  Host leaving;
  Host staying;
  const std::string address = GENERATE("127.0.0.1", "*");
  world.network.configure({.reuse_port = true, .defer_accept = false}, {});
  auto first = world.network.listen({.host = "127.0.0.1", .port = 0}, leaving);
  REQUIRE(first.ok());
  const std::uint16_t port = port_of(**first);
  if (address == "*") first = world.network.listen({.host = "*", .port = port}, leaving);
  auto second = world.network.listen({.host = address, .port = port}, staying);
  REQUIRE(second.ok());
  Recorder early[8];
  std::vector<std::unique_ptr<io::Transport>> transports;
  const auto knock = [&](Recorder& user) {
    transports.push_back(world.dialer.dial({.host = "127.0.0.1", .port = port}, user));
  };
  const auto guests = [&] { return leaving.guests.size() + staying.guests.size(); };
  for (Recorder& user : early) knock(user);
  REQUIRE((*first)->turn_away());
  (*first)->accept_waiting();
  const std::size_t before = leaving.guests.size();
  Recorder late[16];
  for (Recorder& user : late) knock(user);
  REQUIRE(world.until([&] { return guests() == 24; }));
  CHECK(leaving.guests.size() == before);
  first->reset();
  Recorder after[8];
  for (Recorder& user : after) knock(user);
  REQUIRE(world.until([&] { return guests() == 32; }));
  CHECK(leaving.guests.size() == before);
}

TEST_CASE("the last socket of a port has nobody to leave it to", "[net]") {
  World world;
  Host host;
  world.network.configure({.reuse_port = GENERATE(false, true)}, {});
  auto listener = world.network.listen({.host = "127.0.0.1", .port = 0}, host);
  REQUIRE_FALSE((*listener)->turn_away());
}

TEST_CASE("sockets that were handed over are listened on, others are left with a warning",
          "[net]") {
  World world;
  Host host;
  Fd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress any = literal_address("127.0.0.1", 0);
  REQUIRE(::bind(tcp.get(), any.get(), any.size) == 0);
  REQUIRE(::listen(tcp.get(), 5) == 0);
  std::vector<Fd> passed;
  passed.push_back(std::move(tcp));
  passed.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  world.network.pass(std::move(passed));
  std::vector<io::Network::Inherited> inherited = world.network.inherited(host);
  REQUIRE(inherited.size() == 1);
  CHECK(world.log.lines.size() == 1);
  CHECK(inherited[0].kind == io::Address::Kind::tcp);
  CHECK_FALSE(inherited[0].listener->turn_away());
  Recorder user;
  auto transport =
      world.dialer.dial({.host = "127.0.0.1", .port = port_of(*inherited[0].listener)}, user);
  REQUIRE(world.until([&] { return host.guests.size() == 1; }));
  CHECK(world.network.inherited(host).empty());
}

TEST_CASE("addresses are written as people write them", "[net]") {
  REQUIRE(to_string(io::Address{.host = "::1", .port = 5432}) == "[::1]:5432");
  REQUIRE(to_string(io::Address{.host = "10.0.0.1", .port = 5432}) == "10.0.0.1:5432");
}

}  // namespace
}  // namespace pgweir::net
