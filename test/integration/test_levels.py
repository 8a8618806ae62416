"""The levels of read_consistency, each as those who came before do it by hand: what it promises, and to whom."""
from __future__ import annotations

import contextlib
import time

import psycopg
import pytest

import pooler as poolers
from cluster import wait_for
from test_read_split import Count, ran_on, runs_on_replica
from wire import connected, simple


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE notes (n int); CREATE TABLE quiet (n int); INSERT INTO quiet VALUES (1)", db)
    cluster.wait_caught_up()


@contextlib.contextmanager
def served(cluster, db, settings: str):
    with poolers.for_cluster(cluster, db, settings=settings) as weir, connected(weir.port) as client:
        assert runs_on_replica(cluster, client, "SELECT * FROM quiet")
        yield weir, client


def count_of(client) -> int:
    return int(client.query("SELECT count(*) FROM notes").rows[0][0])


@pytest.mark.parametrize("delay_ms", [0, 2000])
def test_latest_sees_what_others_write_directly_on_the_primary(cluster, db, delay_ms):
    cluster.replicas[0].set_apply_delay(delay_ms)
    try:
        with served(cluster, db, "read_consistency = latest\nreplica_wait = 5") as (weir, client):
            reads = Count(cluster)
            with cluster.primary.connect(db) as direct:
                for _ in range(150):
                    poolers.query(direct, "INSERT INTO notes VALUES (1)")
                    true_count = poolers.query(direct, "SELECT count(*) FROM notes")[0][0]
                    answer = client.query(reads.comment + "SELECT count(*) FROM notes")
                    assert not answer.errors and int(answer.rows[0][0]) >= true_count
            # One of both replicas is there in good time whatever the other does.
            assert reads.replicas > 0, (reads.nodes, weir.routing())
            assert delay_ms == 0 or reads.nodes["replica1"] == 0
    finally:
        cluster.replicas[0].set_apply_delay(0)


def test_a_pinned_user_reads_on_the_primary_for_the_window_and_others_do_not(cluster, db):
    window_s = 1.5
    with served(cluster, db, f"read_consistency = pin\npin_window = {window_s}") as (weir, writer), connected(weir.port) as other:
        before_s = time.monotonic()
        assert not writer.query("INSERT INTO notes VALUES (1)").errors
        own, others = Count(cluster), Count(cluster)
        own_reads = other_reads = 0
        # Only reads that surely came within the window count.
        while time.monotonic() < before_s + window_s - 0.3:
            assert not writer.query(own.comment + "SELECT * FROM quiet").errors
            own_reads += time.monotonic() < before_s + window_s
            assert not other.query(others.comment + "SELECT * FROM quiet").errors
            other_reads += 1
        assert own_reads > 0 and own.primary >= own_reads and others.replicas == other_reads
        wait_for("the window is over", lambda: ran_on(cluster, writer, "SELECT * FROM quiet") == "replica")
        assert time.monotonic() >= before_s + window_s


def test_a_written_table_is_read_on_the_primary_for_a_fixed_window(cluster, db):
    window_s = 1.5
    with served(cluster, db, f"read_consistency = window\ntable_window = {window_s}") as (weir, writer), connected(weir.port) as other:
        wait_for("what was before the start is old", lambda: ran_on(cluster, other, "SELECT * FROM notes") == "replica")
        before_s = time.monotonic()
        assert not writer.query("INSERT INTO notes VALUES (1)").errors
        for client in (writer, other):
            where = ran_on(cluster, client, "SELECT * FROM notes")
            assert where == "primary" or time.monotonic() >= before_s + window_s
            assert ran_on(cluster, client, "SELECT * FROM quiet") == "replica"
        wait_for("the window is over", lambda: ran_on(cluster, other, "SELECT * FROM notes") == "replica")
        assert time.monotonic() >= before_s + window_s


def test_the_measured_window_follows_the_lag(cluster, db):
    delay_ms = 600
    with served(cluster, db, "read_consistency = window\ntable_window = p99.9") as (weir, client):
        for replica in cluster.replicas:
            replica.set_apply_delay(delay_ms)
        try:
            def longest_ms() -> float:
                assert not client.query("INSERT INTO notes VALUES (1)").errors  # Something to measure.
                return min(float(row["lag_p999_us"] or 0) / 1000 for row in weir.console("SHOW NODES") if row["role"] == "replica")
            wait_for("the lag is measured", lambda: longest_ms() >= delay_ms)
            for _ in range(5):
                assert not client.query("INSERT INTO notes VALUES (1)").errors
                written = count_of(client)
                end_s = time.monotonic() + 2 * delay_ms / 1000
                while time.monotonic() < end_s:
                    assert count_of(client) == written
        finally:
            for replica in cluster.replicas:
                replica.set_apply_delay(0)


