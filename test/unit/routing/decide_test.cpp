#include "routing/decide.h"

#include <catch2/catch.hpp>
#include <map>
#include <ostream>
#include <set>

namespace pgweir::routing {

inline std::ostream& operator<<(std::ostream& out, Reason reason) {
  return out << to_string(reason);
}

namespace {

using config::ConsistencyLevel;
using tokens::Lsn;
using tokens::Need;

constexpr NodeId kPrimary{1};
constexpr NodeId kFirst{2};
constexpr NodeId kSecond{3};

class FakeLoad final : public Load {
 public:
  std::uint32_t outstanding(NodeId node) const noexcept override {
    const auto found = outstanding_of.find(node);
    return found == outstanding_of.end() ? 0 : found->second;
  }
  bool failing(NodeId node) const noexcept override { return failing_ones.contains(node); }

  std::map<NodeId, std::uint32_t> outstanding_of;
  std::set<NodeId> failing_ones;
};

NodeView replica(NodeId id, Lsn replayed) {
  NodeView node;
  node.id = id;
  node.role = Role::replica;
  node.eligible = true;
  node.replayed = replayed;
  node.lag_known = true;
  return node;
}

/// A primary at 1000, one replica at 900, one at 800, and a plain read at level table that needs
/// nothing.
struct World {
  World() {
    NodeView primary;
    primary.id = kPrimary;
    primary.role = Role::primary;
    primary.replayed = Lsn{1000};
    cluster.primary = kPrimary;
    cluster.nodes = {primary, replica(kFirst, Lsn{900}), replica(kSecond, Lsn{800})};
    unit.cause = sql::Cause::none;
    unit.certain = true;
    policy.level = ConsistencyLevel::table;
    policy.max_replica_lag = std::chrono::seconds{10};
    policy.split = true;
  }
  Route route() const { return decide(unit, cluster, policy, load); }
  Reason reason() const { return route().reason; }

  ClusterView cluster;
  UnitFacts unit;
  Policy policy;
  FakeLoad load;
};

TEST_CASE("a plain read goes to a replica, with all that may answer", "[routing]") {
  const World world;
  const Route route = world.route();
  CHECK(route.target == sql::Target::replica);
  CHECK(route.reason == Reason::read);
  REQUIRE(route.replica_count == 2);
  CHECK(route.replicas[0] == kFirst);
  CHECK(route.replicas[1] == kSecond);
}

TEST_CASE("tables that no catalog tells about are read on the primary, whatever a hint says", "[routing]") {
  World world;
  world.unit.unknown_tables = true;
  CHECK(world.reason() == Reason::unparsed);
  world.unit.hint = sql::Hint::replica;
  CHECK(world.reason() == Reason::unparsed);
}

TEST_CASE("the first reason in the documented order is the one that is told", "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::primary;
  CHECK(world.reason() == Reason::level_primary);
  world.unit.flushed = true;
  CHECK(world.reason() == Reason::flush);
  world.unit.oversize = true;
  CHECK(world.reason() == Reason::oversize);
  world.unit.learned = true;
  CHECK(world.reason() == Reason::learned);
  world.unit.serializable = true;
  CHECK(world.reason() == Reason::serializable);
  world.unit.hint = sql::Hint::primary;
  CHECK(world.reason() == Reason::hint);
  world.unit.cause = sql::Cause::primary_function;
  CHECK(world.reason() == Reason::primary_function);
  world.unit.in_transaction = true;
  CHECK(world.reason() == Reason::in_transaction);
  world.unit.pinned = true;
  CHECK(world.reason() == Reason::pinned);
  world.policy.split = false;
  CHECK(world.reason() == Reason::not_split);
}

TEST_CASE("level session needs the session's token and not the tables' last writes", "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::session;
  world.unit.tables = {.lsn = Lsn{950}};
  CHECK(world.reason() == Reason::read);
  world.unit.session = {.lsn = Lsn{850}};
  const Route route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.replicas[0] == kFirst);
  world.unit.session = {.lsn = Lsn{901}};
  CHECK(world.reason() == Reason::token_ahead);
  CHECK_FALSE(world.route().wants_capture);
}

TEST_CASE("level table needs both", "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{900}};
  CHECK(world.route().replica_count == 1);
  world.unit.tables = {.lsn = Lsn{901}};
  CHECK(world.reason() == Reason::table_written);
  world.unit.session = {.lsn = Lsn{901}};
  CHECK(world.reason() == Reason::token_ahead);
}

TEST_CASE("level latest needs what was committed when the unit came, and nothing of the session",
          "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::latest;
  world.unit.session = {.lsn = Lsn{1000}};
  world.unit.only_replica = kSecond;
  world.unit.tables = {.lsn = {}, .pending = 9};
  CHECK(world.reason() == Reason::latest_wait);
  CHECK(world.route().wants_capture);
  world.unit.tables = {.lsn = Lsn{900}};
  const Route route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.replicas[0] == kFirst);
}

