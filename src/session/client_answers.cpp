// What comes back: what it means for the transaction, the settings, the marks; when a unit is done, and when it
// runs again elsewhere.
#include "base/pooler_error.h"
#include "base/text.h"
#include "protocol/error_fields.h"
#include "protocol/extended.h"
#include "protocol/framer.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/search_path.h"
#include "session/server_session.h"
#include "sql/normalised.h"

namespace pgweir::session {
namespace {

/// What a standby answers to something it may not do. 0A000 is that too, but for a plan whose result changed.
bool is_refusal(const protocol::ErrorFields& fields) noexcept {
  return fields.sqlstate == "25006" || fields.sqlstate == "55000" || fields.sqlstate == "XX000" ||
         (fields.sqlstate == "0A000" && fields.routine != "RevalidateCachedQuery");
}

/// Whether an error of a replica, of which nothing has been passed on, says nothing about what the primary would answer.
bool runs_again(const protocol::ErrorFields& fields, bool cancel_asked) noexcept {
  if (fields.sqlstate == "57014" && cancel_asked) return false;
  if (fields.sqlstate == "0A000" && fields.routine == "RevalidateCachedQuery") return false;
  const Bytes category = fields.sqlstate.substr(0, 2);
  return category != "22" && category != "23";
}

}  // namespace

void ClientSession::on_complete(ServerSession& server, Answer answer, Bytes tag) {
  if (tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") {
    statements_.clear();
    if (tag == "DISCARD ALL") {
      unnamed_.reset();
      portals_.clear();
      if (!pinned_since_discard_) pin_ = Pin::none;
      may_leave_state_ = false;
      // The client is back at what it asked for at login; the server is at its own defaults.
      settings_ = startup_settings_;
      for (const SettingsSet::Item& item : settings_->items()) restored_.push_back(item.name);
      server.note_settings(hub_.interner().empty());
      resetting_ = true;
      read_dialect();
      reset_all_own();
    }
  }
  if (on_replica_) {
    // ROLLBACK TO has the tag of ROLLBACK.
    transaction_ended_ = transaction_ended_ || (flight_controls_transaction_ && (tag == "COMMIT" || tag == "ROLLBACK"));
    return;
  }
  if (sql_prepared_ && tag == "PREPARE") sql_prepared_->confirmed(units_sent_ - in_flight_ + 1);
  rolled_back_ = tag == "ROLLBACK";
  ended_within_ = ended_within_ || transaction_ended_;
  transaction_ended_ = rolled_back_ || tag == "COMMIT";
  if (writes_.empty()) return;
  // A simple query's acknowledgement may be of a commit; in the extended protocol that comes with Sync, but for
  // COMMIT itself and for procedures.
  const bool may_be_commit = tag == "COMMIT" || may_commit_ || several_in_flight_ ||
                             (answer == Answer::query && status_ == 'I');
  if (may_be_commit) mark_writes();
}

bool ClientSession::on_error(ServerSession& server, const protocol::ErrorFields& fields) {
  if (on_replica_ && holding_ && runs_again(fields, cancel_asked_)) {
    healed_from_ = fields.sqlstate;
    healed_by_refusal_ = is_refusal(fields);
    if (healed_by_refusal_) note_refused_texts();
    discarding_ = true;
    held_.clear();
    server.swallow_rest();
    if (server.owes_nothing()) send_own_sync(server);  // It was flushed, without a Sync.
    return false;
  }
  note_failure();
  return true;
}

/// A standby has refused the unit, whose messages are still at the front of the input: what SHOW MISROUTES will say of them, should
/// the primary run them.
void ClientSession::note_refused_texts() {
  unit_->note_texts([this](const sql::Shape& shape) -> std::string {
    Bytes rest = Bytes(input_).substr(0, unit_bytes_);
    while (!rest.empty()) {
      const auto size = static_cast<std::size_t>(*protocol::peek_wire_size(rest));
      const Bytes body = rest.substr(protocol::kHeaderSize, size - protocol::kHeaderSize);
      Bytes text;
      if (rest[0] == protocol::frontend::kQuery) {
        text = protocol::Reader(body).cstring();
      } else if (rest[0] == protocol::frontend::kParse) {
        const auto parse = protocol::parse_parse(body);
        if (parse) text = parse->query;
      } else if (rest[0] == protocol::frontend::kBind) {
        const auto bind = protocol::parse_bind(body);
        if (const StatementRef statement = bind ? find_statement(bind->statement) : nullptr) text = statement->text;
      }
      rest.remove_prefix(size);
      if (!text.empty() && classify(text)->shape == shape) return sql::normalised(text, dialect_, Misroutes::kTextBytesMax);
    }
    return {};
  });
}

/// The unit ends in an error that the client is told.
void ClientSession::note_failure() {
  unit_failed_ = true;
  rolled_back_ = false;
  ended_within_ = ended_within_ || transaction_ended_;
  if (!writes_.empty() && (may_commit_ || several_in_flight_ || ddl_marks_)) mark_writes();
}

/// What follows belongs to the unit under way (data of a COPY, the Sync behind an error) and is not another unit; some of it may
/// have been looked at already.
void ClientSession::look_anew() {
  if (looking_ahead_) {
    looking_ahead_ = false;
    examined_ = 0;
  }
  if (!input_.empty()) hub_.wants_turn(*this);
}

bool ClientSession::on_unasked_error(ServerSession& server) {
  // A server that is about to be given back was lost to the pool, not to this client.
  if (&server == server_ && on_its_way_back()) return false;
  if (&server == server_ && may_lose_block()) return false;
  // The one kept at home, while another one's answer is passed on: the client may have half a message of that.
  if (server_ && &server != server_) return false;
  unit_failed_ = true;
  return true;
}

/// Everything is answered, and the server leaves this client in the next turn.
bool ClientSession::on_its_way_back() const noexcept {
  return (leaving_ || asking_leftovers_) && in_flight_ == 0 && !unit_open_ && (on_replica_ || !keeps_server());
}

void ClientSession::on_unit_skipped() {
  ENSURE(in_flight_ > 0);
  // The Sync that ends the unit may be on its way already, or wait here for an answer that will not come.
  if (--in_flight_ > 0) return;
  unit_open_ = true;
  look_anew();
}

char ClientSession::on_ready(ServerSession& server, char status) {
  ENSURE(in_flight_ > 0);
  --in_flight_;
  if (sql_prepared_) sql_prepared_->answered(units_sent_ - in_flight_);
  stats::Counters& counters = pool_->counters;
  ++counters.query_count;
  counters.query_time += hub_.now() - query_at_;
  if (on_replica_) {
    note_read_on(server);
    if (!unit_failed_) unit_->learn_uncertain(pool_->database->proven_reads);
    healed_from_.clear();
    reruns_ = 0;
    if (whole_block()) {
      settle_on_replica(status);
    } else if (settled_on_replica() && transaction_ended_ && status == 'T' && in_flight_ == 0 && !unit_open_) {
      chain_from_replica();
      status = 'I';
    } else {
      unit_failed_ ? fail_block() : note_block_read();
      status_ = status;
    }
  } else {
    if (tracks() || entered_ || ddl_marks_) unit_answered(server, status);
    status_ = status;
    if (status != 'I' && pool_->mode == config::PoolMode::statement) {
      close(error_of(PoolerError::transaction_in_statement_mode));
      return status;
    }
  }
  const char told = told_status();
  tell_restored();
  unit_failed_ = transaction_ended_ = ended_within_ = false;
  cancel_asked_ = false;
  resetting_ = false;
  if (in_flight_ > 0 || unit_open_) return told;
  barrier_ = false;
  flight_controls_transaction_ = may_commit_ = several_in_flight_ = false;
  if (status != 'I') {
    // The next unit goes to the same server: what waits for this answer may go on.
    if (looking_ahead_) looking_ahead_ = false;
    if (!input_.empty()) hub_.wants_turn(*this);
    return told;
  }
  if (!block_open()) {
    ++counters.xact_count;
    counters.xact_time += hub_.now() - transaction_at_;
  }
  leaving_ = true;
  hub_.wants_turn(*this);
  return told;
}

/// What a RESET or DISCARD ALL led back to the value of the login, which the server does not know as its default.
void ClientSession::tell_restored() {
  if (restored_.empty()) return;
  scratch_.clear();
  for (const std::string& name : restored_) {
    const std::string* value = settings_->find(name);
    if (value && follows(name) && !equals_ignoring_case(name, "search_path")) {
      protocol::append_parameter_status(scratch_, name, *value);
    }
  }
  restored_.clear();
  deliver(scratch_);
}

/// A unit on the primary is done, and its ReadyForQuery not yet passed on.
void ClientSession::unit_answered(ServerSession& server, char status) {
  const bool was_implicit = status_ == 'I';
  const bool last = in_flight_ == 0 && !unit_open_;
  if (!writes_.empty() && (status == 'I' || may_commit_ || several_in_flight_)) {
    // Only what the server has surely taken back is not marked.
    const bool unclear = may_commit_ || several_in_flight_ || ddl_marks_ || !last;
    const bool taken_back = rolled_back_ || (was_implicit && unit_failed_);
    if (unclear || !taken_back) {
      mark_writes();
    } else {
      reads_.join(writes_);  // Others' rows, which it met there, are no longer covered by a mark of its own.
    }
    if (last && status == 'I') drop_writes();
  }
  if (status == 'I') {
    confirm_settings(server);
  } else if ((transaction_ended_ || ended_within_) && !unconfirmed_settings_.empty()) {
    pin();  // COMMIT AND CHAIN and the like: which of them count can't be told any more.
  }
  if (last && status == 'I') portals_.clear();
  if (status == 'I' && last) end_ddl();
  if (!healed_from_.empty()) {
    if (!unit_failed_ && healed_by_refusal_) unit_->learn(pool_->database->learned, healed_from_, hub_.now());
    healed_from_.clear();
    reruns_ = 0;
  }
  note_seen();
  if (last) {
    reads_.clear();
    if (status == 'I') doubted_.reset();
  }
}

void ClientSession::on_parameter(ServerSession& server, Bytes name, Bytes value) {
  if (on_replica_ || &server != server_) return;
  const bool travels = settings_->find(name) || follows(name);
  if (!travels) return;
  if (resetting_ && startup_settings_->find(name)) return;
  settings_ = hub_.interner().with(settings_, name, value);
  server.note_settings(hub_.interner().with(server.settings(), name, value));
  read_dialect();
}

void ClientSession::on_flush_answered(ServerSession& server) {
  if (discarding_ || !on_replica_ || settled_on_replica()) return;
  end_flushed_part(server);
}

/// What was flushed on a replica ended in an error that was passed on: the rest up to the client's Sync is passed over here.
void ClientSession::on_flush_failed(ServerSession& server) {
  if (discarding_ || !on_replica_ || settled_on_replica()) return;
  skip_ = Skip::to_sync;
  if (!whole_block()) fail_block();
  end_flushed_part(server);
}

/// The rest of the unit is routed by itself: ends this part of it with a Sync of our own.
void ClientSession::end_flushed_part(ServerSession& server) {
  send_own_sync(server);
  flush_answered_ = true;
}

void ClientSession::send_own_sync(ServerSession& server) {
  scratch_.clear();
  protocol::append_sync(scratch_);
  server.send(scratch_);
  server.sync_sent();
  expect(Answer::sync, Fate::swallow);
}

void ClientSession::on_rest_swallowed(ServerSession& server) {
  if (&server != server_) return;
  if (discarding_) {
    run_again_ = true;
  } else if (flush_answered_) {
    note_read_on(server);
    unit_open_ = unit_failed_ = false;
    if (whole_block()) {
      flush_answered_ = false;
      settle_on_replica(server.transaction());
      end_hold();
    } else {
      note_block_read();
      leaving_ = true;
    }
  } else {
    return;
  }
  hub_.wants_turn(*this);
}

void ClientSession::on_settings_refused(ServerSession& server, const Error& error) {
  if (on_replica_) {
    healed_from_ = error.sqlstate();
    healed_by_refusal_ = false;
    discarding_ = true;
    held_.clear();
    server.swallow_rest();
    if (unit_open_) send_own_sync(server);
    if (server.owes_nothing()) on_rest_swallowed(server);
    return;
  }
  if (cancel_asked_ && error.sqlstate() == "57014") {
    // The unit has not been sent, and nothing of the settings was set.
    settings_pending_ = cancel_asked_ = false;
    refuse_unit(Error("57014", kCancelled));
    leaving_ = true;
    return hub_.wants_turn(*this);
  }
  close(Error(error.sqlstate(), concat({"invalid server parameter: ", error.text()})));
}

void ClientSession::on_position(ServerSession& server, std::optional<tokens::Lsn> replayed, Bytes timeline) {
  if (&server != server_ || !on_replica_ || !holding_ || discarding_) return;
  const bool there = replayed && *replayed >= check_ && (check_timeline_ == 0 || timeline == std::to_string(check_timeline_));
  if (there) return;
  // Its answer to the unit is nobody's; the primary is asked at once.
  behind_ = discarding_ = true;
  held_.clear();
  server.swallow_rest();
  if (unit_open_) send_own_sync(server);
  run_again_ = true;
  hub_.wants_turn(*this);
}

/// A replica's answer was taken back, or the replica was lost: the unit waits for a server anew.
void ClientSession::run_again() {
  run_again_ = false;
  ServerSession* server = server_;
  server_ = nullptr;
  holding_ = discarding_ = on_replica_ = flush_answered_ = unit_open_ = unit_failed_ = leaving_ = false;
  mirrored_pause_ = answer_cut_ = false;
  held_.clear();
  in_flight_ = 0;
  examined_ = unit_bytes_;
  unit_bytes_ = 0;
  ++reruns_;
  // What the unit does to names it will do again.
  for (; !renamed_.empty(); renamed_.pop_back()) restore_statement(renamed_.back().first, std::move(renamed_.back().second));
  enter(ClientEvent::run_again);
  if (server) server->unbind_unfinished();
  hub_.wants_server(*this);
}

/// Everything is answered and no transaction is open.
void ClientSession::leave_server() {
  leaving_ = false;
  if (state_ != ClientState::active || !server_) return;
  if (in_flight_ > 0 || unit_open_) return;
  if (flush_answered_) {
    // What the Flush had answered is done with; a held answer would have been passed on.
    flush_answered_ = false;
  }
  if (holding_) end_hold();
  ServerSession& server = *server_;
  const bool was_replica = on_replica_;
  if (may_leave_state_ && !was_replica && !keeps_server() && split()) {
    may_leave_state_ = false;
    asking_leftovers_ = true;
    return server.ask_leftovers();
  }
  const Left left = std::exchange(left_, Left::nothing);
  server_ = nullptr;
  on_replica_ = false;
  if (mirrored_pause_) {
    mirrored_pause_ = false;
    server.pause(false);
  }
  looking_ahead_ = cleared_ = false;
  examined_ = 0;
  hints_in_flight_.reset();
  enter(ClientEvent::server_left);
  if (!was_replica && keeps_server()) {
    home_ = &server;
    if (server.abandoned()) close(error_of(PoolerError::primary_changed));
  } else {
    const bool reset = !was_replica && hub_.settings().server_reset_query_always;
    server.unbind(reset || left == Left::anything ? ServerSession::Leave::dirty
                  : left == Left::settings        ? ServerSession::Leave::settings
                                                  : ServerSession::Leave::clean);
  }
}

/// What it has and could lose keeps the client there. Settings that nobody can see are taken back before anybody else comes.
void ClientSession::on_leftovers(std::optional<bool> found) {
  if (!asking_leftovers_) return;
  asking_leftovers_ = false;
  if (found == true) pin();
  left_ = found == false ? Left::settings : Left::anything;
  leaving_ = true;
  hub_.wants_turn(*this);
}

void ClientSession::on_server_lost(ServerSession& server, const Error& why) {
  if (state_ == ClientState::closed) return;
  if (&server == home_) home_ = nullptr;
  if (&server != server_) return close(error_of(PoolerError::server_crashed));
  if (replication_) {
    server_ = nullptr;
    return replication_server_lost();
  }
  if (on_replica_ && (holding_ || discarding_)) {
    server_ = nullptr;
    lost_replica_ = server.node();
    if (healed_from_.empty()) {
      healed_by_refusal_ = false;
      // Once elsewhere among the replicas, then on the primary.
      if (reruns_ > 0) healed_from_ = why.sqlstate().empty() ? "08006" : why.sqlstate();
    }
    run_again_ = true;
    return hub_.wants_turn(*this);
  }
  if (may_lose_block()) return lose_block();
  server_ = nullptr;
  if (!writes_.empty()) mark_writes();
  drop_writes();
  if (on_its_way_back()) {
    leaving_ = on_replica_ = flush_answered_ = may_leave_state_ = asking_leftovers_ = false;
    enter(ClientEvent::server_left);
    examined_ = 0;
    return hub_.wants_turn(*this);
  }
  in_flight_ = 0;
  close(error_of(PoolerError::server_crashed));
}

}  // namespace pgweir::session
