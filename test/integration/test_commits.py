"""Commits that are not a plain COMMIT: whoever commits, and however it ends, the next read sees it. Both replicas stand still meanwhile, so
that a read that went to one would be stale."""
from __future__ import annotations

import contextlib

import pytest

import pooler as poolers
from cluster import Cluster, wait_for
from test_read_split import ran_on, runs_on_replica
from wire import SYNC, Wire, connected, run, simple

SCHEMA = """
SET ROLE app;
CREATE TABLE kept (n int PRIMARY KEY);
CREATE TABLE owner_of (n int PRIMARY KEY);
CREATE TABLE owned (n int REFERENCES owner_of DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE quiet (n int);
CREATE PROCEDURE keep_and_wait(int) LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO kept VALUES ($1); COMMIT; PERFORM pg_advisory_xact_lock(77); END $$;
"""


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.wait_caught_up()


@contextlib.contextmanager
def served(cluster, db, settings: str = ""):
    """Reads are known to be the replicas' before these stop."""
    with poolers.for_cluster(cluster, db, settings=settings or "replica_wait = 0") as weir:
        with connected(weir.port) as first:
            assert runs_on_replica(cluster, first, "SELECT * FROM quiet") and runs_on_replica(cluster, first, "SELECT * FROM kept")
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            yield weir
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()


def ask(client: Wire, sql: str, extended: bool):
    return client.extended(sql) if extended else client.query(sql)


def do(client: Wire, sql: str, extended: bool):
    answer = ask(client, sql, extended)
    assert not answer.errors, (sql, answer.errors)
    return answer


def sees(client: Wire, table: str, n: int, extended: bool = False) -> bool:
    return do(client, f"SELECT n FROM {table} WHERE n = {n}", extended).rows == [(str(n),)]


EXTENDED = pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])


@pytest.mark.parametrize("committer", ["the same session", "another session"])
@EXTENDED
def test_pitfall_4_what_commit_prepared_commits_is_seen_by_everybody(cluster, db, extended, committer):
    with served(cluster, db) as weir, connected(weir.port) as writer, connected(weir.port) as other, connected(weir.port) as reader:
        n = 100 + 10 * extended + (committer == "another session")
        assert not sees(reader, "kept", n)
        do(writer, "BEGIN", extended)
        do(writer, f"INSERT INTO kept VALUES ({n})", extended)
        assert do(writer, f"PREPARE TRANSACTION 'p{n}'", extended).tags == ["PREPARE TRANSACTION"]
        assert not sees(reader, "kept", n) and not sees(writer, "kept", n)
        by = writer if committer == "the same session" else other
        assert do(by, f"COMMIT PREPARED 'p{n}'", extended).tags == ["COMMIT PREPARED"]
        assert sees(reader, "kept", n, extended) and sees(by, "kept", n, extended) and sees(writer, "kept", n) and sees(other, "kept", n)


def test_pitfall_4_a_rolled_back_prepared_transaction_was_never_there(cluster, db):
    with served(cluster, db) as weir, connected(weir.port) as writer, connected(weir.port) as reader:
        do(writer, "BEGIN; INSERT INTO kept VALUES (140); PREPARE TRANSACTION 'p140'", False)
        do(reader, "ROLLBACK PREPARED 'p140'", False)
        assert not sees(reader, "kept", 140) and not sees(writer, "kept", 140)


@EXTENDED
def test_pitfall_4_at_level_session_who_commits_what_another_prepared_sees_it(cluster, db, extended):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as weir, connected(weir.port) as writer, connected(weir.port) as committer:
        n = 150 + extended
        do(writer, f"BEGIN; INSERT INTO kept VALUES ({n}); PREPARE TRANSACTION 'p{n}'", False)
        do(committer, f"COMMIT PREPARED 'p{n}'", extended)
        assert sees(committer, "kept", n, extended)


