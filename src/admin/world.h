// admin: the console on the virtual database `pgbouncer` (and `pgweir`): one table of commands
// (commands.cpp) over the read-only views that the program implements here.
//
// The console knows no pool and no socket: World hands out plain rows, and takes orders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "config/settings.h"
#include "stats/counters.h"

namespace pgweir::admin {

class ConsoleSession;

/// One row of SHOW CLIENTS, SHOW SERVERS and SHOW SOCKETS.
struct SocketRow {
  char type = 'C';  // C or S.
  std::string user;
  std::string database;
  std::string replication = "none";
  std::string
      state;  // "active", "waiting", "idle", "used", "login", …; SOCKETS puts cl_ or sv_ in front.
  std::string address;
  int port = 0;
  std::string local_address;
  int local_port = 0;
  WallTime connect_time{};
  WallTime request_time{};
  Duration wait{};
  bool close_needed = false;
  std::uint64_t id = 0;  // One counter for clients and servers.
  std::uint64_t link =
      0;  // The id of the other side; 0: not linked. ptr and link are made from the ids.
  int remote_pid = 0;
  std::string tls;  // "TLSv1.3/…", empty without.
  std::string application_name;
  int prepared_statements = 0;
};

struct PoolRow {
  std::string database;
  std::string user;
  int cl_active = 0;  // Idle clients too.
  int cl_waiting = 0;
  int cl_active_cancel_req = 0;
  int cl_waiting_cancel_req = 0;
  int sv_active = 0;  // Summed over the nodes, as all of these.
  int sv_active_cancel = 0;
  int sv_being_canceled = 0;
  int sv_idle = 0;
  int sv_used = 0;
  int sv_tested = 0;
  int sv_login = 0;
  Duration maxwait{};
  config::PoolMode pool_mode = config::PoolMode::session;
  std::string load_balance_hosts;  // Empty: no host list, shown as NULL.
};

/// What runs of a database; its options come from the settings.
struct DatabaseRow {
  config::Database database;  // The line, or what `*` made of a name.
  int current_connections = 0;
  int current_client_connections = 0;
  bool paused = false;
  bool disabled = false;
};

/// A user that is known: of the userlist, of [users], or seen.
struct UserRow {
  std::string name;
  int current_connections = 0;
  int current_client_connections = 0;
};

struct StatsRow {
  std::string database;
  stats::Counters total;
  stats::Counters average;  // Over the last stats_period.
};

struct Lists {
  int databases = 0;
  int users = 0;
  int peers = 0;
  int pools = 0;
  int peer_pools = 0;
  int free_clients = 0;
  int used_clients = 0;
  int login_clients = 0;
  int free_servers = 0;
  int used_servers = 0;
  int dns_names = 0;
  int dns_zones = 0;
  int dns_queries = 0;
  int dns_pending = 0;
};

struct DnsHostRow {
  std::string name;
  std::int64_t ttl_s = 0;  ///< for which its addresses are still believed
  std::string addresses;   ///< with commas; empty when the name does not exist
};

struct PeerPoolRow {
  int peer_id = 0;
  int cl_active_cancel_req = 0;
  int cl_waiting_cancel_req = 0;
  int sv_active_cancel = 0;
  int sv_login = 0;
};

struct State {
  bool paused = false;
  bool suspended = false;
};

struct MemoryRow {
  std::string name;
  std::int64_t size_bytes = 0;
  std::int64_t used = 0;
  std::int64_t free = 0;
};

/// One node as one database sees it.
struct NodeRow {
  std::string database;
  std::string node;    // "h1:5432"
  std::string role;    // primary, replica, unknown, down
  std::string health;  // What the router thinks of it: "ok", or a word for why it gets nothing.
  std::string lsn;     // Insert LSN of a primary, replay LSN of a replica; empty: not known.
  std::int64_t lag_bytes = 0;
  Duration lag{};
  Duration lag_p50{};
  Duration lag_p99{};
  Duration lag_p999{};
  int timeline = 0;
  std::string system_id;
  int sv_active = 0;
  int sv_idle = 0;
  int sv_login = 0;
  int outstanding = 0;  // Units on their way there.
  int weight = 0;
  std::string reason;  // A sentence: why it is excluded, what the monitor lacks.
};

/// Units of one database by where they went and why; rows with 0 units are left out by the World.
struct RoutingRow {
  std::string database;
  std::string target;
  std::string reason;
  std::uint64_t units = 0;
};

/// Where a statement would go now, in one database that is split.
struct ExplainRow {
  std::string database;
  std::string target;
  std::string node;
  std::string reason;
  std::string statement_class;
  std::string tables_read;
  std::string tables_written;
  std::string functions;
  std::string because;       // What in the catalog led to the reason.
  std::string read_deep;     // Through views, partitions, functions; "*": all tables.
  std::string written_deep;  // Through triggers, rules, cascades, functions.
};

/// The last known write of a table of a database that is split.
struct TableRow {
  std::string database;
  std::string table;  // "*": all tables, for writes of which nobody knows the tables.
  std::string lsn;    // Empty while it is pending.
  bool pending = false;
  Duration age{};
  std::optional<Duration> window = {};  // For which a write keeps reads from replicas, where a window counts.
  std::string rule = {};                // What [table_rules] says of it; empty: the level in force counts.
};

/// A shape of statements that standbys refused though text and catalog took it for a read.
struct MisrouteRow {
  std::string database;
  std::string statement;  // Normalised: without its literals and comments.
  std::uint64_t count = 0;
  std::string sqlstate;
  WallTime first{};
  WallTime last{};
  std::optional<Duration> left;  // Until a replica is asked again; nullopt: not before RELOAD.
};

/// What one way of using a table comes to.
struct DependencyRow {
  std::string database;
  std::string action;
  std::string reads;
  std::string writes;
  std::string because;
};

enum class Verb : std::uint8_t {
  reload,
  pause,
  suspend,
  resume,
  kill,
  kill_client,
  disable,
  enable,
  reconnect,
  wait_close,
  shutdown,
  shutdown_wait_for_servers,
  shutdown_wait_for_clients
};

/// A command that changes something. The console has checked access and the number of words, and
/// that the database is not the console's own.
struct Order {
  Verb verb{};
  std::string database;         // Empty: all of them.
  std::uint64_t client_id = 0;  // Of KILL_CLIENT.
};

/// `later`: the World calls asker.complete() once the order is done, unless it forgot the asker
/// before.
enum class Progress : std::uint8_t { done, later };

/// What the program shows and does. SHOW DATABASES and SHOW POOLS get their line for the console
/// itself from admin; clients() holds the console's clients too, under the database they named.
class World {
 public:
  virtual ~World() = default;

