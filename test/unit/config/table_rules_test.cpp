#include "config/table_rules.h"

#include <catch2/catch.hpp>

#include "config/settings.h"
#include "memory_files.h"

using namespace pgweir;
using namespace pgweir::config;

namespace {

Result<Settings> load_text(const std::string& text) { return load(MemoryFiles{{"pgweir.ini", text}}, "pgweir.ini"); }

std::string rule_of(const Settings& settings, std::string_view database, std::string_view schema, std::string_view table) {
  const TableRule* rule = find_table_rule(settings.table_rules, database, schema, table);
  return rule ? to_string(*rule) : "none";
}

}  // namespace

TEST_CASE("a table rule is a level, a window or a lag", "[config]") {
  for (const std::string text : {"eventual", "session", "table", "latest", "pin", "primary", "window p99.9", "window 2", "window 0.5", "lag 5", "lag 1024B"}) {
    const Result<TableRule> rule = parse_table_rule(text);
    INFO(text);
    REQUIRE(rule);
    CHECK(to_string(*rule) == text);
  }
  CHECK(parse_table_rule("WINDOW  200ms")->window.time == std::chrono::milliseconds{200});
  CHECK(parse_table_rule("lag 16MB")->lag_bytes == 16 << 20);
  CHECK(parse_table_rule("lag 10min")->lag == std::chrono::minutes{10});
  for (const std::string text : {"", "sometimes", "window", "window never", "lag", "lag 0", "lag -1", "lag 5 apples", "primary now", "window 1 2", "lagging 5"}) {
    INFO(text);
    CHECK_FALSE(parse_table_rule(text));
  }
}

TEST_CASE("a pattern names tables with or without their schema", "[config]") {
  const auto fits = [](std::string_view pattern, std::string_view schema, std::string_view table) {
    const Result<TablePattern> parsed = TablePattern::parse(pattern);
    REQUIRE(parsed);
    return parsed->fits(schema, table);
  };
  CHECK(fits("public.users", "public", "users"));
  CHECK_FALSE(fits("public.users", "audit", "users"));
  CHECK(fits("users", "anywhere", "users"));
  CHECK(fits("Public.Users", "public", "users"));
  CHECK_FALSE(fits("\"Users\"", "public", "users"));
  CHECK(fits("\"Users\"", "public", "Users"));
  CHECK(fits("\"a.b\".\"c\"\"d\"", "a.b", "c\"d"));
  CHECK(fits("public.account_*", "public", "account_"));
  CHECK(fits("public.account_*", "public", "account_rows"));
  CHECK_FALSE(fits("public.account_*", "public", "accounts"));
  CHECK(fits("audit.*", "audit", "anything"));
  CHECK(fits("*", "any", "thing"));
  CHECK(fits("a*b*c", "s", "a__b_b_c"));
  CHECK_FALSE(fits("a*b*c", "s", "a__b_b_d"));
  for (const std::string text : {"", ".", "a.", ".a", "a.b.c", "\"a", "\"\"", "a\"b"}) {
    INFO(text);
    CHECK_FALSE(TablePattern::parse(text));
  }
}

TEST_CASE("the database's own section comes first, and in a section the pattern that says most", "[config]") {
  const Result<Settings> settings = load_text(
      "[databases]\nshop = host=h\nother = host=h\n"
      "[table_rules]\n* = eventual\npublic.* = latest\npublic.account_* = primary\npublic.account_names = session\n"
      "feed = window p99.9\nfeed = window 3\n"
      "[table_rules:shop]\naccount* = lag 5\n");
  REQUIRE(settings);
  CHECK(rule_of(*settings, "other", "audit", "log") == "eventual");
  CHECK(rule_of(*settings, "other", "public", "log") == "latest");
  CHECK(rule_of(*settings, "other", "public", "account_rows") == "primary");
  CHECK(rule_of(*settings, "other", "public", "account_names") == "session");
  CHECK(rule_of(*settings, "other", "public", "feed") == "window 3");
  CHECK(rule_of(*settings, "shop", "public", "account_names") == "lag 5");
  CHECK(rule_of(*settings, "shop", "public", "feed") == "window 3");
}

TEST_CASE("a bad table rule fails the load with file, line and value", "[config]") {
  const auto error_of = [](const std::string& text) {
    const Result<Settings> settings = load_text(text);
    return settings ? std::string() : settings.error().text();
  };
  CHECK(error_of("[table_rules]\npublic.users = often\n") ==
        "pgweir.ini:2: public.users = \"often\": expected eventual, session, table, latest, pin, primary, window <time>|p99.9 or lag <time>|<size>");
  CHECK(error_of("[table_rules]\na.b.c = primary\n") == "pgweir.ini:2: table rule a.b.c: expected at most a schema and a table");
  CHECK(error_of("[databases]\nshop = host=h\n[table_rules:shopp]\na = primary\n") ==
        "[table_rules:shopp]: there is no such database in [databases]");
  CHECK(error_of("[table_rules:]\na = primary\n").find("unknown section [table_rules:]") != std::string::npos);
  std::string many = "[table_rules]\n";
  for (int i = 1; i <= 63; ++i) many += "t" + std::to_string(i) + " = lag " + std::to_string(i) + "\n";
  CHECK(error_of(many) == "table_rules: expected at most 62 different values");
  const std::string long_name(63, 'd');
  CHECK(error_of("[databases]\n" + long_name + " = host=h\n[table_rules:" + long_name + "]\na = primary\n").empty());
}
