#include "session/deallocate.h"

#include <catch2/catch.hpp>

using pgweir::session::deallocated_name;
using pgweir::session::forgets_statements;

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

TEST_CASE("DISCARD ALL and DEALLOCATE ALL make the server forget all statements", "[session]") {
  for (const char* sql : {"DISCARD ALL", " discard\tall ;", "DEALLOCATE ALL", "deallocate prepare all;"}) CHECK(forgets_statements(sql));
  for (const char* sql : {"DISCARD TEMP", "DEALLOCATE a", "DEALLOCATE \"all\"", "DISCARD ALL, x", "DELETE FROM t", ""}) {
    CHECK_FALSE(forgets_statements(sql));
  }
}
