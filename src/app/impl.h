// Pooler::Impl: the hub of all sessions and the acceptor of connections. One class whose parts
// stand in files of their own:
//
//   pooler.cpp     life: start, listening, signals, shutdown      turn.cpp       the turn and its
//   order dispatch.cpp   routes, and who gets which server              servers.cpp    opening and
//   closing servers, failures admission.cpp  who is let in registry.cpp   databases, pools, reload
//   replication.cpp  servers for one client alone
//   deadlines.cpp  time-outs, the statistics period               world.cpp, orders.cpp   what the
//   console sees and asks          lookups.cpp   what servers are asked about users who log in
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "app/access.h"
#include "app/canceller.h"
#include "app/clusters.h"
#include "app/entries.h"
#include "app/peers.h"
#include "app/pooler.h"
#include "app/world.h"
#include "auth/client_login.h"
#include "base/list.h"
#include "base/pooler_error.h"
#include "config/settings.h"
#include "session/hub.h"

namespace pgweir::app {

/// What decide() asks about a pool's nodes.
class PoolLoad final : public routing::Load {
 public:
  /// Null: a pool that does not exist yet.
  void look_at(const PoolEntry* pool, Time now) noexcept {
    pool_ = pool;
    now_ = now;
  }
  std::uint32_t outstanding(NodeId node) const noexcept override;
  bool failing(NodeId node) const noexcept override;

