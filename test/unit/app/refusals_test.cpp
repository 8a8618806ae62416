// What clients and the log are told when a limit or a time-out is reached, or a login fails: text, SQLSTATE, and when.
#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

/// kIni's settings with other lines of [databases], and whatever comes behind.
std::string ini_with(std::string_view databases, std::string_view more = {}) {
  return concat({"[databases]\n", databases, "\n", kIni.substr(kIni.find("[pgbouncer]")), more});
}

/// A bench with one client of its pool, and that pool's one server.
struct Pair : Bench {
  explicit Pair(std::string_view more = "") : Bench(more) {
    one = client("shop", "web");
    server = server_logs_in();
    one->take();
  }
  std::shared_ptr<Wire> one;
  std::shared_ptr<Wire> server;
};

std::string cancel_request_of(const std::string& welcome) {
  const std::size_t at = welcome.find(std::string("K\0\0\0\x0c", 5));
  REQUIRE(at != std::string::npos);
  std::string request;
  protocol::append_cancel(request, load_u32(welcome.data() + at + 5),
                          load_u32(welcome.data() + at + 9));
  return request;
}

}  // namespace

// --- the SQLSTATE of the pooler's own errors

TEST_CASE("errors of the pooler have PostgreSQL's SQLSTATE, or 08P01 with sqlstate_style = pgbouncer",
          "[refusals]") {
  const bool plain = GENERATE(false, true);
  Bench b(plain ? "sqlstate_style = pgbouncer\nmax_client_conn = 1\nclient_idle_timeout = 3\n"
                : "max_client_conn = 1\nclient_idle_timeout = 3\n");
  const auto wanted = [&](std::string_view code, std::string_view text) {
    return concat({"FATAL ", plain ? "08P01" : code, " ", text});
  };
  CHECK(error_on(*b.client("attic", "web")) == wanted("3D000", "no such database: attic"));
  auto one = b.client("shop", "web");
  b.server_logs_in();
  CHECK(error_on(*b.client("shop", "web")) ==
        wanted("53300", "no more connections allowed (max_client_conn)"));
  b.pass(4s);
  CHECK(error_on(*one) == wanted("57P05", "client_idle_timeout"));
}

TEST_CASE("the style of SQLSTATEs changes with a reload", "[refusals]") {
  Bench b;
  CHECK(last_said(*b.client("attic", "web"), 'E').sqlstate == "3D000");
  b.reload(std::string(kIni) + "sqlstate_style = pgbouncer\n");
  CHECK(last_said(*b.client("attic", "web"), 'E').sqlstate == "08P01");
}

TEST_CASE("a node's own error keeps its SQLSTATE in both styles", "[refusals]") {
  const bool plain = GENERATE(false, true);
  Bench b(plain ? "sqlstate_style = pgbouncer\n" : "");
  auto client = b.client("shop", "web");
  b.refuse(*b.dialer.dialled[0], "3D000", "database \"shop\" does not exist");
  CHECK(error_on(*client) == "FATAL 3D000 database \"shop\" does not exist");
}

TEST_CASE("a shutdown is said with 08P01 and a failed RELOAD with F0000 in both styles", "[refusals]") {
  const bool plain = GENERATE(false, true);
  Pair b(plain ? "sqlstate_style = pgbouncer\n" : "");
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  b.files.files["p.ini"] += "nonsense = 1\n";
  b.ask(*own, "RELOAD");
  CHECK(error_on(*own) == "ERROR F0000 RELOAD failed, see logs for additional details");
  b.ask(*own, "KILL nowhere");
  CHECK(error_on(*own) == "ERROR 08P01 no such database: nowhere");
  b.ask(*b.one, "begin");
  b.pooler.request_shutdown(app::Shutdown::wait_for_servers);
  b.turn();
  CHECK(error_on(*b.client("shop", "web")) == "FATAL 08P01 pooler is shutting down");
}

// --- logging in

