"""Reads are answered by the replicas, everything else by the primary: counted on the nodes, not by pgweir."""
from __future__ import annotations

import collections
import time
import uuid

import psycopg
import pytest

import pooler as poolers
from cluster import wait_for
from wire import SYNC, bind, connected, execute, parse, run, simple

SCHEMA = """
SET ROLE app;
CREATE TABLE users (id int PRIMARY KEY, name text);
INSERT INTO users SELECT i, 'user ' || i FROM generate_series(1, 100) AS i;
CREATE TABLE orders (id int PRIMARY KEY, user_id int, total int);
INSERT INTO orders SELECT i, i % 100 + 1, i FROM generate_series(1, 500) AS i;
CREATE UNLOGGED TABLE scratch (n int);
CREATE SEQUENCE tickets;
CREATE VIEW rich AS SELECT * FROM users WHERE id > 50;
CREATE FUNCTION plain_read(int) RETURNS text LANGUAGE sql STABLE AS 'SELECT name FROM users WHERE id = $1';
CREATE FUNCTION hidden_write(int) RETURNS int LANGUAGE plpgsql VOLATILE AS
  $$ BEGIN INSERT INTO orders VALUES ($1, 1, 1); RETURN $1; END $$;
CREATE FUNCTION lying_write(int) RETURNS int LANGUAGE plpgsql STABLE AS
  $$ BEGIN EXECUTE 'SELECT hidden_' || 'write(' || $1 || ')'; RETURN $1; END $$;
CREATE TABLE touched (n int);
CREATE FUNCTION touch(int) RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO touched VALUES ($1) RETURNING 1';
CREATE VIEW sneaky AS SELECT touch(1) AS t;
"""


