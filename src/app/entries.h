// What the Pooler keeps of each thing it owns: clients, servers, pools, databases, users, nodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/credentials.h"
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
struct PoolEntry;
struct DatabaseEntry;

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
  ListHook<Server> departed_hook;  ///< gone since this turn
  std::uint32_t cancels = 0;       ///< cancel requests for it that are still under way
  bool ever_idle = false;          ///< the login is done
  bool read_only = false;          ///< opened as a replica's: it refuses writes even if the node is promoted
  bool gone = false;
  std::optional<Error> why_gone;
  io::Address dialled;

  pool::Place seat_place() const noexcept { return place; }
};

/// A connection from an application.
struct Client : pool::Waiter {
  Client(session::Hub& hub, ClientId id, std::unique_ptr<io::Door> door);

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
  ListHook<Client> login_hook;    ///< not logged in yet, the oldest first
  ListHook<Client> pool_hook;     ///< of its pool
  ListHook<Client> welcome_hook;  ///< waits for the pool's first server
  ListHook<Client> gone_hook;
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
  ListHook<PoolEntry> pump_hook;  ///< a connection may have to be opened
  /// The last failed login; cleared by the next one that works.
  std::optional<Error> last_failure;
  bool node_refused = false;  ///< the node itself said no: password, database, role
  bool split = false;
  bool used = false;  ///< a client has logged in: kept although nobody is there
  Time idle_since{};

  /// A role whose transactions are serializable by default reads on the primary: no replica can
  /// give it that.
  void apply_snapshot() noexcept;

  PoolEntry(DatabaseEntry& of_database, UserEntry& of_user)
      : database(of_database), user(of_user) {}
};

/// A line of [databases], or what `*` made of a name.
/// What sessions see of it is the base.
struct DatabaseEntry : session::DatabaseContext {
  config::Database line;
  bool automatic = false;
  bool paused = false;
  bool disabled = false;
  bool removed = false;        ///< no longer configured: gone when its last session is
  Cluster* cluster = nullptr;  ///< null: not split
  std::string marks_of;        ///< the dbname whose marks it shares
  std::shared_ptr<const routing::CatalogView> snapshot;
  std::vector<Node*> nodes;  ///< one when not split
  std::map<NodeId, pool::Tally> connections;
  std::vector<std::unique_ptr<PoolEntry>> pools;
  int clients = 0;
  Time unused_since{};
  stats::Averages averages;
  stats::Counters departed;  ///< of pools that are gone

  stats::Counters totals() const noexcept;
  int servers() const noexcept;
};

}  // namespace pgweir::app
