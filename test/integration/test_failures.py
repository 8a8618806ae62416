"""Nodes die, are promoted and come back: reads go on, writes are never run twice. Tests that break nodes have a cluster of their own."""
from __future__ import annotations

import time

import pytest

import pooler as poolers
import wire
from cluster import Cluster, wait_for
from tcp_proxy import TcpProxy
from wire import Wire, connected, simple

SCHEMA = """
CREATE TABLE items (n int PRIMARY KEY, word text);
INSERT INTO items SELECT i, 'word ' || i FROM generate_series(1, 100) AS i;
CREATE TABLE written (n int);
GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC;
"""
# A read that takes a second or two before its first row, on any node.
LONG_READ = "SELECT count(*) /* {marker} */ FROM items, generate_series(1, 400000) a WHERE a + n > 0"
QUICK = "server_login_retry = 1\nserver_connect_timeout = 3\nquery_wait_timeout = 60\nclient_login_timeout = 60"


@pytest.fixture()
def own():
    """A cluster to break."""
    cluster = Cluster.create()
    try:
        cluster.primary.execute(SCHEMA)
        cluster.wait_caught_up()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def kept():
    """A cluster whose nodes all stay what and where they are."""
    cluster = Cluster.create()
    try:
        cluster.primary.execute(SCHEMA)
        cluster.wait_caught_up()
        yield cluster
    finally:
        cluster.stop()


def wait_on_a_replica(cluster: Cluster, marker: str, positions: dict[str, int]):
    """The replica that runs the statement with `marker`."""
    def running():
        for replica in cluster.replicas:
            if replica.times_run(marker, positions[replica.name]):
                return replica
        assert not cluster.primary.times_run(marker, positions["primary"]), "it was to run on a replica"
        return None
    return wait_for("a replica runs it", running)


