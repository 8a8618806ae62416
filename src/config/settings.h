// config: what the operator asked for. One table of settings (settings.cpp) gives parsing,
// defaults, SHOW CONFIG, SET, the reference page and the sample file; the result is an immutable
// Settings that is shared by everybody and replaced as a whole by a reload.
//
//   Result<Settings> settings = load(files, "pgweir.ini");
//   const Database* database = settings->find_database("shop");
//   int size = pool_size(*settings, *database, settings->find_user("web"));
//
// It knows nothing of sockets, files (IniSource opens names) or of what the settings mean to
// others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "base/result.h"
#include "base/time.h"
#include "config/ini_text.h"
#include "config/levels.h"
#include "config/table_rules.h"

namespace pgweir::config {

enum class PoolMode : std::uint8_t { session, transaction, statement };
enum class ReadSplit : std::uint8_t { on, off };
/// How it is known that a replica is far enough.
enum class LsnCheck : std::uint8_t { cached, inline_, wait };
/// Where the reads of transaction blocks may run.
enum class BlockReads : std::uint8_t { primary, replica };
/// What happens to a client whose session state can't be moved between servers.
enum class OnSessionState : std::uint8_t { pin, ignore };
enum class AuthType : std::uint8_t { any, trust, plain, md5, scram_sha_256, cert, peer, hba, pam, ldap };
/// As libpq's sslmode.
enum class TlsMode : std::uint8_t { disable, allow, prefer, require, verify_ca, verify_full };
/// As libpq's setting of that name: ask whether there is TLS, or begin with it.
enum class SslNegotiation : std::uint8_t { postgres, direct };
enum class LoadBalanceHosts : std::uint8_t { round_robin, disable };
/// Which of the hosts of a list may serve, as libpq's parameter of that name.
enum class TargetSessionAttrs : std::uint8_t { any, read_write, read_only, primary, standby, prefer_standby };
enum class UnknownStartupParameters : std::uint8_t { apply, refuse };
/// Of the pooler's own errors: what PostgreSQL would say, or 08P01 as PgBouncer says to all.
enum class SqlstateStyle : std::uint8_t { postgres, pgbouncer };

std::string_view to_string(PoolMode mode) noexcept;
std::string_view to_string(ReadSplit split) noexcept;
std::string_view to_string(BlockReads where) noexcept;
std::string_view to_string(LsnCheck how) noexcept;
std::string_view to_string(OnSessionState what) noexcept;
std::string_view to_string(AuthType type) noexcept;
std::string_view to_string(TlsMode mode) noexcept;
std::string_view to_string(SslNegotiation how) noexcept;
std::string_view to_string(LoadBalanceHosts how) noexcept;
std::string_view to_string(TargetSessionAttrs attrs) noexcept;
std::string_view to_string(UnknownStartupParameters what) noexcept;
std::string_view to_string(SqlstateStyle style) noexcept;

/// Networks as they were written, and as what they mean.
struct NetworkList {
  std::string text;
  std::vector<IpNetwork> networks;

  bool empty() const noexcept { return networks.empty(); }
  bool holds(const IpAddress& ip) const noexcept;
  bool operator==(const NetworkList&) const = default;
};

/// Where a node listens. A host that is empty, or begins with '/' or '@', is a Unix socket's
/// directory; empty means the one of unix_socket_dir.
struct HostPort {
  std::string host;
  int port = 5432;

