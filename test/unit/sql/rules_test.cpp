#include <catch2/catch.hpp>

#include "sql_test_support.h"

using namespace pgweir;
using namespace pgweir::sql;
using namespace pgweir::sql::test;

namespace {

/// "replica", or the cause that sends it to the primary.
std::string verdict(Bytes text) {
  const auto result = classify(text);
  return result->target == Target::replica ? "replica" : std::string(to_string(result->cause));
}
Statement only(Bytes text) {
  const auto result = classify(text);
  REQUIRE(result->statements.size() == 1);
  return result->statements.front();
}

}  // namespace

TEST_CASE("queries of every form go to a replica") {
  for (Bytes text :
       {"SELECT 1",
        "select * from users where id = $1",
        "TABLE users",
        "VALUES (1), (2)",
        "((SELECT 1))",
        "(SELECT id FROM a) UNION ALL (SELECT id FROM b) ORDER BY 1",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "WITH x AS (SELECT 1) (SELECT * FROM x) UNION SELECT 2",
        "COPY (SELECT 1) TO STDOUT",
        "SELECT id FROM users FOR READ ONLY",
        "SELECT substring('abc' FOR 2), 'x' AS update",
        "SELECT count(*) FILTER (WHERE a), max(b) OVER (PARTITION BY c ORDER BY d) FROM t",
        "SELECT ARRAY[1,2], a[1], a[1:2], b.c[3] FROM b",
        "SELECT * FROM t JOIN u ON t.a = ANY (ARRAY[u.b, u.c]) AND t.x IS NOT DISTINCT FROM u.x",
        "SELECT max(n) FROM counters AS insert(name, n)",
        "SELECT 1 AS delete, 2 AS into, 3 AS for",
        "SELECT extract(year FROM d), trim(both 'x' from n), overlay(n placing 'X' from 1 for 1) "
        "FROM t",
        "SELECT interval '1' second, timestamp with time zone '2026-01-01', double precision '1'",
        "SELECT 1::numeric(10,2), CAST(a AS character varying(10)), x::bit varying(3) FROM t",
        "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a int PATH '$')) jt",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t",
        "SELECT a FROM t GROUP BY GROUPING SETS ((a), ())",
        "SELECT * FROM t TABLESAMPLE system (10) REPEATABLE (1)",
        "SELECT a FROM CURRENT_USER a",
        "SELECT * FROM t, current_time(3) AS now(c), localtime JOIN cast(n AS text) c ON true",
        "SELECT (SELECT 1) FROM ONLY (t)"}) {
    INFO(text);
    CHECK(verdict(text) == "replica");
  }
}

TEST_CASE("whatever writes goes to the primary as a write") {
  for (Bytes text : {"INSERT INTO t VALUES (1)",
                     "UPDATE t SET a = 1 WHERE false",
                     "DELETE FROM t",
                     "MERGE INTO t USING u ON true WHEN MATCHED THEN DO NOTHING",
                     "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
                     "WITH a AS NOT MATERIALIZED (SELECT 1), u AS MATERIALIZED (UPDATE t SET a = 1 "
                     "RETURNING 1) SELECT 1",
                     "SELECT 1 AS a INTO t",
                     "SELECT * FROM (SELECT * FROM t FOR UPDATE) s",
                     "SELECT 1 FROM t FOR NO KEY UPDATE",
                     "TABLE t FOR SHARE",
                     "SELECT 1 FROM t FOR KEY SHARE SKIP LOCKED",
                     "SELECT a INTO TEMP x FROM t UNION SELECT 2",
                     "COPY t FROM STDIN",
                     "COPY t TO PROGRAM 'cat'",
                     "COPY t TO '/tmp/x'",
                     "COPY (DELETE FROM t RETURNING *) TO STDOUT",
                     "COPY (SELECT 1 FROM t FOR UPDATE) TO STDOUT",
                     "CREATE TABLE t (a int)",
                     "DROP TABLE t",
                     "TRUNCATE t",
                     "VACUUM t",
                     "NOTIFY x",
                     "LOCK t",
                     "DO 'x'",
                     "CALL p()",
                     "REFRESH MATERIALIZED VIEW v",
                     "ALTER SYSTEM SET work_mem = 1",
                     "delete/**/from/**/t"}) {
    INFO(text);
    CHECK(verdict(text) == "write");
  }
}

TEST_CASE("what is not understood is unparsed, and counts as a write of all tables") {
  for (Bytes text :
       {"FROBNICATE t", "SELECT (1", "SELECT 1)", "SELECT 'a", "SELECT 1 /* x", "(foo)",
        "SELECT * FROM", "SELECT * FROM a,", "SELECT (1; DELETE FROM t)", "WITH x AS (SELECT 1)",
        "SELECT U&\"d!0061t\" UESCAPE '!'", "SELECT * FROM WHERE a", "EXPLAIN EXPLAIN SELECT 1",
        "SELECT a[1", "SELECT (a[1)]"}) {
    INFO(text);
    const auto result = classify(text);
    CHECK(result->target == Target::primary);
    CHECK(result->cause == Cause::unparsed);
    CHECK(result->writes.all);
    CHECK(result->has_session_step);
  }
}

