// A client whose connection is for replication: it has a server of its own on the primary, and what either says passes as
// it is. Looked at are only the types of messages, and SQL where logical replication allows it, because it may write.
#include <cctype>

#include "base/text.h"
#include "protocol/message.h"
#include "protocol/reader.h"
#include "protocol/writer.h"
#include "session/client_session.h"
#include "session/server_session.h"

namespace pgweir::session {

std::string_view to_string(Replication kind) noexcept {
  switch (kind) {
    case Replication::none: return "none";
    case Replication::physical: return "physical";
    case Replication::logical: return "logical";
  }
  return "?";
}

std::optional<Replication> replication_asked(std::string_view value) noexcept {
  if (value == "database") return Replication::logical;
  // As PostgreSQL reads booleans: the beginning of a word will do, as long as it says which one.
  const auto begins = [&](std::string_view word, std::size_t least) {
    return value.size() >= least && value.size() <= word.size() && equals_ignoring_case(value, word.substr(0, value.size()));
  };
  if (begins("true", 1) || begins("yes", 1) || begins("on", 2) || value == "1") return Replication::physical;
  if (begins("false", 1) || begins("no", 1) || begins("off", 2) || value == "0") return Replication::none;
  return std::nullopt;
}

bool is_replication_command(Bytes text) noexcept {
  const std::size_t begin = text.find_first_not_of(" \t\n\r\f\v");
  if (begin == Bytes::npos) return false;
  text.remove_prefix(begin);
  for (std::string_view command : {"IDENTIFY_SYSTEM", "START_REPLICATION", "CREATE_REPLICATION_SLOT", "ALTER_REPLICATION_SLOT",
                                   "DROP_REPLICATION_SLOT", "READ_REPLICATION_SLOT", "BASE_BACKUP", "UPLOAD_MANIFEST",
                                   "TIMELINE_HISTORY"}) {
    if (text.size() <= command.size() || !equals_ignoring_case(text.substr(0, command.size()), command)) continue;
    const auto next = static_cast<unsigned char>(text[command.size()]);
    return next != '_' && next != '$' && std::isalnum(next) == 0 && next < 0x80;
  }
  return false;
}

Replication ClientSession::replication() const noexcept { return replication_ ? replication_->kind : Replication::none; }

void ClientSession::replicate(ServerSession& server) {
  ENSURE(replication_ && state_ == ClientState::welcoming);
  server.dedicate(*this);
  server_ = &server;
  ++pool_->counters.server_assignment_count;
  query_at_ = transaction_at_ = hub_.now();
  enter(ClientEvent::server_bound);
  send_welcome(server.reported());
  work();  // A client may have sent its first command ahead.
  regulate();
}

/// Passes on all of `input` or, while the server takes no more, nothing.
std::size_t ClientSession::relay(Bytes input) {
  if (input.empty() || server_->congested()) return 0;
  protocol::Framer& messages = replication_->from_client;
  for (Bytes rest = input; const std::optional<protocol::Slice> slice = messages.next(rest);) {
    if (!slice->first) continue;
    if (slice->type == protocol::frontend::kQuery && hub_.settings().disable_pqexec) {
      close(Error("08P01", "PQexec disallowed"));
      return 0;
    }
    note_relayed(*slice);
    if (slice->type != protocol::frontend::kTerminate) continue;
    server_->send(input);
    replication_->at_rest = false;  // The server knows that this is the end.
    end(Error("client close request"));
    return 0;
  }
  if (messages.broken()) {
    close(Error("08P01", "bad packet header"));
    return 0;
  }
  request_at_ = hub_.now();
  server_->send(input);
  starving_ = true;
  return input.size();
}

/// A message is on its way to the server: what it counts for, and what it may write.
void ClientSession::note_relayed(const protocol::Slice& slice) {
  if (replication_->at_rest) {
    replication_->at_rest = false;
    query_at_ = hub_.now();
    if (status_ == 'I') transaction_at_ = query_at_;
  }
  // A walsender takes simple queries only.
  if (slice.type != protocol::frontend::kQuery) return;
  if (split()) pool_->database->routes.add(sql::Target::primary, routing::Reason::replication);
  if (replication_->kind != Replication::logical || !tracks() || is_replication_command(slice.body())) return;
  // SQL: others may read on replicas what is written here.
  if (slice.whole()) return note_effects(*classify(protocol::Reader(slice.body()).cstring()));
  note_opaque();
  note_ddl();
}

void ClientSession::on_relayed(const protocol::Slice& slice) {
  using namespace protocol::backend;
  if (slice.type == kReadyForQuery && !slice.body().empty()) relayed_ready(slice.body()[0]);
  if (!slice.last) return;
  replication_->last_answer = slice.type;
  // Whatever this acknowledges is marked before it is passed on.
  const bool answers = slice.type == kCommandComplete || slice.type == kErrorResponse;
  if (answers && !writes_.empty()) mark_writes();
}

void ClientSession::relayed_ready(char status) {
  replication_->at_rest = true;
  ++pool_->counters.query_count;
  pool_->counters.query_time += hub_.now() - query_at_;
  if (!writes_.empty()) mark_writes();
  status_ = status;
  if (status != 'I') return;
  ++pool_->counters.xact_count;
  pool_->counters.xact_time += hub_.now() - transaction_at_;
  drop_writes();
  may_commit_ = several_in_flight_ = flight_controls_transaction_ = false;
  end_ddl();
}

/// A primary that is shut down sends its stream to the end, completes the command and leaves: a standby takes that for the end of the
/// stream, and a word of ours behind it for a failure.
void ClientSession::replication_server_lost() {
  const bool complete = replication_->last_answer == protocol::backend::kCommandComplete && !answer_cut_;
  if (complete) return end(Error("server closed the connection"));
  close(Error("08P01", "server conn crashed?"));
}

/// The client is leaving: a server that waits for a command is told, any other sees the connection end.
void ClientSession::leave_replication() {
  if (!server_ || !replication_->at_rest || replication_->from_client.in_message()) return;
  scratch_.clear();
  protocol::append_terminate(scratch_);
  server_->send(scratch_);
}

}  // namespace pgweir::session
