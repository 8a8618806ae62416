// What settings of the limits, time-outs and log lines do, in virtual time.
#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

TEST_CASE("a transaction that has ended counts for no time-out", "[limits]") {
  Bench b("query_timeout = 5\ntransaction_timeout = 5\nidle_transaction_timeout = 5\n");
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*client, "select 1");
  b.answer(*server, "SELECT 1");
  b.pass(10min);
  CHECK_FALSE(client->closing);
}

TEST_CASE("a database that * made goes when nobody has used it for autodb_idle_timeout",
          "[limits]") {
  Bench b(
      "autodb_idle_timeout = 100\nserver_idle_timeout = 10\nstats_period = 10\n"
      "[databases]\n* = host=10.0.0.9\n");
  auto client = b.client("made", "web");
  b.server_logs_in();
  CHECK(b.log.has("registered new auto-database: made"));
  const auto known = [&] {
    for (const auto& database : b.pooler.world().databases()) {
      if (database.database.name == "made") return true;
    }
    return false;
  };
  for (int i = 0; i < 20; ++i) b.pass(10s);
  CHECK(known());  // In use.
  client->hang_up();
  b.turn();
  for (int i = 0; i < 9; ++i) b.pass(10s);
  CHECK(known());
  for (int i = 0; i < 3; ++i) b.pass(10s);
  CHECK_FALSE(known());
}

TEST_CASE("the log's switches turn its lines off and on", "[limits]") {
  const auto run = [](std::string_view settings) {
    auto b = std::make_unique<Bench>(settings);
    auto client = b->client("shop", "web");
    b->server_logs_in();
    auto stranger = b->client("nowhere", "web");
    client->hang_up();
    b->pass(61s);
    return b;
  };
  const auto lines = {std::pair{"log_connections", "login attempt: db=shop user=web tls=no"},
                      std::pair{"log_disconnections", "closing because: "},
                      std::pair{"log_pooler_errors", "pooler error: no such database: nowhere"},
                      std::pair{"log_stats", "stats: 0 xacts/s, 0 queries/s, "}};
  const auto loud = run("");
  for (const auto& [setting, line] : lines) {
    INFO(setting);
    CHECK(loud->log.has(line));
    const auto quiet = run(concat({setting, " = 0\n"}));
    CHECK_FALSE(quiet->log.has(line));
  }
  CHECK(loud->log.has("new connection to server"));
}

TEST_CASE("stats_period is the time between two lines of statistics", "[limits]") {
  Bench b("stats_period = 7\n");
  b.pass(6900ms);
  CHECK_FALSE(b.log.has("stats: "));
  b.pass(100ms);
  CHECK(b.log.has("stats: "));
}

TEST_CASE("login_notify_message is a notice behind the login", "[limits]") {
  Bench b("login_notify_message = maintenance at noon\n");
  auto client = b.client("shop", "web");
  b.server_logs_in();
  CHECK(client->has("maintenance at noon"));
}

TEST_CASE("server_lifetime of a database beats the global one", "[limits]") {
  Bench b("server_lifetime = 1000\n[databases]\nshort = host=10.0.0.9 server_lifetime=10\n");
  auto one = b.client("shop", "web");
  auto lasting = b.server_logs_in();
  auto two = b.client("short", "web");
  auto fleeting = b.server_logs_in();
  b.pass(30s);
  CHECK_FALSE(lasting->closing);
  CHECK(fleeting->closing);
  CHECK(b.log.has("closing because: server lifetime over"));
}

TEST_CASE("idle servers are used in the order that server_round_robin says", "[limits]") {
  for (const bool round_robin : {false, true}) {
    CAPTURE(round_robin);
    Bench b(concat({"default_pool_size = 2\nserver_round_robin = ", round_robin ? "1\n" : "0\n"}));
    auto client = b.client("shop", "web");
    auto first = b.server_logs_in();
    auto other = b.client("shop", "web");
    b.ask(*client, "select 1");
    b.ask(*other, "select 2");
    auto second = b.server_logs_in();
    REQUIRE(second->has("select 2"));
    b.answer(*second, "SELECT 1");
    b.pass(1s);
    b.answer(*first, "SELECT 1");  // The one that was used last.
    b.pass(1s);
    first->take();
    second->take();
    b.ask(*client, "select 3");
    CHECK(first->has("select 3") == !round_robin);
    CHECK(second->has("select 3") == round_robin);
  }
}

