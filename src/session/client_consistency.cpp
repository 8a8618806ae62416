// What the session has written and seen, and what its next read must see.
#include <algorithm>

#include "base/text.h"
#include "session/client_session.h"
#include "session/search_path.h"
#include "session/server_session.h"
#include "session/setting_value.h"
#include "session/table_judgement.h"

namespace pgweir::session {

using config::ConsistencyLevel;

const routing::UnitFacts& ClientSession::facts(const routing::ClusterView& cluster) {
  DatabaseContext& database = *pool_->database;
  if (!unit_) unit_ = std::make_unique<Unit>();
  routing::UnitFacts& facts = unit_->facts();
  facts.pinned = pin_ != Pin::none;
  facts.in_transaction = server_in_transaction() || (block_open() && !block_reads_);
  facts.healed = !healed_from_.empty();
  facts.behind = behind_;
  facts.now = hub_.now();
  facts.unknown_tables = !database.catalog && (unit_->reads_all() || !unit_->reads().empty());
  facts.proven = !facts.certain && pool_->policy.lsn_check != config::LsnCheck::cached && unit_->is_proven(database.proven_reads);
  facts.avoid = lost_replica_;
  const std::string* isolation = settings_->find("default_transaction_isolation");
  facts.serializable = isolation ? equals_ignoring_case(*isolation, "serializable") : pool_->serializable_by_default;

  Causality& causality = causality_of_unit();
  if (std::exchange(unnoted_, false)) see_latest(causality);
  follow_primary(causality, cluster);
  follow_primary(causality.doubt.need, causality.doubt.identity, cluster);
  const ConsistencyLevel level = policy().level;
  // One snapshot for all that a transaction will read.
  const bool all = unit_->reads_all() || database.stale() || whole_block();
  const bool by_rules = database.table_rules != nullptr;
  if (by_rules) judge_tables(hub_, database, {unit_->reads(), all}, unit_->arrival, facts, unit_->judged_by_level);
  if (by_rules && block_open() && !whole_block() && !rules_go_forward()) facts.in_transaction = true;
  const auto ruled_by = [&](auto... levels) {
    return std::any_of(facts.ruled.begin(), facts.ruled.end(), [&](const routing::RuledTables& ruled) { return ((ruled.level == levels) || ...); });
  };
  const bool needs_record = level == ConsistencyLevel::session || (by_rules && ruled_by(ConsistencyLevel::session)) ||
                            (by_rules && level != ConsistencyLevel::table && ruled_by(ConsistencyLevel::table));
  if (needs_record && std::exchange(causality.unrecorded, false)) see_latest(causality);
  settle(causality.need);
  settle(causality.doubt.need);
  facts.last_replica = causality.last_replica;
  facts.only_replica = {};
  if (causality.last_replica && (level != ConsistencyLevel::eventual || by_rules)) {
    // What the last read saw is known once that replica was asked again after it.
    const routing::NodeView* node = cluster.find(causality.last_replica);
    if (!node) {
      if (!causality.read_is_covered()) see_latest(causality);
      causality.last_replica = {};
    } else if (node->several) {
      // Which of its instances it was, and what that has shown, the next capture covers.
      if (!causality.read_is_covered()) see_latest(causality);
      causality.last_replica = {};
    } else if (causality.last_instance != node->instance) {
      // Nobody can tell any more what it had shown, and it may show less now.
      if (!causality.read_is_covered()) see_latest(causality);
      causality.last_replica = {};
    } else if (node->observed_at > causality.last_read_at) {
      causality.seen = std::max({causality.seen, node->replayed, node->received});
      causality.last_read_at = Time::max();
    } else if (causality.last_read_at != Time::max()) {
      facts.only_replica = causality.last_replica;
    }
  }
  facts.session = causality.need;
  facts.seen = causality.seen;
  facts.seen_elsewhere = causality.seen_elsewhere;
  facts.seen_on = causality.last_replica;
  if (!causality.doubt.need.nothing() && !unit_->is(causality.doubt.shape)) facts.session.join(causality.doubt.need);
  facts.tables = {};
  facts.since_table_write = facts.since_own_write = Duration::max();
  const std::vector<sql::TableKey>& tables = by_rules ? unit_->judged_by_level : unit_->reads();
  const auto since_own_write = [&] { return causality.last_write_at == Time{} ? Duration::max() : hub_.now() - causality.last_write_at; };
  if (by_rules && ruled_by(ConsistencyLevel::pin)) facts.since_own_write = since_own_write();
  switch (level) {
    case ConsistencyLevel::table: facts.tables = database.captures->need(database.marks->writes.last_write(tables, all)); break;
    case ConsistencyLevel::latest:
      if (unit_->arrival == 0) unit_->arrival = database.captures->mark();
      facts.tables = database.captures->need(unit_->arrival);
      break;
    case ConsistencyLevel::window:
      if (const Time written = database.marks->writes.last_write_time(tables, all); written != Time{}) {
        facts.since_table_write = hub_.now() - written;
      }
      break;
    case ConsistencyLevel::pin: facts.since_own_write = since_own_write(); break;
    case ConsistencyLevel::eventual:
    case ConsistencyLevel::session:
    case ConsistencyLevel::primary: break;
  }
  return facts;
}

routing::Policy ClientSession::policy() const noexcept {
  routing::Policy policy = pool_->policy;
  policy.level = session_level();
  const UnitHints* const hints = unit_ ? unit_->hints() : nullptr;
  if (hints && hints->level) policy.level = hub_.level_kept(*hints->level);
  return policy;
}

ConsistencyLevel ClientSession::session_level() const noexcept { return level_ ? hub_.level_kept(*level_) : pool_->policy.level; }

Causality& ClientSession::causality_of_unit() noexcept {
  const UnitHints* const hints = unit_ ? unit_->hints() : nullptr;
  Causality& state = hints && hints->key ? *hints->key : causality();
  if (&state != &own_) pool_->database->marks->keys.settle_writes_of_any(state);
  return state;
}

/// The session, or its key, and the keys that hints have named.
template <class Note>
void ClientSession::for_whom_it_counts(Note&& note) {
  note(causality());
  if (!hints_in_flight_) return;
  for (const std::shared_ptr<Causality>& key : hints_in_flight_->keys) {
    if (key != key_) note(*key);
  }
}

/// Whatever has been committed or shown by now, its next read must see it.
void ClientSession::see_latest(Causality& causality) { causality.need.join({.lsn = {}, .pending = pool_->database->captures->mark()}); }

/// Positions of another identity of the primary mean nothing: what was seen is covered by the next capture. Tickets go on meaning what
/// they did: the log takes back their positions itself.
void ClientSession::follow_primary(tokens::Need& need, std::uint64_t& identity, const routing::ClusterView& cluster) {
  if (identity == cluster.identity) return;
  identity = cluster.identity;
  if (need.lsn != tokens::Lsn{}) need = {.lsn = {}, .pending = pool_->database->captures->mark()};
}

void ClientSession::follow_primary(Causality& causality, const routing::ClusterView& cluster) {
  if (causality.identity == cluster.identity) return;
  causality.need.join({.lsn = std::max(causality.seen, causality.seen_elsewhere), .pending = 0});
  causality.seen = causality.seen_elsewhere = {};
  follow_primary(causality.need, causality.identity, cluster);
}

/// A capture may have answered what was pending.
void ClientSession::settle(tokens::Need& need) const noexcept {
  if (need.pending == 0) return;
  const tokens::Need now = pool_->database->captures->need(need.pending);
  if (now.pending != 0) return;
  need.pending = 0;
  need.join(now);
}

/// A statement went to the primary: what a commit will have to mark, and what it leaves in the session.
void ClientSession::note_sent(const std::shared_ptr<const sql::StatementClass>& meaning, Bytes text) {
  const std::shared_ptr<const sql::StatementClass> prepared = sql_prepared_ ? executed(*meaning) : nullptr;
  const sql::StatementClass& what = prepared ? *prepared : *meaning;
  note_effects(what);
  if (meaning->hint_named) note_hints(text);
  if (meaning->shape == sql::Shape()) note_unread_hints();
  reads_.join(what.reads);
  if (meaning->has_session_step && split()) note_session_steps(*meaning, text);
  if (sql_prepared_ || meaning->has_session_step) note_prepared(*meaning);
}

/// What an EXECUTE runs; null when it is none, or nobody knows.
std::shared_ptr<const sql::StatementClass> ClientSession::executed(const sql::StatementClass& meaning) {
  if (meaning.statements.size() != 1 || !meaning.statements.front().plain_execute || pin_ == Pin::none) return nullptr;
  SqlPrepared::Known* known = sql_prepared_->find(meaning.statements.front().object);
  if (!known) return nullptr;
  PreparedStatement& statement = known->statement;
  if (!statement.meaning || statement.judging != pool_->database->judging) {
    statement.meaning = pool_->database->classifier->classify(statement.text, known->dialect);
    statement.judging = pool_->database->judging;
  }
  return statement.meaning;
}

/// What is about to be sent prepares in SQL, or may change what was prepared.
void ClientSession::note_prepared(const sql::StatementClass& meaning) {
  for (const sql::Statement& statement : meaning.statements) {
    switch (statement.session) {
      case sql::SessionStep::prepare:
        // It fails when the name is taken; of several statements in one message it is not told which.
        if (pin_ == Pin::none || meaning.statements.size() > 1) {
          if (sql_prepared_) sql_prepared_->forget(statement.object);
          break;
        }
        if (!sql_prepared_) sql_prepared_ = std::make_unique<SqlPrepared>();
        sql_prepared_->sent(units_sent_ + 1, statement.object, statement.value, dialect_);
        break;
      case sql::SessionStep::deallocate:
        if (sql_prepared_) sql_prepared_->forget(statement.object);
        break;
      case sql::SessionStep::deallocate_all:
      case sql::SessionStep::discard_all:
        if (sql_prepared_) sql_prepared_->forget_all();
        break;
      case sql::SessionStep::none:
      case sql::SessionStep::execute:
      case sql::SessionStep::set:
      case sql::SessionStep::set_local:
      case sql::SessionStep::reset:
      case sql::SessionStep::reset_all:
      case sql::SessionStep::set_role:
      case sql::SessionStep::set_session_authorization:
      case sql::SessionStep::set_characteristics:
      case sql::SessionStep::set_config:
      case sql::SessionStep::discard_some:
      case sql::SessionStep::listen:
      case sql::SessionStep::unlisten:
      case sql::SessionStep::temp_table:
      case sql::SessionStep::cursor:
      case sql::SessionStep::hold_cursor:
      case sql::SessionStep::advisory_lock:
      case sql::SessionStep::advisory_unlock:
      case sql::SessionStep::sequence_memory:
      case sql::SessionStep::seed:
      case sql::SessionStep::load:
      case sql::SessionStep::opaque: break;
    }
  }
}

void ClientSession::note_effects(const sql::StatementClass& m) {
  if (m.has_transaction_step) flight_controls_transaction_ = true;
  if (m.unknown_name) pool_->database->name_unknown = true;
  if (m.may_commit) may_commit_ = true;
  if (m.statements.size() > 1) several_in_flight_ = true;
  if (m.is_ddl) note_ddl();
  if (m.uses_code && m.writes.all) may_leave_state_ = true;  // A function that can't be read.
  // A standby has refused this, or its like: nobody knows what it writes.
  const bool proven_write = (!healed_from_.empty() && healed_by_refusal_) || pool_->database->learned.knows(m.shape);
  // What may write anything may also prepare anything under a name that is known.
  if (sql_prepared_ && (m.writes.all || m.may_hide_write || proven_write)) sql_prepared_->forget_all();
  if (m.may_hide_write || proven_write || (pool_->database->stale() && !m.writes.empty())) {
    note_writes({.all = true, .keys = {}});
  } else if (!m.writes.empty()) {
    note_writes(m.writes);
  } else if (!m.certain && !pool_->database->proven_reads.contains(m.shape)) {
    doubted_ = !doubted_ || *doubted_ == m.shape ? m.shape : sql::Shape();
  }
}

void ClientSession::note_ddl() {
  if (ddl_marks_) return;
  ddl_marks_ = pool_->database->marks;
  ++ddl_marks_->ddl_begun;
}

void ClientSession::note_session_steps(const sql::StatementClass& meaning, Bytes text) {
  for (const sql::Statement& statement : meaning.statements) {
    switch (statement.session) {
      case sql::SessionStep::none:
      case sql::SessionStep::set_local:
      case sql::SessionStep::execute:
      case sql::SessionStep::deallocate:
      case sql::SessionStep::deallocate_all:
      case sql::SessionStep::discard_some:
      case sql::SessionStep::unlisten:
      case sql::SessionStep::cursor:
      case sql::SessionStep::advisory_unlock:
      case sql::SessionStep::sequence_memory: break;
      case sql::SessionStep::discard_all: pinned_since_discard_ = false; break;
      case sql::SessionStep::opaque:
        // A text that was not understood may hold a SET. Behind DO and CALL the server is asked what they have left.
        statement.cause == sql::Cause::unparsed ? pin() : static_cast<void>(may_leave_state_ = true);
        break;
      case sql::SessionStep::set:
      case sql::SessionStep::reset:
        note_setting(statement);
        break;
      case sql::SessionStep::reset_all:
        reset_all_own();
        note_unconfirmed("search_path", std::nullopt);
        for (const SettingsSet::Item& item : startup_settings_->items()) {
          note_unconfirmed(item.name, std::nullopt);
        }
        for (std::size_t i = 0, open = unconfirmed_settings_.size(); i < open; ++i) {
          note_unconfirmed(std::string(unconfirmed_settings_[i].name), std::nullopt);
        }
        for (const SettingsSet::Item& item : settings_->items()) {
          if (!is_tracked(item.name) && !startup_settings_->find(item.name)) note_unconfirmed(item.name, std::nullopt);
        }
        break;
      case sql::SessionStep::set_config: note_set_config(text); break;
      case sql::SessionStep::set_role:
      case sql::SessionStep::set_session_authorization:
      case sql::SessionStep::set_characteristics:
      case sql::SessionStep::prepare:
      case sql::SessionStep::listen:
      case sql::SessionStep::temp_table:
      case sql::SessionStep::hold_cursor:
      case sql::SessionStep::advisory_lock:
      case sql::SessionStep::seed:
      case sql::SessionStep::load: pin(); break;
    }
    // What a savepoint takes back can't be followed.
    if (statement.transaction == sql::TransactionStep::savepoint && !unconfirmed_settings_.empty()) pin();
  }
}

/// SET or RESET of one setting, outside LOCAL.
void ClientSession::note_setting(const sql::Statement& statement) {
  const std::string_view name = tracked_name(statement.object);
  const bool to_default = statement.session == sql::SessionStep::reset || equals_ignoring_case(trimmed(statement.value), "default");
  if (name == "search_path") {
    note_unconfirmed(name, to_default ? std::nullopt : search_path_value(statement.value));
  } else if (name.empty()) {
    const std::optional<std::string> value = to_default ? std::nullopt : setting_value(statement.value);
    if (!can_travel(statement.object) || (!to_default && !value)) return pin();
    note_unconfirmed(statement.object, value);
  } else if (to_default && startup_settings_->find(name)) {
    // The server reports its own default, which is not what the client had at first.
    note_unconfirmed(name, std::nullopt);
  }
}

/// A reported setting is told by the server; of others only a plain call can be followed.
void ClientSession::note_set_config(Bytes text) {
  const auto call = set_config_call(text);
  if (!call) return pin();
  const std::string_view tracked = tracked_name(call->first);
  if (tracked == "search_path") {
    note_unconfirmed(tracked, call->second);
  } else if (tracked.empty()) {
    can_travel(call->first) ? note_unconfirmed(call->first, call->second) : pin();
  }
}

/// Of a statement that is about to be sent.
void ClientSession::note_unconfirmed(std::string_view name, std::optional<std::string> value) {
  unconfirmed_settings_.push_back({std::string(name), std::move(value), units_sent_ + 1});
}

/// A transaction has ended: what its units have set counts from now on, unless it was taken back.
void ClientSession::confirm_settings(ServerSession& server) {
  const std::uint64_t answered = units_sent_ - in_flight_;
  std::size_t done = 0;
  for (; done < unconfirmed_settings_.size() && unconfirmed_settings_[done].unit <= answered; ++done) {
    if (unit_failed_ || rolled_back_) continue;
    const auto& [name, value, unit] = unconfirmed_settings_[done];
    const std::string* at_login = value ? nullptr : startup_settings_->find(name);
    settings_ = hub_.interner().with(settings_, name, at_login ? std::optional<std::string_view>(*at_login) : value);
    server.note_settings(hub_.interner().with(server.settings(), name, value));
    if (at_login) restored_.push_back(name);
  }
  if (done == 0) return;
  // "SET …; COMMIT; SELECT 1/0": which of both the end of the unit speaks of can't be told.
  if (ended_within_) pin();
  unconfirmed_settings_.erase(unconfirmed_settings_.begin(), unconfirmed_settings_.begin() + static_cast<std::ptrdiff_t>(done));
}

void ClientSession::pin() {
  if (pool_->on_session_state != config::OnSessionState::pin) return;
  pin_ = Pin::session_state;
  pinned_since_discard_ = true;
}

/// Nobody knows what was sent: it may have written anything and committed in between.
void ClientSession::note_opaque() {
  if (!tracks() || on_replica_) return;
  may_commit_ = flight_controls_transaction_ = may_leave_state_ = true;
  if (sql_prepared_) sql_prepared_->forget_all();
  note_writes({.all = true, .keys = {}});
  reads_.all = true;
}

void ClientSession::note_writes(const sql::TableSet& tables) {
  if (!entered_) {
    entered_ = pool_->database->marks;
    entered_->open_writers.enter();
  }
  tokens::OpenWriters& open = entered_->open_writers;
  const std::size_t before = writes_.keys.size();
  if (tables.all && !writes_.all) {
    for (sql::TableKey key : writes_.keys) open.remove(key);
    open.add_all();
  }
  writes_.join(tables);
  for (std::size_t i = before; i < writes_.keys.size(); ++i) open.add(writes_.keys[i]);
}

/// It has, or may have, been committed: from now on readers of these tables need a capture that is sent after this.
void ClientSession::mark_writes() {
  DatabaseContext& database = *pool_->database;
  if (!database.captures) return;  // A reload has ended the split: nobody reads on replicas.
  const tokens::Ticket ticket = database.captures->mark();
  database.marks->writes.mark(writes_.keys, writes_.all || database.stale(), ticket, hub_.now());
  // At level table the marks themselves are all that a read has to wait for, its writer's own ones too: a read of another table owes
  // nothing to this write.
  const bool recorded = session_level() != ConsistencyLevel::table;
  for_whom_it_counts([&](Causality& causality) {
    causality.last_write_at = hub_.now();
    if (recorded) {
      causality.need.join({.lsn = {}, .pending = ticket});
    } else {
      causality.unrecorded = true;
    }
  });
  if (hints_in_flight_ && hints_in_flight_->unknown_key) database.marks->keys.write_of_any(ticket, hub_.now());
}

/// The statement that may change the catalog has ended, or nobody will ever know.
void ClientSession::end_ddl() noexcept {
  if (!ddl_marks_) return;
  ++ddl_marks_->ddl_done;
  ddl_marks_.reset();
}

void ClientSession::drop_writes() {
  if (entered_) {
    tokens::OpenWriters& open = entered_->open_writers;
    for (sql::TableKey key : writes_.keys) open.remove(key);
    if (writes_.all) open.remove_all();
    open.leave();
    entered_.reset();
  }
  writes_.clear();
}

/// The primary has answered. It may have shown what nobody has acknowledged yet, and a replica must not take that back.
void ClientSession::note_seen() {
  if (!split()) return;
  DatabaseContext& database = *pool_->database;
  const ConsistencyLevel level = session_level();
  const bool by_session = level == ConsistencyLevel::session || (hints_in_flight_ && hints_in_flight_->asks_session);
  const bool by_table = level == ConsistencyLevel::table || (hints_in_flight_ && hints_in_flight_->asks_table);
  if (by_session || (by_table && may_show_unmarked())) {
    for_whom_it_counts([this](Causality& causality) { see_latest(causality); });
    return;
  }
  const tokens::Ticket ticket = by_table && doubted_ ? database.captures->mark() : 0;
  for_whom_it_counts([&](Causality& causality) {
    causality.unrecorded = true;
    if (ticket == 0) return;
    Causality::Doubt& doubt = causality.doubt;
    const bool another = !doubt.need.nothing() && doubt.shape != *doubted_;
    doubt.need.pending = ticket;
    doubt.shape = another ? sql::Shape() : *doubted_;
  });
}

void ClientSession::note_read_on(const ServerSession& replica) {
  tokens::CaptureLog* const captures = pool_->database->captures;
  if (!captures) return;
  for_whom_it_counts([&](Causality& causality) { causality.note_read(replica.node(), replica.instance(), hub_.now(), *captures); });
}

/// Whether a table that was read is being written by others, whose commits are seen before they are marked. What this session
/// writes too it marks itself, or adds to its reads when it takes it back.
bool ClientSession::may_show_unmarked() const noexcept {
  const tokens::OpenWriters& open = pool_->database->marks->open_writers;
  if (writes_.all || open.transactions() <= (entered_ ? 1U : 0U)) return false;
  if (reads_.all || pool_->database->stale()) return true;
  return std::any_of(reads_.keys.begin(), reads_.keys.end(), [&](sql::TableKey key) {
    return open.write(key) && std::find(writes_.keys.begin(), writes_.keys.end(), key) == writes_.keys.end();
  });
}

/// A listener may read what it was told of before its writer has the acknowledgement that marks it.
void ClientSession::on_notification() {
  if (split()) see_latest(causality());
}

}  // namespace pgweir::session
