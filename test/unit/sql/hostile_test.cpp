// Texts made to hurt. Each must be judged within a bound that only quadratic work or deep recursion
// could miss.
#include <catch2/catch.hpp>
#include <algorithm>
#include <ctime>
#include <functional>

#include "sql/body_reader.h"
#include "sql/split.h"
#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

/// Seconds of processor time, which other work on the machine does not lengthen.
double processor_time() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string repeated(Bytes piece, std::size_t size) {
  std::string out;
  while (out.size() + piece.size() <= size) out += piece;
  return out;
}

}  // namespace

TEST_CASE("forty kilobytes of anything take linear time and little stack") {
  constexpr std::size_t kSize = 40'000;
  const std::pair<std::string, std::string> around[] = {
      {"SELECT ", ""},
      {"", ""},
      {"SELECT f(", ")"},
      {"SELECT * FROM a WHERE x IN (", ")"},
      {"WITH x AS (", ") SELECT 1"},
      {"SET x = ", ""},
      {"CREATE FUNCTION f() BEGIN ATOMIC ", "END"},
      {"EXPLAIN ", "SELECT 1"},
      {"COPY (", ") TO STDOUT"},
      {"INSERT INTO t VALUES ", ""}};
  const std::string pieces[] = {"/*",
                                "/**/",
                                "(",
                                ")",
                                "()",
                                "[",
                                "'",
                                "''",
                                "'a'",
                                "'a'\n",
                                "\"",
                                "\"a\"",
                                "$$",
                                "$a$",
                                "$a",
                                "$",
                                "+",
                                "+-",
                                "@",
                                "~+",
                                "--\n",
                                "1+",
                                "a.",
                                "a(",
                                "f(),",
                                "(SELECT ",
                                "SELECT ",
                                "FROM a,",
                                "JOIN b ",
                                "(1,2),",
                                "WITH a AS (",
                                "a AS (SELECT 1),",
                                ";",
                                ";;",
                                "BEGIN ATOMIC ",
                                "CASE ",
                                "END ",
                                "EXPLAIN ",
                                "E'\\'",
                                "U&\"\\0061\"",
                                "not ",
                                "a::b",
                                "1,",
                                "UNION SELECT 1 FROM t ",
                                "INTO a ",
                                "FOR UPDATE ",
                                "\xC3\xB6",
                                "pgweir: primary "};
  for (const auto& [before, after] : around) {
    for (const std::string& piece : pieces) {
      const std::string text = before + repeated(piece, kSize) + after;
      INFO(before << piece << "…" << after);
      const double began = processor_time();
      CHECK(classify(text) != nullptr);
      // Some milliseconds without optimisation; quadratic work would need many seconds.
      CHECK(processor_time() - began < 2);
    }
  }
}

TEST_CASE("a million different names are bounded, not remembered") {
  std::string columns = "SELECT ";
  std::string tables = "SELECT * FROM t0";
  std::string calls = "SELECT f0()";
  std::string ctes = "WITH c0 AS (SELECT 1)";
  for (int i = 1; i < 50'000; ++i) {
    const std::string n = std::to_string(i);
    columns += "a.x" + n + ",";
    tables += ",t" + n;
    calls += ",f" + n + "()";
    ctes += ",c" + n + " AS (SELECT * FROM c" + std::to_string(i - 1) + ")";
  }
  columns += "1";
  ctes += " SELECT 1";
  const double began = processor_time();
  CHECK(classify(columns)->cause == Cause::unparsed);
  CHECK(classify(tables)->reads.all);
  CHECK(classify(tables)->tables_read.size() <= 256);
  CHECK(classify(calls)->target == Target::primary);
  CHECK(classify(calls)->functions.size() <= 128);
  CHECK(classify(ctes)->reads.all);
  CHECK(processor_time() - began < 5);
}

TEST_CASE("every prefix of a statement is judged without harm") {
  const std::string text =
      "WITH RECURSIVE x(a) AS (SELECT 1 FROM \"T\" t (c), LATERAL f($1, VARIADIC b) UNION ALL "
      "SELECT E'\\'' || $q$;$q$ FROM x) "
      "SEARCH DEPTH FIRST BY a SET o CYCLE a SET c USING p, y AS NOT MATERIALIZED (VALUES (1)) "
      "SELECT CAST(a AS numeric(10,2)), b::int[], U&\"\\0061\", count(*) FILTER (WHERE true) FROM "
      "ROWS FROM (g(1)) AS z(a int) "
      "JOIN ONLY (s.t) USING (id) WHERE a OPERATOR(pg_catalog.=) 1 GROUP BY 1 FOR UPDATE OF t; "
      "COPY s.t (a) FROM STDIN WITH (FORMAT csv) WHERE a > 1; SET SESSION CHARACTERISTICS AS "
      "TRANSACTION READ ONLY; "
      "EXPLAIN (ANALYZE, COSTS off) MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE; SET "
      "LOCAL TIME ZONE INTERVAL '1' HOUR";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    CHECK(classify(Bytes(text).substr(0, size)) != nullptr);
    CHECK(classify(Bytes(text).substr(size)) != nullptr);
    split_statements(Bytes(text).substr(size), {});
  }
}

