#include "sim_loop.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace pgweir::sim {

void Trace::add(Time now, std::string_view what) {
  mix(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  for (char c : what) mix(static_cast<unsigned char>(c));
  char stamp[32];
  const double seconds = static_cast<double>(now.time_since_epoch().count()) / 1e6 - 1000;
  std::snprintf(stamp, sizeof stamp, "%10.6f ", seconds);
  if (print_) std::printf("%s%.*s\n", stamp, static_cast<int>(what.size()), what.data());
  tail_.push_back(concat({stamp, what}));
  if (tail_.size() > kTailMax) tail_.pop_front();
}

std::string Trace::tail() const {
  std::string out;
  for (const std::string& line : tail_) out += line + "\n";
  return out;
}

void SimLoop::at(Time when, Action action) {
  queue_.push({std::max(when, now_), ++order_, std::move(action)});
}

void SimLoop::run_until(Time until, const std::function<bool()>& done) {
  while (poll(until)) {
    if (done && done()) return;
  }
}

/// One wait of the loop and what it brought. False when nothing happens up to `until`, which is
/// then the time.
bool SimLoop::poll(Time until) {
  Time next = queue_.empty() ? kNever : queue_.top().when;
  if (turner_) next = std::min(next, wake_at_);
  if (next == kNever || next > until) {
    now_ = std::max(now_, until == kNever ? now_ : until);
    return false;
  }
  now_ = std::max(now_, next);
  // Now and then the process was busy elsewhere, and one poll brings what came in the meantime.
  if (dice_.chance(300)) now_ += dice_.between(Duration{1}, Duration{150});
  std::vector<Action> due;
  while (!queue_.empty() && queue_.top().when <= now_) {
    due.push_back(std::move(const_cast<Event&>(queue_.top()).action));
    queue_.pop();
  }
  for (Action& action : due) {
    ++events_;
    action();
  }
  if (turner_ && (touched_ || wake_at_ <= now_)) {
    touched_ = false;
    if (flush_) flush_();
    ++turns_;
    wake_at_ = turner_->turn();
    // A turner that asks for a moment gone by wants the next poll, not this one again: time must
    // pass.
    if (wake_at_ <= now_) wake_at_ = now_ + Duration{1};
  }
  if (flush_) flush_();
  return true;
}

}  // namespace pgweir::sim
