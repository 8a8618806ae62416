// Transaction blocks whose BEGIN is answered here (transaction_reads, read_only_transactions): no server is asked before it is known
// where the transaction may run.
//
//   READ COMMITTED: each statement has a snapshot of its own, so what only reads is run by itself on a replica, as it would be outside
//   of a block. The first statement that is anything else moves the block to the primary for good: its BEGIN is sent ahead.
//
//   REPEATABLE READ, READ ONLY: all statements share one snapshot. The first one decides: when a replica may answer reads of all tables,
//   the transaction begins there and ends there. What a replica can't do is refused then.
#include <algorithm>

#include "base/text.h"
#include "protocol/extended.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/own_unit.h"
#include "session/server_session.h"
#include "session/shown_sqlstate.h"
#include "sql/builtins.h"

namespace pgweir::session {

using namespace protocol::frontend;
using config::ConsistencyLevel;

namespace {

/// Of a BEGIN that is kept; a longer one goes to the primary.
constexpr std::size_t kTextMax = 1024;

/// Levels at which reads that follow one another never go back: in a block they must not, whatever is promised outside.
bool goes_forward(ConsistencyLevel level) noexcept {
  switch (level) {
    case ConsistencyLevel::session:
    case ConsistencyLevel::table:
    case ConsistencyLevel::latest: return true;
    case ConsistencyLevel::eventual:
    case ConsistencyLevel::window:
    case ConsistencyLevel::pin:
    case ConsistencyLevel::primary: return false;
  }
  return false;
}

Isolation isolation_of(std::string_view setting) noexcept {
  if (equals_ignoring_case(setting, "read committed") || equals_ignoring_case(setting, "read uncommitted")) return Isolation::read_committed;
  return equals_ignoring_case(setting, "repeatable read") ? Isolation::repeatable_read : Isolation::serializable;
}

Bytes end_tag(const BlockEnd& end, bool failed) noexcept { return end.commit && !failed ? "COMMIT" : "ROLLBACK"; }

}  // namespace

/// The unit at the front of `input`, when it is nothing but a BEGIN that can be held back, or the end of such a block: how much of
/// `input` is done with, 0 while more must come. nullopt: it is a server's.
std::optional<std::size_t> ClientSession::answer_block(Bytes input) {
  if (unit_->classes().size() != 1 || unit_->facts().hint == sql::Hint::primary || hub_.settings().disable_pqexec) return std::nullopt;
  const sql::StatementClass& meaning = *unit_->classes().front();
  if (meaning.statements.size() != 1) return std::nullopt;
  const sql::TransactionStep step = meaning.statements.front().transaction;
  const bool begins = step == sql::TransactionStep::begin && !block_open();
  const bool ends = (step == sql::TransactionStep::commit || step == sql::TransactionStep::rollback) && block_open();
  if (!begins && !ends) return std::nullopt;

  const char type = input[0];
  std::size_t size = static_cast<std::size_t>(*protocol::peek_wire_size(input));
  const Bytes body = input.substr(protocol::kHeaderSize, size - protocol::kHeaderSize);
  Bytes text;
  if (type == kQuery) {
    text = protocol::Reader(body).cstring();
  } else if (const auto parse = type == kParse ? protocol::parse_parse(body) : std::nullopt; parse && parse->name.empty()) {
    text = parse->query;
  } else {
    return std::nullopt;
  }
  const std::optional<BlockStart> start = begins ? read_block_start(text) : std::nullopt;
  const std::optional<BlockEnd> end = ends ? read_block_end(text) : std::nullopt;
  const std::optional<BlockRoute> route = start ? route_for_block(*start) : std::nullopt;
  if (text.size() > kTextMax || (!route && !end)) return std::nullopt;
  if (type == kParse) {
    const OwnUnit unit = read_own_unit(input);
    if (!unit.fits) return std::nullopt;
    if (unit.size == 0) {
      starving_ = true;
      return 0;
    }
    size = unit.size;
  }

  Bytes tag;
  if (route) {
    if (!block_) block_ = std::make_unique<HeldBlock>();
    block_->begin(text, *route, hub_.now());
    tag = start->begin ? "BEGIN" : "START TRANSACTION";
  } else {
    tag = end_tag(*end, block_failed());
    end->chain ? block_->chain(hub_.now()) : block_->enter(BlockEvent::leave);
    ++pool_->counters.xact_count;
    pool_->counters.xact_time += hub_.now() - transaction_at_;
  }
  transaction_at_ = hub_.now();
  ++pool_->counters.query_count;
  unnamed_.reset();
  enter(ClientEvent::answered_here);
  answer_block_messages(type, input.substr(0, size), tag);
  unit_->clear();
  examined_ = 0;
  return size;
}

void ClientSession::answer_block_messages(char type, Bytes unit, Bytes tag) {
  scratch_.clear();
  if (type == kQuery) {
    protocol::append_command_complete(scratch_, tag);
    protocol::append_ready(scratch_, told_status());
    return deliver(scratch_);
  }
  for (std::size_t at = 0; at < unit.size(); at += static_cast<std::size_t>(*protocol::peek_wire_size(unit.substr(at)))) {
    switch (unit[at]) {
      case kParse: protocol::append_parse_complete(scratch_); break;
      case kBind: protocol::append_bind_complete(scratch_); break;
      case kDescribe:
        if (unit[at + protocol::kHeaderSize] == 'S') protocol::append_parameter_description(scratch_, {});
        protocol::append_no_data(scratch_);
        break;
      case kExecute: protocol::append_command_complete(scratch_, tag); break;
      case kSync: protocol::append_ready(scratch_, told_status()); break;
      default: break;
    }
  }
  deliver(scratch_);
}

/// How a block that begins so may read on replicas; nullopt: not at all.
std::optional<BlockRoute> ClientSession::route_for_block(const BlockStart& start) const noexcept {
  if (pool_->mode == config::PoolMode::statement) return std::nullopt;
  Isolation isolation = start.isolation;
  if (isolation == Isolation::unset) {
    const std::string* setting = settings_->find("default_transaction_isolation");
    if (!setting && !pool_->read_committed_by_default) return std::nullopt;
    isolation = setting ? isolation_of(*setting) : Isolation::read_committed;
  }
  const bool as_read_only = start.read_only && pool_->read_only_on_replicas;
  const ConsistencyLevel level = policy().level;
  switch (isolation) {
    case Isolation::read_committed:
      if ((as_read_only || pool_->transaction_reads_on_replicas) && goes_forward(level)) return BlockRoute::by_statement;
      return std::nullopt;
    case Isolation::repeatable_read:
      if (as_read_only && level != ConsistencyLevel::primary) return BlockRoute::whole;
      return std::nullopt;
    case Isolation::unset:
    case Isolation::serializable: return std::nullopt;
  }
  return std::nullopt;
}

/// Whether the collected unit could be run outside of the block, or begin it, on a replica, and nobody could tell. What decide() asks
/// of any read comes on top.
bool ClientSession::may_read_in_block(Bytes unit) const {
  if (block_failed()) return false;
  // What one statement asks for by itself does not fit the others, with which it would share a snapshot or an order.
  if (unit_->hints()) return false;
  if (block_->route() == BlockRoute::whole) return true;
  // The level may have been changed since.
  if (!goes_forward(policy().level) || unit_->keeps_portal || unit_->bound || unit_->asks_for_the_time) return false;
  const auto& classes = unit_->classes();
  const bool plain = std::all_of(classes.begin(), classes.end(), [](const auto& meaning) { return meaning->certain && !meaning->uses_code; });
  return plain && !asks_for_the_time(unit);
}

/// The rules of the unit's tables promise what a block needs.
bool ClientSession::rules_go_forward() const noexcept {
  const std::vector<routing::RuledTables>& ruled = unit_->facts().ruled;
  return std::all_of(ruled.begin(), ruled.end(), [](const routing::RuledTables& tables) { return goes_forward(tables.level); });
}

/// A portal outlives its unit in a block, and not outside of one.
void ClientSession::note_portal(char type, Bytes body) {
  switch (type) {
    case kBind: {
      const auto bind = protocol::parse_bind(body);
      unit_->keeps_portal = unit_->keeps_portal || unit_->bound || !bind || !bind->portal.empty();
      unit_->bound = true;
      return;
    }
    case kExecute: {
      const auto execute = protocol::parse_execute(body);
      unit_->keeps_portal = unit_->keeps_portal || !unit_->bound || !execute || !execute->portal.empty() || execute->max_rows != 0;
      unit_->bound = false;
      return;
    }
    case kDescribe: {
      const auto target = protocol::parse_describe(body);
      unit_->keeps_portal = unit_->keeps_portal || !target || (!target->is_statement() && !unit_->bound);
      return;
    }
    case kClose: {
      const auto target = protocol::parse_close(body);
      unit_->keeps_portal = unit_->keeps_portal || !target || !target->is_statement();
      return;
    }
    default: return;
  }
}

/// Sends the held BEGIN ahead of the unit. On a replica the unit follows at once, because its answer is held; on the primary once it
/// is known that the transaction is open.
void ClientSession::open_block(ServerSession& server) {
  scratch_.clear();
  block_->append_opening(scratch_);
  const std::string opening = scratch_;
  settings_pending_ = !on_replica_;
  server.open_block(opening);
}

void ClientSession::on_block_opened(ServerSession& server, const Error* problem) {
  if (&server != server_) return;
  if (on_replica_) {
    if (problem && !discarding_) on_settings_refused(server, *problem);
    return;
  }
  if (!settings_pending_ || !block_open()) return;
  settings_pending_ = false;
  if (server.transaction() == 'I') {
    if (!problem || problem->sqlstate() != "57014" || block_failed()) {
      return close(problem ? *problem : Error("08P01", "BEGIN did not begin a transaction"));
    }
    // A cancel, or statement_timeout, met it. The client will find a transaction that has failed.
    block_->enter(BlockEvent::fail);
    return open_block(server);
  }
  block_->enter(BlockEvent::leave);
  status_ = server.transaction();
  run_unit();
}

/// The client is told of an error in a block that no server knows of, or has forgotten.
void ClientSession::fail_block() {
  if (block_open() && !block_failed()) block_->enter(BlockEvent::fail);
}

void ClientSession::note_block_read() {
  if (block_open() && block_->state() == BlockState::begun) block_->enter(BlockEvent::read);
}

/// A replica has answered the first unit of a whole block: from now on it is that server's.
void ClientSession::settle_on_replica(char status) {
  block_->enter(BlockEvent::leave);
  status_ = status;
}

/// AND CHAIN has begun another transaction on the replica, which may be behind by now: it is taken back there, and begins anew wherever
/// its first statement finds what it has to see.
void ClientSession::chain_from_replica() {
  block_->chain(hub_.now());
  status_ = 'I';
  ++pool_->counters.xact_count;
  pool_->counters.xact_time += hub_.now() - transaction_at_;
  transaction_at_ = hub_.now();
}

/// The transaction that a replica runs waits for its client: when it is lost, the client need not be.
bool ClientSession::may_lose_block() const noexcept { return settled_on_replica() && in_flight_ == 0 && !unit_open_ && pass_left_ == 0 && drop_left_ == 0; }

void ClientSession::lose_block() {
  server_ = nullptr;
  on_replica_ = mirrored_pause_ = false;
  status_ = 'I';
  skip_ = Skip::none;
  examined_ = 0;
  block_->lose();
  enter(ClientEvent::server_left);
  hub_.wants_turn(*this);
}

/// As PostgreSQL tells of a conflict with recovery, which it was in all likelihood: the transaction may be tried again.
std::size_t ClientSession::tell_of_lost_block() {
  refuse_unit(Error("40001", "canceling statement due to conflict with recovery"));
  enter(ClientEvent::answered_here);
  examined_ = 0;
  again_ = true;
  hub_.wants_turn(*this);
  return 0;
}

/// In a transaction on a replica: whether its answer to the message is what the primary would give in that transaction, an error
/// included.
bool ClientSession::passes_on_replica(char type, Bytes message) {
  const Bytes body = message.substr(protocol::kHeaderSize);
  const auto known = [&](Bytes name) {
    const StatementRef statement = find_statement(name);
    if (!statement) return true;  // The server will say so.
    judge(*statement);
    if (statement->meaning->hint_named) note_hints(statement->text);
    return passes_on_replica(*statement->meaning) && note_end_on_replica(*statement->meaning);
  };
  switch (type) {
    case kQuery: {
      const Bytes text = protocol::Reader(body).cstring();
      const auto meaning = classify(text);
      if (meaning->hint_named) note_hints(text);
      return passes_on_replica(*meaning) && note_end_on_replica(*meaning);
    }
    case kParse: {
      const auto parse = protocol::parse_parse(body);
      return !parse || passes_on_replica(*classify(parse->query));
    }
    case kBind: {
      const auto bind = protocol::parse_bind(body);
      return !bind || known(bind->statement);
    }
    case kFunctionCall: return false;
    default: return true;
  }
}

/// It is about to be executed: what comes behind the end of the transaction is not to be sent there. True.
bool ClientSession::note_end_on_replica(const sql::StatementClass& meaning) noexcept {
  for (const sql::Statement& statement : meaning.statements) {
    const bool ends = statement.transaction == sql::TransactionStep::commit || statement.transaction == sql::TransactionStep::rollback;
    flight_controls_transaction_ = flight_controls_transaction_ || ends;
  }
  return true;
}

bool ClientSession::passes_on_replica(const sql::StatementClass& meaning) const {
  // The transaction has failed: the server will say so, whatever it is asked.
  if (status_ == 'E' && in_flight_ == 0 && !unit_open_ && meaning.statements.size() == 1 && !meaning.has_transaction_step) return true;
  // It would run outside of the transaction.
  if (flight_controls_transaction_ && unit_open_) return false;
  const auto of_server = [](const sql::RelationName& name) {
    return sql::catalog_relation(name.schema, name.name) == sql::CatalogRelation::server_view;
  };
  const auto builtin = [](const sql::FunctionName& function) {
    return (function.schema.empty() || function.schema == "pg_catalog") && sql::find_builtin(function.name, function.arguments).replica;
  };
  for (std::size_t i = 0; i < meaning.statements.size(); ++i) {
    const sql::Statement& statement = meaning.statements[i];
    switch (statement.transaction) {
      case sql::TransactionStep::begin:
      case sql::TransactionStep::savepoint:
      case sql::TransactionStep::set_transaction: continue;
      case sql::TransactionStep::commit:
      case sql::TransactionStep::rollback:
        if (i + 1 != meaning.statements.size()) return false;
        continue;
      case sql::TransactionStep::prepare:
      case sql::TransactionStep::finish_prepared: return false;
      case sql::TransactionStep::none: break;
    }
    if (statement.cause == sql::Cause::none || statement.session == sql::SessionStep::set_local) continue;
    // In a transaction that only reads, the primary refuses it in the same words.
    if (statement.kind == sql::Kind::write && statement.cause == sql::Cause::write && !statement.may_commit) continue;
    if (statement.show && (statement.object.starts_with("transaction_") || follows(statement.object) || settings_->find(statement.object))) continue;
    // Of a cursor its cause does not tell what its query does.
    const bool plain = meaning.certain && !meaning.uses_code && std::all_of(meaning.functions.begin(), meaning.functions.end(), builtin) &&
                       std::none_of(meaning.tables_read.begin(), meaning.tables_read.end(), of_server);
    if (statement.session == sql::SessionStep::cursor && plain) continue;
    return false;
  }
  return true;
}

/// The transaction fails, on the server too.
void ClientSession::refuse_on_replica(char type) {
  const Error why("25006", "this statement can't run in a READ ONLY transaction that reads on a replica");
  if (type != kQuery && type != kFunctionCall) return send_failing(why);
  scratch_.clear();
  protocol::append_query(scratch_, "ROLLBACK TO SAVEPOINT pgweir_refused");
  server_->send(scratch_);
  server_->forget_unnamed();
  unnamed_.reset();
  unit_replaced( concat({shown_sqlstate(hub_.settings(), why), why.text()}));
}

}  // namespace pgweir::session
