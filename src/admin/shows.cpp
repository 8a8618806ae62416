#include "admin/shows.h"

#include <algorithm>
#include <cstdio>

#include "admin/console.h"
#include "base/text.h"

namespace pgweir::admin {
namespace {

using config::Settings;

constexpr std::string_view kConsole = "pgbouncer";

Cell cell(std::string_view text) { return std::string(text); }
Cell cell(const std::string& text) { return text; }
Cell cell(const char* text) { return std::string(text); }
Cell cell(Cell value) { return value; }
Cell cell(int number) { return std::to_string(number); }
Cell cell(std::int64_t number) { return std::to_string(number); }
Cell cell(std::uint64_t number) { return std::to_string(number); }
Cell cell(bool yes) { return yes ? "1" : "0"; }
Cell cell(Duration time) { return std::to_string(time.count()); }  // Microseconds.

/// The text, or NULL for an empty one.
Cell or_null(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

std::int64_t seconds_of(Duration time) { return time.count() / 1'000'000; }
std::int64_t rest_us_of(Duration time) { return time.count() % 1'000'000; }

template <class... Values>
Row row_of(const Values&... values) {
  Row row;
  row.reserve(sizeof...(values));
  (row.push_back(cell(values)), ...);
  return row;
}

Answer rows_only(std::vector<Row> rows = {}) {
  Answer answer;
  answer.rows = std::move(rows);
  answer.tag = "SHOW";
  return answer;
}

/// PgBouncer shows addresses of its structures; ours move, so these are the ids, looking like
/// pointers.
std::string pointer(std::uint64_t id) {
  if (id == 0) return "";
  char text[24];
  std::snprintf(text, sizeof text, "0x%012llx", static_cast<unsigned long long>(id));
  return text;
}

enum class Detail : std::uint8_t { short_rows, long_rows };

Row socket_row(const SocketRow& socket, Detail detail) {
  const std::string_view side = detail == Detail::short_rows ? ""
                                : socket.type == 'C'         ? "cl_"
                                                             : "sv_";
  const WallTime request_time =
      socket.request_time == WallTime{} ? socket.connect_time : socket.request_time;
  Row row = row_of(std::string(1, socket.type), socket.user, socket.database, socket.replication,
                   concat({side, socket.state}), socket.address, socket.port, socket.local_address,
                   socket.local_port, timestamp(socket.connect_time), timestamp(request_time),
                   seconds_of(socket.wait), rest_us_of(socket.wait), socket.close_needed,
                   pointer(socket.id), pointer(socket.link), socket.remote_pid, socket.tls,
                   socket.application_name, socket.prepared_statements, socket.id);
  // Positions in PgBouncer's stream buffers: there is none of them between messages here.
  if (detail == Detail::long_rows) row.resize(std::size(kSocketColumns), "0");
  return row;
}

std::vector<Row> socket_rows(const std::vector<SocketRow>& sockets, Detail detail) {
  std::vector<Row> rows;
  rows.reserve(sockets.size());
  for (const SocketRow& socket : sockets) rows.push_back(socket_row(socket, detail));
  return rows;
}

Row pool_row(const PoolRow& pool) {
  return row_of(pool.database, pool.user, pool.cl_active, pool.cl_waiting,
                pool.cl_active_cancel_req, pool.cl_waiting_cancel_req, pool.sv_active,
                pool.sv_active_cancel, pool.sv_being_canceled, pool.sv_idle, pool.sv_used,
                pool.sv_tested, pool.sv_login, seconds_of(pool.maxwait), rest_us_of(pool.maxwait),
                to_string(pool.pool_mode), or_null(pool.load_balance_hosts));
}

Row database_row(const Settings& settings, const DatabaseRow& shown) {
  const config::Database& database = shown.database;
  std::string hosts;
  for (const config::HostPort& host : database.hosts) {
    if (!hosts.empty()) hosts += ',';
    hosts += host.host;
  }
  const bool many = database.hosts.size() > 1;
  return row_of(database.name, or_null(hosts), database.port, database.dbname,
                or_null(database.user), config::pool_size(settings, database, nullptr),
                config::min_pool_size(settings, database),
                config::reserve_pool_size(settings, database, nullptr),
                seconds_of(config::server_lifetime(settings, database)),
                database.pool_mode ? cell(to_string(*database.pool_mode)) : Cell(),
                many ? cell(to_string(database.load_balance_hosts)) : Cell(),
                config::max_db_connections(settings, database), shown.current_connections,
                config::max_db_client_connections(settings, database),
                shown.current_client_connections, shown.paused, shown.disabled);
}

/// The console's own line: as PgBouncer has it, two connections in statement mode.
Row console_database_row(const Settings& settings, int clients) {
  return row_of(kConsole, Cell(), settings.listen_port, kConsole, kConsole, 2, 0, 0,
                seconds_of(settings.server_lifetime), "statement", Cell(), 0, 0, 0, clients, false,
                false);
}

int console_clients(const World& world) {
  int count = 0;
  for (const SocketRow& client : world.clients()) count += is_console_database(client.database);
  return count;
}

std::string right_aligned(const std::optional<int>& number, std::size_t width) {
  if (!number) return "";
  std::string text = std::to_string(*number);
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

void add_counters(Row& row, const stats::Counters& c) {
  for (Cell& value : row_of(c.server_assignment_count, c.xact_count, c.query_count,
                            c.bytes_received, c.bytes_sent, c.xact_time, c.query_time, c.wait_time,
                            c.client_parse_count, c.server_parse_count, c.bind_count)) {
    row.push_back(std::move(value));
  }
}

}  // namespace

std::string timestamp(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto day = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(seconds - day);
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d:%02d UTC",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

Result<Answer> show_clients(const Call& call) {
  return rows_only(socket_rows(call.world.clients(), Detail::short_rows));
}

Result<Answer> show_servers(const Call& call) {
  return rows_only(socket_rows(call.world.servers(), Detail::short_rows));
}

Result<Answer> show_sockets(const Call& call) {
  std::vector<SocketRow> sockets = call.world.clients();
  for (SocketRow& server : call.world.servers()) sockets.push_back(std::move(server));
  return rows_only(socket_rows(sockets, Detail::long_rows));
}

Result<Answer> show_active_sockets(const Call& call) {
  std::vector<SocketRow> sockets;
  for (SocketRow& client : call.world.clients()) {
    if (client.state == "active") sockets.push_back(std::move(client));
  }
  for (SocketRow& server : call.world.servers()) {
    if (server.state == "active") sockets.push_back(std::move(server));
  }
  return rows_only(socket_rows(sockets, Detail::long_rows));
}

Result<Answer> show_pools(const Call& call) {
  std::vector<Row> rows;
  for (const PoolRow& pool : call.world.pools()) rows.push_back(pool_row(pool));
  PoolRow console;
  console.database = console.user = kConsole;
  console.cl_active = console_clients(call.world);
  console.pool_mode = config::PoolMode::statement;
  rows.push_back(pool_row(console));
  return rows_only(std::move(rows));
}

Result<Answer> show_peers(const Call& call) {
  std::vector<Row> rows;
  for (const auto& [id, peer] : call.world.settings()->peers) {
    rows.push_back(row_of(id, peer.host, peer.port, peer.pool_size));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_peer_pools(const Call& call) {
  std::vector<Row> rows;
  for (const PeerPoolRow& pool : call.world.peer_pools()) {
    rows.push_back(row_of(pool.peer_id, pool.cl_active_cancel_req, pool.cl_waiting_cancel_req,
                          pool.sv_active_cancel, pool.sv_login));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_databases(const Call& call) {
  const std::shared_ptr<const Settings> settings = call.world.settings();
  std::vector<Row> rows;
  for (const DatabaseRow& database : call.world.databases())
    rows.push_back(database_row(*settings, database));
  rows.push_back(console_database_row(*settings, console_clients(call.world)));
  return rows_only(std::move(rows));
}

Result<Answer> show_users(const Call& call) {
  const std::shared_ptr<const Settings> settings = call.world.settings();
  std::vector<Row> rows;
  for (const UserRow& user : call.world.users()) {
    const config::User* line = settings->find_user(user.name);
    rows.push_back(row_of(user.name, right_aligned(line ? line->pool_size : std::nullopt, 9),
                          right_aligned(line ? line->reserve_pool_size : std::nullopt, 17),
                          line && line->pool_mode ? cell(to_string(*line->pool_mode)) : Cell(),
                          config::max_user_connections(*settings, line), user.current_connections,
                          config::max_user_client_connections(*settings, line),
                          user.current_client_connections));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_stats(const Call& call) {
  std::vector<Row> rows;
  for (const StatsRow& stats : call.world.stats()) {
    rows.push_back(row_of(stats.database));
    add_counters(rows.back(), stats.total);
    add_counters(rows.back(), stats.average);
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_stats_totals(const Call& call) {
  std::vector<Row> rows;
  for (const StatsRow& stats : call.world.stats()) {
    rows.push_back(row_of(stats.database));
    add_counters(rows.back(), stats.total);
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_stats_averages(const Call& call) {
  std::vector<Row> rows;
  for (const StatsRow& stats : call.world.stats()) {
    rows.push_back(row_of(stats.database));
    add_counters(rows.back(), stats.average);
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_totals(const Call& call) {
  constexpr std::string_view kNames[] = {"server_assignment_count",
                                         "xact_count",
                                         "query_count",
                                         "client_bytes",
                                         "server_bytes",
                                         "xact_time",
                                         "query_time",
                                         "wait_time",
                                         "ps_client_parse_count",
                                         "ps_server_parse_count",
                                         "ps_bind_count"};
  Row totals;
  Row averages;
  stats::Counters total;
  stats::Counters average;
  stats::Counters weighted;  // Average times, each with its number of events.
  for (const StatsRow& stats : call.world.stats()) {
    total += stats.total;
    average += stats.average;
    const auto times = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
    weighted.xact_time += stats.average.xact_time * times(stats.average.xact_count);
    weighted.query_time += stats.average.query_time * times(stats.average.query_count);
    weighted.wait_time += stats.average.wait_time * times(stats.average.server_assignment_count);
  }
  const auto divide = [](Duration sum, std::uint64_t count) {
    return count == 0 ? Duration{} : Duration(sum.count() / static_cast<std::int64_t>(count));
  };
  average.xact_time = divide(weighted.xact_time, average.xact_count);
  average.query_time = divide(weighted.query_time, average.query_count);
  average.wait_time = divide(weighted.wait_time, average.server_assignment_count);
  add_counters(totals, total);
  add_counters(averages, average);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < totals.size(); ++i)
    rows.push_back(row_of(concat({"total_", kNames[i]}), totals[i]));
  for (std::size_t i = 0; i < averages.size(); ++i)
    rows.push_back(row_of(concat({"avg_", kNames[i]}), averages[i]));
  return rows_only(std::move(rows));
}

Result<Answer> show_dns_hosts(const Call& call) {
  std::vector<Row> rows;
  for (const DnsHostRow& host : call.world.dns_hosts())
    rows.push_back(row_of(host.name, host.ttl_s, host.addresses));
  return rows_only(std::move(rows));
}

Result<Answer> show_lists(const Call& call) {
  const Lists lists = call.world.lists();
  return rows_only(
      {row_of("databases", lists.databases), row_of("users", lists.users),
       row_of("peers", lists.peers), row_of("pools", lists.pools),
       row_of("peer_pools", lists.peer_pools), row_of("free_clients", lists.free_clients),
       row_of("used_clients", lists.used_clients), row_of("login_clients", lists.login_clients),
       row_of("free_servers", lists.free_servers), row_of("used_servers", lists.used_servers),
       row_of("dns_names", lists.dns_names), row_of("dns_zones", lists.dns_zones),
       row_of("dns_queries", lists.dns_queries), row_of("dns_pending", lists.dns_pending)});
}

Result<Answer> show_config(const Call& call) {
  std::vector<Row> rows;
  for (const config::ConfigRow& row : config::show_config(*call.world.settings())) {
    rows.push_back(row_of(row.key, row.value, row.fallback, row.changeable ? "yes" : "no"));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_state(const Call& call) {
  const State state = call.world.state();
  const auto yes_no = [](bool yes) { return yes ? "yes" : "no"; };
  return rows_only({row_of("active", yes_no(!state.paused && !state.suspended)),
                    row_of("paused", yes_no(state.paused)),
                    row_of("suspended", yes_no(state.suspended))});
}

Result<Answer> show_version(const Call& call) {
  return rows_only({row_of(concat({"PgBouncer ", call.world.settings()->announce_version}))});
}

Result<Answer> show_memory(const Call& call) {
  std::vector<Row> rows;
  for (const MemoryRow& row : call.world.memory()) {
    rows.push_back(row_of(row.name, row.size_bytes, row.used, row.free,
                          row.size_bytes * (row.used + row.free)));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_nodes(const Call& call) {
  std::vector<Row> rows;
  for (const NodeRow& node : call.world.nodes()) {
    rows.push_back(row_of(node.database, node.node, node.role, node.health, or_null(node.lsn),
                          node.timeline, or_null(node.system_id), node.lag_bytes, node.lag,
                          node.lag_p50, node.lag_p99, node.lag_p999, node.sv_active, node.sv_idle,
                          node.sv_login, node.outstanding, node.weight, node.reason));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_routing(const Call& call) {
  std::vector<Row> rows;
  for (const RoutingRow& row : call.world.routing())
    rows.push_back(row_of(row.database, row.target, row.reason, row.units));
  return rows_only(std::move(rows));
}

Result<Answer> show_pgweir(const Call& call) {
  std::vector<Row> rows;
  for (const auto& [key, value] : call.world.facts()) rows.push_back(row_of(key, value));
  return rows_only(std::move(rows));
}

Result<Answer> explain_route(const Call& call) {
  if (call.argument.empty()) return Error("EXPLAIN ROUTE needs a statement");
  std::vector<Row> rows;
  for (const ExplainRow& row : call.world.explain_route(call.argument)) {
    rows.push_back(row_of(row.database, row.target, row.node, row.reason, row.statement_class,
                          row.tables_read, row.tables_written, row.functions, row.because,
                          row.read_deep, row.written_deep));
  }
  Answer answer = rows_only(std::move(rows));
  answer.tag = "EXPLAIN";
  return answer;
}

Result<Answer> show_tables(const Call& call) {
  std::vector<Row> rows;
  for (const TableRow& row : call.world.tables()) {
    const Cell lsn = row.lsn.empty() ? Cell() : Cell(row.lsn);
    const std::int64_t age_s = std::chrono::duration_cast<std::chrono::seconds>(row.age).count();
    const Cell window = row.window ? Cell(std::to_string(row.window->count())) : Cell();
    const Cell rule = row.rule.empty() ? Cell() : Cell(row.rule);
    rows.push_back(row_of(row.database, row.table, lsn, row.pending ? 1 : 0, age_s, window, rule));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_dependencies(const Call& call) {
  if (call.argument.empty()) return Error("42601", "SHOW DEPENDENCIES needs a table");
  std::vector<Row> rows;
  for (const DependencyRow& row : call.world.dependencies(call.argument))
    rows.push_back(row_of(row.database, row.action, row.reads, row.writes, row.because));
  if (rows.empty()) {
    return Error("42P01",
                 concat({"no catalog of a split database has a table \"", call.argument, "\""}));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_misroutes(const Call& call) {
  std::vector<Row> rows;
  for (const MisrouteRow& row : call.world.misroutes()) {
    rows.push_back(row_of(row.database, row.statement, row.count, row.sqlstate, timestamp(row.first), timestamp(row.last),
                          row.left ? cell(seconds_of(*row.left)) : Cell()));
  }
  return rows_only(std::move(rows));
}

Result<Answer> show_nothing(const Call&) { return rows_only(); }

}  // namespace pgweir::admin
