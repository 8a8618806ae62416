// What standbys have taught about shapes of which text and catalog leave a doubt.
#pragma once

#include <cstddef>
#include <deque>
#include <set>

#include "sql/statement_class.h"

namespace pgweir::session {

/// A set of shapes. Bounded; the oldest one makes room and is learnt again if need be.
class LearnedShapes {
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
  std::size_t size() const noexcept { return shapes_.size(); }

 private:
  static constexpr std::size_t kShapesMax = 10'000;
  std::set<sql::Shape> shapes_;
  std::deque<sql::Shape> order_;
};

}  // namespace pgweir::session
