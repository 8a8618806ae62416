// Replication connections through the pooler: a server for one client alone, and what passes between the two.
#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

std::string message(char type, std::string_view body) {
  const auto size = static_cast<std::uint32_t>(body.size() + 4);
  std::string out(1, type);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 255U);
  return out + std::string(body);
}

struct Replicating : Bench {
  using Bench::Bench;
  std::shared_ptr<Wire> asks(std::string_view replication = "true", Parameters more = {}) {
    more.emplace_back("replication", replication);
    return client("shop", "web", -1, more);
  }
  /// A client and its server, which have said what is said at login.
  std::pair<std::shared_ptr<Wire>, std::shared_ptr<Wire>> pair(std::string_view replication = "true") {
    auto client = asks(replication);
    auto server = server_logs_in();
    client->take();
    return {client, server};
  }
};

}  // namespace

TEST_CASE("a server of one's own is asked for what the client asked for, over what the database's line says", "[replication]") {
  Replicating b;
  b.files.files["p.ini"] = std::string("[databases]\nshop = host=h dbname=store application_name=pooled timezone=UTC connect_query='select 1'\n") +
                           std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.pooler.request_reload();
  b.turn();
  auto client = b.asks("YES", {{"application_name", "receiver"}, {"options", "-c geqo=off -W 3"}});
  REQUIRE(b.dialer.dialled.size() == 1);
  Wire& server = *b.dialer.dialled[0];
  server.connected();
  const auto said = [&](std::string_view name, std::string_view value) {
    return server.has(std::string(name) + '\0' + std::string(value) + '\0');
  };
  CHECK(said("database", "store"));
  CHECK(said("replication", "YES"));
  CHECK(said("application_name", "receiver"));
  CHECK_FALSE(server.has("pooled"));
  CHECK(said("TimeZone", "UTC"));
  CHECK(said("options", "-c geqo=off -W 3"));
  b.server_logs_in();
  // A walsender for physical replication takes no SQL: no connect_query.
  CHECK_FALSE(server.has("select 1"));
  CHECK(client->has("server_version"));
  CHECK(client->sent.substr(client->sent.size() - 6) == std::string("Z\0\0\0\x05I", 6));
  CHECK(b.log.has("replication=physical"));
}

TEST_CASE("logical replication runs the connect_query, whose answer is nobody's", "[replication]") {
  Replicating b;
  b.files.files["p.ini"] = std::string("[databases]\nshop = host=h connect_query='select 1'\n") + std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.pooler.request_reload();
  b.turn();
  auto client = b.asks("database");
  auto server = b.server_logs_in();
  CHECK(server->has("select 1"));
  CHECK_FALSE(client->has("server_version"));
  b.answer(*server, "SELECT 1");
  CHECK(client->has("server_version"));
  CHECK_FALSE(client->has("SELECT 1"));
}

TEST_CASE("everything passes both ways as it comes, however it is cut", "[replication]") {
  Replicating b;
  auto [client, server] = b.pair();
  server->take();
  const std::string commands = Bench::query("START_REPLICATION 0/0") + message('d', "r feedback") + message('c', "");
  for (const char byte : commands) client->say(std::string_view(&byte, 1));
  b.turn();
  CHECK(server->take() == commands);
  const std::string stream = message('W', std::string(3, '\0')) + message('d', "w" + std::string(3000, 'x')) + message('d', "k keepalive") +
                             message('c', "") + message('C', std::string("COPY 0\0", 7)) + message('Z', "I");
  for (std::size_t at = 0; at < stream.size(); at += 7) server->say(std::string_view(stream).substr(at, 7));
  CHECK(client->take() == stream);
}

TEST_CASE("a client of a replication connection has a server of its own, which ends with it", "[replication]") {
  Replicating b("default_pool_size = 3\n");
  auto pooled = b.client("shop", "web");
  auto idle = b.server_logs_in();
  auto [client, server] = b.pair();
  CHECK(b.dialer.dialled.size() == 2);  // The idle one was not for it.
  b.ask(*pooled, "update a set x = 1");
  CHECK(idle->has("update a"));
  server->take();
  client->say(message('X', ""));
  b.turn();
  CHECK(server->take() == message('X', ""));
  CHECK(server->closing);
  CHECK(client->closing);
  auto [second, its] = b.pair();
  CHECK(b.dialer.dialled.size() == 3);
  second->hang_up();
  b.turn();
  CHECK(its->closing);
  CHECK(its->take().find(message('X', "")) != std::string::npos);  // Between two commands the server is told.
}

TEST_CASE("a pool with nothing but a replication connection opens a server for its first other client", "[replication]") {
  Replicating b("default_pool_size = 2\n");
  auto [client, server] = b.pair();
  auto pooled = b.client("shop", "web");
  REQUIRE(b.dialer.dialled.size() == 2);
  b.server_logs_in();
  CHECK(pooled->has("server_version"));
  // And when none can be had, that is said although the stream goes on.
  auto other = b.client("shop", "web");
  b.dialer.dialled[1]->hang_up();
  b.turn();
  b.ask(*other, "update a set x = 1");
  REQUIRE(b.dialer.dialled.size() == 3);
  b.refuse(*b.dialer.dialled[2], "28P01", "password authentication failed");
  CHECK(other->has("28P01"));
  CHECK_FALSE(client->closing);
}

