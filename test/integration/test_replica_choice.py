"""Which of several replicas gets a read: by weight, and slowly when it has come back."""
from __future__ import annotations

import concurrent.futures
import time

import pytest

import pooler as poolers
from cluster import Cluster, wait_for
from test_read_split import Count, runs_on_replica
from wire import connected

CLIENTS = 8


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE quiet (n int); INSERT INTO quiet VALUES (1)", db)
    cluster.wait_caught_up()


def burst(cluster, port: int, reads_each: int = 30) -> dict[str, float]:
    """What part of reads each replica gets while several of them are always under way."""
    count = Count(cluster)

    def client_runs(_: int) -> None:
        with connected(port) as client:
            for _ in range(reads_each):
                answer = client.query(f"SELECT n, pg_sleep(0.005) {count.comment} FROM quiet")
                assert not answer.errors, answer.errors

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(client_runs, range(CLIENTS)))
    nodes = count.nodes
    assert nodes["primary"] == 0, nodes
    return {name: nodes[name] / (CLIENTS * reads_each) for name in ("replica1", "replica2")}


SETTINGS = "replica_functions = pg_sleep\nread_consistency = eventual\ndefault_pool_size = 20"


def test_reads_are_spread_by_weight_and_a_reload_changes_that(cluster, db):
    def ini(weights: str) -> str:
        return poolers.ini_for(cluster, db, f"replica_weights={weights}", settings=SETTINGS)
    with poolers.running(ini("3,1")) as weir:
        weir.wait_split(cluster)
        # The first reads find no connections yet.
        burst(cluster, weir.port)
        got = burst(cluster, weir.port)
        assert 0.6 < got["replica1"] < 0.9, got
        shown = {row["node"]: int(row["weight"]) for row in weir.console("SHOW NODES") if row["database"] == "t"}
        assert sorted(shown.values()) == [1, 1, 3]
        weir.write_ini(ini("0,1"))
        weir.console("RELOAD")
        assert burst(cluster, weir.port, 5) == {"replica1": 0, "replica2": 1}
        weir.write_ini(ini("1,0"))
        weir.console("RELOAD")
        assert burst(cluster, weir.port, 5) == {"replica1": 1, "replica2": 0}


def test_without_weights_reads_are_spread_evenly(cluster, db):
    with poolers.for_cluster(cluster, db, settings=SETTINGS) as weir:
        weir.wait_split(cluster)
        burst(cluster, weir.port)
        got = burst(cluster, weir.port)
        assert 0.35 < got["replica1"] < 0.65, got


def test_a_replica_that_has_come_back_starts_slowly():
    slow_s = 8.0
    cluster = Cluster.create()
    try:
        cluster.primary.execute("SET ROLE app; CREATE TABLE quiet (n int); INSERT INTO quiet VALUES (1)")
        cluster.wait_caught_up()
        with poolers.for_cluster(cluster, "postgres", settings=f"{SETTINGS}\nreplica_slow_start = {slow_s}\nserver_login_retry = 0.2") as weir:
            weir.wait_split(cluster)
            usable_s = time.monotonic()
            second = cluster.replicas[1]

            def health() -> str:
                return next(row["health"] for row in weir.console("SHOW NODES") if row["node"].endswith(f":{second.port}"))
            second.stop("immediate")
            wait_for("it is gone", lambda: health() == "down")
            # Others have been usable for longer than replicas of one start are apart.
            wait_for("some time has passed", lambda: time.monotonic() - usable_s > 5.5)
            second.start()
            wait_for("it is back", lambda: health() == "ok")
            back_s = time.monotonic()
            got = burst(cluster, weir.port, 10)
            passed = min(1.0, (time.monotonic() - back_s) / slow_s)
            assert got["replica2"] < 0.1 + passed, (got, passed)
            assert got["replica1"] > 0.5 or passed > 0.5, (got, passed)
            wait_for("it has its full share", lambda: 0.35 < burst(cluster, weir.port, 10)["replica2"] < 0.65)
            assert time.monotonic() - back_s > slow_s / 3
    finally:
        cluster.stop()