TEST_CASE("functions decide by the built-in list, whatever their spelling") {
  CHECK(verdict("SELECT nextval('s')") == "primary_function");
  CHECK(verdict("SELECT pg_catalog . \"nextval\" ( 's' )") == "primary_function");
  CHECK(verdict("SELECT U&\"n\\0065xtval\"('s')") == "primary_function");
  CHECK(verdict("SELECT NEXTVAL('s')") == "primary_function");
  CHECK(verdict("SELECT \"NEXTVAL\"('s')") == "primary_function");  // unknown
  CHECK(verdict("SELECT nextval FROM seqinfo") == "replica");
  CHECK(verdict("SELECT 1 AS \"nextval('s')\"") == "replica");
  CHECK(verdict("SELECT * FROM nextval('s')") == "primary_function");
  CHECK(verdict("SELECT 1 FROM t JOIN LATERAL pg_advisory_lock(t.a) ON true") ==
        "primary_function");
  CHECK(verdict("SELECT random(), now(), gen_random_uuid()") == "replica");
  CHECK(verdict("SELECT txid_current()") == "primary_function");
  CHECK(verdict("SELECT my_function(1)") == "primary_function");
  CHECK(verdict("SELECT other.lower('x')") == "primary_function");
  CHECK(verdict("SELECT pg_catalog.no_such()") == "primary_function");
  CHECK(verdict("SELECT age(a, b) FROM t") == "replica");
  CHECK(verdict("SELECT age(datfrozenxid) FROM pg_database") == "primary_function");
  CHECK(verdict("SELECT ts_rewrite('a', 'SELECT f()')") == "primary_function");
  CHECK(verdict("SELECT ts_rewrite('a', 'b', 'c')") == "replica");
  CHECK(verdict("INSERT INTO t VALUES (nextval('s'))") == "write");
}

TEST_CASE("arguments are counted at the call's own level") {
  CHECK(calls_of("SELECT lower('a'), concat('a', (1, 2), ARRAY[3, 4], f(5, 6))") ==
        "lower/1 f/2 concat/4");
  CHECK(calls_of("SELECT now(), count(*), string_agg(a, ',' ORDER BY b, c) FROM t") ==
        "now/0 count/0 string_agg/2");
  CHECK(calls_of("SELECT concat(VARIADIC a) FROM t") == "concat/-1");
  CHECK(calls_of("SELECT a.f(1)") == "a.f/1");
  CHECK(calls_of("SELECT CASE WHEN (a) IN (1, 2) THEN coalesce(b, 1) END, EXISTS (SELECT 1)") ==
        "");
}

TEST_CASE("tables are found wherever a table can stand, and nothing else is taken for one") {
  CHECK(reads_of("SELECT * FROM a, b.c, \"D d\".\"E\" JOIN f ON f.x = a.y, LATERAL (SELECT * FROM "
                 "g) h, ONLY i") == "a b.c D d.E f g i");
  CHECK(reads_of("SELECT * FROM (a JOIN (b CROSS JOIN c) ON true) LEFT JOIN d USING (id), e") ==
        "a b c d e");
  CHECK(reads_of("SELECT (SELECT max(x) FROM a WHERE a.y IN (SELECT z FROM b)) FROM c") == "a b c");
  CHECK(reads_of("SELECT * FROM a UNION SELECT * FROM b EXCEPT (TABLE c)") == "a b c");
  CHECK(reads_of("SELECT * FROM generate_series(1, 2) g, ROWS FROM (f(1), g(2)) AS t(x, y), a") ==
        "a");
  CHECK(reads_of("SELECT extract(year FROM d) FROM a WHERE b IS DISTINCT FROM c") == "a");
  CHECK(reads_of("SELECT DISTINCT FROM a") == "a");
  CHECK(reads_of("SELECT * FROM a x (c1, c2), b AS y (c3), \"c\"z") == "a b c");
  CHECK(reads_of("SELECT * FROM a WHERE x = 1 ORDER BY y, z") == "a");
  CHECK(reads_of("SELECT * FROM db.s.a, USERS, Users") == "s.a users");
  CHECK(reads_of("SELECT * FROM a TABLESAMPLE system (1), b * , c") == "a b c");
  CHECK(reads_of("SELECT * FROM a JOIN b ON a.x[1] = ARRAY[b.x, b.y], c") == "a b c");
  CHECK(reads_of("SELECT * FROM ((SELECT 1 FROM a) UNION (SELECT 2 FROM b)) s") == "a b");
  CHECK(reads_of("SELECT relname FROM pg_class, pg_catalog.pg_type, information_schema.tables") ==
        "");
  CHECK(reads_of(
            "INSERT INTO a SELECT * FROM b ON CONFLICT (x) DO UPDATE SET y = (SELECT z FROM c)") ==
        "b c");
  CHECK(reads_of(
            "UPDATE a SET x = 1, y = 2 FROM b, c JOIN d ON true WHERE a.z = (SELECT 1 FROM e)") ==
        "b c d e");
  CHECK(reads_of("DELETE FROM a USING b, c WHERE true RETURNING (SELECT 1 FROM d)") == "b c d");
  CHECK(reads_of("MERGE INTO a AS t USING (SELECT * FROM b) s ON true WHEN NOT MATCHED THEN INSERT "
                 "(x) VALUES (1)") == "b");
  CHECK(reads_of("COPY (SELECT * FROM a) TO STDOUT") == "a");
  CHECK(reads_of("SELECT xmlelement(name foo, xmlattributes(id AS bar)) FROM a") == "a");
}

