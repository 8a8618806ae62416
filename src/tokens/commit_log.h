// What was written, and up to which LSN: pending marks and the group capture that turns them into
// LSNs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "tokens/lsn.h"

namespace pgweir::tokens {

/// The number of a mark. A capture that began after ticket N covers N and all before it. 0: nothing
/// to wait for.
using Ticket = std::uint64_t;
using TableKey = std::uint64_t;

/// The ticket that every CaptureLog is born with: what was committed before this process began to
/// watch the cluster. Nobody knows which tables that were, so it concerns all of them.
inline constexpr Ticket kFloorTicket = 1;

/// What a reader must see: an LSN, or a ticket that no capture has covered yet.
struct Need {
  Lsn lsn{};
  Ticket pending = 0;

  bool nothing() const noexcept { return lsn.value == 0 && pending == 0; }
  /// The stricter of both.
  void join(const Need& other) noexcept;
};

/// The marks of one cluster and what captures said about them.
///
/// Group capture (docs/internals/decisions.md): a commit is marked *before* its acknowledgement is
/// passed on; one question to the primary sent after that covers everything marked by then.
///
///     mark 7   mark 8      ack 7    ack 8     mark 9
///        |        |          |        |          |
///     ---+--------+---[begin: covers 8]----------+----[captured(8, LSN)]--->
///                                                     9 is still pending
///
/// LSNs of captures never fall while the primary keeps its identity; clamp() tells that it has not.
class CaptureLog {
 public:
  /// The next ticket: something was, or may have been, committed.
  Ticket mark() noexcept { return ++last_ticket_; }
  /// True from birth on: the floor has to be captured before a replica may answer.
  bool pending() const noexcept { return last_ticket_ > covered_; }
  Ticket last_ticket() const noexcept { return last_ticket_; }
  Ticket covered() const noexcept { return covered_; }

  /// A capture is about to be sent; what it will cover.
  Ticket begin_capture() const noexcept { return last_ticket_; }
  /// Its answer: everything up to `covers` is contained in `lsn`. An answer that comes after a
  /// later one is ignored.
  void captured(Ticket covers, Lsn lsn);
  /// The primary has another identity (promotion, restart): whatever was captured is at most `at`
  /// there, and pending marks are covered by a capture from the new one only. A capture that was
  /// asked of the old one must not be reported afterwards.
  void clamp(Lsn at);

  /// The need of somebody who waits for `ticket`: a pending one, or the LSN of the first capture
  /// that covers it.
  Need need(Ticket ticket) const noexcept;

  /// How often the identity changed. Who keeps an LSN of his own keeps the epoch it was seen in
  /// beside it.
  std::uint32_t epoch() const noexcept { return epoch_; }
  /// An LSN seen in `epoch`, as the present primary would say it: never above what it can reach.
  Lsn clamped(Lsn lsn, std::uint32_t epoch) const noexcept;

 private:
  struct Capture {
    Ticket covers;
    Lsn lsn;
    std::uint64_t number;  ///< Counts captures: an age in captures.
  };
  /// Bound of the history. A full one is thinned: captures of age N are kept at most N /
  /// kAgeOverGap apart. A ticket whose capture went gets the next kept one's LSN, which is never
  /// too low, and seldom much too high: a table that was written long ago is not held to the
  /// present.
  static constexpr std::size_t kHistoryMax = 1024;
  static constexpr std::uint64_t kAgeOverGap = 16;
  static constexpr std::size_t kClampsMax = 16;
  void thin();

  Ticket last_ticket_ = kFloorTicket;
  Ticket covered_ = 0;
  std::deque<Capture> history_;  ///< Rising in every member.
  std::uint64_t captures_ = 0;
  std::uint32_t epoch_ = 0;
  std::deque<Lsn> clamps_;  ///< Those that began the newest epochs, the newest last.
};

/// Last write of each table of one database, bounded: an entry that must go raises the floor for
/// all tables.
class TableWrites {
 public:
  /// `floor` concerns every table: the log's mark() at the moment from which this database's writes
  /// are seen, kFloorTicket when that is as old as the log.
  explicit TableWrites(std::size_t tables_max = 10'000, Ticket floor = kFloorTicket)
      : tables_max_(tables_max), floor_{floor, Time{}}, newest_{floor, Time{}} {}

  void mark(std::span<const TableKey> tables, bool all, Ticket ticket, Time now);
  /// Writes are seen from `now` on: any table may have been written until then.
  void begin(Time now) noexcept { floor_.at = newest_.at = now; }
  /// The last ticket that concerns any of `tables` (all: of any table). 0 for no table at all.
  Ticket last_write(std::span<const TableKey> tables, bool all) const noexcept;
  /// When any of them was last written; the zero Time when never.
  Time last_write_time(std::span<const TableKey> tables, bool all) const noexcept;
  std::size_t size() const noexcept { return by_age_.size(); }

  struct LastWrite {
    TableKey table;
    Ticket ticket;
    Time at;
  };
  /// For people: those written last first, at most `count_max`.
  std::vector<LastWrite> newest(std::size_t count_max) const;
  /// What concerns every table.
  LastWrite floor() const noexcept { return {0, floor_.ticket, floor_.at}; }

 private:
  struct Entry {
    Ticket ticket;
    Time at;
    void raise(const Entry& other) noexcept;
  };
  struct Row {
    TableKey table;
    Entry entry;
  };
  Entry last(std::span<const TableKey> tables, bool all) const noexcept;
  void mark_one(TableKey table, const Entry& entry);

  std::size_t tables_max_;
  Entry floor_;   ///< Concerns every table: writes of unknown tables, and what was evicted.
  Entry newest_;  ///< The last write of anything.
  std::list<Row> by_age_;  ///< Written longest ago first: that one makes room.
  std::unordered_map<TableKey, std::list<Row>::iterator> rows_;
};

}  // namespace pgweir::tokens
