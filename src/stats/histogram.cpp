#include "stats/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace pgweir::stats {

// Values below 8 have a bucket each. Above, the leading bit picks a row of 8 buckets and the next
// three bits the bucket in it:
//
//   us = 1 0 1 1 x x x        exponent 6 - 3 = 3, so row 4, bucket 0b011
//        ^ ^^^^^
std::size_t Histogram::bucket_of(std::uint64_t us) noexcept {
  us = std::min<std::uint64_t>(us, std::numeric_limits<std::uint32_t>::max());
  if (us < (1U << kSubBits)) return static_cast<std::size_t>(us);
  const auto shift = static_cast<std::size_t>(std::bit_width(us)) - 1 - kSubBits;
  return ((shift + 1) << kSubBits) +
         static_cast<std::size_t>((us >> shift) & ((1U << kSubBits) - 1));
}

std::uint64_t Histogram::upper_edge_us(std::size_t bucket) noexcept {
  if (bucket < (1U << kSubBits)) return bucket;
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::uint64_t lower = ((bucket & ((1U << kSubBits) - 1)) | (1U << kSubBits));
  return ((lower + 1) << shift) - 1;
}

void Histogram::record(Duration time) noexcept {
  std::uint32_t& bucket =
      buckets_[bucket_of(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)))];
  if (bucket == std::numeric_limits<std::uint32_t>::max()) return;
  ++bucket;
  ++count_;
}

Duration Histogram::quantile(double p) const noexcept {
  if (count_ == 0) return Duration{};
  const double wanted = std::ceil(std::clamp(p, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) return Duration(static_cast<std::int64_t>(upper_edge_us(bucket)));
  }
  return Duration(static_cast<std::int64_t>(upper_edge_us(kBuckets - 1)));
}

Histogram& Histogram::operator+=(const Histogram& other) noexcept {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  count_ = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const std::uint64_t sum =
        std::min<std::uint64_t>(kMax, std::uint64_t{buckets_[bucket]} + other.buckets_[bucket]);
    buckets_[bucket] = static_cast<std::uint32_t>(sum);
    count_ += sum;
  }
  return *this;
}

void DecayingHistogram::turn(Time now) noexcept {
  if (!begun_) {
    begun_ = true;
    slice_began_ = now;
    return;
  }
  const auto passed = window_.count() > 0 ? (now - slice_began_) / window_ : 0;
  if (passed <= 0) return;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(passed, kSlices); ++i) {
    current_ = (current_ + 1) % kSlices;
    slices_[current_].clear();
  }
  slice_began_ += passed * window_;
}

void DecayingHistogram::record(Duration time, Time now) noexcept {
  turn(now);
  slices_[current_].record(time);
}

Duration DecayingHistogram::quantile(double p, Time now) noexcept {
  turn(now);
  Histogram all;
  for (const Histogram& slice : slices_) all += slice;
  return all.quantile(p);
}

std::uint64_t DecayingHistogram::count(Time now) noexcept {
  turn(now);
  std::uint64_t count = 0;
  for (const Histogram& slice : slices_) count += slice.count();
  return count;
}

}  // namespace pgweir::stats