TEST_CASE("a full pool gives up an idle server for a replication connection", "[replication]") {
  Replicating b;  // default_pool_size = 1
  auto pooled = b.client("shop", "web");
  auto idle = b.server_logs_in();
  auto [client, server] = b.pair();
  CHECK(idle->closing);
  CHECK(b.log.has("evicted"));
  CHECK_FALSE(client->closing);
  b.ask(*pooled, "update a set x = 1");
  CHECK(b.dialer.dialled.size() == 2);  // It counts: the pool is full with it.
  client->hang_up();
  b.turn();
  REQUIRE(b.dialer.dialled.size() == 3);
  CHECK(b.server_logs_in()->has("update a"));
}

TEST_CASE("a replication connection waits for its turn behind those that came before", "[replication]") {
  Replicating b;
  auto one = b.client("shop", "web");
  auto server = b.server_logs_in();
  auto two = b.client("shop", "web");
  b.ask(*one, "update a set x = 1");
  b.ask(*two, "update b set x = 1");
  b.pass(1s);
  auto replica = b.asks();
  b.pass(1s);
  auto three = b.client("shop", "web");
  b.ask(*three, "update c set x = 1");
  b.answer(*server, "UPDATE 1");
  CHECK(server->has("update b"));
  CHECK_FALSE(server->closing);
  b.answer(*server, "UPDATE 1");
  CHECK(server->closing);  // Its place is the replication connection's.
  REQUIRE(b.dialer.dialled.size() == 2);
  b.server_logs_in();
  CHECK(replica->has("server_version"));
}

TEST_CASE("a replication connection that waits too long is told so", "[replication]") {
  Replicating b("query_wait_timeout = 3\n");
  auto [client, server] = b.pair();
  auto second = b.asks();
  b.pass(2s);
  CHECK_FALSE(second->closing);
  b.pass(1s);
  CHECK(second->has("query_wait_timeout"));
  CHECK_FALSE(client->closing);
}

TEST_CASE("what a node says against a replication connection concerns no other login", "[replication]") {
  Replicating b("default_pool_size = 2\n");
  auto client = b.asks();
  b.refuse(*b.dialer.dialled[0], "42501", "must be superuser or replication role to start walsender");
  CHECK(client->has("42501"));
  CHECK(client->has("must be superuser"));
  CHECK(client->closing);
  auto pooled = b.client("shop", "web");
  REQUIRE(b.dialer.dialled.size() == 2);
  b.server_logs_in();
  CHECK(pooled->has("server_version"));
}

TEST_CASE("a node that can't be reached is told to a replication connection at once", "[replication]") {
  Replicating b;
  auto client = b.asks();
  b.dialer.dialled[0]->hang_up("connect to 10.0.0.9:5432: Connection refused");
  b.turn();
  CHECK(client->has("Connection refused"));
  CHECK(client->closing);
}

TEST_CASE("a client that leaves during the login takes its server along, and the node is not blamed", "[replication]") {
  Replicating b;
  auto client = b.asks();
  Wire& server = *b.dialer.dialled[0];
  server.connected();
  client->hang_up();
  b.turn();
  CHECK(server.closing);
  auto next = b.asks();
  CHECK(b.dialer.dialled.size() == 2);
}

TEST_CASE("a server that is lost ends its client's connection with a word, but not in the middle of a message", "[replication]") {
  Replicating b("default_pool_size = 3\n");
  auto [client, server] = b.pair();
  server->say(message('W', std::string(3, '\0')));
  server->hang_up();
  b.turn();
  CHECK(client->has("server conn crashed?"));
  CHECK(client->closing);

  auto [second, cut] = b.pair();
  const std::string whole = message('d', std::string(100, 'x'));
  cut->say(std::string_view(whole).substr(0, 50));
  cut->hang_up();
  b.turn();
  CHECK(second->take() == whole.substr(0, 50));
  CHECK(second->closing);

  auto [third, shut_down] = b.pair();
  const std::string last = message('C', std::string("COPY 0\0", 7));
  shut_down->say(last);
  shut_down->hang_up();
  b.turn();
  CHECK(third->take() == last);  // The end of the stream, and nothing behind it.
  CHECK(third->closing);
}

TEST_CASE("time-outs of queries and transactions do not cut a replication connection", "[replication]") {
  Replicating b("query_timeout = 1\nidle_transaction_timeout = 1\ntransaction_timeout = 1\nclient_idle_timeout = 1\nserver_lifetime = 1\n");
  auto [client, server] = b.pair("database");
  client->say(Bench::query("BEGIN"));
  b.turn();
  b.answer(*server, "BEGIN", 'T');
  for (int i = 0; i < 5; ++i) b.pass(1s);
  client->say(Bench::query("START_REPLICATION 0/0"));
  for (int i = 0; i < 5; ++i) b.pass(1s);
  CHECK_FALSE(client->closing);
  CHECK_FALSE(server->closing);
}

