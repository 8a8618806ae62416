#include "session/statement_hints.h"

#include <catch2/catch.hpp>

#include "session/causality.h"

using namespace pgweir;
using namespace pgweir::session;
using config::ConsistencyLevel;

namespace {

StatementHints judge(std::vector<std::string> keys, std::vector<std::string> levels = {}, sql::Dialect dialect = {}) {
  return judge_hints({.keys = std::move(keys), .levels = std::move(levels), .cut = false}, dialect);
}

}  // namespace

TEST_CASE("a key and a level that are understood are no doubt") {
  const StatementHints hints = judge({"user:42"}, {"latest"});
  CHECK(hints.keys == std::vector<std::string>{"user:42"});
  CHECK(hints.level == ConsistencyLevel::latest);
  CHECK_FALSE(hints.doubtful);
  CHECK_FALSE(judge({std::string(128, 'x')}).doubtful);
  CHECK_FALSE(judge({"\xc3\xa9"}).doubtful);
}

TEST_CASE("a key that is none, and a level that is none, are doubts") {
  for (const std::string& key : {std::string(129, 'x'), std::string("a\x01z"), std::string("\x7f")}) {
    CHECK(judge({key}).doubtful);
    CHECK(judge({key}).keys.empty());
  }
  CHECK(judge({}, {"strict"}).doubtful);
  CHECK_FALSE(judge({}, {"strict"}).level.has_value());
  // Under such an encoding it is not known what stands there.
  CHECK(judge({"\xf9\xf5"}, {}, {.encoding = sql::Encoding::sjis}).doubtful);
  CHECK_FALSE(judge({"abc"}, {}, {.encoding = sql::Encoding::sjis}).doubtful);
}

TEST_CASE("several keys or levels of one text contradict each other, and the keys all count") {
  CHECK(judge({"a", "b"}).doubtful);
  CHECK(judge({"a", "b"}).keys.size() == 2);
  CHECK(judge({}, {"table", "latest"}).doubtful);
  const StatementHints cut = judge_hints({.keys = {"a"}, .levels = {}, .cut = true}, {});
  CHECK(cut.doubtful);
  CHECK(cut.keys_missing);
}

TEST_CASE("a write under a key that nobody could read concerns every key, and those to come") {
  tokens::CaptureLog captures;
  CausalKeys keys;
  const auto known = keys.get("known", captures);
  const tokens::Ticket ticket = captures.mark();
  const Time at{std::chrono::seconds{7}};
  keys.write_of_any(ticket, at);
  const auto later = keys.get("later", captures);
  for (const auto& key : {known, later}) {
    keys.settle_writes_of_any(*key);
    CHECK(key->need.pending == ticket);
    CHECK(key->last_write_at == at);
  }
}
