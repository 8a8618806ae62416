// What a client may say in its startup packet, and what it is told before its first query.
#include <catch2/catch.hpp>

#include "bench.h"

using namespace pgweir;
using namespace pgweir::test;

namespace {

/// The types of the messages that were sent, in order.
std::string types_on(const Wire& wire) {
  std::string types;
  Bytes rest = wire.sent;
  while (const auto size = protocol::peek_wire_size(rest)) {
    if (*size > rest.size()) break;
    types += rest[0];
    rest.remove_prefix(*size);
  }
  return types;
}

std::string startup_of(std::uint32_t version, Bytes body) {
  std::string packet(8, '\0');
  store_u32(packet.data(), static_cast<std::uint32_t>(body.size() + 8));
  store_u32(packet.data() + 4, version);
  return packet.append(body);
}

}  // namespace

TEST_CASE("a login is answered with authentication, parameters, key, notice and readiness, in this order",
          "[startup]") {
  Bench b("login_notify_message = be kind\n");
  auto client = b.client("shop", "web");
  CHECK(types_on(*client) == "");  // Nothing is known before the first server has spoken.
  b.server_logs_in();
  CHECK(types_on(*client) == "RSKNZ");
  CHECK(notice_on(*client) == "be kind");
  b.reload(std::string(kIni));
  CHECK(types_on(*b.client("shop", "web")) == "RSKZ");
}

TEST_CASE("a client without a name is refused, one without a database goes to the one of its name",
          "[startup]") {
  Bench b;
  auto nobody = b.network.connect();
  nobody->say(startup_of(0x30000, Bytes("database\0shop\0\0", 15)));
  b.turn();
  CHECK(error_on(*nobody) == "FATAL 28000 no username supplied");
  auto shop = b.network.connect();
  shop->say(startup_of(0x30000, Bytes("user\0shop\0\0", 11)));
  b.turn();
  CHECK_FALSE(shop->closing);
  CHECK(b.log.has("login attempt: db=shop user=shop"));
}

TEST_CASE("newer minor versions and protocol options are negotiated away, older protocols refused",
          "[startup]") {
  Bench b;
  auto newer = b.network.connect();
  newer->say(startup_of(0x30002, Bytes("user\0web\0database\0shop\0_pq_.wish\0on\0\0", 37)));
  b.turn();
  CHECK(types_on(*newer) == "v");
  CHECK(newer->has("_pq_.wish"));
  b.server_logs_in();
  CHECK(types_on(*newer) == "vRSKZ");
  auto old = b.network.connect();
  old->say(startup_of(0x20000, {}));
  b.turn();
  CHECK(error_on(*old) == "FATAL 0A000 old V2 protocol not supported");
  auto broken = b.network.connect();
  broken->say(startup_of(0x30000, Bytes("user\0web", 8)));
  b.turn();
  CHECK(error_on(*broken) ==
        "FATAL 08P01 invalid startup packet layout: expected terminator as last byte");
}

TEST_CASE("encryption that is not there is declined, and the login goes on", "[startup]") {
  Bench b;
  auto client = b.network.connect();
  std::string request;
  protocol::append_ssl_request(request);
  client->say(request);
  client->say(startup_of(80877104, {}));
  CHECK(client->take() == "NN");
  client->say(startup_of(0x30000, Bytes("user\0web\0database\0shop\0\0", 24)));
  b.turn();
  b.server_logs_in();
  CHECK(types_on(*client) == "RSKZ");
}

TEST_CASE("a parameter that is not tracked is applied on the server, or refused where that is asked for",
          "[startup]") {
  const Bench::Parameters digits{{"extra_float_digits", "2"}};
  const Bench::Parameters options{{"options", "-c geqo=off --search_path=x"}};
  Bench b;
  auto client = b.client("shop", "web", -1, digits);
  auto server = b.server_logs_in();
  b.ask(*client, "update a set x = 1");
  CHECK(server->has("extra_float_digits"));
  CHECK_FALSE(b.client("shop", "web", -1, options)->closing);
  b.reload(std::string(kIni) + "unknown_startup_parameters = refuse\n");
  CHECK(error_on(*b.client("shop", "web", -1, digits)) ==
        "FATAL 08P01 unsupported startup parameter: extra_float_digits");
  CHECK(error_on(*b.client("shop", "web", -1, options)) ==
        "FATAL 08P01 unsupported startup parameter in options: geqo");
  b.reload(std::string(kIni) + "unknown_startup_parameters = refuse\n"
                               "ignore_startup_parameters = extra_float_digits, options\n");
  CHECK_FALSE(b.client("shop", "web", -1, digits)->closing);
  CHECK_FALSE(b.client("shop", "web", -1, options)->closing);
}

TEST_CASE("options that are not settings are refused", "[startup]") {
  Bench b;
  for (const std::string options : {"-d 5", "geqo=off", "-c geqo", "-c"}) {
    INFO(options);
    CHECK(error_on(*b.client("shop", "web", -1, {{"options", options}})) ==
          "FATAL 22023 unsupported options startup parameter: only '-c config=val' and "
          "'--config=val' are allowed");
  }
}

TEST_CASE("what a client asks for of the tracked parameters is what it is told, and what its server gets",
          "[startup]") {
  Bench b;
  b.files.files["p.ini"] += "unknown_startup_parameters = refuse\n";
  b.reload(b.files.files["p.ini"]);
  const Bench::Parameters asked{{"application_name", "till"},      {"client_encoding", "LATIN1"},
                                {"DateStyle", "German"},           {"TimeZone", "Asia/Tokyo"},
                                {"IntervalStyle", "iso_8601"},     {"standard_conforming_strings", "on"}};
  auto client = b.client("shop", "web", -1, asked);
  auto server = b.server_logs_in();
  REQUIRE_FALSE(client->closing);
  server->take();
  b.ask(*client, "update a set x = 1");
  for (const auto& [name, value] : asked) {
    INFO(name);
    CHECK(server->has(value));
  }
}

TEST_CASE("the console takes any startup parameter", "[startup]") {
  Bench b("unknown_startup_parameters = refuse\n");
  auto own = b.client("pgbouncer", "pgbouncer", 501, {{"extra_float_digits", "2"}});
  CHECK_FALSE(own->closing);
  b.ask(*own, "SHOW VERSION");
  CHECK(own->has("PgBouncer 1.25.2"));
}

TEST_CASE("auth_type = any lets nobody choose whose secret opens the server", "[startup]") {
  Bench b("auth_type = any\n[databases]\nours = host=10.0.0.9 user=web\n");
  auto anybody = b.client("shop", "boss");
  CHECK(error_on(*anybody) == "FATAL F0000 bouncer config error");
  CHECK(b.log.has("auth_type = any needs user= on the line of database shop"));
  CHECK(b.dialer.dialled.empty());
  auto forced = b.client("ours", "nobody_knows");
  CHECK_FALSE(forced->closing);
}
