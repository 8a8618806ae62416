#include "monitor/observation.h"

#include <catch2/catch.hpp>

namespace pgweir::monitor {

TEST_CASE("an answer to the poll is read", "[monitor]") {
  const Result<Observation> primary = read_observation(
      {{"f", "0/3BCDB498", std::nullopt, "7714", "2", "t", "17.1/17.2", "8192", "16777216", "18"}});
  REQUIRE(primary);
  CHECK_FALSE(primary->in_recovery);
  CHECK(primary->lsn == tokens::Lsn{0x3BCDB498});
  CHECK(primary->timeline == 2);
  CHECK(primary->started_at == "17.1/17.2");
  CHECK(primary->geometry.segment_bytes == 16777216);
  const Result<Observation> standby = read_observation(
      {{"t", std::nullopt, std::nullopt, "7714", "2", "f", "17.1/17.2", "8192", "16777216", "18"}});
  REQUIRE(standby);
  CHECK(standby->lsn == tokens::Lsn{0});
  CHECK_FALSE(standby->timeline_certain);
}

TEST_CASE("pitfall 26: the primary's LSN is read by the page-boundary rule, a standby's as it is",
          "[monitor]") {
  const auto row = [](const char* recovery) {
    return Rows{
        {recovery, "0/1002018", std::nullopt, "7", "1", "t", "1/1", "8192", "16777216", "1"}};
  };
  CHECK(read_observation(row("f"))->lsn == tokens::Lsn{0x1002000});
  CHECK(read_observation(row("t"))->lsn == tokens::Lsn{0x1002018});
  CHECK(read_capture({{"f", "0/1002018", "1/1"}}, {})->lsn == tokens::Lsn{0x1002000});
}

TEST_CASE("what is not an answer to the poll is an error that names the column", "[monitor]") {
  CHECK_FALSE(read_observation({}));
  const Result<Observation> short_row = read_observation({{"f", "0/1"}});
  REQUIRE_FALSE(short_row);
  CHECK(short_row.error().text() == "answer to the poll: column 2 is missing, expected a value");
  const Result<Observation> no_lsn = read_observation(
      {{"f", std::nullopt, std::nullopt, "7", "1", "t", "1/1", "8192", "16777216", "1"}});
  REQUIRE_FALSE(no_lsn);
  CHECK(no_lsn.error().text() == "answer to the poll: column 1 is NULL, expected a value");
  CHECK_FALSE(read_capture({{"f", "zero", "1/1"}}, {}));
  CHECK_FALSE(read_settings({}));
}

TEST_CASE("pitfall 18: the first setting that differs is named with both values", "[monitor]") {
  const NodeSettings primary{{"TimeZone", "UTC"}, {"search_path", "public"}};
  CHECK(difference(primary, primary).empty());
  CHECK(difference({{"TimeZone", "GMT"}, {"search_path", "public"}}, primary) ==
        "TimeZone is \"GMT\", on the primary \"UTC\"");
  CHECK(difference({{"TimeZone", "UTC"}}, primary) ==
        "search_path is not there, on the primary \"public\"");
  CHECK(difference(primary, {{"TimeZone", "UTC"}}) ==
        "search_path is \"public\", on the primary not there");
}

}  // namespace pgweir::monitor