TEST_CASE("server_reset_query cleans a server in session pooling, and always when told so",
          "[limits]") {
  const auto sent_after_the_client_left = [](std::string_view settings) {
    Bench b(settings);
    auto client = b.client("shop", "web");
    auto server = b.server_logs_in();
    b.ask(*client, "select 1");
    b.answer(*server, "SELECT 1");
    server->take();
    client->sent.clear();
    client->hang_up();
    b.turn();
    return server->take();
  };
  CHECK(sent_after_the_client_left("pool_mode = session\n").find("DISCARD ALL") !=
        std::string::npos);
  CHECK(sent_after_the_client_left("pool_mode = session\nserver_reset_query = RESET ALL\n")
            .find("RESET ALL") != std::string::npos);
  CHECK(sent_after_the_client_left("pool_mode = session\nserver_reset_query =\n").empty());
  CHECK(sent_after_the_client_left("pool_mode = transaction\n").empty());
  CHECK_FALSE(Bench("pool_mode = transaction\nserver_reset_query_always = 1\n").log.has("error"));
}

TEST_CASE("default_pool_size, pool_size of the database and of the user, the nearest counts",
          "[limits]") {
  Bench b(
      "default_pool_size = 1\n[databases]\nwide = host=10.0.0.9 pool_size=2\n"
      "[users]\nwider = pool_size=3\n");
  const auto open = [&](std::string_view database, std::string_view user) {
    const std::size_t before = b.dialer.dialled.size();
    std::vector<std::shared_ptr<Wire>> clients;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(b.client(database, user));
      if (i == 0) b.server_logs_in();
    }
    for (const auto& client : clients) {
      const std::size_t known = b.dialer.dialled.size();
      b.ask(*client, "select 1");
      if (b.dialer.dialled.size() > known) b.server_logs_in();
    }
    return b.dialer.dialled.size() - before;
  };
  CHECK(open("shop", "web") == 1);
  CHECK(open("wide", "web") == 2);
  CHECK(open("wide", "wider") == 3);
}

TEST_CASE("scram_iterations counts for passwords that the file holds in clear text", "[limits]") {
  for (const std::string iterations : {"4096", "8192"}) {
    Bench b;
    b.files.files["users.txt"] = "\"web\" \"secret\"\n";
    b.reload(std::string(kIni) + "auth_type = scram-sha-256\nscram_iterations = " + iterations + "\n");
    auto client = b.client("shop", "web");
    REQUIRE(client->has("SCRAM-SHA-256"));
    std::string first;
    protocol::append_sasl_initial(first, "SCRAM-SHA-256", "n,,n=,r=abcdefgh");
    client->say(first);
    b.turn();
    CHECK(client->has(",i=" + iterations));
  }
}

// --- what a person sees

TEST_CASE("SHOW NODES tells a node that fails from one that refuses one user", "[limits]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  const auto nodes = [&] {
    own->take();
    b.ask(*own, "SHOW NODES");
    return own->sent;
  };
  auto web = b.client("shop", "web");
  b.refuse(*b.dialer.dialled.back(), "28P01", "password authentication failed for user \"web\"");
  CHECK(nodes().find("refuses the login of user \"web\"") != std::string::npos);
  CHECK(nodes().find("failing") == std::string::npos);
  b.pass(15s);
  auto again = b.client("shop", "web");
  b.dialer.dialled.back()->hang_up("connect to 10.0.0.9:5432: Connection refused");
  b.turn();
  CHECK(nodes().find("failing") != std::string::npos);
}

TEST_CASE("the log says when the user of a failed login is not known", "[limits]") {
  Bench b("auth_file = users.txt\n");
  b.files.files["users.txt"] = "\"web\" \"secret\"\n";
  b.reload(std::string(kIni) + "auth_file = users.txt\nauth_type = md5\n");
  for (const std::string user : {"web", "stranger"}) {
    auto wire = b.client("shop", user);
    std::string answer;
    protocol::append_password(answer, "md5" + std::string(32, '0'));
    wire->say(answer);
    b.turn();
    CHECK(error_on(*wire) == "FATAL 28P01 password authentication failed");
  }
  CHECK(b.log.has("shop/stranger@10.0.0.1:4711 no such user: stranger"));
  CHECK_FALSE(b.log.has("no such user: web"));
}