TEST_CASE("level pin keeps who has written on the primary for exactly pin_window", "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::pin;
  world.policy.pin_window = std::chrono::seconds{5};
  world.unit.session = {.lsn = Lsn{1000}};
  CHECK(world.reason() == Reason::read);
  world.unit.since_own_write = std::chrono::seconds{5} - std::chrono::microseconds{1};
  CHECK(world.reason() == Reason::recent_write);
  world.unit.since_own_write = std::chrono::seconds{5};
  CHECK(world.reason() == Reason::read);
}

TEST_CASE("level window waits out a fixed time, or each replica's own measured lag", "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::window;
  world.policy.table_window = {.measured = false, .time = std::chrono::seconds{1}};
  CHECK(world.route().replica_count == 2);  // Nobody has written its tables.
  world.unit.since_table_write = std::chrono::milliseconds{999};
  CHECK(world.reason() == Reason::table_written);
  world.unit.since_table_write = std::chrono::seconds{1};
  CHECK(world.route().replica_count == 2);

  world.policy.table_window = {};
  world.unit.since_table_write = std::chrono::milliseconds{30};
  world.cluster.nodes[1].lag_p999 = std::chrono::milliseconds{31};
  world.cluster.nodes[2].lag_p999 = std::chrono::milliseconds{30};
  const Route route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.replicas[0] == kSecond);
  world.cluster.nodes[2].lag_known = false;
  CHECK(world.reason() == Reason::table_written);
}

TEST_CASE("a read may wait for a replica that is not known to be further behind than it would wait",
          "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{901}};
  CHECK_FALSE(world.route().may_wait);
  world.policy.replica_wait = std::chrono::milliseconds{5};
  CHECK(world.route().may_wait);
  world.cluster.nodes[1].lag = world.cluster.nodes[2].lag = std::chrono::milliseconds{6};
  CHECK_FALSE(world.route().may_wait);
  world.cluster.nodes[1].lag = {};
  world.cluster.nodes[1].eligible = false;
  CHECK_FALSE(world.route().may_wait);
  world.unit.tables = {};
  CHECK(world.reason() == Reason::read);
}

TEST_CASE("a read does not wait for a replica that can't arrive in time at the rate at which it replays", "[routing]") {
  World world;
  world.policy.replica_wait = std::chrono::milliseconds{5};
  world.unit.tables = {.lsn = Lsn{1900}};
  world.cluster.nodes[2].eligible = false;
  NodeView& node = world.cluster.nodes[1];  // It stands at 900.
  node.observed_at = world.unit.now = Time{std::chrono::seconds{10}};
  CHECK(world.route().may_wait);
  node.replay_bytes_per_s = 1'000'000;  // It takes 1 ms.
  CHECK(world.route().may_wait);
  node.replay_bytes_per_s = 100'000;
  CHECK_FALSE(world.route().may_wait);
  // It has gone on since it was asked.
  world.unit.now += std::chrono::milliseconds{6};
  CHECK(world.route().may_wait);
  world.unit.now = node.observed_at;
  SECTION("and is not asked together with it either") {
    world.policy.lsn_check = config::LsnCheck::inline_;
    CHECK(world.reason() == Reason::table_written);
    node.replay_bytes_per_s = 1'000'000;
    CHECK(world.route().check == Lsn{1900});
  }
  SECTION("which another one may") {
    world.cluster.nodes[2].eligible = true;
    CHECK(world.route().may_wait);
  }
}

