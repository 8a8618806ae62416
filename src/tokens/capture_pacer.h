// When the next group capture is asked for: pure pacing, no clock.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace pgweir::tokens {

/// At most one capture in flight; at once when somebody wants to read something pending, otherwise
/// on a beat that stretches while nobody does; none while nothing is pending.
///
///     for each turn:  if (pacer.next(now, log.pending()) <= now) { send; pacer.started(now); }
class CapturePacer {
 public:
  static constexpr Duration kBeatMin = std::chrono::milliseconds{1};
  static constexpr Duration kBeatMax = std::chrono::milliseconds{10};
  /// After a failed capture even who waits has to wait this long: a primary that refuses is not
  /// asked in a loop.
  static constexpr Duration kPauseAfterFailure = std::chrono::milliseconds{50};

  /// Somebody wants to read what is pending.
  void want_now() noexcept {
    wanted_ = true;
    beat_ = kBeatMin;
  }

  /// When to start the next capture: `now` or earlier is at once, kNever is not before something
  /// changes.
  Time next(Time now, bool pending) noexcept {
    if (in_flight_) return kNever;
    if (!pending) {
      wanted_ = false;
      return kNever;
    }
    if (wanted_) return std::max(now, not_before_);
    return std::max(beat_from_ + beat_, not_before_);
  }

  void started(Time now) noexcept {
    in_flight_ = true;
    if (!wanted_) beat_ = std::min(beat_ * 2, kBeatMax);
    wanted_ = false;
    beat_from_ = now;
  }

  void answered(Time) noexcept { in_flight_ = false; }
  void failed(Time now) noexcept {
    in_flight_ = false;
    not_before_ = now + kPauseAfterFailure;
  }

  bool in_flight() const noexcept { return in_flight_; }

 private:
  bool in_flight_ = false;
  bool wanted_ = false;
  Duration beat_ = kBeatMin;
  Time beat_from_{};  ///< When the last capture started.
  Time not_before_{};
};

}  // namespace pgweir::tokens
