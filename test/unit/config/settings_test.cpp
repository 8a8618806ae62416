#include "config/settings.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "config/settings_table.h"
#include "memory_files.h"

using namespace pgweir;
using namespace pgweir::config;
using namespace std::chrono_literals;

namespace {

Result<Settings> load_text(const std::string& text) {
  return load(MemoryFiles{{"pgweir.ini", text}}, "pgweir.ini");
}

std::string error_of(const std::string& text) {
  Result<Settings> settings = load_text(text);
  return settings ? "" : settings.error().text();
}

}  // namespace

TEST_CASE("every default and every die of the simulator can be parsed", "[config]") {
  Settings settings = defaults();
  for (const Row& row : setting_rows()) {
    INFO(row.name);
    CHECK(!row.doc.empty());
    CHECK(row.doc.back() == '.');
    if (row.sim.empty()) continue;
    for (std::string_view die : split(row.sim, ',')) CHECK(row.set(row, settings, die).ok());
  }
}

TEST_CASE("defaults are PgBouncer's, and ours", "[config]") {
  const Settings settings = defaults();
  CHECK(settings.pool_mode == PoolMode::session);
  CHECK(settings.default_pool_size == 20);
  CHECK(settings.auth_type == AuthType::md5);
  CHECK(settings.query_wait_timeout == 120s);
  CHECK(settings.server_check_query == "<empty>");
  CHECK(settings.unix_socket_mode == 0777);
  CHECK(settings.read_consistency == ConsistencyLevel::table);
  CHECK(settings.monitor_interval == 200ms);
  CHECK(settings.max_unit_buffer == 1048576);
}

TEST_CASE("a whole file is read", "[config]") {
  Result<Settings> loaded = load_text(R"(
[databases]
  shop = host=10.0.0.1 port=6000 replica_host=h1:5433,[::1]:5434,h2 dbname=store pool_size=3 reserve_pool=2 read_consistency=session
  plain =
  many = host=a,b,c load_balance_hosts=disable server_lifetime=2min
  * = host=::1 user=joe password='it''s' pool_mode=statement
[users]
  web = pool_mode=transaction max_user_connections=4 query_timeout=50ms
[pgbouncer]
  listen_addr = *
  server_reset_query = DISCARD ALL ; SELECT 1
[pgweir]
  max_replica_lag = 250ms
[peers]
  1 = host=/tmp/one
  2 = host=other port=6433 pool_size=2
)");
  REQUIRE(loaded);
  const Settings& settings = *loaded;
  CHECK(settings.conffile == "pgweir.ini");
  CHECK(settings.listen_addr == "*");
  CHECK(settings.server_reset_query == "DISCARD ALL ; SELECT 1");
  CHECK(settings.max_replica_lag == 250ms);
  const Database* shop = settings.find_database("shop");
  REQUIRE(shop);
  CHECK(shop->dbname == "store");
  CHECK(shop->hosts == std::vector<HostPort>{{"10.0.0.1", 6000}});
  CHECK(shop->replica_hosts == std::vector<HostPort>{{"h1", 5433}, {"::1", 5434}, {"h2", 6000}});
  CHECK(shop->reserve_pool_size == 2);
  CHECK(shop->read_consistency == ConsistencyLevel::session);
  const Database* plain = settings.find_database("plain");
  REQUIRE(plain);
  CHECK(plain->dbname == "plain");
  CHECK(plain->hosts == std::vector<HostPort>{{"", 5432}});
  CHECK(settings.find_database("many")->hosts.size() == 3);
  CHECK(settings.find_database("many")->server_lifetime == 2min);
  CHECK(settings.find_database("nobody") == nullptr);
  const Database made = auto_database(*settings.fallback_database(), "nobody");
  CHECK(made.name == "nobody");
  CHECK(made.dbname == "nobody");
  CHECK(made.hosts == std::vector<HostPort>{{"::1", 5432}});
  CHECK(made.password == "it's");
  CHECK(settings.peers.at(1).port == 6432);
  CHECK(settings.peers.at(2).pool_size == 2);
}

