#include "monitor/monitor.h"

#include <catch2/catch.hpp>

#include "fake_prober.h"

namespace pgweir::monitor {
namespace {

using routing::Role;
using tokens::Lsn;

constexpr NodeId kA{1};
constexpr NodeId kB{2};

struct Captures final : CaptureUser {
  void on_captured(std::uint64_t covers, std::optional<Lsn> lsn) noexcept override {
    answers.emplace_back(covers, lsn);
  }
  std::vector<std::pair<std::uint64_t, std::optional<Lsn>>> answers;
};

/// Primary a, replica b.
struct World {
  explicit World(std::string user = "monitor")
      : monitor({prober, log},
                {{kA, {.host = "a", .port = 5432}, "a:5432"},
                 {kB, {.host = "b", .port = 5432}, "b:5432"}},
                {.user = std::move(user), .password = {}, .dbname = "postgres"}) {
    prober.nodes["a"] = {};
    prober.nodes["b"] = {};
    prober.nodes["b"].in_recovery = true;
  }
  /// One turn that asks, the answers, one that takes them.
  void round(int ms) {
    now = ms;
    monitor.turn(at_ms(now));
    for (int i = 0; i < 3; ++i) {
      prober.answer_all();
      monitor.turn(at_ms(now));
    }
  }
  const routing::ClusterView& view() const { return *monitor.view(); }
  FakeNode& a() { return prober.nodes["a"]; }
  FakeNode& b() { return prober.nodes["b"]; }

