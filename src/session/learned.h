// What standbys have taught about shapes of which text and catalog leave a doubt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/time.h"
#include "sql/statement_class.h"

namespace pgweir::session {

/// A set of shapes. Bounded; the oldest one makes room and is learnt again if need be.
class ShapeSet {
 public:
  bool contains(const sql::Shape& shape) const { return !shapes_.empty() && shapes_.count(shape) != 0; }
  void add(const sql::Shape& shape) {
    if (!shapes_.insert(shape).second) return;
    order_.push_back(shape);
    if (order_.size() > kShapesMax) {
      shapes_.erase(order_.front());
      order_.pop_front();
    }
  }
  void clear() noexcept {
    shapes_.clear();
    order_.clear();
  }
  std::size_t size() const noexcept { return shapes_.size(); }

 private:
  static constexpr std::size_t kShapesMax = 10'000;
  std::set<sql::Shape> shapes_;
  std::deque<sql::Shape> order_;
};

/// Shapes that a standby refused and the primary then ran: they are writes. Bounded: the one whose last refusal is
/// longest ago makes room.
class Misroutes {
 public:
  static constexpr std::size_t kShapesMax = 10'000;
  static constexpr std::size_t kTextBytesMax = 500;

  struct Entry {
    sql::Shape shape;
    std::string text;      ///< normalised; of the first one that was refused
    std::string sqlstate;  ///< of the last refusal
    std::uint64_t count = 0;
    Time first{};
    Time last{};
  };

  /// Whether it is the primary's. `kept_for` after its last refusal a replica is asked again; zero: never.
  bool sends_to_primary(const sql::Shape& shape, Time now, Duration kept_for) const {
    const Entry* entry = find(shape);
    return entry != nullptr && (kept_for == Duration::zero() || now - entry->last < kept_for);
  }
  /// Whether it is known to write something, though a replica may be asked again.
  bool knows(const sql::Shape& shape) const { return find(shape) != nullptr; }

  void add(const sql::Shape& shape, std::string text, std::string sqlstate, Time now) {
    auto [found, fresh] = by_shape_.try_emplace(shape);
    if (fresh) {
      entries_.push_back({shape, {}, {}, 0, now, now});
      found->second = std::prev(entries_.end());
    } else {
      entries_.splice(entries_.end(), entries_, found->second);
    }
    Entry& entry = *found->second;
    if (entry.text.empty()) entry.text = std::move(text);
    entry.sqlstate = std::move(sqlstate);
    ++entry.count;
    entry.last = now;
    if (entries_.size() > kShapesMax) {
      by_shape_.erase(entries_.front().shape);
      entries_.pop_front();
    }
  }
  void clear() noexcept {
    by_shape_.clear();
    entries_.clear();
  }
  bool empty() const noexcept { return entries_.empty(); }
  std::size_t size() const noexcept { return entries_.size(); }
  /// The one that was refused last comes last.
  const std::list<Entry>& entries() const noexcept { return entries_; }

 private:
  const Entry* find(const sql::Shape& shape) const {
    if (entries_.empty()) return nullptr;
    const auto found = by_shape_.find(shape);
    return found == by_shape_.end() ? nullptr : &*found->second;
  }

  std::list<Entry> entries_;
  std::map<sql::Shape, std::list<Entry>::iterator> by_shape_;
};

}  // namespace pgweir::session
