#include "tokens/capture_pacer.h"

#include <catch2/catch.hpp>

namespace pgweir::tokens {
namespace {

constexpr Time at(int us) { return Time{std::chrono::microseconds{1'000'000 + us}}; }

TEST_CASE("nothing is captured while nothing is pending", "[tokens]") {
  CapturePacer pacer;
  CHECK(pacer.next(at(0), false) == kNever);
  pacer.want_now();
  CHECK(pacer.next(at(0), false) == kNever);
}

TEST_CASE("at most one capture is in flight", "[tokens]") {
  CapturePacer pacer;
  CHECK(pacer.next(at(0), true) <= at(0));
  pacer.started(at(0));
  pacer.want_now();
  CHECK(pacer.in_flight());
  CHECK(pacer.next(at(50'000), true) == kNever);
  pacer.answered(at(50'000));
  CHECK(pacer.next(at(50'000), true) <= at(50'000));
}

TEST_CASE("the beat stretches from 1 ms to 10 ms while nobody reads what is pending", "[tokens]") {
  CapturePacer pacer;
  Time now = at(0);
  Duration last{};
  for (int i = 0; i < 20; ++i) {
    pacer.started(now);
    pacer.answered(now);
    const Time due = pacer.next(now, true);
    REQUIRE(due > now);
    REQUIRE(due - now >= last);
    last = due - now;
    now = due;
  }
  CHECK(last == CapturePacer::kBeatMax);
  pacer.want_now();
  CHECK(pacer.next(now, true) <= now);
  pacer.started(now);
  pacer.answered(now);
  CHECK(pacer.next(now, true) == now + CapturePacer::kBeatMin);
}

TEST_CASE("a failed capture is not repeated in a loop", "[tokens]") {
  CapturePacer pacer;
  pacer.started(at(0));
  pacer.failed(at(0));
  pacer.want_now();
  CHECK(pacer.next(at(1), true) == at(0) + CapturePacer::kPauseAfterFailure);
}

}  // namespace
}  // namespace pgweir::tokens