 private:
  const PoolEntry* pool_ = nullptr;
  Time now_{};
};

class Pooler::Impl final : public session::Hub,
                           public io::Acceptor,
                           public ClusterUser,
                           public CancellerUser,
                           public CancelAskers {
 public:
  explicit Impl(const Parts& parts);
  ~Impl();

  // pooler.cpp
  Status configure(const std::string& path);
  Status start();
  void request_reload() noexcept { reload_requested_ = true; }
  void request_pause(bool on) noexcept { pause_requested_ = on; }
  void request_shutdown(Shutdown how) noexcept;
  std::string take_stats_line() noexcept { return std::exchange(stats_line_, {}); }
  bool finished() const noexcept { return finished_; }
  void on_accepted(std::unique_ptr<io::Door> door) noexcept override;
  ConsoleWorld& world() noexcept { return world_; }

  // turn.cpp
  Time turn() noexcept;

  // session::Hub
  Time now() const noexcept override { return parts_.clock.now(); }
  Log& log() noexcept override { return parts_.log; }
  std::string log_name(const session::ClientSession& session) const override;
  std::string log_name(const session::ServerSession& session) const override;
  Random& random() noexcept override { return parts_.random; }
  const config::Settings& settings() const noexcept override { return *settings_; }
  const auth::LoginContext& login_context() noexcept override { return login_context_; }
  session::SettingsInterner& interner() noexcept override { return interner_; }
  session::Admission admit(session::ClientSession& session, std::string_view database,
                           std::string_view user, std::int64_t local_uid) override;
  bool offers_tls() const noexcept override;
  std::unique_ptr<io::Transport> encrypt(std::unique_ptr<io::Transport> plain, io::TransportUser& user,
                                         io::TlsStart how, Bytes read) override;
  void client_named(session::ClientSession& client) noexcept override;
  void client_encrypted(session::ClientSession& session) noexcept override;
  void logged_in(session::ClientSession& session, auth::Credentials credentials) override;
  std::unique_ptr<session::Console> console(session::ClientSession& session) override;
  void judge_password(session::ClientSession& session, const std::string& password) override;
  void login_refused(session::ClientSession& session) noexcept override;
  void looked_up(session::ServerSession& session, const Error* problem,
                 session::LookupRows rows) noexcept override;
  void wants_turn(session::ClientSession& session) noexcept override;
  void wants_server(session::ClientSession& session) noexcept override;
  void wants_no_server(session::ClientSession& session) noexcept override;
  void wants_welcome(session::ClientSession& session) noexcept override;
  void wants_own_server(session::ClientSession& session) noexcept override;
  void client_gone(session::ClientSession& session) noexcept override;
  void cancel(session::ClientSession& asker, const session::CancelKey& key) noexcept override;
  void server_idle(session::ServerSession& session) noexcept override;
  void server_resetting(session::ServerSession& session) noexcept override;
  void server_unfinished(session::ServerSession& session) noexcept override;
  void server_gone(session::ServerSession& session, const Error& error) noexcept override;
  void server_identified(session::ServerSession& session, std::string_view system_id,
                         std::string_view started_at) noexcept override;
  config::ConsistencyLevel level_kept(config::ConsistencyLevel asked) const noexcept override;
  const routing::ClusterView* cluster_view(const session::ClientSession& client) const noexcept override;
  void wants_capture(session::ClientSession& client, Time until) noexcept override;
  std::string node_name(NodeId node) const override;

  // ClusterUser
  std::optional<monitor::Login> monitor_login(const Cluster& cluster,
                                              const DatabaseEntry& database) const override;
  io::Address address_of(const config::HostPort& host) const override;

  // CancellerUser, CancelAskers
  void cancel_ended(std::uint64_t server_id, ClientId asker, bool timed_out) noexcept override;
  void cancel_answered(ClientId asker) noexcept override;

 private:
  friend class ConsoleWorld;

  /// How long a handshake may take that is under way when the port is given up; long enough for one
  /// packet that has to be sent again.
  static constexpr Duration kHandshakeTime = std::chrono::milliseconds(1500);
  /// How long a server may work on what nobody wants any more before it is cancelled.
  static constexpr Duration kUnfinishedTime = std::chrono::milliseconds(20);
  /// Of one turn; what is left is done in the next one.
  static constexpr int kRoundsMax = 8;
  /// Databases that `*` made and nobody has come in to, which are asked about users at the same time.
  static constexpr std::size_t kUnprovenMax = 50;

  // turn.cpp
  void carry_out_requests();
  void run_ready();
  void hand_out_released();
  void see_departed();
  void route_parked();
  void wake_capture_waiters();
  void route_wanting();
  void pump_all();
  void answer_cancels();
  bool carry_cancel(Client& client, ClientId asker);
  bool send_cancel(Server& server, ClientId asker);
  Client* client_of(const session::CancelKey& key) noexcept;
  void reap();
  void close_tcp_if_due();
  void finish_if_done();
  /// Whether there is something left for a round of this turn.
  bool work_left() const noexcept {
    if (!ready_.empty() || !departed_.empty()) return true;
    return !suspended_ && !(released_.empty() && wanting_.empty() && pump_.empty() && answered_.empty());
  }
  void lower(Time deadline) noexcept {
    if (deadline < next_deadline_) next_deadline_ = deadline;
  }

  // dispatch.cpp
  routing::Route route_of(Client& client);
  void dispatch(Client& client);
  bool park(Client& client);
  /// Gives an idle server, or the one that the client holds; false when there is none now.
  bool serve(Client& client, const routing::Route& route, pool::NodeSet nodes, unsigned preferred);
  void bind(Client& client, Server& server, const routing::Route& route);
  void count(Client& client, const routing::Route& route);
  pool::NodeSet nodes_of(PoolEntry& pool, const routing::Route& route, unsigned& preferred);
  pool::Subpool* primary_of(PoolEntry& pool) const noexcept;
  /// An idle server: to the first who may have it, else it stays idle.
  void hand_out(Server& server);
  bool send_away_stranger(Server& server) noexcept;
  bool is_fallen_primary(Server& server);
  bool give_to_waiter(Server& server);
  void give_idle(PoolEntry& pool);
  bool check_first(Server& server);
  void place_to_be_asked(Server& server) noexcept;
  pool::ServerSeat* idle_in(PoolEntry& pool, pool::NodeSet nodes) noexcept;
  /// Decides anew for who waits: the view, the configuration or a node's health has changed.
  void route_waiters_again(PoolEntry& pool);
  void cluster_changed(Cluster& cluster);
  void leave_old_primary(PoolEntry& pool, NodeId old);
  void leave_replica_servers(PoolEntry& pool, const pool::Subpool& subpool);
  std::optional<Error> cached_failure(PoolEntry& pool) const;
  bool fails_fast(PoolEntry& pool, Client& client);

  // servers.cpp
  void open(PoolEntry& pool, pool::Subpool& on, bool from_reserve, Client* for_one = nullptr);
  void pump(PoolEntry& pool);
  void wants_pump(PoolEntry& pool) noexcept {
    if (!List<PoolEntry, &PoolEntry::pump_hook>::linked(pool)) pump_.push_back(pool);
  }
  bool without_primary(PoolEntry& pool);
  void open_replica(PoolEntry& pool);
  bool make_room(PoolEntry& pool, const pool::Subpool& on);
  void place(Server& server, pool::Place to) noexcept;
  std::string_view unfit(const Server& server) const noexcept;
  void logged_in_server(Server& server);
  void log_new_connection(const Server& server);
  void login_failed(Server& server);
  void note_failed_login(Server& server, pool::Subpool& subpool, bool said_no);
  void refuse_welcome(PoolEntry& pool, const Error& why);
  void close_server(Server& server, const Error& why);
  void close_server(Server& server, PoolerError why) { close_server(server, error_of(why)); }
  void close_server(Server& server, std::string_view why) {
    close_server(server, Error("57P01", std::string(why)));
  }
  /// Idle ones now, others when they are given back.
  void retire_servers(PoolEntry& pool, PoolerError why);
  void close_idle(PoolEntry& pool, PoolerError why);
  session::ServerLoginParams login_params(const PoolEntry& pool) const;
  auth::Credentials credentials_for(const PoolEntry& pool) const;
  template <class Do>
  static void each_server(const PoolEntry& pool, Do&& what);
  /// Errors that a node gives while it can't serve anybody yet: they pass, and say nothing about
  /// this login.
  static bool passes(std::string_view sqlstate) noexcept;
  /// The node answered and said no.
  static bool node_said_no(const Error& error) noexcept;

  // replication.cpp
  session::ServerLoginParams own_login_params(const PoolEntry& pool, const Client& client) const;
  void open_own_servers(PoolEntry& pool);
  bool make_own_room(PoolEntry& pool, pool::Subpool& on);
  bool gives_way(Server& server);
  void begin_replication(Server& server);
  static void leave_own_server(Server& server) noexcept;
  void wants_no_own_server(Client& client) noexcept;
  void own_login_failed(Server& server);
  static void refuse_replication(PoolEntry& pool, const Error& why);
  void replication_deadlines(PoolEntry& pool);

  // admission.cpp
  session::Admission decide(Client& client);
  session::Admission let_in(Client& client, session::Admission answer);
  session::Admission console_admission(Client& client, session::Admission answer);
  bool choose_method(Client& client, session::Admission& answer);
  bool find_secret(Client& client, session::Admission& answer);
  bool find_account(Entrance& entrance);
  void check_identity(Client& client, session::Admission& answer);
  bool may_still_come_in(const Client& client) const noexcept;
  std::optional<PoolerError> too_many_clients(const DatabaseEntry& database,
                                             const UserEntry& user) const;
  std::string name_of(const Client& client) const;
  std::string name_of(const Server& server) const;

  // lookups.cpp
  enum class Asked : std::uint8_t { under_way, nobody, known };
  Asked ask(Client& client, Lookup::What what);
  bool place_for_unproven();
  /// What an unknown user is treated as having.
  auth::SecretForm usual_form() const noexcept {
    const auth::SecretForm found = found_forms_.usual();
    return found == auth::SecretForm::none ? access_->usual_form : found;
  }
  void serve_lookups(PoolEntry& pool, const Server* checked = nullptr);
  pool::Subpool* may_be_asked(PoolEntry& pool) noexcept;
  void fail_lookups(PoolEntry& pool, const Error& why);
  void lookup_done(Client& client);
  void lookup_lost(Server& server) noexcept;
  void go_on_with_answered();
  void forget_entrance(Client& client) noexcept;
  static bool has_lookups(const DatabaseEntry& database) noexcept;

  // registry.cpp
  void use_access(Access fresh);
  void use_rules(DatabaseEntry& database);
  void apply_databases();
  Status use_tls(const config::Settings& fresh);
  bool take_tls(DatabaseEntry& database);
  Status reload();
  void adopt(std::shared_ptr<const config::Settings> fresh);
  DatabaseEntry* find_database(std::string_view name) const noexcept;
  DatabaseEntry* database_for(std::string_view name);
  DatabaseEntry& add_database(config::Database line, bool automatic);
  void set_nodes(DatabaseEntry& database);
  void remove_database(DatabaseEntry& database);
  PoolEntry& pool_for(DatabaseEntry& database, const std::string& user, bool forced);
  routing::Policy policy_of(const DatabaseEntry& database, const config::User* user) const;
  void configure_pool(PoolEntry& pool);
  bool others_write_too() const noexcept;
  void say_what_is_not_kept();
  void place_nodes(PoolEntry& pool);
  UserEntry& user_for(std::string_view name);
  Node& node_for(const std::vector<config::HostPort>& hosts);
  void weigh_replicas(DatabaseEntry& database);
  Cluster* cluster_for(const DatabaseEntry& database, std::size_t primaries, Cluster* before);
  /// A client is gone: it counts no more, and what was made for it alone goes too.
  void leave_pool(Client& client);
  bool fills_itself(const DatabaseEntry& database) const noexcept;
  void drop_pool(PoolEntry& pool);
  void drop_database(DatabaseEntry& database);
  void drop_unused_databases();

  // deadlines.cpp
  void deadlines();
  void pool_deadlines(PoolEntry& pool);
  void tell_waiters(PoolEntry& pool);
  void cancel_unfinished();
  void login_deadlines();
  bool clients_have_deadlines() const noexcept;
  void client_deadlines();
  void close_fast(PoolEntry& pool);
  void leave_stuck_replicas(PoolEntry& pool);
  void roll_statistics();

  // orders.cpp
  bool servers_left(const DatabaseEntry* database) const noexcept;
  void pause(DatabaseEntry& database);
  void resume(DatabaseEntry& database);
  void kill(DatabaseEntry& database);
  void resume_all();
  void suspend();
  void end_suspension();
  bool flushed() const noexcept;
  void close_what_is_not_flushed();
  std::vector<PoolEntry*> every_pool() const;
  void begin_shutdown(Shutdown how);
  void leave_tcp();
  bool somebody_logs_in_over_tcp() const noexcept;

  Parts parts_;
  std::shared_ptr<const config::Settings> settings_;
  auth::ServerSecret secret_;
  auth::SaltedPasswordCache salted_passwords_;
  auth::SaltedPasswordCache strangers_passwords_{64};  ///< hashes taken for users that don't exist
  auth::LoginContext login_context_;
  std::shared_ptr<const Access> access_ = std::make_shared<const Access>();
  FoundSecrets secrets_;
  FoundForms found_forms_;
  session::SettingsInterner interner_;
  ConsoleWorld world_;
  Canceller canceller_;
  Peers peers_;
  PoolLoad load_;

  std::uint64_t last_id_ = 0;  ///< of clients and servers, one row of numbers
  std::uint64_t last_node_ = 0;
  Time started_at_{};
  Time next_deadline_{};
  Time next_period_{};
  Time period_began_{};
  Time next_client_look_{};
  bool clients_have_deadlines_ = false;
  stats::Averages averages_;  ///< over all databases, for the log
  std::string stats_line_;    ///< not taken yet

  bool reload_requested_ = false;
  std::optional<bool> pause_requested_;
  std::optional<Shutdown> shutdown_requested_;
  std::optional<Shutdown> shutting_down_;
  bool finished_ = false;
  bool said_what_is_not_kept_ = false;
  bool paused_ = false;  ///< all databases, by PAUSE without a name
  bool suspended_ = false;
  Time suspend_until_ = kNever;  ///< who has not taken what it was sent by then is closed

  std::vector<std::unique_ptr<io::Listener>> tcp_listeners_;
  Time tcp_closes_at_ = kNever;  ///< during a shutdown: newcomers are turned away already
  std::vector<std::unique_ptr<io::Listener>> unix_listeners_;

  std::map<std::string, std::unique_ptr<Node>> nodes_;  ///< by name
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::map<std::string, std::unique_ptr<UserEntry>, std::less<>> users_;
  std::map<std::string, std::unique_ptr<DatabaseEntry>, std::less<>> databases_;
  std::vector<std::unique_ptr<DatabaseEntry>>
      removed_databases_;  ///< until their last session is gone
  std::unordered_map<std::uint64_t, std::unique_ptr<Client>> clients_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Server>> servers_;
  int client_count_ = 0;  ///< against max_client_conn

  List<Client, &Client::all_hook> all_clients_;
  List<Client, &Client::login_hook> logging_in_;
  List<Client, &Client::ready_hook> ready_;
  List<Client, &Client::wanting_hook> wanting_;
  List<Client, &Client::parked_hook> parked_;  ///< reads that wait for a replica to get far enough
  List<Client, &Client::capture_hook> capture_waiters_;  ///< sessions that wait for the primary's position
  List<Client, &Client::gone_hook> gone_clients_;
  Answered answered_;  ///< what was asked for their login is known
  List<Server, &Server::released_hook> released_;
  List<Server, &Server::unfinished_hook> unfinished_;  ///< the oldest first
  List<Server, &Server::departed_hook> departed_;
  /// What was closed, until its last words have gone out.
  struct Grave {
    Time until;
    std::unique_ptr<Client> client;
    std::unique_ptr<Server> server;
  };
  std::deque<Grave> graves_;
  List<PoolEntry, &PoolEntry::pump_hook> pump_;
  struct CancelAsked {
    session::CancelKey key;
    ClientId asker;
  };
  std::vector<CancelAsked> cancel_requests_;
};

template <class Do>
void Pooler::Impl::each_server(const PoolEntry& pool, Do&& what) {
  for (const auto& subpool : pool.seats.subpools()) {
    for (std::size_t place = 0; place < pool::kPlaces; ++place) {
      pool::ServerSeat* seat = subpool->first(static_cast<pool::Place>(place));
      while (seat) {
        pool::ServerSeat* next = pool::Subpool::next(*seat);  // `what` may close it.
        what(static_cast<Server&>(*seat));
        seat = next;
      }
    }
  }
}

}  // namespace pgweir::app
