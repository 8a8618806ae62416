// stats: counters, averages, histograms: plain structs that their owners add to and others read.
// Nothing here reads a clock or knows who counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace pgweir::stats {

/// The columns of PgBouncer's SHOW STATS, for one database (or one pool; they add up).
struct Counters {
  std::uint64_t server_assignment_count = 0;
  std::uint64_t xact_count = 0;
  std::uint64_t query_count = 0;
  std::uint64_t bytes_received = 0;  // From clients.
  std::uint64_t bytes_sent = 0;      // From servers to clients.
  Duration xact_time{};
  Duration query_time{};
  Duration wait_time{};
  std::uint64_t client_parse_count = 0;
  std::uint64_t server_parse_count = 0;
  std::uint64_t bind_count = 0;

  Counters& operator+=(const Counters& other) noexcept;
  bool operator==(const Counters&) const = default;
};

/// What happened between `before` and `now`, `elapsed` apart, as PgBouncer averages it: counts and
/// bytes per second, times per transaction, query and assignment; whole numbers.
Counters average(const Counters& before, const Counters& now, Duration elapsed) noexcept;

/// The averages over the last full stats_period: roll() once per period, read at any time.
class Averages {
 public:
  void roll(const Counters& now, Duration elapsed) noexcept {
    last_ = average(before_, now, elapsed);
    before_ = now;
  }
  const Counters& last() const noexcept { return last_; }

 private:
  Counters before_;
  Counters last_;
};

/// Units by where they went and why. Indices are routing's enumerators; what does not fit is not
/// counted.
class RouteCounts {
 public:
  static constexpr std::size_t kTargetsMax = 4;
  static constexpr std::size_t kReasonsMax = 64;

  template <class Target, class Reason>
  void add(Target target, Reason reason, std::uint64_t units = 1) noexcept {
    const auto t = static_cast<std::size_t>(target);
    const auto r = static_cast<std::size_t>(reason);
    if (t < kTargetsMax && r < kReasonsMax) units_[t][r] += units;
  }
  template <class Target, class Reason>
  std::uint64_t get(Target target, Reason reason) const noexcept {
    const auto t = static_cast<std::size_t>(target);
    const auto r = static_cast<std::size_t>(reason);
    return t < kTargetsMax && r < kReasonsMax ? units_[t][r] : 0;
  }
  RouteCounts& operator+=(const RouteCounts& other) noexcept;

 private:
  std::array<std::array<std::uint64_t, kReasonsMax>, kTargetsMax> units_{};
};

}  // namespace pgweir::stats
