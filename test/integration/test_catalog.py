"""What the catalog of a real database tells: the corpus' verdicts and deep table sets, dependencies of reads and writes, and
read after write through views, triggers, cascades, partitions and functions."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import pooler as poolers
from cluster import clean_environment, make_folder, run_as, wait_for

CORPUS = pathlib.Path(os.environ.get("PGWEIR_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "test/data/corpus"
SEQUENCES = {"users_id_seq", "orders_id_seq", "jobs_id_seq", "audit_log_id_seq", "ticket_seq", "invoice_seq"}

# Statements whose tables differ from what was measured, and why that must be, or may be.
KEYS_ALL = "counts as all tables: what it runs, or what it changes, its text does not tell"
PRUNED = "partitions that the planner leaves out count as read, and ONLY is not looked at"
NO_ROWS = "it wrote or read nothing there for want of rows, or was not run to its end"
FUNCTION = "a built-in function looks into the table that it is told of; catalogs change with DDL only"
SESSION = "another meaning by what the session did before"
OWN = "a table that is written is not counted as read, nor one that is only locked"
READ_DIFFERS = {
    "q0035": PRUNED, "q0157": PRUNED, "q0223": OWN, "q0240": OWN, "q0368": OWN, "q0587": FUNCTION, "q0703": FUNCTION,
    "q0493": KEYS_ALL, "q0494": KEYS_ALL, "q0506": KEYS_ALL, "q0507": KEYS_ALL, "q0601": KEYS_ALL, "q0637": KEYS_ALL,
    "q0732": KEYS_ALL, "q0764": KEYS_ALL,
}
WRITTEN_DIFFERS = {
    "q0176": NO_ROWS, "q0190": SESSION, "q0217": NO_ROWS, "q0220": NO_ROWS, "q0251": NO_ROWS,
    "q0285": KEYS_ALL, "q0287": KEYS_ALL, "q0291": KEYS_ALL, "q0295": KEYS_ALL, "q0296": KEYS_ALL, "q0364": KEYS_ALL,
    "q0465": KEYS_ALL, "q0493": KEYS_ALL, "q0494": KEYS_ALL, "q0506": KEYS_ALL, "q0507": KEYS_ALL, "q0601": KEYS_ALL,
    "q0637": KEYS_ALL, "q0732": KEYS_ALL, "q0764": KEYS_ALL,
}


def bare(names: list[str]) -> set[str]:
    """Tables of one name in several schemas share a key, so the schema makes no difference."""
    return {name.split(".", 1)[-1].strip('"') for name in names} - SEQUENCES


def classify(cluster, db: str, *arguments: str, stdin: str | None = None) -> list[dict]:
    url = f"postgresql://postgres@127.0.0.1:{cluster.primary.port}/{db}"
    done = subprocess.run([str(poolers.binary()), "classify", "--catalog", url, *arguments], input=stdin, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/tmp", env=clean_environment(), timeout=60, **run_as())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def corpus(cluster):
    """Each line of the corpus with pgweir's answer, by the catalog of the corpus' schema."""
    cluster.primary.execute("DROP DATABASE IF EXISTS corpus WITH (FORCE)")
    cluster.primary.execute("CREATE DATABASE corpus")
    folder = make_folder("pgweir-corpus-")
    try:
        cluster.primary.execute((CORPUS / "schema.sql").read_text(), "corpus")
        shutil.copy(CORPUS / "routing.jsonl", folder / "routing.jsonl")
        os.chmod(folder / "routing.jsonl", 0o644)
        lines = [json.loads(line) for line in (CORPUS / "routing.jsonl").read_text().splitlines()]
        answers = classify(cluster, "corpus", "--jsonl", str(folder / "routing.jsonl"))
        assert len(lines) == len(answers) == 528
        yield list(zip(lines, answers))
    finally:
        shutil.rmtree(folder)
        cluster.primary.execute("DROP DATABASE IF EXISTS corpus WITH (FORCE)")
        cluster.primary.execute("DROP ROLE IF EXISTS corpus_reader")


def test_with_the_catalog_no_statement_of_the_corpus_is_sent_to_a_replica_that_must_not(corpus):
    wrong = [(line["id"], line["sql"]) for line, answer in corpus
             if line["route"] == "primary" and answer["route"] == "replica" and not line.get("setup")]
    assert wrong == []
    assert sum(1 for line, _ in corpus if line["needs_catalog"] and line["route"] == "primary") >= 25


def test_with_the_catalog_a_statement_that_is_expected_on_a_replica_goes_there(corpus):
    expected = [(line, answer) for line, answer in corpus if line.get("offload") == "expected"]
    lost = [(line["id"], line["sql"], answer["reason"], answer["because"]) for line, answer in expected if answer["route"] == "primary"]
    assert len(expected) >= 150
    assert len(lost) * 100 <= len(expected), lost


@pytest.mark.parametrize("what, known", [("read", READ_DIFFERS), ("written", WRITTEN_DIFFERS)])
def test_the_tables_really_read_and_written_are_those_that_the_catalog_tells(corpus, what, known):
    measured = 0
    differ, missing = {}, {}
    for line, answer in corpus:
        if line.get(f"tables_{what}_deep") is None:
            continue
        measured += 1
        wanted, found = bare(line[f"tables_{what}_deep"]), bare(answer[f"tables_{what}_deep"])
        if wanted == found:
            continue
        differ[line["id"]] = (line["sql"], wanted, found)
        if "*" not in found and not wanted <= found:
            missing[line["id"]] = (line["sql"], wanted, found)
    assert measured >= 400
    assert {key: value for key, value in differ.items() if key not in known} == {}
    assert set(known) <= set(differ), "no longer different: take it off the list"
    # What is missing, rather than too much, is named one by one.
    assert {key for key in missing if known[key] not in (FUNCTION, OWN)} == set()


def test_an_answer_tells_the_way_to_its_reason(corpus):
    because = {line["id"]: answer["because"] for line, answer in corpus}
    assert because["q0206"] == "view v_locked, locks rows"
    assert because["q0716"] == "function f_immutable_liar → function f_write → table audit_log, written"
    assert because["q0711"] == "function f_write, VOLATILE"
    assert because["q0727"].startswith("view v_next_ticket → function nextval, ")
    assert because["q0720"] == "operator === → function op_log, VOLATILE"
    assert because["q0725"] == "type logged_int → function dom_check, VOLATILE"
    assert because["q0736"] == "table watched_docs → function f_write, VOLATILE"
    assert because["q0738"] == "table cache_entries, unlogged"


SCHEMA = """
CREATE TABLE parent (id int PRIMARY KEY, note text);
CREATE TABLE child (id int PRIMARY KEY, parent_id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE nulled (id int, parent_id int REFERENCES parent ON DELETE SET NULL);
CREATE TABLE kept (id int, parent_id int REFERENCES parent);
CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY, what text);
CREATE TABLE quiet (id int);
CREATE TABLE tree (id int, k int) PARTITION BY LIST (k);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1);
CREATE TABLE tree_2 PARTITION OF tree FOR VALUES IN (2) PARTITION BY RANGE (id);
CREATE TABLE tree_2a PARTITION OF tree_2 FOR VALUES FROM (0) TO (100);
CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO log (what) VALUES (TG_OP); RETURN NEW; END $$;
CREATE TRIGGER child_logs AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION logs();
CREATE TRIGGER tree_logs AFTER INSERT ON tree FOR EACH ROW EXECUTE FUNCTION logs();
CREATE VIEW parents AS SELECT p.id, count(c.id) AS children FROM parent p LEFT JOIN child c ON c.parent_id = p.id GROUP BY 1;
CREATE VIEW simple AS SELECT id, note FROM parent WHERE id > 0;
CREATE FUNCTION atomic_count() RETURNS bigint STABLE BEGIN ATOMIC SELECT count(*) FROM parents; END;
CREATE FUNCTION atomic_write() RETURNS bigint BEGIN ATOMIC INSERT INTO log (what) VALUES ('atomic') RETURNING id; END;
CREATE FUNCTION stable_sum() RETURNS bigint STABLE LANGUAGE plpgsql AS
  $$ DECLARE n bigint; BEGIN SELECT sum(id) INTO n FROM child; RETURN n + atomic_count(); END $$;
