#include "app/pooler.h"

#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

TEST_CASE("a bad configuration is refused with its place", "[pooler]") {
  FakeClock clock;
  FakeNetwork network;
  FakeDialer dialer;
  FakeProber prober;
  FakeRandom random;
  KeptLog log;
  MemoryFiles files;
  app::Pooler pooler({clock, network, dialer, prober, random, log, files, 501});
  files.files["p.ini"] = "[pgbouncer]\npool_mode = trx\n";
  const Status status = pooler.configure("p.ini");
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("p.ini:2") != std::string::npos);
}

TEST_CASE("a client waits for the pool's first server and is then welcomed with what it reports",
          "[pooler]") {
  Bench b;
  auto client = b.client("shop", "web");
  REQUIRE(b.dialer.dialled.size() == 1);
  CHECK(b.dialer.dialled[0]->peer.host == "10.0.0.9");
  CHECK_FALSE(client->has("server_version"));
  b.server_logs_in();
  CHECK(client->has("server_version"));
  CHECK(client->sent.substr(client->sent.size() - 6) == std::string("Z\0\0\0\x05I", 6));
  CHECK(b.log.has("login attempt: db=shop user=web"));
  CHECK(b.log.has("new connection to server"));
}

TEST_CASE("waiting clients get the one server in the order in which they asked", "[pooler]") {
  Bench b;
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto two = b.client("shop", "web");
  auto three = b.client("shop", "web");
  b.ask(*one, "update a set x = 1");
  b.ask(*two, "update b set x = 1");
  b.ask(*three, "update c set x = 1");
  CHECK(b.dialer.dialled.size() == 1);
  CHECK(server->has("update a"));
  CHECK_FALSE(server->has("update b"));
  b.answer(*server, "UPDATE 1");
  CHECK(one->has("UPDATE 1"));
  CHECK(server->has("update b"));
  CHECK_FALSE(server->has("update c"));
  b.answer(*server, "UPDATE 2");
  CHECK(two->has("UPDATE 2"));
  CHECK(server->has("update c"));
}

TEST_CASE("who waits longer than query_wait_timeout is told so", "[pooler]") {
  Bench b("query_wait_timeout = 3\nquery_wait_notify = 1\n");
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto two = b.client("shop", "web");
  b.ask(*one, "begin");
  b.ask(*two, "update b set x = 1");
  b.pass(2s);
  CHECK(two->has("client being queued"));
  CHECK_FALSE(two->has("query_wait_timeout"));
  b.pass(1s);
  CHECK(two->has("query_wait_timeout"));
  CHECK(two->closing);
  CHECK_FALSE(one->closing);
}

TEST_CASE("a node that refuses the connection is told to the waiting client at once", "[pooler]") {
  Bench b;
  auto client = b.client("shop", "web");
  b.dialer.dialled[0]->hang_up("connect to 10.0.0.9:5432: Connection refused");
  b.turn();
  CHECK(client->has("Connection refused"));
  CHECK(client->closing);
}

TEST_CASE("an error of the node at login reaches the waiting client with its SQLSTATE",
          "[pooler]") {
  Bench b;
  auto client = b.client("shop", "web");
  b.refuse(*b.dialer.dialled[0], "28P01", "password authentication failed for user \"web\"");
  CHECK(client->has("28P01"));
  CHECK(client->closing);
  // The cause is remembered for server_login_retry: the next one need not wait for it.
  auto next = b.client("shop", "web");
  CHECK(next->has("28P01"));
  CHECK(b.dialer.dialled.size() == 1);
  b.pass(15s);
  auto later = b.client("shop", "web");
  CHECK(b.dialer.dialled.size() == 2);
}

TEST_CASE("a node that is starting up keeps clients waiting", "[pooler]") {
  Bench b("server_login_retry = 1\n");
  auto client = b.client("shop", "web");
  b.refuse(*b.dialer.dialled[0], "57P03", "the database system is starting up");
  CHECK_FALSE(client->closing);
  b.pass(1s);
  REQUIRE(b.dialer.dialled.size() == 2);
  b.server_logs_in();
  CHECK(client->has("server_version"));
}

