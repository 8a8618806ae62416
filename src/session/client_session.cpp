// The life of a client connection: states, bytes in and out, its end.
#include "session/client_session.h"

#include "base/text.h"
#include "protocol/writer.h"
#include "session/server_session.h"
#include "session/shown_sqlstate.h"

namespace pgweir::session {
namespace {

/// Of input that waits for somebody else: beyond it the client is not read.
constexpr std::size_t kStalledInputMax = 64U << 10;
/// Of an answer that is held, over what the unit itself may measure: what is invented for its messages is shorter than they are.
constexpr std::size_t kHeldBesidesMax = 1U << 20;

}  // namespace

ClientSession::ClientSession(Hub& hub, ClientId id, std::unique_ptr<io::Door> door)
    : hub_(hub),
      id_(id),
      cancel_key_(CancelKey::draw(hub.random(), hub.settings().peer_id)),
      settings_(hub.interner().empty()),
      startup_settings_(settings_),
      connected_at_(hub.now()),
      state_since_(hub.now()),
      request_at_(hub.now()) {
  transport_ = door->admit(*this);
  proxy_header_due_ = comes_from_proxy();
}

ClientSession::~ClientSession() { ENSURE(server_ == nullptr && home_ == nullptr && !entered_ && !ddl_marks_); }

void ClientSession::enter(ClientEvent event) {
  const std::optional<ClientState> to = next(state_, event);
  ENSURE(to.has_value());
  state_ = *to;
  state_since_ = hub_.now();
}

bool ClientSession::split() const noexcept { return pool_ && pool_->policy.split && pool_->database->split(); }

bool ClientSession::keeps_server() const noexcept {
  return pool_->mode == config::PoolMode::session || pin_ != Pin::none;
}

bool ClientSession::in_transaction() const noexcept { return told_status() != 'I'; }
bool ClientSession::pinned() const noexcept { return pin_ != Pin::none; }
std::size_t ClientSession::prepared_count() const noexcept { return statements_.size(); }

io::Address ClientSession::peer() const {
  if (proxied_for_) return *proxied_for_;
  return transport_ ? transport_->peer() : io::Address{};
}

std::string ClientSession::application_name() const {
  const std::string* name = settings_->find("application_name");
  return name ? *name : std::string();
}

void ClientSession::on_bytes(Bytes bytes) noexcept {
  if (state_ == ClientState::closed) return;
  if (pool_) pool_->counters.bytes_received += bytes.size();
  take(bytes);
}

/// Works on the loop's buffer itself as long as nothing is kept, and keeps what could not be done.
void ClientSession::take(Bytes bytes) {
  if (input_.empty() && !suspended_) {
    working_ = true;
    const std::size_t used = work_on(bytes);
    working_ = false;
    if (state_ == ClientState::closed) return;
    if (used < bytes.size()) keep(bytes.substr(used));
    if (again_) work();
  } else {
    keep(bytes);
    work();
  }
  regulate();
}

void ClientSession::keep(Bytes bytes) {
  if (state_ != ClientState::authenticating) {
    input_ += bytes;
    return;
  }
  // It may be a part of a password: no other copy of it stays behind.
  const std::size_t size = input_.size() + bytes.size();
  if (input_.capacity() < size) {
    std::string larger;
    larger.reserve(2 * size);
    larger += input_;
    auth::wipe(input_);
    input_.swap(larger);
  }
  input_ += bytes;
  auth::wipe_in_place(bytes);
}

/// Goes on with what is kept. Called from within itself it only sees to it that the outer call looks again.
void ClientSession::work() {
  again_ = true;
  if (working_ || suspended_) return;
  working_ = true;
  while (again_ && state_ != ClientState::closed && !input_.empty()) {
    again_ = false;
    const std::size_t used = work_on(input_);
    if (state_ == ClientState::closed) return;
    used == input_.size() ? input_.clear() : static_cast<void>(input_.erase(0, used));
    again_ = again_ || used > 0;
  }
  working_ = false;
  // An idle client costs a few hundred bytes.
  if (input_.empty() && input_.capacity() > 1024) input_.shrink_to_fit();
}

/// How much of `input` is done with.
std::size_t ClientSession::work_on(Bytes input) {
  std::size_t used = 0;
  for (;;) {
    const Bytes rest = behind(input, used);
    const ClientState before = state_;
    std::size_t step = 0;
    starving_ = false;
    switch (state_) {
      case ClientState::startup: step = read_startup(rest); break;
      case ClientState::authenticating: step = read_password(rest); break;
      case ClientState::console: step = read_console(rest); break;
      case ClientState::idle:
      case ClientState::collecting: step = collect(rest); break;
      case ClientState::active: step = stream(rest); break;
      case ClientState::replicating: step = relay(rest); break;
      case ClientState::cancelling: step = rest.size(); break;  // It has said all it has to say.
      case ClientState::welcoming:
      case ClientState::waiting:
      case ClientState::closed: break;
    }
    used += step;
    if (used == input.size() || state_ == ClientState::closed || (step == 0 && state_ == before)) return used;
  }
}

/// Stops reading a client whose input waits for somebody else; goes on once it doesn't.
void ClientSession::regulate() {
  if (state_ == ClientState::closed) return;
  const bool pause = input_.size() > kStalledInputMax && !starving_;
  if (pause == paused_) return;
  paused_ = pause;
  transport_->pause(pause || suspended_);
}

void ClientSession::suspend(bool on) {
  if (state_ == ClientState::closed || suspended_ == on) return;
  suspended_ = on;
  transport_->pause(paused_ || suspended_);
  if (!on) hub_.wants_turn(*this);
}

void ClientSession::on_turn() {
  if (state_ == ClientState::closed) return;
  if (state_ == ClientState::console) {
    scratch_.clear();
    console_->append_late(scratch_);
    if (!scratch_.empty()) transport_->send(scratch_);
    if (console_->finished()) return end(Error("client close request"));
    work();
    return regulate();
  }
  if (suspended_) return;
  if (run_again_) {
    run_again();
  } else if (leaving_) {
    leave_server();
  }
  work();
  regulate();
}

void ClientSession::on_drained() noexcept {
  if (!mirrored_pause_) return;
  mirrored_pause_ = false;
  if (server_) server_->pause(false);
}

void ClientSession::on_server_drained(ServerSession& server) {
  if (&server != server_ || (state_ != ClientState::active && state_ != ClientState::replicating)) return;
  work();
  regulate();
}

void ClientSession::on_closed(const Error& why) noexcept { end(why); }

void ClientSession::send_fatal(const Error& why) {
  scratch_.clear();
  protocol::append_error(scratch_, "FATAL", shown_sqlstate(hub_.settings(), why), why.text());
  transport_->send(scratch_);
}

void ClientSession::tell(std::string_view notice) {
  if (state_ != ClientState::waiting) return;
  scratch_.clear();
  protocol::append_notice(scratch_, "NOTICE", "00000", notice);
  transport_->send(scratch_);
}

void ClientSession::close(const Error& why) {
  if (state_ == ClientState::closed) return;
  if (hub_.settings().log_pooler_errors) hub_.log().warning(concat({hub_.log_name(*this), "pooler error: ", why.text()}));
  // In the middle of a message of the server's the client could not read ours.
  if (!answer_cut_) send_fatal(why);
  end(why);
}

void ClientSession::protocol_violation(std::string_view what) { close(Error("08P01", std::string(what))); }

/// The one end of a session: gives back or takes down its servers, then tells the hub.
void ClientSession::end(const Error& why) {
  if (state_ == ClientState::closed) return;
  if (state_ == ClientState::waiting) hub_.wants_no_server(*this);
  if (state_ == ClientState::authenticating) auth::wipe(input_);
  end_reason_ = why.text();
  if (replication_) leave_replication();
  if (!writes_.empty()) mark_writes();
  drop_writes();
  end_ddl();
  const bool between_units = in_flight_ == 0 && !unit_open_ && status_ == 'I' && pass_left_ == 0 && !settings_pending_;
  const auto how = [&](const ServerSession& server) {
    if (&server == server_ && (!between_units || discarding_)) return ServerSession::Leave::broken;
    if (&server != server_ && status_ != 'I') return ServerSession::Leave::broken;
    if (&server == server_ && on_replica_) return ServerSession::Leave::clean;
    const bool dirty = keeps_server() || may_leave_state_ || left_ != Left::nothing || hub_.settings().server_reset_query_always;
    return dirty ? ServerSession::Leave::dirty : ServerSession::Leave::clean;
  };
  ServerSession* working = server_;
  ServerSession* kept = home_ != server_ ? home_ : nullptr;
  const auto leave_working = working ? how(*working) : ServerSession::Leave::clean;
  const auto leave_kept = kept ? how(*kept) : ServerSession::Leave::clean;
  server_ = home_ = nullptr;
  enter(ClientEvent::quit);
  if (working) working->unbind(leave_working);
  if (kept) kept->unbind(leave_kept);
  transport_->close();
  hub_.client_gone(*this);
}

void ClientSession::deliver(Bytes bytes) noexcept {
  if (state_ == ClientState::closed) return;
  pool_->counters.bytes_sent += bytes.size();
  if (holding_) {
    held_ += bytes;
    // Notices without end: then the answer is given as it is.
    if (held_.size() > static_cast<std::size_t>(hub_.settings().max_unit_buffer) + kHeldBesidesMax) end_hold();
    return;
  }
  transport_->send(bytes);
  if (!transport_->congested() || mirrored_pause_ || !server_) return;
  mirrored_pause_ = true;
  server_->pause(true);
}

void ClientSession::end_hold() noexcept {
  if (!holding_) return;
  holding_ = false;
  if (!held_.empty()) {
    transport_->send(held_);
    held_.clear();
    if (held_.capacity() > 4096) held_.shrink_to_fit();
  }
  // The unit can't run again: its text is not needed any more.
  input_.erase(0, unit_bytes_);
  unit_bytes_ = examined_ = 0;
}

}  // namespace pgweir::session
