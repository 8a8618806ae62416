// A histogram of times with a bounded error, and one that forgets: both a few kilobytes, no
// allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace pgweir::stats {

/// Counts times in buckets whose width grows with the value (8 per power of two), so a quantile is
/// at most 12.5 % above the truth. From 1 µs to some 70 minutes; longer ones count as that.
class Histogram {
 public:
  void record(Duration time) noexcept;
  /// The upper edge of the bucket in which the p-quantile (0 to 1) lies; zero when nothing was
  /// recorded.
  Duration quantile(double p) const noexcept;
  std::uint64_t count() const noexcept { return count_; }
  void clear() noexcept { *this = Histogram(); }
  Histogram& operator+=(const Histogram& other) noexcept;

 private:
  static constexpr std::size_t kSubBits = 3;
  static constexpr std::size_t kBuckets = ((32 - kSubBits) + 1) << kSubBits;

  static std::size_t bucket_of(std::uint64_t us) noexcept;
  static std::uint64_t upper_edge_us(std::size_t bucket) noexcept;

  std::array<std::uint32_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
};

/// The times of the last `kSlices` windows; the oldest is dropped as time moves on.
class DecayingHistogram {
 public:
  static constexpr std::size_t kSlices = 4;

  explicit DecayingHistogram(Duration window = std::chrono::minutes(1)) noexcept
      : window_(window) {}
  void record(Duration time, Time now) noexcept;
  Duration quantile(double p, Time now) noexcept;
  std::uint64_t count(Time now) noexcept;

 private:
  void turn(Time now) noexcept;

  Duration window_;
  std::array<Histogram, kSlices> slices_{};
  std::size_t current_ = 0;
  Time slice_began_{};
  bool begun_ = false;
};

}  // namespace pgweir::stats
