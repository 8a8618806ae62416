// Messages towards the server that is bound: names of statements are translated, what was sent is remembered.
#include <utility>

#include "base/pooler_error.h"
#include "base/text.h"
#include "protocol/extended.h"
#include "protocol/framer.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/deallocate.h"
#include "session/server_session.h"
#include "session/setting_value.h"
#include "session/shown_sqlstate.h"

namespace pgweir::session {

using namespace protocol::frontend;

namespace {

/// Messages longer than this go to the server as they come, where nothing in them has to be changed.
constexpr std::uint64_t kStreamedSizeMin = 32U << 10;

bool may_stream(char type) noexcept {
  return type == kCopyData || type == kQuery || type == kFunctionCall;
}

}  // namespace

bool ClientSession::translates() const noexcept {
  return tracks() || (pool_->mode != config::PoolMode::session && pool_->max_prepared_statements > 0);
}

/// Writes are noted also where reads are not routed: others of the database may read on replicas.
bool ClientSession::tracks() const noexcept { return pool_ && pool_->database->split(); }

StatementRef ClientSession::parsed(const protocol::Parse& parse) {
  if (literals_of_ != settings_) {
    literals_ = settings_;
    for (const SettingsSet::Item& item : settings_->items()) {
      if (!may_change_literals(item.name)) literals_ = hub_.interner().with(literals_, item.name, std::nullopt);
    }
    literals_of_ = settings_;
  }
  return pool_->database->statements.get(parse.query, parse.types.raw(), literals_);
}

StatementRef ClientSession::find_statement(Bytes name) const {
  if (name.empty()) return unnamed_;
  const auto found = statements_.find(name);
  return found == statements_.end() ? nullptr : found->second;
}

void ClientSession::parse_failed(std::string_view name, const StatementRef& statement) {
  // A later unit of the pipeline may have given the name to another one.
  if (find_statement(name) == statement) forget_statement(name);
}

void ClientSession::forget_statement(std::string_view name) {
  if (name.empty()) {
    unnamed_.reset();
  } else if (const auto found = statements_.find(name); found != statements_.end()) {
    statements_.erase(found);
  }
}

void ClientSession::restore_statement(std::string_view name, StatementRef statement) {
  if (!statement) {
    forget_statement(name);
  } else if (name.empty()) {
    unnamed_ = std::move(statement);
  } else {
    statements_.insert_or_assign(std::string(name), std::move(statement));
  }
}

void ClientSession::bind(ServerSession& server, const routing::Route& route, std::uint32_t timeline) {
  server.bind(*this);
  check_timeline_ = timeline;
  begin_on(server, route);
}

bool ClientSession::holds_server_for(sql::Target target) const noexcept {
  return home_ != nullptr && target == sql::Target::primary;
}

void ClientSession::resume_on_held(const routing::Route& route) {
  ENSURE(home_ != nullptr);
  ServerSession& server = *home_;
  home_ = nullptr;
  begin_on(server, route);
}

void ClientSession::begin_on(ServerSession& server, const routing::Route& route) {
  ++pool_->counters.server_assignment_count;
  counted_ = state_ == ClientState::waiting;  // The pooler counts the routes it decides.
  if (counted_) pool_->counters.wait_time += hub_.now() - state_since_;
  enter(ClientEvent::server_bound);
  server_ = &server;
  on_replica_ = route.target == sql::Target::replica;
  check_ = on_replica_ ? route.check : tokens::Lsn{};
  wait_there_ = on_replica_ ? route.wait_there : Duration{};
  last_node_ = server.node();
  last_target_ = route.target;
  last_reason_ = pinned() && !counted_ ? routing::Reason::pinned : route.reason;
  holding_ = on_replica_;
  renamed_.clear();
  query_at_ = hub_.now();
  if (!block_open()) transaction_at_ = query_at_;
  if (!server.bring(settings_)) return settings_brought();
  // A write goes out once its settings are confirmed. A read may follow at once: its answer is held.
  if (on_replica_) return settings_brought();
  settings_pending_ = true;
}

/// Or on their way, on a replica.
void ClientSession::settings_brought() {
  if (check_.value != 0 && wait_there_ > Duration{}) server_->wait_for(check_, wait_there_);
  if (check_.value != 0) server_->ask_position(check_timeline_ != 0);
  if (block_open() && (!on_replica_ || whole_block())) {
    open_block(*server_);
    if (!on_replica_) return;
  }
  run_unit();
}

void ClientSession::on_settings_brought(ServerSession& server) {
  if (&server != server_ || !settings_pending_) return;
  settings_pending_ = false;
  settings_brought();
}

void ClientSession::run_unit() {
  if (on_replica_) return run_held_unit();
  examined_ = 0;
  work();
  regulate();
}

/// Sends the collected unit to a replica; its text stays until the answer can't be taken back.
void ClientSession::run_held_unit() {
  unit_bytes_ = examined_;
  if (const UnitHints* const hints = unit_->hints(); hints && hints->key) hints_in_flight().add(hints->key);
  std::size_t at = 0;
  while (at < unit_bytes_) {
    const Bytes rest = Bytes(input_).substr(at);
    const std::size_t size = static_cast<std::size_t>(*protocol::peek_wire_size(rest));
    send_message(rest[0], rest.substr(0, size));
    if (state_ != ClientState::active) return;
    at += size;
  }
}

std::size_t ClientSession::stream(Bytes input) {
  std::size_t used = 0;
  while (used < input.size() && state_ == ClientState::active) {
    if ((on_replica_ && !settled_on_replica()) || settings_pending_ || leaving_ || asking_leftovers_ || discarding_ || server_->congested()) return used;
    if ((barrier_ || server_->abandoned()) && in_flight_ > 0 && !unit_open_) return used;
    // What comes behind a COMMIT there is routed anew.
    if (settled_on_replica() && flight_controls_transaction_ && in_flight_ > 0 && !unit_open_) return used;
    const Bytes rest = behind(input, used);
    if (pass_left_ > 0) {
      const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(pass_left_, rest.size()));
      server_->send(rest.substr(0, now));
      pass_left_ -= now;
      used += now;
      continue;
    }
    if (drop_left_ > 0) {
      const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(drop_left_, rest.size()));
      drop_left_ -= now;
      used += now;
      continue;
    }
    // What is pgweir's own waits until all before it has been answered.
    if (in_flight_ > 0 && !unit_open_ && tracks() && is_own_front(rest)) return used;
    if (may_be_replicas() && !cleared_) {
      // The unit behind one that is under way is looked at from its beginning.
      if (used > 0) return used;
      if (next_unit_waits(rest)) return 0;
      if (state_ != ClientState::active) return 0;
    }
    const std::optional<std::uint64_t> size = message_size(rest);
    if (!size) return used;
    if (in_flight_ == 0 && !unit_open_ && status_ != 'E' && tracks() && !server_->copying_in()) {
      if (const std::optional<std::size_t> done = answer_own(rest[0], *size, rest)) {
        if (*done == 0) return used;
        used += *done;
        // It came in pieces, and the server that was asked for is not needed.
        if (status_ == 'I') {
          leaving_ = true;
          hub_.wants_turn(*this);
        }
        continue;
      }
    }
    if (rest.size() < *size) {
      starving_ = true;
      if (*size < kStreamedSizeMin || !may_stream(rest[0])) return used;
      begin_long_message(rest[0], *size);
      continue;
    }
    request_at_ = hub_.now();
    if (settled_on_replica() && !server_->skipping() && skip_ == Skip::none && !passes_on_replica(rest[0], rest.substr(0, static_cast<std::size_t>(*size)))) {
      refuse_on_replica(rest[0]);
      used += static_cast<std::size_t>(*size);
      continue;
    }
    send_message(rest[0], front_of(rest, static_cast<std::size_t>(*size)));
    used += static_cast<std::size_t>(*size);
  }
  if (used == input.size()) starving_ = true;
  return used;
}

