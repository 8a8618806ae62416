// Hints in comments that name a causal key or a level for one statement (sql/hint.h). The class of a statement only says that its text
// has some; what they are is read from the text each time, so that keys are neither kept in the cache nor mixed up by it.
//
// Routing: the key takes the session's place for that unit, and the level that of the session's. Statements of one unit that do not ask
// for the same run on the primary.
// What a statement has written or seen counts for its key and, because it is one connection's, for the session too: nothing that a hint
// says makes the session's other statements see less.
#include <algorithm>

#include "session/client_session.h"
#include "session/statement_hints.h"

namespace pgweir::session {

/// A statement of the unit that is being collected says what it wants.
void ClientSession::join_hints(Bytes text) {
  const StatementHints hints = judge_hints(sql::read_hints(text, dialect_), dialect_);
  std::shared_ptr<Causality> key;
  if (!hints.keys.empty()) key = pool_->database->marks->keys.get(hints.keys.front(), *pool_->database->captures);
  unit_->join_hints({std::move(key), hints.level}, hints.doubtful);
}

/// A statement has been sent whose hints have to be remembered until its transaction has ended.
void ClientSession::note_hints(Bytes text) {
  const StatementHints hints = judge_hints(sql::read_hints(text, dialect_), dialect_);
  HintsInFlight& flight = hints_in_flight();
  CausalKeys& keys = pool_->database->marks->keys;
  for (const std::string& key : hints.keys) flight.add(keys.get(key, *pool_->database->captures));
  flight.unknown_key = flight.unknown_key || hints.keys_missing;
  if (hints.level) flight.add(*hints.level);
}

/// What was sent could not be read: it may have named any key.
void ClientSession::note_unread_hints() { hints_in_flight().unknown_key = true; }

HintsInFlight& ClientSession::hints_in_flight() {
  if (!hints_in_flight_) hints_in_flight_ = std::make_unique<HintsInFlight>();
  return *hints_in_flight_;
}

void HintsInFlight::add(const std::shared_ptr<Causality>& key) {
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) return;
  if (keys.size() == kKeysMax) {
    unknown_key = true;
  } else {
    keys.push_back(key);
  }
}

void HintsInFlight::add(config::ConsistencyLevel level) noexcept {
  asks_session = asks_session || level == config::ConsistencyLevel::session;
  asks_table = asks_table || level == config::ConsistencyLevel::table;
}

}  // namespace pgweir::session
