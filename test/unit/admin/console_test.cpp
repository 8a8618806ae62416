#include "admin/console.h"

#include <catch2/catch.hpp>

#include "fake_world.h"

using namespace pgweir;
using namespace pgweir::admin;

TEST_CASE("the welcome names PgBouncer's version and parameters, in its order", "[admin]") {
  Fixture f;
  std::string out;
  f.console.append_welcome(out);
  CHECK(words_of(out) ==
        "S(server_version=1.25.2/bouncer) S(client_encoding=UTF8) S(server_encoding=UTF8) "
        "S(DateStyle=ISO) S(TimeZone=GMT) "
        "S(standard_conforming_strings=on) S(is_superuser=on)");
}

TEST_CASE("a simple query is answered by columns, rows, tag and Z", "[admin]") {
  Fixture f;
  CHECK(f.query("SHOW VERSION") == "T(version:25) D(PgBouncer 1.25.2) C(SHOW) Z(I)");
  CHECK(f.query("show peers;") == "T(peer_id:23|host:25|port:23|pool_size:23) C(SHOW) Z(I)");
  CHECK(f.query("SHOW HELP") == "N(00000 Console usage) C(SHOW) Z(I)");
  CHECK(f.query("RELOAD") == "C(RELOAD) Z(I)");
  CHECK(f.query("KILL shop") == "C(KILL) Z(I)");
  CHECK(f.query("SHUTDOWN WAIT_FOR_CLIENTS") == "C(SHUTDOWN) Z(I)");
  REQUIRE(f.world.orders.size() == 3);
  CHECK(f.world.orders[1].verb == Verb::kill);
  CHECK(f.world.orders[1].database == "shop");
  CHECK(f.world.orders[2].verb == Verb::shutdown_wait_for_clients);
}

TEST_CASE("errors are ERROR and Z, and the session goes on", "[admin]") {
  Fixture f;
  CHECK(f.query("select 1") == "E(08P01 invalid command 'select 1', use SHOW HELP;) Z(I)");
  CHECK(f.query("KILL nowhere") == "E(08P01 no such database: nowhere) Z(I)");
  CHECK(f.query("PAUSE pgbouncer") == "E(08P01 cannot pause admin db: pgbouncer) Z(I)");
  CHECK(f.query("DISABLE") == "E(08P01 a database is required) Z(I)");
  CHECK(f.query("KILL_CLIENT x") == "E(08P01 invalid client pointer supplied) Z(I)");
  CHECK(f.query("PAUSE a b") == "E(08P01 invalid command 'PAUSE a b', use SHOW HELP;) Z(I)");
  f.world.reload_works = false;
  CHECK(f.query("RELOAD") == "E(F0000 RELOAD failed, see logs for additional details) Z(I)");
  CHECK(f.query("SHOW VERSION") == "T(version:25) D(PgBouncer 1.25.2) C(SHOW) Z(I)");
  CHECK_FALSE(f.console.finished());
}

TEST_CASE("names may be quoted, and clients are named by id or pointer", "[admin]") {
  Fixture f;
  f.query("ENABLE \"my \"\"db\"");
  f.query("ENABLE 'x'");
  f.query("KILL_CLIENT 17");
  f.query("KILL_CLIENT 0x000000000011");
  REQUIRE(f.world.orders.size() == 4);
  CHECK(f.world.orders[0].database == "my \"db");
  CHECK(f.world.orders[1].database == "x");
  CHECK(f.world.orders[2].client_id == 17);
  CHECK(f.world.orders[3].client_id == 17);
}

TEST_CASE("stats users may SHOW and nothing else", "[admin]") {
  Fixture f(Access::stats);
  CHECK(f.query("SHOW STATE").substr(0, 2) == "T(");
  CHECK(f.query("RELOAD") == "E(08P01 admin access needed) Z(I)");
  CHECK(f.query("SET default_pool_size = 1") == "E(08P01 admin access needed) Z(I)");
  CHECK(f.query("SET extra_float_digits = 3") == "N(00000 SET ignored) C(SET) Z(I)");
  CHECK(f.query("EXPLAIN ROUTE SELECT 1").substr(0, 2) == "T(");
  CHECK(f.world.orders.empty());
}

TEST_CASE("access follows admin_users, stats_users and auth_type any", "[admin]") {
  config::Settings settings = config::defaults();
  settings.admin_users = "root, ops";
  settings.stats_users = "grafana";
  CHECK(access_of(settings, "ops") == Access::admin);
  CHECK(access_of(settings, "grafana") == Access::stats);
  CHECK(access_of(settings, "joe") == Access::none);
  settings.auth_type = config::AuthType::any;
  CHECK(access_of(settings, "joe") == Access::admin);
  CHECK(is_console_database("pgbouncer"));
  CHECK(is_console_database("pgweir"));
  CHECK_FALSE(is_console_database("PgBouncer"));
}