  FakeProber prober;
  FakeLog log;
  Monitor monitor;
  Captures captures;
  int now = 0;
};

TEST_CASE("the monitor finds the primary and a replica that may answer", "[monitor]") {
  World world;
  CHECK_FALSE(world.view().primary);
  CHECK_FALSE(world.monitor.ready());
  world.round(0);
  CHECK(world.monitor.ready());
  CHECK(world.view().primary == kA);
  CHECK(world.view().nodes[1].eligible);
  CHECK(world.view().nodes[1].role == Role::replica);
  CHECK(world.view().nodes[1].replayed == Lsn{0x1000100});
  CHECK(world.view().version > 0);
}

TEST_CASE("each node is asked once per interval, and sooner while somebody waits", "[monitor]") {
  World world;
  world.round(0);
  const Time next = world.monitor.turn(at_ms(1));
  CHECK(next == at_ms(200));
  CHECK(world.prober.asked_.empty());
  world.monitor.turn(at_ms(200));
  CHECK(world.prober.count("a", kPollQuery) == 1);
  CHECK(world.prober.count("b", kPollQuery) == 1);
  world.monitor.turn(at_ms(900));
  CHECK(world.prober.count("a", kPollQuery) == 1);  // One question at a time.
  world.round(1000);
  world.monitor.want_fast(true);
  CHECK(world.monitor.turn(at_ms(1001)) == at_ms(1005));
  world.monitor.turn(at_ms(1005));
  CHECK(world.prober.count("b", kPollQuery) == 1);
}

TEST_CASE("who waits for long makes nodes be asked ever less, and those that are down still often",
          "[monitor]") {
  World world;
  world.a().error = Error("connection refused");
  world.round(0);
  world.monitor.want_fast(true);
  int tries = 0;
  int soon = 0;
  int late = 0;
  for (int ms = 1; ms < 10'000; ++ms) {
    world.monitor.turn(at_ms(ms));
    tries += static_cast<int>(world.prober.count("a", kPollQuery));
    (ms < 1000 ? soon : late) += static_cast<int>(world.prober.count("b", kPollQuery));
    world.prober.answer_all();
    world.monitor.turn(at_ms(ms));
  }
  CHECK(tries == 49);  // Each 200 ms.
  CHECK(soon > 25);
  CHECK(late < 60);
}

TEST_CASE("somebody who waits again and again does not make a storm", "[monitor]") {
  World world;
  world.b().error = Error("connection refused");
  world.round(0);
  for (int i = 0; i < 100; ++i) {
    world.monitor.want_fast(true);
    world.round(1);
    world.monitor.want_fast(false);
    world.round(1);
  }
  CHECK(world.prober.asked_in_all == 3);  // Two polls, the settings of one.
}

TEST_CASE("a view changes only when something was answered", "[monitor]") {
  World world;
  world.round(0);
  const routing::ClusterSnapshot before = world.monitor.view();
  world.monitor.turn(at_ms(1));
  CHECK(world.monitor.view() == before);
  world.a().lsn += 0x100;
  world.round(200);
  CHECK(world.monitor.view() != before);
  CHECK(world.view().version > before->version);
}

TEST_CASE("the lag of a replica that keeps up with an idle primary is none", "[monitor]") {
  World world;
  for (int i = 0; i < 50; ++i) world.round(i * 200);
  CHECK(world.view().nodes[1].lag_known);
  CHECK(world.view().nodes[1].lag == Duration::zero());
}

TEST_CASE("a replica that does not replay is seen to lag, and is asked more often meanwhile",
          "[monitor]") {
  World world;
  world.round(0);
  world.a().lsn += 0x100;
  world.round(200);
  CHECK(world.view().nodes[1].lag == Duration::zero());
  world.monitor.turn(at_ms(225));
  CHECK(world.prober.count("b", kPollQuery) == 1);
  CHECK(world.prober.count("a", kPollQuery) == 0);
  world.round(1200);
  CHECK(world.view().nodes[1].lag == std::chrono::seconds{1});
  world.b().lsn = world.a().lsn;
  world.round(1500);
  CHECK(world.view().nodes[1].lag == std::chrono::milliseconds{1300});
  world.round(1800);
  CHECK(world.view().nodes[1].lag == Duration::zero());
}

TEST_CASE("a node that is down is skipped within a poll and asked again with growing pauses",
          "[monitor]") {
  World world;
  world.round(0);
  world.b().error = Error("connection refused");
  world.round(200);
  CHECK(world.view().nodes[1].role == Role::down);
  CHECK_FALSE(world.view().nodes[1].eligible);
  CHECK(world.view().nodes[1].last_error == "connection refused");
  std::vector<int> tries;
  for (int ms = 201; ms < 30'000; ++ms) {
    world.now = ms;
    world.monitor.turn(at_ms(ms));
    if (world.prober.count("b", kPollQuery) > 0) tries.push_back(ms);
    world.prober.answer_all();
    world.monitor.turn(at_ms(ms));
  }
  REQUIRE(tries.size() >= 6);
  CHECK(tries[0] - 200 == 200);
  CHECK(tries[1] - tries[0] == 400);
  CHECK(tries[2] - tries[1] == 800);
  CHECK(tries.back() - tries[tries.size() - 2] == 5000);
  CHECK(world.log.count("b:5432 does not answer") == 1);
  world.b().error.reset();
  world.round(40'000);
  CHECK(world.view().nodes[1].eligible);
  CHECK(world.log.count("b:5432 answers again") == 1);
}

TEST_CASE(
    "a server's failure makes its node be asked at once, but not in the pause of one that is down",
    "[monitor]") {
  World world;
  world.round(0);
  world.monitor.suspect(kB);
  world.monitor.turn(at_ms(1));
  CHECK(world.prober.count("b", kPollQuery) == 1);
  world.b().error = Error("connection refused");
  world.round(2);
  world.monitor.suspect(kB);
  world.monitor.turn(at_ms(3));
  CHECK(world.prober.count("b", kPollQuery) == 0);
}

TEST_CASE("a suspected node whose poll hangs is asked again on a new connection", "[monitor]") {
  World world;
  world.round(0);
  world.b().silent = true;
  world.monitor.turn(at_ms(200));
  const void* hung = world.prober.last_asked("b").probe;
  world.monitor.suspect(kB);
  CHECK(world.monitor.turn(at_ms(201)) == at_ms(220));  // It may only be slow.
  CHECK(world.prober.last_asked("b").probe == hung);
  world.b().silent = false;
  world.b().error = Error("connection refused");
  world.monitor.turn(at_ms(220));
  CHECK(world.prober.count("b", kPollQuery) == 1);
  world.prober.answer_all();
  world.monitor.turn(at_ms(221));
  CHECK(world.view().nodes[1].role == Role::down);
}

TEST_CASE("a poll that hangs unsuspected is waited for", "[monitor]") {
  World world;
  world.round(0);
  world.b().silent = true;
  world.monitor.turn(at_ms(200));
  const std::uint64_t hung = world.prober.last_asked("b").question;
  world.round(1500);
  CHECK(world.prober.last_asked("b").question == hung);
}

TEST_CASE("a slow node that is suspected all the time still gets its time to answer", "[monitor]") {
  World world;
  world.round(0);
  world.b().silent = true;
  world.monitor.turn(at_ms(200));
  std::vector<int> dropped;
  std::uint64_t last = world.prober.last_asked("b").question;
  for (int ms = 201; ms < 2200; ++ms) {
    world.monitor.suspect(kB);
    world.monitor.turn(at_ms(ms));
    const std::uint64_t asked = world.prober.last_asked("b").question;
    if (std::exchange(last, asked) != asked) dropped.push_back(ms);
  }
  CHECK(dropped == std::vector<int>{220, 300, 620, 1900});
}

TEST_CASE("a hung comparison of settings is dropped with the poll and asked again", "[monitor]") {
  World world;
  world.monitor.turn(at_ms(0));
  world.prober.answer_all();
  world.monitor.turn(at_ms(0));
  world.b().silent = true;
  world.prober.answer_all();
  world.monitor.turn(at_ms(200));
  CHECK_FALSE(world.view().nodes[1].eligible);
  world.monitor.suspect(kB);
  world.b().silent = false;
  world.round(220);
  CHECK(world.view().nodes[1].eligible);
}

TEST_CASE("another claimant makes the primary be asked at once, also while its poll hangs",
          "[monitor]") {
  World world;
  world.round(0);
  world.a().silent = true;
  world.b().in_recovery = false;
  world.b().timeline = 2;
  world.round(200);
  CHECK(world.view().primary == kA);
  world.a().silent = false;
  world.a().error = Error("connection refused");
  world.round(220);
  CHECK(world.view().primary == kB);
}

TEST_CASE(
    "a refused login is one clear line, everything goes to the first node and no replica is used",
    "[monitor]") {
  World world;
  const Error refused("28P01", "password authentication failed for user \"monitor\"");
  world.a().error = refused;
  world.b().error = refused;
  for (int i = 0; i < 20; ++i) world.round(i * 5000);
  CHECK(world.log.lines.size() == 1);
  CHECK(world.log.count(
            "can't log in to node a:5432 as \"monitor\": password authentication failed") == 1);
  CHECK(world.monitor.ready());
  CHECK(world.view().primary == kA);
  CHECK_FALSE(world.view().nodes[1].eligible);
  world.a().error.reset();
  world.b().error.reset();
  world.round(200'000);
  CHECK(world.view().nodes[1].eligible);
}

TEST_CASE("without a login nothing is asked and the first node counts as primary", "[monitor]") {
  World world("");
  world.round(0);
  CHECK(world.monitor.ready());
  CHECK(world.view().primary == kA);
  CHECK_FALSE(world.view().nodes[1].eligible);
  world.monitor.use_login({.user = "web", .password = {}, .dbname = "shop"});
  world.round(10);
  CHECK(world.view().nodes[1].eligible);
}

TEST_CASE("a capture is the primary's insert LSN", "[monitor]") {
  World world;
  world.round(0);
  world.a().lsn = 0x1000200;
  world.monitor.capture(world.captures, 7, at_ms(1));
  CHECK(world.captures.answers.empty());
  CHECK(world.prober.count("a", kCaptureQuery) == 1);
  world.round(1);
  REQUIRE(world.captures.answers.size() == 1);
  CHECK(world.captures.answers[0].first == 7);
  CHECK(world.captures.answers[0].second == Lsn{0x1000200});
}

TEST_CASE("a capture makes replicas that are not there yet be asked soon", "[monitor]") {
  World world;
  world.round(0);
  world.a().lsn = 0x1000200;
  world.monitor.capture(world.captures, 7, at_ms(25));
  world.prober.answer_all();
  world.monitor.turn(at_ms(25));
  CHECK(world.prober.count("b", kPollQuery) == 1);
  CHECK(world.prober.count("a", kPollQuery) == 0);
  world.b().lsn = 0x1000200;
  world.prober.answer_all();
  world.monitor.turn(at_ms(27));
  CHECK(world.view().nodes[1].replayed == Lsn{0x1000200});
  CHECK(world.view().nodes[1].observed_at == at_ms(25));
  CHECK(world.view().nodes[1].lag == std::chrono::milliseconds{2});
  CHECK(world.monitor.turn(at_ms(28)) == at_ms(200));
}

TEST_CASE("without a known primary a capture fails in the next turn", "[monitor]") {
  World world;
  world.monitor.capture(world.captures, 7, at_ms(0));
  CHECK(world.captures.answers.empty());
  world.monitor.turn(at_ms(0));
  REQUIRE(world.captures.answers.size() == 1);
  CHECK_FALSE(world.captures.answers[0].second);
}

TEST_CASE("pitfall 17: a capture answered by a restarted primary is thrown away", "[monitor]") {
  World world;
  world.round(0);
  world.monitor.capture(world.captures, 7, at_ms(1));
  world.a().started_at = "200/200";
  world.prober.answer_all(kCaptureQuery);
  world.monitor.turn(at_ms(2));
  REQUIRE(world.captures.answers.size() == 1);
  CHECK_FALSE(world.captures.answers[0].second);
  CHECK(world.prober.count("a", kPollQuery) == 1);  // Asked at once who it is now.
  world.round(3);
  CHECK(world.view().identity == 2);
}

TEST_CASE("a capture that was asked of a former primary is thrown away", "[monitor]") {
  World world;
  world.round(0);
  world.monitor.capture(world.captures, 7, at_ms(1));
  const std::vector<FakeProber::Asked> held = world.prober.asked_;
  world.prober.asked_.clear();
  world.a().error = Error("connection refused");
  world.b().in_recovery = false;
  world.b().timeline = 2;
  world.round(200);
  world.round(400);
  REQUIRE(world.view().primary == kB);
  world.prober.asked_ = held;
  world.a().error.reset();
  world.prober.answer_all(kCaptureQuery);
  world.monitor.turn(at_ms(401));
  REQUIRE(world.captures.answers.size() == 1);
  CHECK_FALSE(world.captures.answers[0].second);
  world.monitor.capture(world.captures, 8, at_ms(402));
  CHECK(world.prober.count("b", kCaptureQuery) == 1);
  world.round(402);
  REQUIRE(world.captures.answers.size() == 2);
  CHECK(world.captures.answers[1].second == Lsn{0x1000100});
}

TEST_CASE("who has gone is told nothing of his capture", "[monitor]") {
  World world;
  world.round(0);
  world.monitor.capture(world.captures, 7, at_ms(1));
  world.monitor.forget(world.captures);
  world.round(1);
  CHECK(world.captures.answers.empty());
}

TEST_CASE("pitfall 9: a server of an unknown instance makes the node be asked at once",
          "[monitor]") {
  World world;
  world.round(0);
  world.monitor.server_seen(kB, "7", "555/555", at_ms(1));
  world.round(2);
  CHECK(world.view().nodes[1].several);
  CHECK(world.log.count("more than one instance") == 1);
}

TEST_CASE("pitfall 18: a reload or restart of a node has its settings compared again",
          "[monitor]") {
  World world;
  world.round(0);
  CHECK(world.view().nodes[1].eligible);
  world.b().time_zone = "Asia/Tokyo";
  world.round(200);
  CHECK(world.view().nodes[1].eligible);
  world.b().configured_at = "300";
  world.round(400);
  CHECK_FALSE(world.view().nodes[1].eligible);
  CHECK(world.view().nodes[1].excluded.find("TimeZone") != std::string::npos);
}

TEST_CASE("pitfall 18: a replica whose settings can't be read is not used, which is one log line",
          "[monitor]") {
  World world;
  world.b().settings_error = Error("57014", "canceling statement due to statement timeout");
  for (int i = 0; i < 20; ++i) world.round(i * 200);
  CHECK_FALSE(world.view().nodes[1].eligible);
  CHECK(world.log.count("b:5432 is not used until its settings can be compared") == 1);
  world.b().settings_error.reset();
  world.round(5000);
  CHECK(world.view().nodes[1].eligible);
}

}  // namespace
}  // namespace pgweir::monitor