/// Between two units of a pipeline, when the one under way may end outside a transaction.
bool ClientSession::may_be_replicas() const noexcept {
  if (in_flight_ == 0 || unit_open_ || !split() || pin_ != Pin::none || server_->copying_in()) return false;
  return status_ == 'I' || flight_controls_transaction_;
}

/// A unit that a replica could answer waits until the one before is answered; the primary's goes on at once.
bool ClientSession::next_unit_waits(Bytes input) {
  if (!healed_from_.empty()) return true;  // What is known of the healed unit is still needed.
  if (!looking_ahead_) {
    begin_unit();
    looking_ahead_ = true;
    ahead_is_whole_ = false;
  }
  if (ahead_is_whole_) return true;  // What comes behind it is another unit.
  const Seen seen = examine(input);
  ahead_is_whole_ = seen == Seen::whole;
  if (state_ == ClientState::closed || seen != Seen::for_primary) return true;
  looking_ahead_ = false;
  cleared_ = true;
  examined_ = 0;
  return false;
}

/// Too long to be looked at: it may do anything.
void ClientSession::begin_long_message(char type, std::uint64_t size) {
  if (server_->skipping()) {
    drop_left_ = size;
    return;
  }
  if (type == kQuery && hub_.settings().disable_pqexec) return close(error_of(PoolerError::simple_query_disallowed));
  pass_left_ = size;
  if (type == kCopyData) return;
  if (settled_on_replica()) {
    pass_left_ = 0;
    drop_left_ = size;
    return refuse_on_replica(type);
  }
  note_opaque();
  if (tracks()) note_unread_hints();
  unnamed_.reset();
  server_->forget_unnamed();
  several_in_flight_ = true;
  unit_sent(type == kQuery ? Answer::query : Answer::function_call);
}

