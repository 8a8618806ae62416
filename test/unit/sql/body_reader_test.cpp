#include "sql/body_reader.h"

#include <catch2/catch.hpp>

#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

Body plpgsql(Bytes source) {
  BodyReader reader;
  Body body;
  reader.read_plpgsql(source, body);
  return body;
}
Body plain_sql(Bytes source) {
  BodyReader reader;
  Body body;
  reader.read_sql(source, body);
  return body;
}
std::string calls(const Body& body) {
  std::string out;
  for (const Call& call : body.found.calls) {
    if (call.doubtful) continue;
    if (!out.empty()) out += ' ';
    out += call.name.name + '/' + std::to_string(call.name.arguments);
  }
  return out;
}
std::string reads(const Body& body) { return listed(body.found.reads); }
std::string writes(const Body& body) { return listed(body.found.writes); }

}  // namespace

TEST_CASE("the statements of a function in SQL name what they read, write and call") {
  const Body body = plain_sql(
      "INSERT INTO audit.log (what) SELECT name FROM users WHERE f(id, 2); SELECT g() FROM \"T\"");
  CHECK(body.readable);
  CHECK(reads(body) == "users T");
  CHECK(writes(body) == "audit.log");
  CHECK(body.found.write_uses == std::vector<Uses>{use::kInsert});
  CHECK(calls(body) == "f/2 g/0");
  CHECK_FALSE(body.dynamic);
  CHECK_FALSE(body.writes_all);
  CHECK_FALSE(body.primary_only);
}

TEST_CASE("each way of PL/pgSQL to run a query or an expression is read") {
  struct Case {
    Bytes source;
    const char* reads;
    const char* writes;
    const char* calls;
  };
  const Case cases[] = {
      {"BEGIN RETURN f(1); END", "", "", "f/1"},
      {"BEGIN RETURN (SELECT count(*) FROM t WHERE id = uid); END;", "t", "", "count/0"},
      {"BEGIN PERFORM f(a) FROM t; END", "t", "", "f/1"},
      {"DECLARE n int := f(1); BEGIN NULL; END", "", "", "f/1"},
      {"DECLARE n t.x%TYPE DEFAULT f(); m CONSTANT int NOT NULL = g(); BEGIN END", "", "",
       "f/0 g/0"},
      {"DECLARE c CURSOR (a int) FOR SELECT * FROM t WHERE x = a; BEGIN OPEN c(1); FETCH c INTO r; "
       "CLOSE c; END",
       "t", "", ""},
      {"DECLARE c SCROLL CURSOR IS SELECT f() FROM t; BEGIN FOR r IN c(3) LOOP NULL; END LOOP; END",
       "t", "", "f/0"},
      {"BEGIN SELECT a, b INTO STRICT x, r.y FROM t WHERE id = f(); END", "t", "", "f/0"},
      {"BEGIN SELECT INTO x a FROM t; SELECT a INTO x[1] FROM u; END", "t u", "", ""},
      {"BEGIN INSERT INTO t VALUES (1) RETURNING id INTO n; END", "", "t", ""},
      {"BEGIN UPDATE t SET a = 1 FROM u WHERE t.id = u.id; DELETE FROM v; END", "u", "t v", ""},
      {"BEGIN x := f(1) + (SELECT max(a) FROM t); y = g(); r.z := h(); a[i(1)] := 3; END", "t", "",
       "f/1 max/1 g/0 h/0 i/1"},
      {"BEGIN n := count(*) FROM t; END", "t", "", "count/0"},
      {"BEGIN IF f() THEN INSERT INTO a VALUES (1); ELSIF EXISTS (SELECT 1 FROM b) THEN DELETE "
       "FROM c; ELSE UPDATE d SET x = 1; END IF; END",
       "b", "a c d", "f/0"},
      {"BEGIN IF CASE WHEN f() THEN true ELSE g() END THEN DELETE FROM a; END IF; END", "", "a",
       "f/0 g/0"},
      {"BEGIN CASE f(x) WHEN 1, g(2) THEN DELETE FROM a; ELSE DELETE FROM b; END CASE; END", "",
       "a b", "f/1 g/1"},
      {"BEGIN CASE WHEN f() THEN NULL; WHEN g() THEN DELETE FROM a; END CASE; END", "", "a",
       "f/0 g/0"},
      {"BEGIN FOR i IN REVERSE f(1) .. g(2) BY h(3) LOOP DELETE FROM a; END LOOP; END", "", "a",
       "f/1 g/1 h/1"},
      {"<<outer>> BEGIN FOR r, s IN SELECT * FROM t LOOP EXIT outer WHEN f(r.id); CONTINUE; END "
       "LOOP; END outer",
       "t", "", "f/1"},
      {"BEGIN FOR r IN WITH x AS (SELECT * FROM t) SELECT * FROM x LOOP NULL; END LOOP; END", "t",
       "", ""},
      {"BEGIN FOR r IN UPDATE t SET a = 1 RETURNING * LOOP NULL; END LOOP; END", "", "t", ""},
      {"BEGIN FOREACH x SLICE 1 IN ARRAY f() LOOP NULL; END LOOP; WHILE g() LOOP NULL; END LOOP; "
       "LOOP EXIT; END LOOP; END",
       "", "", "f/0 g/0"},
      {"BEGIN RETURN QUERY SELECT * FROM t; RETURN NEXT f(); RETURN QUERY (SELECT g()); RETURN "
       "NEXT; END",
       "t", "", "f/0 g/0"},
      {"BEGIN OPEN c FOR SELECT * FROM t; OPEN d NO SCROLL FOR SELECT f(); END", "t", "", "f/0"},
      {"BEGIN RAISE NOTICE 'x % %', f(1), (SELECT a FROM t) USING HINT = g(); ASSERT h(), 'no'; "
       "END",
       "t", "", "f/1 g/0 h/0"},
      {"BEGIN DELETE FROM a; EXCEPTION WHEN unique_violation OR SQLSTATE '23505' THEN INSERT INTO "
       "b VALUES (1); WHEN OTHERS THEN GET STACKED DIAGNOSTICS m = MESSAGE_TEXT; RAISE; END",
       "", "a b", ""},
      {"BEGIN MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN "
       "INSERT VALUES (f()); END",
       "u", "t", "f/0"},
      {"#variable_conflict use_column\nBEGIN DELETE FROM a; END", "", "a", ""},
      {"BEGIN CALL p(1, f()); END", "", "", "f/0 p/2"},
      {"BEGIN DECLARE n int = f(); BEGIN DELETE FROM a; END; RETURN n; END", "", "a", "f/0"},
  };
  for (const Case& one : cases) {
    INFO(one.source);
    const Body body = plpgsql(one.source);
    CHECK(body.readable);
    CHECK(reads(body) == one.reads);
    CHECK(writes(body) == one.writes);
    CHECK(calls(body) == one.calls);
    CHECK_FALSE(body.dynamic);
  }
}

