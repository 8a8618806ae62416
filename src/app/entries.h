// What the Pooler keeps of each thing it owns: clients, servers, pools, databases, users, nodes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "app/access.h"
#include "auth/credentials.h"
#include "auth/password_checker.h"
#include "base/ids.h"
#include "base/list.h"
#include "config/settings.h"
#include "io/io.h"
#include "pool/pool.h"
#include "routing/catalog_view.h"
#include "routing/decide.h"
#include "session/client_session.h"
#include "session/server_session.h"
#include "stats/counters.h"

namespace pgweir::app {

class Cluster;
struct Client;
struct PoolEntry;
struct Server;
struct DatabaseEntry;

/// Clients for whom an answer has come; the turn goes on with them.
class Answered;

/// A question about a user who logs in. A server of auth_user's pool answers it.
struct Lookup {
  enum class What : std::uint8_t { secret, roles };

  What what = What::secret;
  std::string sql;  ///< $1 is the user
  Client* client = nullptr;
  PoolEntry* pool = nullptr;    ///< null: not under way
  Server* server = nullptr;     ///< null: waits in the pool's list
  bool asked_again = false;     ///< the first server was lost
  ListHook<Lookup> hook;
};

/// What is known of a client while it logs in.
struct Entrance final : auth::PasswordCheckUser, auth::AccountUser {
  std::string database;
  std::string user;  ///< as the client says, then as auth_query does
  std::int64_t local_uid = -1;
  std::shared_ptr<const Access> access;
  config::AuthType auth_type{};         ///< as it was when he came, like access
  const auth::HbaRule* rule = nullptr;  ///< of access, the one that fits
  std::optional<auth::Roles> roles;
  bool asked_for_secret = false;
  bool judged = false;         ///< PAM or LDAP has let him in
  bool found = false;          ///< a server knows the user
  bool from_cache = false;
  auth::Secret secret;         ///< his, when found
  std::string secret_key;      ///< under which it may be kept
  Duration secret_ttl{};
  std::optional<Error> problem;  ///< what was asked can't be answered
  Lookup lookup;
  std::unique_ptr<auth::PasswordCheck> check;
  std::optional<Status> verdict;
  bool account_known = false;  ///< the system has been asked
  std::optional<std::string> account;  ///< at the other end of the Unix socket
  Client* client = nullptr;
  Answered* answered = nullptr;  ///< where the client is put then

  void on_checked(const Status& what) noexcept override;
  void on_account(std::optional<std::string> name) noexcept override;
  void take(std::string name, auth::Secret of_server);
};

/// Which forms the secrets have that auth_query finds: strangers are led through the exchange that most others
/// see. The older ones weigh less.
class FoundForms {
 public:
  void add(auth::SecretForm form) noexcept;
  /// none: nothing has been found yet.
  auth::SecretForm usual() const noexcept;
  void clear() noexcept { counts_ = {}; }

 private:
  static constexpr std::uint32_t kFoundMax = 1000;
  std::array<std::uint32_t, 4> counts_{};
};

/// Secrets that auth_query found, for auth_query_cache_ttl.
class FoundSecrets {
 public:
  /// nullptr: not known, or not any more.
  struct Kept {
    std::string name;
    auth::Secret secret;
    Time until{};
  };
  const Kept* find(const std::string& key, Time now) noexcept;
  void keep(const std::string& key, Kept found);
  void forget(const std::string& key) noexcept { by_key_.erase(key); }
  void clear() noexcept { by_key_.clear(); }

 private:
  static constexpr std::size_t kSecretsMax = 10'000;
  std::unordered_map<std::string, Kept> by_key_;
};

/// One place of servers: a node of a cluster, or the host list of a database that is not split.
struct Node {
  NodeId id;
  std::string name;                     ///< "h1:5432"; a list's with commas
  std::vector<config::HostPort> hosts;  ///< more than one only in a list
  std::size_t next_host = 0;            ///< of a list: where the next connection goes
  pool::Tally connections;              ///< over all databases and users
  std::uint32_t outstanding = 0;        ///< servers at work
};

struct UserEntry {
  std::string name;
  int clients = 0;
  std::map<NodeId, pool::Tally> connections;
};

/// A connection to a node. The session tells its state, the seat its place in the pool.
struct Server : pool::ServerSeat {
  Server(session::Hub& hub, PoolEntry& pool_entry, Node& on, ServerId id,
         session::ServerLoginParams login, auth::SaltedPasswordCache& cache);

  PoolEntry& pool;
  Node& node;
  session::ServerSession session;
  ListHook<Server> released_hook;  ///< idle since this turn: hand it out
  ListHook<Server> unfinished_hook;  ///< works on what nobody wants any more
  Time unfinished_since{};
  ListHook<Server> departed_hook;  ///< gone since this turn
  std::uint32_t cancels = 0;       ///< cancel requests for it that are still under way
  bool ever_idle = false;          ///< the login is done
  bool read_only = false;          ///< opened as a replica's: it refuses writes even if the node is promoted
  bool served = false;             ///< a client has worked here, and may have left something behind
  Client* client = nullptr;        ///< of a replication connection, until this has logged in for it
  bool gone = false;
  std::optional<Error> why_gone;
  io::Address dialled;
  Lookup* lookup = nullptr;  ///< under way here
  io::SharedTlsSettings tls;       ///< as it was dialled

