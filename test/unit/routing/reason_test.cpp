#include "routing/reason.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace pgweir::routing {

TEST_CASE("every reason has a word of its own and a sentence", "[routing]") {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < kReasonCount; ++i) {
    const Reason reason = static_cast<Reason>(i);
    words.insert(to_string(reason));
    CHECK(sentence(reason).ends_with("."));
  }
  CHECK(words.size() == kReasonCount);
  CHECK(to_string(Reason::token_ahead) == "token_ahead");
  CHECK(to_string(Reason::healed) == "healed");
}

TEST_CASE("a statement's cause is the reason of the same name", "[routing]") {
  CHECK(reason_of(sql::Cause::none) == Reason::read);
  CHECK(reason_of(sql::Cause::write) == Reason::write);
  CHECK(reason_of(sql::Cause::unlogged) == Reason::unlogged);
  CHECK(reason_of(sql::Cause::session_state) == Reason::session_state);
}

}  // namespace pgweir::routing