TEST_CASE("with lsn_check inline a replica is asked together with a read that its cached position does not allow", "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{901}};
  CHECK(world.route().check == Lsn{});
  world.policy.lsn_check = config::LsnCheck::inline_;
  Route route = world.route();
  REQUIRE(route.replica_count == 2);
  CHECK(route.check == Lsn{901});
  CHECK(still_allowed(kFirst, world.unit, world.cluster, world.policy, Lsn{901}));
  CHECK_FALSE(still_allowed(kFirst, world.unit, world.cluster, world.policy, Lsn{900}));
  CHECK_FALSE(still_allowed(kFirst, world.unit, world.cluster, world.policy, {}));
  // Who is known to be far enough need not be asked.
  world.unit.tables = {.lsn = Lsn{850}};
  route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.replicas[0] == kFirst);
  CHECK(route.check == Lsn{});
}

TEST_CASE("with lsn_check wait a replica is asked to wait with the read, from version 19 on", "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{901}};
  world.policy.lsn_check = config::LsnCheck::wait;
  world.policy.replica_wait = std::chrono::milliseconds{50};
  for (const int version : {0, 15, 18}) {
    world.cluster.server_version = version;
    CHECK(world.route().check == Lsn{901});
    CHECK(world.route().wait_there == Duration{});
  }
  world.cluster.server_version = 19;
  CHECK(world.route().check == Lsn{901});
  CHECK(world.route().wait_there == std::chrono::milliseconds{50});
  // One that is not expected there by then is not asked.
  NodeView& first = world.cluster.nodes[1];
  world.cluster.nodes[2].eligible = false;
  first.replay_bytes_per_s = 1.0;
  CHECK(world.reason() == Reason::table_written);
  first.replay_bytes_per_s = 100.0;  // One byte: 10 ms.
  CHECK(world.route().wait_there == std::chrono::milliseconds{50});
  world.unit.tables = {.lsn = Lsn{800}};
  CHECK(world.route().check == Lsn{});
  CHECK(world.route().wait_there == Duration{});
  CHECK(wait_for_query(Lsn{0x1'0000'00ABULL}, std::chrono::microseconds{1}) == "WAIT FOR LSN '1/AB' WITH (TIMEOUT '1ms', NO_THROW)");
}

TEST_CASE("nobody is asked together with a read where the answer would not help", "[routing]") {
  World world;
  world.policy.lsn_check = config::LsnCheck::inline_;
  world.unit.tables = {.lsn = Lsn{901}};
  REQUIRE(world.reason() == Reason::read);
  SECTION("nobody knows yet what for") {
    world.unit.tables = {.lsn = {}, .pending = 3};
    CHECK(world.reason() == Reason::table_written);
  }
  SECTION("it was asked, and was behind") {
    world.unit.behind = true;
    CHECK(world.reason() == Reason::token_ahead);
  }
  SECTION("it lags too much") {
    world.cluster.nodes[1].lag = world.cluster.nodes[2].lag = std::chrono::seconds{11};
    CHECK(world.reason() == Reason::table_written);
  }
  SECTION("the read may be refused, which nobody would hear of") {
    world.unit.certain = false;
    CHECK(world.reason() == Reason::table_written);
    world.unit.proven = true;
    CHECK(world.reason() == Reason::read);
  }
  SECTION("only one of them may show what was seen before") {
    world.unit.only_replica = kSecond;
    const Route route = world.route();
    REQUIRE(route.replica_count == 1);
    CHECK(route.replicas[0] == kSecond);
    CHECK(route.check == Lsn{901});
  }
}

