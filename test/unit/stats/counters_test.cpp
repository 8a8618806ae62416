#include "stats/counters.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::stats;
using namespace std::chrono_literals;

TEST_CASE("averages are per second, times per transaction, query and assignment", "[stats]") {
  Counters before;
  before.xact_count = 100;
  before.query_count = 100;
  Counters now = before;
  now.xact_count += 30;
  now.query_count += 60;
  now.server_assignment_count = 7;
  now.bytes_received = 1000;
  now.xact_time = 300us;
  now.query_time = 250us;
  now.wait_time = 70us;
  const Counters got = average(before, now, 10s);
  CHECK(got.xact_count == 3);
  CHECK(got.query_count == 6);
  CHECK(got.server_assignment_count == 0);
  CHECK(got.bytes_received == 100);
  CHECK(got.xact_time == 10us);
  CHECK(got.query_time == 4us);
  CHECK(got.wait_time == 10us);
}

TEST_CASE("averages survive totals that shrink and no time at all", "[stats]") {
  Counters before;
  before.xact_count = 10;
  before.xact_time = 5s;
  CHECK(average(before, Counters(), 1s) == Counters());
  CHECK(average(Counters(), before, 0s) == Counters());
}

TEST_CASE("averages roll from period to period", "[stats]") {
  Averages averages;
  Counters now;
  now.query_count = 60;
  averages.roll(now, 60s);
  CHECK(averages.last().query_count == 1);
  now.query_count = 660;
  averages.roll(now, 60s);
  CHECK(averages.last().query_count == 10);
  averages.roll(now, 60s);
  CHECK(averages.last().query_count == 0);
}

TEST_CASE("counters add up", "[stats]") {
  Counters a;
  a.bind_count = 1;
  a.wait_time = 5us;
  Counters b = a;
  b += a;
  CHECK(b.bind_count == 2);
  CHECK(b.wait_time == 10us);
}

TEST_CASE("routes are counted by target and reason", "[stats]") {
  enum class Target { primary, replica };
  enum class Reason { read, write };
  RouteCounts counts;
  counts.add(Target::replica, Reason::read);
  counts.add(Target::primary, Reason::write, 4);
  counts.add(99, 99);
  RouteCounts sum = counts;
  sum += counts;
  CHECK(sum.get(Target::replica, Reason::read) == 2);
  CHECK(sum.get(Target::primary, Reason::write) == 8);
  CHECK(sum.get(Target::primary, Reason::read) == 0);
  CHECK(sum.get(99, 99) == 0);
}