TEST_CASE("each host of a list is tried before the client is refused", "[pooler]") {
  Bench b;
  b.files.files["p.ini"] = std::string("[databases]\nshop = host=h1,h2\n") +
                           std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.pooler.request_reload();
  b.turn();
  auto client = b.client("shop", "web");
  b.dialer.dialled[0]->hang_up("Connection refused");
  b.turn();
  CHECK_FALSE(client->closing);
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(b.dialer.dialled[0]->peer.host != b.dialer.dialled[1]->peer.host);
  b.server_logs_in();
  CHECK(client->has("server_version"));
}

TEST_CASE("an unknown database and too many clients are refused with a cause", "[pooler]") {
  Bench b("max_client_conn = 1\n");
  auto nowhere = b.client("attic", "web");
  CHECK(nowhere->has("no such database: attic"));
  CHECK(nowhere->has("3D000"));
  auto one = b.client("shop", "web");
  auto two = b.client("shop", "web");
  CHECK(two->has("no more connections allowed (max_client_conn)"));
  CHECK_FALSE(one->closing);
  one->hang_up();
  b.turn();
  auto three = b.client("shop", "web");
  CHECK_FALSE(three->closing);
}

TEST_CASE("the console lets in the process's own account over the Unix socket, and admin users",
          "[pooler]") {
  Bench b("auth_file = users.txt\n");
  b.files.files["users.txt"] = "\"boss\" \"x\"\n\"web\" \"y\"\n";
  b.files.files["p.ini"] += "auth_type = trust\n";
  b.pooler.request_reload();
  b.turn();
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  b.ask(*own, "SHOW VERSION");
  CHECK(own->has("PgBouncer"));
  auto stranger = b.client("pgbouncer", "pgbouncer", 502);
  CHECK(stranger->closing);
  auto boss = b.client("pgweir", "boss");
  b.ask(*boss, "SHOW POOLS");
  CHECK(boss->has("pool_mode"));
  auto web = b.client("pgbouncer", "web");
  CHECK(web->has("not allowed"));
}

TEST_CASE("PAUSE is answered when the last server is gone, RESUME serves who waited", "[pooler]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*client, "update a set x = 1");
  own->take();
  b.ask(*own, "PAUSE");
  CHECK_FALSE(own->has("PAUSE"));
  b.answer(*server, "UPDATE 1");
  CHECK(own->has("PAUSE"));
  CHECK(server->closing);
  CHECK(b.log.has("closing because: pause mode (age=0s)"));
  b.ask(*client, "update b set x = 1");
  CHECK(b.dialer.dialled.size() == 1);
  b.ask(*own, "RESUME");
  REQUIRE(b.dialer.dialled.size() == 2);
  auto fresh = b.server_logs_in();
  CHECK(fresh->has("update b"));
}

TEST_CASE("SUSPEND stops reading, keeps what still comes, and RESUME goes on with it", "[pooler]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto busy = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto idle = b.client("shop", "web");
  b.ask(*busy, "select 'under way'");
  REQUIRE(server->has("under way"));
  own->take();
  b.ask(*own, "SUSPEND");
  CHECK(own->has("SUSPEND"));
  CHECK(busy->paused);
  CHECK(idle->paused);
  CHECK(server->paused);
  CHECK_FALSE(own->paused);
  own->take();
  b.ask(*own, "SHOW STATE");
  CHECK(own->take().find(std::string("suspended\0\0\0\3yes", 16)) != std::string::npos);
  b.ask(*own, "SUSPEND");
  CHECK(own->take().find("already suspended/paused") != std::string::npos);
  b.ask(*own, "PAUSE");
  CHECK(own->take().find("already suspended/paused") != std::string::npos);

  // What was read just before goes nowhere, and time does not count.
  busy->take();
  idle->take();
  server->take();
  b.answer(*server, "SELECT 1");
  b.ask(*idle, "select 'waits'");
  b.pass(10min);
  CHECK(busy->sent.empty());
  CHECK(idle->sent.empty());
  CHECK(server->sent.empty());
  CHECK_FALSE(busy->closing);

  // A newcomer gets in, and waits as all others; a new console is served.
  auto late = b.client("shop", "web");
  CHECK(late->paused);
  auto second = b.client("pgbouncer", "pgbouncer", 501);
  CHECK(second->has("1.25.2/bouncer"));
  second->take();

  b.ask(*second, "RESUME");
  CHECK(second->has("RESUME"));
  CHECK(busy->has("SELECT 1"));
  CHECK(server->has("waits"));
  CHECK_FALSE(late->paused);
  CHECK_FALSE(busy->paused);
  CHECK_FALSE(server->paused);
  b.answer(*server, "SELECT 2");
  CHECK(idle->has("SELECT 2"));
  second->take();
  b.ask(*second, "RESUME");
  CHECK(second->has("pooler is not paused/suspended"));
}

