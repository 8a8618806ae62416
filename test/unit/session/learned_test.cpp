#include "session/learned.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace std::chrono_literals;
using session::Misroutes;
using session::ShapeSet;

namespace {

sql::Shape shape(std::uint64_t number) { return {.high = number, .low = ~number}; }
Time at(std::chrono::seconds since) { return Time{} + since; }

}  // namespace

TEST_CASE("a shape that a standby refused is the primary's until its time is over", "[session]") {
  Misroutes learned;
  CHECK(learned.empty());
  CHECK_FALSE(learned.sends_to_primary(shape(1), at(10s), 60s));
  learned.add(shape(1), "SELECT f(?)", "25006", at(10s));
  CHECK(learned.sends_to_primary(shape(1), at(10s), 60s));
  CHECK(learned.sends_to_primary(shape(1), at(69s), 60s));
  CHECK_FALSE(learned.sends_to_primary(shape(1), at(70s), 60s));
  CHECK_FALSE(learned.sends_to_primary(shape(2), at(10s), 60s));
  CHECK(learned.sends_to_primary(shape(1), at(100'000s), Duration::zero()));
  // What it writes nobody knows, whether or not a replica is asked again.
  CHECK(learned.knows(shape(1)));
  CHECK_FALSE(learned.knows(shape(2)));
}

TEST_CASE("another refusal counts, and begins the time anew", "[session]") {
  Misroutes learned;
  learned.add(shape(1), "", "25006", at(10s));
  learned.add(shape(2), "SELECT g()", "55000", at(20s));
  learned.add(shape(1), "SELECT f(?)", "0A000", at(80s));
  CHECK(learned.sends_to_primary(shape(1), at(139s), 60s));
  REQUIRE(learned.size() == 2);
  const Misroutes::Entry& entry = learned.entries().back();
  CHECK(entry.text == "SELECT f(?)");
  CHECK(entry.sqlstate == "0A000");
  CHECK(entry.count == 2);
  CHECK(entry.first == at(10s));
  CHECK(entry.last == at(80s));
  CHECK(learned.entries().front().text == "SELECT g()");
  learned.clear();
  CHECK(learned.empty());
  CHECK_FALSE(learned.knows(shape(1)));
}

TEST_CASE("of too many shapes the one that was refused longest ago makes room", "[session]") {
  Misroutes learned;
  learned.add(shape(1), "first", "25006", at(1s));
  learned.add(shape(2), "second", "25006", at(2s));
  learned.add(shape(1), "first", "25006", at(3s));
  for (std::uint64_t i = 3; i <= Misroutes::kShapesMax + 1; ++i) learned.add(shape(i), "more", "25006", at(4s));
  CHECK(learned.size() == Misroutes::kShapesMax);
  CHECK(learned.knows(shape(1)));
  CHECK_FALSE(learned.knows(shape(2)));
}

TEST_CASE("a set of shapes forgets the oldest past its bound", "[session]") {
  ShapeSet shapes;
  for (std::uint64_t i = 0; i <= 10'000; ++i) shapes.add(shape(i));
  CHECK(shapes.size() == 10'000);
  CHECK_FALSE(shapes.contains(shape(0)));
  CHECK(shapes.contains(shape(10'000)));
  shapes.clear();
  CHECK_FALSE(shapes.contains(shape(10'000)));
}
