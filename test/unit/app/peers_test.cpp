#include "app/peers.h"

#include <catch2/catch.hpp>

#include "config/values.h"
#include "fakes.h"

using namespace pgweir;
using namespace pgweir::test;
using session::CancelKey;

namespace {

struct PeersWorld final : app::CancelAskers {
  void cancel_answered(ClientId asker) noexcept override { answered.push_back(asker.value); }
  PeersWorld() {
    settings.peer_id = 1;
    settings.cancel_wait_timeout = 10s;
    settings.peers[1] = {.id = 1, .host = "10.0.0.1"};
    settings.peers[2] = {.id = 2, .host = "10.0.0.2", .port = 6433, .pool_size = 1};
    settings.peers[3] = {.id = 3, .host = "/run/weir"};
    peers.configure(settings);
  }
  static CancelKey key(std::uint32_t peer, std::uint32_t hops = 3) {
    return {0x09000009 | peer << 16, 0x08080800 | hops};
  }
  config::Settings settings;
  FakeDialer dialer;
  KeptLog log;
  app::Peers peers{dialer, log, *this};
  std::vector<std::uint64_t> answered;  ///< whose connection may be closed
  Time now = Time{} + 1h;
};

}  // namespace

TEST_CASE("a cancel request goes to the peer it names, with one hop less", "[peers]") {
  PeersWorld world;
  world.peers.pass_on(PeersWorld::key(2), ClientId{5}, world.now);
  world.peers.pass_on(PeersWorld::key(3), ClientId{6}, world.now);
  REQUIRE(world.dialer.dialled.size() == 2);
  Wire& wire = *world.dialer.dialled[0];
  CHECK(wire.peer == io::Address{io::Address::Kind::tcp, "10.0.0.2", 6433});
  CHECK(world.dialer.dialled[1]->peer ==
        io::Address{io::Address::Kind::unix_socket, "/run/weir", 6432});
  CHECK(world.peers.rows()[0].sv_login == 1);
  wire.connected();
  CHECK(wire.sent == std::string("\0\0\0\x10\x04\xd2\x16\x2e\x09\x02\0\x09\x08\x08\x08\x02", 16));
  CHECK(world.peers.rows()[0].sv_active_cancel == 1);
  CHECK(world.answered.empty());
  wire.hang_up();
  CHECK(world.peers.turn(world.now) <= world.now + 10s);
  CHECK(world.answered == std::vector<std::uint64_t>{5});
  CHECK(world.peers.rows()[0].sv_active_cancel == 0);
}

TEST_CASE("a cancel request without hops left, or for nobody, is dropped with a line", "[peers]") {
  PeersWorld world;
  world.peers.pass_on(PeersWorld::key(2, 0), ClientId{5}, world.now);
  CHECK(world.log.has("it has been passed on 3 times"));
  world.log.text.clear();
  for (const std::uint32_t nobody : {0U, 1U, 9U}) {
    world.peers.pass_on(PeersWorld::key(nobody), ClientId{5}, world.now);
    CHECK(world.log.has("failed cancel request: no such client"));
    world.log.text.clear();
  }
  CHECK(world.dialer.dialled.empty());
  CHECK(world.answered.size() == 4);
  CHECK_FALSE(world.peers.busy());
}

TEST_CASE("more requests than the peer's pool_size wait, and not for ever", "[peers]") {
  PeersWorld world;
  for (int i = 0; i < 3; ++i)
    world.peers.pass_on(PeersWorld::key(2), ClientId{static_cast<std::uint64_t>(i)}, world.now + i * 4s);
  REQUIRE(world.dialer.dialled.size() == 1);
  CHECK(world.peers.rows()[0].cl_waiting_cancel_req == 2);
  world.peers.turn(world.now + 10s);  // The first had its time, and the second goes out.
  CHECK(world.log.has("peer 2 did not take a cancel request in time"));
  CHECK(world.dialer.dialled.size() == 2);
  world.peers.turn(world.now + 18s);  // The third's time is over, too.
  CHECK(world.dialer.dialled.size() == 2);
  CHECK(world.peers.rows()[0].cl_waiting_cancel_req == 0);
  CHECK(world.answered == std::vector<std::uint64_t>{0, 1, 2});
  CHECK_FALSE(world.peers.busy());
}

TEST_CASE("requests that wait for a peer which is configured no more are dropped", "[peers]") {
  PeersWorld world;
  for (int i = 0; i < 3; ++i) world.peers.pass_on(PeersWorld::key(2), ClientId{7}, world.now);
  world.settings.peers.erase(2);
  world.peers.configure(world.settings);
  CHECK(world.answered.size() == 2);
  CHECK(world.log.has("failed cancel request: peer 2 is configured no more"));
}

TEST_CASE("a peer that takes us for a proxy hears a PROXY header before the request", "[peers]") {
  // Where we come from counts, which is not known before the connection stands: 127.0.0.1 here.
  for (const char* networks : {"", "10.0.0.0/8", "127.0.0.0/8"}) {
    PeersWorld world;
    const auto read = config::parse_value<config::NetworkList>(networks, {});
    REQUIRE(read.ok());
    world.settings.proxy_protocol_networks = *read;
    world.peers.configure(world.settings);
    world.peers.pass_on(PeersWorld::key(2), ClientId{5}, world.now);
    Wire& wire = *world.dialer.dialled.at(0);
    wire.connected();
    const std::string header = std::string_view(networks) == "127.0.0.0/8" ? std::string("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16) : std::string();
    CHECK(wire.sent == header + std::string("\0\0\0\x10\x04\xd2\x16\x2e\x09\x02\0\x09\x08\x08\x08\x02", 16));
  }
}
