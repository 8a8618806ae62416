#include "monitor/lag_sampler.h"

#include <catch2/catch.hpp>

namespace pgweir::monitor {
namespace {

using tokens::Lsn;
constexpr Time at(int ms) {
  return Time{std::chrono::seconds{1000} + std::chrono::milliseconds{ms}};
}
constexpr Duration ms(int count) { return std::chrono::milliseconds{count}; }

TEST_CASE("on an idle primary a replica that has replayed all has no lag, however long it is idle",
          "[monitor]") {
  LagSampler lag;
  CHECK_FALSE(lag.known());
  for (int i = 0; i < 100; ++i) {
    lag.replica_at(Lsn{100}, at(i * 1000));
    lag.primary_at(Lsn{100}, at(i * 1000), at(i * 1000));
  }
  CHECK(lag.known());
  CHECK(lag.lag(at(100'000)) == Duration::zero());
}

TEST_CASE(
    "a sample is the time from when the primary was somewhere to when the replica is seen there",
    "[monitor]") {
  LagSampler lag;
  lag.primary_at(Lsn{100}, at(0), at(1));
  lag.replica_at(Lsn{90}, at(200));
  CHECK_FALSE(lag.known());
  CHECK(lag.lag(at(500)) == ms(500));
  lag.replica_at(Lsn{120}, at(700));
  CHECK(lag.known());
  CHECK(lag.lag(at(5000)) == ms(700));
  CHECK(lag.quantile(0.5, at(700)) >= ms(700));
  CHECK(lag.quantile(0.5, at(700)) <= ms(800));
}

TEST_CASE(
    "the lag grows while the replica does not pass, and is the oldest unpassed position's age",
    "[monitor]") {
  LagSampler lag;
  for (int i = 0; i < 5000; ++i)
    lag.primary_at(Lsn{100 + static_cast<std::uint64_t>(i)}, at(i * 100), at(i * 100));
  lag.replica_at(Lsn{99}, at(500'000));
  CHECK(lag.lag(at(500'000)) == ms(500'000));
  lag.replica_at(Lsn{100 + 4000}, at(500'000));
  CHECK(lag.lag(at(500'000)) < ms(101'000));
  CHECK(lag.lag(at(500'000)) > ms(90'000));
  lag.replica_at(Lsn{100 + 4999}, at(500'100));
  CHECK(lag.lag(at(600'000)) < ms(10'000));
}

TEST_CASE("another primary makes the lag unknown again", "[monitor]") {
  LagSampler lag;
  lag.replica_at(Lsn{100}, at(0));
  lag.primary_at(Lsn{100}, at(0), at(0));
  lag.forget();
  CHECK_FALSE(lag.known());
}

}  // namespace
}  // namespace pgweir::monitor
