// Messages while nothing has been sent: what can be answered here is, what is known to be the primary's goes there
// at once, and a unit that a replica may answer is held until it is whole.
#include "base/text.h"
#include "protocol/extended.h"
#include "protocol/framer.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/deallocate.h"
#include "session/server_session.h"
#include "session/shown_sqlstate.h"

namespace pgweir::session {

using namespace protocol::frontend;

namespace {

/// Messages up to this size are waited for before a server is asked for; longer ones stream.
constexpr std::uint64_t kWholeSizeMax = 32U << 10;

}  // namespace

/// A message whose size is not there yet, or can't be.
std::nullopt_t ClientSession::refuse_size(bool known) {
  if (known) {
    close(Error("08P01", "bad packet header"));
  } else {
    starving_ = true;
  }
  return std::nullopt;
}

std::size_t ClientSession::collect(Bytes input) {
  if (drop_left_ > 0) return drop(input);
  if (input.empty()) return 0;
  if (state_ == ClientState::idle) {
    const std::optional<std::uint64_t> size = message_size(input);
    if (!size) return 0;
    if (input[0] == kTerminate) {
      end(Error("client close request"));
      return 0;
    }
    if (skip_ != Skip::none) return skip_message(input[0], *size, input);
    if (tracks() && !block_failed()) {
      if (own_state_ && !settle_token_of_login()) return 0;
      if (const std::optional<std::size_t> done = answer_own(input[0], *size, input)) return *done;
    }
    if (input.size() >= *size && !block_failed() && answer_here(input[0], front_of(input, *size))) return *size;
    if (state_ == ClientState::closed) return 0;
    request_at_ = hub_.now();
    examined_ = 0;
    block_reads_ = false;
    if (!split() || pin_ != Pin::none) {
      // What is left of the last unit must not decide where this one goes, should a reload split the database meanwhile.
      if (!split()) unit_.reset();
      if (unit_) {
        unit_->query.reset();
        unit_->forget_hints();
      }
      // Nobody holds a server while he is still writing.
      if (input.size() < *size && *size <= kWholeSizeMax) {
        starving_ = true;
        return 0;
      }
      if (home_) {
        resume_on_held({});
      } else {
        enter(ClientEvent::message);
        unit_complete();
      }
      return 0;
    }
    enter(ClientEvent::message);
    begin_unit();
  }
  // A reload may have ended the split since the unit began.
  if (!split() && unit_) unit_->keep_on_primary(sql::Cause::unparsed);
  const Seen seen = split() ? examine(input) : Seen::for_primary;
  if (state_ == ClientState::closed || seen == Seen::part) return 0;
  if (split()) {
    if (unit_->facts().cause == sql::Cause::transaction_control) {
      if (const std::optional<std::size_t> done = answer_block(input)) return *done;
    }
    if (block_open() && block_->take_loss()) return tell_of_lost_block();
    // Within a transaction its reads must not go back, whatever a hint says.
    if (block_open() && !whole_block() && unit_->facts().hint == sql::Hint::replica) unit_->facts().hint = sql::Hint::none;
    if (block_open()) block_reads_ = may_read_in_block(input.substr(0, examined_));
  }
  unit_complete();
  return 0;
}

void ClientSession::begin_unit() {
  if (!unit_) unit_ = std::make_unique<Unit>();
  unit_->clear();
  examined_ = 0;
  lost_replica_ = {};
  behind_ = false;
  reruns_ = 0;
}

void ClientSession::unit_complete() {
  enter(ClientEvent::unit_complete);
  hub_.wants_server(*this);
}

/// A message that concerns no server, or none now: true when it has been answered. Only between units.
bool ClientSession::answer_here(char type, Bytes message) {
  const Bytes body = behind(message, protocol::kHeaderSize);
  scratch_.clear();
  switch (type) {
    case kSync: protocol::append_ready(scratch_, told_status()); break;
    case kFlush: return true;
    // Left over from a COPY that failed: PostgreSQL passes over them too.
    case kCopyData:
    case kCopyDone:
    case kCopyFail: return true;
    case kQuery: {
      if (statements_.empty()) return false;
      const std::string name = deallocated_name(protocol::Reader(body).cstring());
      if (name.empty() || statements_.erase(name) == 0) return false;
      unnamed_.reset();
      protocol::append_command_complete(scratch_, "DEALLOCATE");
      protocol::append_ready(scratch_, told_status());
      break;
    }
    case kParse: {
      // A statement that a server has accepted before: where it is needed it will be prepared.
      if (body.starts_with('\0') || !translates()) return false;
      const auto parse = protocol::parse_parse(body);
      if (!parse || parse->name.empty() || statements_.count(parse->name) != 0) return false;
      if (!deallocated_name(parse->query).empty()) return false;
      StatementRef statement = parsed(*parse);
      if (!statement->proven) return false;
      ++pool_->counters.client_parse_count;
      statements_.emplace(parse->name, std::move(statement));
      protocol::append_parse_complete(scratch_);
      break;
    }
    case kClose: {
      if (!translates()) return false;
      const auto target = protocol::parse_close(body);
      if (!target || (home_ && !target->is_statement())) return false;  // A cursor may be held there.
      if (target->is_statement()) forget_statement(target->name);
      protocol::append_close_complete(scratch_);
      break;
    }
    default: return false;
  }
  deliver(scratch_);
  return true;
}

/// After an error that was answered here: messages are passed over up to the Sync, or the whole unit is.
std::size_t ClientSession::skip_message(char type, std::uint64_t size, Bytes input) {
  const bool ends_unit = type == kSync || (skip_ == Skip::unit && (type == kQuery || type == kFunctionCall));
  if (skip_ == Skip::unit && !ends_unit) skip_ = Skip::to_sync;
  if (ends_unit) skip_ = Skip::none;
  ready_after_drop_ = ends_unit;
  drop_left_ = size;
  return drop(input);
}

std::size_t ClientSession::drop(Bytes input) {
  const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(drop_left_, input.size()));
  drop_left_ -= now;
  if (drop_left_ == 0 && ready_after_drop_) {
    ready_after_drop_ = false;
    scratch_.clear();
    protocol::append_ready(scratch_, told_status());
    deliver(scratch_);
  }
  starving_ = drop_left_ > 0;
  return now;
}

