#include "session/settings_set.h"

#include <catch2/catch.hpp>

using namespace pgweir::session;

TEST_CASE("equal sets are one object, however they came to be", "[session]") {
  SettingsInterner interner;
  const SharedSettings a = interner.with(interner.with(interner.empty(), "TimeZone", "UTC"), "DateStyle", "ISO");
  const SharedSettings b = interner.with(interner.with(interner.empty(), "datestyle", "ISO"), "timezone", "UTC");
  CHECK(a == b);
  CHECK(interner.with(a, "TIMEZONE", "UTC") == a);
  CHECK(interner.with(interner.with(a, "DateStyle", std::nullopt), "TimeZone", std::nullopt) == interner.empty());
}

TEST_CASE("sets that nobody uses are forgotten", "[session]") {
  SettingsInterner interner;
  for (int i = 0; i < 10'000; ++i) interner.with(interner.empty(), "application_name", std::to_string(i));
  CHECK(interner.size() < 200);
}

TEST_CASE("a server is brought from one set to another in one message", "[session]") {
  SettingsInterner interner;
  const SharedSettings have = interner.with(interner.with(interner.empty(), "TimeZone", "UTC"), "search_path", "a");
  const SharedSettings want = interner.with(interner.with(interner.empty(), "TimeZone", "It's"), "DateStyle", "ISO");
  CHECK(difference(*have, *want) ==
        "RESET \"search_path\"; SELECT pg_catalog.set_config('DateStyle', 'ISO', false), "
        "pg_catalog.set_config('TimeZone', 'It''s', false)");
  CHECK(difference(*have, *have).empty());
  CHECK(difference(*have, *interner.empty()) == "RESET \"search_path\"; RESET \"timezone\"; ");
}