TEST_CASE("a name that WITH makes is no table where it is visible, and is one elsewhere") {
  CHECK(reads_of("WITH x AS (SELECT * FROM a) SELECT * FROM x, b") == "a b");
  CHECK(reads_of("WITH x AS (SELECT * FROM x) SELECT * FROM x") == "x");
  CHECK(reads_of("WITH RECURSIVE x(n) AS (VALUES (1) UNION ALL SELECT n FROM x) SELECT * FROM x") ==
        "");
  CHECK(reads_of("WITH x AS (SELECT 1), y AS (SELECT * FROM x) SELECT * FROM y") == "");
  CHECK(reads_of("WITH y AS (SELECT * FROM x), x AS (SELECT 1) SELECT * FROM y") == "x");
  CHECK(reads_of("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) q, x") == "x");
  CHECK(reads_of("(WITH x AS (SELECT 1) SELECT * FROM x) UNION SELECT * FROM x") == "x");
  CHECK(reads_of("WITH x AS (SELECT 1) SELECT (SELECT 1 FROM x), y FROM public.x") == "public.x");
  CHECK(reads_of("WITH recursive AS (SELECT 1 FROM a) SELECT * FROM recursive") == "a");
  CHECK(reads_of("WITH RECURSIVE t(a) AS (SELECT 1 FROM b UNION SELECT a FROM t) SEARCH DEPTH "
                 "FIRST BY a, b SET o "
                 "CYCLE a SET c TO 'Y' DEFAULT 'N' USING p, u AS (SELECT 1 FROM d) SELECT * FROM "
                 "t, u, e") == "b d e");
  CHECK(reads_of("WITH x AS (WITH y AS (SELECT 1 FROM a) SELECT * FROM y) SELECT * FROM x, y") ==
        "a y");
}

TEST_CASE("written tables are the targets, at any depth") {
  CHECK(writes_of("INSERT INTO s.a (x, y) VALUES (1, 2) RETURNING *") == "s.a");
  CHECK(writes_of("INSERT INTO a (SELECT x FROM b) ORDER BY 1 FOR NO KEY UPDATE ON CONFLICT DO NOTHING") == "a");
  CHECK(writes_of("INSERT INTO a (SELECT x FROM b) FOR UPDATE ON CONFLICT DO NOTHING") == "a");
  CHECK(writes_of("SELECT 1 INTO UNLOGGED WHERE true") == "unlogged");
  CHECK(writes_of("SELECT 1 INTO UNLOGGED TABLE a WHERE true") == "a");
  CHECK(writes_of("UPDATE ONLY a AS t SET x = 1") == "a");
  CHECK(writes_of("UPDATE ONLY (a) SET x = 1") == "a");
  CHECK(writes_of("WITH d AS (DELETE FROM a RETURNING *), u AS (UPDATE b SET x = 1) INSERT INTO c "
                  "SELECT * FROM d") == "a b c");
  CHECK(writes_of("TRUNCATE TABLE ONLY a, s.b RESTART IDENTITY") == "a s.b");
  CHECK(writes_of("COPY \"A\" (x) FROM STDIN WITH (FORMAT csv)") == "A");
  CHECK(writes_of("SELECT 1 INTO UNLOGGED TABLE a FROM b") == "a");
  CHECK(writes_of("REFRESH MATERIALIZED VIEW CONCURRENTLY m") == "m");
  CHECK(writes_of("DROP TABLE IF EXISTS a, s.b CASCADE") == "a s.b");
  CHECK(writes_of("SELECT update FROM a") == "");
}