TEST_CASE("a reload leaves a replication connection alone, and its server is none of the pool's afterwards", "[replication]") {
  Replicating b;
  auto [client, server] = b.pair();
  b.files.files["p.ini"] = std::string("[databases]\nshop = host=10.0.0.10\n") + std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.pooler.request_reload();
  b.turn();
  b.pass(1s);
  CHECK_FALSE(client->closing);
  server->take();
  client->say(Bench::query("IDENTIFY_SYSTEM"));
  b.turn();
  CHECK(server->has("IDENTIFY_SYSTEM"));
  client->hang_up();
  b.turn();
  CHECK(server->closing);
  auto next = b.asks();
  CHECK(b.dialer.dialled.back()->peer.host == "10.0.0.10");
}

TEST_CASE("a reload while the server logs in makes it another one", "[replication]") {
  Replicating b;
  auto client = b.asks();
  b.files.files["p.ini"] = std::string("[databases]\nshop = host=10.0.0.10\n") + std::string(kIni.substr(kIni.find("[pgbouncer]")));
  b.pooler.request_reload();
  b.turn();
  auto old = b.dialer.dialled[0];
  if (!old->closing) b.server_logs_in();
  b.pass(1s);
  CHECK(old->closing);
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(b.dialer.dialled[1]->peer.host == "10.0.0.10");
  b.server_logs_in();
  CHECK(client->has("server_version"));
}

TEST_CASE("a pause keeps replication connections waiting, and waits for those that are there", "[replication]") {
  Replicating b("default_pool_size = 3\n");
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto [client, server] = b.pair();
  own->take();
  b.ask(*own, "PAUSE");
  auto late = b.asks();
  CHECK(b.dialer.dialled.size() == 1);
  CHECK_FALSE(own->has("PAUSE"));
  client->hang_up();
  b.turn();
  CHECK(own->has("PAUSE"));
  b.ask(*own, "RESUME");
  REQUIRE(b.dialer.dialled.size() == 2);
  b.server_logs_in();
  CHECK(late->has("server_version"));
}

TEST_CASE("a shutdown that waits for servers waits for streams, and lets nobody wait for a new one", "[replication]") {
  Replicating b;
  auto [client, server] = b.pair();
  auto late = b.asks();
  b.pooler.request_shutdown(app::Shutdown::wait_for_servers);
  b.turn();
  CHECK(late->has("server shutting down"));
  CHECK_FALSE(b.pooler.finished());
  client->hang_up();
  b.turn();
  CHECK(b.pooler.finished());
}

TEST_CASE("a command of the console's kill ends a replication connection with its server", "[replication]") {
  Replicating b;
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto [client, server] = b.pair();
  b.ask(*own, "KILL shop");
  CHECK(client->has("admin forced disconnect"));
  CHECK(client->closing);
  CHECK(server->closing);
}

TEST_CASE("disable_pqexec holds for replication connections too, and a broken length ends them", "[replication]") {
  Replicating b("default_pool_size = 3\ndisable_pqexec = 1\n");
  auto [client, server] = b.pair();
  client->say(Bench::query("IDENTIFY_SYSTEM"));
  b.turn();
  CHECK(client->has("PQexec disallowed"));
  CHECK_FALSE(server->has("IDENTIFY_SYSTEM"));
  auto [second, its] = b.pair();
  second->say(std::string("d\0\0\0\1", 5));
  b.turn();
  CHECK(second->has("bad packet header"));
  CHECK(its->closing);
}

TEST_CASE("a cancel request reaches the server of a replication connection", "[replication]") {
  Replicating b;
  auto client = b.asks();
  b.server_logs_in();
  const std::size_t at = client->sent.find(std::string("K\0\0\0\x0c", 5));
  REQUIRE(at != std::string::npos);
  std::string request;
  protocol::append_cancel(request, load_u32(client->sent.data() + at + 5), load_u32(client->sent.data() + at + 9));
  client->say(Bench::query("START_REPLICATION 0/0"));
  b.network.connect()->say(request);
  b.turn();
  REQUIRE(b.dialer.dialled.size() == 2);
  Wire& cancel = *b.dialer.dialled[1];
  cancel.connected();
  CHECK(load_u32(cancel.sent.data() + 8) == 4242);
}

TEST_CASE("a replication connection is shown as one, and waits for no console", "[replication]") {
  Replicating b("default_pool_size = 3\n");
  auto own = b.client("pgbouncer", "pgbouncer", 501);
  auto [client, server] = b.pair("database");
  b.ask(*own, "SHOW CLIENTS");
  CHECK(own->has("logical"));
  own->take();
  b.ask(*own, "SHOW SERVERS");
  CHECK(own->has("logical"));
  auto console = b.client("pgbouncer", "pgbouncer", 501, {{"replication", "true"}});
  CHECK(console->has("0A000"));
  CHECK(console->closing);
  auto odd = b.asks("perhaps");
  CHECK(odd->has("invalid value for parameter \"replication\": \"perhaps\""));
}