TEST_CASE("a client whose startup packet never comes is cut by client_login_timeout", "[refusals]") {
  Bench b("client_login_timeout = 5\n");
  auto wire = b.network.connect();
  b.pass(4s);
  CHECK_FALSE(wire->closing);
  b.pass(1s);
  CHECK(error_on(*wire) == "FATAL 57014 client_login_timeout");
  CHECK(b.log.has("(nodb)/(nouser)@10.0.0.1:4711 closing because: client_login_timeout (age=5s)"));
}

TEST_CASE("a client that never sends its password is cut by client_login_timeout", "[refusals]") {
  Bench b("auth_type = scram-sha-256\nclient_login_timeout = 5\n");
  auto wire = b.client("shop", "web");
  b.pass(5s);
  CHECK(error_on(*wire) == "FATAL 57014 client_login_timeout");
}

TEST_CASE("a client that waits for the first server of a node that is starting is cut with its own text",
          "[refusals]") {
  Bench b("client_login_timeout = 5\nserver_login_retry = 1\n");
  auto client = b.client("shop", "web");
  for (int second = 0; second < 5; ++second) {
    CHECK_FALSE(client->closing);
    b.refuse(*b.dialer.dialled.back(), "57P03", "the database system is starting up");
    b.pass(1s);
  }
  CHECK(error_on(*client) == "FATAL 57P03 client_login_timeout (server down)");
}

TEST_CASE("client_login_timeout = 0 waits for ever, and a client that is in is not cut by it",
          "[refusals]") {
  Bench patient("client_login_timeout = 0\n");
  auto wire = patient.network.connect();
  patient.pass(24h);
  CHECK_FALSE(wire->closing);
  Pair b("client_login_timeout = 5\n");
  b.pass(1h);
  CHECK_FALSE(b.one->closing);
}

TEST_CASE("a new client is told the cause at once when every host refuses the connection", "[refusals]") {
  Bench b;
  b.reload(ini_with("shop = host=h1,h2"));
  auto client = b.client("shop", "web");
  b.dialer.dialled[0]->hang_up("connect to h1:5432: Connection refused");
  b.turn();
  CHECK_FALSE(client->closing);
  REQUIRE(b.dialer.dialled.size() == 2);
  b.dialer.dialled[1]->hang_up("connect to h2:5432: Connection refused");
  b.turn();
  CHECK(error_on(*client).find("FATAL 08001 server login failed: connect to h") == 0);
  CHECK(client->has("Connection refused"));
  // Nor does the next one hang, though nothing is dialled during server_login_retry.
  auto next = b.client("shop", "web");
  CHECK(error_on(*next).find("FATAL 08001 server login has been failing, cached error: connect to h") == 0);
  CHECK(b.dialer.dialled.size() == 2);
  b.pass(15s);
  auto late = b.client("shop", "web");
  REQUIRE(b.dialer.dialled.size() == 3);
  b.server_logs_in();
  CHECK(late->has("server_version"));
}

// --- time-outs of queries and transactions

TEST_CASE("a query that runs for longer than query_timeout takes its client and its server along",
          "[refusals]") {
  Pair b("query_timeout = 5\n");
  b.ask(*b.one, "update a set x = 1");
  b.pass(4s);
  CHECK_FALSE(b.one->closing);
  b.pass(2s);
  CHECK(error_on(*b.one) == "FATAL 57014 query timeout");
  CHECK(b.server->closing);
  CHECK(b.log.has("shop/web@10.0.0.1:4711 pooler error: query timeout"));
}

TEST_CASE("query_timeout also ends the wait for a server", "[refusals]") {
  Pair b("query_timeout = 5\n[users]\nweb = query_timeout=0\n");
  auto two = b.client("shop", "web");
  b.reload(std::string(kIni) + "query_timeout = 5\n");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  b.ask(*two, "update b set x = 1");
  b.pass(4s);
  CHECK_FALSE(two->closing);
  b.pass(2s);
  CHECK(error_on(*two) == "FATAL 57014 query_timeout");
  CHECK_FALSE(b.one->closing);  // It waits in its transaction and asks for nothing.
}