TEST_CASE("only writes of plain known tables are less than a write of all") {
  auto catalog = std::make_shared<HandCatalog>();
  catalog->table("t");
  catalog->relations["triggered"] = {.known = true, .on_replicas = true, .writes_more = true};
  catalog->relations["v"] = {.known = true, .on_replicas = true, .is_view = true};
  const auto all = [&](Bytes text) { return classify(text, catalog)->writes.all; };
  CHECK_FALSE(all("INSERT INTO t VALUES (1)"));
  CHECK_FALSE(all("UPDATE t SET a = lower(b)"));
  CHECK_FALSE(all("DELETE FROM t"));
  CHECK_FALSE(all("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE"));
  CHECK_FALSE(all("COPY t FROM STDIN"));
  CHECK_FALSE(all("TRUNCATE t"));
  CHECK_FALSE(all("SELECT * FROM t FOR UPDATE"));
  CHECK_FALSE(all("BEGIN"));
  CHECK_FALSE(all("COMMIT"));
  CHECK_FALSE(all("SET x = 1"));
  CHECK_FALSE(all("SELECT pg_advisory_lock(1)"));
  CHECK(all("TRUNCATE t CASCADE"));
  CHECK(all("INSERT INTO triggered VALUES (1)"));
  CHECK(all("INSERT INTO v VALUES (1)"));
  CHECK(all("INSERT INTO unknown_table VALUES (1)"));
  CHECK(all("UPDATE t SET a = my_function(b)"));
  CHECK(all("ALTER TABLE t ADD b int"));
  CHECK(all("GRANT SELECT ON t TO x"));
  CHECK(all("DO 'x'"));
  CHECK(all("CALL p()"));
  CHECK(all("EXECUTE p"));
  CHECK(all("COMMIT PREPARED 'x'"));
  CHECK(all("SELECT lo_unlink(1)"));
  CHECK(all("SELECT query_to_xml('x', true, true, '')"));
}

TEST_CASE("transaction control is told apart") {
  const auto step = [](Bytes text) { return only(text).transaction; };
  CHECK(step("BEGIN ISOLATION LEVEL SERIALIZABLE") == TransactionStep::begin);
  CHECK(step("START TRANSACTION READ ONLY") == TransactionStep::begin);
  CHECK(step("COMMIT WORK") == TransactionStep::commit);
  CHECK(step("END") == TransactionStep::commit);
  CHECK(step("ROLLBACK") == TransactionStep::rollback);
  CHECK(step("ABORT TRANSACTION") == TransactionStep::rollback);
  CHECK(step("ROLLBACK TO SAVEPOINT s") == TransactionStep::savepoint);
  CHECK(step("ROLLBACK WORK TO s") == TransactionStep::savepoint);
  CHECK(step("SAVEPOINT s") == TransactionStep::savepoint);
  CHECK(step("RELEASE s") == TransactionStep::savepoint);
  CHECK(step("PREPARE TRANSACTION 'x'") == TransactionStep::prepare);
  CHECK(step("COMMIT PREPARED 'x'") == TransactionStep::finish_prepared);
  CHECK(step("ROLLBACK PREPARED 'x'") == TransactionStep::finish_prepared);
  CHECK(step("SET TRANSACTION READ ONLY") == TransactionStep::set_transaction);
  CHECK(step("SET LOCAL TRANSACTION READ ONLY") == TransactionStep::set_transaction);
  CHECK(step("SELECT 1") == TransactionStep::none);
  CHECK(only("COMMIT AND CHAIN").chain);
  CHECK(only("ROLLBACK WORK AND CHAIN").chain);
  CHECK_FALSE(only("COMMIT AND NO CHAIN").chain);
}

TEST_CASE("SET gives setting and value as written, in each of its forms") {
  const auto says = [](Bytes text, SessionStep step, Bytes object, Bytes value) {
    INFO(text);
    const Statement statement = only(text);
    CHECK(statement.session == step);
    CHECK(statement.object == object);
    CHECK(statement.value == value);
    CHECK(statement.cause == Cause::session_state);
    CHECK(classify(text)->depends_on_literal);
  };
  using enum SessionStep;
  says("SET search_path = app, \"Public\"", set, "search_path", "app, \"Public\"");
  says("set session Statement_Timeout to '5s' ;", set, "statement_timeout", "'5s'");
  says("SET app.tenant = 'acme'", set, "app.tenant", "'acme'");
  says("SET \"App.Tenant\" = 'x'", set, "app.tenant", "'x'");
  says("SET TIME ZONE 'UTC'", set, "timezone", "'UTC'");
  says("SET TIME ZONE LOCAL", reset, "timezone", "");
  says("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", set, "timezone",
       "INTERVAL '-08:00' HOUR TO MINUTE");
  says("SET TIMEZONE TO 'UTC'", set, "timezone", "'UTC'");
  says("SET NAMES 'UTF8'", set, "client_encoding", "'UTF8'");
  says("SET SCHEMA 'x'", set, "search_path", "'x'");
  says("SET XML OPTION DOCUMENT", set, "xmloption", "DOCUMENT");
  says("SET LOCAL work_mem = '8MB'", set_local, "work_mem", "'8MB'");
  says("SET search_path TO DEFAULT", reset, "search_path", "");
  says("SET CONSTRAINTS ALL DEFERRED", set_local, "", "");
  says("SET ROLE bob", set_role, "role", "bob");
  says("SET SESSION ROLE 'bob'", set_role, "role", "'bob'");
  says("SET role = bob", set_role, "role", "bob");
  says("SET LOCAL ROLE bob", set_local, "role", "bob");
  says("SET SESSION AUTHORIZATION bob", set_session_authorization, "session_authorization", "bob");
  says("SET LOCAL SESSION AUTHORIZATION bob", set_local, "session_authorization", "bob");
  says("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", set_characteristics, "",
       "READ ONLY");
  says("SET SEED TO 0.5", seed, "seed", "0.5");
  says("RESET search_path", reset, "search_path", "");
  says("RESET ALL", reset_all, "", "");
  says("RESET ROLE", set_role, "role", "");
  says("RESET SESSION AUTHORIZATION", set_session_authorization, "session_authorization", "");
  says("RESET TIME ZONE", reset, "timezone", "");
}