TEST_CASE("SUSPEND waits for who takes nothing, and closes them after suspend_timeout", "[pooler]") {
  Bench b("suspend_timeout = 3\n");
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto slow = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto quick = b.client("shop", "web");
  slow->congested = true;
  own->take();
  b.ask(*own, "SUSPEND");
  b.pass(2900ms);
  CHECK(own->sent.empty());
  CHECK_FALSE(slow->closing);
  b.pass(100ms);
  CHECK(slow->has("suspend_timeout"));
  CHECK(slow->closing);
  slow->congested = false;  // Gone.
  b.turn();
  CHECK(own->has("SUSPEND"));
  CHECK_FALSE(quick->closing);
  CHECK_FALSE(server->closing);
}

TEST_CASE("a SUSPEND that its console does not wait for is undone", "[pooler]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto slow = b.client("shop", "web");
  b.server_logs_in();
  slow->congested = true;
  b.ask(*own, "SUSPEND");
  CHECK(slow->paused);
  own->hang_up();
  b.turn();
  b.pass(2s);
  CHECK_FALSE(slow->paused);
  auto other = b.client("pgbouncer", "pgbouncer", 501);
  other->take();
  b.ask(*other, "PAUSE shop");
  other->take();
  b.ask(*other, "SUSPEND");
  CHECK(other->has("cannot suspend with paused databases"));
}

TEST_CASE("signals know a suspended pooler, and a shutdown ends the suspension", "[pooler]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*own, "SUSPEND");
  b.pooler.pause_all();
  b.turn();
  CHECK(b.log.has("got SIGUSR1, but already paused/suspended"));
  b.pooler.resume_all();
  b.turn();
  CHECK(b.log.has("got SIGUSR2, continuing from SUSPEND"));
  CHECK_FALSE(client->paused);
  b.ask(*client, "select 1");
  REQUIRE(server->has("select 1"));
  b.ask(*own, "SUSPEND");
  CHECK(server->paused);
  b.pooler.request_shutdown(app::Shutdown::wait_for_servers);
  b.turn();
  CHECK_FALSE(server->paused);
  CHECK_FALSE(b.pooler.finished());
  b.answer(*server, "SELECT 1");
  CHECK(b.pooler.finished());
}

TEST_CASE("server_fast_close ends a session between two transactions when its server is to go",
          "[pooler]") {
  for (const bool fast : {false, true}) {
    CAPTURE(fast);
    Bench b(fast ? "pool_mode = session\nserver_fast_close = 1\n" : "pool_mode = session\n");
    auto own = b.client("pgbouncer", "pgbouncer", 501);
    auto client = b.client("shop", "web");
    auto server = b.server_logs_in();
    b.ask(*client, "begin");
    b.answer(*server, "BEGIN", 'T');
    b.ask(*own, "RECONNECT");
    b.pass(5s);
    CHECK_FALSE(client->closing);
    b.ask(*client, "commit");
    CHECK_FALSE(client->closing);
    b.answer(*server, "COMMIT");
    b.pass(5s);
    CHECK(client->has("database configuration changed") == fast);
    CHECK(client->closing == fast);
    if (fast) b.answer(*server, "DISCARD ALL");
    CHECK(server->closing == fast);
  }
}

