// What a server sends: matched with what it owes, forwarded in runs, looked at only where something depends on it.
#include "base/text.h"
#include "protocol/error_fields.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/server_session.h"

namespace pgweir::session {
namespace {

using namespace protocol::backend;

/// Messages whose content, or whose end, decides something: they are looked at whole. All are small but for
/// errors, notices and notifications, which PostgreSQL bounds. The others stream through. What comes unasked has to be
/// whole: an answer of our own may go out between two of its parts.
bool seen_whole(char type) noexcept {
  switch (type) {
    case kDataRow:
    case kCopyData:
    case kRowDescription:
    case kParameterDescription:
    case kFunctionCallResponse:
    case kCopyInResponse:
    case kCopyOutResponse:
    case kCopyBothResponse: return false;
    default: return true;
  }
}

}  // namespace

void ServerSession::on_bytes(Bytes bytes) noexcept {
  if (suspended_) {
    came_while_suspended_ += bytes;
    return;
  }
  if (state_ == ServerState::dedicated) return relay(bytes);
  while (state_ != ServerState::closed) {
    if (begins_with_row(bytes)) pass_rows(bytes);
    const std::optional<protocol::Slice> slice = framer_.next(bytes);
    if (!slice) break;
    on_slice(*slice);
  }
  if (state_ == ServerState::closed) {
    run_ = {};
    return;
  }
  flush_run();
  if (framer_.broken()) lose_protocol("a length that can't be");
}

bool ServerSession::begins_with_row(Bytes bytes) noexcept {
  if (bytes.size() < protocol::kHeaderSize) return false;
  const char type = bytes.front();
  // What describes the rows is one with them in a simple query; elsewhere it is an answer by itself.
  return type == kDataRow || type == kCopyData ||
         (type == kRowDescription && !owed_.empty() && owed_.front().answer == Answer::query);
}

/// Takes whole rows off the front of `bytes` that go to the client as they are. Only the shortest way for what most of all
/// answers consist of: on_slice() would do the same.
void ServerSession::pass_rows(Bytes& bytes) {
  if (owed_.empty() || !client_ || client_->holding() || framer_.in_message() || !partial_.empty()) return;
  const Owed& front = owed_.front();
  if (front.fate != Fate::forward || front.errand != Errand::none) return;
  std::size_t rows = 0;
  for (Bytes rest = bytes; begins_with_row(rest); rest = behind(bytes, rows)) {
    const std::size_t length = load_u32(bytes.data() + rows + 1);
    if (length < 4 || length >= bytes.size() - rows) break;
    rows += 1 + length;
  }
  if (rows == 0) return;
  extend_run(front_of(bytes, rows));
  bytes.remove_prefix(rows);
}

void ServerSession::on_slice(const protocol::Slice& slice) {
  if (slice.whole() && state_ != ServerState::login) [[likely]] {
    const bool forwarded = on_message(slice.type, slice.bytes);
    if (state_ == ServerState::closed) return;
    if (forwarded && client_) {
      if (framer_.keeps(slice)) {
        flush_run();
        client_->deliver(slice.bytes);
      } else {
        extend_run(slice.bytes);
      }
    }
    return settle();
  }
  const bool login = state_ == ServerState::login;
  const bool errand = !owed_.empty() && owed_.front().errand != Errand::none;
  const bool collecting = !slice.first && !partial_.empty();
  if (!slice.whole() && (collecting || (slice.first && (login || errand || seen_whole(slice.type))))) {
    flush_run();
    partial_ += slice.bytes;
    if (!slice.last) return;
    const std::string whole = std::move(partial_);
    partial_.clear();
    if (login) return on_login_message(slice.type, Bytes(whole).substr(protocol::kHeaderSize));
    if (on_message(slice.type, whole) && state_ != ServerState::closed && client_) {
      flush_run();
      client_->deliver(whole);
    }
    if (state_ != ServerState::closed) settle();
    return;
  }
  if (login) return on_login_message(slice.type, slice.body());
  if (slice.first) slice_forwarded_ = on_message(slice.type, slice.bytes);
  if (state_ == ServerState::closed) return;
  if (slice_forwarded_ && client_) {
    if (framer_.keeps(slice)) {
      flush_run();
      client_->deliver(slice.bytes);
    } else {
      extend_run(slice.bytes);
    }
    client_->note_part(!slice.last);
  }
  if (slice.last) settle();
}

void ServerSession::extend_run(Bytes bytes) {
  if (!run_.empty() && run_.data() + run_.size() == bytes.data()) {
    run_ = Bytes(run_.data(), run_.size() + bytes.size());
    return;
  }
  flush_run();
  run_ = bytes;
}

void ServerSession::flush_run() {
  if (run_.empty()) return;
  const Bytes run = run_;
  run_ = {};
  if (client_) client_->deliver(run);
}

/// A row or a completion is about to be passed on: from here on the answer can't be taken back.
void ServerSession::end_hold() {
  if (!client_ || !client_->holding()) return;
  flush_run();
  client_->end_hold();
}

bool ServerSession::on_message(char type, Bytes message) {
  const Bytes body = behind(message, protocol::kHeaderSize);
  if (type == kDataRow || type == kCopyData) {
    if (owed_.empty()) return lose_protocol("rows that nobody asked for"), false;
    if (owed_.front().errand == Errand::look_up) take_row(body);
    if (owed_.front().errand == Errand::identify || owed_.front().errand == Errand::position ||
        owed_.front().errand == Errand::leftovers) {
      protocol::Reader fields(body);
      for (int left = fields.i16(); left > 0 && !fields.failed(); --left) {
        const std::int32_t size = fields.i32();
        errand_row_.emplace_back(size < 0 ? Bytes() : fields.bytes(static_cast<std::size_t>(size)));
      }
    }
    if (!forwards()) return false;
    end_hold();
    return true;
  }
  switch (type) {
    case kReadyForQuery: return on_ready(body.empty() ? 'I' : body[0]);
    case kErrorResponse: return on_error(message);
    case kCommandComplete:
    case kEmptyQueryResponse:
    case kPortalSuspended: return on_completion(type, body);
    case kParameterStatus: return on_parameter(body);
    case kNoticeResponse: return client_ && (owed_.empty() || owed_.front().fate == Fate::forward);
    case kNotificationResponse:
      if (client_) client_->on_notification();
      return client_ != nullptr;
    default: break;
  }
  if (owed_.empty()) return lose_protocol("an answer that nobody waits for"), false;
  const bool forward = forwards();
  const Answer answer = owed_.front().answer;
  switch (type) {
    case kParseComplete:
      if (answer != Answer::parse) return lose_protocol("ParseComplete out of turn"), false;
      if (const StatementRef& statement = owed_.front().statement) {
        statement->proven = true;
        if (owed_.front().unit != 0) prepared_.confirm(*statement, owed_.front().unit);
      }
      owed_.pop();
      return forward;
    case kBindComplete:
      if (answer != Answer::bind) return lose_protocol("BindComplete out of turn"), false;
      owed_.pop();
      return forward;
    case kCloseComplete:
      if (answer != Answer::close) return lose_protocol("CloseComplete out of turn"), false;
      owed_.pop();
      return forward;
    case kRowDescription:
    case kNoData:
      if (answer == Answer::describe_statement || answer == Answer::describe_portal) owed_.pop();
      return forward;
    case kCopyInResponse:
      copying_in_ = true;
      drop_syncs_of_copy();
      end_hold();
      if (client_) client_->look_anew();
      return forward;
    case kParameterDescription:
    case kFunctionCallResponse:
    case kCopyOutResponse:
    case kCopyDone: return forward;
    case kCopyBothResponse: end_hold(); return forward;
    default: return lose_protocol(concat({"a message of type ", Bytes(&type, 1)})), false;
  }
}

bool ServerSession::on_completion(char type, Bytes body) {
  if (owed_.empty()) return lose_protocol("a completion that nobody waits for"), false;
  const bool forward = forwards();
  const Answer answer = owed_.front().answer;
  copying_in_ = false;
  // Without the zero byte at its end.
  const Bytes tag = type == kCommandComplete && !body.empty() ? front_of(body, body.size() - 1) : Bytes();
  const bool forgets = tag.starts_with('D') && (tag == "DISCARD ALL" || tag == "DEALLOCATE ALL");
  if (forgets) {
    prepared_.clear();
    if (tag == "DISCARD ALL") {
      unnamed_.reset();
      if (!client_) settings_ = hub_.interner().empty();
    }
  } else if (tag == "RESET" && !client_) {
    settings_ = hub_.interner().empty();  // An operator's own server_reset_query.
  }
  // Marks are made before the acknowledgement is passed on.
  if (forward) {
    client_->on_complete(*this, answer, tag);
    end_hold();
  }
  if (forgets) {
    // What was prepared behind it in the same unit is still to come.
    for (std::size_t i = 1; i < owed_.size(); ++i) {
      const Owed& parse = owed_[i];
      if (parse.answer != Answer::parse || parse.unit == 0) continue;
      prepared_.add(parse.statement, parse.unit);
      if (client_ && parse.fate == Fate::forward) client_->restore_statement(parse.text, parse.statement);
    }
  }
  if (answer == Answer::execute) owed_.pop();
  return forward;
}

bool ServerSession::on_error(Bytes message) {
  const protocol::ErrorFields fields = protocol::parse_error(message.substr(protocol::kHeaderSize));
  Error error = Error::of_server(std::string(fields.sqlstate), std::string(fields.message));
  if (fields.ends_connection()) last_words_ = error;
  copying_in_ = false;
  if (owed_.empty()) {  // Between units only a FATAL comes: shutdown, idle-session timeouts.
    return client_ != nullptr && client_->on_unasked_error(*this);
  }
  Owed& front = owed_.front();
  const Answer answer = front.answer;
  const Fate fate = front.fate;
  if (front.errand != Errand::none) {
    errand_error_ = error;
    if (answer != Answer::query) (void)drop_until_sync();
    return false;
  }
  const std::string replacement = fate == Fate::replace ? front.text : std::string();
  if (front.statement && answer != Answer::parse) note_unusable(*front.statement, fields);
  bool flush_skipped = false;
  if (answer != Answer::query && answer != Answer::function_call) {
    flush_skipped = drop_until_sync();
    skipping_ = owed_.empty();
  }
  // An error of a Parse of ours is the answer to the client's Bind or Describe behind it.
  if (!client_ || client_->discarding()) return false;
  if (fate == Fate::replace && !fields.ends_connection()) {
    // A failure that we made: it would be the same on every node.
    flush_run();
    client_->note_failure();
    end_hold();
    scratch_.clear();
    Bytes text = replacement;
    // What was refused while the failure of a unit before it was still on its way.
    if (transaction_ == 'E' && text.starts_with("25006")) text = "25P02current transaction is aborted, commands ignored until end of transaction block";
    protocol::append_error(scratch_, "ERROR", text.substr(0, 5), text.substr(5));
    client_->deliver(scratch_);
    if (flush_skipped) client_->on_flush_failed(*this);
    return false;
  }
  if (!client_->on_error(*this, fields)) return false;
  end_hold();
  if (flush_skipped) client_->on_flush_failed(*this);
  return true;
}

bool ServerSession::on_ready(char status) {
  if (owed_.empty()) return lose_protocol("ReadyForQuery that nobody waits for"), false;
  const Owed& front = owed_.front();
  if (front.answer != Answer::query && front.answer != Answer::sync && front.answer != Answer::function_call) {
    return lose_protocol("ReadyForQuery out of turn"), false;
  }
  const Errand errand = front.errand;
  // A query that was made to fail ends as the client's own would have.
  const bool forward = forwards() || (client_ && front.fate == Fate::replace && front.answer == Answer::query);
  owed_.pop();
  transaction_ = status;
  copying_in_ = skipping_ = false;
  if (errand != Errand::none) {
    errand_done(errand);
    if (state_ != ServerState::closed && client_ && owed_.empty()) client_->on_rest_swallowed(*this);
    return false;
  }
  if (!client_) {
    // Its client has gone on elsewhere: unbind_unfinished().
    if (state_ == ServerState::active && owed_.empty()) doubtful_ ? close(Error("08006", "a statement that was prepared there is gone")) : finish();
    return false;
  }
  if (!forward) {
    if (owed_.empty()) client_->on_rest_swallowed(*this);
    return false;
  }
  flush_run();
  const char told = client_->on_ready(*this, status);
  end_hold();
  if (told == status || !client_) return true;
  scratch_.clear();
  protocol::append_ready(scratch_, told);
  client_->deliver(scratch_);
  return false;
}

bool ServerSession::on_parameter(Bytes body) {
  protocol::Reader fields(body);
  const Bytes name = fields.cstring();
  const Bytes value = fields.cstring();
  for (auto& [known, old] : reported_) {
    if (known == name) old = value;
  }
  const bool ours = !owed_.empty() && owed_.front().fate == Fate::swallow;
  if (!client_ || ours) return false;
  client_->on_parameter(*this, name, value);
  return true;
}

/// After an error in the extended protocol the server skips everything up to the next Sync; whether a Flush to a replica was
/// among it.
bool ServerSession::drop_until_sync() {
  std::size_t skipped = 0;
  while (skipped < owed_.size() && owed_[skipped].answer != Answer::sync) ++skipped;
  // From the last to the first: of several that concern one name, the first tells how it stays.
  for (std::size_t i = skipped; i-- > 0;) take_back(owed_[i]);
  bool flush_skipped = false;
  for (; skipped > 0; --skipped) {
    flush_skipped = flush_skipped || owed_.front().answer == Answer::flush;
    owed_.pop();
  }
  return flush_skipped && owed_.empty();
}

/// Why a prepared statement could not be used may be a reason not to offer it to anybody again.
void ServerSession::note_unusable(const PreparedStatement& statement, const protocol::ErrorFields& fields) {
  // Its result has changed, and stays so for who has it; a client's own Close and Parse must lead to a new one.
  if (fields.sqlstate == "0A000" && fields.routine == "RevalidateCachedQuery") pool_.database->statements.retire(statement);
  if (fields.sqlstate != "26000") return;
  // A function has deallocated it, and perhaps others.
  prepared_.remove(statement);
  doubtful_ = true;
}

/// The message has failed or was passed over: what was taken for granted when it was sent is not so.
void ServerSession::take_back(const Owed& skipped) {
  const StatementRef& statement = skipped.statement;
  switch (skipped.answer) {
    case Answer::parse:
      if (statement && skipped.fate != Fate::invent) {
        if (skipped.unit != 0) prepared_.failed(*statement, skipped.unit);
        if (skipped.unit == 0 && unnamed_ == statement) unnamed_.reset();
      }
      if (skipped.fate != Fate::swallow && client_) client_->parse_failed(skipped.text, statement);
      return;
    case Answer::close:
      if (statement && client_) client_->restore_statement(skipped.text, statement);
      return;
    case Answer::query:
    case Answer::function_call:
      if (client_) client_->on_unit_skipped();
      return;
    case Answer::bind:
    case Answer::describe_statement:
    case Answer::describe_portal:
    case Answer::execute:
    case Answer::sync:
    case Answer::flush:
    case Answer::copy_end: return;
  }
}

/// A server in copy mode ignores Sync: those that went out between the COPY and the end of its data get no answer.
void ServerSession::drop_syncs_of_copy() {
  for (std::size_t i = 1; i < owed_.size() && copying_in_;) {
    const Answer answer = owed_[i].answer;
    if (answer == Answer::copy_end) copying_in_ = false;  // All of the data was sent ahead.
    if (answer != Answer::sync && answer != Answer::copy_end) {
      ++i;
      continue;
    }
    owed_.erase(i);
    if (answer == Answer::sync && client_) client_->on_unit_skipped();
  }
}

/// Gives the invented answers whose turn has come.
void ServerSession::give_invented() {
  while (!owed_.empty() && owed_.front().fate == Fate::invent) {
    const Answer answer = owed_.front().answer;
    scratch_.clear();
    switch (answer) {
      case Answer::parse: protocol::append_parse_complete(scratch_); break;
      case Answer::close: protocol::append_close_complete(scratch_); break;
      case Answer::flush:
      case Answer::copy_end: break;
      case Answer::bind:
      case Answer::describe_statement:
      case Answer::describe_portal:
      case Answer::execute:
      case Answer::query:
      case Answer::sync:
      case Answer::function_call: ENSURE(false);
    }
    owed_.pop();
    if (!client_) continue;
    flush_run();
    if (answer == Answer::flush) {
      client_->on_flush_answered(*this);
    } else if (!scratch_.empty()) {
      client_->deliver(scratch_);
    }
  }
}

}  // namespace pgweir::session