  bool is_unix() const noexcept { return host.empty() || host[0] == '/' || host[0] == '@'; }
  /// "h1:5432", "[::1]:5432", "/dir:5432".
  std::string text() const;
  bool operator==(const HostPort&) const = default;
};

/// One line of [databases]. An option that is not set is nullopt, or an empty text: there the
/// global value counts (see the functions below).
struct Database {
  std::string name;  // What clients ask for; "*" for the fallback.
  std::string
      dbname;  // What servers are asked for; empty only in "*": the name the client asked for.
  std::vector<HostPort> hosts;  // Never empty; without host= it is the Unix socket.
  int port = 5432;
  std::vector<HostPort> replica_hosts;  // In the order written; not empty turns the split on.
  std::vector<int> replica_weights;     // One for each of them; empty: all alike.
  std::string user;                     // Forced user; empty: the client's.
  std::string password;
  std::string auth_user;
  std::string auth_dbname;
  std::string auth_query;
  std::optional<Duration> auth_query_cache_ttl;
  std::optional<int> pool_size;
  std::optional<int> min_pool_size;
  std::optional<int> reserve_pool_size;
  std::optional<int> replica_pool_size;
  std::optional<PoolMode> pool_mode;
  std::optional<int> max_db_connections;
  std::optional<int> max_db_client_connections;
  std::optional<Duration> server_lifetime;
  std::string server_tls13_ciphers;
  std::string server_tls_ca_file;
  std::string server_tls_cert_file;
  std::string server_tls_ciphers;
  std::string server_tls_key_file;
  std::string server_tls_protocols;
  std::optional<TlsMode> server_tls_sslmode;
  std::optional<SslNegotiation> server_tls_sslnegotiation;
  std::optional<Duration> query_wait_timeout;
  LoadBalanceHosts load_balance_hosts = LoadBalanceHosts::round_robin;
  TargetSessionAttrs target_session_attrs = TargetSessionAttrs::any;
  std::string connect_query;
  std::string client_encoding;
  std::string datestyle;
  std::string timezone;
  std::string application_name;
  std::optional<ConsistencyLevel> read_consistency;
  std::optional<ReadSplit> read_split;
  std::optional<LsnCheck> lsn_check;
  std::optional<BlockReads> read_only_transactions;
  std::optional<BlockReads> transaction_reads;
  std::optional<Duration> max_replica_lag;
  std::optional<std::int64_t> max_replica_lag_bytes;
  std::optional<Duration> replica_slow_start;
  std::optional<Duration> replica_wait;
  std::optional<Duration> pin_window;
  std::optional<TableWindow> table_window;
  std::optional<std::string> replica_functions;
  std::optional<std::string> primary_functions;

  bool operator==(const Database&) const = default;
};

/// One line of [users].
struct User {
  std::string name;
  std::optional<PoolMode> pool_mode;
  std::optional<int> pool_size;
  std::optional<int> reserve_pool_size;
  std::optional<int> max_user_connections;
  std::optional<int> max_user_client_connections;
  std::optional<Duration> idle_transaction_timeout;
  std::optional<Duration> transaction_timeout;
  std::optional<Duration> query_timeout;
  std::optional<Duration> query_wait_timeout;
  std::optional<Duration> client_idle_timeout;
  std::optional<ConsistencyLevel> read_consistency;
  std::optional<ReadSplit> read_split;
  std::optional<BlockReads> read_only_transactions;
  std::optional<BlockReads> transaction_reads;

  bool operator==(const User&) const = default;
};

/// One line of [peers].
struct Peer {
  int id = 0;
  std::string host;
  int port = 6432;
  int pool_size = 0;