TEST_CASE("RELOAD reads the file that conffile names", "[pooler]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  b.files.files["other.ini"] = std::string(kIni) + "query_wait_timeout = 77\n";
  b.ask(*own, "SET conffile = 'other.ini'");
  b.ask(*own, "RELOAD");
  CHECK(b.pooler.settings().query_wait_timeout == 77s);
  CHECK(b.pooler.settings().conffile == "other.ini");
}

TEST_CASE("a bad file changes nothing, a removed database takes its clients along", "[pooler]") {
  Bench b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto client = b.client("shop", "web");
  b.server_logs_in();
  const std::string good = b.files.files["p.ini"];
  b.files.files["p.ini"] = good + "nonsense = 1\n";
  own->take();
  b.ask(*own, "RELOAD");
  CHECK(own->has("RELOAD failed"));
  CHECK(b.log.has("p.ini:11"));
  CHECK_FALSE(client->closing);
  b.files.files["p.ini"] =
      std::string("[databases]\n") + std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.ask(*own, "RELOAD");
  CHECK(client->has("database removed"));
  b.pass(1s);
  auto late = b.client("shop", "web");
  CHECK(late->has("no such database"));
}

TEST_CASE("a line that names another host gives new servers as old ones are given back",
          "[pooler]") {
  Bench b;
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*client, "update a set x = 1");
  b.files.files["p.ini"] = std::string("[databases]\nshop = host=10.0.0.10\n") +
                           std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.pooler.request_reload();
  b.turn();
  CHECK_FALSE(server->closing);
  b.answer(*server, "UPDATE 1");
  CHECK(server->closing);
  b.ask(*client, "update b set x = 1");
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(b.dialer.dialled[1]->peer.host == "10.0.0.10");
}

TEST_CASE(
    "pitfall 25: a server that was sent a cancel is given to nobody until the request has ended",
    "[pooler]") {
  Bench b;
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto two = b.client("shop", "web");
  b.ask(*one, "update a set x = 1");
  // BackendKeyData of the first client: type, length, pid, key.
  const std::size_t at = one->sent.find(std::string("K\0\0\0\x0c", 5));
  REQUIRE(at != std::string::npos);
  std::string request;
  protocol::append_cancel(request, load_u32(one->sent.data() + at + 5),
                          load_u32(one->sent.data() + at + 9));
  const auto asker = b.network.connect();
  asker->say(request);
  b.turn();
  REQUIRE(b.dialer.dialled.size() == 2);
  Wire& cancel = *b.dialer.dialled[1];
  cancel.connected();
  CHECK(load_u32(cancel.sent.data() + 8) == 4242);
  b.answer(*server, "UPDATE 1");
  b.ask(*two, "update b set x = 1");
  CHECK_FALSE(server->has("update b"));
  // Who asked takes the end of this connection for the end of the matter.
  CHECK_FALSE(asker->closing);
  cancel.hang_up();
  b.turn();
  CHECK(server->has("update b"));
  CHECK(asker->closing);
}

TEST_CASE("a cancel request for a client that asks for nothing, or for none, ends at once", "[pooler]") {
  Bench b;
  auto idle = b.client("shop", "web");
  b.server_logs_in();
  const std::size_t at = idle->sent.find(std::string("K\0\0\0\x0c", 5));
  REQUIRE(at != std::string::npos);
  const std::uint32_t pid = load_u32(idle->sent.data() + at + 5);
  for (const std::uint32_t asked : {pid, pid ^ 1}) {
    std::string request;
    protocol::append_cancel(request, asked, load_u32(idle->sent.data() + at + 9));
    const auto asker = b.network.connect();
    asker->say(request);
    b.turn();
    CHECK(asker->closing);
    CHECK(asker->sent.empty());
  }
  CHECK(b.dialer.dialled.size() == 1);
}

