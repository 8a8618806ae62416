#include "monitor/cluster_model.h"

#include <catch2/catch.hpp>

namespace pgweir::monitor {
namespace {

using routing::ClusterView;
using routing::Role;
using tokens::Lsn;

constexpr NodeId kA{1};
constexpr NodeId kB{2};
constexpr NodeId kC{3};
constexpr Time at(int ms) {
  return Time{std::chrono::seconds{1000} + std::chrono::milliseconds{ms}};
}

Observation primary_at(std::uint64_t lsn, std::uint32_t timeline = 1) {
  Observation seen;
  seen.lsn = Lsn{lsn};
  seen.system_id = "7";
  seen.timeline = timeline;
  seen.timeline_certain = true;
  seen.started_at = "100/100";
  return seen;
}

Observation replica_at(std::uint64_t lsn, std::uint32_t timeline = 1) {
  Observation seen = primary_at(lsn, timeline);
  seen.in_recovery = true;
  return seen;
}

struct World {
  void see(NodeId node, const Observation& seen, int ms) {
    model.observed(node, seen, at(ms), at(ms));
    if (!model.node(node).settings()) model.compared(node, {{"TimeZone", "UTC"}}, at(ms));
    const NodeId primary = model.known_primary();  // One that is down is asked once more.
    if (model.claim_unchecked() && !model.node(primary).up()) fail(primary, ms);
  }
  void fail(NodeId node, int ms) {
    model.failed(node, Error("connection refused"), at(ms), at(ms));
  }
  ClusterView view(int ms = 0) { return model.view(at(ms)); }
  /// A is the primary, B and C follow.
  void settle() {
    see(kA, primary_at(1000), 0);
    see(kB, replica_at(900), 0);
    see(kC, replica_at(900), 0);
    see(kA, primary_at(1000), 0);
    see(kB, replica_at(1000), 0);
    see(kC, replica_at(1000), 0);
  }
  bool said(std::string_view part) {
    for (const ClusterModel::Notice& notice : model.take_notices()) {
      if (notice.text.find(part) != std::string::npos) return true;
    }
    return false;
  }