TEST_CASE("the user's value beats the database's, which beats the global one", "[config]") {
  Result<Settings> loaded = load_text(R"(
[databases]
a = pool_size=3 pool_mode=statement query_wait_timeout=7 replica_host=r
b = replica_pool_size=9
[users]
u = pool_size=5 pool_mode=session query_wait_timeout=8 read_split=off
v = max_user_connections=1
[pgbouncer]
default_pool_size = 11
pool_mode = transaction
)");
  REQUIRE(loaded);
  const Database& a = *loaded->find_database("a");
  const Database& b = *loaded->find_database("b");
  const User* u = loaded->find_user("u");
  const User* v = loaded->find_user("v");
  CHECK(pool_size(*loaded, b, nullptr) == 11);
  CHECK(pool_size(*loaded, a, nullptr) == 3);
  CHECK(pool_size(*loaded, a, v) == 3);
  CHECK(pool_size(*loaded, a, u) == 5);
  CHECK(replica_pool_size(*loaded, a, u) == 5);
  CHECK(replica_pool_size(*loaded, b, u) == 9);
  CHECK(pool_mode(*loaded, b, v) == PoolMode::transaction);
  CHECK(pool_mode(*loaded, a, v) == PoolMode::statement);
  CHECK(pool_mode(*loaded, a, u) == PoolMode::session);
  CHECK(query_wait_timeout(*loaded, b, nullptr) == 120s);
  CHECK(query_wait_timeout(*loaded, a, nullptr) == 7s);
  CHECK(query_wait_timeout(*loaded, a, u) == 8s);
  CHECK(max_user_connections(*loaded, v) == 1);
  CHECK(max_user_connections(*loaded, nullptr) == 0);
  CHECK(is_split(*loaded, a, nullptr));
  CHECK_FALSE(is_split(*loaded, a, u));
  CHECK_FALSE(is_split(*loaded, b, nullptr));
}

TEST_CASE("a load fails with file, line, the value and what was expected", "[config]") {
  CHECK(error_of("[pgbouncer]\npool_mode = trx\n") ==
        "pgweir.ini:2: pool_mode = \"trx\": expected session, transaction or statement");
  CHECK(error_of("[pgbouncer]\nno_such = 1\n") == "pgweir.ini:2: unknown setting no_such");
  CHECK(error_of("[other]\nk = 1\n") ==
        "pgweir.ini:2: unknown section [other]: expected databases, users, pgbouncer, pgweir, "
        "peers, table_rules or table_rules:database");
  CHECK(error_of("[databases]\npgbouncer = host=x\n") ==
        "pgweir.ini:2: database pgbouncer: the name belongs to the console");
  CHECK(error_of("[databases]\na = host=x nope=1\n") ==
        "pgweir.ini:2: database a: unknown option nope");
  CHECK(error_of("[databases]\na = port=x\n") ==
        "pgweir.ini:2: database a: port = \"x\": expected a number from 1 to 65535");
  CHECK(error_of("[databases]\na = replica_host=h:\n") ==
        "pgweir.ini:2: database a: replica_host = \"h:\": port of h: expected a number from 1 to "
        "65535");
  CHECK(error_of("[databases]\na = host=h replica_host=h\n") ==
        "pgweir.ini:2: database a: replica_host: h:5432 is in host too");
  for (const char* weights : {"1", "1,2,3", "1,x", "1,-1", "1,1001", "0,0", "1,", "1.5,1"}) {
    INFO(weights);
    CHECK(error_of(std::string("[databases]\na = replica_weights='") + weights + "' host=p replica_host=h,i\n") ==
          std::string("pgweir.ini:2: database a: replica_weights = \"") + weights +
              "\": expected a number from 0 to 1000 for each of the 2 hosts in replica_host, and one above 0");
  }
  CHECK(error_of("[databases]\na = host=p replica_weights=1\n") ==
        "pgweir.ini:2: database a: replica_weights = \"1\": expected a number from 0 to 1000 for each of the 0 hosts in replica_host, and one above 0");
  CHECK(error_of("[databases]\na = replica_host=h,h:5432\n") ==
        "pgweir.ini:2: database a: replica_host: h:5432 is there twice");
  CHECK(error_of("[users]\nu = pool_mode=x\n") ==
        "pgweir.ini:2: user u: pool_mode = \"x\": expected session, transaction or statement");
  CHECK(error_of("[peers]\n0 = host=x\n") ==
        "pgweir.ini:2: peer 0: expected a number from 1 to 16383");
  CHECK(error_of("[peers]\n1 = port=1\n") == "pgweir.ini:2: peer 1: expected host=");
  CHECK(error_of("[pgbouncer]\nclient_tls_sslmode = strict\n") ==
        "pgweir.ini:2: client_tls_sslmode = \"strict\": expected disable, allow, prefer, require, verify-ca or "
        "verify-full");
  CHECK(error_of("[databases]\na = server_tls_sslnegotiation=first\n") ==
        "pgweir.ini:2: database a: server_tls_sslnegotiation = \"first\": expected postgres or direct");
  CHECK(error_of("[pgbouncer]\nserver_tls_sslnegotiation = direct\n") ==
        "server_tls_sslnegotiation = \"direct\": expected postgres where server_tls_sslmode is below require");
  CHECK(error_of("[databases]\na = server_tls_sslnegotiation=direct server_tls_sslmode=prefer\n") ==
        "database a: server_tls_sslnegotiation = \"direct\": expected postgres where server_tls_sslmode is below require");
  CHECK(error_of("[databases]\na = server_tls_sslnegotiation=direct server_tls_sslmode=require\n").empty());
}

TEST_CASE("a reload keeps what only a restart changes", "[config]") {
  Settings running = defaults();
  Settings fresh = defaults();
  fresh.listen_port = 7000;
  fresh.default_pool_size = 1;
  CHECK(keep_restart_only(running, fresh) == std::vector<std::string>{"listen_port"});
  CHECK(fresh.listen_port == 6432);
  CHECK(fresh.default_pool_size == 1);
}

