#include "tokens/commit_log.h"

#include <algorithm>

namespace pgweir::tokens {

void Need::join(const Need& other) noexcept {
  lsn = std::max(lsn, other.lsn);
  pending = std::max(pending, other.pending);
}

void CaptureLog::captured(Ticket covers, Lsn lsn) {
  covers = std::min(covers, last_ticket_);
  if (covers <= covered_) return;
  covered_ = covers;
  if (!history_.empty() && history_.back().lsn >= lsn) {
    history_.back().covers =
        covers;  // Nothing was written in between, or the page-boundary rule took one back.
    return;
  }
  if (history_.size() == kHistoryMax) thin();
  history_.push_back({covers, lsn, ++captures_});
}

void CaptureLog::thin() {
  // From the newest to the oldest: what is older may lie further apart, so ages grow geometrically.
  std::deque<Capture> kept{history_.back()};
  for (std::size_t i = history_.size() - 1; i-- > 0;) {
    const std::uint64_t later = kept.front().number;
    const bool oldest = i == 0;
    // It may go when the hole would still be small for its age.
    const bool dispensable =
        !oldest && (later - history_[i - 1].number) * kAgeOverGap <= captures_ - later;
    if (!dispensable) kept.push_front(history_[i]);
  }
  while (kept.size() > kHistoryMax / 2) kept.pop_front();
  history_ = std::move(kept);
}

void CaptureLog::clamp(Lsn at) {
  ++epoch_;
  if (clamps_.size() == kClampsMax) clamps_.pop_front();
  clamps_.push_back(at);
  for (Capture& capture : history_) capture.lsn = std::min(capture.lsn, at);
}

Need CaptureLog::need(Ticket ticket) const noexcept {
  if (ticket == 0) return {};
  if (ticket > covered_) return {.lsn = {}, .pending = ticket};
  const auto first = std::lower_bound(
      history_.begin(), history_.end(), ticket,
      [](const Capture& capture, Ticket wanted) { return capture.covers < wanted; });
  return {.lsn = first->lsn, .pending = 0};  // There is one: the last capture covers covered_.
}

Lsn CaptureLog::clamped(Lsn lsn, std::uint32_t epoch) const noexcept {
  // Clamps older than those kept don't matter for being reachable: the kept ones already see to
  // that.
  const std::size_t later = std::min<std::size_t>(epoch_ - epoch, clamps_.size());
  for (std::size_t i = clamps_.size() - later; i < clamps_.size(); ++i)
    lsn = std::min(lsn, clamps_[i]);
  return lsn;
}

void TableWrites::Entry::raise(const Entry& other) noexcept {
  ticket = std::max(ticket, other.ticket);
  at = std::max(at, other.at);
}

void TableWrites::mark(std::span<const TableKey> tables, bool all, Ticket ticket, Time now) {
  const Entry entry{ticket, now};
  newest_.raise(entry);
  if (all) {
    floor_.raise(entry);
    return;
  }
  for (TableKey table : tables) mark_one(table, entry);
}

void TableWrites::mark_one(TableKey table, const Entry& entry) {
  if (const auto found = rows_.find(table); found != rows_.end()) {
    found->second->entry.raise(entry);
    by_age_.splice(by_age_.end(), by_age_, found->second);
    return;
  }
  if (tables_max_ == 0) {
    floor_.raise(entry);
    return;
  }
  if (by_age_.size() >= tables_max_) {
    floor_.raise(by_age_.front().entry);
    rows_.erase(by_age_.front().table);
    by_age_.pop_front();
  }
  by_age_.push_back({table, entry});
  rows_.emplace(table, std::prev(by_age_.end()));
}

TableWrites::Entry TableWrites::last(std::span<const TableKey> tables, bool all) const noexcept {
  if (all) return newest_;
  if (tables.empty()) return {};
  Entry last = floor_;
  for (TableKey table : tables) {
    if (const auto found = rows_.find(table); found != rows_.end())
      last.raise(found->second->entry);
  }
  return last;
}

Ticket TableWrites::last_write(std::span<const TableKey> tables, bool all) const noexcept {
  return last(tables, all).ticket;
}

Time TableWrites::last_write_time(std::span<const TableKey> tables, bool all) const noexcept {
  return last(tables, all).at;
}

std::vector<TableWrites::LastWrite> TableWrites::newest(std::size_t count_max) const {
  std::vector<LastWrite> found;
  for (auto row = by_age_.rbegin(); row != by_age_.rend() && found.size() < count_max; ++row)
    found.push_back({row->table, row->entry.ticket, row->entry.at});
  return found;
}

}  // namespace pgweir::tokens
