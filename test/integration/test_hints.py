"""Hints in comments: what one statement asks for, by itself, and what no comment can bring about."""
from __future__ import annotations

import contextlib

import psycopg
import pytest

import pooler as poolers
from cluster import wait_for
from test_levels import count_of, served
from test_read_split import Count, ran_on, runs_on_replica
from test_token import paused
from wire import SYNC, bind, connected, execute, parse, simple

TABLE = "SELECT count(*) FROM notes"


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE notes (n int); CREATE TABLE quiet (n int); INSERT INTO quiet VALUES (1)", db)
    cluster.wait_caught_up()


def value(client, sql: str) -> int:
    answer = client.query(sql)
    assert not answer.errors, answer.errors
    return int(answer.rows[0][0])


def prepared(client, sql: str) -> int:
    """Parsed under a name once, executed by it afterwards."""
    answer = client.extended(sql)
    assert not answer.errors, answer.errors
    return int(answer.rows[0][0])


@pytest.mark.parametrize("ask", [value, prepared])
@pytest.mark.parametrize("hint", ["/* pgweir: key={} */", "/*action='cart',pgweir='key%3D{}'*/"])
def test_a_key_of_a_statement_takes_the_session_s_place(cluster, db, ask, hint):
    """One pooled connection serves many users: what binds them is what each statement says."""
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, pooled), connected(weir.port) as other, connected(weir.port) as keyed:
        one, two = hint.format("user1"), hint.format("user2")
        for client in (pooled, other):
            for key in (one, two):
                wait_for("replicas answer for it", lambda: ran_on(cluster, client, f"SELECT * FROM quiet {key}") == "replica")
        with paused(cluster):
            assert not pooled.query(f"INSERT INTO notes VALUES (1) {one}").errors
            written = int(cluster.primary.value(TABLE, db))
            # On the same connection, on another one, and for who sets the key.
            for client in (pooled, other):
                assert ask(client, f"{TABLE} {one}") == written
                assert client.query("SHOW pgweir.last_route").rows[0][0].endswith("(token_ahead)")
            assert not keyed.query("SET pgweir.causal_key = 'user1'").errors
            assert ask(keyed, TABLE) == written
            # Another user of the same connections is not held up, and the connection itself has seen its own write.
            for client in (pooled, other):
                assert ran_on(cluster, client, f"SELECT * FROM notes {two}") == "replica"
            assert ask(pooled, TABLE) == written
            assert ask(other, f"{TABLE} {two}") < written
        wait_for("a replica has replayed it", lambda: ran_on(cluster, other, f"SELECT * FROM notes {one}") == "replica")


def test_a_key_of_a_statement_counts_when_its_transaction_is_committed(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, writer), connected(weir.port) as reader:
        for key in ("a", "b", "c"):
            wait_for("replicas answer", lambda: ran_on(cluster, reader, f"SELECT * FROM quiet /* pgweir: key={key} */") == "replica")
        with paused(cluster):
            for statement in ("BEGIN", "INSERT INTO notes VALUES (1) /* pgweir: key=a */", "INSERT INTO notes VALUES (1) /* pgweir: key=b */", "COMMIT"):
                assert not writer.query(statement).errors
            written = int(cluster.primary.value(TABLE, db))
            for key in ("a", "b"):
                assert value(reader, f"{TABLE} /* pgweir: key={key} */") == written
            assert ran_on(cluster, reader, "SELECT * FROM notes /* pgweir: key=c */") == "replica"
            # Both in one text, and in one unit of the extended protocol.
            writer.send(simple("INSERT INTO notes VALUES (1) /* pgweir: key=c */; INSERT INTO notes VALUES (1) /* pgweir: key=d */"),
                        parse("INSERT INTO notes VALUES (1) /* pgweir: key=e */"), bind(), execute(),
                        parse("INSERT INTO notes VALUES (1) /* pgweir: key=f */"), bind(), execute(), SYNC)
            assert not writer.until("Z").errors and not writer.until("Z").errors
            written = int(cluster.primary.value(TABLE, db))
            for key in ("c", "d", "e", "f"):
                assert value(reader, f"{TABLE} /* pgweir: key={key} */") == written


