// What was written, and up to which LSN: pending marks and the group capture that turns them into LSNs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "base/time.h"
#include "tokens/lsn.h"

namespace pgweir::tokens {

/// The number of a mark. A capture that began after ticket N covers N and all before it. 0: nothing to wait for.
using Ticket = std::uint64_t;
using TableKey = std::uint64_t;

/// What a reader must see: an LSN, or a ticket that no capture has covered yet.
struct Need {
  Lsn lsn;
  Ticket pending = 0;

  /// The stricter of both.
  void join(const Need& other) noexcept;
};

/// The writes of one database of a cluster (table keys are per database; the capture is per cluster).
///
/// Group capture (docs/internals/decisions.md): a commit is marked *before* its acknowledgement is passed on; one
/// question to the primary sent after that covers everything marked by then. LSNs of captures never fall
/// while the cluster keeps its identity.
class CaptureLog {
 public:
  /// The next ticket: something was, or may have been, committed.
  Ticket mark() noexcept { return ++last_ticket_; }
  bool pending() const noexcept { return last_ticket_ > covered_; }
  Ticket last_ticket() const noexcept { return last_ticket_; }

  /// A capture is about to be sent; what it will cover.
  Ticket begin_capture() const noexcept { return last_ticket_; }
  /// Its answer: everything up to `covers` is contained in `lsn`.
  void captured(Ticket covers, Lsn lsn);
  /// The primary has another identity (promotion, restart): whatever was captured is at most `at` there, and
  /// pending marks are covered by a capture from the new one only.
  void clamp(Lsn at);

  /// The need of somebody who waits for `ticket`: a pending one, or the LSN of the first capture that covers it.
  Need need(Ticket ticket) const noexcept;

 private:
  struct Capture {
    Ticket covers;
    Lsn lsn;
  };
  static constexpr std::size_t kHistoryMax = 64;  ///< Older tickets get the oldest kept LSN, which is never too low.

  Ticket last_ticket_ = 0;
  Ticket covered_ = 0;
  std::deque<Capture> history_;
};

/// Last write of each table of one database, bounded: an entry that must go raises the floor for all tables.
class TableWrites {
 public:
  explicit TableWrites(std::size_t tables_max = 10'000) : tables_max_(tables_max) {}

  void mark(std::span<const TableKey> tables, bool all, Ticket ticket, Time now);
  /// The last ticket that concerns any of `tables` (all: of any table).
  Ticket last_write(std::span<const TableKey> tables, bool all) const noexcept;
  /// When any of them was last written; the zero Time when never.
  Time last_write_time(std::span<const TableKey> tables, bool all) const noexcept;
  std::size_t size() const noexcept { return tables_.size(); }

 private:
  struct Entry {
    Ticket ticket;
    Time at;
  };
  std::size_t tables_max_;
  Entry floor_{};   ///< Concerns every table: writes of unknown tables, and what was evicted.
  Entry newest_{};  ///< The last write of anything.
  std::unordered_map<TableKey, Entry> tables_;
};

}  // namespace pgweir::tokens
