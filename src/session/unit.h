// What is known of the unit that a client is sending: the classes of its statements, joined.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "config/levels.h"
#include "routing/decide.h"
#include "session/causality.h"
#include "session/learned.h"
#include "session/statements.h"
#include "sql/statement_class.h"

namespace pgweir::session {

/// What hints of the unit's statements name.
struct UnitHints {
  std::shared_ptr<Causality> key;  ///< null: the session's own
  std::optional<config::ConsistencyLevel> level;

  bool operator==(const UnitHints&) const = default;
};

/// Reused from unit to unit. Bounded by the unit buffer: each class stands for a message in it.
class Unit {
 public:
  void clear() noexcept;
  /// `learned`: standbys have refused that shape.
  void join(const std::shared_ptr<const sql::StatementClass>& meaning, bool learned);
  /// After join() of a statement whose class says that its hints name something. In doubt, also between statements that name different
  /// things, the unit is the primary's.
  void join_hints(UnitHints hints, bool doubtful);
  /// Null when none of its statements names anything.
  const UnitHints* hints() const noexcept { return hints_ ? &*hints_ : nullptr; }
  void forget_hints() noexcept { hints_.reset(); }
  /// Something that is not a statement keeps the unit on the primary.
  void keep_on_primary(sql::Cause cause) noexcept;

  bool empty() const noexcept { return classes_.empty(); }
  /// Nothing that could still come would let a replica answer it.
  bool known_primary() const noexcept {
    return facts_.cause != sql::Cause::none || facts_.learned || facts_.hint == sql::Hint::primary || facts_.oversize;
  }
  routing::UnitFacts& facts() noexcept { return facts_; }
  const routing::UnitFacts& facts() const noexcept { return facts_; }
  const std::vector<sql::TableKey>& reads() const noexcept { return reads_; }
  bool reads_all() const noexcept { return reads_all_; }
  /// Of reads(): those that the level in force judges, beside or instead of a rule.
  std::vector<sql::TableKey> judged_by_level;
  const std::vector<std::shared_ptr<const sql::StatementClass>>& classes() const noexcept { return classes_; }
  /// Names that the unit's Parse messages give, in order.
  std::vector<std::pair<std::string, StatementRef>>& parsed() noexcept { return parsed_; }
  /// Something is bound or executed: the unit does more than parse and describe.
  bool executes = false;
  /// In a block whose BEGIN is held back. A portal is bound that is not executed to its end, or one is used that was not bound here.
  bool keeps_portal = false;
  bool bound = false;  ///< the unnamed portal, and not executed yet
  /// A statement that was prepared before asks for the time of its transaction.
  bool asks_for_the_time = false;
  /// The class of the simple query that the unit is; taken when it is sent, so that its text is read once.
  std::shared_ptr<const sql::StatementClass> query;
  /// At level latest: covers all that was committed when the unit came; 0 before it was asked for.
  tokens::Ticket arrival = 0;
  /// A standby has refused it. What its texts are is asked of `text_of(shape)` now, because they are gone when the primary has
  /// run it.
  template <class TextOf>
  void note_texts(TextOf&& text_of) {
    texts_.clear();
    for (const auto& meaning : classes_) texts_.push_back(text_of(meaning->shape));
  }
  /// The primary ran what a standby had refused with this SQLSTATE.
  void learn(Misroutes& learned, Bytes sqlstate, Time now) const;
  /// A standby ran it all: adds the shapes that could have been refused.
  void learn_uncertain(ShapeSet& proven) const;
  /// A standby has run all in it that could have been refused.
  bool is_proven(const ShapeSet& proven) const;
  /// It is that one shape, and nothing else.
  bool is(const sql::Shape& shape) const noexcept { return classes_.size() == 1 && classes_.front()->shape == shape; }

 private:
  void join_target(sql::Hint hint) noexcept;

  routing::UnitFacts facts_;
  std::optional<UnitHints> hints_;
  bool unhinted_ = false;  ///< a statement of it names nothing
  std::vector<std::shared_ptr<const sql::StatementClass>> classes_;
  std::vector<std::string> texts_;  ///< of classes_, normalised; empty unless a standby has refused the unit
  std::vector<sql::TableKey> reads_;
  bool reads_all_ = false;
  std::vector<std::pair<std::string, StatementRef>> parsed_;
};

}  // namespace pgweir::session