TEST_CASE("a client quiet in its transaction for idle_transaction_timeout is cut, a working one is not",
          "[refusals]") {
  Pair b("idle_transaction_timeout = 5\n");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  b.pass(4s);
  b.ask(*b.one, "update a set x = 1");
  b.pass(30s);
  CHECK_FALSE(b.one->closing);
  b.answer(*b.server, "UPDATE 1", 'T');
  b.pass_slowly(4s);
  CHECK_FALSE(b.one->closing);
  b.pass_slowly(2s);
  CHECK(error_on(*b.one) == "FATAL 25P03 idle transaction timeout");
  CHECK(b.server->closing);
}

TEST_CASE("a transaction longer than transaction_timeout is cut, whatever happens in it", "[refusals]") {
  Pair b("transaction_timeout = 10\n");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  for (int i = 0; i < 3; ++i) {
    b.pass(3s);
    b.ask(*b.one, "update a set x = 1");
    b.answer(*b.server, "UPDATE 1", 'T');
  }
  CHECK_FALSE(b.one->closing);
  b.pass(2s);
  CHECK(error_on(*b.one) == "FATAL 25P04 transaction timeout");
  CHECK(b.server->closing);
}

TEST_CASE("transactions that end in time are not counted together", "[refusals]") {
  Pair b("transaction_timeout = 10\n");
  for (int i = 0; i < 4; ++i) {
    b.ask(*b.one, "begin");
    b.answer(*b.server, "BEGIN", 'T');
    b.pass(6s);
    b.ask(*b.one, "commit");
    b.answer(*b.server, "COMMIT");
  }
  b.pass(60s);
  CHECK_FALSE(b.one->closing);
}

TEST_CASE("a client that asks for nothing is cut after client_idle_timeout", "[refusals]") {
  Pair b("client_idle_timeout = 5\n");
  b.pass(4s);
  b.ask(*b.one, "select 1");
  b.answer(*b.server, "SELECT 1");
  b.pass(4s);
  CHECK_FALSE(b.one->closing);
  b.pass(2s);
  CHECK(error_on(*b.one) == "FATAL 57P05 client_idle_timeout");
  CHECK_FALSE(b.server->closing);
}

TEST_CASE("a user's own time-outs count in place of the global ones", "[refusals]") {
  struct Case {
    std::string_view option;
    std::string_view text;
    bool in_transaction;
    bool running;
  };
  const Case each = GENERATE(Case{"client_idle_timeout", "client_idle_timeout", false, false},
                             Case{"idle_transaction_timeout", "idle transaction timeout", true, false},
                             Case{"transaction_timeout", "transaction timeout", true, false},
                             Case{"query_timeout", "query timeout", false, true});
  INFO(each.option);
  Bench b(concat({each.option, " = 3\n[users]\nslow = ", each.option, "=0\nquick = ", each.option, "=1\n"}));
  std::map<std::string, std::shared_ptr<Wire>> clients;
  for (const std::string user : {"web", "slow", "quick"}) {
    clients[user] = b.client("shop", user);
    auto server = b.server_logs_in();
    if (!each.in_transaction && !each.running) continue;
    b.ask(*clients[user], each.in_transaction ? "begin" : "update a set x = 1");
    if (each.in_transaction) b.answer(*server, "BEGIN", 'T');
  }
  b.pass_slowly(2s);
  CHECK(clients["quick"]->has(each.text));
  CHECK_FALSE(clients["web"]->closing);
  b.pass_slowly(2s);
  CHECK(clients["web"]->has(each.text));
  b.pass_slowly(60s);
  CHECK_FALSE(clients["slow"]->closing);
}

// --- waiting for a server