  bool operator==(const Peer&) const = default;
};

/// Everything that was read. Times are Durations, 0 meaning "off" where PgBouncer says so; comma
/// lists stay texts, as SHOW CONFIG prints them, and are asked with listed().
struct Settings {
  std::string admin_users;
  std::string announce_version;
  bool application_name_add_host{};
  std::string auth_dbname;
  std::string auth_file;
  std::string auth_hba_file;
  std::string auth_ident_file;
  std::string auth_ldap_options;
  std::string auth_pam_confdir;
  std::string auth_query;
  Duration auth_query_cache_ttl{};
  AuthType auth_type{};
  std::string auth_user;
  Duration autodb_idle_timeout{};
  Duration cancel_wait_timeout{};
  Duration catalog_refresh{};
  int classify_cache_size{};
  Duration client_idle_timeout{};
  Duration client_login_timeout{};
  std::string client_tls13_ciphers;
  std::string client_tls_ca_file;
  std::string client_tls_cert_file;
  std::string client_tls_ciphers;
  std::string client_tls_dheparams;
  std::string client_tls_ecdhcurve;
  std::string client_tls_key_file;
  std::string client_tls_protocols;
  TlsMode client_tls_sslmode{};
  std::string conffile;
  int default_pool_size{};
  bool disable_pqexec{};
  Duration dns_max_ttl{};
  Duration dns_nxdomain_ttl{};
  Duration dns_zone_check_period{};
  Duration idle_transaction_timeout{};
  std::string ignore_startup_parameters;
  std::string job_name;
  std::string listen_addr;
  int listen_backlog{};
  int listen_port{};
  bool log_connections{};
  bool log_disconnections{};
  bool log_pooler_errors{};
  bool log_stats{};
  std::string logfile;
  std::string login_notify_message;
  int max_client_conn{};
  int max_db_client_connections{};
  int max_db_connections{};
  int max_node_connections{};
  std::int64_t max_packet_size{};
  int max_prepared_statements{};
  Duration max_replica_lag{};
  std::int64_t max_replica_lag_bytes = 0;
  std::int64_t max_unit_buffer{};
  int max_user_client_connections{};
  int max_user_connections{};
  int min_pool_size{};
  Duration misroute_expiry{};
  Duration monitor_interval{};
  std::string monitor_password;
  std::string monitor_user;
  OnSessionState on_session_state{};
  int peer_id{};
  std::string pidfile;
  Duration pin_window{};
  int pkt_buf{};
  Duration pool_idle_timeout{};
  PoolMode pool_mode{};
  std::string primary_functions;
  NetworkList proxy_protocol_networks;
  Duration query_timeout{};
  Duration query_wait_notify{};
  Duration query_wait_timeout{};
  ConsistencyLevel read_consistency{};
  ReadSplit read_split{};
  LsnCheck lsn_check{};
  BlockReads read_only_transactions{};
  BlockReads transaction_reads{};
  std::string replica_functions;
  int replica_pool_size{};  // -1: as pool_size.
  Duration replica_read_timeout{};
  Duration replica_slow_start{};
  Duration replica_wait{};
  int reserve_pool_size{};
  Duration reserve_pool_timeout{};
  std::string resolv_conf;
  int sbuf_loopcnt{};
  int scram_iterations{};
  Duration server_check_delay{};
  std::string server_check_query;  // "<empty>": an empty query; "": no check.
  bool server_cleartext_password{};
  Duration server_connect_timeout{};
  bool server_fast_close{};
  Duration server_idle_timeout{};
  Duration server_lifetime{};
  Duration server_login_retry{};
  std::string server_reset_query;
  bool server_reset_query_always{};
  bool server_round_robin{};
  std::string server_tls13_ciphers;
  std::string server_tls_ca_file;
  std::string server_tls_cert_file;
  std::string server_tls_ciphers;
  std::string server_tls_key_file;
  std::string server_tls_protocols;
  TlsMode server_tls_sslmode{};
  SslNegotiation server_tls_sslnegotiation{};
  bool so_reuseport{};
  SqlstateStyle sqlstate_style{};
  Duration stats_period{};
  std::string stats_users;
  Duration suspend_timeout{};
  bool syslog{};
  std::string syslog_facility;
  std::string syslog_ident;
  TableWindow table_window;
  int tcp_defer_accept{};
  bool tcp_keepalive{};
  int tcp_keepcnt{};
  int tcp_keepidle{};
  int tcp_keepintvl{};
  int tcp_socket_buffer{};
  int tcp_user_timeout{};  // Milliseconds, as the socket option takes it.
  std::string track_extra_parameters;
  Duration transaction_timeout{};
  std::string unix_socket_dir;
  std::string unix_socket_group;
  int unix_socket_mode{};
  UnknownStartupParameters unknown_startup_parameters{};
  std::string user;
  int verbose{};

  std::map<std::string, Database, std::less<>>
      databases;  // "*" is the fallback, not a database of that name.
  std::map<std::string, User, std::less<>> users;
  std::map<int, Peer> peers;
  std::vector<TableRuleLine> table_rules;  ///< in the file's order

