#include "admin/commands.h"

#include <catch2/catch.hpp>

#include "admin/orders.h"
#include "base/text.h"

using namespace pgweir;
using namespace pgweir::admin;

namespace {

std::string columns_of(std::string_view words) {
  for (const Command& command : commands()) {
    if (command.words != words) continue;
    std::string out;
    for (const Column& column : command.columns)
      out += (out.empty() ? "" : " ") + std::string(column.name);
    return out;
  }
  return "no such command";
}

/// "WORDS|argument", or the error.
std::string found_of(std::string_view text) {
  Result<Found> found = find_command(text);
  return found ? concat({found->command->words, "|", found->argument}) : found.error().text();
}

}  // namespace

TEST_CASE("columns of the SHOW commands are those of PgBouncer 1.25.2, in order", "[admin]") {
  const std::string sockets =
      "type user database replication state addr port local_addr local_port connect_time "
      "request_time wait wait_us close_needed "
      "ptr link remote_pid tls application_name prepared_statements id";
  CHECK(columns_of("SHOW CLIENTS") == sockets);
  CHECK(columns_of("SHOW SERVERS") == sockets);
  CHECK(columns_of("SHOW SOCKETS") ==
        sockets + " recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail");
  CHECK(columns_of("SHOW ACTIVE_SOCKETS") == columns_of("SHOW SOCKETS"));
  CHECK(columns_of("SHOW POOLS") ==
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active "
        "sv_active_cancel "
        "sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode "
        "load_balance_hosts");
  CHECK(columns_of("SHOW PEER_POOLS") ==
        "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login");
  CHECK(columns_of("SHOW PEERS") == "peer_id host port pool_size");
  CHECK(columns_of("SHOW DATABASES") ==
        "name host port database force_user pool_size min_pool_size reserve_pool_size "
        "server_lifetime pool_mode "
        "load_balance_hosts max_connections current_connections max_client_connections "
        "current_client_connections paused disabled");
  CHECK(columns_of("SHOW USERS") ==
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections "
        "max_user_client_connections "
        "current_client_connections");
  CHECK(columns_of("SHOW STATS") ==
        "database total_server_assignment_count total_xact_count total_query_count total_received "
        "total_sent total_xact_time "
        "total_query_time total_wait_time total_client_parse_count total_server_parse_count "
        "total_bind_count "
        "avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent "
        "avg_xact_time avg_query_time avg_wait_time "
        "avg_client_parse_count avg_server_parse_count avg_bind_count");
  CHECK(columns_of("SHOW STATS_TOTALS") ==
        "database server_assignment_count xact_count query_count bytes_received bytes_sent "
        "xact_time query_time wait_time "
        "client_parse_count server_parse_count bind_count");
  CHECK(columns_of("SHOW STATS_AVERAGES") ==
        "database server_assignment_count xact_count query_count bytes_received bytes_sent "
        "xact_time query_time wait_time "
        "avg_client_parse_count avg_server_parse_count avg_bind_count");
  CHECK(columns_of("SHOW TOTALS") == "name value");
  CHECK(columns_of("SHOW LISTS") == "list items");
  CHECK(columns_of("SHOW CONFIG") == "key value default changeable");
  CHECK(columns_of("SHOW STATE") == "key value");
  CHECK(columns_of("SHOW VERSION") == "version");
  CHECK(columns_of("SHOW MEM") == "name size used free memtotal");
  CHECK(columns_of("SHOW DNS_HOSTS") == "hostname ttl addrs");
  CHECK(columns_of("SHOW DNS_ZONES") == "zonename serial count");
  CHECK(columns_of("SHOW HELP") == "");
}

TEST_CASE("all values of STATS are numeric", "[admin]") {
  for (const Command& command : commands()) {
    if (command.words.substr(0, 10) != "SHOW STATS") continue;
    for (const Column& column : command.columns.subspan(1)) CHECK(column.type == Type::numeric);
  }
}

TEST_CASE("commands are found in any case, with a semicolon, and as SELECT", "[admin]") {
  CHECK(found_of("SHOW VERSION") == "SHOW VERSION|");
  CHECK(found_of(" show\n\tversion ; ") == "SHOW VERSION|");
  CHECK(found_of("select stats") == "SHOW STATS|");
  CHECK(found_of("show stats_totals;") == "SHOW STATS_TOTALS|");
  CHECK(found_of("pause") == "PAUSE|");
  CHECK(found_of("Pause \"My db\";") == "PAUSE|\"My db\"");
  CHECK(found_of("SHUTDOWN") == "SHUTDOWN|");
  CHECK(found_of("shutdown wait_for_clients") == "SHUTDOWN WAIT_FOR_CLIENTS|");
  CHECK(found_of("EXPLAIN ROUTE SELECT a, 'b;'; ") == "EXPLAIN ROUTE|SELECT a, 'b;'");
  CHECK(found_of("set a = b") == "SET|a = b");
}

TEST_CASE("what is no command is refused in PgBouncer's words", "[admin]") {
  CHECK(found_of("") == "invalid command '', use SHOW HELP;");
  CHECK(found_of(";") == "invalid command ';', use SHOW HELP;");
  CHECK(found_of("BEGIN") == "invalid command 'BEGIN', use SHOW HELP;");
  CHECK(found_of("select 1") == "invalid command 'select 1', use SHOW HELP;");
  CHECK(found_of("SHOW nope") == "invalid command 'SHOW nope', use SHOW HELP;");
  CHECK(found_of("SHOW VERSION; SHOW STATS") ==
        "invalid command 'SHOW VERSION; SHOW STATS', use SHOW HELP;");
  CHECK(found_of("SHOW VERSION x") == "invalid command 'SHOW VERSION x', use SHOW HELP;");
  CHECK(found_of("SELECT HELP") == "SHOW HELP|");
  CHECK(found_of("EXPLAIN SELECT 1") == "invalid command 'EXPLAIN SELECT 1', use SHOW HELP;");
  CHECK(found_of(std::string(9999, 'x')).size() < 300);
}

TEST_CASE("SET is read with = and with TO, quoted or bare", "[admin]") {
  const auto set_of = [](std::string_view text) {
    const std::optional<SetText> set = parse_set(text);
    return set ? concat({set->name, "|", set->value}) : "no";
  };
  CHECK(set_of("a = b") == "a|b");
  CHECK(set_of("a=b") == "a|b");
  CHECK(set_of("a TO 'it''s'") == "a|it's");
  CHECK(set_of("a to'x'") == "a|x");
  CHECK(set_of("a = scram-sha-256") == "a|scram-sha-256");
  CHECK(set_of("a = ''") == "a|");
  CHECK(set_of("a") == "no");
  CHECK(set_of("a =") == "no");
  CHECK(set_of("a = 'x") == "no");
  CHECK(set_of("a = 'x' y") == "no");
  CHECK(set_of("= b") == "no");
  CHECK(set_of("a b") == "no");
}
