#include "monitor/lag_sampler.h"

#include <algorithm>

namespace pgweir::monitor {

void LagSampler::sample(Duration lag, Time now) {
  lag_ = std::max(lag, Duration::zero());
  known_ = true;
  histogram_.record(lag_, now);
}

void LagSampler::primary_at(tokens::Lsn lsn, Time asked, Time now) {
  const bool moved = lsn > primary_;
  primary_ = std::max(primary_, lsn);
  if (replica_seen_ != Time{} && replica_ >= lsn) {
    // The replica was seen there already. An idle primary says nothing about how fast it follows:
    // no sample then.
    if (moved) sample(replica_seen_ - asked, now);
    if (ahead_.empty()) lag_ = moved ? lag_ : Duration::zero();
    known_ = true;
    return;
  }
  if (!moved && !ahead_.empty()) return;
  if (!ahead_.empty() && asked - ahead_.back().at < kPointGap) return;
  if (ahead_.size() == kPointsMax) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ahead_.size(); i += 2) ahead_[kept++] = ahead_[i];
    ahead_.resize(kept);
  }
  ahead_.push_back({lsn, asked});
}

void LagSampler::replica_at(tokens::Lsn lsn, Time now) {
  replica_ = std::max(replica_, lsn);
  replica_seen_ = now;
  while (!ahead_.empty() && ahead_.front().lsn <= replica_) {
    sample(now - ahead_.front().at, now);
    ahead_.pop_front();
  }
}

void LagSampler::forget() noexcept {
  ahead_.clear();
  primary_ = {};
  replica_ = {};
  replica_seen_ = {};
  lag_ = {};
  known_ = false;
}

Duration LagSampler::lag(Time now) const noexcept {
  return ahead_.empty() ? lag_ : std::max(Duration::zero(), now - ahead_.front().at);
}

}  // namespace pgweir::monitor
