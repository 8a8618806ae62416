// The simulator tested by itself: without a pooler in between, clients and nodes must agree; and
// the checkers must see what they are there for.
#include <catch2/catch.hpp>

#include "sim_cluster.h"
#include "sim_network.h"
#include "workload.h"

using namespace pgweir;
using namespace pgweir::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

/// A cluster and its network, and clients that go to the primary themselves.
struct Direct {
  explicit Direct(std::uint64_t seed)
      : dice(seed),
        loop(dice.fork(), false),
        truth(loop),
        network(loop, dice.fork()),
        cluster(loop, network, truth, dice.fork(), 3) {
    loop.behind_each_poll([this] { network.flush(); });
  }
  Dice dice;
  SimLoop loop;
  Truth truth;
  SimNetwork network;
  SimCluster cluster;
  ClientWorld clients{.loop = loop,
                      .network = network,
                      .cluster = cluster,
                      .truth = truth,
                      .pooler = cluster.primary().address()};
};

}  // namespace

TEST_CASE("clients that talk to the primary directly find every promise kept") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Direct world(seed);
    Workload workload(world.clients, world.dice.fork(), Habits{}, 6);
    workload.start();
    world.loop.run_for(seconds{3},
                       [&] { return world.truth.failed() || workload.answered() > 400; });
    workload.finish();
    workload.nudge();
    world.loop.run_for(seconds{20}, [&] { return world.truth.failed() || workload.finished(); });
    INFO("seed " << seed << "\n" << world.loop.trace().tail());
    CHECK(world.truth.failure() == "");
    CHECK(workload.finished());
    CHECK(workload.answered() > 400);
    if (world.truth.failed()) break;
  }
}

TEST_CASE(
    "replicas come to the primary's state, and a promotion that loses a commit releases who waited "
    "for it") {
  Direct world(3);
  const RecordId first = world.cluster.primary().append(1);
  world.loop.run_for(seconds{1});
  CHECK(world.cluster.node(1).applied() == first);
  world.cluster.node(1).pause_replay(true);
  world.network.cut_off("n1", true);
  const RecordId second = world.cluster.primary().append(1);
  CHECK(second > first);
  world.cluster.asynchronous_commit = true;
  const RecordId lost = world.cluster.primary().append(2);
  SessionMemory session;
  world.truth.committed({1, 1}, lost);
  world.truth.acknowledged({1, 1}, session);
  CHECK(world.truth.must_see(session, 0).versions[1] == lost);
  world.cluster.fail_over(world.cluster.node(1));
  CHECK(world.truth.must_see(session, 0).versions[1] < lost);
}

TEST_CASE("a stale read and a foreign row are seen by the checkers") {
  Direct world(4);
  SessionMemory session;
  const RecordId written = world.cluster.primary().append(1);
  world.truth.committed({1, 1}, written);
  world.truth.acknowledged({1, 1}, session);
  SessionMemory other;
  const Due must = world.truth.must_see(other, 0);
  world.truth.read({2, 1}, other, 1, 0, must, "n1", false);
  CHECK(world.truth.failure().find("had to see") != std::string::npos);
}

TEST_CASE("a marker is found within a text and nowhere else") {
  CHECK(find_marker("SELECT v, 'c12.7' FROM t0") == Marker{12, 7});
  CHECK(find_marker("/* c1.20 */ BEGIN") == Marker{1, 20});
  CHECK_FALSE(find_marker("SELECT abc1.2 FROM pg_catalog.x").has_value());
}
