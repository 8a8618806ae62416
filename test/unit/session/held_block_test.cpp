#include "session/held_block.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;
using namespace pgweir::session;

TEST_CASE("a held block goes where its table says from every state", "[session]") {
  constexpr auto kNowhere = std::optional<BlockState>();
  using enum BlockState;
  struct Row {
    BlockState from;
    std::optional<BlockState> begin, read, fail, leave, chain, lose;
  };
  const Row rows[] = {
      {none, begun, kNowhere, kNowhere, kNowhere, begun, failed},
      {begun, kNowhere, reading, failed, none, begun, kNowhere},
      {reading, kNowhere, reading, failed, none, begun, kNowhere},
      {failed, kNowhere, kNowhere, kNowhere, none, begun, kNowhere},
  };
  for (const Row& row : rows) {
    INFO(to_string(row.from));
    CHECK(next(row.from, BlockEvent::begin) == row.begin);
    CHECK(next(row.from, BlockEvent::read) == row.read);
    CHECK(next(row.from, BlockEvent::fail) == row.fail);
    CHECK(next(row.from, BlockEvent::leave) == row.leave);
    CHECK(next(row.from, BlockEvent::chain) == row.chain);
    CHECK(next(row.from, BlockEvent::lose) == row.lose);
  }
}

TEST_CASE("a server is brought to where the client stands", "[session]") {
  HeldBlock block;
  CHECK_FALSE(block.open());
  block.begin("BEGIN -- why", BlockRoute::by_statement, {});
  const auto opening = [&] {
    std::string out;
    block.append_opening(out);
    return out;
  };
  CHECK(block.status() == 'T');
  CHECK(opening() == "BEGIN -- why");
  block.enter(BlockEvent::read);
  CHECK(opening() == "BEGIN -- why\n;SELECT");
  block.enter(BlockEvent::fail);
  CHECK(block.status() == 'E');
  CHECK(opening() == "BEGIN -- why\n;ROLLBACK TO SAVEPOINT pgweir_failed");
  block.chain({});
  CHECK(block.status() == 'T');
  CHECK(opening() == "BEGIN -- why");
}
