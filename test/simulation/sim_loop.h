// Virtual time: a queue of events, the one Turner they drive, and the trace of what happened.
//
//   take the next event, and those that come within the same "poll" ─► turn(), when the pooler
//   heard something ─► flush
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "dice.h"
#include "io/io.h"

namespace pgweir::sim {

/// What happened, hashed as a whole and kept for the last events: two runs of a seed have the same
/// hash.
class Trace {
 public:
  explicit Trace(bool print = false) noexcept : print_(print) {}
  void add(Time now, std::string_view what);
  /// What can't be said in words cheaply: only hashed.
  void mix(std::uint64_t number) noexcept { hash_ = (hash_ ^ number) * 0x100000001b3U; }
  std::uint64_t hash() const noexcept { return hash_; }
  /// The last events, oldest first.
  std::string tail() const;

 private:
  static constexpr std::size_t kTailMax = 150;
  bool print_;
  std::uint64_t hash_ = 0xcbf29ce484222325U;
  std::deque<std::string> tail_;
};

class SimLoop final : public io::Clock {
 public:
  using Action = std::function<void()>;

  SimLoop(Dice dice, bool print_trace) noexcept : dice_(dice), trace_(print_trace) {}

  Time now() const noexcept override { return now_; }
  WallTime wall() const noexcept override {
    return WallTime(std::chrono::seconds{1'800'000'000} + now_.time_since_epoch());
  }

  /// Events of one time happen in the order they were asked for.
  void at(Time when, Action action);
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }

  /// Who is turned, and what happens behind each poll (the network writes what was gathered).
  void drive(io::Turner* turner) noexcept {
    turner_ = turner;
    wake_at_ = turner ? now_ : kNever;
  }
  void behind_each_poll(Action action) { flush_ = std::move(action); }
  /// The pooler heard something: it is turned behind this poll.
  void touch() noexcept { touched_ = true; }

  /// Until `until`, or until `done` says so, asked after each poll.
  void run_until(Time until, const std::function<bool()>& done = {});
  void run_for(Duration time, const std::function<bool()>& done = {}) {
    run_until(now_ + time, done);
  }

  Trace& trace() noexcept { return trace_; }
  void note(std::string_view what) { trace_.add(now_, what); }
  std::uint64_t events() const noexcept { return events_; }
  std::uint64_t turns() const noexcept { return turns_; }

 private:
  struct Event {
    Time when;
    std::uint64_t order;
    Action action;
    bool operator<(const Event& other) const noexcept {
      return when != other.when ? when > other.when
                                : order > other.order;  // The earliest is the greatest.
    }
  };
  bool poll(Time until);

  Dice dice_;
  Trace trace_;
  Time now_{std::chrono::seconds{1000}};
  std::priority_queue<Event> queue_;
  std::uint64_t order_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t turns_ = 0;
  io::Turner* turner_ = nullptr;
  Time wake_at_ = kNever;
  Action flush_;
  bool touched_ = false;
};

}  // namespace pgweir::sim