  pool::Place seat_place() const noexcept { return place; }
};

/// A connection from an application.
struct Client : pool::Waiter {
  Client(session::Hub& hub, ClientId id, std::unique_ptr<io::Door> door);
  /// Where it comes from: known at once, and better once a proxy has told.
  void note_address();

  session::ClientSession session;
  PoolEntry* pool_entry = nullptr;  ///< from the startup packet on; null for the console
  UserEntry* user_entry = nullptr;  ///< counted there while logged in
  bool counted = false;  ///< against max_client_conn and the limits of its database and user
  bool is_console = false;
  bool told_to_wait = false;  ///< query_wait_notify has been sent for this unit
  bool gone = false;
  std::string address;  ///< "1.2.3.4:567", for the log
  Time quiet_since{};   ///< in a transaction and asking for nothing
  Time quiet_request_at{};
  routing::Route route;  ///< while it waits: what was decided last
  ListHook<Client> all_hook;
  ListHook<Client> ready_hook;    ///< on_turn() is due
  ListHook<Client> wanting_hook;  ///< its route is to be decided
  ListHook<Client> parked_hook;   ///< waits for a replica to get far enough
  std::uint64_t parked_at_progress = 0;  ///< of its cluster, when it was parked
  ListHook<Client> capture_hook;  ///< waits for the primary's position
  std::uint64_t waits_since_progress = 0;  ///< of its cluster
  Time waits_until{};
  ListHook<Client> login_hook;    ///< not logged in yet, the oldest first
  ListHook<Client> pool_hook;     ///< of its pool
  ListHook<Client> welcome_hook;  ///< waits for the pool's first server
  ListHook<Client> replicating_hook;  ///< waits for a server of its own
  Server* own_server = nullptr;       ///< which logs in for it
  ListHook<Client> gone_hook;
  ListHook<Client> answered_hook;
  std::unique_ptr<Entrance> entrance;  ///< until it is logged in
};

class Answered {
 public:
  void add(Client& client) noexcept {
    if (!List<Client, &Client::answered_hook>::linked(client)) list_.push_back(client);
  }
  void remove(Client& client) noexcept {
    if (List<Client, &Client::answered_hook>::linked(client)) list_.remove(client);
  }
  Client* take() noexcept { return list_.pop_front(); }
  bool empty() const noexcept { return list_.empty(); }
  std::size_t size() const noexcept { return list_.size(); }

 private:
  List<Client, &Client::answered_hook> list_;
};

/// The servers of one (database, user).
struct PoolEntry {
  session::PoolContext context;  ///< what sessions see
  pool::Pool seats;
  DatabaseEntry& database;
  UserEntry& user;
  bool forced_user = false;
  /// The keys of the first client that proved itself, for servers when nothing better is stored.
  auth::Credentials gained;
  List<Client, &Client::pool_hook> clients;
  List<Client, &Client::welcome_hook> welcoming;
  List<Lookup, &Lookup::hook> lookups;  ///< wait for a server of this pool
  List<Client, &Client::replicating_hook> replicating;  ///< the oldest first
  ListHook<PoolEntry> pump_hook;  ///< a connection may have to be opened
  /// The last failed login; cleared by the next one that works.
  std::optional<Error> last_failure;
  bool node_refused = false;  ///< the node itself said no: password, database, role
  bool split = false;
  bool used = false;  ///< a client has logged in: kept although nobody is there
  Time idle_since{};

  /// What the catalog says of the role. One whose transactions are serializable by default reads on
  /// the primary: no replica can give it that.
  void apply_snapshot() noexcept;

  PoolEntry(DatabaseEntry& of_database, UserEntry& of_user)
      : database(of_database), user(of_user) {}
};

/// A line of [databases], or what `*` made of a name.
/// What sessions see of it is the base.
struct DatabaseEntry : session::DatabaseContext {
  config::Database line;
  bool automatic = false;
  bool entered = false;        ///< somebody has come in here
  bool paused = false;
  bool disabled = false;
  bool removed = false;        ///< no longer configured: gone when its last session is
  Cluster* cluster = nullptr;  ///< null: not split
  std::string marks_of;        ///< the dbname whose marks it shares
  io::SharedTlsSettings tls;   ///< towards its nodes
  std::shared_ptr<const routing::CatalogView> snapshot;
  std::shared_ptr<const config::Settings> settings;  ///< whose [table_rules] hold; null when not split
  std::vector<Node*> nodes;  ///< one when not split
  routing::ReplicaWeights weights;
  std::map<NodeId, pool::Tally> connections;
  std::vector<std::unique_ptr<PoolEntry>> pools;
  int clients = 0;
  Time unused_since{};
  stats::Averages averages;
  stats::Counters departed;  ///< of pools that are gone

  stats::Counters totals() const noexcept;
  int servers() const noexcept;
  /// The configuration or the catalog has changed.
  void resolve_table_rules();
};

}  // namespace pgweir::app