void ClientSession::expect(Answer answer, Fate fate, StatementRef statement, std::string text) {
  server_->expect({.answer = answer, .fate = fate, .errand = Errand::none, .statement = std::move(statement),
                   .unit = 0, .text = std::move(text)});
}

/// Units that follow the first one on the same server are routed too: there was no choice.
void ClientSession::count_route() {
  if (std::exchange(counted_, false) || !split()) return;
  const routing::Reason reason = pin_ != Pin::none ? routing::Reason::pinned
                                 : status_ != 'I'  ? routing::Reason::in_transaction
                                 : unit_           ? routing::reason_of(unit_->facts().cause)
                                                   : routing::Reason::not_split;
  pool_->database->routes.add(on_replica_ ? sql::Target::replica : sql::Target::primary, reason);
}

/// A message went out that ends with ReadyForQuery.
void ClientSession::unit_sent(Answer answer) {
  note_unit_sent();
  server_->expect(answer);
}

/// Instead of the client's own query one that fails; the client gets `text` as its error.
void ClientSession::unit_replaced(std::string text) {
  note_unit_sent();
  expect(Answer::query, Fate::replace, nullptr, std::move(text));
}

void ClientSession::note_unit_sent() {
  count_route();
  ++in_flight_;
  ++units_sent_;
  unnoted_ = unnoted_ || !split();
  if (own_state_) own_state_->token_wait.reset();  // The order that waited, if any, was not answered here.
  unit_open_ = false;
  cleared_ = false;
  query_at_ = hub_.now();
}

void ClientSession::send_message(char type, Bytes message) {
  if (skip_ != Skip::none) {
    if (type != kSync && type != kTerminate) return;
    skip_ = Skip::none;
  }
  if (server_->skipping()) {
    if (unit_) unit_->query.reset();  // It may have been the class of what is passed over.
    if (type != kSync && type != kTerminate) return;
    server_->sync_sent();
  }
  switch (type) {
    case kQuery: return send_query(message);
    case kParse: return send_parse(message);
    case kBind: return send_bind(message);
    case kDescribe: return send_describe(message);
    case kClose: return send_close(message);
    case kExecute: return send_execute(message);
    case kSync:
      server_->send(message);
      if (server_->copying_in()) return;  // A server in copy mode passes over it.
      return unit_sent(Answer::sync);
    case kFlush:
      server_->send(message);
      if (holding_) expect(Answer::flush, Fate::invent);
      return;
    case kFunctionCall:
      note_opaque();
      server_->send(message);
      return unit_sent(Answer::function_call);
    case kCopyData: return server_->send(message);
    case kCopyDone:
    case kCopyFail:
      server_->send(message);
      if (!server_->copying_in()) return expect(Answer::copy_end, Fate::invent);
      return server_->copy_in_ended();
    case kTerminate: return end(Error("client close request"));
    default: return protocol_violation(concat({"invalid frontend message type ", std::to_string(static_cast<int>(type))}));
  }
}