  ClusterModel model{{{kA, "a:1"}, {kB, "b:1"}, {kC, "c:1"}}};
};

TEST_CASE("no primary is named before every node has answered or failed", "[monitor]") {
  World world;
  CHECK_FALSE(world.view().primary);
  world.see(kA, primary_at(1000), 0);
  world.see(kB, replica_at(1000), 0);
  CHECK_FALSE(world.view().primary);
  CHECK_FALSE(world.model.round_done());
  world.fail(kC, 10);
  CHECK(world.view().primary == kA);
  CHECK(world.view().identity == 1);
  CHECK(world.view().identity_lsn == Lsn{1000});
  CHECK(world.view().nodes[2].role == Role::down);
}

TEST_CASE(
    "the node that is not in recovery is the primary whatever place it has in the configuration",
    "[monitor]") {
  World world;
  world.see(kA, replica_at(1000), 0);
  world.see(kB, primary_at(1000), 0);
  world.see(kC, replica_at(1000), 0);
  const ClusterView view = world.view();
  CHECK(view.primary == kB);
  CHECK(view.nodes[0].eligible);
  CHECK(view.nodes[1].role == Role::primary);
  CHECK_FALSE(view.nodes[1].eligible);
}

TEST_CASE("pitfall 1: a replica promoted by mistake is excluded while the primary is healthy",
          "[monitor]") {
  World world;
  world.settle();
  world.model.take_notices();
  world.see(kB, primary_at(1010, 2), 100);
  CHECK(world.view().primary == kA);
  CHECK(world.view().nodes[1].role == Role::unknown);
  CHECK_FALSE(world.view().nodes[1].eligible);
  CHECK(world.view().nodes[1].excluded.find("says that it is a primary") != std::string::npos);
  CHECK(world.said("node b:1 is not used"));
  // A moment without an answer is not a failover to one beside which it answered.
  world.see(kA, primary_at(1010), 150);
  world.fail(kA, 200);
  CHECK(world.view().primary == kA);
  CHECK(world.view().nodes[0].role == Role::down);
  world.see(kA, primary_at(1020), 400);
  world.see(kB, primary_at(1030, 2), 500);
  CHECK(world.view().primary == kA);
  CHECK(world.view().identity == 1);
}

TEST_CASE(
    "pitfall 1: a claimant seen beside the primary takes over when replicas follow it or the "
    "primary stays away",
    "[monitor]") {
  World world;
  world.settle();
  world.see(kB, primary_at(1010, 2), 100);
  CHECK(world.model.claim_unchecked());
  world.see(kA, primary_at(1010), 150);
  CHECK_FALSE(world.model.claim_unchecked());
  SECTION("replicas follow") {
    world.fail(kA, 200);
    world.see(kC, replica_at(1010, 2), 300);
    CHECK(world.view().primary == kB);
  }
  SECTION("the primary stays away") {
    world.fail(kA, 200);
    world.see(kB, primary_at(1010, 2), 5'000);
    CHECK(world.view().primary == kA);
    world.see(kB, primary_at(1010, 2), 11'000);
    CHECK(world.view().primary == kB);
  }
}

TEST_CASE("a promotion after the primary's death is followed at once, and the identity changes",
          "[monitor]") {
  World world;
  world.settle();
  world.fail(kA, 100);
  CHECK(world.view().primary == kA);  // Its pools go on trying.
  world.see(kB, primary_at(990, 2), 200);
  const ClusterView view = world.view();
  CHECK(view.primary == kB);
  CHECK(view.identity == 2);
  CHECK(view.identity_lsn == Lsn{990});
  CHECK(view.timeline == 2);
}

TEST_CASE("a promotion that is seen before the primary's death is no mistake", "[monitor]") {
  World world;
  world.settle();
  world.see(kB, primary_at(990, 2), 100);
  CHECK(world.view().primary == kA);
  SECTION("the next question finds the primary down") {
    world.fail(kA, 110);
    CHECK(world.view().primary == kB);
  }
  SECTION("an answer to an older question says nothing") {
    world.model.observed(kA, primary_at(1000), at(90), at(110));
    CHECK(world.model.claim_unchecked());
    world.fail(kA, 120);
    CHECK(world.view().primary == kB);
  }
}

TEST_CASE("a primary that is down is asked once more when another claims to be it", "[monitor]") {
  World world;
  world.settle();
  world.fail(kA, 100);
  world.model.observed(kB, primary_at(1010, 2), at(200), at(200));
  CHECK(world.view().primary == kA);
  CHECK(world.model.claim_unchecked());
  SECTION("it is back: the claim is a mistake") {
    world.see(kA, primary_at(1020), 201);
    CHECK(world.view().primary == kA);
    CHECK_FALSE(world.model.claim_unchecked());
    CHECK(world.said("node b:1 is not used"));
  }
  SECTION("it is not") {
    world.fail(kA, 201);
    CHECK(world.view().primary == kB);
  }
  SECTION("it does not say anything, which is not waited for long") {
    world.model.observed(kB, primary_at(1010, 2), at(399), at(399));
    CHECK(world.view().primary == kA);
    world.model.observed(kB, primary_at(1010, 2), at(400), at(400));
    CHECK(world.view().primary == kB);
  }
}

TEST_CASE("a stray that was rebuilt and is promoted again is no stray any more", "[monitor]") {
  World world;
  world.settle();
  world.see(kB, primary_at(1010, 2), 100);
  world.see(kA, primary_at(1010), 150);
  world.fail(kA, 200);
  world.see(kB, replica_at(1010), 300);
  CHECK(world.view().primary == kA);
  world.see(kB, primary_at(1010, 2), 400);
  CHECK(world.view().primary == kB);
}

/// B was promoted by mistake while A could not be asked, and taken for the primary; A, which C has
/// followed all the time, is back.
World world_with_stray_as_primary() {
  World world;
  world.settle();
  world.fail(kA, 100);
  world.see(kB, primary_at(1010, 2), 200);
  CHECK(world.view().primary == kB);
  world.see(kA, primary_at(1100, 1), 300);
  world.see(kB, primary_at(1020, 2), 350);
  world.see(kC, replica_at(1100, 1), 400);
  CHECK(world.view().primary == kB);  // Known as primary, and it answers.
  return world;
}

TEST_CASE("pitfall 1: the true primary is elected again when the stray has become its replica",
          "[monitor]") {
  World world = world_with_stray_as_primary();
  Observation rebuilt = replica_at(1100, 1);
  rebuilt.started_at = "200/200";
  world.see(kB, rebuilt, 1000);
  CHECK(world.view().primary == kA);
  CHECK(world.view().timeline == 1);
  CHECK(world.view().identity == 3);
  CHECK(world.view().identity_lsn == Lsn{1100});
  CHECK(world.view().nodes[2].eligible);
}

TEST_CASE(
    "pitfall 1: a stray that is gone for good is succeeded by who replicas surely follow, with "
    "patience",
    "[monitor]") {
  World world = world_with_stray_as_primary();
  world.fail(kB, 1000);
  world.see(kA, primary_at(1200, 1), 10'900);
  CHECK(world.view().primary == kB);
  SECTION("the replica's timeline is certain") {
    world.see(kC, replica_at(1200, 1), 11'100);
    CHECK(world.view().primary == kA);
  }
  SECTION("a replica on the newer timeline may follow a primary that only we can't reach") {
    world.see(kC, replica_at(1200, 2), 11'100);
    world.see(kA, primary_at(1200, 1), 60'000);
    CHECK(world.view().primary == kB);
    CHECK(world.said("nothing is written: b:1, the primary on timeline 2, is gone"));
  }
  SECTION("an uncertain timeline may be the newer one") {
    Observation unsure = replica_at(1200, 1);
    unsure.started_at = "200/200";
    unsure.timeline_certain = false;
    world.see(kC, unsure, 11'100);
    world.see(kA, primary_at(1200, 1), 60'000);
    CHECK(world.view().primary == kB);
  }
  SECTION("nobody follows") {
    world.fail(kC, 11'000);
    world.see(kA, primary_at(1200, 1), 60'000);
    CHECK(world.view().primary == kB);
    CHECK(world.said("it can't be told that a:1 (timeline 1) may take over"));
    world.see(kA, primary_at(1200, 1), 61'000);
    CHECK_FALSE(world.said("nothing is written"));  // Once.
    world.see(kB, primary_at(1300, 2), 62'000);
    CHECK(world.view().primary == kB);
  }
}

TEST_CASE("a primary that was seen in recovery is one claimant among others when it is promoted",
          "[monitor]") {
  World world = world_with_stray_as_primary();
  world.fail(kA, 900);
  Observation rebuilt = replica_at(1100, 1);
  rebuilt.started_at = "200/200";
  world.see(kB, rebuilt, 1000);
  CHECK_FALSE(world.view().primary);
  SECTION("the only one") {
    Observation promoted = primary_at(1110, 2);
    promoted.started_at = "200/200";
    world.see(kB, promoted, 1100);
    CHECK(world.view().primary == kB);
    CHECK(world.view().identity == 3);
  }
  SECTION("beside one that a replica follows") {
    world.see(kA, primary_at(1100, 1), 1050);
    CHECK(world.view().primary == kA);
    Observation promoted = primary_at(1110, 3);
    promoted.started_at = "200/200";
    world.see(kB, promoted, 1100);
    CHECK(world.view().primary == kA);
  }
}

TEST_CASE("of two that may take over, the one that replicas follow does", "[monitor]") {
  World world;
  world.settle();
  world.see(kB, primary_at(1010, 2), 100);
  world.see(kC, primary_at(1010, 3), 100);
  world.see(kA, primary_at(1010), 150);
  world.fail(kA, 200);
  world.see(kB, primary_at(1010, 2), 300);
  CHECK(world.view().primary == kA);
  world.see(kA, replica_at(1010, 2), 400);
  CHECK(world.view().primary == kB);
}

TEST_CASE("a cluster that was made anew under the same addresses is taken after a while",
          "[monitor]") {
  World world;
  world.settle();
  Observation fresh = primary_at(50);
  fresh.system_id = "8";
  Observation fresh_replica = replica_at(50);
  fresh_replica.system_id = "8";
  SECTION("the same node is its primary") {
    world.see(kA, fresh, 100);
    CHECK(world.view().identity == 1);
    world.see(kA, fresh, 5000);
    CHECK(world.view().identity == 1);
    world.see(kA, fresh, 11'000);
    CHECK(world.view().primary == kA);
    CHECK(world.view().identity == 2);
    CHECK(world.view().system_id == "8");
  }
  SECTION("another node is") {
    world.see(kA, fresh_replica, 100);
    world.see(kB, fresh, 200);
    CHECK_FALSE(world.view().primary);
    world.see(kB, fresh, 11'000);
    CHECK(world.view().primary == kB);
  }
  SECTION("a stranger is none while the primary is only down") {
    world.fail(kA, 100);
    world.see(kB, fresh, 200);
    world.see(kB, fresh, 60'000);
    CHECK(world.view().primary == kA);
  }
}

TEST_CASE("an old primary that comes back is not written to", "[monitor]") {
  World world;
  world.settle();
  world.fail(kA, 100);
  world.see(kB, primary_at(990, 2), 200);
  world.see(kA, primary_at(1000, 1), 300);
  CHECK(world.view().primary == kB);
  CHECK_FALSE(world.view().nodes[0].eligible);
  world.fail(kB, 400);
  world.see(kA, primary_at(1000, 1), 60'000);
  CHECK(world.view().primary ==
        kB);  // Its timeline is the older one: what was written since is not there.
}

TEST_CASE("a replica that comes back starts slowly, those of the beginning do not", "[monitor]") {
  World world;
  world.settle();
  ClusterView view = world.view(1);
  REQUIRE((view.nodes[1].eligible && view.nodes[2].eligible));
  CHECK(view.nodes[1].usable_since == Time{});
  CHECK(view.nodes[2].usable_since == Time{});
  world.fail(kC, 20'000);
  CHECK(world.view(20'000).nodes[2].usable_since == Time{});
  world.see(kC, replica_at(1000), 25'000);
  CHECK(world.view(25'000).nodes[2].usable_since == at(25'000));
  CHECK(world.view(40'000).nodes[2].usable_since == at(25'000));
  CHECK(world.view(40'000).nodes[1].usable_since == Time{});
  // Where nobody else answers reads there is nobody to spare it.
  world.fail(kB, 50'000);
  world.fail(kC, 50'000);
  (void)world.view(50'000);
  world.see(kB, replica_at(1000), 60'000);
  CHECK(world.view(60'000).nodes[1].usable_since == Time{});
  world.see(kC, replica_at(1000), 61'000);
  CHECK(world.view(61'000).nodes[2].usable_since == Time{});
}

TEST_CASE("a primary that is seen in recovery is none", "[monitor]") {
  World world;
  world.settle();
  world.see(kA, replica_at(1000), 100);
  CHECK_FALSE(world.view().primary);
  world.see(kC, primary_at(1000, 2), 200);
  CHECK(world.view().primary == kC);
  CHECK_FALSE(world.view().nodes[0].eligible);  // Still on timeline 1.
  world.see(kA, replica_at(1010, 2), 300);
  CHECK(world.view().nodes[0].eligible);
}

TEST_CASE("pitfall 10: after a promotion a replica is eligible only once seen on the new timeline",
          "[monitor]") {
  World world;
  world.settle();
  world.fail(kA, 100);
  world.see(kB, primary_at(1000, 2), 200);
  CHECK_FALSE(world.view().nodes[2].eligible);
  Observation unsure = replica_at(1000, 1);
  unsure.started_at = "200/200";
  unsure.timeline_certain = false;
  world.see(kC, unsure, 300);
  CHECK(world.view().nodes[2].excluded.find("GRANT pg_monitor") != std::string::npos);
  world.see(kC, replica_at(1000, 2), 400);
  CHECK(world.view().nodes[2].eligible);
}

TEST_CASE("pitfall 10: a timeline once seen is not taken back by an older control file",
          "[monitor]") {
  World world;
  world.see(kA, primary_at(1000, 2), 0);
  world.see(kB, replica_at(1000, 2), 0);
  world.see(kC, replica_at(1000, 2), 0);
  Observation receiver_gone = replica_at(1000, 1);
  receiver_gone.timeline_certain = false;
  world.see(kB, receiver_gone, 100);
  CHECK(world.view().nodes[1].timeline == 2);
  CHECK(world.view().nodes[1].eligible);
}

TEST_CASE("pitfall 1: two claimants at start are no primary unless replicas follow exactly one",
          "[monitor]") {
  World world;
  SECTION("nobody follows") {
    world.see(kA, primary_at(1000, 1), 0);
    world.see(kB, primary_at(1000, 2), 0);
    world.fail(kC, 0);
    CHECK_FALSE(world.view().primary);
    CHECK(world.said("several nodes say that they are the primary"));
    world.see(kA, primary_at(1000, 1), 100);
    CHECK_FALSE(world.said("several nodes"));  // Once.
    world.fail(kB, 200);
    CHECK(world.view().primary == kA);
  }
  SECTION("one is followed") {
    world.see(kA, primary_at(1000, 1), 0);
    world.see(kB, primary_at(1000, 2), 0);
    world.see(kC, replica_at(1000, 1), 0);
    CHECK(world.view().primary == kA);
  }
  SECTION("replicas can't tell") {
    world.see(kA, primary_at(1000, 1), 0);
    world.see(kB, primary_at(1000, 1), 0);
    world.see(kC, replica_at(1000, 1), 0);
    CHECK_FALSE(world.view().primary);
  }
}

TEST_CASE("pitfall 17: a restart of the primary changes the identity though the timeline stays",
          "[monitor]") {
  World world;
  world.settle();
  Observation restarted = primary_at(950);
  restarted.started_at = "200/200";
  world.see(kA, restarted, 100);
  CHECK_FALSE(world.view().primary);  // Somebody may have been promoted meanwhile.
  CHECK(world.model.must_ask(kB));
  CHECK_FALSE(world.model.must_ask(kA));
  world.see(kB, replica_at(1000), 101);
  CHECK_FALSE(world.view().primary);
  world.fail(kC, 101);
  world.see(kA, restarted, 102);
  CHECK(world.view().primary == kA);
  CHECK(world.view().identity == 2);
  CHECK(world.view().identity_lsn == Lsn{950});
  CHECK(world.view().nodes[0].replayed == Lsn{950});
  CHECK_FALSE(world.view().nodes[1].lag_known);
}

TEST_CASE("a primary that comes back is nobody's when another was promoted in its absence",
          "[monitor]") {
  World world;
  world.settle();
  Observation restarted = primary_at(950);
  restarted.started_at = "200/200";
  SECTION("the monitor sees it first") { world.see(kA, restarted, 100); }
  SECTION("a server of a pool sees it first") {
    world.model.server_seen(kA, "7", "200/200", at(100));
    CHECK(world.model.must_ask(kA));
    CHECK_FALSE(world.view().primary);
    world.see(kA, restarted, 101);
  }
  CHECK_FALSE(world.view().primary);
  world.see(kC, replica_at(1000), 110);
  world.see(kB, primary_at(1100, 2), 110);
  CHECK(world.view().primary == kB);
}

TEST_CASE("a server that reached another instance does not take the primary away for long",
          "[monitor]") {
  World world;
  world.settle();
  world.model.server_seen(kA, "7", "150/150", at(100));
  CHECK_FALSE(world.view().primary);
  world.see(kA, primary_at(1000), 101);
  CHECK(world.view().primary == kA);
  CHECK(world.view().identity == 1);
}

TEST_CASE("pitfall 17: an insert LSN that falls back is another identity", "[monitor]") {
  World world;
  world.settle();
  world.see(kA, primary_at(1000 - 24), 100);  // The page-boundary rule.
  CHECK(world.view().identity == 1);
  CHECK(world.view().nodes[0].replayed == Lsn{1000});
  world.see(kA, primary_at(900), 200);
  CHECK(world.view().identity == 2);
}

TEST_CASE("a poll that a capture has overtaken is no fall-back", "[monitor]") {
  World world;
  world.settle();
  world.model.captured(Lsn{5000}, at(120), at(150));
  world.model.observed(kA, primary_at(1000), at(110), at(160));
  CHECK(world.view().identity == 1);
  world.model.observed(kA, primary_at(1000), at(170), at(180));
  CHECK(world.view().identity == 2);
}

TEST_CASE("a node of another cluster is never used", "[monitor]") {
  World world;
  Observation foreign = replica_at(1000);
  foreign.system_id = "8";
  world.see(kA, primary_at(1000), 0);
  world.see(kB, replica_at(1000), 0);
  world.see(kC, foreign, 0);
  CHECK(world.view().nodes[1].eligible);
  CHECK_FALSE(world.view().nodes[2].eligible);
  CHECK(world.said("another cluster"));
}

TEST_CASE("pitfall 18: a replica whose settings differ is excluded with the reason", "[monitor]") {
  World world;
  world.settle();
  CHECK(world.view().nodes[1].eligible);
  world.model.take_notices();
  world.model.compared(kB, {{"TimeZone", "Asia/Tokyo"}}, at(100));
  CHECK_FALSE(world.view().nodes[1].eligible);
  CHECK(world.view().nodes[1].excluded == "TimeZone is \"Asia/Tokyo\", on the primary \"UTC\"");
  CHECK(world.said("TimeZone"));
  world.model.compared(kB, {{"TimeZone", "UTC"}}, at(200));
  CHECK(world.view().nodes[1].eligible);
  CHECK(world.said("b:1 is used again"));
}

TEST_CASE("a replica's replay LSN never falls while it is the same instance", "[monitor]") {
  World world;
  world.settle();
  world.see(kB, replica_at(990), 100);
  CHECK(world.view().nodes[1].replayed == Lsn{1000});
  Observation restarted = replica_at(950);
  restarted.started_at = "200/200";
  world.see(kB, restarted, 200);
  CHECK(world.view().nodes[1].replayed == Lsn{950});
}

TEST_CASE("pitfall 9: a server of another instance marks the node only if a fresh poll differs too",
          "[monitor]") {
  World world;
  world.settle();
  SECTION("another instance") {
    world.model.server_seen(kB, "7", "555/555", at(100));
    world.model.observed(kB, replica_at(1000), at(90), at(110));  // Asked before: not fresh.
    CHECK_FALSE(world.view().nodes[1].several);
    world.see(kB, replica_at(1000), 200);
    CHECK(world.view().nodes[1].several);
    CHECK(world.said("more than one instance"));
  }
  SECTION("the node was restarted before the server was opened") {
    world.model.server_seen(kB, "7", "200/200", at(100));
    Observation restarted = replica_at(1000);
    restarted.started_at = "200/200";
    world.see(kB, restarted, 200);
    CHECK_FALSE(world.view().nodes[1].several);
  }
  SECTION("the node was restarted after the server was opened") {
    Observation restarted = replica_at(1000);
    restarted.started_at = "200/200";
    world.see(kB, restarted, 50);
    world.model.server_seen(kB, "7", "100/100", at(60));
    Observation again = restarted;
    world.see(kB, again, 100);
    CHECK(world.view()
              .nodes[1]
              .several);  // Told late, it can't be told from two instances: the careful answer.
  }
}

Observation replica_started(const char* when) {
  Observation seen = replica_at(1000);
  seen.started_at = when;
  return seen;
}

TEST_CASE("pitfall 9: a mark that a restart told late may have caused heals", "[monitor]") {
  World world;
  world.settle();
  world.see(kB, replica_started("300/300"), 50);
  world.model.server_seen(kB, "7", "200/200", at(100));  // Between two polls it ran for a moment.
  world.see(kB, replica_started("300/300"), 150);
  REQUIRE(world.view().nodes[1].several);
  const auto matches = [&world](int ms, int count) {
    for (int i = 0; i < count; ++i) world.model.server_seen(kB, "7", "300/300", at(ms));
  };
  SECTION("after three matches and a minute") {
    matches(200, 10);
    CHECK(world.view().nodes[1].several);
    matches(60'200, 1);
    CHECK_FALSE(world.view().nodes[1].several);
    CHECK(world.said("answers for one instance after all"));
    world.model.server_seen(kB, "7", "200/200", at(60'300));
    world.see(kB, replica_started("300/300"), 60'400);
    CHECK(world.view().nodes[1].several);
    matches(200'000, 10);
    CHECK(world.view().nodes[1].several);  // Only once.
  }
  SECTION("not before three matches in a row") {
    world.model.server_seen(kB, "7", "200/200", at(300));
    matches(60'400, 2);
    CHECK(world.view().nodes[1].several);
    matches(60'500, 1);
    CHECK_FALSE(world.view().nodes[1].several);
  }
  SECTION("not when the other instance is still there long after") {
    world.model.server_seen(kB, "7", "200/200", at(40'000));
    matches(300'000, 10);
    CHECK(world.view().nodes[1].several);
  }
}

TEST_CASE("pitfall 9: a mark that no restart explains stays", "[monitor]") {
  World world;
  world.settle();
  world.model.server_seen(kB, "7", "555/555", at(100));
  world.see(kB, replica_at(1000), 200);
  REQUIRE(world.view().nodes[1].several);
  for (int i = 0; i < 10; ++i) world.model.server_seen(kB, "7", "100/100", at(100'000 + i));
  CHECK(world.view().nodes[1].several);
}

TEST_CASE(
    "while nobody is known the first node not seen in recovery is assumed, and no replica is used",
    "[monitor]") {
  World world;
  world.fail(kA, 0);
  world.see(kB, replica_at(1000), 0);
  world.see(kC, replica_at(1000), 0);
  const ClusterView view = world.view();
  CHECK(view.primary == kA);
  CHECK_FALSE(world.model.known_primary());
  CHECK(view.identity == 0);
  CHECK_FALSE(view.nodes[1].eligible);
}

}  // namespace
}  // namespace pgweir::monitor