TEST_CASE("a cancelling connection that goes away before its request is through takes nothing with it", "[pooler]") {
  Bench b;
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*one, "select 1");
  const std::size_t at = one->sent.find(std::string("K\0\0\0\x0c", 5));
  REQUIRE(at != std::string::npos);
  std::string request;
  protocol::append_cancel(request, load_u32(one->sent.data() + at + 5), load_u32(one->sent.data() + at + 9));
  const auto asker = b.network.connect();
  asker->say(request + "and more");
  b.turn();
  asker->hang_up();
  b.pass(5s);
  REQUIRE(b.dialer.dialled.size() == 2);
  b.dialer.dialled[1]->connected();
  CHECK(load_u32(b.dialer.dialled[1]->sent.data() + 8) == 4242);
  b.dialer.dialled[1]->hang_up();
  b.answer(*server, "SELECT 1");
  CHECK(error_on(*one).empty());
}

TEST_CASE("a database over its limit takes the idle server of another user", "[pooler]") {
  Bench b("max_db_connections = 1\n");
  auto one = b.client("shop", "web");
  auto first = b.server_logs_in();
  auto two = b.client("shop", "app");
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(first->closing);
  CHECK(b.log.has("evicted"));
  b.server_logs_in();
  CHECK(two->has("server_version"));
  CHECK_FALSE(one->closing);
}

TEST_CASE("shutdown that waits for servers ends when the last transaction does", "[pooler]") {
  Bench b;
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*client, "update a set x = 1");
  b.pooler.request_shutdown(app::Shutdown::wait_for_servers);
  b.turn();
  CHECK_FALSE(b.pooler.finished());
  b.answer(*server, "UPDATE 1");
  CHECK(client->has("UPDATE 1"));
  CHECK(b.pooler.finished());
}

TEST_CASE("WAIT_CLOSE is answered when no server is left that is to go", "[pooler]") {
  Bench b;
  auto console = b.client("pgbouncer", "boss");
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*client, "select 1");
  b.ask(*console, "RECONNECT shop");
  console->take();
  b.ask(*console, "WAIT_CLOSE shop");
  b.pass(1s);
  CHECK_FALSE(console->has("WAIT_CLOSE"));
  b.answer(*server, "SELECT 1");
  CHECK(console->has("WAIT_CLOSE"));
  CHECK(server->closing);
  console->take();
  b.ask(*console, "WAIT_CLOSE");  // Nothing to wait for.
  CHECK(console->has("WAIT_CLOSE"));
  console->take();
  b.ask(*console, "WAIT_CLOSE nowhere");
  CHECK(console->has("no such database: nowhere"));
}

TEST_CASE("SHUTDOWN WAIT_FOR_SERVERS lets transactions end, SHUTDOWN WAIT_FOR_CLIENTS lets clients leave", "[pooler]") {
  for (const bool clients : {false, true}) {
    INFO("for clients: " << clients);
    Bench b;
    auto console = b.client("pgbouncer", "boss");
    auto client = b.client("shop", "web");
    auto server = b.server_logs_in();
    b.ask(*client, "select 1");
    console->take();
    b.ask(*console, clients ? "SHUTDOWN WAIT_FOR_CLIENTS" : "SHUTDOWN WAIT_FOR_SERVERS");
    CHECK(console->has("SHUTDOWN"));
    b.pass(2s);
    CHECK_FALSE(b.pooler.finished());
    b.answer(*server, "SELECT 1");
    b.pass(2s);
    CHECK(client->has("SELECT 1"));
    CHECK(b.pooler.finished() == !clients);
    if (!clients) continue;
    b.ask(*client, "select 2");
    b.answer(*server, "SELECT 2");
    CHECK(client->has("SELECT 2"));
    client->hang_up();
    console->hang_up();
    b.pass(2s);
    CHECK(b.pooler.finished());
  }
}

TEST_CASE("a login that never ends is cut by client_login_timeout", "[pooler]") {
  Bench b("client_login_timeout = 5\n");
  auto wire = b.network.connect();
  b.pass(4s);
  CHECK_FALSE(wire->closing);
  b.pass(1s);
  CHECK(wire->closing);
  CHECK(wire->has("client_login_timeout"));
}