def test_pitfall_4_at_level_latest_a_commit_prepared_past_pgweir_is_seen(cluster, db):
    with served(cluster, db, "read_consistency = latest\nreplica_wait = 0.2") as weir, connected(weir.port) as writer, connected(weir.port) as reader:
        do(writer, "BEGIN; INSERT INTO kept VALUES (160); PREPARE TRANSACTION 'p160'", False)
        with connected(cluster.primary.port, database=db) as direct:
            do(direct, "COMMIT PREPARED 'p160'", False)
        assert sees(reader, "kept", 160) and sees(writer, "kept", 160, True)


@EXTENDED
def test_a_commit_that_a_deferred_constraint_fails_has_written_nothing(cluster, db, extended):
    with served(cluster, db) as weir, connected(weir.port) as writer, connected(weir.port) as reader:
        do(writer, "BEGIN", extended)
        do(writer, "INSERT INTO owned VALUES (1)", extended)
        assert sees(writer, "owned", 1)
        answer = ask(writer, "COMMIT", extended)
        assert answer.sqlstates == ["23503"] and answer.status == "I"
        assert not sees(writer, "owned", 1) and not sees(reader, "owned", 1)
        # The constraint of a statement by itself is checked at its commit too: in the extended protocol behind its CommandComplete.
        answer = ask(writer, "INSERT INTO owned VALUES (2)", extended)
        assert answer.sqlstates == ["23503"] and answer.status == "I"
        assert ("C" in answer.kinds) == extended
        # A pipeline's commit is its Sync: nothing of it stays.
        writer.send(run("INSERT INTO kept VALUES (170)"), run("INSERT INTO owned VALUES (3)"), SYNC)
        answer = writer.until("Z")
        assert answer.sqlstates == ["23503"] and answer.status == "I"
        for client in (writer, reader):
            assert not sees(client, "owned", 2) and not sees(client, "owned", 3) and not sees(client, "kept", 170)
        # What did not fail is seen, also behind what did.
        do(writer, "INSERT INTO owner_of VALUES (4) ON CONFLICT DO NOTHING", extended)
        do(writer, "INSERT INTO owned VALUES (4)", extended)
        assert sees(reader, "owner_of", 4) and reader.query("SELECT n FROM owned WHERE n = 4").rows
        assert ran_on(cluster, reader, "SELECT * FROM quiet") == "replica", "a table that nobody wrote"
        do(writer, "DELETE FROM owned", extended)
    cluster.wait_caught_up()


@EXTENDED
def test_what_is_committed_before_and_chain_is_seen_while_the_next_transaction_is_open(cluster, db, extended):
    with served(cluster, db) as weir, connected(weir.port) as writer, connected(weir.port) as reader:
        base = 200 + 10 * extended
        do(writer, "BEGIN", extended)
        do(writer, f"INSERT INTO kept VALUES ({base})", extended)
        assert not sees(reader, "kept", base)
        answer = do(writer, "COMMIT AND CHAIN", extended)
        assert answer.tags == ["COMMIT"] and answer.status == "T"
        assert sees(reader, "kept", base, extended)
        do(writer, f"INSERT INTO kept VALUES ({base + 1})", extended)
        answer = do(writer, "ROLLBACK AND CHAIN", extended)
        assert answer.tags == ["ROLLBACK"] and answer.status == "T"
        do(writer, f"INSERT INTO kept VALUES ({base + 2})", extended)
        assert sees(reader, "kept", base) and not sees(reader, "kept", base + 1) and not sees(reader, "kept", base + 2)
        assert do(writer, "COMMIT", extended).status == "I"
        for client in (writer, reader):
            assert sees(client, "kept", base) and not sees(client, "kept", base + 1) and sees(client, "kept", base + 2)


@EXTENDED
def test_who_has_seen_what_a_procedure_committed_before_its_end_goes_on_seeing_it(cluster, db, extended):
    n = 220 + extended
    with served(cluster, db) as weir, connected(weir.port) as writer, connected(weir.port) as reader:
        with connected(cluster.primary.port, database=db) as holder:
            do(holder, "SELECT pg_advisory_lock(77)", False)
            call = f"CALL keep_and_wait({n})"
            writer.send(run(call) + SYNC if extended else simple(call))
            hinted = f"/* pgweir: primary */ SELECT n FROM kept WHERE n = {n}"
            wait_for("the procedure has committed once", lambda: reader.query(hinted).rows)
            for _ in range(3):
                assert sees(reader, "kept", n, extended)
            do(holder, "SELECT pg_advisory_unlock(77)", False)
        assert not writer.until("Z").errors
        assert sees(reader, "kept", n) and sees(writer, "kept", n)