TEST_CASE("what stays in the session is named") {
  const auto step = [](Bytes text) { return only(text).session; };
  using enum SessionStep;
  CHECK(step("SELECT set_config('a', 'b', false)") == set_config);
  CHECK(step("SELECT id FROM t WHERE pg_try_advisory_lock(id)") == advisory_lock);
  CHECK(step("SELECT pg_advisory_xact_lock(1)") == none);
  CHECK(step("SELECT pg_advisory_unlock_all()") == advisory_unlock);
  CHECK(step("INSERT INTO t VALUES (nextval('s'))") == sequence_memory);
  CHECK(step("SELECT lastval()") == sequence_memory);
  CHECK(step("SELECT setseed(0.5)") == seed);
  CHECK(step("UPDATE pg_settings SET setting = '1' WHERE name = 'work_mem'") == set_config);
  CHECK(step("DISCARD ALL") == discard_all);
  CHECK(step("DISCARD TEMP") == discard_some);
  CHECK(step("LISTEN c") == listen);
  CHECK(step("UNLISTEN *") == unlisten);
  CHECK(step("CREATE TEMP TABLE t (a int)") == temp_table);
  CHECK(step("CREATE LOCAL TEMPORARY VIEW v AS SELECT 1") == temp_table);
  CHECK(step("CREATE TABLE pg_temp.t (a int)") == temp_table);
  CHECK(step("SELECT 1 INTO TEMP t") == temp_table);
  CHECK(step("CREATE TABLE t (a int)") == none);
  CHECK(step("DECLARE c CURSOR WITH HOLD FOR SELECT 1") == hold_cursor);
  CHECK(step("DECLARE c BINARY CURSOR WITHOUT HOLD FOR SELECT 1") == cursor);
  CHECK(step("LOAD 'x'") == load);
  CHECK(step("DO 'x'") == opaque);
  CHECK(step("EXPLAIN ANALYZE SELECT nextval('s')") == sequence_memory);
  CHECK(step("EXPLAIN SELECT nextval('s')") == none);
  CHECK(only("LISTEN \"Ch\"").object == "Ch");
  CHECK(only("UNLISTEN *").object == "*");
  CHECK(only("PREPARE P1 AS SELECT 1").object == "p1");
  CHECK(only("EXECUTE p1(1)").object == "p1");
  CHECK(only("DEALLOCATE PREPARE p1").object == "p1");
  CHECK(only("DEALLOCATE prepare").object == "prepare");
  CHECK(step("DEALLOCATE PREPARE ALL") == deallocate_all);
  CHECK(only("FETCH 2 FROM c").object == "c");
  CHECK(only("CLOSE c").object == "c");
  CHECK(only("SHOW pgweir.token").object == "pgweir.token");
  CHECK(only("SHOW x").show);
}