def test_a_read_waits_for_a_replica_that_is_nearly_there(cluster, db):
    """Right behind a write of the same table, on the same and on another connection."""
    with served(cluster, db, "read_consistency = table\nreplica_wait = 5") as (weir, writer), connected(weir.port) as other:
        reads = Count(cluster)
        written = count_of(writer)
        for _ in range(50):
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            written += 1
            for client in (writer, other):
                assert client.query(reads.comment + "SELECT count(*) FROM notes").rows == [(str(written),)]
        assert reads.replicas >= 90, (reads.nodes, weir.routing())
        # A replica that stands still is waited for no longer than that.
    with served(cluster, db, "read_consistency = table\nreplica_wait = 0.05") as (weir, writer):
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            assert ran_on(cluster, writer, "SELECT * FROM notes") == "primary"
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()


# ---------------------------------------------------------------------------------------- what the application says itself

def test_a_causal_key_joins_connections_and_leaves_others_alone(cluster, db):
    """The way of those who keep the LSN of a user's last write: other users go on reading from replicas."""
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, one), contextlib.ExitStack() as stack:
        same, other = (stack.enter_context(connected(weir.port)) for _ in range(2))
        for client, key in ((one, "user:42"), (same, "user:42"), (other, "user:43")):
            answer = client.query(f"SET pgweir.causal_key = '{key}'")
            assert answer.tags == ["SET"] and answer.status == "I"
            assert client.query("SHOW pgweir.causal_key").rows == [(key,)]
            assert runs_on_replica(cluster, client, "SELECT * FROM quiet")
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            assert not one.query("INSERT INTO notes VALUES (1)").errors
            written = cluster.primary.value("SELECT count(*) FROM notes", db)
            for client in (one, same):
                assert count_of(client) == written
                assert client.query("SHOW pgweir.last_route").rows[0][0].startswith("primary 127.0.0.1:")
            assert ran_on(cluster, other, "SELECT * FROM notes") == "replica", other.query("SHOW pgweir.last_route").rows
            # Also whoever takes the key later, by whatever way.
            assert not other.extended("SET pgweir.causal_key TO 'user:42'").errors
            assert count_of(other) == written
            with connected(weir.port, **{"pgweir.causal_key": "user:42"}) as late:
                assert count_of(late) == written
                assert not late.query("RESET pgweir.causal_key").errors
                assert late.query("SHOW pgweir.causal_key").rows == [("user:42",)]
            with connected(weir.port, options="-c pgweir.causal_key=user:42") as late:
                assert count_of(late) == written
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()


def test_a_session_sets_its_own_level(cluster, db):
    with served(cluster, db, "read_consistency = table") as (weir, client):
        assert client.query("SHOW pgweir.read_consistency").rows == [("table",)]
        assert client.query("SET pgweir.read_consistency = 'primary' /* why */;").tags == ["SET"]
        assert ran_on(cluster, client, "SELECT * FROM quiet") == "primary"
        assert "level_primary" in client.query("SHOW pgweir.last_route").rows[0][0]
        # Within a transaction too, in both protocols.
        assert not client.query("BEGIN").errors
        answer = client.query("SET pgweir.read_consistency = eventual")
        assert answer.tags == ["SET"] and answer.status == "T"
        shown = client.extended("SHOW pgweir.read_consistency")
        assert shown.rows == [("eventual",)] and shown.status == "T"
        assert not client.query("COMMIT").errors
        assert ran_on(cluster, client, "SELECT * FROM quiet") == "replica"
        for statement in ("RESET ALL", "DISCARD ALL"):
            assert not client.query("SET pgweir.read_consistency = primary").errors
            assert not client.query(statement).errors
            assert client.query("SHOW pgweir.read_consistency").rows == [("table",)]
        refused = client.query("SET pgweir.read_consistency = 'strict'")
        assert refused.sqlstates == ["22023"] and "expected eventual, session, table" in str(refused.errors)
        assert client.query("SET pgweir.last_route = 'x'").sqlstates == ["55P02"]
        assert client.extended("SET pgweir.causal_key = '" + "x" * 129 + "'").sqlstates == ["22023"]
        assert client.query("SELECT 1").rows == [("1",)]


