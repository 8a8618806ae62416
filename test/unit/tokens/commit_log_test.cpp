#include "tokens/commit_log.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace pgweir::tokens {
namespace {

constexpr Time at(int ms) { return Time{std::chrono::milliseconds{ms}}; }

TEST_CASE("a mark is pending until a capture that began after it is answered", "[tokens]") {
  CaptureLog log;
  const Ticket first = log.mark();
  const Ticket covers = log.begin_capture();
  const Ticket second = log.mark();
  CHECK(log.need(first).pending == first);
  log.captured(covers, Lsn{100});
  CHECK(log.need(first).pending == 0);
  CHECK(log.need(first).lsn == Lsn{100});
  CHECK(log.need(second).pending == second);
  CHECK(log.pending());
  log.captured(log.begin_capture(), Lsn{200});
  CHECK_FALSE(log.pending());
  CHECK(log.need(first).lsn == Lsn{100});
  CHECK(log.need(second).lsn == Lsn{200});
  CHECK(log.need(0).nothing());
}

TEST_CASE("pitfall 3: a new log needs a capture before anything may be read from a replica",
          "[tokens]") {
  CaptureLog log;
  TableWrites writes;
  const std::array<TableKey, 1> never_written{7};
  CHECK(log.pending());
  CHECK(log.need(writes.last_write(never_written, false)).pending == kFloorTicket);
  log.captured(log.begin_capture(), Lsn{50});
  CHECK(log.need(writes.last_write(never_written, false)).lsn == Lsn{50});
}

TEST_CASE("a capture answered after a later one changes nothing", "[tokens]") {
  CaptureLog log;
  const Ticket first = log.mark();
  log.captured(log.mark(), Lsn{200});
  log.captured(first, Lsn{100});
  CHECK(log.need(first).lsn == Lsn{200});
}

TEST_CASE("a full history answers never too low, and too high by a small part of the age",
          "[tokens]") {
  CaptureLog log;
  constexpr std::uint64_t kCount = 100'000;
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    tickets.push_back(log.mark());
    log.captured(log.begin_capture(), Lsn{1000 + i});
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::uint64_t lsn = log.need(tickets[i]).lsn.value;
    REQUIRE(lsn >= 1000 + i);
    REQUIRE(lsn <= 1000 + i + (kCount - i) / 16);
  }
}

TEST_CASE("pitfall 17: after a change of identity no captured LSN lies above what the primary has",
          "[tokens]") {
  CaptureLog log;
  const Ticket early = log.mark();
  log.captured(early, Lsn{100});
  const Ticket late = log.mark();
  log.captured(late, Lsn{300});
  const Ticket pending = log.mark();
  log.clamp(Lsn{200});
  CHECK(log.need(early).lsn == Lsn{100});
  CHECK(log.need(late).lsn == Lsn{200});
  CHECK(log.need(pending).pending == pending);
  log.captured(log.begin_capture(), Lsn{210});
  CHECK(log.need(pending).lsn == Lsn{210});
}

TEST_CASE("an LSN of an older epoch is clamped by every identity since", "[tokens]") {
  CaptureLog log;
  CHECK(log.clamped(Lsn{500}, log.epoch()) == Lsn{500});
  log.clamp(Lsn{200});
  log.clamp(Lsn{300});
  CHECK(log.clamped(Lsn{500}, 0) == Lsn{200});
  CHECK(log.clamped(Lsn{500}, 1) == Lsn{300});
  CHECK(log.clamped(Lsn{500}, 2) == Lsn{500});
  for (std::uint64_t i = 0; i < 100; ++i) log.clamp(Lsn{1000 + i});
  CHECK(log.clamped(Lsn{5000}, 0) <= Lsn{1099});
}

TEST_CASE("a need joined with another is the stricter of both", "[tokens]") {
  Need need{.lsn = Lsn{10}, .pending = 0};
  need.join({.lsn = Lsn{5}, .pending = 3});
  CHECK(need.lsn == Lsn{10});
  CHECK(need.pending == 3);
}

TEST_CASE("a table's last write concerns that table and reads of all tables", "[tokens]") {
  TableWrites writes(100, 0);
  const std::array<TableKey, 2> pair{1, 2};
  writes.mark(pair, false, 5, at(10));
  const std::array<TableKey, 1> one{1};
  const std::array<TableKey, 1> other{3};
  CHECK(writes.last_write(one, false) == 5);
  CHECK(writes.last_write(other, false) == 0);
  CHECK(writes.last_write(other, true) == 5);
  CHECK(writes.last_write_time(one, false) == at(10));
  CHECK(writes.last_write_time(other, false) == Time{});
  CHECK(writes.last_write({}, false) == 0);
}

TEST_CASE("a write of unknown tables concerns every table", "[tokens]") {
  TableWrites writes(100, 0);
  const std::array<TableKey, 1> one{1};
  writes.mark(one, false, 5, at(10));
  writes.mark({}, true, 6, at(20));
  CHECK(writes.last_write(one, false) == 6);
  writes.mark(one, false, 7, at(30));
  CHECK(writes.last_write(one, false) == 7);
  CHECK(writes.last_write(std::array<TableKey, 1>{9}, false) == 6);
}

TEST_CASE("pitfall 3: an evicted table raises the floor for all", "[tokens]") {
  TableWrites writes(2, 0);
  const std::array<TableKey, 1> a{1};
  const std::array<TableKey, 1> b{2};
  const std::array<TableKey, 1> c{3};
  writes.mark(a, false, 1, at(1));
  writes.mark(b, false, 2, at(2));
  writes.mark(a, false, 3, at(3));  // Now b is the oldest.
  writes.mark(c, false, 4, at(4));
  CHECK(writes.size() == 2);
  CHECK(writes.last_write(b, false) == 2);
  CHECK(writes.last_write(a, false) == 3);
  CHECK(writes.last_write(std::array<TableKey, 1>{99}, false) == 2);
  CHECK(writes.last_write_time(std::array<TableKey, 1>{99}, false) == at(2));
}

}  // namespace
}  // namespace pgweir::tokens
