#include "session/deallocate.h"

#include <catch2/catch.hpp>

using pgweir::session::deallocated_name;

TEST_CASE("DEALLOCATE names the statement as PostgreSQL folds it", "[session]") {
  CHECK(deallocated_name("DEALLOCATE foo") == "foo");
  CHECK(deallocated_name("deallocate FOO ;") == "foo");
  CHECK(deallocated_name("  Deallocate Prepare Foo") == "foo");
  CHECK(deallocated_name("DEALLOCATE \"Foo\"\"s\"") == "Foo\"s");
  CHECK(deallocated_name("DEALLOCATE prepare") == "prepare");
}

TEST_CASE("DEALLOCATE ALL and other statements name nothing", "[session]") {
  CHECK(deallocated_name("DEALLOCATE ALL").empty());
  CHECK(deallocated_name("DEALLOCATE PREPARE ALL").empty());
  CHECK(deallocated_name("DELETE FROM t").empty());
  CHECK(deallocated_name("DEALLOCATE a; SELECT 1").empty());
  CHECK(deallocated_name("DEALLOCATE \"a\" b\"").empty());
  CHECK(deallocated_name("").empty());
}
