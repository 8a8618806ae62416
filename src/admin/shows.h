// The SHOW commands: for each its columns, exactly PgBouncer 1.25.2's where PgBouncer has it, and
// the function that fills them. Operators and exporters compare count and order, so new facts go
// into new commands.
#pragma once

#include "admin/commands.h"

namespace pgweir::admin {

inline constexpr auto kInt4 = Type::int4;
inline constexpr auto kInt8 = Type::int8;
inline constexpr auto kNumeric = Type::numeric;

// Tables of columns.
// clang-format off
// CLIENTS and SERVERS are the first kSocketColumnCount of these; SOCKETS is all of them.
inline constexpr Column kSocketColumns[] = {
    {"type"}, {"user"}, {"database"}, {"replication"}, {"state"}, {"addr"}, {"port", kInt4}, {"local_addr"},
    {"local_port", kInt4}, {"connect_time"}, {"request_time"}, {"wait", kInt4}, {"wait_us", kInt4},
    {"close_needed", kInt4}, {"ptr"}, {"link"}, {"remote_pid", kInt4}, {"tls"}, {"application_name"},
    {"prepared_statements", kInt4}, {"id", kInt4},
    {"recv_pos", kInt4}, {"pkt_pos", kInt4}, {"pkt_remain", kInt4}, {"send_pos", kInt4}, {"send_remain", kInt4},
    {"pkt_avail", kInt4}, {"send_avail", kInt4}};
inline constexpr std::size_t kSocketColumnCount = 21;
inline constexpr std::span<const Column> kClientColumns(kSocketColumns, kSocketColumnCount);

inline constexpr Column kPoolColumns[] = {
    {"database"}, {"user"}, {"cl_active", kInt4}, {"cl_waiting", kInt4}, {"cl_active_cancel_req", kInt4},
    {"cl_waiting_cancel_req", kInt4}, {"sv_active", kInt4}, {"sv_active_cancel", kInt4}, {"sv_being_canceled", kInt4},
    {"sv_idle", kInt4}, {"sv_used", kInt4}, {"sv_tested", kInt4}, {"sv_login", kInt4}, {"maxwait", kInt4},
    {"maxwait_us", kInt4}, {"pool_mode"}, {"load_balance_hosts"}};

inline constexpr Column kPeerPoolColumns[] = {
    {"peer_id", kInt4}, {"cl_active_cancel_req", kInt4}, {"cl_waiting_cancel_req", kInt4}, {"sv_active_cancel", kInt4},
    {"sv_login", kInt4}};
inline constexpr Column kPeerColumns[] = {{"peer_id", kInt4}, {"host"}, {"port", kInt4}, {"pool_size", kInt4}};

inline constexpr Column kDatabaseColumns[] = {
    {"name"}, {"host"}, {"port", kInt4}, {"database"}, {"force_user"}, {"pool_size", kInt4}, {"min_pool_size", kInt4},
    {"reserve_pool_size", kInt4}, {"server_lifetime", kInt4}, {"pool_mode"}, {"load_balance_hosts"},
    {"max_connections", kInt4}, {"current_connections", kInt4}, {"max_client_connections", kInt4},
    {"current_client_connections", kInt4}, {"paused", kInt4}, {"disabled", kInt4}};

inline constexpr Column kUserColumns[] = {
    {"name"}, {"pool_size"}, {"reserve_pool_size"}, {"pool_mode"}, {"max_user_connections", kInt4},
    {"current_connections", kInt4}, {"max_user_client_connections", kInt4}, {"current_client_connections", kInt4}};

inline constexpr Column kStatsColumns[] = {
    {"database"}, {"total_server_assignment_count", kNumeric}, {"total_xact_count", kNumeric},
    {"total_query_count", kNumeric}, {"total_received", kNumeric}, {"total_sent", kNumeric},
    {"total_xact_time", kNumeric}, {"total_query_time", kNumeric}, {"total_wait_time", kNumeric},
    {"total_client_parse_count", kNumeric}, {"total_server_parse_count", kNumeric}, {"total_bind_count", kNumeric},
    {"avg_server_assignment_count", kNumeric}, {"avg_xact_count", kNumeric}, {"avg_query_count", kNumeric},
    {"avg_recv", kNumeric}, {"avg_sent", kNumeric}, {"avg_xact_time", kNumeric}, {"avg_query_time", kNumeric},
    {"avg_wait_time", kNumeric}, {"avg_client_parse_count", kNumeric}, {"avg_server_parse_count", kNumeric},
    {"avg_bind_count", kNumeric}};
inline constexpr Column kStatsTotalsColumns[] = {
    {"database"}, {"server_assignment_count", kNumeric}, {"xact_count", kNumeric}, {"query_count", kNumeric},
    {"bytes_received", kNumeric}, {"bytes_sent", kNumeric}, {"xact_time", kNumeric}, {"query_time", kNumeric},
    {"wait_time", kNumeric}, {"client_parse_count", kNumeric}, {"server_parse_count", kNumeric},
    {"bind_count", kNumeric}};
inline constexpr Column kStatsAveragesColumns[] = {
    {"database"}, {"server_assignment_count", kNumeric}, {"xact_count", kNumeric}, {"query_count", kNumeric},
    {"bytes_received", kNumeric}, {"bytes_sent", kNumeric}, {"xact_time", kNumeric}, {"query_time", kNumeric},
    {"wait_time", kNumeric}, {"avg_client_parse_count", kNumeric}, {"avg_server_parse_count", kNumeric},
    {"avg_bind_count", kNumeric}};
inline constexpr Column kTotalsColumns[] = {{"name"}, {"value", kNumeric}};

inline constexpr Column kListsColumns[] = {{"list"}, {"items", kInt4}};
inline constexpr Column kConfigColumns[] = {{"key"}, {"value"}, {"default"}, {"changeable"}};
inline constexpr Column kKeyValueColumns[] = {{"key"}, {"value"}};
inline constexpr Column kVersionColumns[] = {{"version"}};
inline constexpr Column kMemoryColumns[] = {{"name"}, {"size", kInt4}, {"used", kInt4}, {"free", kInt4}, {"memtotal", kInt4}};
inline constexpr Column kDnsHostColumns[] = {{"hostname"}, {"ttl", kInt8}, {"addrs"}};
inline constexpr Column kDnsZoneColumns[] = {{"zonename"}, {"serial", kInt8}, {"count", kInt4}};

inline constexpr Column kNodeColumns[] = {
    {"database"}, {"node"}, {"role"}, {"health"}, {"lsn"}, {"timeline", kInt4}, {"system_id"}, {"lag_bytes", kInt8},
    {"lag_us", kInt8}, {"lag_p50_us", kInt8}, {"lag_p99_us", kInt8}, {"lag_p999_us", kInt8}, {"sv_active", kInt4},
    {"sv_idle", kInt4}, {"sv_login", kInt4}, {"outstanding", kInt4}, {"weight", kInt4}, {"reason"}};
inline constexpr Column kRoutingColumns[] = {{"database"}, {"target"}, {"reason"}, {"units", kInt8}};
inline constexpr Column kExplainColumns[] = {
    {"database"}, {"target"}, {"node"}, {"reason"}, {"class"}, {"tables_read"}, {"tables_written"}, {"functions"}, {"because"}, {"tables_read_deep"}, {"tables_written_deep"}};
inline constexpr Column kTableColumns[] = {
    {"database"}, {"table"}, {"last_write_lsn"}, {"pending", Type::int4}, {"last_write_age_seconds", Type::int8}, {"window_us", Type::int8}, {"rule"}};
inline constexpr Column kMisrouteColumns[] = {
    {"database"}, {"statement"}, {"count", kInt8}, {"sqlstate"}, {"first_refused"}, {"last_refused"}, {"seconds_left", kInt8}};
inline constexpr Column kDependencyColumns[] = {{"database"}, {"action"}, {"reads"}, {"writes"}, {"because"}};

// What drivers ask a fresh connection.
inline constexpr Column kClientEncodingColumns[] = {{"client_encoding"}};
inline constexpr Column kIsolationColumns[] = {{"default_transaction_isolation"}};
inline constexpr Column kStandardStringsColumns[] = {{"standard_conforming_strings"}};
inline constexpr Column kDateStyleColumns[] = {{"datestyle"}};
inline constexpr Column kTimeZoneColumns[] = {{"timezone"}};
// clang-format on

Result<Answer> show_clients(const Call& call);
Result<Answer> show_servers(const Call& call);
Result<Answer> show_sockets(const Call& call);
Result<Answer> show_active_sockets(const Call& call);
Result<Answer> show_pools(const Call& call);
Result<Answer> show_peers(const Call& call);
Result<Answer> show_peer_pools(const Call& call);
Result<Answer> show_dns_hosts(const Call& call);
Result<Answer> show_databases(const Call& call);
Result<Answer> show_users(const Call& call);
Result<Answer> show_stats(const Call& call);
Result<Answer> show_stats_totals(const Call& call);
Result<Answer> show_stats_averages(const Call& call);
Result<Answer> show_totals(const Call& call);
Result<Answer> show_lists(const Call& call);
Result<Answer> show_config(const Call& call);
Result<Answer> show_state(const Call& call);
Result<Answer> show_version(const Call& call);
Result<Answer> show_memory(const Call& call);
Result<Answer> show_nodes(const Call& call);
Result<Answer> show_routing(const Call& call);
Result<Answer> show_pgweir(const Call& call);
Result<Answer> explain_route(const Call& call);
Result<Answer> show_tables(const Call& call);
Result<Answer> show_dependencies(const Call& call);
Result<Answer> show_misroutes(const Call& call);
/// For what can't have rows here: the system's resolver knows no zones.
Result<Answer> show_nothing(const Call& call);

/// 2026-01-31 23:59:59 UTC
std::string timestamp(WallTime time);

}  // namespace pgweir::admin