TEST_CASE("an address that hides several instances answers what must be fresh only when it is asked", "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{700}};
  world.cluster.nodes[1].several = true;
  world.cluster.nodes[2].eligible = false;
  CHECK(world.reason() == Reason::table_written);
  world.policy.lsn_check = config::LsnCheck::inline_;
  const Route route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.check == Lsn{700});
  world.unit.tables = {};
  CHECK(world.route().check == Lsn{});
}

TEST_CASE("what reads have shown binds every replica but the one that was read last", "[routing]") {
  World world;
  world.unit.seen = Lsn{950};  // It has received so much, and replayed less.
  world.unit.seen_on = kFirst;
  Route route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.replicas[0] == kFirst);
  world.unit.seen_elsewhere = Lsn{901};  // A hint, or another session of the key, had read it elsewhere.
  CHECK(world.reason() == Reason::token_ahead);
  world.unit.seen_elsewhere = Lsn{900};
  CHECK(world.reason() == Reason::read);
  world.unit.seen_on = {};
  CHECK(world.reason() == Reason::token_ahead);
  world.cluster.nodes[2].replayed = Lsn{950};
  route = world.route();
  REQUIRE(route.replica_count == 1);
  CHECK(route.replicas[0] == kSecond);
}

TEST_CASE("level eventual needs nothing but a small lag", "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::eventual;
  world.unit.session = {.lsn = Lsn{950}, .pending = 3};
  world.unit.tables = {.lsn = {}, .pending = 4};
  world.unit.only_replica = kSecond;
  CHECK(world.route().replica_count == 2);
  world.cluster.nodes[1].lag = std::chrono::seconds{11};
  world.cluster.nodes[2].lag_known = false;
  CHECK(world.reason() == Reason::lag);
}

TEST_CASE("what no capture has covered yet is read on the primary and wants a capture",
          "[routing]") {
  World world;
  world.unit.tables = {.lsn = {}, .pending = 7};
  CHECK(world.reason() == Reason::table_written);
  CHECK(world.route().wants_capture);
  world.unit.session = {.lsn = {}, .pending = 7};
  CHECK(world.reason() == Reason::token_ahead);
  CHECK(world.route().wants_capture);
  for (NodeView& node : world.cluster.nodes) node.eligible = false;
  CHECK(world.reason() == Reason::no_replica);
  CHECK_FALSE(world.route().wants_capture);
}

TEST_CASE("the hint replica overrides lag and consistency, never what the statement does",
          "[routing]") {
  World world;
  world.unit.hint = sql::Hint::replica;
  world.policy.level = ConsistencyLevel::primary;
  world.unit.session = {.lsn = Lsn{2000}};
  world.unit.tables = {.lsn = {}, .pending = 7};
  for (NodeView& node : world.cluster.nodes) node.lag = std::chrono::hours{1};
  CHECK(world.route().target == sql::Target::replica);
  for (sql::Cause cause : {sql::Cause::write, sql::Cause::primary_function, sql::Cause::unlogged,
                           sql::Cause::unparsed}) {
    world.unit.cause = cause;
    CHECK(world.reason() == reason_of(cause));
  }
  world.unit.cause = sql::Cause::none;
  world.unit.in_transaction = true;
  CHECK(world.reason() == Reason::in_transaction);
}

TEST_CASE("pitfall 22: several statements go to a replica only when all are certain", "[routing]") {
  World world;
  world.unit.statements = 2;
  CHECK(world.reason() == Reason::read);
  world.unit.certain = false;
  CHECK(world.reason() == Reason::unparsed);
  world.unit.statements = 1;
  CHECK(world.reason() == Reason::read);
}

TEST_CASE("a replica that is excluded, down or refusing connections gets nothing", "[routing]") {
  World world;
  world.cluster.nodes[1].eligible = false;
  world.load.failing_ones.insert(kSecond);
  CHECK(world.reason() == Reason::no_replica);
  world.load.failing_ones.clear();
  CHECK(world.route().replicas[0] == kSecond);
  world.cluster.nodes[2].role = Role::down;
  CHECK(world.reason() == Reason::no_replica);
}