def test_a_read_whose_replica_dies_is_run_again(own):
    with poolers.for_cluster(own, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        positions = own.log_positions()
        client.send(simple(LONG_READ.format(marker="dies")))
        wait_on_a_replica(own, "dies", positions).stop("immediate")
        assert client.until("Z").rows == [("40000000",)]
        assert client.query("SELECT word FROM items WHERE n = 3").rows == [("word 3",)]


def test_a_read_whose_server_is_terminated_is_run_again(kept):
    with poolers.for_cluster(kept, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        positions = kept.log_positions()
        client.send(simple(LONG_READ.format(marker="terminated")))
        replica = wait_on_a_replica(kept, "terminated", positions)
        assert replica.value("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%terminated%' AND pid <> pg_backend_pid()")
        answer = client.until("Z")
        assert answer.rows == [("40000000",)] and not answer.errors


def test_a_read_cancelled_by_a_recovery_conflict_is_run_again(kept):
    for replica in kept.replicas:
        replica.set("max_standby_streaming_delay", "0")
    with poolers.for_cluster(kept, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        positions = kept.log_positions()
        client.send(simple(LONG_READ.format(marker="conflicts")))
        wait_on_a_replica(kept, "conflicts", positions)
        kept.primary.execute("BEGIN; LOCK TABLE items IN ACCESS EXCLUSIVE MODE; COMMIT")
        answer = client.until("Z")
        assert answer.rows == [("40000000",)] and not answer.errors
    for replica in kept.replicas:
        replica.set("max_standby_streaming_delay", None)
    logs = "".join(replica.log.read_text() for replica in kept.replicas)
    assert "conflict with recovery" in logs


def test_pitfall_19_a_read_that_hangs_behind_a_replayed_lock_runs_on_the_primary(own):
    settings = QUICK + "\nreplica_read_timeout = 1\nread_consistency = eventual"
    with poolers.for_cluster(own, "postgres", settings=settings) as pooler, connected(pooler.port) as client:
        # The replicas have replayed the lock, and stop ahead of its end.
        with own.primary.connect() as connection, connection.cursor() as locker:
            locker.execute("BEGIN; LOCK TABLE items IN ACCESS EXCLUSIVE MODE; CREATE TEMPORARY TABLE gives_an_xid (n int)")
            own.primary.execute("INSERT INTO written VALUES (1)")
            own.wait_caught_up()
            for replica in own.replicas:
                wait_for("the lock is replayed", lambda: replica.value("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'items'::regclass"))
                replica.pause_replay()
            locker.execute("COMMIT")
        positions = own.log_positions()
        answer = client.query("SELECT word FROM items /* hangs */ WHERE n = 3")
        assert answer.rows == [("word 3",)] and not answer.errors
        run = own.times_run("hangs", positions)
        assert run["primary"] == 1 and run["replica1"] + run["replica2"] == 1, run
        pooler.wait_log("a read hangs on a replica that replays nothing")
        for replica in own.replicas:
            wait_for("the read is cancelled there", lambda: replica.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%hangs%' AND state = 'active' AND pid <> pg_backend_pid()") == 0)
            replica.resume_replay()


def test_a_read_is_not_run_again_once_rows_have_gone_out(kept):
    with poolers.for_cluster(kept, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        positions = kept.log_positions()
        client.send(simple("SELECT repeat(word, 200) /* halfway */ FROM items, generate_series(1, 100000)"))
        assert client.until("D").kinds == "TD"
        replica = wait_on_a_replica(kept, "halfway", positions)
        assert replica.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%halfway%' AND pid <> pg_backend_pid()") == 1
        # An error, unless the connection broke in the middle of a row: then there is no place for one.
        assert "C" not in client.until_closed().kinds
        assert sum(kept.times_run("halfway", positions).values()) - 1 <= 1       # our kept question is logged, too


def test_a_write_whose_server_dies_is_never_run_again(own):
    with poolers.for_cluster(own, "postgres", settings=QUICK) as pooler:
        with connected(pooler.port) as client:
            positions = own.log_positions()
            client.send(simple("INSERT INTO written /* once */ SELECT 1 FROM pg_sleep(30)"))
            wait_for("it runs", lambda: own.primary.times_run("once", positions["primary"]))
            own.primary.stop("immediate")
            answer = client.until_closed()
            assert answer.errors and answer.errors[0]["C"] in ("57P01", "57P02", "08006", "08P01"), answer.errors
            own.primary.start()
        with connected(pooler.port) as client:
            assert not client.query("INSERT INTO written VALUES (2)").errors
            assert client.query("SELECT n FROM written").rows == [("2",)]
        assert own.times_run("/* once */", positions) == {"primary": 1, "replica1": 0, "replica2": 0}


def test_pitfall_17_a_primary_that_restarts_is_used_again(own):
    with poolers.for_cluster(own, "postgres", settings=QUICK) as pooler:
        with connected(pooler.port) as client:
            assert not client.query("INSERT INTO written VALUES (1)").errors
            own.primary.restart("immediate")
            for replica in own.replicas:
                own.wait_caught_up(replica)
            for n in range(2, 6):
                with connected(pooler.port) as writer:
                    assert not writer.query(f"INSERT INTO written VALUES ({n})").errors
                    assert writer.query("SELECT max(n) FROM written").rows == [(str(n),)]
        pooler.wait_split(own)


def test_a_server_killed_while_the_client_is_idle_is_not_noticed(kept):
    with poolers.for_cluster(kept, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        for _ in range(3):
            assert not client.query("INSERT INTO written VALUES (1)").errors
            assert client.query("SELECT word FROM items WHERE n = 1").rows
            for node in kept.nodes:
                node.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
                wait_for("they are gone", lambda: node.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") == 0)
            wait_for("pgweir has noticed", lambda: all(
                row["state"] != "idle" or row["database"] == "pgbouncer" for row in pooler.console("SHOW SERVERS")))


def test_a_dead_replica_is_skipped_and_comes_back(own):
    one, two = own.replicas
    with poolers.for_cluster(own, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        one.stop("immediate")
        positions = own.log_positions()
        for _ in range(50):
            answer = client.query("SELECT word /* one is dead */ FROM items WHERE n = 1")
            assert answer.rows == [("word 1",)] and not answer.errors
        assert two.times_run("one is dead", positions["replica2"]) >= 40
        two.stop("immediate")
        for _ in range(20):
            assert client.query("SELECT word /* all dead */ FROM items WHERE n = 1").rows == [("word 1",)]
        assert own.primary.times_run("all dead", positions["primary"]) == 20
        one.start()
        two.start()
        own.wait_caught_up()
        pooler.wait_split(own)


def test_writes_find_the_new_primary_after_a_promotion(own):
    new, other = own.replicas
    with poolers.for_cluster(own, "postgres", settings=QUICK) as pooler:
        with connected(pooler.port) as client:
            assert not client.query("INSERT INTO written VALUES (1)").errors
        own.wait_caught_up()
        own.primary.stop("immediate")
        new.promote()
        other.set("primary_conninfo", own.follow_line(new).split(" = ", 1)[1].strip("'"))
        with connected(pooler.port) as client:
            def wrote() -> bool:
                return not client.query("INSERT INTO written VALUES (2)").errors
            wait_for("the new primary takes a write", wrote)
            assert client.query("SELECT max(n) FROM written").rows == [("2",)]
            assert new.value("SELECT count(*) FROM written WHERE n = 2") == 1
            # The old one returns, still believing that it is the primary.
            own.primary.start()
            for n in range(3, 30):
                assert not client.query(f"INSERT INTO written VALUES ({n})").errors
                assert client.query(f"SELECT count(*) FROM written WHERE n = {n}").rows == [("1",)]
                time.sleep(0.05)
            assert own.primary.value("SELECT count(*) FROM written WHERE n > 1") == 0
            assert new.value("SELECT count(*) FROM written WHERE n > 2") == 27
        pooler.wait_split(own, replicas=1)


def test_pitfall_1_a_replica_promoted_by_mistake_gets_no_writes(own):
    stray = own.replicas[1]
    with poolers.for_cluster(own, "postgres", settings=QUICK) as pooler, connected(pooler.port) as client:
        stray.promote()
        for n in range(60):
            assert not client.query(f"INSERT INTO written VALUES ({n})").errors
            assert client.query(f"SELECT count(*) FROM written WHERE n = {n}").rows == [("1",)]
            time.sleep(0.03)
        assert own.primary.value("SELECT count(*) FROM written") == 60
        assert stray.value("SELECT count(*) FROM written") == 0
        stray_row = [row for row in pooler.console("SHOW NODES") if row["node"].endswith(f":{stray.port}")][0]
        assert stray_row["health"] != "ok", stray_row


def proxied(own: Cluster, primary: TcpProxy, replica: TcpProxy) -> str:
    return poolers.ini_for(own, "postgres", settings=QUICK).replace(f"port={own.primary.port}", f"port={primary.port}").replace(
        own.replica_hosts, f"127.0.0.1:{replica.port}")


def test_connections_that_are_cut(kept):
    with TcpProxy(kept.primary.port) as to_primary, TcpProxy(kept.replicas[0].port) as to_replica, \
            poolers.running(proxied(kept, to_primary, to_replica)) as pooler:
        pooler.wait_split(kept, replicas=1)
        with connected(pooler.port) as client:
            # A read: run again elsewhere.
            positions = kept.log_positions()
            client.send(simple(LONG_READ.format(marker="cut read")))
            wait_on_a_replica(kept, "cut read", positions)
            to_replica.cut()
            assert client.until("Z").rows == [("40000000",)]
            # A write: an error, once.
            client.send(simple("INSERT INTO written /* cut write */ SELECT 1 FROM pg_sleep(20)"))
            wait_for("it runs", lambda: kept.primary.times_run("cut write", positions["primary"]))
            to_primary.cut()
            assert client.until_closed().errors
        assert kept.primary.times_run("cut write", positions["primary"]) == 1
        wait_for("writes work again", lambda: _writes(pooler))


def _writes(pooler) -> bool:
    with Wire(pooler.port) as client:
        return client.login().kinds[-1] == "Z" and not client.query("INSERT INTO written VALUES (99)").errors


def test_a_replica_that_hangs_does_not_stop_the_others(kept):
    with TcpProxy(kept.primary.port) as to_primary, TcpProxy(kept.replicas[0].port) as to_replica, \
            poolers.running(proxied(kept, to_primary, to_replica)) as pooler:
        pooler.wait_split(kept, replicas=1)
        to_replica.hang = True
        # Whoever is on it waits; after the monitor noticed nobody is sent there.
        wait_for("the monitor notices", lambda: any(
            row["role"] != "primary" and row["health"] != "ok" for row in pooler.console("SHOW NODES")))
        with connected(pooler.port) as client:
            for _ in range(20):
                assert client.query("SELECT word FROM items WHERE n = 2").rows == [("word 2",)]
        to_replica.hang = False
        pooler.wait_split(kept, replicas=1)


def test_half_closed_and_refusing_replicas(kept):
    with TcpProxy(kept.primary.port) as to_primary, TcpProxy(kept.replicas[0].port) as to_replica, \
            poolers.running(proxied(kept, to_primary, to_replica)) as pooler:
        pooler.wait_split(kept, replicas=1)
        with connected(pooler.port) as client:
            to_replica.refuse = True
            to_replica.half_close()
            for n in range(30):
                answer = client.query(f"SELECT word FROM items WHERE n = {n + 1}")
                assert answer.rows == [(f"word {n + 1}",)] and not answer.errors
            to_replica.refuse = False
            to_replica.cut()
        pooler.wait_split(kept, replicas=1)


def test_a_primary_that_is_not_there_is_said_and_waited_for(own):
    own.primary.stop("fast")
    settings = QUICK.replace("client_login_timeout = 60", "client_login_timeout = 3")
    with poolers.for_cluster(own, "postgres", settings=settings, split=False, wait=False) as pooler:
        with Wire(pooler.port) as client:
            error = client.login().errors[0]
            assert error["S"] == "FATAL" and error["C"].startswith(("08", "57")), error
        own.primary.start()
        wait_for("logins work", lambda: _writes(pooler))
