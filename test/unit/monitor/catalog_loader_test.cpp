#include "monitor/catalog_loader.h"

#include <catch2/catch.hpp>

#include "fake_prober.h"

namespace pgweir::monitor {
namespace {

constexpr NodeId kA{1};

struct World {
  World() {
    prober.nodes["a"].catalog = {{"r", "20000", "public", "t", "rp", std::nullopt, std::nullopt},
                                 {"f", "20001", "public", "f", "fs0sql", "0:0", "SELECT 1"}};
  }
  Time turn(int ms) { return loader.turn(kA, &address, at_ms(ms)); }
  void load(int ms) {
    turn(ms);
    prober.answer_all();
    turn(ms);
  }
  static bool knows_table(const sql::Catalog& catalog) {
    sql::Effects effects;
    return catalog.relation("", "t", sql::use::kRead, effects);
  }
  static bool knows_function(const sql::Catalog& catalog) {
    sql::Effects effects;
    return catalog.function("", "f", 0, effects);
  }
  std::size_t asked() const { return prober.count("a", routing::kCatalogQuery); }

  FakeProber prober;
  FakeLog log;
  io::Address address{.host = "a", .port = 5432};
  CatalogLoader loader{{prober, log}, {.user = "monitor", .password = {}, .dbname = "shop"}};
};

TEST_CASE("until a catalog is loaded there is none", "[monitor]") {
  World world;
  CHECK_FALSE(world.loader.catalog());
  CHECK(world.loader.turn({}, nullptr, at_ms(0)) == kNever);
  world.load(0);
  REQUIRE(world.loader.catalog());
  CHECK(World::knows_table(*world.loader.catalog()));
  CHECK(world.loader.certain());
}

TEST_CASE("the catalog is read again after the refresh time", "[monitor]") {
  World world;
  world.load(0);
  CHECK(world.turn(1) == at_ms(60'000));
  CHECK(world.asked() == 0);
  const std::uint64_t before = world.loader.generation();
  world.prober.nodes["a"].catalog.push_back({"r", "20002", "public", "u", "rp", std::nullopt, std::nullopt});
  world.load(60'000);
  CHECK(world.loader.generation() > before);
  CHECK(world.loader.view()->relations() == 2);
}

TEST_CASE("a refresh that finds nothing changed leaves snapshot and classes as they are", "[monitor]") {
  World world;
  world.load(0);
  const auto view = world.loader.view();
  const std::uint64_t before = world.loader.generation();
  // In another order, too.
  std::swap(world.prober.nodes["a"].catalog[0], world.prober.nodes["a"].catalog[1]);
  world.turn(60'000);
  CHECK(world.asked() == 1);
  world.prober.answer_all();
  world.turn(60'001);
  CHECK(world.loader.generation() == before);
  CHECK(world.loader.view() == view);
  CHECK(world.loader.certain());
  SECTION("a function's body that is another one does change it") {
    world.prober.nodes["a"].catalog[0][6] = "SELECT 2";
    world.load(120'001);
    CHECK(world.loader.generation() > before);
  }
  SECTION("one row twice, and another one not at all, does too") {
    world.prober.nodes["a"].catalog[1] = world.prober.nodes["a"].catalog[0];
    world.load(120'001);
    CHECK(world.loader.generation() > before);
  }
  SECTION("after DDL the catalog is no longer in doubt, though it tells the same") {
    world.loader.ddl_seen();
    const std::uint64_t doubtful = world.loader.generation();
    CHECK(doubtful > before);
    CHECK(world.loader.catalog() != view);
    world.load(60'500);
    CHECK(world.loader.certain());
    CHECK(world.loader.generation() > doubtful);
    CHECK(world.loader.catalog() == view);
  }
}

TEST_CASE(
    "pitfall 13: from the dispatch of DDL to a snapshot begun after its end the catalog is in "
    "doubt",
    "[monitor]") {
  World world;
  world.load(0);
  const std::uint64_t generation = world.loader.generation();
  world.loader.ddl_began();
  CHECK_FALSE(world.loader.certain());
  CHECK(world.loader.generation() > generation);
  CHECK(world.loader.catalog()->hides_writes());
  CHECK_FALSE(World::knows_function(*world.loader.catalog()));
  CHECK(World::knows_function(*world.loader.view()));
  world.turn(1000);
  CHECK(world.asked() == 0);  // A snapshot begun now would prove nothing.
  world.loader.ddl_ended();
  world.load(1001);
  CHECK(world.loader.certain());
  CHECK_FALSE(world.loader.catalog()->hides_writes());
}

TEST_CASE("pitfall 13: a snapshot that was being read when the DDL ended does not count",
          "[monitor]") {
  World world;
  world.load(0);
  world.turn(60'000);
  REQUIRE(world.asked() == 1);
  world.loader.ddl_seen();
  world.prober.answer_all();
  world.turn(60'001);
  CHECK_FALSE(world.loader.certain());
  world.load(61'000);
  CHECK(world.loader.certain());
}

TEST_CASE("DDL in a loop does not make the primary read its catalog in a loop", "[monitor]") {
  World world;
  int loads = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    world.loader.ddl_seen();
    world.turn(ms);
    if (world.asked() > 0) ++loads;
    world.prober.answer_all();
  }
  CHECK(loads <= 21);
  CHECK(loads >= 10);
}

TEST_CASE("a catalog that can't be read is one log line and keeps the last snapshot", "[monitor]") {
  World world;
  world.load(0);
  world.prober.nodes["a"].error = Error("53300", "too many connections");
  for (int i = 1; i < 20; ++i) world.load(i * 60'000);
  CHECK(world.log.count("can't be read") == 1);
  CHECK(world.loader.view());
  world.prober.nodes["a"].error.reset();
  world.load(3'000'000);
  CHECK(world.loader.certain());
}

TEST_CASE("another primary has its catalog read before the old snapshot is trusted again",
          "[monitor]") {
  World world;
  world.load(0);
  world.prober.nodes["b"].catalog = {};
  const io::Address other{.host = "b", .port = 5432};
  world.loader.turn(NodeId{2}, &other, at_ms(1));
  CHECK_FALSE(world.loader.certain());
  CHECK(world.prober.count("b", routing::kCatalogQuery) == 1);
  world.prober.answer_all();
  world.loader.turn(NodeId{2}, &other, at_ms(2));
  CHECK(world.loader.certain());
  CHECK_FALSE(World::knows_table(*world.loader.catalog()));
}

TEST_CASE("a name that is not known has the catalog read again, less and less often in vain",
          "[monitor]") {
  World world;
  world.load(0);
  int loads = 0;
  for (int ms = 0; ms < 30'000; ms += 10) {
    world.loader.name_unknown();
    world.turn(ms);
    if (world.asked() > 0) ++loads;
    world.prober.answer_all();
  }
  CHECK(loads >= 3);
  CHECK(loads <= 6);
  // It helped: the next one is looked for soon.
  world.prober.nodes["a"].catalog.push_back(
      {"r", "20002", "public", "fresh", "rp", std::nullopt, std::nullopt});
  world.load(100'000);
  world.loader.name_unknown();
  CHECK(world.turn(100'001) == at_ms(101'000));
}

TEST_CASE("a large snapshot is made over several turns, and the old one serves until then",
          "[monitor]") {
  World world;
  world.load(0);
  const std::uint64_t before = world.loader.generation();
  for (int i = 0; i < 30'000; ++i) {
    world.prober.nodes["a"].catalog.push_back({"r", std::to_string(30'000 + i), "public",
                                               "t" + std::to_string(i), "rp", std::nullopt,
                                               std::nullopt});
  }
  world.turn(60'000);
  world.prober.answer_all();
  int turns = 0;
  while (world.loader.generation() == before) {
    REQUIRE(++turns < 100);
    const Time next = world.turn(60'000 + turns);
    if (world.loader.generation() == before) CHECK(next == at_ms(60'000 + turns));
  }
  CHECK(turns > 1);
  CHECK(world.loader.view()->relations() == 30'001);
}

TEST_CASE("a row that can't be understood fails the load, and the last snapshot is kept",
          "[monitor]") {
  World world;
  world.load(0);
  world.prober.nodes["a"].catalog.push_back({"?"});
  world.load(60'000);
  CHECK(world.log.count("can't be read") == 1);
  CHECK(World::knows_table(*world.loader.catalog()));
}

}  // namespace
}  // namespace pgweir::monitor