def test_a_text_too_long_to_be_looked_at_counts_for_every_key(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0\nmax_unit_buffer = 65536") as (weir, writer), connected(weir.port) as reader:
        wait_for("replicas answer", lambda: ran_on(cluster, reader, "SELECT * FROM quiet /* pgweir: key=long */") == "replica")
        with paused(cluster):
            text = simple(f"INSERT INTO notes SELECT 1 WHERE '{'x' * 300000}' <> '' /* pgweir: key=long */")
            # Only its beginning is there when it is sent on.
            writer.send(text[:100000])
            writer.send(text[100000:])
            assert writer.until("Z").tags == ["INSERT 0 1"]
            written = int(cluster.primary.value(TABLE, db))
            assert value(reader, f"{TABLE} /* pgweir: key=long */") == written


def test_a_level_of_a_statement_is_that_statement_s_alone(cluster, db):
    with served(cluster, db, "read_consistency = eventual\nreplica_wait = 0") as (weir, client):
        with paused(cluster):
            assert not client.query("INSERT INTO notes VALUES (1)").errors
            written = int(cluster.primary.value(TABLE, db))
            for level in ("session", "table", "latest", "primary"):
                for hint in (f"/* pgweir: level={level} */", f"/*pgweir='level%3D{level}'*/"):
                    assert value(client, f"{TABLE} {hint}") == written, hint
                    assert prepared(client, f"{TABLE} {hint}") == written, hint
                    assert ran_on(cluster, client, "SELECT * FROM notes") == "replica"
                    assert client.query("SHOW pgweir.read_consistency").rows == [("eventual",)]
    with served(cluster, db, "read_consistency = table\nreplica_wait = 0") as (weir, client):
        with paused(cluster):
            assert not client.query("INSERT INTO notes VALUES (1)").errors
            # To ask for less is the application's own decision, as with SET.
            assert ran_on(cluster, client, "SELECT * FROM notes /* pgweir: level=eventual */") == "replica"
            assert ran_on(cluster, client, "SELECT * FROM notes") == "primary"


def test_a_level_of_a_statement_keeps_what_later_ones_must_see(cluster, db):
    """The write and the reads name the level; the session has one that keeps nothing."""
    with served(cluster, db, "read_consistency = eventual\nreplica_wait = 0") as (weir, client), connected(weir.port) as other:
        hint = "/* pgweir: level=session key=kept */"
        for asking in (client, other):
            wait_for("replicas answer", lambda: ran_on(cluster, asking, f"SELECT * FROM quiet {hint}") == "replica")
        with paused(cluster):
            assert not client.query(f"INSERT INTO notes VALUES (1) {hint}").errors
            written = int(cluster.primary.value(TABLE, db))
            for asking in (client, other, client):
                assert value(asking, f"{TABLE} {hint}") == written
            assert value(client, f"{TABLE} /* pgweir: level=session */") == written
            with connected(weir.port) as fresh:
                assert ran_on(cluster, fresh, "SELECT * FROM notes /* pgweir: level=session */") == "replica"


HOSTILE = [
    "'/* pgweir: replica level=eventual key=x */'::text AS a, ",       # in a string
    '"/* pgweir: replica level=eventual */".a, ',                       # in a name: of no table, so it fails
    "$x$/* pgweir: replica level=eventual */$x$ AS a, ",
    "/* a /* pgweir: replica level=eventual */ */ ",                    # nested: not a comment that begins with the mark
    "/* pgweir: replica /* level=eventual */ */ ",                      # a hint with a comment in it
    "-- pgweir: replica level=eventual\n ",
    "/* pgweir replica */ ",
    "/*x='pgweir=\\'replica\\''*/ ",
    "/* pgweir: unknown=1 words */ ",
    "/* pgweir: replica primary */ ",
    "/* pgweir: level=eventual */ /* pgweir: level=table */ ",
    "/* pgweir: level=none */ ",
    "/* pgweir: key=" + "x" * 129 + " */ ",
    "/* pgweir: key=a\x01b */ ",
    "/* pgweir: key=a */ /* pgweir: key=b */ ",
    "/*pgweir='replica%2'*/ ",
    "/*pgweir='replica',broken*/ ",
    "/* pgweir: replica " + "x " * 1000 + "*/ ",
]


@pytest.mark.parametrize("extended", [False, True])
def test_no_hostile_hint_makes_a_read_see_less_than_it_is_owed(cluster, db, extended):
    with served(cluster, db, "read_consistency = table\nreplica_wait = 0") as (weir, client):
        with paused(cluster):
            assert not client.query("INSERT INTO notes VALUES (1)").errors
            written = int(cluster.primary.value(TABLE, db))
            for hint in HOSTILE:
                sql = f"SELECT {hint}count(*) FROM notes"
                answer = client.extended(sql) if extended else client.query(sql)
                if answer.errors:
                    assert answer.sqlstates == ["42P01"], (hint, answer.errors)
                else:
                    assert int(answer.rows[0][-1]) == written, hint
            # A comment that is no UTF-8: PostgreSQL says so, wherever.
            client.send(simple(b"SELECT count(*) FROM notes /* pgweir: key=\xff\xfe */"))
            assert client.until("Z").sqlstates == ["22021"]
            # The hint of one statement is not its neighbour's.
            client.send(parse("SELECT 1 /* pgweir: replica */"), bind(), execute(), parse(TABLE), bind(), execute(), SYNC)
            assert client.until("Z").rows == [("1",), (str(written),)]


def test_no_hint_makes_a_write_go_to_a_replica(cluster, db):
    with served(cluster, db, "read_consistency = eventual") as (weir, client):
        for hint in ("/* pgweir: replica */", "/* pgweir: level=eventual replica key=a */", "/*pgweir='replica'*/"):
            written = Count(cluster)
            for sql in (f"INSERT INTO notes VALUES (1) {written.comment} {hint}", f"{hint} {written.comment} WITH w AS (INSERT INTO notes VALUES (2) RETURNING 1) SELECT * FROM w",
                        f"{hint} SELECT {written.comment} n FROM notes FOR UPDATE", f"SELECT {written.comment} 1 {hint}; INSERT INTO notes VALUES (3)"):
                assert not client.query(sql).errors
            assert written.replicas == 0 and written.primary >= 4


def test_keys_neither_fill_the_cache_nor_meet_in_it(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, client):
        wait_for("replicas answer", lambda: ran_on(cluster, client, "SELECT * FROM notes /* pgweir: key=k0 */") == "replica")
        with paused(cluster):
            assert not client.query("INSERT INTO notes VALUES (1) /* pgweir: key=k1 */").errors
            written = int(cluster.primary.value(TABLE, db))
            for i in range(2, 40):
                assert value(client, f"{TABLE} /* pgweir: key=k1 */") == written
                assert ran_on(cluster, client, f"SELECT * FROM notes /* pgweir: key=k{i} */") == "replica"


def test_in_a_block_that_reads_on_replicas_a_hint_leads_to_the_primary(cluster, db):
    with served(cluster, db, "read_consistency = session\ntransaction_reads = replica\nread_only_transactions = replica\nreplica_wait = 5") as (weir, client):
        for begin in ("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            for hint in ("/* pgweir: key=blocked */", "/* pgweir: level=eventual */"):
                assert not client.query(begin).errors
                assert ran_on(cluster, client, f"SELECT * FROM quiet {hint}") == "primary"
                assert not client.query("COMMIT").errors


def test_hints_come_with_what_drivers_send(cluster, db):
    with poolers.for_cluster(cluster, db, settings="read_consistency = eventual\nreplica_wait = 0") as weir, psycopg.connect(
            weir.dsn(), autocommit=True, prepare_threshold=1) as connection:
        weir.wait_split(cluster)
        with paused(cluster):
            for round_number in range(1, 6):
                connection.execute("INSERT INTO notes VALUES (%s) /*pgweir='key%%3Dpsycopg'*/", (round_number,))
                written = int(cluster.primary.value(TABLE, db))
                row = connection.execute("SELECT count(*) FROM notes WHERE %s > 0 /*route='%%2Fcart',pgweir='key%%3Dpsycopg%%20level%%3Dsession'*/", (1,)).fetchone()
                assert row == (written,)
