#include "session/sql_prepared.h"

#include <catch2/catch.hpp>

using namespace pgweir;
using session::SqlPrepared;

namespace {

std::string text_of(SqlPrepared& prepared, std::string_view name) {
  const SqlPrepared::Known* known = prepared.find(name);
  return known ? known->statement.text : "";
}

}  // namespace

TEST_CASE("a name is known once its PREPARE was confirmed", "[session]") {
  SqlPrepared prepared;
  prepared.sent(4, "a", "SELECT 1", {});
  CHECK(text_of(prepared, "a") == "");
  prepared.confirmed(3);
  CHECK(text_of(prepared, "a") == "");
  prepared.confirmed(4);
  CHECK(text_of(prepared, "a") == "SELECT 1");
  prepared.answered(4);
  CHECK(text_of(prepared, "a") == "SELECT 1");
  CHECK(text_of(prepared, "b") == "");
}

TEST_CASE("a PREPARE that was answered without its completion is not known", "[session]") {
  SqlPrepared prepared;
  prepared.sent(1, "a", "SELECT 1", {});
  prepared.answered(1);
  prepared.confirmed(1);
  CHECK(text_of(prepared, "a") == "");
  // One that fails because the name is taken takes nothing away.
  prepared.sent(2, "a", "SELECT 2", {});
  prepared.confirmed(2);
  prepared.answered(2);
  prepared.sent(3, "a", "DELETE FROM t", {});
  prepared.answered(3);
  CHECK(text_of(prepared, "a") == "SELECT 2");
}

TEST_CASE("confirmations of one unit find their statements in order", "[session]") {
  SqlPrepared prepared;
  prepared.sent(1, "a", "", {});  // Not to be known.
  prepared.sent(1, "b", "SELECT 2", {});
  prepared.sent(1, "c", "SELECT 3", {});
  prepared.confirmed(1);
  CHECK(prepared.size() == 0);
  prepared.confirmed(1);
  prepared.answered(1);  // The third one failed.
  CHECK(prepared.size() == 1);
  CHECK(text_of(prepared, "b") == "SELECT 2");
}

TEST_CASE("a name that was given away, or is taken though it should not be, is unknown", "[session]") {
  SqlPrepared prepared;
  prepared.sent(1, "a", "SELECT 1", {});
  prepared.forget("a");  // DEALLOCATE, sent behind it.
  prepared.confirmed(1);
  CHECK(prepared.size() == 0);
  prepared.sent(2, "a", "SELECT 2", {});
  prepared.sent(3, "a", "SELECT 3", {});
  prepared.confirmed(2);
  CHECK(text_of(prepared, "a") == "SELECT 2");
  prepared.confirmed(3);
  CHECK(prepared.size() == 0);
  prepared.sent(4, "b", "SELECT 4", {});
  prepared.sent(5, "c", "SELECT 5", {});
  prepared.confirmed(4);
  prepared.forget_all();
  prepared.confirmed(5);
  CHECK(prepared.size() == 0);
}

TEST_CASE("what is kept of prepared texts is bounded", "[session]") {
  SqlPrepared prepared;
  const std::string text(100'000, 'x');
  for (std::uint64_t i = 1; i <= 5; ++i) {
    prepared.sent(i, "s" + std::to_string(i), text, {});
    prepared.confirmed(i);
    prepared.answered(i);
  }
  CHECK(prepared.size() == 2);
  prepared.forget("s1");
  prepared.sent(6, "s6", text, {});
  prepared.confirmed(6);
  CHECK(text_of(prepared, "s6") == text);
  prepared.forget_all();
  for (std::uint64_t i = 10; i < 3000; ++i) {
    prepared.sent(i, "n" + std::to_string(i), "SELECT 1", {});
    prepared.confirmed(i);
    prepared.answered(i);
  }
  CHECK(prepared.size() == 1000);
  SqlPrepared pipelined;
  for (std::uint64_t i = 1; i < 3000; ++i) pipelined.sent(i, "n", "SELECT 1", {});
  for (std::uint64_t i = 1; i < 3000; ++i) pipelined.confirmed(i);
  CHECK(pipelined.size() == 0);
}
