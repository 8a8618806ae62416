#include "routing/replica_choice.h"

#include <algorithm>

namespace pgweir::routing {
namespace {

bool before(const Candidate& a, const Candidate& b, NodeId last_replica) noexcept {
  const std::uint64_t load_a = (std::uint64_t{a.outstanding} + 1) * b.share;
  const std::uint64_t load_b = (std::uint64_t{b.outstanding} + 1) * a.share;
  if (load_a != load_b) return load_a < load_b;
  return a.id == last_replica && b.id != last_replica;
}

}  // namespace

std::uint64_t share_of(std::uint32_t weight, Time usable_since, Duration slow_start, Time now) noexcept {
  const std::uint64_t whole = weight * kWholeShare;
  if (usable_since == Time{} || now - usable_since >= slow_start) return whole;
  const auto passed = static_cast<std::uint64_t>(std::max(now - usable_since, Duration{}).count());
  return std::max<std::uint64_t>(weight, whole * passed / static_cast<std::uint64_t>(slow_start.count()));
}

void order(std::span<Candidate> candidates, NodeId last_replica) noexcept {
  // Insertion sort: a handful of entries, stable, and no allocation.
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    for (std::size_t at = i; at > 0 && before(candidates[at], candidates[at - 1], last_replica); --at)
      std::swap(candidates[at], candidates[at - 1]);
  }
}

}  // namespace pgweir::routing
