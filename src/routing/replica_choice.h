// Among the replicas that may answer: which comes first. Pure.
//
// Each gets its share of what is under way at one time: the next unit goes where there is least for the share it has.
//
//   share = weight (replica_weights=, of a database's line) x part of replica_slow_start that has passed since it became usable
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace pgweir::routing {

/// Of one database. A node that was given none has weight 1.
class ReplicaWeights {
 public:
  void clear() noexcept { weights_.clear(); }
  void set(NodeId node, std::uint32_t weight) { weights_.emplace_back(node, weight); }
  /// 0: it gets no reads.
  std::uint32_t of(NodeId node) const noexcept {
    for (const auto& [id, weight] : weights_) {
      if (id == node) return weight;
    }
    return 1;
  }

 private:
  std::vector<std::pair<NodeId, std::uint32_t>> weights_;  ///< At most kReplicasMax.
};

/// A weight of 1 at full strength; a part of it while a replica starts slowly.
inline constexpr std::uint64_t kWholeShare = 1024;

/// Grows evenly from next to nothing at `usable_since` to all of its weight after `slow_start`. The zero Time is long ago.
std::uint64_t share_of(std::uint32_t weight, Time usable_since, Duration slow_start, Time now) noexcept;

struct Candidate {
  NodeId id;
  std::uint32_t outstanding = 0;  ///< units that it works on now
  std::uint64_t share = kWholeShare;
};

/// The one with the fewest units for its share once it has the next one, too; then the one where the session read last; then as
/// configured.
void order(std::span<Candidate> candidates, NodeId last_replica) noexcept;

}  // namespace pgweir::routing
