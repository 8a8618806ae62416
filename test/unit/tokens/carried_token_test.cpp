#include "tokens/carried_token.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using namespace pgweir::tokens;
using What = TokenVerdict::What;

namespace {

const std::string kSystem = "7312345678901234567";

KnownPrimary primary() {
  return {.system_id = kSystem, .timeline = 3, .insert = Lsn{0x5000}, .first = Lsn{0x3000}, .geometry = {}};
}
CarriedToken token(std::uint32_t timeline, std::uint64_t lsn, const std::string& system = kSystem) {
  return {system, {timeline, Lsn{lsn}}};
}

}  // namespace

TEST_CASE("a token that is carried comes back as it was") {
  const std::string text = to_string(token(3, 0x16B374D848));
  CHECK(text == "7312345678901234567:3:16/B374D848");
  const Result<CarriedToken> read = parse_carried_token(text);
  REQUIRE(read.ok());
  CHECK(read->system_id == kSystem);
  CHECK(read->token == Token{3, Lsn{0x16B374D848}});
  CHECK(parse_carried_token("18446744073709551615:4294967295:FFFFFFFF/FFFFFFFF").ok());
}

TEST_CASE("what is no token is refused, and the error says what one looks like") {
  for (const char* text : {"", "x", ":", "::", "16/B374D848", "1:16/B374D848", "7312345678901234567:3:", "7312345678901234567:3:16",
                           "7312345678901234567:3:0/0", "7312345678901234567:0:16/1", "7312345678901234567:03:16/1", "07:3:16/1", "-7:3:16/1", "+7:3:16/1",
                           "7312345678901234567:3:16/B374D848 ", " 7312345678901234567:3:16/B374D848", "7312345678901234567:3:16/B374D848:4",
                           "18446744073709551616:3:16/1", "7:4294967296:16/1", "7:3:123456789/1", "7:3:16/G", "7 :3:16/1", "7:3 :16/1",
                           "7:3:16/1'", "7:3:16/1\n", "99999999999999999999999999:1:1/1"}) {
    INFO(text);
    const Result<CarriedToken> read = parse_carried_token(text);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().sqlstate() == "22023");
    CHECK(read.error().text().find("7312345678901234567:1:16/B374D848") != std::string::npos);
  }
}

TEST_CASE("a token of this history that the primary has reached is taken as it is") {
  const TokenVerdict verdict = judge(token(3, 0x5000), primary());
  CHECK(verdict.what == What::taken);
  CHECK(verdict.lsn == Lsn{0x5000});
  // Behind the header of a page: nobody who has replayed all reports that.
  KnownPrimary idle = primary();
  idle.insert = Lsn{0x4000};
  CHECK(judge(token(3, 0x4000 + 24), idle).what == What::taken);
  CHECK(judge(token(3, 0x4000 + 24), idle).lsn == Lsn{0x4000});
}

TEST_CASE("a token of an older timeline asks for what survived the promotion, and for no more") {
  CHECK(judge(token(2, 0x2000), primary()).lsn == Lsn{0x2000});
  CHECK(judge(token(2, 0x2000), primary()).what == What::taken);
  CHECK(judge(token(1, 0xFFFFFFFFFFFFFFFF), primary()).what == What::taken);
  CHECK(judge(token(1, 0xFFFFFFFFFFFFFFFF), primary()).lsn == Lsn{0x3000});
}

TEST_CASE("a token that is ahead of all that is known has the primary asked, and names what was expected") {
  const TokenVerdict further = judge(token(3, 0x5001), primary());
  CHECK(further.what == What::ahead);
  CHECK(further.why == "expected at most position 0/5000, which the primary has reached");
  const TokenVerdict newer = judge(token(4, 0x10), primary());
  CHECK(newer.what == What::ahead);
  CHECK(newer.why == "expected at most timeline 3, which the primary is on");
}

TEST_CASE("a token of another cluster is refused at once") {
  const TokenVerdict verdict = judge(token(3, 0x10, "7000000000000000000"), primary());
  CHECK(verdict.what == What::refused);
  CHECK(verdict.why == "it is of another cluster: expected system identifier 7312345678901234567");
}
