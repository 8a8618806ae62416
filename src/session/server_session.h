// One connection to PostgreSQL: login, what is prepared and set there, the answers it still owes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "auth/credentials.h"
#include "auth/server_login.h"
#include "base/ids.h"
#include "base/list.h"
#include "io/io.h"
#include "protocol/framer.h"
#include "routing/cluster_view.h"
#include "session/hub.h"
#include "session/owed.h"
#include "session/server_state.h"

namespace pgweir::protocol {
struct ErrorFields;
}

namespace pgweir::session {

/// How to log in. `parameters` go into the startup packet behind user and database.
struct ServerLoginParams {
  std::string user;
  std::string database;
  auth::Credentials credentials;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string connect_query;
  /// Ask which instance answers (databases that are split).
  bool identify = false;
  /// A password may go out in clear text whatever the connection.
  bool cleartext_allowed = false;
};

class ServerSession final : public io::TransportUser {
 public:
  ServerSession(Hub& hub, PoolContext& pool, ServerId id, NodeId node, ServerLoginParams login,
                auth::SaltedPasswordCache& cache);
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  // For app.
  /// What Dialer::dial() gave for this session. Hub::server_idle() or server_gone() follows.
  void attach(std::unique_ptr<io::Transport> transport);
  /// From idle: runs the check query ("<empty>" an empty one); server_idle() or server_gone() follows.
  void check(std::string_view query);
  /// From idle: asks `sql` with `parameter` as $1. Hub::looked_up() follows, and
  /// server_idle(), or server_gone() alone.
  void look_up(std::string_view sql, std::string_view parameter);
  /// Closes it; with a client bound to it that client loses its connection too, with `why`. server_gone() follows in the same call.
  void close(const Error& why);

  /// Its node is the primary no more: the client bound to it may end its transaction, and loses it then.
  void abandon() noexcept { abandoned_ = true; }
  bool abandoned() const noexcept { return abandoned_; }
  /// SUSPEND of the console: nothing more is read here. What still comes is worked on when it ends.
  void suspend(bool on);

  // For clients: a binding is made and undone in the turn.
  void bind(ClientSession& client);
  /// From idle, and to its end: everything passes between `client` and this server.
  void dedicate(ClientSession& client);
  /// How a client leaves: nothing is left behind; perhaps settings are; session state is, so reset it first; in the middle of
  /// something, so close it.
  enum class Leave : std::uint8_t { clean, settings, dirty, broken };
  /// Ends the binding; server_idle() or server_gone() follows.
  void unbind(Leave how);
  /// Ends it while answers are owed that concern nobody: server_idle() follows when they have come.
  void unbind_unfinished();

  ServerState state() const noexcept { return state_; }
  ServerId id() const noexcept { return id_; }
  NodeId node() const noexcept { return node_; }
  PoolContext& pool() const noexcept { return pool_; }
  ClientSession* client() const noexcept { return client_; }
  std::uint32_t backend_pid() const noexcept { return pid_; }
  std::uint32_t backend_key() const noexcept { return key_; }
  bool owes_nothing() const noexcept { return owed_.empty(); }
  Time connected_at() const noexcept { return connected_at_; }
  Time state_since() const noexcept { return state_since_; }
  const io::Transport* transport() const noexcept { return transport_.get(); }
  std::size_t prepared_count() const noexcept { return prepared_.size(); }
  const std::string& started_at() const noexcept { return started_at_; }
  /// routing::instance_of(started_at())
  std::uint64_t instance() const noexcept { return instance_; }
  /// The pooler's place for this session, so that it finds it without a look-up; nothing here looks at it.
  void* seat = nullptr;

  /// What it reported at login and since, in its order.
  const std::vector<std::pair<std::string, std::string>>& reported() const noexcept { return reported_; }

