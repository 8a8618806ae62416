#include "session/unit.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using session::Unit;

namespace {

std::shared_ptr<sql::StatementClass> meaning(sql::Cause cause, bool certain = true) {
  auto made = std::make_shared<sql::StatementClass>();
  made->cause = cause;
  made->certain = certain;
  made->statements.resize(1);
  return made;
}

}  // namespace

TEST_CASE("one statement for the primary keeps the whole unit there", "[session]") {
  Unit unit;
  unit.clear();
  unit.join(meaning(sql::Cause::none), false);
  CHECK_FALSE(unit.known_primary());
  unit.join(meaning(sql::Cause::write), false);
  CHECK(unit.known_primary());
  CHECK(unit.facts().cause == sql::Cause::write);
  CHECK(unit.facts().statements == 2);
  unit.clear();
  CHECK_FALSE(unit.known_primary());
}

TEST_CASE("Parse, Describe and Bind of one statement count as one", "[session]") {
  Unit unit;
  unit.clear();
  const auto read = meaning(sql::Cause::none);
  for (int i = 0; i < 3; ++i) unit.join(read, false);
  CHECK(unit.facts().statements == 1);
}

TEST_CASE("a unit is as certain as its least certain statement", "[session]") {
  Unit unit;
  unit.clear();
  unit.join(meaning(sql::Cause::none, true), false);
  unit.join(meaning(sql::Cause::none, false), false);
  CHECK_FALSE(unit.facts().certain);
}

TEST_CASE("a shape that a standby refused is the primary's from then on", "[session]") {
  Unit unit;
  session::Misroutes learned;
  const auto read = meaning(sql::Cause::none);
  read->shape = {.high = 1, .low = 2};
  unit.clear();
  unit.join(read, false);
  unit.note_texts([](const sql::Shape& shape) { return shape.high == 1 ? "SELECT f(?)" : "another"; });
  CHECK_FALSE(unit.known_primary());
  unit.learn(learned, "25006", Time{});
  REQUIRE(learned.size() == 1);
  CHECK(learned.entries().front().text == "SELECT f(?)");
  CHECK(learned.entries().front().sqlstate == "25006");
  unit.clear();
  unit.join(read, true);
  CHECK(unit.known_primary());
}

TEST_CASE("a unit is proven when a standby has run all in it that is not certain", "[session]") {
  Unit unit;
  session::ShapeSet proven;
  const auto plain = meaning(sql::Cause::none);
  const auto doubtful = meaning(sql::Cause::none);
  doubtful->certain = false;
  doubtful->shape = {.high = 1, .low = 2};
  unit.clear();
  unit.join(plain, false);
  CHECK(unit.is_proven(proven));
  unit.join(doubtful, false);
  CHECK_FALSE(unit.is_proven(proven));
  proven.add(doubtful->shape);
  CHECK(unit.is_proven(proven));
}

TEST_CASE("a unit goes to a replica against what it is owed only when all its statements say so", "[session]") {
  const auto hinted = [](sql::Hint hint) {
    auto made = meaning(sql::Cause::none);
    made->hint = hint;
    return made;
  };
  using sql::Hint;
  const auto joined = [&](std::vector<Hint> hints) {
    Unit unit;
    unit.clear();
    for (Hint hint : hints) unit.join(hinted(hint), false);
    return unit.facts().hint;
  };
  CHECK(joined({Hint::replica}) == Hint::replica);
  CHECK(joined({Hint::replica, Hint::replica}) == Hint::replica);
  CHECK(joined({Hint::replica, Hint::none}) == Hint::none);
  CHECK(joined({Hint::none, Hint::replica}) == Hint::none);
  CHECK(joined({Hint::replica, Hint::none, Hint::replica}) == Hint::none);
  CHECK(joined({Hint::replica, Hint::primary, Hint::replica}) == Hint::primary);
  CHECK(joined({Hint::none, Hint::primary}) == Hint::primary);
}

TEST_CASE("statements of one unit whose hints name different things are the primary's", "[session]") {
  using session::UnitHints;
  using config::ConsistencyLevel;
  const auto a = std::make_shared<session::Causality>();
  const auto b = std::make_shared<session::Causality>();
  const auto statement = [](bool named) {
    auto made = meaning(sql::Cause::none);
    made->hint_named = named;
    return made;
  };
  Unit unit;
  unit.clear();
  unit.join(statement(true), false);
  unit.join_hints({a, ConsistencyLevel::session}, false);
  CHECK_FALSE(unit.known_primary());
  REQUIRE(unit.hints());
  CHECK(unit.hints()->key == a);
  // Its Bind says the same again.
  unit.join_hints({a, ConsistencyLevel::session}, false);
  CHECK_FALSE(unit.known_primary());

  for (const UnitHints& other : {UnitHints{b, ConsistencyLevel::session}, UnitHints{a, ConsistencyLevel::table}, UnitHints{nullptr, ConsistencyLevel::session}, UnitHints{a, {}}}) {
    Unit mixed = unit;
    mixed.join(statement(true), false);
    mixed.join_hints(other, false);
    CHECK(mixed.known_primary());
  }
  Unit behind = unit;
  behind.join(statement(false), false);
  CHECK(behind.known_primary());

  Unit before;
  before.clear();
  before.join(statement(false), false);
  before.join(statement(true), false);
  before.join_hints({a, {}}, false);
  CHECK(before.known_primary());

  Unit doubtful;
  doubtful.clear();
  doubtful.join(statement(true), false);
  doubtful.join_hints({a, {}}, true);
  CHECK(doubtful.known_primary());
  doubtful.clear();
  CHECK(doubtful.hints() == nullptr);
  CHECK_FALSE(doubtful.known_primary());
}