TEST_CASE("a body that runs a text, in any of the ways there are, is dynamic") {
  for (Bytes source : {"BEGIN EXECUTE q; END", "BEGIN EXECUTE 'SELECT 1' INTO n USING f(1); END",
                       "BEGIN FOR r IN EXECUTE q LOOP NULL; END LOOP; END",
                       "BEGIN RETURN QUERY EXECUTE q USING 1; END",
                       "BEGIN OPEN c FOR EXECUTE q; END", "BEGIN IF x THEN execute q; END IF; END",
                       "BEGIN DO 'BEGIN NULL; END'; END", "BEGIN <<a>> EXECUTE q; END"}) {
    INFO(source);
    const Body body = plpgsql(source);
    CHECK((body.dynamic || !body.readable));
  }
  CHECK(calls(plpgsql("BEGIN EXECUTE format('x %s', f(1)) INTO n; END")) == "f/1 format/2");
}

TEST_CASE("a body that does what only a primary can says so") {
  for (Bytes source :
       {"BEGIN PERFORM 1 FROM t FOR UPDATE; END", "BEGIN COMMIT; END", "BEGIN LISTEN x; END",
        "BEGIN SET work_mem = '1MB'; END", "BEGIN LOCK TABLE t; END", "BEGIN TRUNCATE t; END",
        "BEGIN CREATE TABLE x (a int); END", "BEGIN ALTER TABLE t ADD b int; END"}) {
    INFO(source);
    const Body body = plpgsql(source);
    CHECK(body.readable);
    CHECK((body.primary_only || body.found.locks_rows));
  }
  CHECK(plpgsql("BEGIN CREATE TABLE x (a int); END").writes_all);
  CHECK_FALSE(plpgsql("BEGIN TRUNCATE t; END").writes_all);
  CHECK(plpgsql("BEGIN DEALLOCATE p; END").writes_all);
  CHECK(plpgsql("BEGIN PREPARE p AS SELECT 1; END").writes_all);
}

TEST_CASE("what is not understood makes a body unreadable, and never hangs or crashes") {
  for (Bytes source :
       {"BEGIN x := 'unterminated", "BEGIN RETURN ((1); END", "BEGIN FOR r IN SELECT 1 END",
        "DECLARE c CURSOR; BEGIN END", "BEGIN SELECT * FROM ; END"}) {
    INFO(source);
    CHECK_FALSE(plpgsql(source).readable);
  }
  CHECK_FALSE(plain_sql("SELECT $$").readable);
  CHECK(plpgsql("").readable);
  CHECK(plain_sql("").readable);
  for (Bytes piece : {"BEGIN ", "IF ", "(", "<<", "DECLARE ", "FOR ", "IN ", "LOOP ", "CASE ",
                      "WHEN ", "x := ", "; ", "END ", "INTO ", "#", "EXECUTE ", "/*", "[", ", "}) {
    std::string deep;
    while (deep.size() < 200'000) deep += piece;
    (void)plpgsql(deep);
    (void)plain_sql(deep);
  }
}

TEST_CASE("an upsert may update, a MERGE may do all") {
  const auto uses = [](Bytes source) { return plain_sql(source).found.write_uses.at(0); };
  CHECK(uses("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING") == use::kInsert);
  CHECK(uses("INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1") ==
        (use::kInsert | use::kUpdate));
  CHECK(uses("UPDATE t SET a = 1") == use::kUpdate);
  CHECK(uses("DELETE FROM t") == use::kDelete);
  CHECK(uses("TRUNCATE t") == use::kTruncate);
  CHECK(uses("TRUNCATE t CASCADE") == (use::kTruncate | use::kTruncateCascade));
  CHECK(uses("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE") ==
        (use::kInsert | use::kUpdate | use::kDelete));
}