def test_a_key_is_shared_whatever_level_its_sessions_have(cluster, db):
    with served(cluster, db, "read_consistency = table\nreplica_wait = 0") as (weir, one), connected(weir.port) as two:
        for client in (one, two):
            assert not client.query("SET pgweir.causal_key = 'both'").errors
        assert not two.query("SET pgweir.read_consistency = session").errors
        assert runs_on_replica(cluster, two, "SELECT * FROM notes")
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            assert not one.query("INSERT INTO notes VALUES (1)").errors
            assert count_of(two) == cluster.primary.value("SELECT count(*) FROM notes", db)
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()


def test_an_order_to_pgweir_in_pieces_or_in_a_pipeline_is_answered_here(cluster, db):
    with served(cluster, db, "replica_wait = 5") as (weir, client):
        whole = simple("SET pgweir.causal_key = 'cut'")
        for cut in range(1, len(whole)):
            client.send(whole[:cut])
            assert client.quiet_for(0.002)
            client.send(whole[cut:])
            assert client.until("Z").tags == ["SET"]
        wait_for("no server is kept", lambda: all(int(row["sv_active"]) == 0 for row in weir.console("SHOW POOLS") if row["database"] == "t"))
        client.send(simple("INSERT INTO notes VALUES (1)"), simple("SET pgweir.causal_key = 'piped'"), simple("BEGIN"),
                    simple("SHOW pgweir.causal_key"), simple("COMMIT"))
        assert client.until("Z").tags == ["INSERT 0 1"]
        assert client.until("Z").tags == ["SET"]
        assert client.until("Z").tags == ["BEGIN"]
        shown = client.until("Z")
        assert shown.rows == [("piped",)] and shown.status == "T"
        assert client.until("Z").tags == ["COMMIT"]
        assert ran_on(cluster, client, "SELECT * FROM quiet") == "replica"


def test_the_application_s_settings_are_answered_to_drivers(cluster, db):
    with poolers.for_cluster(cluster, db) as weir, psycopg.connect(weir.dsn()) as connection:
        connection.execute("SET pgweir.causal_key = 'user:7'", prepare=False)
        connection.execute("INSERT INTO notes VALUES (1)")
        assert connection.execute("SHOW pgweir.causal_key").fetchone() == ("user:7",)
        connection.commit()
        assert connection.execute("SHOW pgweir.causal_key").fetchone() == ("user:7",)


# ---------------------------------------------------------------------------------------- two pools, chosen by the application

def test_two_lines_lead_to_the_primary_and_to_the_standbys(cluster, db):
    ports = {node.name: node.port for node in cluster.nodes}
    hosts = ",".join(f"{poolers.HOST}:{node.port}" for node in cluster.nodes)
    lines = "".join(f"{name} = host={order} dbname={db} target_session_attrs={attrs}\n" for name, attrs, order in (
        ("rw", "primary", ",".join(reversed(hosts.split(",")))), ("rw2", "read-write", hosts), ("ro", "standby", hosts), ("ro2", "read-only", hosts),
        ("rather", "prefer-standby", hosts), ("only", "prefer-standby", f"{poolers.HOST}:{ports['primary']}"),
        ("none", "standby", f"{poolers.HOST}:{ports['primary']}")))
    with poolers.running(poolers.ini_for(cluster, db, split=False, more_databases=lines, settings="pool_mode = transaction\nserver_login_retry = 0.2\n")) as weir:
        def node_of(name: str) -> str:
            with connected(weir.port, database=name) as client:
                port = client.query("SELECT current_setting('port')").rows[0][0]
                return next(name for name, known in ports.items() if str(known) == port)
        for name in ("rw", "rw2", "only"):
            assert node_of(name) == "primary"
        for name in ("ro", "ro2", "rather"):
            assert node_of(name).startswith("replica")
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connected(weir.port, database="ro")) for _ in range(6)]
            seen = set()
            for client in clients:
                assert not client.query("BEGIN").errors
                seen.add(client.query("SELECT current_setting('port')").rows[0][0])
            assert seen == {str(ports["replica1"]), str(ports["replica2"])}
            assert clients[0].query("INSERT INTO notes VALUES (1)").sqlstates == ["25006"]
        with pytest.raises(AssertionError, match="not in hot standby mode"):
            connected(weir.port, database="none")


def test_a_line_with_replicas_takes_no_target_session_attrs(cluster, db):
    with poolers.for_cluster(cluster, db) as weir:
        weir.write_ini(poolers.ini_for(cluster, db).replace("replica_host=", "target_session_attrs=standby replica_host="))
        with pytest.raises(Exception, match="RELOAD failed"):
            weir.console("RELOAD")
        assert "target_session_attrs: a line with replica_host chooses by itself" in weir.log()
