#include "config/settings_table.h"

#include <algorithm>

#include "base/text.h"

namespace pgweir::config {
namespace {

template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

/// Parses `text` as the member's type and puts it there.
template <auto Member, class Owner>
Status put(Owner& owner, std::string_view text, const Limits& limits) {
  using T = typename Unwrapped<std::remove_reference_t<decltype(owner.*Member)>>::type;
  Result<T> value = parse_value<T>(text, limits);
  if (!value) return std::move(value).error();
  owner.*Member = std::move(*value);
  return {};
}

template <auto Member>
constexpr Row bind(Row row) {
  row.set = [](const Row& self, Settings& settings, std::string_view text) {
    return put<Member>(settings, text, self.limits);
  };
  row.get = [](const Settings& settings) { return print_value(settings.*Member); };
  row.copy = [](const Settings& from, Settings& to) { to.*Member = from.*Member; };
  return row;
}

template <auto Member, class Line>
constexpr Option<Line> option(Option<Line> row) {
  row.set = [](const Option<Line>& self, Line& line, std::string_view text) {
    return put<Member>(line, text, self.limits);
  };
  return row;
}
template <auto Member>
constexpr auto on_database(Option<Database> row) {
  return option<Member, Database>(row);
}
template <auto Member>
constexpr auto on_user(Option<User> row) {
  return option<Member, User>(row);
}
template <auto Member>
constexpr auto on_peer(Option<Peer> row) {
  return option<Member, Peer>(row);
}

/// host= and replica_host= need port=, and replica_weights= those, which may stand behind them:
/// load.cpp puts them in at the end of the line.
Status put_later(const Option<Database>&, Database&, std::string_view) { return {}; }

constexpr auto kRestart = Reload::restart;
constexpr auto kPgweir = Origin::pgweir;
constexpr auto kLater = Origin::later;
constexpr auto kNoEffect = Effect::none;
constexpr Limits kPort = {.lowest = 0, .highest = 65535};
constexpr Limits kByteSize = {.lowest = 0, .highest = std::numeric_limits<std::int64_t>::max()};

// A table: one row for each.
// clang-format off
constexpr Row kRows[] = {
    bind<&Settings::admin_users>({.name = "admin_users", .fallback = "",
        .doc = "Users who may do everything on the console, separated by commas."}),
    bind<&Settings::announce_version>({.name = "announce_version", .fallback = "1.25.2", .origin = kPgweir,
        .doc = "The PgBouncer version that SHOW VERSION and the console's server_version name: tools choose their column lists by it."}),
    bind<&Settings::application_name_add_host>({.name = "application_name_add_host", .fallback = "0",
        .doc = "Adds the client's host and port to the application_name that it logs in with.", .sim = "0,1"}),
    bind<&Settings::auth_dbname>({.name = "auth_dbname", .fallback = "",
        .doc = "The line of [databases] where auth_query runs; else the database that the client asks for."}),
    bind<&Settings::auth_file>({.name = "auth_file", .fallback = "",
        .doc = "The file of users and their secrets (userlist.txt)."}),
    bind<&Settings::auth_hba_file>({.name = "auth_hba_file", .fallback = "",
        .doc = "The rules of auth_type = hba, written as in pg_hba.conf."}),
    bind<&Settings::auth_ident_file>({.name = "auth_ident_file", .fallback = "",
        .doc = "The user maps that rules of auth_hba_file name."}),
    bind<&Settings::auth_ldap_options>({.name = "auth_ldap_options", .fallback = "",
        .doc = "The options of auth_type = ldap, written as in pg_hba.conf; shown as stars."}),
    bind<&Settings::auth_pam_confdir>({.name = "auth_pam_confdir", .fallback = "", .origin = kPgweir,
        .doc = "The folder of PAM's service files; else the system's (/etc/pam.d). The service is called pgbouncer."}),
    bind<&Settings::auth_query>({.name = "auth_query",
        .fallback = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
        .doc = "The query that finds the secret of a user who is not in auth_file; $1 is his name. It gives two columns, name and secret."}),
    bind<&Settings::auth_query_cache_ttl>({.name = "auth_query_cache_ttl", .fallback = "0", .origin = kPgweir,
        .doc = "How long a secret that auth_query found is used again; 0 asks for each login. Failures are never kept."}),
    bind<&Settings::auth_type>({.name = "auth_type", .fallback = "md5",
        .doc = "How clients prove who they are: md5 (SCRAM where the stored secret is one), scram-sha-256, plain, cert, peer, pam, ldap, trust, any, or hba (each as auth_hba_file says)."}),
    bind<&Settings::auth_user>({.name = "auth_user", .fallback = "",
        .doc = "The user that runs auth_query; also the monitor's, where monitor_user and the database's user are not set."}),
    bind<&Settings::autodb_idle_timeout>({.name = "autodb_idle_timeout", .fallback = "3600",
        .doc = "How long a database that `*` made is kept without use.", .sim = "1,3600"}),
    bind<&Settings::cancel_wait_timeout>({.name = "cancel_wait_timeout", .fallback = "10",
        .doc = "Longest time a cancel request waits to be passed on.", .sim = "1,10"}),
    bind<&Settings::catalog_refresh>({.name = "catalog_refresh", .fallback = "60", .origin = kPgweir,
        .doc = "How often the primary's catalog is read anew, besides after DDL that passed by.", .sim = "1,60"}),
    bind<&Settings::classify_cache_size>({.name = "classify_cache_size", .fallback = "10000", .origin = kPgweir,
        .doc = "Shapes of statements whose class is remembered.", .sim = "0,2,10000"}),
    bind<&Settings::client_idle_timeout>({.name = "client_idle_timeout", .fallback = "0",
        .doc = "Clients idle for longer are closed; 0 is never.", .sim = "0,5"}),
    bind<&Settings::client_login_timeout>({.name = "client_login_timeout", .fallback = "60",
        .doc = "Longest time a login may take, the wait for the pool's first server included.", .sim = "5,60",
        .differs = "A client that waits for the first server of a pool is told at once when every host refuses the connection; PgBouncer lets it wait for this long."}),
    bind<&Settings::client_tls13_ciphers>({.name = "client_tls13_ciphers", .fallback = "",
        .doc = "TLS 1.3 cipher suites towards clients, separated by colons; nothing is OpenSSL's own choice."}),
    bind<&Settings::client_tls_ca_file>({.name = "client_tls_ca_file", .fallback = "",
        .doc = "The authorities that clients' certificates come from. Needed for verify-ca and verify-full; in the other modes a certificate is asked for when it is set, for logins that want one.",
        .differs = "A certificate is also asked for below verify-ca, and nobody is refused there for not having a good one."}),
    bind<&Settings::client_tls_cert_file>({.name = "client_tls_cert_file", .fallback = "",
        .doc = "The certificate shown to clients, with the ones between it and its authority behind it. Needed unless client_tls_sslmode = disable."}),
    bind<&Settings::client_tls_ciphers>({.name = "client_tls_ciphers", .fallback = "default",
        .doc = "TLS ciphers towards clients up to TLS 1.2, as OpenSSL writes them; default, secure, fast and normal are OpenSSL's own choice, all is all but those without authentication or encryption."}),
    bind<&Settings::client_tls_dheparams>({.name = "client_tls_dheparams", .fallback = "auto",
        .doc = "Diffie-Hellman towards clients: auto or legacy (as strong as the certificate's key), or none.",
        .differs = "legacy is as auto: OpenSSL 3 refuses parameters of 1024 bits."}),
    bind<&Settings::client_tls_ecdhcurve>({.name = "client_tls_ecdhcurve", .fallback = "auto",
        .doc = "Elliptic curves towards clients, as OpenSSL names them; auto is its own choice, none is no ECDHE up to TLS 1.2."}),
    bind<&Settings::client_tls_key_file>({.name = "client_tls_key_file", .fallback = "",
        .doc = "The private key of client_tls_cert_file, without a passphrase."}),
    bind<&Settings::client_tls_protocols>({.name = "client_tls_protocols", .fallback = "secure",
        .doc = "TLS versions towards clients: secure (1.2 and 1.3), all, or a list of tlsv1.0, tlsv1.1, tlsv1.2, tlsv1.3 with commas."}),
    bind<&Settings::client_tls_sslmode>({.name = "client_tls_sslmode", .fallback = "disable",
        .doc = "TLS towards clients over TCP: disable; allow or prefer (who asks gets it); require; verify-ca or verify-full (with a certificate from client_tls_ca_file)."}),
    bind<&Settings::conffile>({.name = "conffile", .fallback = "",
        .doc = "The configuration file; RELOAD reads the one that is set here."}),
    bind<&Settings::default_pool_size>({.name = "default_pool_size", .fallback = "20",
        .doc = "Servers per (database, user) and node; 0 is no limit.", .sim = "1,2,5,20",
        .differs = "Only with `replica_host`: it counts for each node."}),
    bind<&Settings::disable_pqexec>({.name = "disable_pqexec", .fallback = "0", .reload = kRestart,
        .doc = "Refuses simple Query messages."}),
    bind<&Settings::dns_max_ttl>({.name = "dns_max_ttl", .fallback = "15",
        .doc = "How long an answer of the DNS is kept."}),
    bind<&Settings::dns_nxdomain_ttl>({.name = "dns_nxdomain_ttl", .fallback = "15",
        .doc = "How long it is remembered that a name does not exist."}),
    bind<&Settings::dns_zone_check_period>({.name = "dns_zone_check_period", .fallback = "0", .effect = kNoEffect,
        .doc = "How often zones are asked for their serial number.",
        .differs = "Names are resolved by the system's resolver, which knows no zones; dns_max_ttl says how old an address may be."}),
    bind<&Settings::idle_transaction_timeout>({.name = "idle_transaction_timeout", .fallback = "0",
        .doc = "Clients idle in a transaction for longer are closed; 0 is never.", .sim = "0,5"}),
    bind<&Settings::ignore_startup_parameters>({.name = "ignore_startup_parameters", .fallback = "",
        .doc = "Startup parameters that are accepted and dropped, separated by commas.",
        .differs = "What is neither tracked nor listed here is set on the client's servers instead of being refused; `unknown_startup_parameters = refuse` refuses it."}),
    bind<&Settings::job_name>({.name = "job_name", .fallback = "pgbouncer", .reload = kRestart, .effect = kNoEffect,
        .doc = "A name for the process.",
        .differs = "It is PgBouncer's name as a Windows service; there is none here."}),
    bind<&Settings::listen_addr>({.name = "listen_addr", .fallback = "", .reload = kRestart,
        .doc = "Addresses to listen on for TCP, separated by commas; `*` is all, nothing is none."}),
    bind<&Settings::listen_backlog>({.name = "listen_backlog", .fallback = "128", .reload = kRestart,
        .doc = "Connections that the kernel keeps until they are accepted."}),
    bind<&Settings::listen_port>({.name = "listen_port", .fallback = "6432", .reload = kRestart, .limits = kPort,
        .doc = "The port, of TCP and in the Unix socket's name."}),
    bind<&Settings::log_connections>({.name = "log_connections", .fallback = "1", .doc = "Logs each login."}),
    bind<&Settings::log_disconnections>({.name = "log_disconnections", .fallback = "1",
        .doc = "Logs each end of a connection, with its reason."}),
    bind<&Settings::log_pooler_errors>({.name = "log_pooler_errors", .fallback = "1",
        .doc = "Logs each error that the pooler itself sends to a client."}),
    bind<&Settings::log_stats>({.name = "log_stats", .fallback = "1", .doc = "Logs the averages each stats_period."}),
    bind<&Settings::logfile>({.name = "logfile", .fallback = "",
        .doc = "The log's file; standard error gets the lines too, unless -q or -d was given."}),
    bind<&Settings::login_notify_message>({.name = "login_notify_message", .fallback = "", .origin = kLater,
        .doc = "A notice for each client after its login."}),
    bind<&Settings::lsn_check>({.name = "lsn_check", .fallback = "cached", .origin = kPgweir,
        .doc = "How it is known that a replica is far enough for a read: from its last answer to the monitor (cached), or, where that is not enough, by asking it together with the read (inline), which waits there for up to replica_wait where servers know WAIT FOR LSN (wait; PostgreSQL 19, untried).",
        .sim = "cached,inline,wait"}),
    bind<&Settings::max_client_conn>({.name = "max_client_conn", .fallback = "100",
        .doc = "Clients in all; the console's don't count.", .sim = "3,100"}),
    bind<&Settings::max_db_client_connections>({.name = "max_db_client_connections", .fallback = "0",
        .doc = "Clients per database; 0 is no limit.", .sim = "0,4"}),
    bind<&Settings::max_db_connections>({.name = "max_db_connections", .fallback = "0",
        .doc = "Servers per database and node; 0 is no limit.", .sim = "0,2,5",
        .differs = "Only with `replica_host`: it counts for each node."}),
    bind<&Settings::max_node_connections>({.name = "max_node_connections", .fallback = "0", .origin = kPgweir,
        .doc = "Servers per node over all databases; 0 is no limit.", .sim = "0,3"}),
    bind<&Settings::max_packet_size>({.name = "max_packet_size", .fallback = "2147483647",
        .limits = {.lowest = 4, .highest = 2147483647}, .doc = "Longest message that is accepted."}),
    bind<&Settings::max_prepared_statements>({.name = "max_prepared_statements", .fallback = "200",
        .doc = "Prepared statements kept per server in transaction and statement pooling, besides those that the last unit brought; 0 turns their tracking off.", .sim = "0,1,5,200"}),
    bind<&Settings::max_replica_lag>({.name = "max_replica_lag", .fallback = "10", .origin = kPgweir,
        .doc = "Replicas further behind answer no reads.", .sim = "0.1,1,10"}),
    bind<&Settings::max_replica_lag_bytes>({.name = "max_replica_lag_bytes", .fallback = "0", .origin = kPgweir, .limits = kByteSize,
        .doc = "Replicas that are further behind in bytes of WAL answer no reads; 0 is no limit.", .sim = "0,2000,100000"}),
    bind<&Settings::max_unit_buffer>({.name = "max_unit_buffer", .fallback = "1048576", .origin = kPgweir, .limits = kByteSize,
        .doc = "Bytes of a unit that are held back until its Sync; a longer one goes to the primary and streams.", .sim = "64,4096,1048576"}),
    bind<&Settings::max_user_client_connections>({.name = "max_user_client_connections", .fallback = "0",
        .doc = "Clients per user; 0 is no limit.", .sim = "0,4"}),
    bind<&Settings::max_user_connections>({.name = "max_user_connections", .fallback = "0",
        .doc = "Servers per user and node over all databases; 0 is no limit.", .sim = "0,3",
        .differs = "Only with `replica_host`: it counts for each node."}),
    bind<&Settings::min_pool_size>({.name = "min_pool_size", .fallback = "0",
        .doc = "Servers that a pool keeps at least while it has clients, and one of a forced user always.", .sim = "0,1"}),
    bind<&Settings::misroute_expiry>({.name = "misroute_expiry", .fallback = "3600", .origin = kPgweir,
        .doc = "How long after its last refusal by a standby a statement's shape goes to the primary before a replica is asked again; 0: until RELOAD.", .sim = "0,2,3600"}),
    bind<&Settings::monitor_interval>({.name = "monitor_interval", .fallback = "0.2", .origin = kPgweir,
        .doc = "How often each node is asked for its role and LSN.", .sim = "0.05,0.2,1"}),
    bind<&Settings::monitor_password>({.name = "monitor_password", .fallback = "", .origin = kPgweir,
        .doc = "The password of monitor_user; shown as stars."}),
    bind<&Settings::monitor_user>({.name = "monitor_user", .fallback = "", .origin = kPgweir,
        .doc = "Whom the monitor logs in as. Else the database's user, auth_user, or the pool's first client."}),
    bind<&Settings::on_session_state>({.name = "on_session_state", .fallback = "pin", .origin = kPgweir,
        .doc = "A client whose session state can't be moved is kept on its primary server (pin), or treated as PgBouncer does (ignore)."}),
    bind<&Settings::peer_id>({.name = "peer_id", .fallback = "0", .limits = {.lowest = 0, .highest = 16383},
        .doc = "This process's number in [peers]."}),
    bind<&Settings::pidfile>({.name = "pidfile", .fallback = "", .reload = kRestart, .doc = "Where the process writes its number."}),
    bind<&Settings::pin_window>({.name = "pin_window", .fallback = "5", .origin = kPgweir,
        .doc = "At level pin: how long a session or key reads on the primary after it has written.", .sim = "0.1,5"}),
    bind<&Settings::pkt_buf>({.name = "pkt_buf", .fallback = "4096", .reload = kRestart, .effect = kNoEffect,
        .doc = "The size of PgBouncer's buffers.",
        .differs = "There is one buffer for all connections; only what a slow peer did not take is kept for it."}),
    bind<&Settings::pool_idle_timeout>({.name = "pool_idle_timeout", .fallback = "0", .origin = kLater, .effect = kNoEffect,
        .doc = "Pools without a client and a server for longer are freed; 0 is never."}),
    bind<&Settings::pool_mode>({.name = "pool_mode", .fallback = "session",
        .doc = "When a server is given back: at the client's end (session), after a transaction, or after a statement.",
        .sim = "session,transaction,transaction,transaction"}),
    bind<&Settings::primary_functions>({.name = "primary_functions", .fallback = "", .origin = kPgweir,
        .doc = "Functions whose callers go to the primary, whatever the catalog says; separated by commas."}),
    bind<&Settings::proxy_protocol_networks>({.name = "proxy_protocol_networks", .fallback = "", .origin = kPgweir,
        .doc = "Networks of proxies, separated by commas (10.0.0.0/8, ::1). Connections from there must begin with a header of the PROXY protocol, version 1 or 2, and the address in it counts as the client's."}),
    bind<&Settings::query_timeout>({.name = "query_timeout", .fallback = "0",
        .doc = "Clients whose query runs for longer are closed; 0 is never.", .sim = "0,5"}),
    bind<&Settings::query_wait_notify>({.name = "query_wait_notify", .fallback = "5",
        .doc = "A client that waits for a server for so long is told so by a notice; 0 is never.", .sim = "0,1,5"}),
    bind<&Settings::query_wait_timeout>({.name = "query_wait_timeout", .fallback = "120",
        .doc = "Longest time a unit waits for a server before its client gets an error; 0 is no limit.", .sim = "1,5,120"}),
    bind<&Settings::read_consistency>({.name = "read_consistency", .fallback = "table", .origin = kPgweir,
        .doc = "What a replica must have replayed before it answers a read: eventual, session, table, latest, window, pin or primary (never).",
        .sim = "eventual,session,table,table,table,latest,window,pin,primary"}),
    bind<&Settings::read_only_transactions>({.name = "read_only_transactions", .fallback = "primary", .origin = kPgweir,
        .doc = "Whether transactions that begin READ ONLY may run on replicas (replica) or not (primary). Serializable ones never do.",
        .sim = "primary,replica"}),
    bind<&Settings::read_split>({.name = "read_split", .fallback = "on", .origin = kPgweir,
        .doc = "Whether reads go to the replicas of databases that have replica_host.", .sim = "on,on,on,off"}),
    bind<&Settings::replica_functions>({.name = "replica_functions", .fallback = "", .origin = kPgweir,
        .doc = "Functions that only read, whatever the catalog says; separated by commas."}),
    bind<&Settings::replica_pool_size>({.name = "replica_pool_size", .fallback = "-1", .origin = kPgweir, .limits = {.lowest = -1},
        .doc = "Servers per (database, user) and replica; -1 is as for the primary.", .sim = "-1,1,3"}),
    bind<&Settings::replica_read_timeout>({.name = "replica_read_timeout", .fallback = "5", .origin = kPgweir,
        .doc = "A read that has waited this long for a replica's first row, while the replica has WAL and replays none of it, runs on the primary instead; 0 turns that off.", .sim = "0,0.2,1,5"}),
    bind<&Settings::replica_slow_start>({.name = "replica_slow_start", .fallback = "10", .origin = kPgweir,
        .doc = "How long the share of reads of a replica that has become usable, while others were, grows from next to nothing to what its weight says; 0 turns that off.", .sim = "0,1,10"}),
    bind<&Settings::replica_wait>({.name = "replica_wait", .fallback = "0.005", .origin = kPgweir,
        .doc = "How long a read waits for a replica that is nearly far enough before it goes to the primary; 0: not at all.", .sim = "0,0.005,0.02"}),
    bind<&Settings::reserve_pool_size>({.name = "reserve_pool_size", .fallback = "0",
        .doc = "Servers that a pool may have on top once a client waited for reserve_pool_timeout.", .sim = "0,1"}),
    bind<&Settings::reserve_pool_timeout>({.name = "reserve_pool_timeout", .fallback = "5",
        .doc = "After how long a wait the reserve is used.", .sim = "0.1,5"}),
    bind<&Settings::resolv_conf>({.name = "resolv_conf", .fallback = "", .reload = kRestart, .effect = kNoEffect,
        .doc = "The resolver's own configuration file.",
        .differs = "Names are resolved by the system's resolver, which has its own configuration."}),
    bind<&Settings::sbuf_loopcnt>({.name = "sbuf_loopcnt", .fallback = "5", .effect = kNoEffect,
        .doc = "Rounds of reading per socket and event in PgBouncer.",
        .differs = "Each connection is read once for each turn of the loop, so none can keep the others waiting."}),
    bind<&Settings::scram_iterations>({.name = "scram_iterations", .fallback = "4096", .limits = {.lowest = 1},
        .doc = "Rounds of the SCRAM secret that is made from a plain password."}),
    bind<&Settings::server_check_delay>({.name = "server_check_delay", .fallback = "30",
        .doc = "A server idle for longer is checked before it is used.", .sim = "0,30"}),
    bind<&Settings::server_check_query>({.name = "server_check_query", .fallback = "<empty>",
        .doc = "The query that checks a server; `<empty>` is an empty one, nothing turns the check off."}),
    bind<&Settings::server_cleartext_password>({.name = "server_cleartext_password", .fallback = "0", .origin = kPgweir,
        .doc = "Gives a server that asks for it the password in clear text, also over a network without TLS. Over TLS, Unix sockets and within the machine it is given anyway."}),
    bind<&Settings::server_connect_timeout>({.name = "server_connect_timeout", .fallback = "15",
        .doc = "Longest time for connecting and logging in to a server.", .sim = "1,15"}),
    bind<&Settings::server_fast_close>({.name = "server_fast_close", .fallback = "0",
        .doc = "In session pooling, a server that is to be replaced is closed as soon as its transaction ends, and its client with it."}),
    bind<&Settings::server_idle_timeout>({.name = "server_idle_timeout", .fallback = "600",
        .doc = "Servers idle for longer are closed; 0 is never.", .sim = "1,600"}),
    bind<&Settings::server_lifetime>({.name = "server_lifetime", .fallback = "3600",
        .doc = "Older servers are closed when they are not in use, one after another; 0 is after one use.", .sim = "2,3600"}),
    bind<&Settings::server_login_retry>({.name = "server_login_retry", .fallback = "15",
        .doc = "Pause after a failed connection or login; new clients are told the cause at once meanwhile.", .sim = "0.5,15",
        .differs = "Only with `replica_host`: the first pauses are shorter, and grow to it."}),
    bind<&Settings::server_reset_query>({.name = "server_reset_query", .fallback = "DISCARD ALL",
        .doc = "What cleans a server between two clients in session pooling."}),
    bind<&Settings::server_reset_query_always>({.name = "server_reset_query_always", .fallback = "0",
        .doc = "Runs server_reset_query in all pool modes.", .sim = "0,0,1"}),
    bind<&Settings::server_round_robin>({.name = "server_round_robin", .fallback = "0",
        .doc = "Uses the server that has been idle for longest first, not last.", .sim = "0,1"}),
    bind<&Settings::server_tls13_ciphers>({.name = "server_tls13_ciphers", .fallback = "",
        .doc = "TLS 1.3 cipher suites towards servers, separated by colons; nothing is OpenSSL's own choice."}),
    bind<&Settings::server_tls_ca_file>({.name = "server_tls_ca_file", .fallback = "",
        .doc = "The authorities that servers' certificates come from, for verify-ca and verify-full; nothing is the system's."}),
    bind<&Settings::server_tls_cert_file>({.name = "server_tls_cert_file", .fallback = "",
        .doc = "The certificate shown to servers that ask for one."}),
    bind<&Settings::server_tls_ciphers>({.name = "server_tls_ciphers", .fallback = "default",
        .doc = "TLS ciphers towards servers up to TLS 1.2, as client_tls_ciphers."}),
    bind<&Settings::server_tls_key_file>({.name = "server_tls_key_file", .fallback = "",
        .doc = "The private key of server_tls_cert_file, without a passphrase."}),
    bind<&Settings::server_tls_protocols>({.name = "server_tls_protocols", .fallback = "secure",
        .doc = "TLS versions towards servers, as client_tls_protocols."}),
    bind<&Settings::server_tls_sslmode>({.name = "server_tls_sslmode", .fallback = "prefer",
        .doc = "TLS towards servers over TCP: disable; allow or prefer (where the server has it); require; verify-ca (a certificate from server_tls_ca_file) or verify-full (and for the very host).",
        .differs = "It and the other `server_tls_…` settings can stand on a line of `[databases]` too."}),
    bind<&Settings::server_tls_sslnegotiation>({.name = "server_tls_sslnegotiation", .fallback = "postgres", .origin = kPgweir,
        .doc = "How TLS towards servers begins: with the question whether there is any (postgres), or at once (direct: PostgreSQL 17 and newer, with server_tls_sslmode = require and above)."}),
    bind<&Settings::so_reuseport>({.name = "so_reuseport", .fallback = "0", .reload = kRestart,
        .doc = "Lets several processes listen on the same port.",
        .differs = "Only with `replica_host`: each process knows its own writes alone, so levels that rest on knowing all writes are served as `latest`."}),
    bind<&Settings::sqlstate_style>({.name = "sqlstate_style", .fallback = "postgres", .origin = kPgweir,
        .doc = "SQLSTATEs of the pooler's own errors: the one that fits, as PostgreSQL chooses it, or 08P01 for all, as PgBouncer does (pgbouncer)."}),
    bind<&Settings::stats_period>({.name = "stats_period", .fallback = "60",
        .doc = "Time over which averages are taken.", .sim = "1,60"}),
    bind<&Settings::stats_users>({.name = "stats_users", .fallback = "",
        .doc = "Users who may use SHOW on the console, separated by commas."}),
    bind<&Settings::suspend_timeout>({.name = "suspend_timeout", .fallback = "10",
        .doc = "Who has not taken what it was sent this long after SUSPEND is closed; 0 is never."}),
    bind<&Settings::syslog>({.name = "syslog", .fallback = "0", .doc = "Sends the log to syslog."}),
    bind<&Settings::syslog_facility>({.name = "syslog_facility", .fallback = "daemon",
        .doc = "The facility under which syslog gets it."}),
    bind<&Settings::syslog_ident>({.name = "syslog_ident", .fallback = "pgbouncer",
        .doc = "The name under which syslog gets it."}),
    bind<&Settings::table_window>({.name = "table_window", .fallback = "p99.9", .origin = kPgweir,
        .doc = "At level window: how long a table is read on the primary after it was written: a time, or p99.9, the lag that 99.9 % of a replica's samples stay below.",
        .sim = "p99.9,0.02,0.2"}),
    bind<&Settings::tcp_defer_accept>({.name = "tcp_defer_accept", .fallback = "1",
        .doc = "Accepts a connection only once data has come."}),
    bind<&Settings::tcp_keepalive>({.name = "tcp_keepalive", .fallback = "1", .doc = "Turns TCP keepalive on."}),
    bind<&Settings::tcp_keepcnt>({.name = "tcp_keepcnt", .fallback = "0",
        .doc = "Keepalive probes that may stay unanswered; 0 is the system's default."}),
    bind<&Settings::tcp_keepidle>({.name = "tcp_keepidle", .fallback = "0",
        .doc = "Seconds of silence before the first keepalive probe; 0 is the system's default."}),
    bind<&Settings::tcp_keepintvl>({.name = "tcp_keepintvl", .fallback = "0",
        .doc = "Seconds between keepalive probes; 0 is the system's default."}),
    bind<&Settings::tcp_socket_buffer>({.name = "tcp_socket_buffer", .fallback = "0",
        .doc = "Bytes of the kernel's socket buffers; 0 is the system's default."}),
    bind<&Settings::tcp_user_timeout>({.name = "tcp_user_timeout", .fallback = "0",
        .doc = "Milliseconds that sent data may stay unacknowledged; 0 is the system's default."}),
    bind<&Settings::track_extra_parameters>({.name = "track_extra_parameters", .fallback = "IntervalStyle", .reload = kRestart,
        .doc = "Parameters that follow the client besides the usual ones, separated by commas; the server must report them."}),
    bind<&Settings::transaction_reads>({.name = "transaction_reads", .fallback = "primary", .origin = kPgweir,
        .doc = "Whether the reads of a READ COMMITTED transaction that has done nothing else yet may run on replicas (replica) or not (primary).",
        .sim = "primary,replica"}),
    bind<&Settings::transaction_timeout>({.name = "transaction_timeout", .fallback = "0",
        .doc = "Clients whose transaction takes longer are closed; 0 is never.", .sim = "0,10"}),
    bind<&Settings::unix_socket_dir>({.name = "unix_socket_dir", .fallback = "/tmp", .reload = kRestart,
        .doc = "The directory of the Unix socket, also of servers' where host is not set; nothing is none, `@` begins an abstract name."}),
    bind<&Settings::unix_socket_group>({.name = "unix_socket_group", .fallback = "", .reload = kRestart,
        .doc = "The group that owns the Unix socket."}),
    bind<&Settings::unix_socket_mode>({.name = "unix_socket_mode", .fallback = "0777", .reload = kRestart,
        .limits = {.lowest = 0, .highest = 07777}, .doc = "The access rights of the Unix socket, in octal with a leading 0."}),
    bind<&Settings::unknown_startup_parameters>({.name = "unknown_startup_parameters", .fallback = "apply", .origin = kPgweir,
        .doc = "A startup parameter that is neither tracked nor ignored is set on the servers (apply), or its client is refused as PgBouncer does (refuse)."}),
    bind<&Settings::user>({.name = "user", .fallback = "", .reload = kRestart,
        .doc = "The system user to switch to when started as root."}),
    bind<&Settings::verbose>({.name = "verbose", .fallback = "0", .doc = "How much is logged, 0 to 3."}),
};

constexpr Option<Database> kDatabaseOptions[] = {
    on_database<&Database::application_name>({.name = "application_name", .doc = "Set on new servers."}),
    on_database<&Database::auth_dbname>({.name = "auth_dbname", .doc = "As the setting of that name."}),
    on_database<&Database::auth_query>({.name = "auth_query", .doc = "As the setting of that name."}),
    on_database<&Database::auth_query_cache_ttl>({.name = "auth_query_cache_ttl", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::auth_user>({.name = "auth_user", .doc = "As the setting of that name."}),
    on_database<&Database::client_encoding>({.name = "client_encoding", .doc = "Set on new servers."}),
    on_database<&Database::connect_query>({.name = "connect_query", .doc = "Run on each new server before its first client."}),
    on_database<&Database::datestyle>({.name = "datestyle", .doc = "Set on new servers."}),
    on_database<&Database::dbname>({.name = "dbname", .doc = "The database on the server; else the name of the line."}),
    {.name = "host", .doc = "Where PostgreSQL is: a name, an address, a Unix socket's directory, or several of them with commas. Else the Unix socket in unix_socket_dir.", .set = put_later},
    on_database<&Database::load_balance_hosts>({.name = "load_balance_hosts",
        .doc = "With several hosts and no replica_host: take turns (round-robin), or stay with one until it fails (disable)."}),
    on_database<&Database::lsn_check>({.name = "lsn_check", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::max_db_client_connections>({.name = "max_db_client_connections", .doc = "As the setting of that name."}),
    on_database<&Database::max_db_connections>({.name = "max_db_connections", .doc = "As the setting of that name."}),
    on_database<&Database::max_replica_lag>({.name = "max_replica_lag", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::max_replica_lag_bytes>({.name = "max_replica_lag_bytes", .doc = "As the setting of that name.", .origin = kPgweir, .limits = kByteSize}),
    on_database<&Database::min_pool_size>({.name = "min_pool_size", .doc = "As the setting of that name."}),
    on_database<&Database::password>({.name = "password", .doc = "The password of user; else the one of auth_file."}),
    on_database<&Database::pin_window>({.name = "pin_window", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::pool_mode>({.name = "pool_mode", .doc = "As the setting of that name."}),
    on_database<&Database::pool_size>({.name = "pool_size", .doc = "As the setting default_pool_size.",
        .differs = "Only with `replica_host`: it counts for each node."}),
    on_database<&Database::port>({.name = "port", .doc = "The port of all hosts that name none (5432).", .limits = {.lowest = 1, .highest = 65535}}),
    on_database<&Database::primary_functions>({.name = "primary_functions", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::query_wait_timeout>({.name = "query_wait_timeout", .doc = "As the setting of that name.", .origin = kLater}),
    on_database<&Database::read_consistency>({.name = "read_consistency", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::read_only_transactions>({.name = "read_only_transactions", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::read_split>({.name = "read_split", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::replica_functions>({.name = "replica_functions", .doc = "As the setting of that name.", .origin = kPgweir}),
    {.name = "replica_host", .doc = "The replicas: `h1:5432,[::1]:5433,h2,/dir`. Turns the read/write split on.", .origin = kPgweir, .set = put_later},
    on_database<&Database::replica_pool_size>({.name = "replica_pool_size", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::replica_slow_start>({.name = "replica_slow_start", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::replica_wait>({.name = "replica_wait", .doc = "As the setting of that name.", .origin = kPgweir}),
    {.name = "replica_weights", .doc = "How reads are shared out: a number from 0 (none) to 1000 for each of the hosts in replica_host, in their order (`3,1`). Else all get the same.", .origin = kPgweir, .set = put_later},
    on_database<&Database::reserve_pool_size>({.name = "reserve_pool", .doc = "An old name of reserve_pool_size."}),
    on_database<&Database::reserve_pool_size>({.name = "reserve_pool_size", .doc = "As the setting of that name."}),
    on_database<&Database::server_lifetime>({.name = "server_lifetime", .doc = "As the setting of that name."}),
    on_database<&Database::server_tls13_ciphers>({.name = "server_tls13_ciphers", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_ca_file>({.name = "server_tls_ca_file", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_cert_file>({.name = "server_tls_cert_file", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_ciphers>({.name = "server_tls_ciphers", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_key_file>({.name = "server_tls_key_file", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_protocols>({.name = "server_tls_protocols", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_sslmode>({.name = "server_tls_sslmode", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::server_tls_sslnegotiation>({.name = "server_tls_sslnegotiation", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::table_window>({.name = "table_window", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::target_session_attrs>({.name = "target_session_attrs",
        .doc = "Which of the hosts in host= may serve: any, read-write, read-only, primary, standby or prefer-standby, as libpq's parameter of that name. Not with replica_host.",
        .origin = kPgweir}),
    on_database<&Database::timezone>({.name = "timezone", .doc = "Set on new servers."}),
    on_database<&Database::transaction_reads>({.name = "transaction_reads", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_database<&Database::user>({.name = "user", .doc = "The user of all servers (one pool for all clients); else each client's own."}),
};

constexpr Option<User> kUserOptions[] = {
    on_user<&User::client_idle_timeout>({.name = "client_idle_timeout", .doc = "As the setting of that name."}),
    on_user<&User::idle_transaction_timeout>({.name = "idle_transaction_timeout", .doc = "As the setting of that name."}),
    on_user<&User::max_user_client_connections>({.name = "max_user_client_connections", .doc = "As the setting of that name."}),
    on_user<&User::max_user_connections>({.name = "max_user_connections", .doc = "As the setting of that name."}),
    on_user<&User::pool_mode>({.name = "pool_mode", .doc = "As the setting of that name."}),
    on_user<&User::pool_size>({.name = "pool_size", .doc = "As the setting default_pool_size.",
        .differs = "Only with `replica_host`: it counts for each node."}),
    on_user<&User::query_timeout>({.name = "query_timeout", .doc = "As the setting of that name."}),
    on_user<&User::query_wait_timeout>({.name = "query_wait_timeout", .doc = "As the setting of that name.", .origin = kLater}),
    on_user<&User::read_consistency>({.name = "read_consistency", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_user<&User::read_only_transactions>({.name = "read_only_transactions", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_user<&User::read_split>({.name = "read_split", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_user<&User::reserve_pool_size>({.name = "reserve_pool_size", .doc = "As the setting of that name."}),
    on_user<&User::transaction_reads>({.name = "transaction_reads", .doc = "As the setting of that name.", .origin = kPgweir}),
    on_user<&User::transaction_timeout>({.name = "transaction_timeout", .doc = "As the setting of that name."}),
};

constexpr Option<Peer> kPeerOptions[] = {
    on_peer<&Peer::host>({.name = "host", .doc = "Where the other process listens: an address, or its Unix socket's directory."}),
    on_peer<&Peer::pool_size>({.name = "pool_size", .doc = "Connections for passing cancel requests on to it."}),
    on_peer<&Peer::port>({.name = "port", .doc = "Its port (6432).", .limits = {.lowest = 1, .highest = 65535}}),
};
// clang-format on

template <class Rows>
constexpr bool sorted_by_name(const Rows& rows) {
  for (std::size_t i = 1; i < std::size(rows); ++i) {
    if (!(rows[i - 1].name < rows[i].name)) return false;
  }
  return true;
}
static_assert(sorted_by_name(kRows));
static_assert(sorted_by_name(kDatabaseOptions));
static_assert(sorted_by_name(kUserOptions));
static_assert(sorted_by_name(kPeerOptions));

}  // namespace

std::span<const Row> setting_rows() noexcept { return kRows; }
std::span<const Option<Database>> database_options() noexcept { return kDatabaseOptions; }
std::span<const Option<User>> user_options() noexcept { return kUserOptions; }
std::span<const Option<Peer>> peer_options() noexcept { return kPeerOptions; }

const Row* find_row(std::string_view name) noexcept {
  const Row* row = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                    [](const Row& a, std::string_view b) { return a.name < b; });
  return row != std::end(kRows) && row->name == name ? row : nullptr;
}

}  // namespace pgweir::config
