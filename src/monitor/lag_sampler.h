// How far behind one replica is in time, without clocks on the nodes or heartbeat tables.
#pragma once

#include <cstddef>
#include <deque>

#include "base/time.h"
#include "routing/cluster_view.h"
#include "stats/histogram.h"

namespace pgweir::monitor {

/// Remembers when the primary was at which LSN; when the replica is seen to have passed one of
/// these, the time between is a true lag sample (too large by at most the time between two polls).
///
///     primary polled:   10:00.0 LSN 100     10:01.0 LSN 180
///     replica polled:             10:00.7 LSN 120            10:01.8 LSN 150
///                                 passed 100: lag 0.7 s      180 not passed: lag 0.8 s and growing
///
/// On an idle primary the replica stands at the primary's LSN, and the lag is none.
class LagSampler {
 public:
  /// `asked` is when the question went out: the primary was there at that time or later.
  void primary_at(tokens::Lsn lsn, Time asked, Time now);
  void replica_at(tokens::Lsn lsn, Time now);
  /// Another primary, or another instance behind the name: LSNs seen before mean nothing.
  void forget() noexcept;

  bool known() const noexcept { return known_; }
  /// The newest sample; while the replica has not passed a remembered LSN, at least the age of
  /// that.
  Duration lag(Time now) const noexcept;
  /// Since when an LSN of the primary has not been passed; kNever when all have.
  Time behind_since() const noexcept { return ahead_.empty() ? kNever : ahead_.front().at; }
  Duration quantile(double p, Time now) noexcept { return histogram_.quantile(p, now); }

 private:
  struct Point {
    tokens::Lsn lsn;
    Time at;
  };
  static constexpr std::size_t kPointsMax =
      256;  ///< Past it every second one goes; the oldest stays.
  static constexpr Duration kPointGap = std::chrono::milliseconds{20};

  void sample(Duration lag, Time now);

  std::deque<Point>
      ahead_;  ///< Where the primary was and the replica is not known to be; the oldest first.
  tokens::Lsn primary_;  ///< The highest LSN of the primary so far.
  tokens::Lsn replica_;
  Time replica_seen_{};
  Duration lag_{};
  bool known_ = false;
  stats::DecayingHistogram histogram_;
};

}  // namespace pgweir::monitor
