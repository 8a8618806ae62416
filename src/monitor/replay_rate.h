// How fast a replica replays when it has something to replay.
#pragma once

#include "base/time.h"
#include "tokens/lsn.h"

namespace pgweir::monitor {

/// Only of times in which it was known to have WAL left to replay: one that waits for more to come is as fast as that comes, which says
/// nothing about how soon it gets to what is there.
class ReplayRate {
 public:
  /// What it said when it was asked at `asked`.
  void observed(tokens::Lsn replayed, tokens::Lsn received, Time asked) noexcept;
  void forget() noexcept { *this = {}; }
  /// Bytes of WAL in a second; 0 while it has nothing left to replay, or nothing is known.
  double bytes_per_s() const noexcept { return left_ ? bytes_per_s_ : 0.0; }

 private:
  bool known_ = false;
  bool left_ = false;  ///< when it was asked last
  tokens::Lsn replayed_;
  Time asked_{};
  double bytes_per_s_ = 0.0;
};

}  // namespace pgweir::monitor