TEST_CASE("a megabyte of what nests or repeats takes time in proportion to its length") {
  // Sixteen times as much may take some twenty-five times as long, for caches and noise; quadratic work would take 256 times.
  constexpr std::size_t kSmall = 1 << 16;
  constexpr std::size_t kLarge = (1 << 20) - 100;
  const auto nested = [](Bytes open, Bytes inside, Bytes close, std::size_t size) {
    const std::size_t n = size / (open.size() + close.size());
    return "SELECT " + repeated(open, n * open.size()) + std::string(inside) + repeated(close, n * close.size());
  };
  const auto chain = [](Bytes piece, std::size_t size) { return "SELECT 1" + repeated(piece, size); };
  const std::pair<const char*, std::function<std::string(std::size_t)>> kinds[] = {
      {"nested comments", [&](std::size_t size) { return nested("/*", "1", "*/", size) + " 1"; }},
      {"parentheses", [&](std::size_t size) { return nested("(", "1", ")", size); }},
      {"1+1+1", [&](std::size_t size) { return chain("+1", size); }},
      {"UNION ALL", [&](std::size_t size) { return chain(" UNION ALL SELECT 1", size); }},
      {"UNION ALL of tables", [&](std::size_t size) { return chain(" UNION ALL SELECT a FROM t", size); }},
      {"nested sub-selects", [&](std::size_t size) { return nested("(SELECT ", "1", ")", size); }},
      {"not", [&](std::size_t size) { return chain(" AND NOT a", size); }},
      {"list", [&](std::size_t size) { return "SELECT 1 WHERE a IN (1" + repeated(",2", size) + ")"; }},
      {"names", [&](std::size_t size) { return chain(", a.b", size); }},
      {"calls", [&](std::size_t size) { return chain(", f(a)", size); }},
      {"dollar quotes", [&](std::size_t size) { return chain(", $a$ $b$ $a$", size); }},
      {"strings", [&](std::size_t size) { return chain(", 'a''b'", size); }},
      {"statements", [&](std::size_t size) { return chain("; SELECT 1", size); }},
  };
  for (const auto& [name, make] : kinds) {
    const auto least_of = [&, make = make](std::size_t size, int tries) {
      const std::string text = make(size);
      REQUIRE(text.size() <= 1 << 20);
      double least = 1e9;
      for (int i = 0; i < tries; ++i) {
        const double began = processor_time();
        CHECK(classify(text) != nullptr);
        least = std::min(least, processor_time() - began);
      }
      return least;
    };
    const double small = least_of(kSmall, 3);
    const double large = least_of(kLarge, 1);
    INFO(name << ": " << small << " s and " << large << " s");
    CHECK(large < 40 * small + 0.02);
  }
}

TEST_CASE("a body of half a megabyte of anything takes time in proportion to its length") {
  constexpr std::size_t kSmall = 1 << 15;
  constexpr std::size_t kLarge = 1 << 19;
  const std::string pieces[] = {"/*", "(", "()", "[", "'a',", "+1", "1+", "a.", "f(", "f(),", "(SELECT ", "SELECT 1;", "SELECT ", "x := 1;", "x ", "PERFORM 1;",
                                "BEGIN ", "END;", "END ", "IF a THEN ", "IF ", "ELSIF a THEN ", "ELSE ", "LOOP ", "WHILE a LOOP ", "FOR i IN 1..2 LOOP ",
                                "FOR ", "CASE ", "CASE WHEN a THEN ", "WHEN a THEN ", "DECLARE ", "DECLARE c CURSOR FOR SELECT 1;", "a int;", "a int := 1;",
                                "RETURN 1;", "RETURN QUERY SELECT 1;", "EXECUTE a;", "OPEN c;", "<<l>> ", ";", "# ", "INTO a, ", "SELECT 1 INTO a;",
                                "a[1] := 2;", "a[", "EXCEPTION WHEN a THEN ", "UNION ALL SELECT 1 ", "INSERT INTO t VALUES (1);", "WITH a AS (", "NULL;"};
  const auto least_of = [](const std::string& text, bool plpgsql, int tries) {
    double least = 1e9;
    for (int i = 0; i < tries; ++i) {
      BodyReader reader;
      Body body;
      const double began = processor_time();
      plpgsql ? reader.read_plpgsql(text, body) : reader.read_sql(text, body);
      least = std::min(least, processor_time() - began);
    }
    return least;
  };
  for (const std::string& piece : pieces) {
    for (const bool plpgsql : {false, true}) {
      for (const std::string before : {"", "BEGIN ", "BEGIN x := ", "DECLARE "}) {
        if (!plpgsql && !before.empty()) continue;
        const double small = least_of(before + repeated(piece, kSmall), plpgsql, 3);
        const double large = least_of(before + repeated(piece, kLarge), plpgsql, 1);
        INFO((plpgsql ? "PL/pgSQL " : "SQL ") << before << piece << ": " << small << " s and " << large << " s");
        // Sixteen times as much; quadratic work would take 256 times.
        CHECK(large < 40 * small + 0.02);
      }
    }
  }
}