TEST_CASE("SET changes settings, and pretends for what drivers set", "[admin]") {
  Fixture f;
  CHECK(f.query("SET default_pool_size = 7") == "C(SET default_pool_size=7) Z(I)");
  CHECK(f.world.settings_->default_pool_size == 7);
  CHECK(f.query("set pool_mode TO 'transaction'") == "C(SET pool_mode=transaction) Z(I)");
  CHECK(f.query("SET nope = 1") == "E(08P01 SET failed) Z(I)");
  CHECK(f.query("SET datestyle TO 'ISO'") == "N(00000 SET ignored) C(SET) Z(I)");
  CHECK(f.query("SET") == "E(08P01 invalid command 'SET', use SHOW HELP;) Z(I)");
  CHECK(f.query("SHOW client_encoding") == "T(client_encoding:25) D(UTF-8) C(SHOW) Z(I)");
  CHECK(f.query("SHOW standard_conforming_strings") ==
        "T(standard_conforming_strings:25) D(on) C(SHOW) Z(I)");
  CHECK(f.query("SHOW timezone") == "T(timezone:25) D(GMT) C(SHOW) Z(I)");
  CHECK(f.query("SHOW datestyle") == "T(datestyle:25) D(ISO) C(SHOW) Z(I)");
  CHECK(f.query("SHOW default_transaction_isolation") ==
        "T(default_transaction_isolation:25) D(read committed) C(SHOW) Z(I)");
}

TEST_CASE("SHUTDOWN drops the connection without an answer", "[admin]") {
  Fixture f;
  CHECK(f.query("SHUTDOWN") == "");
  CHECK(f.console.finished());
}

TEST_CASE("PAUSE answers when it is done, and keeps what is sent meanwhile", "[admin]") {
  Fixture f;
  CHECK(f.query("PAUSE shop") == "");
  CHECK(f.console.busy());
  CHECK(f.query("SHOW VERSION") == "");
  std::string out;
  f.console.complete({}, out);
  CHECK(words_of(out) == "C(PAUSE) Z(I) T(version:25) D(PgBouncer 1.25.2) C(SHOW) Z(I)");
  CHECK_FALSE(f.console.busy());
}

TEST_CASE("a PAUSE that fails later is an error, and one that is cancelled is undone", "[admin]") {
  Fixture f;
  f.query("PAUSE");
  std::string out;
  f.console.complete(Error("already suspended/paused"), out);
  CHECK(words_of(out) == "E(08P01 already suspended/paused) Z(I)");
  f.query("PAUSE");
  CHECK(f.world.waiting == &f.console);
  out.clear();
  f.console.cancel(out);
  CHECK(words_of(out) == "E(57014 canceling statement due to user request) Z(I)");
  CHECK(f.world.waiting == nullptr);
}

TEST_CASE("a client that leaves during PAUSE is forgotten", "[admin]") {
  FakeWorld world;
  {
    ConsoleSession console(world, Access::admin);
    std::string out;
    console.on_message('Q', Bytes("PAUSE\0", 6), out);
    CHECK(world.waiting == &console);
  }
  CHECK(world.waiting == nullptr);
}

TEST_CASE("a client that sends without end during PAUSE is cut off", "[admin]") {
  Fixture f;
  f.query("PAUSE");
  std::string out;
  for (int i = 0; i < 100 && !f.console.finished(); ++i)
    f.console.on_message('Q', std::string(1000, 'x'), out);
  CHECK(f.console.finished());
  CHECK(words_of(out) == "E(FATAL 08P01 too much was sent while a command is under way)");
}

TEST_CASE("the extended protocol runs a command from parse to sync", "[admin]") {
  Fixture f;
  protocol::append_parse(f.to_console, "", "SHOW VERSION");
  protocol::append_describe(f.to_console, 'S', "");
  protocol::append_bind(f.to_console, "", "");
  protocol::append_describe(f.to_console, 'P', "");
  protocol::append_execute(f.to_console, "");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "1 t(0) T(version:25) 2 T(version:25) D(PgBouncer 1.25.2) C(SHOW) Z(I)");
  protocol::append_parse(f.to_console, "s1", "RELOAD");
  protocol::append_describe(f.to_console, 'S', "s1");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "1 t(0) n Z(I)");
  protocol::append_bind(f.to_console, "p", "s1");
  protocol::append_execute(f.to_console, "p");
  protocol::append_close(f.to_console, 'S', "s1");
  protocol::append_flush(f.to_console);
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "2 C(RELOAD) 3 Z(I)");
}

