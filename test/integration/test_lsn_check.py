"""lsn_check = inline: the replica is asked how far it is together with the read, and its answer counts only if it is far enough."""
from __future__ import annotations

import contextlib

import pytest

import pooler as poolers
from cluster import HOST, wait_for
from tcp_proxy import TcpProxy
from test_read_split import Count
from wire import SYNC, bind, connected, describe, execute, parse, run


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE counted (n int); INSERT INTO counted VALUES (0);"
                            "CREATE TABLE big AS SELECT i FROM generate_series(1, 20000) AS i", db)
    cluster.wait_caught_up()


def write(client, value: int) -> None:
    assert not client.query(f"UPDATE counted SET n = {value}").errors


def read(client, how: str, comment: str) -> int:
    sql = comment + " SELECT n FROM counted"
    if how == "simple":
        answer = client.query(sql)
    elif how == "extended":
        answer = client.extended(sql)
    elif how == "unnamed":
        client.send(parse(sql) + describe("S") + SYNC)
        assert client.until("Z").kinds == "1tTZ"
        client.send(bind() + execute() + SYNC)
        answer = client.until("Z")
    else:
        client.send(bind(name="prepared") + execute() + SYNC)
        answer = client.until("Z")
    assert not answer.errors, answer
    return int(answer.rows[0][0])


@contextlib.contextmanager
def served(cluster, db, settings: str, replicas: str | None = None):
    ini = poolers.ini_for(cluster, db, settings=f"replica_wait = 0\n{settings}")
    if replicas:
        ini = ini.replace(cluster.replica_hosts, replicas)
    with poolers.running(ini) as weir, connected(weir.port) as client:
        wait_for("the catalog is read", lambda: client.query("SELECT i FROM big LIMIT 1").rows
                 and client.query("SHOW pgweir.last_route").rows[0][0].endswith(("(read)", "(token_ahead)", "(table_written)")))
        yield weir, client


@pytest.mark.parametrize("how", ["simple", "extended", "unnamed", "prepared"])
def test_one_address_that_hides_several_instances_is_right_in_every_answer(cluster, db, how):
    """One of them is far behind, and every connection may reach either; the proxy turns."""
    behind = cluster.replicas[1]
    with TcpProxy(cluster.replicas[0].port, behind.port) as proxy:
        with served(cluster, db, "lsn_check = inline\nserver_lifetime = 1\nmonitor_interval = 0.05", f"{HOST}:{proxy.port}") as (weir, client):
            behind.pause_replay()
            try:
                count = Count(cluster)
                if how == "prepared":
                    client.send(parse(count.comment + " SELECT n FROM counted", "prepared") + SYNC)
                    client.until("Z")
                wait_for("it is known that there are several",
                         lambda: client.query("SELECT i FROM big LIMIT 1").rows and any(row["health"] == "several" for row in weir.console("SHOW NODES")))

                def rounds(first: int) -> bool:
                    for i in range(first, first + 50):
                        write(client, i)
                        for _ in range(4):
                            assert read(client, how, count.comment) == i
                    return count.nodes["replica1"] > 10 and count.nodes["replica2"] > 0
                done = iter(range(1, 100_000, 50))
                # Both have been asked for reads, and one of them was never believed.
                wait_for("both instances were asked", lambda: rounds(next(done)))
            finally:
                behind.resume_replay()


def test_with_cached_positions_such_an_address_answers_nothing_that_must_be_fresh(cluster, db):
    with TcpProxy(cluster.replicas[0].port, cluster.replicas[1].port) as proxy:
        with served(cluster, db, "server_lifetime = 1\nmonitor_interval = 0.05", f"{HOST}:{proxy.port}") as (weir, client):
            wait_for("it is known that there are several",
                     lambda: client.query("SELECT i FROM big LIMIT 1").rows and any(row["health"] == "several" for row in weir.console("SHOW NODES")))
            count = Count(cluster)
            for i in range(20):
                write(client, i)
                assert read(client, "simple", count.comment) == i
            assert count.replicas == 0


@pytest.mark.parametrize("how", ["simple", "extended", "unnamed"])
def test_pitfall_8_under_repeatable_read_a_read_is_as_fresh_as_what_was_asked_with_it(cluster, db, how):
    """The question is a transaction of its own: a snapshot that began with it would be older than its answer. And it drops no unnamed
    statement that is bound later."""
    def once_on_replica(client) -> bool:
        return client.query("SELECT i FROM big LIMIT 1").rows and client.query("SHOW pgweir.last_route").rows[0][0].startswith("replica")
    with served(cluster, db, "lsn_check = inline\nmonitor_interval = 5") as (weir, writer), connected(weir.port) as client:
        assert not client.query("SET default_transaction_isolation = 'repeatable read'").errors
        wait_for("the lag of a replica is known", lambda: once_on_replica(client))
        count = Count(cluster)
        for i in range(1, 101):
            write(writer, 10_000 + i)
            for _ in range(3):
                assert read(client, how, count.comment) == 10_000 + i
        assert count.replicas > 50, count.nodes


@pytest.mark.parametrize("how", ["simple", "extended"])
def test_a_replica_is_asked_when_its_last_answer_to_the_monitor_is_too_old(cluster, db, how):
    """The monitor looks seldom: without asking, hardly anything could be read on replicas after a write."""
    def once_on_replica(client) -> bool:
        return client.query("SELECT i FROM big LIMIT 1").rows and client.query("SHOW pgweir.last_route").rows[0][0].startswith("replica")
    with served(cluster, db, "lsn_check = inline\nmonitor_interval = 5") as (_, client):
        wait_for("the lag of a replica is known", lambda: once_on_replica(client))
        count = Count(cluster)
        for i in range(1, 101):
            write(client, i)
            for _ in range(5):
                assert read(client, how, count.comment) == i
        assert count.replicas > 100, count.nodes
    with served(cluster, db, "lsn_check = cached\nmonitor_interval = 5") as (_, client):
        wait_for("a replica answers", lambda: once_on_replica(client))
        count = Count(cluster)
        for i in range(1, 51):
            write(client, i)
            assert read(client, how, count.comment) == i
        # But for what a look at the cluster lets through.
        assert count.replicas <= 5, count.nodes


def test_pitfall_8_what_a_replica_answers_too_early_is_thrown_away_and_it_goes_on_serving(cluster, db):
    for replica in cluster.replicas:
        replica.pause_replay()
    try:
        with served(cluster, db, "lsn_check = inline\nmax_replica_lag = 0") as (weir, client):
            write(client, 5)
            count = Count(cluster)
            for _ in range(20):
                assert read(client, "simple", count.comment) == 5
                client.send(run(count.comment + " SELECT i FROM big, counted WHERE n = 5") + run(count.comment + " SELECT n FROM counted") + SYNC)
                answer = client.until("Z")
                assert len(answer.rows) == 20_001 and answer.rows[-1] == ("5",)
            assert count.primary > 0
            # An unread answer of theirs does not stand in anybody's way.
            for replica in cluster.replicas:
                replica.resume_replay()
            wait_for("a replica answers", lambda: read(client, "simple", "") == 5
                     and client.query("SHOW pgweir.last_route").rows[0][0].startswith("replica"))
            assert len(weir.console("SHOW SERVERS")) <= 4
    finally:
        for replica in cluster.replicas:
            replica.resume_replay()
