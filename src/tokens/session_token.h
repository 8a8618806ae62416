// What one session, or causal key, must see: what it wrote, and what it has seen on the primary.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tokens/commit_log.h"

namespace pgweir::tokens {

/// Kept by a session (24 bytes); the cluster's CaptureLog gives it meaning. Tickets turn into LSNs
/// by themselves when a capture covers them, and both survive a change of the primary's identity.
class SessionToken {
 public:
  /// The session committed something; `ticket` is its mark.
  void wrote(Ticket ticket) noexcept { ticket_ = std::max(ticket_, ticket); }

  /// The session got an answer from the primary, so it may have seen commits that nobody has
  /// acknowledged yet. Only a capture sent after the answer is known to contain those: `log` gets a
  /// mark for it.
  void read_primary(CaptureLog& log) noexcept { wrote(log.mark()); }

  /// The session has seen, or was handed, an LSN of the present epoch.
  void saw(Lsn lsn, const CaptureLog& log) noexcept {
    lsn_ = std::max(log.clamped(lsn_, epoch_), lsn);
    epoch_ = log.epoch();
  }

  void join(const SessionToken& other, const CaptureLog& log) noexcept {
    wrote(other.ticket_);
    saw(log.clamped(other.lsn_, other.epoch_), log);
  }

  Need need(const CaptureLog& log) const noexcept {
    Need need = log.need(ticket_);
    need.lsn = std::max(need.lsn, log.clamped(lsn_, epoch_));
    return need;
  }

  bool empty() const noexcept { return ticket_ == 0 && lsn_.value == 0; }

 private:
  Ticket ticket_ = 0;
  Lsn lsn_;
  std::uint32_t epoch_ = 0;
};

}  // namespace pgweir::tokens