TEST_CASE("query_wait_timeout of the user beats the database's, which beats the global one", "[refusals]") {
  Bench b;
  b.reload(ini_with("shop = host=10.0.0.9\nfast = host=10.0.0.9 query_wait_timeout=2",
                    "query_wait_timeout = 4\n[users]\npatient = query_wait_timeout=6\nendless = query_wait_timeout=0\n"));
  std::map<std::string, std::shared_ptr<Wire>> waiting;
  const auto wait_in = [&](std::string_view database, std::string_view user) {
    auto holder = b.client(database, user);
    auto server = b.server_logs_in();
    b.ask(*holder, "begin");
    b.answer(*server, "BEGIN", 'T');
    auto next = b.client(database, user);
    next->take();
    b.ask(*next, "update a set x = 1");
    waiting[concat({database, "/", user})] = next;
  };
  wait_in("shop", "web");
  wait_in("fast", "web");
  wait_in("fast", "patient");
  wait_in("shop", "endless");
  const auto cut = [&] {
    std::string names;
    for (const auto& [name, wire] : waiting) {
      if (wire->closing) names += name + " ";
    }
    return names;
  };
  b.pass(1s);
  CHECK(cut() == "");
  b.pass(1s);
  CHECK(cut() == "fast/web ");
  b.pass(2s);
  CHECK(cut() == "fast/web shop/web ");
  b.pass(2s);
  CHECK(cut() == "fast/patient fast/web shop/web ");
  b.pass(24h);
  CHECK(cut() == "fast/patient fast/web shop/web ");
  CHECK(error_on(*waiting["fast/web"]) == "FATAL 57P03 query_wait_timeout");
}

TEST_CASE("who waits for query_wait_notify is told once, and nobody when it is 0", "[refusals]") {
  const bool told = GENERATE(true, false);
  Pair b(told ? "query_wait_notify = 2\n" : "query_wait_notify = 0\n");
  auto two = b.client("shop", "web");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  two->take();
  b.ask(*two, "update a set x = 1");
  b.pass(1s);
  CHECK(notice_on(*two) == "");
  b.pass(2s);
  CHECK(notice_on(*two) ==
        (told ? "No server connection available in postgres backend, client being queued" : ""));
  two->take();
  b.pass(30s);
  CHECK(notice_on(*two) == "");
}

TEST_CASE("the reserve is used after reserve_pool_timeout, as the user's or the database's line says",
          "[refusals]") {
  const std::string lines = GENERATE(std::string("reserve_pool_size = 1\n"),
                                     std::string("[users]\nweb = reserve_pool_size=1\n"));
  Pair b("reserve_pool_timeout = 3\n" + lines);
  auto two = b.client("shop", "web");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  b.ask(*two, "update a set x = 1");
  b.pass(2s);
  CHECK(b.dialer.dialled.size() == 1);
  b.pass(1s);
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(b.log.has("taking connection from reserve_pool"));
  CHECK(b.server_logs_in()->has("update a"));
}

TEST_CASE("a database's reserve_pool_size, by its old name too, beats the global one", "[refusals]") {
  const std::string name = GENERATE(std::string("reserve_pool"), std::string("reserve_pool_size"));
  Bench b;
  b.reload(ini_with("shop = host=10.0.0.9 " + name + "=0", "reserve_pool_size = 5\nreserve_pool_timeout = 1\n"));
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*one, "begin");
  b.answer(*server, "BEGIN", 'T');
  auto two = b.client("shop", "web");
  b.ask(*two, "update a set x = 1");
  b.pass(10s);
  CHECK(b.dialer.dialled.size() == 1);
}

// --- how many

TEST_CASE("the console is let in when max_client_conn is reached", "[refusals]") {
  Bench b("max_client_conn = 1\n");
  auto one = b.client("shop", "web");
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  b.ask(*own, "SHOW VERSION");
  CHECK(own->has("PgBouncer"));
  CHECK(error_on(*b.client("shop", "web")) ==
        "FATAL 53300 no more connections allowed (max_client_conn)");
}

