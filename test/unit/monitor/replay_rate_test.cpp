#include "monitor/replay_rate.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::monitor;
using std::chrono::milliseconds;
using tokens::Lsn;

TEST_CASE("the replay rate is that of times in which something was left to replay", "[monitor]") {
  ReplayRate rate;
  const Time start{milliseconds{1000}};
  rate.observed(Lsn{1000}, Lsn{1000}, start);
  CHECK(rate.bytes_per_s() == 0.0);
  // It came in one piece and was replayed at once: nobody can tell how fast.
  rate.observed(Lsn{2000}, Lsn{2000}, start + milliseconds{100});
  CHECK(rate.bytes_per_s() == 0.0);
  rate.observed(Lsn{2000}, Lsn{9000}, start + milliseconds{200});
  CHECK(rate.bytes_per_s() == 0.0);
  rate.observed(Lsn{3000}, Lsn{9000}, start + milliseconds{300});
  CHECK(rate.bytes_per_s() == Approx(10'000));
  rate.observed(Lsn{3500}, Lsn{9000}, start + milliseconds{350});
  CHECK(rate.bytes_per_s() == Approx(10'000));
  // The newest counts most of all single ones.
  rate.observed(Lsn{5500}, Lsn{9000}, start + milliseconds{450});
  CHECK(rate.bytes_per_s() == Approx(13'000));
  // It stands still: what it was able to stays known.
  rate.observed(Lsn{5500}, Lsn{9000}, start + milliseconds{550});
  CHECK(rate.bytes_per_s() == Approx(13'000));
  rate.observed(Lsn{9000}, Lsn{9000}, start + milliseconds{650});
  CHECK(rate.bytes_per_s() == 0.0);
  rate.forget();
  rate.observed(Lsn{10}, Lsn{20}, start);
  CHECK(rate.bytes_per_s() == 0.0);
}
