// What the options of a line of [databases] do to its connections.
#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

using Kind = io::Address::Kind;

/// A line `shop = LINE`.
std::string line(std::string_view options) {
  return concat({"[databases]\nshop = ", options, "\n"});
}

/// "name\0value\0", as it stands in a startup packet.
std::string pair(std::string_view name, std::string_view value) {
  std::string out(name);
  out += '\0';
  out += value;
  out += '\0';
  return out;
}

/// What the first connection for a client of `shop` says.
std::string startup_of(std::string_view options) {
  Bench b(line(options));
  auto client = b.client("shop", "web");
  REQUIRE(b.dialer.dialled.size() == 1);
  b.dialer.dialled[0]->connected();
  return b.dialer.dialled[0]->take();
}

io::Address address_of(std::string_view options) {
  Bench b(line(options));
  auto client = b.client("shop", "web");
  REQUIRE(b.dialer.dialled.size() == 1);
  return b.dialer.dialled[0]->peer;
}

}  // namespace

TEST_CASE("host and port say where: a name, an address, a folder, an abstract socket, or nothing",
          "[databases]") {
  CHECK(address_of("host=10.1.1.1") == io::Address{Kind::tcp, "10.1.1.1", 5432});
  CHECK(address_of("host=db.example port=6000") == io::Address{Kind::tcp, "db.example", 6000});
  CHECK(address_of("host=::1") == io::Address{Kind::tcp, "::1", 5432});
  CHECK(address_of("host=/run/postgresql port=5433") ==
        io::Address{Kind::unix_socket, "/run/postgresql", 5433});
  CHECK(address_of("host=@pg") == io::Address{Kind::unix_socket, "@pg", 5432});
  CHECK(address_of("port=5434") == io::Address{Kind::unix_socket, "/tmp", 5434});
}

TEST_CASE("dbname, user and the startup parameters of a line go into its servers' startup packet",
          "[databases]") {
  const std::string plain = startup_of("host=h");
  CHECK(plain.find(pair("user", "web")) != std::string::npos);
  CHECK(plain.find(pair("database", "shop")) != std::string::npos);
  CHECK(plain.find("client_encoding") == std::string::npos);
  const std::string full = startup_of(
      "host=h dbname=store user=robot password=x client_encoding=LATIN1 datestyle='ISO, DMY' "
      "timezone=Asia/Tokyo application_name='it''s me'");
  CHECK(full.find(pair("user", "robot")) != std::string::npos);
  CHECK(full.find(pair("database", "store")) != std::string::npos);
  CHECK(full.find(pair("client_encoding", "LATIN1")) != std::string::npos);
  CHECK(full.find(pair("DateStyle", "ISO, DMY")) != std::string::npos);
  CHECK(full.find(pair("TimeZone", "Asia/Tokyo")) != std::string::npos);
  CHECK(full.find(pair("application_name", "it's me")) != std::string::npos);
}

TEST_CASE("a list in host= is taken in turn, with the one port", "[databases]") {
  Bench b("default_pool_size = 3\n" + line("host=h1,h2,h3 port=6000"));
  std::vector<std::shared_ptr<Wire>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(b.client("shop", "web"));
    if (i == 0) b.server_logs_in();
  }
  for (const auto& client : clients) {
    const std::size_t known = b.dialer.dialled.size();
    b.ask(*client, "select 1");
    if (b.dialer.dialled.size() > known) b.server_logs_in();
  }
  REQUIRE(b.dialer.dialled.size() == 3);
  CHECK(b.dialer.dialled[0]->peer == io::Address{Kind::tcp, "h1", 6000});
  CHECK(b.dialer.dialled[1]->peer == io::Address{Kind::tcp, "h2", 6000});
  CHECK(b.dialer.dialled[2]->peer == io::Address{Kind::tcp, "h3", 6000});
}

TEST_CASE("load_balance_hosts=disable stays with a host until it fails", "[databases]") {
  Bench b("default_pool_size = 3\nserver_login_retry = 1\n" +
          line("host=h1,h2 load_balance_hosts=disable"));
  std::vector<std::shared_ptr<Wire>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(b.client("shop", "web"));
    if (i == 0) b.server_logs_in();
  }
  b.ask(*clients[0], "select 1");
  b.ask(*clients[1], "select 2");
  REQUIRE(b.dialer.dialled.size() == 2);
  CHECK(b.dialer.dialled[0]->peer.host == "h1");
  CHECK(b.dialer.dialled[1]->peer.host == "h1");
  b.dialer.dialled[1]->hang_up("connect to h1: Connection refused");
  b.turn();
  b.pass(2s);
  REQUIRE(b.dialer.dialled.size() >= 3);
  CHECK(b.dialer.dialled.back()->peer.host == "h2");
  b.server_logs_in();
  CHECK(b.dialer.dialled.back()->has("select 2"));
}

TEST_CASE("connect_query runs on each new server before its first client", "[databases]") {
  Bench b(line("host=h connect_query='select prepare_me()'"));
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  b.ask(*client, "select 1");
  CHECK(server->has("select prepare_me()"));
  CHECK_FALSE(server->has("select 1"));
  b.answer(*server, "SELECT 1");
  CHECK(client->has("15.9"));
  if (!server->has("select 1")) b.ask(*client, "select 1");
  CHECK(server->has("select 1"));
  CHECK_FALSE(client->has("SELECT 1"));
}

TEST_CASE("a connect_query that fails is logged and ignored", "[databases]") {
  Bench b(line("host=h connect_query='select nonsense()'"));
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  REQUIRE(server->has("select nonsense()"));
  std::string out;
  protocol::append_error(out, "ERROR", "42883", "function nonsense() does not exist");
  protocol::append_ready(out, 'I');
  server->say(out);
  b.turn();
  CHECK(b.log.has("connect_query failed: function nonsense() does not exist"));
  CHECK_FALSE(client->has("nonsense"));
  b.ask(*client, "select 1");
  CHECK(server->has("select 1"));
}

TEST_CASE("pool_mode: the user's beats the database's, which beats the global one", "[databases]") {
  Bench b(line("host=h pool_mode=session") + "[users]\nt = pool_mode=transaction\n");
  const auto mode_of = [&](std::string_view user) {
    auto client = b.client("shop", user);
    b.server_logs_in();
    for (const auto& pool : b.pooler.world().pools()) {
      if (pool.user == user) return pool.pool_mode;
    }
    return config::PoolMode::statement;
  };
  CHECK(mode_of("web") == config::PoolMode::session);
  CHECK(mode_of("t") == config::PoolMode::transaction);
}

TEST_CASE("min_pool_size keeps servers of a forced user without a client", "[databases]") {
  Bench b(line("host=h user=robot min_pool_size=1"));
  auto client = b.client("shop", "web");
  auto server = b.server_logs_in();
  client->hang_up();
  b.turn();
  server->hang_up();
  b.turn();
  b.pass(2s);
  CHECK(b.dialer.dialled.size() == 2);
}