  // For the client bound to it.
  /// Goes out with what else is sent in this turn.
  void send(Bytes message) { transport_->send(message); }
  bool congested() const noexcept { return transport_->congested(); }
  /// The client's peer takes no more: stop reading here until resume().
  void pause(bool on) noexcept {
    paused_ = on;
    transport_->pause(paused_ || suspended_);
  }
  /// An answer is expected for what was sent last; invented ones are given at once when nothing is owed before.
  void expect(Owed&& owed);
  void expect(Answer forwarded) {
    if (forwarded == Answer::sync || forwarded == Answer::query) ++unit_;
    owed_.push(forwarded);
  }
  /// Brings the client's settings here, ahead of what it sends next. False when they are here already.
  bool bring(const SharedSettings& wanted);
  /// A setting took effect here that the server itself doesn't report.
  void note_settings(SharedSettings now) { settings_ = std::move(now); }
  /// Opens the client's transaction here, ahead of what it sends next; `sql` is what brings it where the client stands.
  void open_block(Bytes sql) { run_errand(Errand::open_block, sql); }
  /// Waits there until its instance has replayed `lsn`, ahead of what is asked next.
  void wait_for(tokens::Lsn lsn, Duration time) { run_errand(Errand::wait, routing::wait_for_query(lsn, time)); }
  /// Asks how far its instance has replayed, ahead of what the client sends next: ClientSession::on_position().
  void ask_position(bool of_several) { run_errand(Errand::position, of_several ? routing::kPositionOfSeveralQuery : routing::kPositionQuery); }
  /// Asks whether the session has something that would be lost, or be somebody else's, when it is given back: ClientSession::on_leftovers().
  void ask_leftovers();
  /// As the last ReadyForQuery said, whoever it was for.
  char transaction() const noexcept { return transaction_; }
  const SharedSettings& settings() const noexcept { return settings_; }
  /// What is still owed concerns nobody any more.
  void swallow_rest() noexcept;
  /// Makes sure that `statement` is prepared here under its server name, or as the unnamed one.
  void prepare(const StatementRef& statement, bool unnamed);
  ServerStatements::Known has_prepared(const PreparedStatement& statement) { return prepared_.use(statement, unit_); }
  /// Takes away what may be there: in front of a Parse, when a unit under way decides whether it is.
  void unprepare(const PreparedStatement& statement);
  /// Closes what is too many. Only at the beginning of a unit: there nothing can skip it.
  void trim_prepared();
  const StatementRef& unnamed() const noexcept { return unnamed_; }
  /// The client's own Parse was sent: counts as prepared until it fails.
  void parsed(const StatementRef& statement, bool unnamed);
  void forget_unnamed() noexcept { unnamed_.reset(); }
  /// A DEALLOCATE of it was sent, and may fail.
  void doubt_prepared(const PreparedStatement& statement) { prepared_.doubt(statement); }
  std::uint64_t unit() const noexcept { return unit_; }
  /// An error came in the extended protocol: the server passes over everything up to a Sync.
  bool skipping() const noexcept { return skipping_; }
  void sync_sent() noexcept { skipping_ = false; }
  bool copying_in() const noexcept { return copying_in_; }
  void copy_in_ended() noexcept { copying_in_ = false; }

  // io::TransportUser
  void on_connected() noexcept override;
  void on_bytes(Bytes bytes) noexcept override;
  void on_drained() noexcept override;
  void on_closed(const Error& why) noexcept override;

 private:
  void enter(ServerEvent event);
  auth::Channel channel() const;
  void on_login_message(char type, Bytes body);
  void identify();
  void run_errand(Errand errand, Bytes sql);
  void errand_done(Errand errand);
  void take_row(Bytes body);
  void became_idle();
  void finish();

  void relay(Bytes bytes);

  // server_answers.cpp: `message` is on the wire as it came; true means that the client gets it.
  bool begins_with_row(Bytes bytes) noexcept;
  void pass_rows(Bytes& bytes);
  void on_slice(const protocol::Slice& slice);
  bool on_message(char type, Bytes message);
  bool on_error(Bytes message);
  bool on_ready(char status);
  bool on_completion(char type, Bytes body);
  bool on_parameter(Bytes body);
  bool drop_until_sync();
  void take_back(const Owed& skipped);
  void note_unusable(const PreparedStatement& statement, const protocol::ErrorFields& fields);
  void drop_syncs_of_copy();
  void give_invented();
  void settle() {
    if (!owed_.empty() && owed_.front().fate == Fate::invent) give_invented();
  }
  bool forwards() noexcept { return client_ && !owed_.empty() && owed_.front().fate == Fate::forward; }
  void extend_run(Bytes bytes);
  void flush_run();
  void end_hold();
  void lose_protocol(std::string_view what);

  Hub& hub_;
  PoolContext& pool_;
  ServerId id_;
  NodeId node_;
  ServerState state_ = ServerState::created;
  bool connected_ = false;
  bool abandoned_ = false;
  char transaction_ = 'I';
  bool copying_in_ = false;
  bool skipping_ = false;
  bool paused_ = false;               ///< the client's peer takes no more
  bool suspended_ = false;
  bool doubtful_ = false;             ///< what is prepared here is not known: for its present client only
  bool slice_forwarded_ = false;      ///< the long message under way goes to the client
  std::unique_ptr<io::Transport> transport_;
  ClientSession* client_ = nullptr;
  protocol::Framer framer_;
  OwedQueue owed_;
  Bytes run_;                         ///< bytes for the client, next to one another in the loop's buffer
  std::string partial_;               ///< a message that must be seen whole and has come in part
  std::string scratch_;
  std::string came_while_suspended_;  ///< at most what was read already when reading ended
  SharedSettings settings_;
  SharedSettings wanted_settings_;    ///< being brought
  ServerStatements prepared_;
  std::uint64_t unit_ = 1;            ///< counts what ends in a ReadyForQuery
  StatementRef unnamed_;
  std::vector<std::pair<std::string, std::string>> reported_;
  std::uint32_t pid_ = 0;
  std::uint32_t key_ = 0;
  ServerLoginParams params_;
  std::unique_ptr<auth::ServerLogin> login_;
  std::optional<Error> errand_error_;
  std::optional<Error> last_words_;   ///< the FATAL it sent
  std::vector<std::string> errand_row_;
  LookupRows lookup_rows_;
  std::string started_at_;
  std::uint64_t instance_ = 0;
  Time connected_at_{};
  Time state_since_{};
};

}  // namespace pgweir::session
