#include "session/search_path.h"

#include <catch2/catch.hpp>

using namespace pgweir::session;

TEST_CASE("the value of SET search_path is what set_config takes", "[session]") {
  CHECK(search_path_value("a, b") == "a, b");
  CHECK(search_path_value("\"$user\", public") == "\"$user\", public");
  CHECK(search_path_value("'My Schema', 'it''s'") == "\"My Schema\", \"it's\"");
  CHECK(search_path_value("''") == "\"\"");
  CHECK(search_path_value("DEFAULT") == std::nullopt);
  CHECK(search_path_value("") == std::nullopt);
}

TEST_CASE("an unfinished quote in a search_path ends with the text", "[session]") {
  CHECK(search_path_value("\"abc").has_value());
  CHECK(search_path_value("'abc") == "\"abc\"");
}

TEST_CASE("settings that travel are known by any spelling", "[session]") {
  CHECK(tracked_name("timezone") == "TimeZone");
  CHECK(is_tracked("Client_Encoding"));
  CHECK_FALSE(is_tracked("statement_timeout"));
}