TEST_CASE("clients per database and per user are limited, by the line's own number first", "[refusals]") {
  Bench b;
  b.reload(ini_with("shop = host=10.0.0.9\nsmall = host=10.0.0.9 max_db_client_connections=1",
                    "max_db_client_connections = 2\nmax_user_client_connections = 3\n"
                    "[users]\nfew = max_user_client_connections=1\n"));
  std::vector<std::shared_ptr<Wire>> in{b.client("small", "web"), b.client("shop", "web"),
                                        b.client("shop", "web")};
  for (const auto& wire : in) CHECK_FALSE(wire->closing);
  const std::string of_database =
      "FATAL 53300 client connections exceeded (max_db_client_connections)";
  const std::string of_user =
      "FATAL 53300 client connections exceeded (max_user_client_connections)";
  CHECK(error_on(*b.client("small", "app")) == of_database);
  CHECK(error_on(*b.client("shop", "app")) == of_database);
  in[1]->hang_up();
  b.turn();
  auto few = b.client("shop", "few");
  CHECK_FALSE(few->closing);
  few->take();
  in[2]->hang_up();
  b.turn();
  CHECK(error_on(*b.client("shop", "few")) == of_user);
}

TEST_CASE("servers per database and per user are limited, by the line's own number first", "[refusals]") {
  const std::string limit =
      GENERATE(std::string("max_db_connections = 1\n"), std::string("max_user_connections = 1\n"),
               std::string("max_user_connections = 9\n[users]\nweb = max_user_connections=1\n"));
  Bench b;
  b.reload(ini_with("shop = host=10.0.0.9 pool_size=5", limit));
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto two = b.client("shop", "web");
  b.ask(*one, "begin");
  b.answer(*server, "BEGIN", 'T');
  b.ask(*two, "update a set x = 1");
  b.pass(1s);
  CHECK(b.dialer.dialled.size() == 1);
  b.ask(*one, "commit");
  b.answer(*server, "COMMIT");
  CHECK(server->has("update a"));
}

TEST_CASE("a database's max_db_connections beats the global one", "[refusals]") {
  Bench b;
  b.reload(ini_with("shop = host=10.0.0.9 pool_size=5 max_db_connections=2", "max_db_connections = 1\n"));
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*one, "begin");
  b.answer(*server, "BEGIN", 'T');
  auto two = b.client("shop", "web");
  b.ask(*two, "update a set x = 1");
  CHECK(b.dialer.dialled.size() == 2);
}

TEST_CASE("pool_size of the user beats the database's, which beats default_pool_size", "[refusals]") {
  Bench b;
  b.reload(ini_with("shop = host=10.0.0.9\nwide = host=10.0.0.9 pool_size=2",
                    "[users]\nbig = pool_size=3\n"));
  const auto servers_of = [&](std::string_view database, std::string_view user) {
    const std::size_t before = b.dialer.dialled.size();
    std::vector<std::shared_ptr<Wire>> clients;
    for (int i = 0; i < 5; ++i) {
      const std::size_t known = b.dialer.dialled.size();
      auto wire = b.client(database, user);
      if (i == 0) b.server_logs_in();
      b.ask(*wire, "begin");
      if (i > 0 && b.dialer.dialled.size() > known) b.server_logs_in();
      clients.push_back(wire);
    }
    return b.dialer.dialled.size() - before;
  };
  CHECK(servers_of("shop", "web") == 1);
  CHECK(servers_of("wide", "web") == 2);
  CHECK(servers_of("wide", "big") == 3);
}

TEST_CASE("min_pool_size is filled while a client is there, and not any more when none is", "[refusals]") {
  Bench b("default_pool_size = 5\nmin_pool_size = 3\n");
  CHECK(b.dialer.dialled.empty());
  auto client = b.client("shop", "web");
  for (std::size_t i = 1; i <= 3; ++i) {
    REQUIRE(b.dialer.dialled.size() == i);  // One after another.
    b.server_logs_in();
    b.pass(1s);
  }
  b.pass(5s);
  CHECK(b.dialer.dialled.size() == 3);
  client->hang_up();
  b.turn();
  for (auto& wire : b.dialer.dialled) wire->hang_up();
  b.pass(5s);
  CHECK(b.dialer.dialled.size() == 3);
}

