#include "session/statements.h"

#include <catch2/catch.hpp>

using namespace pgweir::session;

TEST_CASE("the same text and types are one statement, other types another", "[session]") {
  StatementStore store;
  const StatementRef a = store.get("SELECT $1", {});
  CHECK(store.get("SELECT $1", {}) == a);
  CHECK(store.get("SELECT $1", std::string_view("\0\0\0\x17", 4)) != a);
  CHECK(a->server_name == "pgweir_1");
}

TEST_CASE("statements that nobody holds are forgotten, held ones never", "[session]") {
  StatementStore store;
  const StatementRef kept = store.get("kept", {});
  for (int i = 0; i < 5'000; ++i) store.get(std::to_string(i), {});
  CHECK(store.size() <= 1100);
  CHECK(store.get("kept", {}) == kept);
}

TEST_CASE("a server closes the statement that was used least recently", "[session]") {
  StatementStore store;
  ServerStatements server;
  const StatementRef a = store.get("a", {});
  const StatementRef b = store.get("b", {});
  const StatementRef c = store.get("c", {});
  for (const StatementRef& statement : {a, b, c}) server.add(statement);
  CHECK(server.use(*a));
  CHECK(server.over(3) == nullptr);
  CHECK(server.over(2) == b);
  CHECK_FALSE(server.use(*b));
  CHECK(server.size() == 2);
}
