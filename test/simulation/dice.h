// Chance from one seed: everything random in a run is drawn here, so a seed is a run.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "base/time.h"

namespace pgweir::sim {

/// splitmix64: small, good enough, and the same on every machine (the standard's distributions are
/// not).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// 0 to n - 1; n is not 0.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  int between(int low, int high) noexcept {
    return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  Duration between(Duration low, Duration high) noexcept {
    return low + Duration(static_cast<Duration::rep>(
                     below(static_cast<std::uint64_t>((high - low).count()) + 1)));
  }
  /// True in `per_mille` of 1000 cases.
  bool chance(int per_mille) noexcept {
    return below(1000) < static_cast<std::uint64_t>(per_mille);
  }
  template <class T>
  const T& pick(std::span<const T> of) noexcept {
    return of[below(of.size())];
  }
  /// A stream of its own, so that more draws in one place don't shift those of another.
  Dice fork() noexcept { return Dice(next()); }

 private:
  std::uint64_t state_;
};

/// The same as the project's own interface.
class SimRandom final : public Random {
 public:
  explicit SimRandom(Dice dice) noexcept : dice_(dice) {}
  void fill(std::span<char> bytes) noexcept override {
    for (char& byte : bytes) byte = static_cast<char>(dice_.next());
  }

 private:
  Dice dice_;
};

}  // namespace pgweir::sim