  virtual std::shared_ptr<const config::Settings> settings() const = 0;
  virtual std::vector<SocketRow> clients() const = 0;
  virtual std::vector<SocketRow> servers() const = 0;
  virtual std::vector<PoolRow> pools() const = 0;
  virtual std::vector<DatabaseRow> databases() const = 0;
  virtual std::vector<UserRow> users() const = 0;
  virtual std::vector<StatsRow> stats() const = 0;
  virtual Lists lists() const = 0;
  virtual std::vector<PeerPoolRow> peer_pools() const { return {}; }
  virtual std::vector<DnsHostRow> dns_hosts() const { return {}; }
  virtual State state() const = 0;
  virtual std::vector<MemoryRow> memory() const = 0;
  virtual std::vector<NodeRow> nodes() const = 0;
  virtual std::vector<RoutingRow> routing() const = 0;
  /// What SHOW PGWEIR says: version, uptime, and what else is worth a line.
  virtual std::vector<std::pair<std::string, std::string>> facts() const = 0;
  virtual std::vector<ExplainRow> explain_route(std::string_view sql) const = 0;
  virtual std::vector<TableRow> tables() const = 0;
  virtual std::vector<MisrouteRow> misroutes() const = 0;
  /// `table` as people write it: with or without a schema, quoted or not.
  virtual std::vector<DependencyRow> dependencies(std::string_view table) const = 0;

  /// Carries out an order, or begins to. Error texts are PgBouncer's (`no such database: X`,
  /// `already suspended/paused`, `pooler is not paused/suspended`, …) and go to the asker as they
  /// are.
  virtual Result<Progress> begin(const Order& order, ConsoleSession& asker) = 0;
  /// SET name = value: makes new Settings (config::apply_set) the ones in force.
  virtual Status set(std::string_view name, std::string_view value) = 0;
  /// The asker is gone, or cancelled what it waits for: a pause is undone, and nothing is completed
  /// any more.
  virtual void forget(ConsoleSession& asker) noexcept = 0;
};

}  // namespace pgweir::admin