# ------------------------------------------------------------------------------------------- page boundaries

PAGE = 8192


@pytest.fixture(scope="module")
def idle():
    """A cluster on which nobody else writes."""
    cluster = Cluster.create(replicas=1, settings="bgwriter_delay = 10s")
    try:
        for sql in ("CREATE TABLE lone (n int)", "INSERT INTO lone VALUES (1)", "VACUUM (FREEZE) lone"):
            cluster.primary.execute(sql)
        cluster.wait_caught_up()
        yield cluster
    finally:
        cluster.stop()


def insert_lsn(cluster) -> int:
    return int(cluster.primary.value("SELECT pg_current_wal_insert_lsn() - '0/0'"))


def message_of(size: int) -> str:
    return f"BEGIN; SELECT pg_logical_emit_message(true, 'pgweir', repeat('x', {size})); COMMIT"


@pytest.mark.parametrize("where", ["page", "segment"])
@pytest.mark.parametrize("level", ["table", "session"])
def test_pitfall_26_a_token_made_at_a_boundary_is_reached_on_an_idle_cluster(idle, where, level):
    """The last commit ends exactly where a page of WAL, or a segment, ends: what is inserted next begins behind a header that no
    replica will report as replayed. Reads come back to the replica though nothing is written any more."""
    settings = f"read_consistency = {level}\nreplica_wait = 0\n"
    with poolers.for_cluster(idle, "postgres", settings=settings) as weir, connected(weir.port, user="postgres") as client:
        header = 24 if where == "page" else 40
        assert runs_on_replica(idle, client, "SELECT * FROM lone")

        def boundary_hit() -> bool:
            if where == "segment":
                do(client, message_of(100), False)
                do(client, "SELECT pg_switch_wal()", False)
            else:
                # How much a commit with a message of 200 bytes takes, where no page ends within it.
                before = insert_lsn(idle)
                do(client, message_of(200), False)
                took = insert_lsn(idle) - before
                left = -insert_lsn(idle) % PAGE
                if took > 600 or left < took:
                    return False
                do(client, message_of(200 + left - took), False)
            return insert_lsn(idle) % PAGE == header
        wait_for("a commit that ends at a boundary", boundary_hit)
        at = insert_lsn(idle)
        wait_for("the token is reached", lambda: ran_on(idle, client, "SELECT * FROM lone") == "replica")
        with connected(weir.port, user="postgres") as other:
            assert ran_on(idle, other, "SELECT * FROM lone") == "replica" or level == "session"
        assert insert_lsn(idle) == at, "somebody has written meanwhile"
        replayed = int(idle.replicas[0].value("SELECT pg_last_wal_replay_lsn() - '0/0'"))
        assert replayed == at - header, "as a replica tells where it is that has replayed all"


@pytest.mark.parametrize("level", ["table", "session"])
def test_pitfall_23_a_token_in_wal_that_nobody_flushes_at_once_is_reached_on_an_idle_cluster(idle, level):
    """The insert LSN covers what the primary has not flushed yet, and a replica can't have replayed. Nobody commits anything that would
    flush it: reads come back to the replica all the same."""
    with poolers.for_cluster(idle, "postgres", settings=f"read_consistency = {level}\nreplica_wait = 0\n") as weir, connected(weir.port, user="postgres") as client:
        for size in (10, 5000, 20000):
            do(client, f"SELECT pg_logical_emit_message(false, 'pgweir', repeat('x', {size}))", False)
            at = insert_lsn(idle)
            wait_for("the token is reached", lambda: ran_on(idle, client, "SELECT * FROM lone") == "replica")
            assert insert_lsn(idle) == at, "somebody has written meanwhile"
