#include "config/settings.h"

#include <algorithm>

#include "base/text.h"
#include "config/settings_table.h"

namespace pgweir::config {
namespace {

/// The user's value, else the database's, else the global one.
template <class T>
T first_set(const std::optional<T>& of_user, const std::optional<T>& of_database, const T& of_all) {
  return of_user ? *of_user : of_database ? *of_database : of_all;
}

template <class T>
std::optional<T> of(const User* user, std::optional<T> User::*member) {
  return user ? user->*member : std::nullopt;
}

}  // namespace

const Database* Settings::find_database(std::string_view name) const {
  const auto found = databases.find(name);
  return found == databases.end() ? nullptr : &found->second;
}

const User* Settings::find_user(std::string_view name) const {
  const auto found = users.find(name);
  return found == users.end() ? nullptr : &found->second;
}

bool NetworkList::holds(const IpAddress& ip) const noexcept {
  return std::any_of(networks.begin(), networks.end(), [&](const IpNetwork& network) { return network.holds(ip); });
}

Database auto_database(const Database& fallback, std::string_view name) {
  Database database = fallback;
  database.name = name;
  if (database.dbname.empty()) database.dbname = name;
  return database;
}

PoolMode pool_mode(const Settings& all, const Database& database, const User* user) noexcept {
  return first_set(of(user, &User::pool_mode), database.pool_mode, all.pool_mode);
}
int pool_size(const Settings& all, const Database& database, const User* user) noexcept {
  return first_set(of(user, &User::pool_size), database.pool_size, all.default_pool_size);
}
int min_pool_size(const Settings& all, const Database& database) noexcept {
  return database.min_pool_size.value_or(all.min_pool_size);
}
int reserve_pool_size(const Settings& all, const Database& database, const User* user) noexcept {
  return first_set(of(user, &User::reserve_pool_size), database.reserve_pool_size,
                   all.reserve_pool_size);
}
int replica_pool_size(const Settings& all, const Database& database, const User* user) noexcept {
  const int size = database.replica_pool_size.value_or(all.replica_pool_size);
  return size >= 0 ? size : pool_size(all, database, user);
}
int max_db_connections(const Settings& all, const Database& database) noexcept {
  return database.max_db_connections.value_or(all.max_db_connections);
}
int max_db_client_connections(const Settings& all, const Database& database) noexcept {
  return database.max_db_client_connections.value_or(all.max_db_client_connections);
}
int max_user_connections(const Settings& all, const User* user) noexcept {
  return of(user, &User::max_user_connections).value_or(all.max_user_connections);
}
int max_user_client_connections(const Settings& all, const User* user) noexcept {
  return of(user, &User::max_user_client_connections).value_or(all.max_user_client_connections);
}
Duration server_lifetime(const Settings& all, const Database& database) noexcept {
  return database.server_lifetime.value_or(all.server_lifetime);
}
Duration query_wait_timeout(const Settings& all, const Database& database,
                            const User* user) noexcept {
  return first_set(of(user, &User::query_wait_timeout), database.query_wait_timeout,
                   all.query_wait_timeout);
}
Duration query_timeout(const Settings& all, const User* user) noexcept {
  return of(user, &User::query_timeout).value_or(all.query_timeout);
}
Duration idle_transaction_timeout(const Settings& all, const User* user) noexcept {
  return of(user, &User::idle_transaction_timeout).value_or(all.idle_transaction_timeout);
}
Duration transaction_timeout(const Settings& all, const User* user) noexcept {
  return of(user, &User::transaction_timeout).value_or(all.transaction_timeout);
}
Duration client_idle_timeout(const Settings& all, const User* user) noexcept {
  return of(user, &User::client_idle_timeout).value_or(all.client_idle_timeout);
}
ConsistencyLevel read_consistency(const Settings& all, const Database& database,
                                  const User* user) noexcept {
  return first_set(of(user, &User::read_consistency), database.read_consistency,
                   all.read_consistency);
}
bool is_split(const Settings& all, const Database& database, const User* user) noexcept {
  return !database.replica_hosts.empty() &&
         first_set(of(user, &User::read_split), database.read_split, all.read_split) ==
             ReadSplit::on;
}
LsnCheck lsn_check(const Settings& all, const Database& database) noexcept {
  return database.lsn_check.value_or(all.lsn_check);
}
BlockReads read_only_transactions(const Settings& all, const Database& database, const User* user) noexcept {
  return first_set(of(user, &User::read_only_transactions), database.read_only_transactions, all.read_only_transactions);
}
BlockReads transaction_reads(const Settings& all, const Database& database, const User* user) noexcept {
  return first_set(of(user, &User::transaction_reads), database.transaction_reads, all.transaction_reads);
}
std::int64_t max_replica_lag_bytes(const Settings& all, const Database& database) noexcept {
  return database.max_replica_lag_bytes.value_or(all.max_replica_lag_bytes);
}
Duration max_replica_lag(const Settings& all, const Database& database) noexcept {
  return database.max_replica_lag.value_or(all.max_replica_lag);
}
Duration replica_slow_start(const Settings& all, const Database& database) noexcept {
  return database.replica_slow_start.value_or(all.replica_slow_start);
}
Duration replica_wait(const Settings& all, const Database& database) noexcept {
  return database.replica_wait.value_or(all.replica_wait);
}
Duration pin_window(const Settings& all, const Database& database) noexcept {
  return database.pin_window.value_or(all.pin_window);
}
TableWindow table_window(const Settings& all, const Database& database) noexcept {
  return database.table_window.value_or(all.table_window);
}
const std::string& replica_functions(const Settings& all, const Database& database) noexcept {
  return database.replica_functions ? *database.replica_functions : all.replica_functions;
}
const std::string& primary_functions(const Settings& all, const Database& database) noexcept {
  return database.primary_functions ? *database.primary_functions : all.primary_functions;
}
std::string_view auth_user(const Settings& all, const Database& database) noexcept {
  return database.auth_user.empty() ? all.auth_user : database.auth_user;
}
std::string_view auth_dbname(const Settings& all, const Database& database) noexcept {
  return database.auth_dbname.empty() ? all.auth_dbname : database.auth_dbname;
}
std::string_view auth_query(const Settings& all, const Database& database) noexcept {
  return database.auth_query.empty() ? all.auth_query : database.auth_query;
}
Duration auth_query_cache_ttl(const Settings& all, const Database& database) noexcept {
  return database.auth_query_cache_ttl.value_or(all.auth_query_cache_ttl);
}

TlsMode server_tls_sslmode(const Settings& all, const Database& database) noexcept {
  return database.server_tls_sslmode.value_or(all.server_tls_sslmode);
}
SslNegotiation server_tls_sslnegotiation(const Settings& all, const Database& database) noexcept {
  return database.server_tls_sslnegotiation.value_or(all.server_tls_sslnegotiation);
}

bool listed(std::string_view comma_list, std::string_view name) noexcept {
  while (!comma_list.empty()) {
    const std::size_t comma = std::min(comma_list.find(','), comma_list.size());
    if (trimmed(comma_list.substr(0, comma)) == name) return !name.empty();
    comma_list.remove_prefix(std::min(comma + 1, comma_list.size()));
  }
  return false;
}

std::vector<std::string> keep_restart_only(const Settings& running, Settings& fresh) {
  std::vector<std::string> waiting;
  for (const Row& row : setting_rows()) {
    if (row.reload == Reload::live || row.get(running) == row.get(fresh)) continue;
    waiting.emplace_back(row.name);
    row.copy(running, fresh);
  }
  return waiting;
}

bool needs_new_servers(const Database& before, const Database& after) noexcept {
  // Password and the startup parameters too: servers made with the old ones would stay as they are.
  return before.dbname != after.dbname || before.hosts != after.hosts ||
         before.replica_hosts != after.replica_hosts || before.user != after.user ||
         before.password != after.password || before.connect_query != after.connect_query ||
         before.auth_dbname != after.auth_dbname || before.auth_query != after.auth_query ||
         before.load_balance_hosts != after.load_balance_hosts ||
         before.target_session_attrs != after.target_session_attrs ||
         before.client_encoding != after.client_encoding || before.datestyle != after.datestyle ||
         before.timezone != after.timezone || before.application_name != after.application_name;
}

std::vector<ConfigRow> show_config(const Settings& settings) {
  std::vector<ConfigRow> rows;
  rows.reserve(setting_rows().size());
  for (const Row& row : setting_rows()) {
    if (row.origin == Origin::later) continue;  // The announced PgBouncer does not know it.
    ConfigRow shown{std::string(row.name), row.get(settings), std::string(row.fallback),
                    row.reload == Reload::live};
    if ((row.name == "monitor_password" || row.name == "auth_ldap_options") && !shown.value.empty())
      shown.value = "****";
    rows.push_back(std::move(shown));
  }
  return rows;
}

}  // namespace pgweir::config