TEST_CASE("PREPARE tells what EXECUTE will run, when nothing but that can happen") {
  CHECK(only("PREPARE p AS SELECT * FROM t WHERE a = $1 -- b\n").value == "SELECT * FROM t WHERE a = $1");
  CHECK(only("PREPARE p (int, text[], numeric(10, 2), timestamp with time zone, character varying (3), \"date\") AS DELETE FROM t").value ==
        "DELETE FROM t");
  CHECK(only("PREPARE p (double precision, bit varying, time without time zone, int ARRAY[3]) AS SELECT 1").value == "SELECT 1");
  // A domain may check values by a function; a name of the grammar may be one's.
  CHECK(only("PREPARE p (my_domain) AS SELECT 1").value == "");
  CHECK(only("PREPARE p (s.int4) AS SELECT 1").value == "");
  CHECK(only("PREPARE p (int, zone) AS SELECT 1").value == "");
  CHECK(only("PREPARE p (int my_domain) AS SELECT 1").value == "");
  CHECK(only("PREPARE p (U&\"date\") AS SELECT 1").value == "");
  CHECK(only("PREPARE p (x%TYPE) AS SELECT 1").value == "");
  const auto plain = [](Bytes text) { return only(text).plain_execute; };
  CHECK(plain("EXECUTE p"));
  CHECK(plain("EXECUTE p(1, 'x', -2.5, NULL, true, $1, '2026-01-01'::date, ARRAY[1,2])"));
  CHECK_FALSE(plain("EXECUTE p(f(1))"));
  CHECK_FALSE(plain("EXECUTE p(nextval('s'))"));
  CHECK_FALSE(plain("EXECUTE p('x'::my_domain)"));
  CHECK_FALSE(plain("EXECUTE p(my_domain 'x')"));
  CHECK_FALSE(plain("EXECUTE p(1 === 2)"));
  CHECK_FALSE(plain("EXECUTE p((SELECT 1 FROM t))"));
  CHECK_FALSE(plain("EXECUTE p(u.touch)"));
  CHECK_FALSE(plain("EXPLAIN ANALYZE EXECUTE p(f(1))"));
}

TEST_CASE("EXPLAIN is the primary's, and writes only when it may run") {
  CHECK(verdict("EXPLAIN SELECT 1") == "server_view");
  CHECK(classify("EXPLAIN DELETE FROM t")->writes.empty());
  CHECK(writes_of("EXPLAIN ANALYZE DELETE FROM t") == "t");
  CHECK(writes_of("EXPLAIN (COSTS OFF, ANALYZE false) DELETE FROM t") == "");
  CHECK(writes_of("EXPLAIN (\"analyze\") DELETE FROM t") == "t");
  CHECK(writes_of("EXPLAIN (FORMAT json) DELETE FROM t") == "");
  CHECK(writes_of("EXPLAIN (ANALYZE, ANALYZE off) DELETE FROM t") == "");
  CHECK(writes_of("EXPLAIN (ANALYZE off, ANALYZE) DELETE FROM t") == "t");  // the last one counts
  CHECK(writes_of("EXPLAIN (ANALYZE 'off') DELETE FROM t") == "t");
  CHECK(writes_of("EXPLAIN (ANALYZE 0) DELETE FROM t") == "t");
  CHECK(verdict("EXPLAIN (SELECT 1)") == "server_view");
}

TEST_CASE("views that describe a server are asked of the primary") {
  for (Bytes name : {"pg_stat_activity", "pg_locks", "pg_settings",
                     "pg_catalog.pg_replication_slots", "pg_sequences", "pg_cursors",
                     "pg_prepared_xacts", "pg_timezone_names", "pg_stat_statements"}) {
    INFO(name);
    CHECK(verdict("SELECT * FROM " + std::string(name)) == "server_view");
  }
  for (Bytes name : {"pg_class", "pg_stats", "pg_catalog.pg_type", "information_schema.tables",
                     "pg_largeobject"}) {
    INFO(name);
    CHECK(verdict("SELECT * FROM " + std::string(name)) == "replica");
  }
}

TEST_CASE("what reads only catalogs must still be fresh after DDL") {
  CHECK_FALSE(classify("SELECT to_regclass('x')")->reads.empty());
  CHECK_FALSE(classify("SELECT 'x'::regclass")->reads.empty());
  CHECK_FALSE(classify("SELECT * FROM pg_class")->reads.empty());
  CHECK(classify("SELECT 1 + 1")->reads.empty());
}

TEST_CASE("a message is as bad as its worst statement") {
  CHECK(verdict("SELECT 1; SELECT 2;") == "replica");
  CHECK(verdict("SELECT 1; DELETE FROM t") == "write");
  CHECK(verdict("SELECT 1; BEGIN") == "transaction_control");
  CHECK(verdict("SELECT 1; SET x = 1") == "session_state");
  CHECK(verdict("SELECT $$;$$; TRUNCATE t") == "write");
  const auto result = classify("BEGIN; INSERT INTO t VALUES (1); COMMIT; SELECT lower('x')");
  REQUIRE(result->statements.size() == 4);
  CHECK(result->has_transaction_step);
  CHECK(result->statements[1].kind == Kind::write);
  CHECK(result->statements[3].kind == Kind::read);
  CHECK(listed(result->tables_written) == "t");
  CHECK_FALSE(result->single());
}

TEST_CASE("an empty query has no statement and may run anywhere") {
  for (Bytes text : {"", " ;; -- nothing\n", "/* x */"}) {
    const auto result = classify(text);
    CHECK(result->statements.empty());
    CHECK(result->kind == Kind::empty);
    CHECK(result->target == Target::replica);
  }
}