TEST_CASE("results go out in binary when the driver asks for it", "[admin]") {
  Fixture f;
  StatsRow stats;
  stats.database = "a";
  stats.total.server_assignment_count = 0;
  stats.total.xact_count = 20000;
  stats.total.query_count = 123456789;
  f.world.stats_ = {stats};
  protocol::append_parse(f.to_console, "", "SHOW STATS_TOTALS");
  protocol::Writer writer(f.to_console);
  writer.begin('B');
  writer.cstring("");
  writer.cstring("");
  writer.u16(0);
  writer.u16(0);
  writer.u16(1);
  writer.u16(1);
  writer.end();
  protocol::append_execute(f.to_console, "");
  std::string out;
  Bytes input = f.to_console;
  protocol::Framer framer;
  while (const std::optional<protocol::Slice> slice = framer.next(input))
    f.console.on_message(slice->type, slice->body(), out);
  const std::string zero("\0\0\0\0\0\0\0\0", 8);
  const std::string twenty_thousand("\0\1\0\1\0\0\0\0\0\2", 10);
  const std::string big("\0\3\0\2\0\0\0\0\0\1\x09\x29\x1a\x85", 14);  // 1 2345 6789
  CHECK(words_of(out).find("D(a|" + zero + "|" + twenty_thousand + "|" + big + "|") !=
        std::string::npos);

  f.to_console.clear();
  protocol::append_parse(f.to_console, "", "SHOW LISTS");
  writer.begin('B');
  writer.cstring("");
  writer.cstring("");
  writer.u16(0);
  writer.u16(0);
  writer.u16(2);
  writer.u16(0);
  writer.u16(1);
  writer.end();
  protocol::append_describe(f.to_console, 'P', "");
  protocol::append_execute(f.to_console, "", 1);
  protocol::append_execute(f.to_console, "", 100);
  protocol::append_sync(f.to_console);
  const std::string words = f.send();
  CHECK(words.substr(0, 61) ==
        std::string("1 2 T(list:25|items:23b) D(databases|\0\0\0\1) s D(users|\0\0\0\0) D(", 61));
  CHECK(words.substr(words.size() - 12) == "C(SHOW) Z(I)");
}

TEST_CASE("after an error of the extended protocol all is skipped up to Sync", "[admin]") {
  Fixture f;
  protocol::append_parse(f.to_console, "", "select 1");
  protocol::append_bind(f.to_console, "", "");
  protocol::append_execute(f.to_console, "");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "E(08P01 invalid command 'select 1', use SHOW HELP;) Z(I)");
  protocol::append_bind(f.to_console, "", "nobody");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "E(26000 prepared statement \"nobody\" does not exist) Z(I)");
  protocol::append_execute(f.to_console, "nobody");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "E(34000 portal \"nobody\" does not exist) Z(I)");
  protocol::append_parse(f.to_console, "a", "SHOW STATE");
  protocol::append_parse(f.to_console, "a", "SHOW STATE");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "1 E(42P05 prepared statement \"a\" already exists) Z(I)");
  const std::optional<Bytes> parameter = "1";
  protocol::append_bind(f.to_console, "", "a", {&parameter, 1});
  protocol::append_sync(f.to_console);
  CHECK(
      f.send() ==
      "E(08P01 bind message supplies 1 parameters, but prepared statement \"a\" requires 0) Z(I)");
}

TEST_CASE("PAUSE by the extended protocol gets its Z by the Sync", "[admin]") {
  Fixture f;
  protocol::append_parse(f.to_console, "", "PAUSE");
  protocol::append_bind(f.to_console, "", "");
  protocol::append_execute(f.to_console, "");
  protocol::append_sync(f.to_console);
  CHECK(f.send() == "1 2");
  std::string out;
  f.console.complete({}, out);
  CHECK(words_of(out) == "C(PAUSE) Z(I)");
}

TEST_CASE("broken messages end the session", "[admin]") {
  for (char type : {'P', 'B', 'D', 'E', 'C', 'Q', '?'}) {
    Fixture f;
    std::string out;
    f.console.on_message(type, Bytes("x", 1), out);
    INFO(type);
    CHECK(f.console.finished());
    CHECK(words_of(out).substr(0, 14) == "E(FATAL 08P01 ");
  }
  Fixture f;
  std::string out;
  f.console.on_message('X', {}, out);
  CHECK(f.console.finished());
  CHECK(out.empty());
}
