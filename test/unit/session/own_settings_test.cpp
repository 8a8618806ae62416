#include "session/own_settings.h"

#include <catch2/catch.hpp>

using namespace pgweir::session;
using What = OwnOrder::What;

namespace {

/// "set causal_key=user:42"; "" when it is none.
std::string read(pgweir::Bytes sql) {
  const std::optional<OwnOrder> order = own_order(sql);
  if (!order) return "";
  const std::string name(to_string(order->setting).substr(7));
  switch (order->what) {
    case What::set: return "set " + name + "=" + order->value;
    case What::reset: return "reset " + name;
    case What::show: return "show " + name;
  }
  return "";
}

}  // namespace

TEST_CASE("SET, RESET and SHOW of pgweir's own settings are understood as PostgreSQL would") {
  CHECK(read("SET pgweir.causal_key = 'user:42'") == "set causal_key=user:42");
  CHECK(read("  set session Pgweir.Causal_Key to 'it''s'; ") == "set causal_key=it's");
  CHECK(read("SET pgweir.read_consistency=eventual") == "set read_consistency=eventual");
  CHECK(read("SET pgweir.read_consistency TO latest /* trace=1 */") == "set read_consistency=latest");
  CHECK(read("SET pgweir.read_consistency TO latest /* trace=1 */ ;") == "set read_consistency=latest");
  CHECK(read("SET pgweir.causal_key = ''") == "set causal_key=");
  CHECK(read("SET pgweir.causal_key TO DEFAULT") == "reset causal_key");
  CHECK(read("SET pgweir.causal_key TO 'default'") == "set causal_key=default");
  CHECK(read("RESET pgweir.causal_key;") == "reset causal_key");
  CHECK(read("show pgweir.last_route -- why") == "show last_route");
  CHECK(read("SHOW pgweir.token") == "show token");
  CHECK(read("SET pgweir.token = '7312345678901234567:1:16/B374D848'") == "set token=7312345678901234567:1:16/B374D848");
  CHECK(read("RESET pgweir.token") == "reset token");
}

TEST_CASE("what is more, less or something else is left to the server") {
  for (const char* sql : {"", "SET", "SELECT 1", "SET pgweir.unknown = 1", "SET causal_key = 'x'", "SET pgweir.causal_key", "SHOW ALL",
                          "SET pgweir.causal_key = 'x' 'y'", "SET pgweir.causal_key = 'x", "SET pgweir.causal_key = E'x'",
                          "SET pgweir.causal_key = 'a\\b'", "SET LOCAL pgweir.causal_key = 'x'", "SET pgweir.causal_key = 'x'; DELETE FROM t",
                          "SET pgweir.causal_key = 'x' /* a */ ; DELETE FROM t /* b */", "RESET ALL", "SHOW pgweir.causal_key, x",
                          "SET pgweir.causal_key = 'x' -- a\n; DELETE FROM t", "SET pgweir.causal_key = 'x' /* /* a */ DELETE */",
                          "SET pgweir.causal_key = 'x' /*/", "RESET pgweir.causal_key pgweir.token", "SET TO pgweir.causal_key = x"}) {
    INFO(sql);
    CHECK(read(sql).empty());
  }
}

TEST_CASE("a refused value is named with what was expected, and a long one by its beginning") {
  const pgweir::Error error = refused_value(OwnSetting::token, "x", "expected y");
  CHECK(error.sqlstate() == "22023");
  CHECK(error.text() == "invalid value for parameter \"pgweir.token\": \"x\": expected y");
  CHECK(refused_value(OwnSetting::token, std::string(100'000, '1'), "expected y").text().size() < 300);
}
