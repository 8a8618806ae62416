#include "session/setting_value.h"

#include <catch2/catch.hpp>

using namespace pgweir::session;

TEST_CASE("a single value of SET is read as PostgreSQL would set it") {
  CHECK(setting_value(" 'warning' ") == "warning");
  CHECK(setting_value("'it''s'") == "it's");
  CHECK(setting_value("''") == "");
  CHECK(setting_value("Warning") == "warning");
  CHECK(setting_value("64000") == "64000");
  CHECK(setting_value("-1") == "-1");
  CHECK(setting_value("0.5") == "0.5");
  CHECK(setting_value("1e3") == "1e3");
  for (const char* other : {"", "a, b", "'a', 'b'", "'a' 'b'", "'a\\b'", "E'a'", "\"Quoted\"", "-x", "-", "$1", "'open", "a b", "1,5", "interval '1'"}) {
    INFO(other);
    CHECK_FALSE(setting_value(other));
  }
}

TEST_CASE("what belongs to a role, a transaction or the server stays where it was set") {
  for (const char* name : {"statement_timeout", "app.tenant_id", "client_min_messages", "default_transaction_isolation"}) {
    INFO(name);
    CHECK(can_travel(name));
  }
  for (const char* name : {"role", "session_authorization", "seed", "transaction_read_only", "default_transaction_read_only", "pgweir.causal_key", "", "a\"b"}) {
    INFO(name);
    CHECK_FALSE(can_travel(name));
  }
}

TEST_CASE("settings that may change a literal make other statements of the same text") {
  for (const char* name : {"TimeZone", "DateStyle", "IntervalStyle", "array_nulls", "unheard_of"}) {
    INFO(name);
    CHECK(may_change_literals(name));
  }
  for (const char* name : {"application_name", "search_path", "Statement_Timeout", "app.tenant_id", "enable_seqscan"}) {
    INFO(name);
    CHECK_FALSE(may_change_literals(name));
  }
}

TEST_CASE("a call of set_config alone, with literals and for the session, is read") {
  const auto call = set_config_call("SELECT set_config('TimeZone', 'UTC', false)");
  REQUIRE(call);
  CHECK(call->first == "timezone");
  CHECK(call->second == "UTC");
  CHECK(set_config_call(" select pg_catalog.set_config ( 'a.b' , 'it''s' , FALSE ) ;"));
  for (const char* sql : {"", "SELECT 1", "SELECT set_config('a', 'b', true)", "SELECT set_config('a', $1, false)", "SELECT set_config('a', 'b', false), 1",
                          "SELECT set_config('a', 'b', false) FROM t", "SELECT set_config('a', 'b', false); DELETE FROM t",
                          "SELECT set_config('a', E'b', false)", "SELECT set_config('a', 'b' || 'c', false)", "SELECTset_config('a','b',false"}) {
    INFO(sql);
    CHECK_FALSE(set_config_call(sql));
  }
}
