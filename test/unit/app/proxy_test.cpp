// Clients behind a proxy that says where they come from.
#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

constexpr std::string_view kTrusted = "proxy_protocol_networks = 10.0.0.0/24, 2001:db8::1\n";
const std::string kHeader = "PROXY TCP4 192.0.2.7 10.0.0.5 56324 6432\r\n";
/// Version 2 for 192.0.2.7, port 1024, with 3 bytes of something else behind the addresses.
const std::string kHeader2("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\2\7\x0a\0\0\5\4\0\x19\x20xyz", 31);

std::string startup() {
  std::string packet;
  protocol::append_startup(packet, Bench::Parameters{{"user", "web"}, {"database", "shop"}});
  return packet;
}

}  // namespace

TEST_CASE("a trusted proxy says where its client is, however the header is split", "[proxy]") {
  for (const std::string& header : {kHeader, kHeader2}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, std::size_t{1000}}) {
      Bench b(kTrusted);
      const auto client = b.network.connect();
      const std::string all = header + startup();
      for (std::size_t at = 0; at < all.size(); at += piece) client->say(std::string_view(all).substr(at, piece));
      b.turn();
      CHECK(b.log.has("shop/web@192.0.2.7:"));
      CHECK(b.log.has("login attempt: db=shop user=web tls=no replication=no proxy=10.0.0.1"));
      b.server_logs_in();
      CHECK(client->has("server_version"));
      const auto boss = b.client("pgbouncer", "pgbouncer", 501);
      b.ask(*boss, "SHOW CLIENTS");
      CHECK(boss->has("192.0.2.7"));
      CHECK_FALSE(boss->has("10.0.0.1"));
    }
  }
}

TEST_CASE("HBA rules see the client behind a trusted proxy, and no proxy that is not trusted", "[proxy]") {
  Bench b;
  b.files.files["rules"] = "host all all 192.0.2.0/24 trust\nhost all all 10.0.0.1/32 reject\n";
  b.reload(std::string(kIni) + "auth_type = hba\nauth_hba_file = rules\n" + std::string(kTrusted));
  const auto client = b.network.connect();
  client->say(kHeader + startup());
  b.turn();
  CHECK_FALSE(client->closing);
  const auto far = b.network.connect();
  far->say("PROXY TCP4 203.0.113.1 10.0.0.5 56324 6432\r\n" + startup());
  b.turn();
  CHECK(error_on(*far) == "FATAL 28000 no authentication method is found");
  // The proxy for itself: its own address counts.
  for (const std::string& own : {std::string("PROXY UNKNOWN\r\n"), std::string("\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16)}) {
    const auto health_check = b.network.connect();
    health_check->say(own + startup());
    b.turn();
    CHECK(error_on(*health_check) == "FATAL 28000 login rejected");
  }
  b.reload(std::string(kIni) + "auth_type = hba\nauth_hba_file = rules\nproxy_protocol_networks = 10.0.1.0/24\n");
  const auto untrusted = b.network.connect();
  untrusted->say(kHeader + startup());
  b.turn();
  CHECK(error_on(*untrusted).find("FATAL 08P01 invalid length of startup packet: ") == 0);
}

TEST_CASE("from a trusted proxy nothing but a whole header in time is taken", "[proxy]") {
  Bench b(std::string(kTrusted) + "client_login_timeout = 5\n");
  const auto none = b.network.connect();
  none->say(startup());
  b.turn();
  CHECK(error_on(*none) ==
        "FATAL 08P01 invalid PROXY protocol header: expected one, as the connection comes from proxy_protocol_networks");
  CHECK(b.log.has("(nodb)/(nouser)@10.0.0.1:4711 closing because: invalid PROXY protocol header: expected one"));
  std::string request;
  protocol::append_ssl_request(request);
  const auto asks_for_tls = b.network.connect();
  asks_for_tls->say(request);
  b.turn();
  CHECK(error_on(*asks_for_tls) == error_on(*none));
  const auto endless = b.network.connect();
  endless->say("PROXY TCP4 " + std::string(200, '1'));
  b.turn();
  CHECK(error_on(*endless) == "FATAL 08P01 invalid PROXY protocol header: its line does not end");
  // A second one is no startup packet.
  const auto twice = b.network.connect();
  twice->say(kHeader + kHeader + startup());
  b.turn();
  CHECK(error_on(*twice).find("FATAL 08P01 invalid length of startup packet: ") == 0);
  const auto half = b.network.connect();
  half->say(std::string_view(kHeader).substr(0, 20));
  b.pass_slowly(4s);
  CHECK_FALSE(half->closing);
  b.pass_slowly(2s);
  CHECK(error_on(*half) == "FATAL 57014 client_login_timeout");
}

TEST_CASE("a header is not asked for on Unix sockets, nor of who came in before the setting", "[proxy]") {
  Bench b;
  const auto before = b.network.connect();
  b.reload(std::string(kIni) + "proxy_protocol_networks = 0.0.0.0/0\n");
  before->say(startup());
  b.turn();
  CHECK_FALSE(before->closing);
  CHECK_FALSE(b.client("pgbouncer", "pgbouncer", 501)->closing);
  CHECK(b.client("shop", "web")->closing);
}

TEST_CASE("a client behind a proxy is named by its own address in application_name", "[proxy]") {
  Bench b(std::string(kTrusted) + "application_name_add_host = 1\n");
  const auto client = b.network.connect();
  client->say(kHeader + startup());
  b.turn();
  const auto server = b.server_logs_in();
  b.ask(*client, "update a set x = 1");
  CHECK(server->has("app - 192.0.2.7:56324"));
}