TEST_CASE("servers are replaced when the database line names another place", "[config]") {
  Database a;
  a.hosts = {{"h", 1}};
  Database b = a;
  b.pool_size = 5;
  CHECK_FALSE(needs_new_servers(a, b));
  b.hosts = {{"h", 2}};
  CHECK(needs_new_servers(a, b));
}

TEST_CASE("settings without effect are read, checked and shown", "[config]") {
  struct Line {
    std::string name, value, bad;
  };
  const std::vector<Line> lines{{"dns_zone_check_period", "5", "often"}, {"job_name", "weir", ""},        {"pkt_buf", "8192", "much"},
                                {"pool_idle_timeout", "60", "late"},     {"resolv_conf", "/tmp/x", ""}, {"sbuf_loopcnt", "7", "x"}};
  for (const Line& line : lines) {
    INFO(line.name);
    const Result<Settings> settings = load_text("[pgbouncer]\n" + line.name + " = " + line.value + "\n");
    REQUIRE(settings);
    std::string shown;
    for (const ConfigRow& row : show_config(*settings)) {
      if (row.key == line.name) shown = row.value;
    }
    CHECK((shown == line.value || line.name == "pool_idle_timeout"));  // 1.25.2 does not show what is newer.
    if (!line.bad.empty()) CHECK_FALSE(load_text("[pgbouncer]\n" + line.name + " = " + line.bad + "\n"));
  }
}

TEST_CASE("SET changes one setting, and answers success for those of a restart", "[config]") {
  Settings settings = defaults();
  CHECK(apply_set(settings, "default_pool_size", "7").ok());
  CHECK(settings.default_pool_size == 7);
  CHECK(apply_set(settings, "listen_port", "7").ok());
  CHECK(settings.listen_port == 6432);
  CHECK_FALSE(apply_set(settings, "default_pool_size", "x").ok());
  CHECK_FALSE(apply_set(settings, "nope", "1").ok());
}

TEST_CASE("SHOW CONFIG lists values, defaults and what can be changed, but no password",
          "[config]") {
  Settings settings = defaults();
  settings.monitor_password = "secret";
  settings.stats_period = 1500ms;
  for (const ConfigRow& row : show_config(settings)) {
    if (row.key == "unix_socket_mode")
      CHECK((row.value == "511" && row.fallback == "0777" && !row.changeable));
    if (row.key == "stats_period")
      CHECK((row.value == "1.5" && row.fallback == "60" && row.changeable));
    if (row.key == "monitor_password") CHECK(row.value == "****");
    if (row.key == "auth_type") CHECK(row.value == "md5");
  }
}

TEST_CASE("comma lists are asked by whole names", "[config]") {
  CHECK(listed("a, b ,c", "b"));
  CHECK_FALSE(listed("ab,c", "a"));
  CHECK_FALSE(listed("", ""));
  CHECK_FALSE(listed("a,,b", ""));
}

TEST_CASE("the sample file loads, and with its comments taken off it says the defaults",
          "[config]") {
  const std::string sample = sample_file();
  CHECK(error_of(sample) == "");
  std::string active;
  bool settings = false;
  std::string_view rest = sample;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    settings = settings || line == "[pgbouncer]";
    const bool setting = line.size() > 1 && line[0] == ';' && line[1] != ';';
    active += settings && setting ? line.substr(1) : line;
    active += '\n';
  }
  Result<Settings> loaded = load_text(active);
  REQUIRE(loaded);
  const Settings expected = defaults();
  for (const Row& row : setting_rows()) {
    INFO(row.name);
    if (row.effect == Effect::full && row.name != "conffile")
      CHECK(row.get(*loaded) == row.get(expected));
  }
}

TEST_CASE("the configuration page's example loads", "[config]") {
  std::ifstream file(PGWEIR_SOURCE_DIR "/docs/configuration.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::size_t begin = text.find("```ini\n");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = text.find("```", begin + 7);
  Result<Settings> loaded = load_text(text.substr(begin + 7, end - begin - 7));
  REQUIRE(loaded);
  CHECK(loaded->find_database("shop")->replica_hosts.size() == 2);
}

TEST_CASE("replica_weights may stand in front of replica_host", "[config]") {
  const Result<Settings> loaded = load_text(
      "[databases]\na = host=p replica_weights=3,0,1000 replica_host=h,i,j replica_slow_start=30\nb = host=p replica_host=h\n"
      "[pgbouncer]\nreplica_slow_start = 500ms\n");
  REQUIRE(loaded.ok());
  const Database& a = *loaded->find_database("a");
  const Database& b = *loaded->find_database("b");
  CHECK(a.replica_weights == std::vector<int>{3, 0, 1000});
  CHECK(replica_slow_start(*loaded, a) == 30s);
  CHECK(b.replica_weights.empty());
  CHECK(replica_slow_start(*loaded, b) == 500ms);
}
