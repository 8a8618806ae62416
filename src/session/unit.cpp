#include "session/unit.h"

#include <algorithm>

namespace pgweir::session {

void Unit::clear() noexcept {
  std::vector<routing::RuledTables> ruled = std::move(facts_.ruled);  // Its memory is kept.
  ruled.clear();
  facts_ = routing::UnitFacts();
  facts_.ruled = std::move(ruled);
  facts_.cause = sql::Cause::none;
  facts_.certain = true;
  facts_.statements = 0;
  hints_.reset();
  unhinted_ = false;
  classes_.clear();
  texts_.clear();
  reads_.clear();
  reads_all_ = false;
  parsed_.clear();
  query.reset();
  executes = keeps_portal = bound = asks_for_the_time = false;
  arrival = 0;
}

void Unit::join(const std::shared_ptr<const sql::StatementClass>& meaning, bool learned) {
  unhinted_ = unhinted_ || !meaning->hint_named;
  if (hints_ && unhinted_) facts_.hint = sql::Hint::primary;
  // A driver's Parse, Describe and Bind of one statement name the same class.
  if (!classes_.empty() && classes_.back() == meaning) return;
  if (classes_.empty() && facts_.hint == sql::Hint::none) facts_.hint = meaning->hint;
  classes_.push_back(meaning);
  facts_.statements += static_cast<std::uint32_t>(meaning->statements.size());
  if (facts_.cause == sql::Cause::none) facts_.cause = meaning->cause;
  join_target(meaning->hint);
  facts_.certain = facts_.certain && meaning->certain;
  facts_.learned = facts_.learned || learned;
  reads_all_ = reads_all_ || meaning->reads.all;
  reads_.insert(reads_.end(), meaning->reads.keys.begin(), meaning->reads.keys.end());
}

/// One statement may send all to the primary; to a replica against what the others are owed only all of them together.
void Unit::join_target(sql::Hint hint) noexcept {
  if (facts_.hint == hint || facts_.hint == sql::Hint::primary) return;
  facts_.hint = hint == sql::Hint::primary ? hint : sql::Hint::none;
}

void Unit::join_hints(UnitHints hints, bool doubtful) {
  if (!hints_) hints_ = std::move(hints);
  else if (*hints_ != hints) doubtful = true;
  if (doubtful || unhinted_) facts_.hint = sql::Hint::primary;
}

void Unit::keep_on_primary(sql::Cause cause) noexcept {
  if (facts_.cause == sql::Cause::none) facts_.cause = cause;
}

void Unit::learn(Misroutes& learned, Bytes sqlstate, Time now) const {
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    learned.add(classes_[i]->shape, i < texts_.size() ? texts_[i] : std::string(), std::string(sqlstate), now);
  }
}

bool Unit::is_proven(const ShapeSet& proven) const {
  return std::all_of(classes_.begin(), classes_.end(), [&](const auto& meaning) { return meaning->certain || proven.contains(meaning->shape); });
}

void Unit::learn_uncertain(ShapeSet& proven) const {
  if (facts_.certain) return;
  for (const auto& meaning : classes_) {
    if (!meaning->certain) proven.add(meaning->shape);
  }
}

}  // namespace pgweir::session
