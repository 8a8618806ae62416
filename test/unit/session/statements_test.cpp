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

TEST_CASE("clients whose settings give literals another meaning have a statement of their own", "[session]") {
  StatementStore store;
  SettingsInterner interner;
  const SharedSettings tokyo = interner.with(interner.empty(), "TimeZone", "Asia/Tokyo");
  const StatementRef a = store.get("SELECT timestamptz '2026-01-01'", {}, interner.empty());
  CHECK(store.get("SELECT timestamptz '2026-01-01'", {}, tokyo) != a);
  CHECK(store.get("SELECT timestamptz '2026-01-01'", {}, interner.with(tokyo, "TimeZone", std::nullopt)) == a);
}

TEST_CASE("a retired statement makes room for a new one of the same text", "[session]") {
  StatementStore store;
  const StatementRef old = store.get("SELECT * FROM t", {});
  store.retire(*old);
  const StatementRef fresh = store.get("SELECT * FROM t", {});
  CHECK(fresh != old);
  CHECK(fresh->server_name != old->server_name);
  store.retire(*old);
  CHECK(store.get("SELECT * FROM t", {}) == fresh);
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
  for (const StatementRef& statement : {a, b, c}) server.add(statement, 0);
  CHECK(server.use(*a, 1) == ServerStatements::Known::yes);
  CHECK(server.over(3) == nullptr);
  CHECK(server.over(2) == b);
  CHECK(server.use(*b, 1) == ServerStatements::Known::no);
  CHECK(server.size() == 2);
}

TEST_CASE("a Parse under way counts within its unit and is doubtful for the next one", "[session]") {
  using enum ServerStatements::Known;
  StatementStore store;
  ServerStatements server;
  const StatementRef a = store.get("a", {});
  server.add(a, 7);
  CHECK(server.use(*a, 7) == yes);
  CHECK(server.use(*a, 8) == unsure);
  server.add(a, 8);           // So it is closed and parsed again there.
  server.failed(*a, 7);       // The first one was skipped, which says nothing about the second.
  CHECK(server.use(*a, 8) == yes);
  server.confirm(*a, 7);
  CHECK(server.use(*a, 9) == unsure);
  server.confirm(*a, 8);
  CHECK(server.use(*a, 9) == yes);
  server.doubt(*a);
  CHECK(server.use(*a, 9) == unsure);
}

TEST_CASE("a statement that was closed behind its Parse stays closed", "[session]") {
  StatementStore store;
  ServerStatements server;
  const StatementRef a = store.get("a", {});
  server.add(a, 1);
  CHECK(server.over(0) == a);
  server.confirm(*a, 1);
  CHECK(server.use(*a, 2) == ServerStatements::Known::no);
}
