#include "admin/shows.h"

#include <catch2/catch.hpp>

#include "fake_world.h"

using namespace pgweir;
using namespace pgweir::admin;
using namespace std::chrono_literals;

namespace {

std::vector<std::vector<std::string>> rows_of(Fixture& fixture, std::string_view words) {
  Result<Found> found = find_command(words);
  REQUIRE(found);
  Result<Answer> answer =
      found->command->run({*found->command, found->argument, fixture.world, fixture.console});
  REQUIRE(answer);
  std::vector<std::vector<std::string>> rows;
  for (const Row& row : answer->rows) {
    CHECK(row.size() == found->command->columns.size());
    std::vector<std::string> values;
    for (const Cell& cell : row) values.push_back(cell.value_or("NULL"));
    rows.push_back(std::move(values));
  }
  return rows;
}

using Rows = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("SHOW CLIENTS and SHOW SOCKETS give every column its value", "[admin]") {
  Fixture f;
  SocketRow client;
  client.user = "joe";
  client.database = "shop";
  client.state = "active";
  client.address = "127.0.0.1";
  client.port = 5555;
  client.local_address = "127.0.0.2";
  client.local_port = 6432;
  client.connect_time = WallTime(std::chrono::seconds(1'700'000'000));
  client.wait = 1500ms;
  client.id = 7;
  client.link = 8;
  client.remote_pid = 9;
  client.application_name = "psql";
  client.prepared_statements = 2;
  f.world.clients_ = {client};
  const Rows expected = {{"C",
                          "joe",
                          "shop",
                          "none",
                          "active",
                          "127.0.0.1",
                          "5555",
                          "127.0.0.2",
                          "6432",
                          "2023-11-14 22:13:20 UTC",
                          "2023-11-14 22:13:20 UTC",
                          "1",
                          "500000",
                          "0",
                          "0x000000000007",
                          "0x000000000008",
                          "9",
                          "",
                          "psql",
                          "2",
                          "7"}};
  CHECK(rows_of(f, "SHOW CLIENTS") == expected);
  CHECK(rows_of(f, "SHOW SOCKETS")[0][4] == "cl_active");
  CHECK(rows_of(f, "SHOW ACTIVE_SOCKETS").size() == 1);
  client.type = 'S';
  client.state = "idle";
  f.world.servers_ = {client};
  CHECK(rows_of(f, "SHOW SERVERS")[0][0] == "S");
  CHECK(rows_of(f, "SHOW SOCKETS")[1][4] == "sv_idle");
  CHECK(rows_of(f, "SHOW ACTIVE_SOCKETS").size() == 1);
}

TEST_CASE("SHOW POOLS and SHOW DATABASES hold the console's own line", "[admin]") {
  Fixture f;
  SocketRow client;
  client.database = "pgbouncer";
  f.world.clients_ = {client};
  PoolRow pool;
  pool.database = "shop";
  pool.user = "joe";
  pool.sv_idle = 3;
  pool.maxwait = 2s + 1us;
  pool.pool_mode = config::PoolMode::transaction;
  f.world.pools_ = {pool};
  CHECK(rows_of(f, "SHOW POOLS") == Rows{{"shop", "joe", "0", "0", "0", "0", "0", "0", "0", "3",
                                          "0", "0", "0", "2", "1", "transaction", "NULL"},
                                         {"pgbouncer", "pgbouncer", "1", "0", "0", "0", "0", "0",
                                          "0", "0", "0", "0", "0", "0", "0", "statement", "NULL"}});
  DatabaseRow database;
  database.database.name = "shop";
  database.database.dbname = "store";
  database.database.hosts = {{"a", 5432}, {"b", 5432}};
  database.database.pool_size = 4;
  database.current_connections = 2;
  database.paused = true;
  f.world.databases_ = {database};
  CHECK(rows_of(f, "SHOW DATABASES") ==
        Rows{{"shop", "a,b", "5432", "store", "NULL", "4", "0", "0", "3600", "NULL", "round-robin",
              "0", "2", "0", "0", "1", "0"},
             {"pgbouncer", "NULL", "6432", "pgbouncer", "pgbouncer", "2", "0", "0", "3600",
              "statement", "NULL", "0", "0", "0", "1", "0", "0"}});
}

TEST_CASE("SHOW USERS shows what [users] says", "[admin]") {
  Fixture f;
  config::User web;
  web.name = "web";
  web.pool_size = 5;
  web.pool_mode = config::PoolMode::session;
  f.world.settings_->users.emplace("web", web);
  f.world.users_ = {{"web", 1, 2}, {"joe", 0, 0}};
  CHECK(rows_of(f, "SHOW USERS") == Rows{{"web", "        5", "", "session", "0", "1", "0", "2"},
                                         {"joe", "", "", "NULL", "0", "0", "0", "0"}});
}

TEST_CASE("SHOW STATS and TOTALS give totals and averages", "[admin]") {
  Fixture f;
  StatsRow one;
  one.database = "a";
  one.total.query_count = 10;
  one.total.query_time = 50us;
  one.average.query_count = 1;
  one.average.query_time = 4us;
  StatsRow two = one;
  two.database = "b";
  two.average.query_count = 3;
  two.average.query_time = 8us;
  f.world.stats_ = {one, two};
  const Rows stats = rows_of(f, "SHOW STATS");
  REQUIRE(stats.size() == 2);
  CHECK(stats[0][3] == "10");
  CHECK(stats[0][7] == "50");
  CHECK(stats[0][14] == "1");
  CHECK(stats[0][18] == "4");
  CHECK(rows_of(f, "SHOW STATS_TOTALS")[0][3] == "10");
  CHECK(rows_of(f, "SHOW STATS_AVERAGES")[1][7] == "8");
  const Rows totals = rows_of(f, "SHOW TOTALS");
  REQUIRE(totals.size() == 22);
  CHECK(totals[2] == std::vector<std::string>{"total_query_count", "20"});
  CHECK(totals[3][0] == "total_client_bytes");
  CHECK(totals[8][0] == "total_ps_client_parse_count");
  CHECK(totals[13] == std::vector<std::string>{"avg_query_count", "4"});
  CHECK(totals[17] == std::vector<std::string>{"avg_query_time", "7"});
}

TEST_CASE("the small SHOW commands", "[admin]") {
  Fixture f;
  CHECK(rows_of(f, "SHOW VERSION") == Rows{{"PgBouncer 1.25.2"}});
  CHECK(rows_of(f, "SHOW STATE") == Rows{{"active", "yes"}, {"paused", "no"}, {"suspended", "no"}});
  f.world.state_.paused = true;
  CHECK(rows_of(f, "SHOW STATE") == Rows{{"active", "no"}, {"paused", "yes"}, {"suspended", "no"}});
  CHECK(rows_of(f, "SHOW MEM") == Rows{{"client", "100", "2", "3", "500"}});
  std::string lists;
  for (const auto& row : rows_of(f, "SHOW LISTS")) lists += row[0] + " ";
  CHECK(lists ==
        "databases users peers pools peer_pools free_clients used_clients login_clients "
        "free_servers used_servers dns_names "
        "dns_zones dns_queries dns_pending ");
  CHECK(rows_of(f, "SHOW DNS_HOSTS") == Rows{{"db", "11", "10.0.0.1,::1"}, {"gone", "0", ""}});
  CHECK(rows_of(f, "SHOW DNS_ZONES").empty());
  CHECK(rows_of(f, "SHOW PEER_POOLS").empty());
  CHECK(rows_of(f, "SHOW ROUTING") == Rows{{"shop", "replica", "read", "7"}});
  CHECK(rows_of(f, "SHOW PGWEIR") == Rows{{"version", "0.1"}});
  CHECK(rows_of(f, "EXPLAIN ROUTE SELECT 1") ==
        Rows{{"shop", "replica", "h2:5432", "read", "SELECT 1", "t", "", "", "view t", "u", ""}});
  CHECK(rows_of(f, "SHOW TABLES") ==
        Rows{{"shop", "public.t", "0/10", "0", "3", "40000", "window p99.9"}, {"shop", "public.u", "NULL", "1", "0", "NULL", "NULL"}});
  CHECK(rows_of(f, "SHOW MISROUTES") ==
        Rows{{"shop", "SELECT f(?)", "3", "25006", "2023-11-14 22:13:20 UTC", "2023-11-14 22:13:25 UTC", "90"},
             {"shop", "SELECT g(?)", "1", "0A000", "2023-11-14 22:13:20 UTC", "2023-11-14 22:13:20 UTC", "NULL"}});
  CHECK(rows_of(f, "SHOW DEPENDENCIES public.t;") ==
        Rows{{"shop", "insert", "", "public.t", "table t"}});
  CHECK(f.query("SHOW DEPENDENCIES nothing").find("no catalog of a split database has a table") !=
        std::string::npos);
  CHECK(f.query("SHOW DEPENDENCIES").find("needs a table") != std::string::npos);
  f.world.settings_->peers.emplace(1, config::Peer{1, "h", 6432, 0});
  CHECK(rows_of(f, "SHOW PEERS") == Rows{{"1", "h", "6432", "0"}});
  bool seen = false;
  for (const auto& row : rows_of(f, "SHOW CONFIG")) {
    if (row[0] == "listen_port")
      CHECK(row == std::vector<std::string>{"listen_port", "6432", "6432", "no"});
    seen = seen || row == std::vector<std::string>{"max_client_conn", "100", "100", "yes"};
  }
  CHECK(seen);
}

TEST_CASE("SHOW NODES gives lag in microseconds, and NULL for what is not known", "[admin]") {
  Fixture f;
  NodeRow node;
  node.database = "shop";
  node.node = "h2:5432";
  node.role = "replica";
  node.health = "ok";
  node.lsn = "0/3000060";
  node.timeline = 1;
  node.lag = 3ms;
  node.lag_p999 = 1s;
  node.weight = 1;
  f.world.nodes_ = {node};
  CHECK(rows_of(f, "SHOW NODES") ==
        Rows{{"shop", "h2:5432", "replica", "ok", "0/3000060", "1", "NULL", "0", "3000", "0", "0",
              "1000000", "0", "0", "0", "0", "1", ""}});
}
