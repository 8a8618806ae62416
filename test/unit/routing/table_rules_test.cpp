#include "routing/table_rules.h"

#include <catch2/catch.hpp>

#include "catalog_rows.h"
#include "routing/decide.h"

namespace pgweir::routing {
namespace {

using config::ConsistencyLevel;
using config::TableRule;
using test::Schema;
using tokens::Lsn;

std::vector<config::TableRuleLine> lines_of(std::initializer_list<std::pair<const char*, const char*>> lines, const char* database = "") {
  std::vector<config::TableRuleLine> made;
  for (const auto& [pattern, rule] : lines)
    made.push_back({database, *config::TablePattern::parse(pattern), *config::parse_table_rule(rule)});
  return made;
}

std::string words_of(const TableRules& rules, TableRules::Set set) {
  std::string words = (set & TableRules::kLevelInForce) != 0 ? "level" : "";
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    if ((set >> (i + 1) & 1U) != 0) words += (words.empty() ? "" : ", ") + to_string(rules.rules()[i]);
  }
  return words;
}

std::string judges_of(const TableRules& rules, const char* table) { return words_of(rules, rules.of(sql::table_key(table))); }

/// A primary at 1000, replicas at 900 and 700.
struct World {
  World() {
    const auto add = [&](std::uint64_t id, Role role, std::uint64_t lsn) {
      NodeView node;
      node.id = NodeId{id};
      node.role = role;
      node.eligible = node.lag_known = true;
      node.replayed = Lsn{lsn};
      cluster.nodes.push_back(node);
    };
    add(1, Role::primary, 1000);
    add(2, Role::replica, 900);
    add(3, Role::replica, 700);
    cluster.primary = NodeId{1};
    unit.cause = sql::Cause::none;
    unit.certain = true;
    policy.split = true;
  }
  RuledTables& ruled(const char* rule) {
    kept.push_back(std::make_unique<TableRule>(*config::parse_table_rule(rule)));
    return unit.ruled.emplace_back(RuledTables{kept.back().get(), kept.back()->level, {}});
  }
  /// "primary table_rule", or "replica 2 3".
  std::string route() const {
    const Route route = decide(unit, cluster, policy, load);
    if (route.target == sql::Target::primary) return "primary " + std::string(to_string(route.reason));
    std::string text = "replica";
    for (std::uint32_t i = 0; i < route.replica_count; ++i) text += " " + std::to_string(route.replicas[i].value);
    return text;
  }
  struct NoLoad final : Load {
    std::uint32_t outstanding(NodeId) const noexcept override { return 0; }
    bool failing(NodeId) const noexcept override { return false; }
  } load;
  std::vector<std::unique_ptr<TableRule>> kept;
  ClusterView cluster;
  UnitFacts unit;
  Policy policy;
};

TEST_CASE("tables are judged by the rules that fit them in the catalog", "[routing]") {
  Schema schema;
  schema.table("users").table("account_rows").relation("log", "rp", "audit");
  const auto rules = TableRules::make(lines_of({{"account_*", "primary"}, {"audit.*", "eventual"}}), "shop", schema.built().get());
  REQUIRE(rules);
  CHECK(judges_of(*rules, "users") == "level");
  CHECK(judges_of(*rules, "account_rows") == "primary");
  CHECK(judges_of(*rules, "log") == "eventual");
  CHECK(judges_of(*rules, "nothing") == "level");
  const std::string all = words_of(*rules, rules->of_all());
  CHECK(all.find("level") == 0);
  CHECK(all.find("primary") != std::string::npos);
  CHECK(all.find("eventual") != std::string::npos);
}

TEST_CASE("tables of one name in two schemas are judged by what both are", "[routing]") {
  Schema schema;
  schema.table("log").relation("log", "rp", "audit").table("feed").relation("feed", "rp", "audit");
  const auto rules = TableRules::make(lines_of({{"audit.log", "primary"}, {"feed", "eventual"}}), "shop", schema.built().get());
  REQUIRE(rules);
  CHECK(judges_of(*rules, "log") == "level, primary");
  CHECK(judges_of(*rules, "feed") == "eventual");
}

TEST_CASE("who reads a table is judged by the rules of its partitions too", "[routing]") {
  Schema schema;
  schema.table("events").table("events_1").table("events_1_a").table("events_2");
  schema.child("events_1", "events").child("events_2", "events").child("events_1_a", "events_1");
  const auto rules = TableRules::make(lines_of({{"events_1_a", "primary"}, {"events", "eventual"}}), "shop", schema.built().get());
  REQUIRE(rules);
  CHECK(judges_of(*rules, "events") == "eventual");
  CHECK(words_of(*rules, rules->of(sql::tree_key(sql::table_key("events")))) .find("primary") != std::string::npos);
  CHECK(words_of(*rules, rules->of(sql::tree_key(sql::table_key("events")))).find("level") == std::string::npos);
  CHECK(words_of(*rules, rules->of(sql::tree_key(sql::table_key("events_1")))) == "level, primary");
  CHECK(judges_of(*rules, "events_2") == "level");
}

TEST_CASE("while no catalog is known every rule may judge any table", "[routing]") {
  const auto rules = TableRules::make(lines_of({{"a", "primary"}, {"b", "eventual"}}), "shop", nullptr);
  REQUIRE(rules);
  CHECK(judges_of(*rules, "anything") == "level, primary, eventual");
}

TEST_CASE("lines of another database are none", "[routing]") {
  Schema schema;
  schema.table("a");
  CHECK(TableRules::make(lines_of({{"a", "primary"}}, "other"), "shop", schema.built().get()) == nullptr);
  CHECK(TableRules::make(lines_of({{"a", "primary"}}, "shop"), "shop", schema.built().get()) != nullptr);
  CHECK(TableRules::make({}, "shop", schema.built().get()) == nullptr);
}

TEST_CASE("all that judge a table have to allow the replica", "[routing]") {
  World world;
  world.unit.tables = {.lsn = Lsn{800}};
  CHECK(world.route() == "replica 2");
  world.ruled("eventual");
  CHECK(world.route() == "replica 2");
  world.unit.level_applies = false;
  CHECK(world.route() == "replica 2 3");
  world.ruled("table").tables = {.lsn = Lsn{850}};
  CHECK(world.route() == "replica 2");
  world.unit.ruled.back().tables = {.lsn = Lsn{950}};
  CHECK(world.route() == "primary table_rule");
}

TEST_CASE("a rule takes the place of the level, in both directions", "[routing]") {
  World world;
  world.policy.level = ConsistencyLevel::primary;
  world.ruled("eventual");
  CHECK(world.route() == "primary level_primary");
  world.unit.level_applies = false;
  CHECK(world.route() == "replica 2 3");
  world.policy.level = ConsistencyLevel::eventual;
  world.ruled("primary");
  CHECK(world.route() == "primary table_rule");
  world.unit.hint = sql::Hint::replica;
  CHECK(world.route() == "primary table_rule");
}

TEST_CASE("windows, lags and pins of rules are their own", "[routing]") {
  using namespace std::chrono_literals;
  World world;
  world.unit.level_applies = false;
  world.policy.table_window = {.measured = false, .time = 100s};
  world.policy.max_replica_lag = 10s;
  RuledTables& window = world.ruled("window 2");
  window.since_table_write = 1s;
  CHECK(world.route() == "primary table_rule");
  world.unit.hint = sql::Hint::replica;
  CHECK(world.route() == "replica 2 3");
  world.unit.hint = sql::Hint::none;
  world.unit.ruled.back().since_table_write = 3s;
  CHECK(world.route() == "replica 2 3");

  world.cluster.nodes[1].lag = 20s;
  CHECK(world.route() == "replica 3");
  world.unit.ruled.clear();
  world.ruled("lag 30");
  CHECK(world.route() == "replica 2 3");
  world.cluster.nodes[1].lag = 40s;
  CHECK(world.route() == "replica 3");
  world.cluster.nodes[1].lag = 0s;

  world.unit.ruled.clear();
  world.ruled("lag 150B");
  CHECK(world.route() == "replica 2");
  world.unit.ruled.clear();
  world.ruled("lag 50B");
  CHECK(world.route() == "primary table_rule");

  world.unit.ruled.clear();
  world.ruled("pin");
  world.policy.pin_window = 5s;
  world.unit.since_own_write = 4s;
  CHECK(world.route() == "primary table_rule");
  world.unit.since_own_write = 6s;
  CHECK(world.route() == "replica 2 3");
}

TEST_CASE("max_replica_lag_bytes keeps reads from replicas that are further behind in WAL", "[routing]") {
  World world;
  world.policy.max_replica_lag_bytes = 100;
  CHECK(world.route() == "replica 2");
  world.policy.max_replica_lag_bytes = 300;
  CHECK(world.route() == "replica 2 3");
  world.policy.max_replica_lag_bytes = 0;
  CHECK(world.route() == "primary lag");
  world.cluster.nodes[1].replayed = Lsn{1000};  // An idle primary, and all is replayed.
  CHECK(world.route() == "replica 2");
}

TEST_CASE("a rule that waits for a capture asks for one", "[routing]") {
  World world;
  world.unit.level_applies = false;
  world.ruled("latest").tables = {.lsn = {}, .pending = 7};
  const Route route = decide(world.unit, world.cluster, world.policy, world.load);
  CHECK(route.reason == Reason::table_rule);
  CHECK(route.wants_capture);
}

}  // namespace
}  // namespace pgweir::routing