  /// The line of that very name; the fallback is not looked at.
  const Database* find_database(std::string_view name) const;
  const Database* fallback_database() const { return find_database("*"); }
  const User* find_user(std::string_view name) const;
};

/// The database that `*` makes for a name that has no line of its own.
Database auto_database(const Database& fallback, std::string_view name);

// What counts for one (database, user): the user's value beats the database's, which beats the
// global one. `user` is null when [users] has no line for it.
PoolMode pool_mode(const Settings& all, const Database& database, const User* user) noexcept;
int pool_size(const Settings& all, const Database& database, const User* user) noexcept;
int min_pool_size(const Settings& all, const Database& database) noexcept;
int reserve_pool_size(const Settings& all, const Database& database, const User* user) noexcept;
/// Servers per replica node; pool_size where nobody said otherwise.
int replica_pool_size(const Settings& all, const Database& database, const User* user) noexcept;
int max_db_connections(const Settings& all, const Database& database) noexcept;
int max_db_client_connections(const Settings& all, const Database& database) noexcept;
int max_user_connections(const Settings& all, const User* user) noexcept;
int max_user_client_connections(const Settings& all, const User* user) noexcept;
Duration server_lifetime(const Settings& all, const Database& database) noexcept;
Duration query_wait_timeout(const Settings& all, const Database& database,
                            const User* user) noexcept;
Duration query_timeout(const Settings& all, const User* user) noexcept;
Duration idle_transaction_timeout(const Settings& all, const User* user) noexcept;
Duration transaction_timeout(const Settings& all, const User* user) noexcept;
Duration client_idle_timeout(const Settings& all, const User* user) noexcept;
ConsistencyLevel read_consistency(const Settings& all, const Database& database,
                                  const User* user) noexcept;
/// Whether reads of this (database, user) may go to replicas at all.
bool is_split(const Settings& all, const Database& database, const User* user) noexcept;
LsnCheck lsn_check(const Settings& all, const Database& database) noexcept;
BlockReads read_only_transactions(const Settings& all, const Database& database, const User* user) noexcept;
BlockReads transaction_reads(const Settings& all, const Database& database, const User* user) noexcept;
Duration max_replica_lag(const Settings& all, const Database& database) noexcept;
std::int64_t max_replica_lag_bytes(const Settings& all, const Database& database) noexcept;
Duration replica_slow_start(const Settings& all, const Database& database) noexcept;
Duration replica_wait(const Settings& all, const Database& database) noexcept;
Duration pin_window(const Settings& all, const Database& database) noexcept;
TableWindow table_window(const Settings& all, const Database& database) noexcept;
const std::string& replica_functions(const Settings& all, const Database& database) noexcept;
const std::string& primary_functions(const Settings& all, const Database& database) noexcept;
std::string_view auth_user(const Settings& all, const Database& database) noexcept;
std::string_view auth_dbname(const Settings& all, const Database& database) noexcept;
std::string_view auth_query(const Settings& all, const Database& database) noexcept;
Duration auth_query_cache_ttl(const Settings& all, const Database& database) noexcept;
TlsMode server_tls_sslmode(const Settings& all, const Database& database) noexcept;
SslNegotiation server_tls_sslnegotiation(const Settings& all, const Database& database) noexcept;

/// Whether the comma list names `name`; entries compare exactly.
bool listed(std::string_view comma_list, std::string_view name) noexcept;

/// What PgBouncer starts with when the file says nothing.
Settings defaults();
/// Reads `path` and what it includes. An unknown section or key, or a bad value, fails the whole
/// load with "file:line: name = "value": expected …".
Result<Settings> load(const IniSource& files, const std::string& path);

/// Takes over from `running` what only a restart may change; answers the names whose new value
/// waits.
std::vector<std::string> keep_restart_only(const Settings& running, Settings& fresh);
/// Whether servers made for `before` must be replaced: the line names another place, user or
/// set-up.
bool needs_new_servers(const Database& before, const Database& after) noexcept;

/// SET name = value on the console. A setting that only a restart changes is answered with success
/// and stays, as PgBouncer does.
Status apply_set(Settings& settings, std::string_view name, std::string_view value);

/// One row of SHOW CONFIG, which has all settings but those of PgBouncers after 1.25.2.
struct ConfigRow {
  std::string key;
  std::string value;
  std::string fallback;
  bool changeable = false;
};
/// In order of name. A password is shown as stars.
std::vector<ConfigRow> show_config(const Settings& settings);

/// "5", "0.5" (seconds), "10us", "50ms", "2s", "1min", "1h".
Result<Duration> parse_duration(std::string_view text);
/// Seconds, as SHOW CONFIG prints them: "3600", "0.05".
std::string duration_text(Duration time);
/// "h1:5432,[::1]:5433,h2,/dir": a port left out is `port`.
Result<std::vector<HostPort>> parse_hosts(std::string_view text, int port);
/// The level of that name, refused with a reason when this version can't serve it. Also for
/// SET pgweir.read_consistency and startup options.
Result<ConsistencyLevel> parse_consistency(std::string_view text);
Result<PoolMode> parse_pool_mode(std::string_view text);

}  // namespace pgweir::config