/// Looks at the messages of the unit that begins `input`, from where it stopped the last time.
ClientSession::Seen ClientSession::examine(Bytes input) {
  const auto unit_max = static_cast<std::uint64_t>(hub_.settings().max_unit_buffer);
  for (;;) {
    const Bytes rest = input.substr(examined_);
    const std::optional<std::uint64_t> size = message_size(rest);
    if (!size) return Seen::part;
    if (examined_ + *size > unit_max) {
      unit_->facts().oversize = true;
      return Seen::for_primary;
    }
    if (rest.size() < *size) {
      starving_ = true;
      return Seen::part;
    }
    const Seen seen = examine_message(rest[0], rest.substr(protocol::kHeaderSize, *size - protocol::kHeaderSize));
    if (state_ == ClientState::closed) return Seen::part;
    examined_ += *size;
    if (unit_->known_primary()) return Seen::for_primary;
    if (seen != Seen::part) return seen;
  }
}

ClientSession::Seen ClientSession::examine_message(char type, Bytes body) {
  if (block_open() && type != kQuery) note_portal(type, body);
  switch (type) {
    case kQuery: {
      const Bytes text = protocol::Reader(body).cstring();
      unit_->query = classify(text);
      join_statement(unit_->query, text);
      return Seen::whole;
    }
    case kParse: {
      const auto parse = protocol::parse_parse(body);
      if (!parse) {
        unit_->keep_on_primary(sql::Cause::unparsed);
        return Seen::for_primary;
      }
      StatementRef statement = parsed(*parse);
      judge(*statement);
      join_statement(statement->meaning, statement->text);
      unit_->parsed().emplace_back(parse->name, std::move(statement));
      return Seen::part;
    }
    case kBind: {
      const auto bind = protocol::parse_bind(body);
      unit_->executes = true;
      examine_use(bind ? bind->statement : Bytes(), bind.has_value());
      return Seen::part;
    }
    case kDescribe: {
      const auto target = protocol::parse_describe(body);
      if (!target || target->is_statement()) examine_use(target ? target->name : Bytes(), target.has_value());
      return Seen::part;
    }
    case kExecute: unit_->executes = true; return Seen::part;
    case kSync: return Seen::whole;
    case kFlush:
      // What only parses and describes has the same answer everywhere, and the rest of the unit is routed afterwards.
      if (!unit_->executes) return Seen::whole;
      unit_->facts().flushed = true;
      return Seen::for_primary;
    case kClose:
    case kCopyData:
    case kCopyDone:
    case kCopyFail: return Seen::part;
    default:
      // A function call, the end, or what is no message at all: sending it will tell.
      unit_->keep_on_primary(sql::Cause::unparsed);
      return Seen::for_primary;
  }
}

/// A statement is bound or described: its class counts for the unit.
void ClientSession::examine_use(Bytes name, bool well_formed) {
  StatementRef statement;
  for (const auto& [parsed_name, parsed] : unit_->parsed()) {
    if (parsed_name == name) statement = parsed;  // The last one of that name.
  }
  if (!statement) statement = find_statement(name);
  if (!well_formed || !statement) return unit_->keep_on_primary(sql::Cause::unparsed);
  judge(*statement);
  join_statement(statement->meaning, statement->text);
  if (block_open()) unit_->asks_for_the_time = unit_->asks_for_the_time || session::asks_for_the_time(statement->text);
}

void ClientSession::join_statement(const std::shared_ptr<const sql::StatementClass>& meaning, Bytes text) {
  unit_->join(meaning, is_learned(*meaning));
  if (meaning->hint_named) join_hints(text);
}

std::shared_ptr<const sql::StatementClass> ClientSession::classify(Bytes text) {
  return pool_->database->classifier->classify(text, dialect_);
}

bool ClientSession::is_learned(const sql::StatementClass& meaning) const {
  const Misroutes& learned = pool_->database->learned;
  return !learned.empty() && learned.sends_to_primary(meaning.shape, hub_.now(), hub_.settings().misroute_expiry);
}

/// Classes live as long as the catalog and the rules they were made with.
void ClientSession::judge(PreparedStatement& statement) {
  if (statement.meaning && statement.judging == pool_->database->judging) return;
  statement.meaning = classify(statement.text);
  statement.judging = pool_->database->judging;
}

void ClientSession::cancel_waiting() {
  if (state_ != ClientState::waiting) return;
  hub_.wants_no_server(*this);
  enter(ClientEvent::answered_here);
  // A rerun's unit, or a collected one, is at the front of the input whatever came of it.
  examined_ = unit_bytes_ = 0;
  healed_from_.clear();
  refuse_unit(Error("57014", kCancelled));
  again_ = true;
  hub_.wants_turn(*this);
}

/// A unit of which nothing was sent is passed over.
void ClientSession::refuse_unit(const Error& why) {
  skip_ = Skip::unit;
  fail_block();
  scratch_.clear();
  protocol::append_error(scratch_, "ERROR", shown_sqlstate(hub_.settings(), why), why.text());
  deliver(scratch_);
}

}  // namespace pgweir::session
