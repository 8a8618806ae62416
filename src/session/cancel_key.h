// cancel_key: what a client is given to cancel its query by, and what comes back in a CancelRequest: eight bytes, which
// the protocol calls a process id and a key.
//
//   byte    0          1 2          3 .. 6     7
//           0rrrrrrr   peer id      random     rrrrrrhh
//                      (low byte first)              hops that a request may still make from peer to peer
//
// PgBouncer puts them in the same places, so that both can be peers of each other. Without a peer id all bits but the
// first are random; that one stays clear because some clients read the process id as a signed number.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace pgweir::session {

struct CancelKey {
  static constexpr std::uint32_t kHopsMax = 3;

  std::uint32_t pid = 0;
  std::uint32_t key = 0;

  static CancelKey draw(Random& random, int peer_id) noexcept {
    const std::uint64_t chance = random.next();
    CancelKey drawn{static_cast<std::uint32_t>(chance >> 32) & 0x7fffffff, static_cast<std::uint32_t>(chance) | kHopsMax};
    if (peer_id > 0) {
      const auto id = static_cast<std::uint32_t>(peer_id);
      drawn.pid = (drawn.pid & 0xff0000ff) | (id & 0xff) << 16 | (id & 0xff00);
    }
    if (drawn.pid == 0) drawn.pid = 1;  // Some clients take 0 for "can't be cancelled".
    return drawn;
  }

  int peer_id() const noexcept { return static_cast<int>((pid >> 16 & 0xff) | (pid & 0xff00)); }
  std::uint32_t hops_left() const noexcept { return key & kHopsMax; }
  CancelKey after_hop() const noexcept { return {pid, key - 1}; }
  bool is_of_same_client(const CancelKey& other) const noexcept {
    return pid == other.pid && (key | kHopsMax) == (other.key | kHopsMax);
  }
};

}  // namespace pgweir::session
