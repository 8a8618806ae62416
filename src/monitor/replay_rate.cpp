#include "monitor/replay_rate.h"

#include <algorithm>

namespace pgweir::monitor {

namespace {

/// What a new measurement counts beside what was known.
constexpr double kNewest = 0.3;

}  // namespace

void ReplayRate::observed(tokens::Lsn replayed, tokens::Lsn received, Time asked) noexcept {
  if (known_ && left_ && replayed > replayed_ && asked > asked_) {
    const double rate = static_cast<double>(replayed.value - replayed_.value) / std::chrono::duration<double>(asked - asked_).count();
    bytes_per_s_ = bytes_per_s_ == 0.0 ? rate : kNewest * rate + (1.0 - kNewest) * bytes_per_s_;
  }
  known_ = true;
  left_ = replayed < received;
  replayed_ = std::max(replayed_, replayed);
  asked_ = asked;
}

}  // namespace pgweir::monitor