TEST_CASE("a routine's body is one statement, and what follows it is not lost") {
  const auto result = classify(
      "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END; SET "
      "ROLE x");
  REQUIRE(result->statements.size() == 2);
  CHECK(result->statements[1].session == SessionStep::set_role);
  // A table called begin with the alias atomic opens no block.
  const auto trick = classify("CREATE VIEW v AS SELECT 1 FROM begin atomic; SET ROLE x");
  REQUIRE(trick->statements.size() == 2);
  CHECK(trick->statements[1].session == SessionStep::set_role);
}

TEST_CASE("COPY counts by its direction, whatever word stands for the protocol") {
  CHECK(only("COPY t FROM STDIN").copy_in);
  CHECK(only("COPY t FROM STDOUT").copy_in);
  CHECK_FALSE(only("COPY t FROM '/x'").copy_in);
  CHECK_FALSE(only("COPY (SELECT 1) TO STDIN").copy_in);
  CHECK(verdict("COPY (SELECT 1) TO STDIN") == "replica");
  CHECK(verdict("COPY t TO STDOUT") == "unparsed");  // It might be a view, says no catalog.
  auto catalog = std::make_shared<HandCatalog>();
  catalog->table("t");
  catalog->relations["v"] = {.known = true, .on_replicas = true, .is_view = true};
  CHECK(classify("COPY t TO STDOUT", catalog)->target == Target::replica);
  CHECK(classify("COPY v TO STDOUT", catalog)->target == Target::primary);
}

TEST_CASE("what may commit and then fail says so") {
  for (Bytes text : {"DO 'x'", "CALL p()", "CREATE INDEX CONCURRENTLY i ON t (a)", "VACUUM",
                     "REINDEX TABLE CONCURRENTLY t", "CREATE DATABASE d", "COMMIT PREPARED 'x'"}) {
    INFO(text);
    CHECK(classify(text)->may_commit);
  }
  CHECK_FALSE(classify("INSERT INTO t VALUES (1)")->may_commit);
  CHECK_FALSE(classify("CREATE INDEX i ON t (a)")->may_commit);
}

TEST_CASE("a label may be any word, also the one that introduces labels") {
  CHECK(reads_of("SELECT 1 AS as FROM a") == "a");
  CHECK(verdict("SELECT 1 AS as INTO a FROM b") == "write");
  CHECK(verdict("SELECT 1 AS as FROM a FOR UPDATE") == "write");
  CHECK(reads_of("SELECT x.as FROM a") == "a");
  CHECK(reads_of("SELECT 1 AS from FROM a") == "a");
  CHECK(verdict("SELECT a.into, b AS into FROM a") == "replica");
}

TEST_CASE("a user's function may bear a word of the grammar") {
  for (Bytes text :
       {"SELECT rollup(1)", "SELECT update(1)", "SELECT over(1)", "SELECT ties(1)",
        "SELECT next(1) FROM t", "SELECT second(x) FROM t",
        "SELECT * FROM a JOIN b ON a.x OPERATOR(pg_catalog.=) mine(1)", "SELECT verbose(1)"}) {
    INFO(text);
    CHECK(verdict(text) == "primary_function");
  }
  for (Bytes text :
       {"SELECT a FROM t GROUP BY ROLLUP (a), CUBE (b)",
        "SELECT sum(a) OVER (w), max(b) FILTER (WHERE c) FROM t",
        "SELECT a FROM t ORDER BY a FETCH FIRST (1) ROWS ONLY", "SELECT now() AT TIME ZONE ('UTC')",
        "SELECT a ILIKE (b) FROM t", "SELECT * FROM unnest($1) WITH ORDINALITY x (a, n)",
        "SELECT interval '1' second(3), 'a'::char varying(3)",
        "SELECT a LIKE b ESCAPE ('x') FROM t GROUP BY GROUPING SETS ((a))",
        "SELECT * FROM t TABLESAMPLE system(1) REPEATABLE (2)"}) {
    INFO(text);
    CHECK(verdict(text) == "replica");
  }
}

