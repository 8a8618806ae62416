#include "app/canceller.h"

#include <catch2/catch.hpp>

#include "fakes.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

struct Ends final : app::CancellerUser {
  void cancel_ended(std::uint64_t server_id, ClientId, bool timed_out) noexcept override {
    ended.emplace_back(server_id, timed_out);
  }
  std::vector<std::pair<std::uint64_t, bool>> ended;
};

}  // namespace

TEST_CASE("a cancel request goes to the node and ends when the node hangs up", "[canceller]") {
  FakeDialer dialer;
  Ends ends;
  app::Canceller canceller(dialer, ends);
  const Time now = Time{} + 1h;
  REQUIRE(canceller.send(7, ClientId{1}, {io::Address::Kind::tcp, "10.0.0.9", 5432}, {},
                         {0x01020304, 0x05060708}, now + 10s));
  REQUIRE(dialer.dialled.size() == 1);
  Wire& wire = *dialer.dialled[0];
  CHECK(wire.peer.host == "10.0.0.9");
  wire.connected();
  CHECK(wire.sent == std::string("\0\0\0\x10\x04\xd2\x16\x2e\x01\x02\x03\x04\x05\x06\x07\x08", 16));
  CHECK(canceller.turn(now) == now + 10s);
  CHECK(ends.ended.empty());
  wire.hang_up();
  canceller.turn(now);
  REQUIRE(ends.ended.size() == 1);
  CHECK(ends.ended[0] == std::pair<std::uint64_t, bool>(7, false));
  CHECK(canceller.under_way() == 0);
}

TEST_CASE("pitfall 25: a cancel request that does not end in time is told as such", "[canceller]") {
  FakeDialer dialer;
  Ends ends;
  app::Canceller canceller(dialer, ends);
  const Time now = Time{} + 1h;
  REQUIRE(canceller.send(7, ClientId{1}, {}, {}, {1, 2}, now + 10s));
  canceller.turn(now + 9s);
  CHECK(ends.ended.empty());
  CHECK(canceller.turn(now + 10s) == kNever);
  REQUIRE(ends.ended.size() == 1);
  CHECK(ends.ended[0].second);
}