void ClientSession::send_query(Bytes message) {
  if (hub_.settings().disable_pqexec) return close(error_of(PoolerError::simple_query_disallowed));
  const bool looked_at = translates();
  const Bytes text = looked_at ? protocol::Reader(behind(message, protocol::kHeaderSize)).cstring() : Bytes();
  if (tracks() && !on_replica_) note_sent(unit_ && unit_->query ? std::exchange(unit_->query, nullptr) : classify(text), text);
  unnamed_.reset();
  server_->forget_unnamed();
  if (const std::string name = statements_.empty() ? std::string() : deallocated_name(text); !name.empty()) {
    if (const StatementRef statement = find_statement(name)) {
      // Make sure that it is there, so that it can be deallocated there.
      server_->prepare(statement, false);
      server_->doubt_prepared(*statement);
      forget_statement(name);
      scratch_.clear();
      protocol::append_query(scratch_, concat({"DEALLOCATE ", statement->server_name}));
      server_->send(scratch_);
      return unit_sent(Answer::query);
    }
  }
  barrier_ = barrier_ || forgets_statements(text);
  server_->send(message);
  unit_sent(Answer::query);
}

/// The first message of an extended unit is sent: nothing that goes before it can be skipped.
void ClientSession::open_unit() {
  if (std::exchange(unit_open_, true)) return;
  server_->trim_prepared();
}

void ClientSession::send_parse(Bytes message) {
  const auto parse = protocol::parse_parse(message.substr(protocol::kHeaderSize));
  if (!parse) return close(error_of(PoolerError::broken_parse));
  ++pool_->counters.client_parse_count;
  open_unit();
  if (!translates()) {
    server_->send(message);
    return server_->expect(Answer::parse);
  }
  if (!parse->name.empty() && statements_.count(parse->name) != 0) {
    return send_failing(error_of(PoolerError::statement_name_in_use, parse->name));
  }
  StatementRef statement = parsed(*parse);
  if (tracks()) judge(*statement);
  if (holding_) renamed_.emplace_back(parse->name, find_statement(parse->name));
  if (parse->name.empty()) {
    unnamed_ = statement;
    ++pool_->counters.server_parse_count;
    if (const std::string name = deallocated_name(parse->query); !name.empty()) return send_deallocating(*parse, name, statement);
    server_->send(message);
    expect(Answer::parse, Fate::forward, statement);
    return server_->parsed(statement, true);
  }
  statements_.emplace(parse->name, statement);
  switch (server_->has_prepared(*statement)) {
    case ServerStatements::Known::yes: return expect(Answer::parse, Fate::invent, statement, std::string(parse->name));
    case ServerStatements::Known::unsure: server_->unprepare(*statement); break;
    case ServerStatements::Known::no: break;
  }
  scratch_.clear();
  protocol::append_renamed(scratch_, *parse, statement->server_name);
  server_->send(scratch_);
  ++pool_->counters.server_parse_count;
  server_->expect({.answer = Answer::parse, .fate = Fate::forward, .errand = Errand::none, .statement = statement,
                   .unit = server_->unit(), .text = std::string(parse->name)});
  server_->parsed(statement, false);
}

/// The unnamed statement is a DEALLOCATE of a name that goes by another one on the server.
void ClientSession::send_deallocating(const protocol::Parse& parse, const std::string& name, const StatementRef& statement) {
  std::string text(parse.query);
  if (const StatementRef target = find_statement(name)) {
    server_->prepare(target, false);
    server_->doubt_prepared(*target);
    forget_statement(name);
    text = concat({"DEALLOCATE ", target->server_name});
  }
  scratch_.clear();
  protocol::append_parse(scratch_, "", text);
  server_->send(scratch_);
  expect(Answer::parse, Fate::forward, statement);
  server_->parsed(statement, true);
}