TEST_CASE("syntax of PostgreSQL 16 to 19 is routed as well as the rest") {
  for (Bytes text :
       {"SELECT * FROM JSON_TABLE(js, '$[*]' COLUMNS (id FOR ORDINALITY, a int PATH '$.a', NESTED "
        "PATH '$.b[*]' COLUMNS (c text))) AS jt, t",
        "SELECT JSON_OBJECT('k': v, 'l' VALUE 2 ABSENT ON NULL RETURNING jsonb) FROM t",
        "SELECT JSON_ARRAY(1, 2 NULL ON NULL RETURNING text), JSON_ARRAY(SELECT a FROM t ORDER BY "
        "a)",
        "SELECT JSON_OBJECTAGG(k: v WITH UNIQUE KEYS), JSON_ARRAYAGG(v ORDER BY v) FROM t",
        "SELECT js IS JSON OBJECT WITH UNIQUE KEYS, js IS NOT JSON FROM t",
        "SELECT JSON_QUERY(js, '$.a' WITH CONDITIONAL WRAPPER KEEP QUOTES ON SCALAR STRING NULL ON "
        "EMPTY) FROM t",
        "SELECT JSON_VALUE(js, '$.a' RETURNING int DEFAULT 0 ON ERROR), JSON_EXISTS(js, '$.b') "
        "FROM t",
        "SELECT JSON_SERIALIZE(js RETURNING text), JSON_SCALAR(1), JSON('{}' WITH UNIQUE) FROM t",
        "SELECT 1_000, 0xFF, 0o17, 0b11, 1_0.5_0e1_0, 0x_FF FROM t",
        "SELECT * FROM (SELECT 1 FROM t)", "SELECT now() AT LOCAL FROM t",
        "SELECT xmlserialize(content x AS text INDENT) FROM t", "SELECT any_value(a) FROM t",
        "SELECT a FROM t GROUP BY ALL",
        "SELECT first_value(a) IGNORE NULLS OVER (ORDER BY b) FROM t",
        "SELECT random(1, 10), random_normal(), uuidv7(), array_shuffle(a), crc32('x') FROM t",
        "COPY (SELECT 1 FROM t) TO STDOUT WITH (FORMAT json)"}) {
    INFO(text);
    CHECK(verdict(text) == "replica");
    CHECK(reads_of(text) == "t");
  }
  for (Bytes text : {"MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE "
                     "RETURNING merge_action(), t.*",
                     "WITH m AS (MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE RETURNING "
                     "*) SELECT * FROM m",
                     "UPDATE t SET a = 1 RETURNING WITH (OLD AS o, NEW AS n) o.a, n.a",
                     "INSERT INTO t VALUES (1) RETURNING old.a, new.a",
                     "UPDATE t FOR PORTION OF valid FROM '2020-01-01' TO '2021-01-01' SET a = 1"}) {
    INFO(text);
    CHECK(verdict(text) == "write");
    CHECK(writes_of(text) == "t");
  }
  // What is new and not known by name is the primary's.
  for (Bytes text : {"WAIT FOR LSN '0/0'", "REPACK t"}) CHECK(verdict(text) == "unparsed");
}

TEST_CASE("an escape character of a string says nothing, one of a name is not understood") {
  CHECK(verdict("SELECT U&'d!0061t' UESCAPE '!' FROM t") == "replica");
  CHECK(verdict("SELECT U&\"d!0061t\" UESCAPE '!' FROM t") == "unparsed");
  CHECK(verdict("SELECT 1 uescape FROM t") == "unparsed");
}

TEST_CASE("the query of a view is looked at and not run") {
  CHECK(reads_of("CREATE VIEW v AS SELECT * FROM a JOIN b USING (id)") == "a b");
  CHECK(reads_of("CREATE OR REPLACE TEMP VIEW v (x) AS (TABLE a) WITH LOCAL CHECK OPTION") == "a");
  CHECK(writes_of("CREATE VIEW v AS SELECT nextval('s') FROM a") == "v");
  CHECK(only("CREATE VIEW v AS SELECT nextval('s') FROM a").session == SessionStep::none);
}

TEST_CASE("an event trigger belongs to no table") {
  CHECK(writes_of("CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()") == "");
  CHECK(writes_of("CREATE TRIGGER e AFTER INSERT ON t EXECUTE FUNCTION f()") == "t");
}

TEST_CASE("a table may be called like what modifies tables") {
  for (Bytes text : {"SELECT * FROM (update JOIN a ON true)", "SELECT * FROM (update x JOIN a y ON true)",
                     "DELETE FROM b USING a, (update AS x (c) CROSS JOIN a)"}) {
    INFO(text);
    const std::string reads = reads_of(text);
    CHECK((reads == "update a" || reads == "a update"));
  }
  CHECK(verdict("SELECT * FROM (update x JOIN a ON true)") == "replica");
  CHECK(writes_of("INSERT INTO t (SELECT 1) ON CONFLICT (id) DO UPDATE SET a = 1") == "t");
  CHECK(writes_of("WITH x AS (WITH y AS (SELECT 1) UPDATE t SET a = 1 RETURNING 1) TABLE x") == "t");
}

TEST_CASE("a name of the query of an INSERT is none behind it") {
  CHECK(reads_of("INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x ON CONFLICT (a) DO UPDATE SET b = (SELECT c FROM x), d = 1") ==
        "x");
  CHECK(reads_of("INSERT INTO t SELECT * FROM a conflict, b JOIN c ON conflict, d") == "a b c d");
  CHECK(reads_of("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x RETURNING (SELECT c FROM x)") == "");
}