CREATE FUNCTION default_write(x bigint DEFAULT atomic_write()) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT x';
CREATE FUNCTION checked(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what) VALUES ('check'); RETURN true; END $$;
CREATE DOMAIN watched AS int CHECK (checked(VALUE));
CREATE TABLE with_domain (a watched);
CREATE TABLE with_check (a int CHECK (checked(a)));
CREATE TABLE with_default (a bigint DEFAULT atomic_write());
CREATE TABLE guarded (id int);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_child ON guarded USING (id IN (SELECT id FROM child));
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM parent;
CREATE PROCEDURE move() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM quiet; COMMIT; INSERT INTO log (what) VALUES ('moved'); END $$;
CREATE EXTENSION IF NOT EXISTS "uuid-ossp";
"""


@pytest.fixture(scope="module")
def schema(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    return db


# statement, route, read, written
DEEP = [
    ("SELECT * FROM parents", "replica", {"parents", "parent", "child"}, set()),
    ("SELECT * FROM tree_2", "replica", {"tree_2", "tree_2a"}, set()),
    ("SELECT * FROM guarded", "replica", {"guarded", "child"}, set()),
    ("SELECT * FROM totals", "replica", {"totals"}, set()),
    ("SELECT atomic_count()", "replica", {"parents", "parent", "child"}, set()),
    ("SELECT stable_sum()", "replica", {"parents", "parent", "child"}, set()),
    ("SELECT atomic_write()", "primary", set(), {"log"}),
    ("SELECT default_write()", "primary", set(), {"log"}),
    ("SELECT uuid_generate_v4() FROM quiet", "replica", {"quiet"}, set()),
    ("INSERT INTO parent VALUES (1)", "primary", set(), {"parent"}),
    ("UPDATE parent SET id = 3", "primary", set(), {"parent", "child"}),
    ("INSERT INTO parent VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 2", "primary", set(), {"parent", "child"}),
    ("DELETE FROM parent", "primary", {"kept"}, {"parent", "child", "nulled", "log"}),
    ("DELETE FROM simple", "primary", {"kept"}, {"parent", "child", "nulled", "log"}),
    ("TRUNCATE quiet", "primary", set(), {"quiet"}),
    ("TRUNCATE parent CASCADE", "primary", set(), {"parent", "child", "nulled", "kept"}),
    ("INSERT INTO tree VALUES (1, 1)", "primary", set(), {"tree", "tree_1", "tree_2", "tree_2a", "log"}),
    ("INSERT INTO tree_2a VALUES (1, 2)", "primary", set(), {"tree_2a", "log"}),
    ("INSERT INTO with_domain VALUES (1)", "primary", set(), {"with_domain", "log"}),
    ("INSERT INTO with_check VALUES (1)", "primary", set(), {"with_check", "log"}),
    ("INSERT INTO with_default DEFAULT VALUES", "primary", set(), {"with_default", "log"}),
    ("COPY with_check FROM STDIN", "primary", set(), {"with_check", "log"}),
    ("MERGE INTO child USING quiet ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1)", "primary",
     {"quiet", "parent"}, {"child", "log"}),
    ("REFRESH MATERIALIZED VIEW totals", "primary", {"parent"}, {"totals"}),
    ("CALL move()", "primary", set(), {"quiet", "log"}),
]


def test_what_is_read_and_written_through_views_triggers_cascades_partitions_and_functions(cluster, schema):
    answers = classify(cluster, schema, stdin=";\n".join(item[0] for item in DEEP))
    assert len(answers) == len(DEEP)
    found = [(answer["sql"], answer["route"], bare(answer["tables_read_deep"]), bare(answer["tables_written_deep"])) for answer in answers]
    assert found == DEEP


@pytest.fixture(scope="module")
def weir(cluster, schema):
    cluster.primary.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC", schema)
    cluster.wait_caught_up()
    with poolers.for_cluster(cluster, schema, settings="catalog_refresh = 3600") as pooler:
        wait_for("the catalog is loaded", lambda: pooler.console("EXPLAIN ROUTE SELECT * FROM parents")[0]["tables_read_deep"] != "*")
        yield pooler


def test_the_console_tells_dependencies_and_the_way_to_a_reason(weir):
    rows = {row["action"]: row for row in weir.console("SHOW DEPENDENCIES public.parent")}
    assert rows["read"]["reads"] == "public.parent" and rows["read"]["writes"] == ""
    assert rows["insert"]["writes"] == "public.parent"
    assert set(rows["delete"]["writes"].split(", ")) == {"public.parent", "public.child", "public.nulled", "public.log"}
    assert set(rows["truncate cascade"]["writes"].split(", ")) >= {"public.child", "public.kept"}
    [row] = weir.console("EXPLAIN ROUTE SELECT default_write() FROM parents")
    assert row["reason"] == "primary_function"
    assert row["because"] == "function default_write → function atomic_write → table log, written"
    assert set(row["tables_read_deep"].split(", ")) == {"public.parents", "public.parent", "public.child"}
    assert row["tables_written_deep"] == "public.log"


RULES_SCHEMA = """
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE elsewhere (line text) SERVER files OPTIONS (filename '/etc/hostname');
CREATE FUNCTION jot(int) RETURNS int LANGUAGE sql AS $$ INSERT INTO log (what) VALUES ('jot') RETURNING 1 $$;
CREATE VIEW jotting AS SELECT jot(1) AS n;
CREATE VIEW over_jotting AS SELECT n FROM jotting;
CREATE VIEW over_unlogged AS SELECT 1 AS one;
CREATE FUNCTION jot_op(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM jot(1); RETURN true; END $$;
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = jot_op);
CREATE TYPE tag AS (v text);
CREATE FUNCTION to_tag(text) RETURNS tag LANGUAGE plpgsql AS $$ BEGIN PERFORM jot(1); RETURN ROW($1)::tag; END $$;
CREATE CAST (text AS tag) WITH FUNCTION to_tag(text);
CREATE FUNCTION jot_step(int, int) RETURNS int LANGUAGE sql AS 'SELECT jot($2)';
CREATE AGGREGATE jot_all(int) (SFUNC = jot_step, STYPE = int);
CREATE TABLE watched_table (id int);
ALTER TABLE watched_table ENABLE ROW LEVEL SECURITY;
CREATE POLICY watch ON watched_table USING (jot(id) > 0);
CREATE UNLOGGED TABLE fast (id int);
CREATE OR REPLACE VIEW over_unlogged AS SELECT count(*)::int AS one FROM fast;
CREATE FUNCTION touched(quiet) RETURNS int LANGUAGE sql AS 'SELECT jot(1)';
CREATE FUNCTION report_total() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM quiet); END $$;
CREATE SCHEMA other;
CREATE FUNCTION other.looks() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1';
"""

# statement, target, reason, the way to it, tables read and written in the end
RULES = [
    ("SELECT * FROM over_jotting", "primary", "primary_function", "view over_jotting → view jotting → function jot, VOLATILE", {"over_jotting", "jotting"}, {"log"}),
    ("SELECT 'a'::text === 'b' FROM quiet", "primary", "primary_function", "operator === → function jot_op, VOLATILE", {"quiet"}, {"log"}),
    ("SELECT 'a'::text::tag", "primary", "primary_function", "type tag → function to_tag, VOLATILE", set(), {"log"}),
    ("SELECT jot_all(id) FROM quiet", "primary", "primary_function", "function jot_all → function jot_step → function jot → table log, written", {"quiet"}, {"log"}),
    ("SELECT * FROM watched_table", "primary", "primary_function", "table watched_table → function jot, VOLATILE", {"watched_table"}, {"log"}),
    ("SELECT q.touched FROM quiet q", "primary", "primary_function", "function touched, VOLATILE", {"quiet"}, {"log"}),
    ("SELECT * FROM fast", "primary", "unlogged", "table fast, unlogged", {"fast"}, set()),
    ("SELECT * FROM over_unlogged", "primary", "unlogged", "view over_unlogged → table fast, unlogged", {"over_unlogged", "fast"}, set()),
    ("SELECT * FROM elsewhere", "primary", "unlogged", "foreign table elsewhere, foreign", {"elsewhere"}, set()),
    ("DELETE FROM child", "primary", "write", "writes child", set(), {"child", "log"}),
    ("INSERT INTO with_default DEFAULT VALUES", "primary", "write", "writes with_default", set(), {"with_default", "log"}),
    ("INSERT INTO with_domain VALUES (1)", "primary", "write", "writes with_domain", set(), {"with_domain", "log"}),
    ("SELECT pg_backend_pid() FROM quiet", "primary", "primary_function", "function pg_backend_pid, describes the server that is asked", {"quiet"}, set()),
    ("SELECT * FROM pg_stat_activity", "primary", "server_view", "view pg_stat_activity, describes the server that is asked", set(), set()),
    ("SELECT * FROM quiet FOR UPDATE", "primary", "write", "locks rows: FOR UPDATE, FOR SHARE and their like", {"quiet"}, set()),
    ("BEGIN", "primary", "transaction_control", "BEGIN", set(), set()),
    ("SET ROLE app", "primary", "session_state", "SET", set(), set()),
    ("SELECT 'open", "primary", "unparsed", "not understood", {"*"}, {"*"}),
    ("WITH d AS (DELETE FROM quiet RETURNING id) SELECT * FROM d", "primary", "write", "writes quiet", set(), {"quiet"}),
    ("SELECT nextval('log_id_seq')", "primary", "primary_function", "function nextval, uses a sequence", set(), set()),
    ("SELECT no_such(1) FROM quiet", "primary", "primary_function", "function no_such is not in the catalog", {"*"}, {"*"}),
    ("SELECT * FROM no_such_table", "primary", "unparsed", "no_such_table is not in the catalog", {"*"}, set()),
    ("EXPLAIN SELECT 1", "primary", "server_view", "EXPLAIN describes the server that is asked", set(), set()),
    ("SELECT 1; SELECT * FROM over_jotting; DELETE FROM quiet", "primary", "primary_function",
     "view over_jotting → view jotting → function jot, VOLATILE", {"over_jotting", "jotting"}, {"log", "quiet"}),
    ("/* pgweir: primary */ SELECT 1", "primary", "hint", "", set(), set()),
    ("SELECT count(*) FROM simple s JOIN tree USING (id)", "replica", "read", "", {"simple", "parent", "tree", "tree_1", "tree_2", "tree_2a"}, set()),
]


@pytest.fixture(scope="module")
def rules(cluster, schema):
    cluster.primary.execute(RULES_SCHEMA, schema)
    cluster.primary.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC", schema)
    cluster.wait_caught_up()
    return schema


def test_classify_and_the_console_explain_each_kind_of_rule(cluster, rules):
    answers = classify(cluster, rules, "--jsonl", stdin="".join(json.dumps({"sql": item[0]}) + "\n" for item in RULES))
    found = [(answer["sql"], answer["route"], answer["reason"], answer["because"], bare(answer["tables_read_deep"]), bare(answer["tables_written_deep"]))
             for answer in answers]
    for one, expected in zip(found, RULES, strict=True):
        assert one == expected
    with poolers.for_cluster(cluster, rules, settings="catalog_refresh = 3600\nread_consistency = eventual") as pooler:
        wait_for("the catalog is loaded", lambda: pooler.console("EXPLAIN ROUTE SELECT * FROM simple")[0]["tables_read_deep"] != "*")
        for sql, target, reason, because, read, written in RULES:
            [row] = pooler.console(f"EXPLAIN ROUTE {sql}")
            names = lambda text: bare(text.split(", ")) - {""}  # noqa: E731
            assert (sql, row["target"], row["reason"], row["because"], names(row["tables_read_deep"]), names(row["tables_written_deep"])) == \
                (sql, target, reason, because, read, written)


def test_functions_are_allowed_on_replicas_and_kept_from_them_by_name_and_pattern_for_each_database(cluster, rules):
    calls = {"volatile": "SELECT report_total()", "stable": "SELECT other.looks()", "below a view": "SELECT * FROM over_jotting",
             "built in": "SELECT pg_backend_pid()", "harmless": "SELECT upper('x')"}
    line = f"host=127.0.0.1 port={cluster.primary.port} replica_host={cluster.replica_hosts} dbname={rules}"
    lines = (f"patterns = {line} replica_functions='report_*,jot' primary_functions=other.*\n"
             f"both = {line} replica_functions=report_total primary_functions='report_*,upper'\n")
    with poolers.for_cluster(cluster, rules, settings="catalog_refresh = 3600\nread_consistency = eventual\nreplica_functions = public.report_total",
                             more_databases=lines) as pooler:
        for name in ("patterns", "both"):
            pooler.rows("SELECT 1", name)

        def targets(database: str) -> set[str]:
            return {what for what, sql in calls.items()
                    if next(row for row in pooler.console(f"EXPLAIN ROUTE {sql}") if row["database"] == database)["target"] == "replica"}
        wait_for("the catalogs are loaded", lambda: all(
            row["target"] == "replica" and row["tables_read_deep"] != "*" for row in pooler.console("EXPLAIN ROUTE SELECT * FROM simple")))
        assert targets("t") == {"volatile", "stable", "harmless"}
        assert targets("patterns") == {"volatile", "below a view", "harmless"}
        assert targets("both") == {"stable"}
        # They run there, too.
        assert pooler.value("SELECT report_total()", "patterns") == cluster.primary.value("SELECT count(*) FROM quiet", rules)
        assert any(row["database"] == "patterns" and row["target"] == "replica" for row in pooler.console("SHOW ROUTING"))


def test_a_write_is_seen_through_triggers_cascades_and_views_and_other_tables_stay_on_replicas(cluster, schema, weir):
    with weir.connect() as client, weir.connect() as reader, client.cursor() as write, reader.cursor() as read:
        client.autocommit = reader.autocommit = True
        write.execute("INSERT INTO parent VALUES (1), (2)")
        write.execute("INSERT INTO child VALUES (10, 1), (20, 2)")
        cluster.wait_caught_up()
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            def target(sql: str) -> str:
                [row] = weir.console(f"EXPLAIN ROUTE {sql}")
                return row["target"]
            wait_for("reads are on replicas", lambda: target("SELECT * FROM log") == "replica")
            write.execute("DELETE FROM parent WHERE id = 1")
            read.execute("SELECT count(*) FROM log WHERE what = 'DELETE'")
            assert read.fetchone()[0] == 1
            read.execute("SELECT count(*) FROM child")
            assert read.fetchone()[0] == 1
            read.execute("SELECT stable_sum()")
            assert read.fetchone()[0] == 21
            for sql in ("SELECT * FROM log", "SELECT * FROM child", "SELECT stable_sum()", "SELECT * FROM parents", "SELECT * FROM guarded"):
                assert target(sql) == "primary", sql
            for sql in ("SELECT * FROM quiet", "SELECT * FROM tree", "SELECT * FROM totals", "SELECT * FROM kept"):
                assert target(sql) == "replica", sql
            tables = {row["table"]: row for row in weir.console("SHOW TABLES")}
            assert {"*", "public.parent", "public.child", "public.nulled", "public.log"} <= set(tables)
            assert "public.quiet" not in tables
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()


def test_execute_counts_as_what_was_prepared(cluster, schema, weir):
    """PREPARE in SQL pins the client; EXECUTE marks what the prepared statement writes, through cascades too, and a read marks nothing."""
    with weir.connect() as client, client.cursor() as cursor:
        client.autocommit = True
        cursor.execute("PREPARE erase(int) AS DELETE FROM parent WHERE id = $1")
        cursor.execute("PREPARE look AS SELECT count(*) FROM parent")
        cursor.execute("INSERT INTO parent VALUES (900)")
        cluster.wait_caught_up()

        def target(sql: str) -> str:
            [row] = weir.console(f"EXPLAIN ROUTE {sql}")
            return row["target"]
        tables = ("quiet", "tree", "totals", "parent", "log")
        for table in tables:
            wait_for(f"{table} is read on replicas", lambda table=table: target(f"SELECT * FROM {table}") == "replica")
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            cursor.execute("EXECUTE look")
            assert [target(f"SELECT * FROM {table}") for table in tables] == ["replica"] * 5
            cursor.execute("EXECUTE erase(900)")
            assert cursor.statusmessage == "DELETE 1"
            assert [target(f"SELECT * FROM {table}") for table in tables] == ["replica"] * 3 + ["primary"] * 2
            # Arguments that call something, and names that were given away in a message of several statements, may do anything.
            cursor.execute("EXECUTE erase(abs(-901))")
            assert target("SELECT * FROM quiet") == "primary"
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()


def test_a_table_made_past_the_pooler_is_known_soon_after_a_statement_names_it(cluster, schema, weir):
    cluster.primary.execute("CREATE TABLE made_elsewhere (id int); GRANT ALL ON made_elsewhere TO PUBLIC", schema)
    cluster.wait_caught_up()

    def on_a_replica() -> bool:
        with weir.connect() as client, client.cursor() as cursor:
            client.autocommit = True
            cursor.execute("SELECT * FROM made_elsewhere")
        [row] = weir.console("EXPLAIN ROUTE SELECT * FROM made_elsewhere")
        return row["target"] == "replica"
    wait_for("the table is known", on_a_replica)