@pytest.fixture(scope="module")
def weir(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.wait_caught_up()
    with poolers.for_cluster(cluster, db, settings="max_client_conn = 300") as pooler:
        yield pooler


@pytest.fixture()
def client(weir):
    with connected(weir.port) as client:
        yield client


class Count:
    """Who ran the statements with this object's marker."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.marker = uuid.uuid4().hex
        self.comment = f"/* {self.marker} */"
        self.positions = cluster.log_positions()

    @property
    def nodes(self) -> dict[str, int]:
        return self.cluster.times_run(self.marker, self.positions)

    @property
    def primary(self) -> int:
        return self.nodes["primary"]

    @property
    def replicas(self) -> int:
        return sum(count for name, count in self.nodes.items() if name != "primary")


@pytest.fixture()
def count(cluster):
    return Count(cluster)


def ran_on(cluster, client, sql: str, extended: bool = False) -> str:
    """Runs `sql`; primary or replica, as the nodes tell."""
    count = Count(cluster)
    answer = client.extended(count.comment + sql) if extended else client.query(count.comment + sql)
    assert not answer.errors, answer.errors
    assert (count.primary > 0) != (count.replicas > 0), (sql, count.nodes)
    return "primary" if count.primary else "replica"


def runs_on_replica(cluster, client, sql: str, extended: bool = False) -> bool:
    """True once a replica answers it: the replicas may still have to replay, or the catalog be read, after an earlier test's DDL."""
    return bool(wait_for(f"a replica answers {sql}", lambda: ran_on(cluster, client, sql, extended) == "replica"))


@pytest.fixture()
def settled(cluster, weir):
    """Nothing of an earlier test's writes and DDL is still on its way."""
    cluster.wait_caught_up()
    with connected(weir.port) as client:
        for sql in ("SELECT * FROM users", "SELECT count(*) FROM orders", "SELECT plain_read(3)"):
            runs_on_replica(cluster, client, sql)


READS = [
    "SELECT 1", "SELECT * FROM users", "SELECT count(*) FROM orders JOIN users ON users.id = orders.user_id", "TABLE users",
    "VALUES (1)", "WITH a AS (SELECT * FROM users) SELECT * FROM a", "(SELECT 1) UNION (SELECT 2)", "COPY users TO STDOUT",
    "SELECT * FROM rich", "SELECT plain_read(3)", "SELECT upper(name), length(name) FROM users ORDER BY 1 LIMIT 3",
    "SELECT 'INSERT INTO users', \"name\" FROM users -- delete from users\n", "SELECT $q$DELETE FROM users$q$",
    "SELECT now() IS NOT NULL", "SELECT * FROM pg_class WHERE relname = 'users'", "SELECT 1; SELECT 2",
]
PRIMARY = [
    "INSERT INTO orders VALUES (-1, 1, 1) ON CONFLICT DO NOTHING", "UPDATE orders SET total = 1 WHERE id = -5", "DELETE FROM orders WHERE id = -5",
    "WITH d AS (DELETE FROM orders WHERE id = -6 RETURNING *) SELECT * FROM d", "SELECT * FROM users WHERE id = 1 FOR UPDATE",
    "SELECT * FROM users WHERE id = 1 FOR KEY SHARE", "SELECT nextval('tickets')", "SELECT pg_backend_pid()",
    "SELECT * FROM pg_stat_activity LIMIT 1", "SELECT * FROM scratch", "SELECT random() IS NULL AND touch(1) > 2", "SELECT txid_current() > 0",
    "EXPLAIN ANALYZE INSERT INTO orders VALUES (-7, 1, 1) ON CONFLICT DO NOTHING", "SELECT last_value FROM tickets",
    "SELECT pg_is_in_recovery()", "VACUUM users", "SELECT 1; INSERT INTO orders VALUES (-2, 1, 1) ON CONFLICT DO NOTHING",
    "SELECT pg_advisory_xact_lock(1)", "LOCK TABLE users IN ACCESS SHARE MODE",
]


@pytest.mark.parametrize("sql", READS)
def test_reads_are_answered_by_replicas(cluster, client, sql):
    assert runs_on_replica(cluster, client, sql)
    if ";" not in sql:
        assert runs_on_replica(cluster, client, sql, extended=True)


@pytest.mark.parametrize("sql", PRIMARY)
def test_what_a_replica_can_not_do_is_done_by_the_primary(cluster, client, sql):
    if sql.startswith("LOCK"):
        sql = f"BEGIN; {sql}; COMMIT"
    count = Count(cluster)
    answer = client.query(count.comment + sql)
    assert not answer.errors, answer.errors
    assert count.replicas == 0 and count.primary >= 1
    if "BEGIN" not in sql and ";" not in sql:
        count = Count(cluster)
        assert not client.extended(count.comment + sql).errors
        assert count.replicas == 0 and count.primary >= 1


def test_select_into_and_ddl_go_to_the_primary(cluster, client, count):
    for sql in ("SELECT 1 AS n INTO made_by_into", "CREATE TABLE made (n int)", "ALTER TABLE made ADD m int", "CREATE INDEX ON made (n)",
                "DROP TABLE made", "DROP TABLE made_by_into", "CREATE INDEX CONCURRENTLY by_total ON orders (total)", "DROP INDEX by_total"):
        assert not client.query(count.comment + sql).errors
    assert count.replicas == 0


def test_both_replicas_share_the_reads(cluster, weir, settled, count):
    """Not at once: until a replica was asked how far it is, a session stays with the one that it has read from."""
    clients = [connected(weir.port) for _ in range(8)]

    def shared() -> bool:
        for _ in range(40):
            for client in clients:
                client.send(simple(count.comment + "SELECT count(*) FROM orders, generate_series(1, 100)"))
            for client in clients:
                assert client.until("Z").rows
        nodes = count.nodes
        return min(nodes["replica1"], nodes["replica2"]) > 20
    wait_for("both replicas have their share", shared)
    for client in clients:
        client.close()


def test_at_least_nine_of_ten_reads_are_answered_by_replicas(cluster, db, weir, settled):
    """Of reads whose tables nobody wrote in the last second, while another table is written all the time."""
    reads = Count(cluster)
    total = 0
    with connected(weir.port) as writer, connected(weir.port) as reader, connected(weir.port) as both:
        for step in range(150):
            writer.send(simple(f"INSERT INTO orders VALUES ({10000 + step}, 1, 1)"))  # Under way during all that follows.
            for _ in range(2):
                assert reader.query(reads.comment + "SELECT count(*) FROM users").rows == [("100",)]
            assert not both.query(f"INSERT INTO orders VALUES ({11000 + step}, 1, 1)").errors
            for _ in range(4):
                assert both.query(reads.comment + "SELECT name FROM users WHERE id = 5").rows == [("user 5",)]
            assert not writer.until("Z").errors
            total += 6
    assert reads.primary + reads.replicas == total
    assert reads.replicas >= 0.9 * total, (reads.nodes, weir.routing())


def test_a_transaction_stays_on_the_primary(cluster, client, count):
    for sql in ("BEGIN", "SELECT * FROM users", "SELECT 1", "SAVEPOINT a", "SELECT 2", "COMMIT"):
        assert not client.query(count.comment + sql).errors
    assert count.replicas == 0
    client.query("START TRANSACTION READ ONLY")
    assert ran_on(cluster, client, "SELECT * FROM users") == "primary"
    client.query("ROLLBACK")
    assert runs_on_replica(cluster, client, "SELECT * FROM users")


def test_hints_decide_where_they_may(cluster, client):
    assert ran_on(cluster, client, "/* pgweir: primary */ SELECT * FROM users") == "primary"
    assert ran_on(cluster, client, "SELECT * FROM users /* pgweir: primary */") == "primary"
    assert runs_on_replica(cluster, client, "/* pgweir: replica */ SELECT * FROM users")
    assert ran_on(cluster, client, "/* pgweir: replica */ INSERT INTO orders VALUES (-9, 1, 1) ON CONFLICT DO NOTHING") == "primary"
    assert ran_on(cluster, client, "/* pgweir: replica */ SELECT * FROM scratch") == "primary"
    assert runs_on_replica(cluster, client, "SELECT '/* pgweir: primary */'")


@pytest.mark.parametrize("option, settings", [("read_consistency=primary", ""), ("read_split=off", ""), ("", "read_consistency = primary")])
def test_the_level_of_a_database_can_be_set(cluster, db, weir, option, settings):
    with poolers.for_cluster(cluster, db, option, settings, wait=False) as pooler:
        count = Count(cluster)
        with connected(pooler.port) as client:
            for _ in range(30):
                assert client.query(count.comment + "SELECT * FROM users").rows
                time.sleep(0.01)
        assert count.nodes["primary"] == 30


def test_prepared_statements_run_on_any_server(cluster, weir, settled, count):
    with connected(weir.port) as client:
        client.send(parse(count.comment + "SELECT name FROM users WHERE id = $1", "by_id"), SYNC)
        client.until("Z")
        for n in range(1, 41):
            client.send(bind(str(n), name="by_id"), execute(), SYNC)
            assert client.until("Z").rows == [(f"user {n}",)]
            if n % 10 == 0:
                client.query("BEGIN")
                client.send(bind(str(n), name="by_id"), execute(), SYNC)        # here on the primary
                assert client.until("Z").rows == [(f"user {n}",)]
                client.query("COMMIT")
    assert count.primary == 4 and count.replicas == 40


def test_a_unit_of_reads_goes_to_a_replica_and_one_with_a_write_does_not(cluster, client, settled):
    reads = Count(cluster)
    client.send(run(reads.comment + "SELECT 1"), run(reads.comment + "SELECT * FROM users"), SYNC)
    assert not client.until("Z").errors
    assert reads.replicas == 2 and reads.primary == 0
    mixed = Count(cluster)
    client.send(run(mixed.comment + "SELECT 1"), run("UPDATE orders SET total = 0 WHERE id = -1" + mixed.comment), SYNC)
    assert not client.until("Z").errors
    assert mixed.primary == 2 and mixed.replicas == 0


def test_a_hidden_write_is_healed_and_learned(cluster, db, weir):
    """The function says STABLE and writes: the standby refuses, the client does not notice."""
    with connected(weir.port) as client:
        # It is found out where a standby refuses it: not while something else keeps reads on the primary.
        wait_for("reads of every table go to a replica",
                 lambda: ran_on(cluster, client, "SELECT plain_read(1)") == "replica")
        first = Count(cluster)
        answer = client.query(first.comment + "SELECT lying_write(20001)")
        assert answer.rows == [("20001",)] and not answer.errors
        assert first.primary == 1
        later = Count(cluster)
        for n in range(20002, 20010):
            assert client.query(later.comment + f"SELECT lying_write({n})").rows == [(str(n),)]
        assert later.replicas == 0 and later.primary == 8
        client.send(run(later.comment + "SELECT lying_write($1)", "20100"), SYNC)
        assert client.until("Z").rows == [("20100",)]
        assert cluster.primary.value("SELECT count(*) FROM orders WHERE id BETWEEN 20001 AND 20009", db) == 9


def test_what_a_standby_refused_is_shown_as_a_misroute_until_reload(cluster, db, weir):
    """A rule says of the function that it only reads, and is wrong."""
    with poolers.for_cluster(cluster, db, settings="replica_functions = lying_*") as pooler, connected(pooler.port) as client:
        misroutes = lambda: pooler.console("SHOW MISROUTES")  # noqa: E731

        def healed(n: int, ask) -> None:
            """A write keeps reads of all tables on the primary for a moment, and what runs there is not refused."""
            before = len(misroutes())
            wait_for("reads of every table go to a replica", lambda: ran_on(cluster, client, "SELECT plain_read(1)") == "replica")
            count = Count(cluster)
            assert ask(count.comment, n).rows == [(str(n),)]
            assert count.primary == 1 and len(misroutes()) == before + 1

        assert misroutes() == []
        healed(50001, lambda comment, n: client.query(f"{comment}SELECT lying_write({n})"))
        [row] = misroutes()
        assert (row["database"], row["statement"], row["count"], row["sqlstate"]) == ("t", "SELECT lying_write(?)", 1, "25006")
        assert row["first_refused"] == row["last_refused"] and 3500 < row["seconds_left"] <= 3600
        for n in range(50002, 50005):
            assert client.query(f"SELECT lying_write({n})").rows == [(str(n),)]
        assert pooler.routing()[("primary", "learned")] == 3 and misroutes()[0]["count"] == 1

        def prepared(comment: str, n: int):
            client.send(parse(f"SELECT lying_write($1::int){comment} -- whose?", name="p"), bind(str(n), name="p"), execute(), SYNC)
            return client.until("Z")
        healed(50005, prepared)
        assert [row["statement"] for row in misroutes()] == ["SELECT lying_write($1::int)", "SELECT lying_write(?)"]
        pooler.console("RELOAD")
        assert misroutes() == []
        assert cluster.primary.value("SELECT count(*) FROM orders WHERE id BETWEEN 50001 AND 50005", db) == 5


def test_writes_behind_views_and_functions_are_done_once(cluster, db, weir):
    with connected(weir.port) as client:
        before = cluster.primary.value("SELECT count(*) FROM touched", db)
        for n in range(3):
            assert client.query("SELECT t FROM sneaky").rows == [("1",)]
            assert client.extended("SELECT t FROM sneaky").rows == [("1",)]
            assert client.query(f"SELECT hidden_write({30000 + n})").rows == [(str(30000 + n),)]
        assert cluster.primary.value("SELECT count(*) FROM touched", db) == before + 6


def test_pitfall_5_a_pipelined_read_after_a_hidden_write_sees_it(cluster, db, weir):
    for n in range(15):
        name = f"lying_{n}"
        cluster.primary.execute(f"CREATE FUNCTION {name}(int) RETURNS int LANGUAGE plpgsql STABLE AS "
                                f"$$ BEGIN EXECUTE 'SELECT hidden_' || 'write(' || $1 || ')'; RETURN $1; END $$", db)
    cluster.wait_caught_up()
    with connected(weir.port) as client:
        for n in range(15):
            key = 40000 + n
            if n % 2:
                client.send(simple(f"SELECT lying_{n}({key})"), simple(f"SELECT count(*) FROM orders WHERE id = {key}"))
            else:
                client.send(run(f"SELECT lying_{n}({key})"), SYNC, run(f"SELECT count(*) FROM orders WHERE id = {key}"), SYNC)
            answer = client.until("Z", 2)
            assert not answer.errors
            assert answer.rows == [(str(key),), ("1",)]


def test_pitfall_12_a_migration_that_is_not_replayed_yet_is_not_an_error(cluster, db, weir):
    """A table, a column and a function that only the primary knows so far."""
    with connected(weir.port) as client:
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            for sql in ("CREATE TABLE fresh (n int)", "INSERT INTO fresh VALUES (7)", "ALTER TABLE users ADD COLUMN age int DEFAULT 9",
                        "CREATE FUNCTION fresh_function() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 5'"):
                assert not client.query(sql).errors
            with connected(weir.port) as other:
                for _ in range(2):
                    for one in (client, other):
                        assert one.query("SELECT n FROM fresh").rows == [("7",)]
                        assert one.query("SELECT age FROM users WHERE id = 1").rows == [("9",)]
                        assert one.query("SELECT fresh_function()").rows == [("5",)]
                        assert one.extended("SELECT n FROM fresh").rows == [("7",)]
                assert other.query("SELECT * FROM never_made").sqlstates == ["42P01"]
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()
    cluster.wait_caught_up()


def test_errors_of_reads_are_the_clients_own(cluster, client):
    assert client.query("SELECT 1/0 FROM users").sqlstates == ["22012"]
    assert client.query("SELECT 'x'::int").sqlstates == ["22P02"]
    assert client.query("SELECT * FROM no_such_table").sqlstates == ["42P01"]
    assert client.extended("SELECT no_such_column FROM users").sqlstates == ["42703"]
    assert client.query("SELECT 1").rows == [("1",)]


STATES = [
    ("SET ROLE app", "SELECT current_user::text", "app"),
    ("SELECT set_config('my.setting', 'mi' || 'ne', false)", "SELECT current_setting('my.setting')", "mine"),
    ("SET default_transaction_read_only = off", "SHOW default_transaction_read_only", "off"),
    ("PREPARE stmt AS SELECT 'prepared'", "EXECUTE stmt", "prepared"),
    ("CREATE TEMP TABLE only_mine AS SELECT 'temporary'::text AS v", "SELECT v FROM only_mine", "temporary"),
    ("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 'held'; COMMIT", "FETCH 1 FROM c", "held"),
    ("SELECT pg_advisory_lock(4711)", "SELECT pg_advisory_unlock(4711)::text", "true"),
    ("LISTEN something", "SELECT pg_listening_channels()", "something"),
]


@pytest.mark.parametrize("make, ask, expected", STATES, ids=[state[0].split(" ")[0] + str(n) for n, state in enumerate(STATES)])
def test_session_state_pins_the_client_to_the_primary_until_discard_all(cluster, weir, make, ask, expected):
    with connected(weir.port) as client, connected(weir.port) as other:
        assert not client.query(make).errors
        others = []
        for _ in range(3):
            others.append(other.query("SELECT count(*) FROM users").rows)
            assert ran_on(cluster, client, "SELECT * FROM users") == "primary"
        if "advisory" not in make:
            assert client.query(ask).rows == [(expected,)]
        else:
            assert client.query(ask).rows == [("true",)]
        assert not client.query("DISCARD ALL").errors
        assert runs_on_replica(cluster, client, "SELECT * FROM users")


def test_pitfall_2_a_replica_that_can_not_take_a_setting_answers_nothing(cluster, db, weir):
    """The search configuration is not replayed yet: under the replica's own one the words would be others."""
    for replica in cluster.replicas:
        replica.pause_replay()
    try:
        cluster.primary.execute("SET ROLE app; CREATE TEXT SEARCH CONFIGURATION stemming (COPY = pg_catalog.german)", db)
        with connected(weir.port) as client, connected(weir.port) as other:
            asked = "SELECT to_tsvector('kinder')::text FROM users WHERE id = 1"
            assert not client.query("SET default_text_search_config = 'public.stemming'").errors
            for _ in range(5):
                assert client.query(asked).rows == [("'kind':1",)] and client.extended(asked).rows == [("'kind':1",)]
                assert client.query("SHOW pgweir.last_route").rows[0][0].startswith("primary")
                assert other.query(asked).rows == [("'kinder':1",)]
    finally:
        for replica in cluster.replicas:
            replica.resume_replay()
    cluster.wait_caught_up()
    with connected(weir.port) as client:
        assert not client.query("SET default_text_search_config = 'public.stemming'").errors
        assert runs_on_replica(cluster, client, "SELECT * FROM users")
        assert client.query("SELECT to_tsvector('kinder')::text FROM users WHERE id = 1").rows == [("'kind':1",)]


def test_pitfall_2_a_write_whose_settings_can_not_be_set_is_not_run(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1") as weir, connected(weir.port) as client, connected(weir.port) as other:
        cluster.primary.execute("SET ROLE app; CREATE TEXT SEARCH CONFIGURATION passing (COPY = pg_catalog.english)", db)
        assert not client.query("SET default_text_search_config = 'public.passing'").errors
        assert not other.query("UPDATE users SET name = name WHERE id = 2").errors
        cluster.primary.execute("DROP TEXT SEARCH CONFIGURATION passing", db)
        client.send(simple("UPDATE users SET name = 'under other settings' WHERE id = 2"))
        assert "invalid server parameter" in client.until_closed().errors[0]["M"]
        assert other.query("SELECT name FROM users WHERE id = 2").rows == [("user 2",)]


# What a client makes within DO, where its text does not show it; how it is seen; and the answer of who has nothing to do with it.
LEFT = [
    ("EXECUTE 'CREATE TEMP TABLE made_inside AS SELECT 1 AS v'", "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relname = 'made_inside'", "1", "0"),
    ("PERFORM pg_advisory_lock(4712)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", "1", "0"),
    ("EXECUTE 'LISTEN inside'", "SELECT count(*) FROM pg_listening_channels()", "1", "0"),
    ("EXECUTE 'PREPARE inside AS SELECT 1'", "SELECT count(*) FROM pg_prepared_statements WHERE from_sql", "1", "0"),
    ("PERFORM set_config('app.secret', 'hers', false)", "SELECT coalesce(nullif(current_setting('app.secret', true), ''), 'nothing') FROM pg_stat_activity LIMIT 1", None, "nothing"),
    ("PERFORM set_config('work_mem', '5MB', false)", "SELECT current_setting('work_mem') = '5MB' FROM pg_stat_activity LIMIT 1", None, "f"),
    ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SELECT current_setting('default_transaction_read_only') FROM pg_stat_activity LIMIT 1", None, "off"),
    ("SET ROLE pg_monitor", "SELECT current_user FROM pg_stat_activity LIMIT 1", None, "app"),
]


@pytest.mark.parametrize("leaves", ["by itself", "and its client leaves at once"])
@pytest.mark.parametrize("make, ask, own, others", LEFT, ids=[f"{row[0].split(' ')[0]}{n}" for n, row in enumerate(LEFT)])
def test_pitfall_20_what_was_made_inside_is_kept_for_its_client_or_gone(cluster, db, make, ask, own, others, leaves):
    cluster.primary.execute("GRANT pg_monitor TO app")
    with poolers.for_cluster(cluster, db, "pool_size=1") as weir, connected(weir.port) as first, connected(weir.port) as second:
        assert not second.query("SELECT 1").errors
        made = f"DO $$ BEGIN {make}; END $$"
        if leaves == "by itself":
            assert not first.query(made).errors
            if own is not None:
                assert first.query(ask).rows == [(own,)]
        else:
            # The server comes back while its client is leaving.
            first.send(simple(made))
            first.until("Z")
        first.close()
        answer = second.query(ask)
        assert not answer.errors and answer.rows == [(others,)]
        assert not second.query("UPDATE users SET name = name WHERE id = 1").errors


def test_pitfall_20_who_asks_for_the_session_is_answered_by_its_server(cluster, weir):
    """A statement that depends on the session's temporary schema sees the one of the server that has it."""
    with connected(weir.port) as client, connected(weir.port) as other:
        assert not client.query("CREATE TEMP TABLE of_mine (n int)").errors
        for extended in (False, True):
            ask = client.extended if extended else client.query
            for sql in ("SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relname = 'of_mine'",
                        "SELECT count(*) FROM pg_class WHERE oid = to_regclass('of_mine')", "SELECT count(*) FROM pg_class WHERE oid = 'pg_temp.of_mine'::regclass",
                        "SELECT count(*) FROM information_schema.tables WHERE table_name = 'of_mine'"):
                assert ask(sql).rows == [("1",)], sql
        assert other.query("SELECT to_regclass('of_mine')").rows == [(None,)]


def test_session_state_never_reaches_another_client(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1") as pooler:
        with connected(pooler.port) as one:
            one.query("SET work_mem = '3MB'")
            one.query("CREATE TEMP TABLE only_mine (n int)")
            one.query("LISTEN channel")
        with connected(pooler.port) as two:
            assert two.query("/* pgweir: primary */ SHOW work_mem").rows != [("3MB",)]
            assert two.query("SELECT * FROM only_mine").sqlstates == ["42P01"]
            assert two.query("SELECT pg_listening_channels()").rows == []


@pytest.mark.parametrize("make, ask, expected", [
    ("SET extra_float_digits = -12", "SELECT (0.1::float8 + 0.2::float8)::text", "0.3"),
    ("SET SESSION app.tenant TO 'no 42''s'", "SELECT current_setting('app.tenant')", "no 42's"),
    ("SELECT set_config('app.tenant', 'mine', false)", "SELECT current_setting('app.tenant')", "mine"),
    ("BEGIN; SET app.tenant = inside; COMMIT", "SELECT current_setting('app.tenant')", "inside"),
    ("SET client_min_messages TO warning; SET app.tenant = 7", "SELECT current_setting('client_min_messages') || current_setting('app.tenant')", "warning7"),
], ids=["plain", "quoted", "set_config", "transaction", "two"])
@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
def test_settings_follow_their_client_to_replicas_and_nobody_else(cluster, weir, settled, make, ask, expected, extended):
    with connected(weir.port) as client, connected(weir.port) as other:
        def value_of(who) -> str:
            answer = who.extended(ask) if extended else who.query(ask)
            return answer.rows[0][0] if answer.rows else "-"
        if extended and ";" not in make:
            assert not client.extended(make).errors
        else:
            assert not client.query(make).errors
        for _ in range(4):
            assert value_of(client) == expected
            assert value_of(other) != expected
            assert ran_on(cluster, client, "SELECT * FROM users") == "replica"
        assert not client.query("BEGIN; SET app.tenant = 'lost'; ROLLBACK").errors
        assert value_of(client) == expected
        for reset in ("RESET ALL", "DISCARD ALL"):
            assert not client.query(make).errors
            assert value_of(client) == expected
            assert not client.query(reset).errors
            assert value_of(client) != expected


@pytest.mark.parametrize("script", [
    ["BEGIN", "SET app.tenant = 'x'", "COMMIT AND CHAIN", "SELECT 1", "ROLLBACK"],
    ["BEGIN", "SET app.tenant = 'x'", "ROLLBACK AND CHAIN", "COMMIT"],
    ["BEGIN; SET app.tenant = 'x'; COMMIT; BEGIN", "ROLLBACK"],
    ["BEGIN", "SET app.tenant = 'x'", "RESET ALL", "COMMIT"],
    ["BEGIN; SET app.tenant = 'x'; RESET ALL; COMMIT"],
], ids=["commit and chain", "rollback and chain", "commit, begin", "reset all", "reset all in one"])
def test_a_setting_stays_with_its_client_however_its_transaction_ends(cluster, db, script):
    ask = "/* pgweir: primary */ SELECT coalesce(current_setting('app.tenant', true), '')"
    with poolers.for_cluster(cluster, db, "pool_size=1") as pooler, connected(pooler.port) as wanting:
        assert not wanting.query("SET app.tenant = 'x'").errors
        with connected(pooler.port) as client:
            for sql in script:
                assert not client.query(sql).errors
        with connected(pooler.port) as other:
            assert other.query(ask).rows == [("",)]
        assert wanting.query(ask).rows == [("x",)]


def test_a_setting_that_fails_is_not_brought_along(cluster, client, settled):
    assert client.query("SET statement_timeout = 'soon'").sqlstates == ["22023"]
    assert client.query("SET no_such_setting = 1").sqlstates == ["42704"]
    assert ran_on(cluster, client, "SELECT * FROM users") == "replica"
    assert client.query("SHOW statement_timeout").rows == [("0",)]


def test_tracked_settings_do_not_pin_and_follow_to_replicas(cluster, client):
    for sql, ask, expected in (
            ("SET TimeZone = 'Asia/Tokyo'", "SELECT timestamptz '2026-01-01 00:00+00' ::text", "2026-01-01 09:00:00+09"),
            ("SET DateStyle = 'SQL, DMY'", "SELECT date '2026-02-01'::text", "01/02/2026"),
            ("SET IntervalStyle = 'iso_8601'", "SELECT interval '1 hour'::text", "PT1H"),
            ("SET search_path = pg_catalog, public", "SELECT count(*) FROM users WHERE id = 3", "1"),
            ("SET application_name = 'shown'", "SELECT 1", "1")):
        assert not client.query(sql).errors
        assert runs_on_replica(cluster, client, ask)
        assert client.query(ask).rows == [(expected,)]
        assert client.extended(ask).rows == [(expected,)]


def test_show_routing_counts_what_the_nodes_ran(cluster, weir, settled):
    def units(target: str) -> int:
        return sum(count for (where, _), count in weir.routing().items() if where == target)
    before = weir.routing()
    count = Count(cluster)
    with connected(weir.port) as client:
        for _ in range(25):
            client.query(count.comment + "SELECT * FROM users")
        for n in range(5):
            client.query(count.comment + f"INSERT INTO orders VALUES ({50000 + n}, 1, 1)")
    after = weir.routing()
    gained = collections.Counter(after)
    gained.subtract(before)
    assert count.nodes["primary"] == 5 and count.replicas == 25
    assert gained[("primary", "write")] == 5, gained
    assert sum(n for (where, _), n in gained.items() if where.startswith("replica")) == 25, gained


def test_drivers_reads_are_split_too(cluster, weir, settled):
    count = Count(cluster)
    with psycopg.connect(weir.dsn(), autocommit=True, prepare_threshold=2) as connection:
        for n in range(1, 31):
            assert connection.execute(count.comment + "SELECT name FROM users WHERE id = %s", (n,)).fetchone() == (f"user {n}",)
    assert count.replicas == 30 and count.primary == 0


def test_no_replica_configured_means_nothing_is_routed(cluster, db, weir):
    count = Count(cluster)
    with poolers.for_cluster(cluster, db, "application_name=unsplit", split=False) as pooler:
        with connected(pooler.port) as client:
            for _ in range(10):
                assert client.query(count.comment + "SELECT * FROM users").rows
                assert not client.query("INSERT INTO scratch VALUES (1)").errors
        assert pooler.routing().keys() <= {("primary", "not_split")}
    assert count.nodes == {"primary": 10, "replica1": 0, "replica2": 0}


def test_pitfall_9_one_address_in_front_of_both_replicas(cluster, db, weir):
    """Two replicas behind one TCP proxy: answers stay right, whoever is asked."""
    from tcp_proxy import TcpProxy
    with TcpProxy(*(replica.port for replica in cluster.replicas)) as proxy:
        ini = poolers.ini_for(cluster, db, "pool_size=4").replace(cluster.replica_hosts, f"127.0.0.1:{proxy.port}")
        with poolers.running(ini) as pooler:
            cluster.primary.execute("CREATE TABLE IF NOT EXISTS counted (n int); TRUNCATE counted; GRANT ALL ON counted TO PUBLIC", db)
            cluster.replicas[1].pause_replay()
            try:
                clients = [connected(pooler.port) for _ in range(6)]
                for step in range(40):
                    assert not clients[step % 6].query(f"INSERT INTO counted VALUES ({step})").errors
                    for client in clients:
                        client.send(simple("SELECT count(*) FROM counted"))
                    for client in clients:
                        assert client.until("Z").rows == [(str(step + 1),)]
                for client in clients:
                    client.close()
            finally:
                cluster.replicas[1].resume_replay()
    cluster.wait_caught_up()
