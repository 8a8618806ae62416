// Which tables transactions under way have written: their commits may be seen before they are marked. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "tokens/commit_log.h"

namespace pgweir::tokens {

/// Of one database. A transaction enters with its first write, adds each of its tables once, and takes all of it away when its end
/// has been marked or it was rolled back. As many rows as tables are being written at one time, so a walk is the quickest look-up.
class OpenWriters {
 public:
  void enter() noexcept { ++transactions_; }
  void leave() noexcept {
    ENSURE(transactions_ > 0);
    --transactions_;
  }
  std::uint32_t transactions() const noexcept { return transactions_; }

  void add(TableKey table) {
    const auto found = find(table);
    if (found != tables_.end()) {
      ++found->writers;
    } else {
      tables_.push_back({table, 1});
    }
  }
  void remove(TableKey table) noexcept {
    const auto found = find(table);
    ENSURE(found != tables_.end());
    if (--found->writers > 0) return;
    *found = tables_.back();
    tables_.pop_back();
  }
  /// A transaction whose tables are not known, or no longer counted one by one.
  void add_all() noexcept { ++writers_of_all_; }
  void remove_all() noexcept {
    ENSURE(writers_of_all_ > 0);
    --writers_of_all_;
  }

  bool write(TableKey table) const noexcept {
    return writers_of_all_ > 0 ||
           std::any_of(tables_.begin(), tables_.end(), [table](const Row& row) { return row.table == table; });
  }

 private:
  struct Row {
    TableKey table;
    std::uint32_t writers;
  };
  std::vector<Row>::iterator find(TableKey table) noexcept {
    return std::find_if(tables_.begin(), tables_.end(), [table](const Row& row) { return row.table == table; });
  }

  std::vector<Row> tables_;
  std::uint32_t transactions_ = 0;
  std::uint32_t writers_of_all_ = 0;
};

}  // namespace pgweir::tokens
