"""Reads of one causal key do not go back, over whatever connections and replicas they come; and what may be asked for at login."""
from __future__ import annotations

import contextlib
import itertools
import threading
import time

import pytest

import pooler as poolers
from cluster import wait_for
from test_levels import count_of, served
from test_read_split import Count, ran_on, runs_on_replica
from test_token import paused
from wire import connected

DELAY_MS = 700


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE notes (n int); CREATE TABLE quiet (n int); INSERT INTO quiet VALUES (1)", db)
    cluster.wait_caught_up()


@contextlib.contextmanager
def in_background(beat):
    """Calls `beat` again and again, on a thread of its own, until the end of the block."""
    ended, failures = threading.Event(), []

    def run() -> None:
        try:
            while not ended.is_set():
                beat()
        except BaseException as failure:  # noqa: BLE001: told below
            failures.append(failure)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failures, failures


@pytest.mark.parametrize("level", ["session", "table"])
def test_reads_of_a_key_do_not_go_back_over_connections_and_replicas(cluster, db, level):
    """One replica is far behind the other one; each read comes on a connection of its own, as from a pool of the application."""
    settings = f"read_consistency = {level}\nreplica_functions = pg_sleep\nreplica_wait = 0"
    cluster.replicas[1].set_apply_delay(DELAY_MS)
    try:
        # The one that is behind comes first while it has nothing to do, and the other one while it has.
        with poolers.for_cluster(cluster, db, "replica_weights=2,3", settings=settings) as weir, connected(weir.port) as writer, connected(
                weir.port) as busy, cluster.primary.connect(db) as direct:
            weir.wait_split(cluster)
            turns = itertools.count()

            def write() -> None:
                # At level session past pgweir, so that nothing but what a key has seen holds its reads; at level table such writes are not
                # known. Now and then all replicas catch up.
                if level == "session":
                    poolers.query(direct, "INSERT INTO notes VALUES (1)")
                else:
                    assert not writer.query("INSERT INTO notes VALUES (1)").errors
                time.sleep(0.005 if next(turns) % 100 else DELAY_MS / 1000 * 1.5)

            def keep_it_busy_now_and_then() -> None:
                assert not busy.query("SELECT n, pg_sleep(0.03) FROM quiet /* pgweir: level=eventual */").errors
                time.sleep(0.03)

            reads = {"a key": Count(cluster), "no key": Count(cluster)}
            seen = {"a key": 0, "no key": 0}
            went_back = {"a key": 0, "no key": 0}
            total = 0

            def read(who: str, hint: str = "", **parameters: str) -> None:
                with connected(weir.port, **parameters) as client:
                    answer = client.query(f"SELECT count(*) {reads[who].comment} FROM notes {hint}")
                    assert not answer.errors, answer.errors
                    now = int(answer.rows[0][0])
                went_back[who] += now < seen[who]
                seen[who] = now

            def enough() -> bool:
                nonlocal total
                for _ in range(25):
                    total += 1
                    read("a key", options="-c pgweir.causal_key=monotonic")
                    read("no key", "" if level == "session" else "/* pgweir: level=eventual */")
                assert went_back["a key"] == 0
                return total >= 300 and went_back["no key"] > 0 and all(reads["a key"].nodes[name] > 0 for name in ("replica1", "replica2"))
            with in_background(write), in_background(keep_it_busy_now_and_then):
                wait_for("reads of the key came from both replicas, and reads without one went back", enough, deadline_s=90)
    finally:
        cluster.replicas[1].set_apply_delay(0)


@pytest.mark.parametrize("spelled", ["options", "parameter"])
def test_a_level_in_the_startup_packet_is_the_session_s(cluster, db, spelled):
    def asking(level: str, **more: str):
        given = {"options": f"-c pgweir.read_consistency={level}"} if spelled == "options" else {"pgweir.read_consistency": level}
        return connected(weir.port, **given, **more)
    with served(cluster, db, "read_consistency = table\nreplica_wait = 0") as (weir, writer):
        with asking("primary") as client:
            assert client.query("SHOW pgweir.read_consistency").rows == [("primary",)]
            assert ran_on(cluster, client, "SELECT * FROM quiet") == "primary"
            assert client.query("SHOW pgweir.last_route").rows[0][0].endswith("(level_primary)")
            # What was asked for at login is what a reset leads back to.
            for statement in ("RESET pgweir.read_consistency", "RESET ALL", "DISCARD ALL"):
                assert not client.query("SET pgweir.read_consistency = eventual").errors
                assert runs_on_replica(cluster, client, "SELECT * FROM quiet")
                assert not client.query(statement).errors
                assert ran_on(cluster, client, "SELECT * FROM quiet") == "primary", statement
        with paused(cluster):
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            with asking("eventual") as client, asking("table") as other, asking("latest") as third:
                assert ran_on(cluster, client, "SELECT * FROM notes") == "replica"
                written = cluster.primary.value("SELECT count(*) FROM notes", db)
                assert count_of(client) < written
                assert count_of(other) == count_of(third) == written
        with pytest.raises(AssertionError, match="expected eventual, session, table"):
            asking("strict").close()


def test_level_and_key_may_come_together_in_the_startup_packet(cluster, db):
    options = "-c pgweir.read_consistency=session -c pgweir.causal_key=both"
    with served(cluster, db, "read_consistency = eventual\nreplica_wait = 0") as (weir, _), connected(
            weir.port, options=options) as one, connected(weir.port, options="-c pgweir.read_consistency=session") as three:
        for client in (one, three):
            assert runs_on_replica(cluster, client, "SELECT * FROM notes")
        with paused(cluster):
            assert not one.query("INSERT INTO notes VALUES (1)").errors
            with connected(weir.port, options=options) as two:
                written = cluster.primary.value("SELECT count(*) FROM notes", db)
                assert count_of(one) == count_of(two) == written
                assert ran_on(cluster, three, "SELECT * FROM notes") == "replica"