TEST_CASE("a pool of a forced user is filled to min_pool_size without any client", "[refusals]") {
  const bool own = GENERATE(true, false);
  Bench b;
  b.reload(ini_with(own ? "shop = host=10.0.0.9 user=owner pool_size=5 min_pool_size=2"
                        : "shop = host=10.0.0.9 user=owner pool_size=5",
                    own ? "" : "min_pool_size = 2\n"));
  REQUIRE(b.dialer.dialled.size() == 1);
  CHECK(b.server_logs_in()->closing == false);
  b.pass(1s);
  REQUIRE(b.dialer.dialled.size() == 2);
  b.server_logs_in();
  b.pass(10s);
  CHECK(b.dialer.dialled.size() == 2);
  // A client that comes and goes leaves them, and one that is lost is replaced.
  auto client = b.client("shop", "web");
  CHECK(client->has("server_version"));
  client->hang_up();
  b.turn();
  b.dialer.dialled[0]->hang_up();
  b.pass(1s);
  CHECK(b.dialer.dialled.size() == 3);
}

// --- servers

TEST_CASE("server_idle_timeout and server_lifetime close servers with their reason in the log", "[refusals]") {
  struct Case {
    std::string_view lines;
    std::string_view reason;
    bool of_database;
  };
  const Case each = GENERATE(Case{"server_idle_timeout = 5\n", "server idle timeout", false},
                             Case{"server_lifetime = 5\n", "server lifetime over", false},
                             Case{"server_lifetime = 500\n", "server lifetime over", true});
  Bench b;
  b.reload(ini_with(each.of_database ? "shop = host=10.0.0.9 server_lifetime=5" : "shop = host=10.0.0.9",
                    each.lines));
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.pass(4s);
  CHECK_FALSE(server->closing);
  b.pass(2s);
  CHECK(server->closing);
  CHECK(b.log.has(concat({"shop/web@10.0.0.9:5432 closing because: ", each.reason, " (age="})));
  CHECK_FALSE(client->closing);
}

TEST_CASE("a server is not closed by its lifetime while somebody uses it", "[refusals]") {
  Pair b("server_lifetime = 5\n");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  b.pass(60s);
  CHECK_FALSE(b.server->closing);
  b.ask(*b.one, "commit");
  b.answer(*b.server, "COMMIT");
  CHECK(b.server->closing);
  CHECK(b.one->has("COMMIT"));
}

TEST_CASE("a login that takes longer than server_connect_timeout is given up", "[refusals]") {
  Bench b("server_connect_timeout = 3\nserver_login_retry = 2\n");
  auto client = b.client("shop", "web");
  b.pass(2s);
  CHECK_FALSE(b.dialer.dialled[0]->closing);
  b.pass(1s);
  CHECK(b.dialer.dialled[0]->closing);
  CHECK(b.log.has("closing because: connect timeout (age=3s)"));
  CHECK(error_on(*client) == "FATAL 08001 server login failed: connect timeout");
}

TEST_CASE("a node that refused a login is left alone for server_login_retry, and who is logged in is told why",
          "[refusals]") {
  Pair b("server_login_retry = 10\n");
  b.server->hang_up();
  b.turn();
  b.ask(*b.one, "update a set x = 1");
  REQUIRE(b.dialer.dialled.size() == 2);
  b.refuse(*b.dialer.dialled[1], "28P01", "password authentication failed for user \"web\"");
  CHECK(b.log.has("S-0x"));
  CHECK(b.log.has("shop/web@10.0.0.9:5432 server login failed: FATAL password authentication failed"));
  CHECK(error_on(*b.one) ==
        "FATAL 28P01 server login has been failing, cached error: password authentication failed for "
        "user \"web\" (server_login_retry)");
  b.pass(9s);
  auto early = b.client("shop", "web");
  b.ask(*early, "update a set x = 1");
  CHECK(early->has("cached error"));
  CHECK(b.dialer.dialled.size() == 2);
  b.pass(1s);
  auto late = b.client("shop", "web");
  b.ask(*late, "update a set x = 1");
  CHECK_FALSE(late->closing);
  CHECK(b.dialer.dialled.size() == 3);
}

