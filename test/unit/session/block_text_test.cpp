#include "session/block_text.h"

#include <catch2/catch.hpp>
#include <string>

using namespace pgweir;
using namespace pgweir::session;

namespace {

std::string start(Bytes sql) {
  const std::optional<BlockStart> read = read_block_start(sql);
  if (!read) return "no";
  std::string out = read->begin ? "begin" : "start";
  if (read->read_only) out += " ro";
  switch (read->isolation) {
    case Isolation::unset: break;
    case Isolation::read_committed: out += " rc"; break;
    case Isolation::repeatable_read: out += " rr"; break;
    case Isolation::serializable: out += " s"; break;
  }
  return out;
}

std::string end(Bytes sql) {
  const std::optional<BlockEnd> read = read_block_end(sql);
  if (!read) return "no";
  return std::string(read->commit ? "commit" : "rollback") + (read->chain ? " chain" : "");
}

}  // namespace

TEST_CASE("a BEGIN is read in all its forms", "[session]") {
  CHECK(start("BEGIN") == "begin");
  CHECK(start("begin work;") == "begin");
  CHECK(start(" /* a /* b */ */ BEGIN -- c\n TRANSACTION ;; -- d") == "begin");
  CHECK(start("START TRANSACTION") == "start");
  CHECK(start("start\ttransaction read only") == "start ro");
  CHECK(start("BEGIN ISOLATION LEVEL REPEATABLE READ") == "begin rr");
  CHECK(start("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY, DEFERRABLE") == "begin ro rr");
  CHECK(start("BEGIN READ ONLY NOT DEFERRABLE ISOLATION LEVEL READ COMMITTED") == "begin ro rc");
  CHECK(start("BEGIN ISOLATION LEVEL READ UNCOMMITTED") == "begin rc");
  CHECK(start("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE") == "begin ro s");
  CHECK(start("BEGIN READ ONLY, READ WRITE") == "begin");
}

TEST_CASE("what is no BEGIN, or more than one, is left to a server", "[session]") {
  for (const char* sql : {"", "BEGINNING", "BEGIN READ", "BEGIN ,", "BEGIN READ ONLY,", "BEGIN ISOLATION LEVEL", "BEGIN; SELECT 1", "BEGIN /*",
                          "BEGIN ISOLATION LEVEL SNAPSHOT", "START", "START TRANSACTION WORK", "BEGIN 1", "BEGIN \"work\"", "COMMIT"}) {
    INFO(sql);
    CHECK(start(sql) == "no");
  }
}

TEST_CASE("the end of a block is read, and nothing like it", "[session]") {
  CHECK(end("COMMIT") == "commit");
  CHECK(end("end transaction;") == "commit");
  CHECK(end("ABORT WORK") == "rollback");
  CHECK(end("ROLLBACK AND CHAIN") == "rollback chain");
  CHECK(end("COMMIT WORK AND NO CHAIN /* x */") == "commit");
  for (const char* sql : {"COMMIT PREPARED 'x'", "ROLLBACK TO a", "ROLLBACK TO SAVEPOINT a", "COMMIT AND", "COMMIT AND NO", "COMMIT; SELECT 1", "COMMIT x"}) {
    INFO(sql);
    CHECK(end(sql) == "no");
  }
}

TEST_CASE("what asks for the time of the transaction is seen in texts and values", "[session]") {
  for (const char* sql : {"SELECT now()", "SELECT * FROM t WHERE d > NOW ()", "SELECT CURRENT_DATE", "SELECT 'today'::date", "SELECT age(born) FROM p",
                          "SELECT age /* x */ (born)", "SELECT pg_catalog.\"now\"()", "SELECT localtimestamp(0)", "SELECT transaction_timestamp()"}) {
    INFO(sql);
    CHECK(asks_for_the_time(sql));
  }
  CHECK(asks_for_the_time(Bytes("\0\0\0\3now", 7)));
  for (const char* sql : {"SELECT known, snow FROM nowhere", "SELECT age FROM people", "SELECT average(x)", "SELECT statement_timestamp()",
                          "SELECT now_or_never", ""}) {
    INFO(sql);
    CHECK_FALSE(asks_for_the_time(sql));
  }
}
