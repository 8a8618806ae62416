// How many servers there may be, and for how long a failing node is left alone.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace pgweir::pool {

/// Open connections of one kind against their limit: of a database on a node, of a user on a node,
/// of a node.
struct Tally {
  int open = 0;
  int max = 0;  ///< 0: no limit

  bool full() const noexcept { return max > 0 && open >= max; }
};

/// The limits that count for one pool; a reload writes new ones. Sizes are per node, 0 is no limit,
/// a time of 0 is off.
struct Limits {
  int pool_size = 20;
  int replica_pool_size = 20;
  int min_pool_size = 0;
  int reserve_pool_size = 0;
  Duration reserve_pool_timeout{};
  Duration query_wait_timeout{};
  Duration server_idle_timeout{};
  Duration server_lifetime{};
  Duration server_connect_timeout{};
  Duration server_login_retry{};
  bool round_robin = false;  ///< the server that is idle longest is given first

  bool operator==(const Limits&) const = default;
};

/// After a failed connect or login: no new attempt before until().
class Backoff {
 public:
  /// The pause begins with `first` and doubles up to `most`.
  void failed(Time now, Duration first, Duration most) noexcept {
    const int doublings = std::min(failures_, kDoublingsMax);
    const Duration pause = std::min(most, first * (1 << doublings));
    until_ = now + pause;
    ++failures_;
  }
  /// A failure that another attempt may follow at once: the next host of a list.
  void failed_without_pause() noexcept { ++failures_; }
  void clear() noexcept { *this = Backoff(); }

  bool blocked(Time now) const noexcept { return now < until_; }
  Time until() const noexcept { return until_; }
  /// In a row.
  int failures() const noexcept { return failures_; }

 private:
  static constexpr int kDoublingsMax = 10;
  Time until_{};
  int failures_ = 0;
};

}  // namespace pgweir::pool