TEST_CASE("a secret that fits no method of the node's is said as it is", "[refusals]") {
  Bench b;
  auto client = b.client("shop", "web");
  Wire& server = *b.dialer.dialled[0];
  server.connected();
  std::string out;
  protocol::append_auth_md5(out, "salt");
  server.say(out);
  b.turn();
  CHECK(error_on(*client) == "FATAL 28000 server login failed: wrong password type");
}

TEST_CASE("a cancel request that is not passed on within cancel_wait_timeout costs the server", "[refusals]") {
  Bench b("cancel_wait_timeout = 4\n");
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  const std::string request = cancel_request_of(one->sent);
  b.ask(*one, "update a set x = 1");
  b.network.connect()->say(request);
  b.turn();
  REQUIRE(b.dialer.dialled.size() == 2);
  b.answer(*server, "UPDATE 1");
  b.pass(3s);
  CHECK_FALSE(server->closing);
  b.pass(1s);
  CHECK(b.dialer.dialled[1]->user == nullptr);
  CHECK(server->closing);
  CHECK(b.log.has("closing because: cancel_wait_timeout"));
  CHECK_FALSE(one->closing);
}

TEST_CASE("a message longer than max_packet_size ends the connection", "[refusals]") {
  Pair b("max_packet_size = 1000\n");
  b.ask(*b.one, concat({"select '", std::string(2000, 'x'), "'"}));
  CHECK(error_on(*b.one) == "FATAL 08P01 bad packet header");
}

TEST_CASE("a Parse without the ends of its strings ends the connection", "[refusals]") {
  Pair b;
  b.one->say(std::string("P\0\0\0\x09name", 9) + std::string("!"));
  b.turn();
  CHECK(error_on(*b.one) == "FATAL 08P01 broken Parse packet");
}

TEST_CASE("a server that breaks off while it works takes its client along", "[refusals]") {
  Pair b;
  b.ask(*b.one, "update a set x = 1");
  b.server->hang_up();
  b.turn();
  CHECK(error_on(*b.one) == "FATAL 08006 server conn crashed?");
}

TEST_CASE("a transaction block in statement pooling ends the connection", "[refusals]") {
  Pair b("pool_mode = statement\n");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  CHECK(error_on(*b.one) == "FATAL 0A000 transaction blocks not allowed in statement pooling mode");
  CHECK(b.log.has("closing because: transaction blocks not allowed in statement pooling mode (age=0s)"));
}

TEST_CASE("disable_pqexec refuses simple queries", "[refusals]") {
  Pair b("disable_pqexec = 1\n");
  b.ask(*b.one, "select 1");
  CHECK(error_on(*b.one) == "FATAL 0A000 PQexec disallowed");
}

TEST_CASE("a database that is disabled is closed to newcomers", "[refusals]") {
  Pair b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  b.ask(*own, "DISABLE shop");
  CHECK(error_on(*b.client("shop", "web")) == "FATAL 55000 database \"shop\" is disabled");
  CHECK_FALSE(b.one->closing);
  b.ask(*own, "ENABLE shop");
  CHECK_FALSE(b.client("shop", "web")->closing);
}

TEST_CASE("KILL_CLIENT, and INT for who waits, say who did it", "[refusals]") {
  Pair b;
  auto two = b.client("shop", "web");
  b.ask(*b.one, "begin");
  b.answer(*b.server, "BEGIN", 'T');
  b.ask(*two, "update a set x = 1");
  b.pooler.request_shutdown(app::Shutdown::wait_for_servers);
  b.turn();
  CHECK(error_on(*two) == "FATAL 57P01 server shutting down");
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  b.ask(*own, "KILL_CLIENT 2");
  CHECK(error_on(*b.one) == "");
  b.ask(*own, "KILL_CLIENT 1");
  CHECK(error_on(*b.one) == "FATAL 57P01 admin forced disconnect");
}
