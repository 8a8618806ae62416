#include "stats/histogram.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::stats;
using namespace std::chrono_literals;

TEST_CASE("a quantile is never below the truth and at most an eighth above it", "[stats]") {
  for (std::int64_t us : {0, 1, 7, 8, 9, 15, 16, 100, 12345, 999999, 123456789}) {
    Histogram histogram;
    histogram.record(Duration(us));
    INFO(us);
    CHECK(histogram.quantile(0.5).count() >= us);
    CHECK(static_cast<double>(histogram.quantile(0.5).count()) <= static_cast<double>(us) * 1.125);
  }
}

TEST_CASE("quantiles pick the right value of many", "[stats]") {
  Histogram histogram;
  for (int i = 0; i < 990; ++i) histogram.record(5us);
  for (int i = 0; i < 10; ++i) histogram.record(1s);
  CHECK(histogram.count() == 1000);
  CHECK(histogram.quantile(0.5) == 5us);
  CHECK(histogram.quantile(0.99) == 5us);
  CHECK(histogram.quantile(0.999) >= 1s);
  CHECK(histogram.quantile(0) == 5us);
  CHECK(histogram.quantile(1) >= 1s);
}

TEST_CASE("an empty histogram, negative and endless times do no harm", "[stats]") {
  Histogram histogram;
  CHECK(histogram.quantile(0.5) == 0us);
  histogram.record(Duration(-5));
  CHECK(histogram.quantile(1) == 0us);
  histogram.record(Duration::max());
  CHECK(histogram.quantile(1) >= 4294s);
}

TEST_CASE("a decaying histogram forgets after four windows", "[stats]") {
  DecayingHistogram histogram(1min);
  Time now{};
  histogram.record(1s, now);
  now += 3min + 59s;
  histogram.record(5us, now);
  CHECK(histogram.count(now) == 2);
  CHECK(histogram.quantile(1, now) >= 1s);
  now += 2s;
  CHECK(histogram.count(now) == 1);
  CHECK(histogram.quantile(1, now) == 5us);
  now += 24h;
  CHECK(histogram.count(now) == 0);
}