TEST_CASE("the replica with the fewest outstanding units for its weight comes first", "[routing]") {
  World world;
  world.load.outstanding_of = {{kFirst, 3}, {kSecond, 2}};
  CHECK(world.route().replicas[0] == kSecond);
  ReplicaWeights weights;
  weights.set(kFirst, 2);
  world.policy.weights = &weights;
  CHECK(world.route().replicas[0] == kFirst);
  weights.clear();
  weights.set(kFirst, 0);
  REQUIRE(world.route().replica_count == 1);
  CHECK(world.route().replicas[0] == kSecond);
  CHECK_FALSE(still_allowed(kFirst, world.unit, world.cluster, world.policy, {}));
  weights.set(kSecond, 0);
  CHECK(world.reason() == Reason::no_replica);
}

TEST_CASE("a replica that has just become usable comes last, and is asked when it is the only one", "[routing]") {
  World world;
  world.policy.replica_slow_start = std::chrono::seconds{10};
  world.unit.now = Time{std::chrono::seconds{100}};
  world.cluster.nodes[1].usable_since = world.unit.now - std::chrono::seconds{1};
  world.load.outstanding_of = {{kSecond, 3}};
  CHECK(world.route().replicas[0] == kSecond);
  world.unit.now += std::chrono::seconds{4};
  CHECK(world.route().replicas[0] == kFirst);
  world.unit.now -= std::chrono::seconds{4};
  world.cluster.nodes[2].role = Role::down;
  CHECK(world.route().replicas[0] == kFirst);
}

TEST_CASE("on a tie the session's last replica comes first", "[routing]") {
  World world;
  world.unit.last_replica = kSecond;
  CHECK(world.route().replicas[0] == kSecond);
  world.load.outstanding_of = {{kSecond, 1}};
  CHECK(world.route().replicas[0] == kFirst);
}

TEST_CASE(
    "pitfall 6: a session whose last read no token tells stays on that replica or the primary",
    "[routing]") {
  World world;
  world.unit.only_replica = kSecond;
  REQUIRE(world.route().replica_count == 1);
  CHECK(world.route().replicas[0] == kSecond);
  world.load.failing_ones.insert(kSecond);
  CHECK(world.reason() == Reason::token_ahead);
}

TEST_CASE("pitfall 9: an address of several instances never answers what needs a token",
          "[routing]") {
  World world;
  world.cluster.nodes[1].several = true;
  CHECK(world.route().replica_count == 2);
  world.unit.only_replica = kFirst;  // Where the session read last, which may be another instance now.
  CHECK(world.reason() == Reason::token_ahead);
  world.unit.only_replica = {};
  world.unit.tables = {.lsn = Lsn{1}};
  REQUIRE(world.route().replica_count == 1);
  CHECK(world.route().replicas[0] == kSecond);
  world.cluster.nodes[2].several = true;
  CHECK(world.reason() == Reason::table_written);
  world.policy.level = ConsistencyLevel::eventual;
  CHECK(world.route().replica_count == 2);
}

TEST_CASE("pitfall 16: what was chosen is judged again by the cluster as it is at dispatch",
          "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{850}};
  CHECK(still_allowed(kFirst, world.unit, world.cluster, world.policy, {}));
  CHECK_FALSE(still_allowed(kSecond, world.unit, world.cluster, world.policy, {}));
  CHECK_FALSE(still_allowed(kPrimary, world.unit, world.cluster, world.policy, {}));
  CHECK_FALSE(still_allowed(NodeId{99}, world.unit, world.cluster, world.policy, {}));
  world.cluster.nodes[1].eligible = false;
  CHECK_FALSE(still_allowed(kFirst, world.unit, world.cluster, world.policy, {}));
  world.policy.split = false;
  CHECK_FALSE(still_allowed(kSecond, world.unit, world.cluster, world.policy, {}));
}

}  // namespace
}  // namespace pgweir::routing
