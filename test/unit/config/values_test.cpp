#include "config/values.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::config;
using namespace std::chrono_literals;

TEST_CASE("times are seconds, or have a unit", "[config]") {
  CHECK(*parse_duration("5") == 5s);
  CHECK(*parse_duration("0.5") == 500ms);
  CHECK(*parse_duration(".5") == 500ms);
  CHECK(*parse_duration("10us") == 10us);
  CHECK(*parse_duration("50ms") == 50ms);
  CHECK(*parse_duration("2s") == 2s);
  CHECK(*parse_duration("2 S") == 2s);
  CHECK(*parse_duration("1min") == 60s);
  CHECK(*parse_duration("1.5h") == 90min);
  CHECK(*parse_duration("0") == 0s);
  for (const char* bad :
       {"", "s", "-1", "1x", "1e3", "0x10", "nan", "inf", "1 2", "1.2.3", "99999999999999", "."}) {
    INFO(bad);
    CHECK_FALSE(parse_duration(bad));
  }
  CHECK_FALSE(parse_duration("1" + std::string(400, '0')));
  CHECK_FALSE(parse_duration("1" + std::string(400, '0') + "." + std::string(400, '0')));
}

TEST_CASE("times are shown as PgBouncer shows them", "[config]") {
  CHECK(duration_text(3600s) == "3600");
  CHECK(duration_text(50ms) == "0.05");
  CHECK(duration_text(1500ms) == "1.5");
  CHECK(duration_text(1us) == "0.000001");
  CHECK(duration_text(0s) == "0");
}

TEST_CASE("numbers are read with base 0", "[config]") {
  CHECK(*parse_value<int>("10", {}) == 10);
  CHECK(*parse_value<int>("0777", {}) == 511);
  CHECK(*parse_value<int>("0x10", {}) == 16);
  CHECK(*parse_value<int>("-1", {.lowest = -1}) == -1);
  CHECK(parse_value<int>("-1", {}).error().text() == "expected a number from 0 to 2147483647");
  CHECK_FALSE(parse_value<int>("", {}));
  CHECK_FALSE(parse_value<int>("1x", {}));
  CHECK_FALSE(parse_value<int>("99999999999999999999", {}));
  CHECK_FALSE(parse_value<int>("70000", {.lowest = 0, .highest = 65535}));
  CHECK(*parse_value<std::int64_t>("1MiB", {}) == 1048576);
  CHECK(*parse_value<std::int64_t>("64 kB", {}) == 65536);
  CHECK(*parse_value<bool>("1", {}));
  CHECK_FALSE(*parse_value<bool>("0", {}));
  CHECK_FALSE(*parse_value<bool>("Off", {}));
  CHECK_FALSE(parse_value<bool>("maybe", {}));
}

TEST_CASE("words are compared without case, and errors name those that are allowed", "[config]") {
  CHECK(*parse_pool_mode("Transaction") == PoolMode::transaction);
  CHECK(parse_pool_mode("trx").error().text() == "expected session, transaction or statement");
  CHECK(*parse_value<AuthType>("scram-sha-256", {}) == AuthType::scram_sha_256);
  for (const char* type : {"any", "trust", "plain", "md5", "cert", "peer", "hba", "pam", "ldap"}) {
    INFO(type);
    CHECK(to_string(*parse_value<AuthType>(type, {})) == type);
  }
  CHECK(*parse_consistency("eventual") == ConsistencyLevel::eventual);
  CHECK(parse_value<ReadSplit>("observe", {}).error().text() == "this version can't do that");
  CHECK(parse_consistency("x").error().text() ==
        "expected eventual, session, table, primary, latest, window or pin");
  CHECK(*parse_value<TableWindow>("P99.9", {}) == TableWindow{});
  CHECK(*parse_value<TableWindow>("250ms", {}) ==
        TableWindow{.measured = false, .time = std::chrono::milliseconds{250}});
  CHECK(parse_value<TableWindow>("p99", {}).error().text().starts_with("expected p99.9 or a time"));
  CHECK(to_string(ConsistencyLevel::window) == "window");
  CHECK(to_string(ReadSplit::off) == "off");
  CHECK(to_string(LoadBalanceHosts::round_robin) == "round-robin");
}

TEST_CASE("all six modes of TLS are known", "[config]") {
  CHECK(*parse_value<TlsMode>("prefer", {}) == TlsMode::prefer);
  CHECK(*parse_value<TlsMode>("verify-full", {}) == TlsMode::verify_full);
}

TEST_CASE("hosts come with or without a port, in brackets when they are IPv6", "[config]") {
  Result<std::vector<HostPort>> hosts =
      parse_hosts("h1:5433,[::1]:5434,[::1],::2,h2,/unix/dir,/d:6", 5432);
  REQUIRE(hosts);
  CHECK(*hosts == std::vector<HostPort>{{"h1", 5433},
                                        {"::1", 5434},
                                        {"::1", 5432},
                                        {"::2", 5432},
                                        {"h2", 5432},
                                        {"/unix/dir", 5432},
                                        {"/d", 6}});
  CHECK((*hosts)[1].text() == "[::1]:5434");
  CHECK((*hosts)[0].text() == "h1:5433");
  CHECK((*hosts)[5].is_unix());
  for (const char* bad :
       {"", "h1,", ",h1", "h1:", "h1:x", "h1:0", "h1:65536", "[::1", "[::1]x", ":5432", "a b", "a:5432 b:5433"}) {
    INFO(bad);
    CHECK_FALSE(parse_hosts(bad, 5432));
  }
  CHECK(parse_hosts("a b", 5432).error().text() == "a blank in \"a b\": expected hosts separated by commas");
  CHECK(parse_hosts("/my sockets", 5432)->front().host == "/my sockets");
}

TEST_CASE("lists of networks are read as a whole, or not at all", "[config]") {
  const NetworkList list = *parse_value<NetworkList>("10.0.0.0/8, ::1,192.0.2.7", {});
  CHECK(list.networks.size() == 3);
  CHECK(list.holds(*parse_ip("10.1.2.3")));
  CHECK(list.holds(*parse_ip("::1")));
  CHECK(list.holds(*parse_ip("192.0.2.7")));
  CHECK_FALSE(list.holds(*parse_ip("192.0.2.8")));
  CHECK(print_value(list) == "10.0.0.0/8, ::1,192.0.2.7");
  CHECK(parse_value<NetworkList>("", {})->empty());
  CHECK(parse_value<NetworkList>("10.0.0.0/8,all", {}).error().text() ==
        "expected addresses with /bits behind them, and commas between: \"all\" is none");
  for (const char* bad : {",", "10.0.0.0/33", "10.0.0.0/8 ::1", "localhost", "fe80::1%eth0"}) {
    INFO(bad);
    CHECK_FALSE(parse_value<NetworkList>(bad, {}));
  }
}
