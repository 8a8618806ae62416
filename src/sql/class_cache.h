// The bounded cache of classes by shape: sets of four entries, the one not used for longest makes
// room.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sql/statement_class.h"

namespace pgweir::sql {

class ClassCache {
 public:
  explicit ClassCache(std::size_t entries_max)
      : ways_(std::clamp<std::size_t>(entries_max, 1, 4)),
        sets_(std::bit_floor(std::max<std::size_t>(entries_max, 1) / ways_)) {}

  /// Null when it is not there.
  const std::shared_ptr<const StatementClass>* find(const Shape& shape) noexcept {
    if (entries_.empty()) return nullptr;
    Entry* set = set_of(shape);
    for (std::size_t way = 0; way < ways_; ++way) {
      Entry& entry = set[way];
      if (entry.value != nullptr && entry.shape == shape) {
        entry.used_at = ++uses_;
        return &entry.value;
      }
    }
    return nullptr;
  }

  void insert(const Shape& shape, std::shared_ptr<const StatementClass> value) {
    if (entries_.empty())
      entries_.resize(sets_ * ways_);  // Only a database that is split pays for it.
    Entry* set = set_of(shape);
    Entry* oldest = set;
    for (std::size_t way = 1; way < ways_; ++way) {
      if (set[way].used_at < oldest->used_at) oldest = &set[way];
    }
    if (oldest->value == nullptr) ++size_;
    *oldest = {shape, ++uses_, std::move(value)};
  }

  void clear() noexcept {
    entries_.clear();
    size_ = 0;
  }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Entry {
    Shape shape;
    std::uint64_t used_at = 0;  ///< 0: empty
    std::shared_ptr<const StatementClass> value;
  };
  Entry* set_of(const Shape& shape) noexcept {
    return &entries_[(shape.low & (sets_ - 1)) * ways_];
  }

  std::size_t ways_;
  std::size_t sets_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
  std::size_t size_ = 0;
};

}  // namespace pgweir::sql