/// Lets the server fail where only we know the reason, so that the transaction fails with it: a Bind of what does not exist.
void ClientSession::send_failing(const Error& why) {
  unit_open_ = true;
  scratch_.clear();
  protocol::append_bind(scratch_, "", "pgweir_none");
  server_->send(scratch_);
  expect(Answer::bind, Fate::replace, nullptr, concat({shown_sqlstate(hub_.settings(), why), why.text()}));
}

/// Prepares the statement that the client calls `name`, if need be; null: the failure is on its way.
StatementRef ClientSession::statement_there(Bytes name) {
  StatementRef statement = find_statement(name);
  if (!statement) {
    send_failing(name.empty() ? Error("26000", "unnamed prepared statement does not exist")
                              : error_of(PoolerError::unknown_statement, name));
    return nullptr;
  }
  server_->prepare(statement, name.empty());
  return statement;
}

void ClientSession::send_bind(Bytes message) {
  const auto bind = protocol::parse_bind(message.substr(protocol::kHeaderSize));
  if (!bind) return protocol_violation("broken Bind packet");
  ++pool_->counters.bind_count;
  open_unit();
  if (!translates()) {
    server_->send(message);
    return server_->expect(Answer::bind);
  }
  const StatementRef statement = statement_there(bind->statement);
  if (!statement) return;
  if (bind->portal.empty()) {
    portal_ = statement;
  } else if (tracks()) {
    portals_.insert_or_assign(std::string(bind->portal), statement);
  }
  if (bind->statement.empty()) {
    server_->send(message);
  } else {
    scratch_.clear();
    protocol::append_renamed(scratch_, *bind, statement->server_name);
    server_->send(scratch_);
  }
  expect(Answer::bind, Fate::forward, statement);
}

void ClientSession::send_describe(Bytes message) {
  const auto target = protocol::parse_describe(message.substr(protocol::kHeaderSize));
  if (!target) return protocol_violation("broken Describe packet");
  open_unit();
  if (!target->is_statement() || !translates()) {
    server_->send(message);
    return server_->expect(target->is_statement() ? Answer::describe_statement : Answer::describe_portal);
  }
  const StatementRef statement = statement_there(target->name);
  if (!statement) return;
  if (target->name.empty()) {
    server_->send(message);
  } else {
    scratch_.clear();
    protocol::append_renamed_describe(scratch_, *target, statement->server_name);
    server_->send(scratch_);
  }
  expect(Answer::describe_statement, Fate::forward, statement);
}

void ClientSession::send_close(Bytes message) {
  const auto target = protocol::parse_close(message.substr(protocol::kHeaderSize));
  if (!target) return protocol_violation("broken Close packet");
  unit_open_ = true;
  if (!target->is_statement() || !translates()) {
    server_->send(message);
    return server_->expect(Answer::close);
  }
  // The statement itself is shared and stays on the server.
  StatementRef statement = find_statement(target->name);
  if (holding_) renamed_.emplace_back(target->name, statement);
  forget_statement(target->name);
  expect(Answer::close, Fate::invent, std::move(statement), std::string(target->name));
}

void ClientSession::send_execute(Bytes message) {
  const auto execute = protocol::parse_execute(message.substr(protocol::kHeaderSize));
  if (!execute) return protocol_violation("broken Execute packet");
  unit_open_ = true;
  StatementRef statement = portal_;
  if (!execute->portal.empty()) {
    const auto found = portals_.find(execute->portal);
    statement = found == portals_.end() ? nullptr : found->second;
  }
  if (statement) barrier_ = barrier_ || forgets_statements(statement->text);
  if (tracks() && !on_replica_) {
    if (statement) {
      judge(*statement);
      note_sent(statement->meaning, statement->text);
    } else {
      note_opaque();  // A cursor declared in SQL, or nothing at all.
    }
  }
  server_->send(message);
  server_->expect(Answer::execute);
}

}  // namespace pgweir::session
