#include "routing/replica_choice.h"

#include <catch2/catch.hpp>
#include <deque>
#include <map>

using namespace pgweir;
using namespace pgweir::routing;
using std::chrono::seconds;

namespace {

constexpr NodeId kA{2};
constexpr NodeId kB{3};
constexpr NodeId kC{4};

/// Sends `units` of them one after another, `at_once` of which are under way at a time; how many each one got.
std::map<NodeId, int> spread(std::vector<Candidate> replicas, int units, std::size_t at_once) {
  std::map<NodeId, int> got;
  std::deque<NodeId> under_way;
  for (int i = 0; i < units; ++i) {
    if (under_way.size() == at_once) {
      for (Candidate& replica : replicas) replica.outstanding -= replica.id == under_way.front() ? 1 : 0;
      under_way.pop_front();
    }
    std::vector<Candidate> ordered = replicas;
    order(ordered, {});
    const NodeId first = ordered.front().id;
    for (Candidate& replica : replicas) replica.outstanding += replica.id == first ? 1 : 0;
    under_way.push_back(first);
    ++got[first];
  }
  return got;
}

}  // namespace

TEST_CASE("reads are spread by weight", "[routing]") {
  const auto got = spread({{kA, 0, 3 * kWholeShare}, {kB, 0, kWholeShare}}, 40'000, 40);
  CHECK(got.at(kA) == Approx(30'000).epsilon(0.01));
  CHECK(got.at(kB) == Approx(10'000).epsilon(0.01));
  const auto three = spread({{kA, 0, 5 * kWholeShare}, {kB, 0, 3 * kWholeShare}, {kC, 0, 2 * kWholeShare}}, 50'000, 50);
  CHECK(three.at(kA) == Approx(25'000).epsilon(0.01));
  CHECK(three.at(kB) == Approx(15'000).epsilon(0.01));
  CHECK(three.at(kC) == Approx(10'000).epsilon(0.01));
  const auto alike = spread({{kA, 0, kWholeShare}, {kB, 0, kWholeShare}}, 10'000, 7);
  CHECK(alike.at(kA) == Approx(5'000).epsilon(0.15));
}

TEST_CASE("where hardly anything is under way the heaviest replica gets it", "[routing]") {
  const auto got = spread({{kA, 0, kWholeShare}, {kB, 0, 3 * kWholeShare}}, 1000, 1);
  CHECK(got.at(kB) == 1000);
}

TEST_CASE("on a tie the session's last replica comes first, else the one configured first", "[routing]") {
  std::vector<Candidate> two{{kA, 1, kWholeShare}, {kB, 1, kWholeShare}};
  order(two, {});
  CHECK(two.front().id == kA);
  order(two, kB);
  CHECK(two.front().id == kB);
  two = {{kA, 0, kWholeShare}, {kB, 1, kWholeShare}};
  order(two, kB);
  CHECK(two.front().id == kA);
}

TEST_CASE("the share of a replica that has become usable grows evenly to its weight", "[routing]") {
  const Time began{seconds{100}};
  const auto share = [&](Duration passed, std::uint32_t weight = 1) { return share_of(weight, began, seconds{10}, began + passed); };
  CHECK(share(seconds{0}) == 1);
  CHECK(share(seconds{1}) == kWholeShare / 10);
  CHECK(share(seconds{5}) == kWholeShare / 2);
  CHECK(share(seconds{10}) == kWholeShare);
  CHECK(share(seconds{1000}) == kWholeShare);
  CHECK(share(seconds{5}, 4) == 2 * kWholeShare);
  CHECK(share(seconds{-1}) == 1);
  CHECK(share_of(0, began, seconds{10}, began + seconds{5}) == 0);
  CHECK(share_of(2, began, {}, began) == 2 * kWholeShare);
  CHECK(share_of(2, {}, seconds{10}, began) == 2 * kWholeShare);
  std::uint64_t last = 0;
  for (int ms = 0; ms <= 10'000; ++ms) {
    const std::uint64_t now = share(std::chrono::milliseconds{ms}, 3);
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("a replica that starts slowly gets few reads at first", "[routing]") {
  const Time began{seconds{100}};
  const auto part = [&](Duration passed) {
    const auto got = spread({{kA, 0, kWholeShare}, {kB, 0, share_of(1, began, seconds{10}, began + passed)}}, 10'000, 100);
    return got.contains(kB) ? got.at(kB) / 10'000.0 : 0.0;
  };
  CHECK(part(seconds{0}) < 0.02);
  CHECK(part(seconds{2}) == Approx(1.0 / 6).margin(0.02));
  CHECK(part(seconds{5}) == Approx(1.0 / 3).margin(0.02));
  CHECK(part(seconds{10}) == Approx(0.5).margin(0.02));
}

TEST_CASE("a node that was given no weight has 1", "[routing]") {
  ReplicaWeights weights;
  CHECK(weights.of(kA) == 1);
  weights.set(kA, 0);
  weights.set(kB, 7);
  CHECK(weights.of(kA) == 0);
  CHECK(weights.of(kB) == 7);
  CHECK(weights.of(kC) == 1);
  weights.clear();
  CHECK(weights.of(kA) == 1);
}
