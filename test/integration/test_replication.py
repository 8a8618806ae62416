"""Replication connections: PostgreSQL's own tools through pgweir, and what happens to a stream when something breaks."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import threading
from contextlib import contextmanager
from typing import Iterator

import psycopg2
import psycopg2.extras
import pytest

from cluster import (DEADLINE_S, HOST, Cluster, clean_environment, free_port, make_folder, run_as, wait_for)
from pooler import Pooler, for_cluster, ini_for, query, running
from wire import TERMINATE, Closed, Wire, connected, message, send_cancel, simple

SETTINGS = "wal_level = logical\nmax_wal_senders = 30\nmax_replication_slots = 30\n"
# pg_basebackup and pg_receivewal without -d call the database "replication".
MORE = "replication = host={host} port={port} dbname=postgres\n"


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster of this file's own: it is configured for logical decoding."""
    made = Cluster.create(replicas=1, settings=SETTINGS)
    try:
        made.primary.execute("CREATE DATABASE r OWNER app")
        made.primary.execute("CREATE TABLE public.t (id int PRIMARY KEY, note text); GRANT ALL ON t TO app", "r")
        made.wait_caught_up()
        yield made
    finally:
        made.stop()


@contextmanager
def pooler_for(cluster: Cluster, **more: object) -> Iterator[Pooler]:
    with for_cluster(cluster, "r", more_databases=MORE.format(host=HOST, port=cluster.primary.port), **more) as started:
        yield started


@pytest.fixture(scope="module")
def pgweir(own: Cluster) -> Iterator[Pooler]:
    with pooler_for(own) as started:
        yield started


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    made = make_folder("pgweir-repl-")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def tool(cluster: Cluster, name: str) -> str:
    """One of PostgreSQL's client programs: beside the server, else Debian's."""
    for place in [cluster.binaries, *sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]:
        if (place / name).exists():
            break
    else:
        raise RuntimeError(f"no {name}")
    # These two refuse a server that is newer than they are, and the binaries from npm have none of their own.
    if name in ("pg_basebackup", "pg_receivewal"):
        said = subprocess.run([str(place / name), "--version"], capture_output=True, text=True, check=True).stdout
        own, server = int(re.search(r"\) (\d+)", said).group(1)), int(cluster.primary.value("SHOW server_version_num")) // 10000
        if own < server:
            pytest.skip(f"{name} of PostgreSQL {own} can't talk to a server of version {server}")
    return str(place / name)


def spawn(cluster: Cluster, name: str, *arguments: object, **more: object) -> subprocess.Popen:
    return subprocess.Popen([tool(cluster, name), *map(str, arguments)], cwd="/tmp", env=clean_environment(), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **run_as(), **more)


def run_tool(cluster: Cluster, name: str, *arguments: object) -> str:
    process = spawn(cluster, name, *arguments)
    try:
        text, _ = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{name} hangs: {process.communicate()[0]}") from None
    assert process.returncode == 0, f"{name} {arguments}: {text}"
    return text


def end(process: subprocess.Popen) -> str:
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=DEADLINE_S)
    return text


def replication_rows(pooler: Pooler, command: str) -> list[dict]:
    return [row for row in pooler.console(command) if row["replication"] != "none"]


def walsenders(cluster: Cluster) -> int:
    return cluster.primary.value("SELECT count(*) FROM pg_stat_replication WHERE application_name <> 'walreceiver'")


def wal(cluster: Cluster, megabytes: int) -> None:
    """Writes so much WAL on the primary."""
    for _ in range(megabytes):
        cluster.primary.execute("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1048576))", "r")


@contextmanager
def slot(cluster: Cluster, name: str, plugin: str = "test_decoding") -> Iterator[str]:
    cluster.primary.execute(f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}')", "r")
    yield name
    wait_for("the slot is free", lambda: not cluster.primary.value(
        f"SELECT active FROM pg_replication_slots WHERE slot_name = '{name}'"))
    cluster.primary.execute(f"SELECT pg_drop_replication_slot('{name}')", "r")


def start_physical(wire: Wire, cluster: Cluster, lsn: str | None = None) -> str:
    """Streams from where the WAL ends now; the position."""
    position = lsn or cluster.primary.value("SELECT pg_current_wal_flush_lsn()")
    wire.send(simple(f"START_REPLICATION {position}"))
    kind, body = wire.receive()
    assert kind == "W", (kind, body)
    return position


def status_update(lsn: int = 0, reply: bool = True) -> bytes:
    return message("d", b"r" + struct.pack("!QQQQB", lsn, lsn, lsn, 0, reply))


def lsn_number(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


# ---------------------------------------------------------------------------------------- PostgreSQL's tools

@pytest.mark.parametrize("method", ["stream", "fetch", "none"])
def test_a_base_backup_through_pgweir_is_complete(own: Cluster, pgweir: Pooler, folder: pathlib.Path, method: str) -> None:
    target = folder / "backup"
    run_tool(own, "pg_basebackup", "-h", HOST, "-p", pgweir.port, "-U", "postgres", "-D", target, "-X", method, "-c", "fast", "--no-sync")
    extra = ["-n"] if method == "none" else []          # The manifest speaks of WAL that was not asked for.
    assert "successfully verified" in run_tool(own, "pg_verifybackup", *extra, target)


def test_a_base_backup_through_pgweir_starts_as_a_standby_that_streams_through_it(
        own: Cluster, pgweir: Pooler, folder: pathlib.Path) -> None:
    target, port = folder / "backup", free_port()
    run_tool(own, "pg_basebackup", "-d", f"host={HOST} port={pgweir.port} user=postgres dbname=t application_name=through", "-D", target,
             "-R", "-c", "fast", "--no-sync")
    assert f"port={pgweir.port}" in (target / "postgresql.auto.conf").read_text()
    with (target / "postgresql.conf").open("a") as conf:
        conf.write(f"port = {port}\nunix_socket_directories = '{folder}'\ncluster_name = 'standby'\n")
    run_tool(own, "pg_ctl", "-D", target, "-w", "-l", folder / "log", "start")
    try:
        own.primary.execute("INSERT INTO t VALUES (1000, 'through pgweir')", "r")

        def arrived() -> bool:
            with psycopg2.connect(host=HOST, port=port, user="postgres", dbname="r") as standby:
                return query(standby, "SELECT note FROM t WHERE id = 1000") == [("through pgweir",)]
        wait_for("the standby replays what was written", arrived)
        assert own.primary.value("SELECT count(*) FROM pg_stat_replication WHERE application_name = 'through' AND state = 'streaming'") == 1
        rows = replication_rows(pgweir, "SHOW CLIENTS")
        assert [row["application_name"] for row in rows] == ["through"]
    finally:
        run_tool(own, "pg_ctl", "-D", target, "-m", "immediate", "stop")
        own.primary.execute("DELETE FROM t WHERE id = 1000", "r")


def test_received_wal_is_the_primarys(own: Cluster, pgweir: Pooler, folder: pathlib.Path) -> None:
    receiver = spawn(own, "pg_receivewal", "-h", HOST, "-p", pgweir.port, "-U", "postgres", "-D", folder, "--no-sync")
    try:
        wait_for("pg_receivewal streams", lambda: walsenders(own) == 1)
        wait_for("a segment begins", lambda: list(folder.glob("*.partial")))
        wal(own, 3)
        own.primary.execute("SELECT pg_switch_wal()")
        done = wait_for("whole segments come", lambda: [f for f in folder.iterdir() if re.fullmatch("[0-9A-F]{24}", f.name)])
        for segment in done:
            assert segment.read_bytes() == (own.primary.data / "pg_wal" / segment.name).read_bytes()
    finally:
        text = end(receiver)
    assert receiver.returncode == 0, text
    wait_for("its walsender ends", lambda: walsenders(own) == 0)
    wait_for("its server is gone", lambda: not replication_rows(pgweir, "SHOW SERVERS"))


def test_logical_changes_arrive(own: Cluster, pgweir: Pooler) -> None:
    d = ["-d", pgweir.dsn("t", "postgres")]
    run_tool(own, "pg_recvlogical", *d, "--slot", "recv", "--create-slot", "-P", "test_decoding")
    receiver = spawn(own, "pg_recvlogical", *d, "--slot", "recv", "--start", "-f", "-", "-s", "1", "--no-loop")
    try:
        wait_for("pg_recvlogical streams", lambda: walsenders(own) == 1)
        own.primary.execute("INSERT INTO t VALUES (2, 'seen by the decoder')", "r")
        text = ""
        while "COMMIT" not in text:
            text += receiver.stdout.readline()
        assert "table public.t: INSERT: id[integer]:2 note[text]:'seen by the decoder'" in text
    finally:
        end(receiver)
        own.primary.execute("DELETE FROM t WHERE id = 2", "r")
    wait_for("the slot is free", lambda: walsenders(own) == 0)
    run_tool(own, "pg_recvlogical", *d, "--slot", "recv", "--drop-slot")
    assert own.primary.value("SELECT count(*) FROM pg_replication_slots") == 0


def test_psql_speaks_to_the_walsender(own: Cluster, pgweir: Pooler) -> None:
    system = own.primary.value("SELECT system_identifier FROM pg_control_system()")
    for replication in ["database", "true", "on", "1", "YES"]:
        text = run_tool(own, "psql", pgweir.dsn("t", "postgres", replication=replication), "-XAtc", "IDENTIFY_SYSTEM")
        assert text.startswith(f"{system}|1|"), text
        assert text.strip().endswith("|r" if replication == "database" else "|"), text
    assert run_tool(own, "psql", pgweir.dsn("t", "postgres", replication="database"), "-XAtc", "SHOW wal_level").strip() == "logical"
    assert run_tool(own, "psql", pgweir.dsn("t", "postgres", replication="database"), "-XAtc", "SELECT 40 + 2").strip() == "42"
    # No replication connection at all: pooled as ever.
    assert run_tool(own, "psql", pgweir.dsn("t", "postgres", replication="off"), "-XAtc", "SELECT 40 + 2").strip() == "42"


def test_psycopg2_consumes_a_stream(own: Cluster, pgweir: Pooler) -> None:
    with slot(own, "psy"):
        connection = psycopg2.connect(pgweir.dsn("t", "postgres"), connection_factory=psycopg2.extras.LogicalReplicationConnection)
        cursor = connection.cursor()
        cursor.start_replication(slot_name="psy", decode=True, status_interval=1)
        own.primary.execute("INSERT INTO t SELECT i, 'x' FROM generate_series(100, 199) i; DELETE FROM t WHERE id BETWEEN 100 AND 199", "r")
        seen: list[str] = []

        def more() -> bool:
            while (got := cursor.read_message()) is not None:
                seen.append(got.payload)
                got.cursor.send_feedback(flush_lsn=got.data_start)
            return sum(1 for line in seen if " DELETE: " in line) == 100
        wait_for("all changes come", more)
        assert sum(1 for line in seen if " INSERT: " in line) == 100
        connection.close()


def test_a_subscription_through_pgweir(own: Cluster, pgweir: Pooler) -> None:
    """Table synchronisation (a snapshot, COPY) and the stream behind it, from one database of the cluster to another."""
    primary = own.primary
    primary.execute("CREATE TABLE copied (id int PRIMARY KEY); INSERT INTO copied SELECT generate_series(1, 5000);", "r")
    primary.execute("CREATE PUBLICATION p FOR TABLE copied", "r")
    primary.execute("CREATE DATABASE sub")
    primary.execute("CREATE TABLE copied (id int PRIMARY KEY)", "sub")
    try:
        primary.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')", "r")
        primary.execute(f"CREATE SUBSCRIPTION s CONNECTION '{pgweir.dsn('t', 'postgres').replace(chr(39), '')}' PUBLICATION p "
                        "WITH (create_slot = false)", "sub")
        wait_for("the table is copied", lambda: primary.value("SELECT count(*) FROM copied", "sub") == 5000)
        primary.execute("INSERT INTO copied VALUES (9999)", "r")
        wait_for("a change comes", lambda: primary.value("SELECT count(*) FROM copied WHERE id = 9999", "sub") == 1)
        assert any(row["replication"] == "logical" for row in replication_rows(pgweir, "SHOW CLIENTS"))
    finally:
        primary.execute("DROP SUBSCRIPTION s", "sub")
        primary.execute("DROP DATABASE sub WITH (FORCE)")
        primary.execute("DROP PUBLICATION p; DROP TABLE copied", "r")


# ---------------------------------------------------------------------------------------- where it goes, and how it is seen

def test_it_is_seen_for_what_it_is(own: Cluster, pgweir: Pooler) -> None:
    before = pgweir.routing()
    positions = own.log_positions()
    with connected(pgweir.port, "postgres", replication="database", application_name="watched", options="-c geqo=off") as logical, \
            connected(pgweir.port, "postgres", "replication", replication="true") as physical:
        assert logical.parameters["server_version"] and logical.parameters["application_name"] == "watched"
        assert logical.query("SHOW geqo").rows == [("off",)]
        assert physical.query("IDENTIFY_SYSTEM").rows[0][1] == "1"
        assert own.primary.value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND application_name = 'watched'") == 1
        clients = replication_rows(pgweir, "SHOW CLIENTS")
        assert sorted((row["replication"], row["database"], row["state"]) for row in clients) == \
            [("logical", "t", "active"), ("physical", "replication", "active")]
        servers = replication_rows(pgweir, "SHOW SERVERS")
        assert sorted((row["replication"], row["state"], row["port"]) for row in servers) == \
            [("logical", "active", own.primary.port), ("physical", "active", own.primary.port)]
        assert {row["link"] for row in clients} == {row["ptr"] for row in servers}
    assert pgweir.routing()[("primary", "replication")] == before.get(("primary", "replication"), 0) + 1
    assert "login attempt: db=t user=postgres tls=no replication=logical" in pgweir.log()
    assert "login attempt: db=replication user=postgres tls=no replication=physical" in pgweir.log()
    assert all("IDENTIFY_SYSTEM" not in node.log_since(positions[node.name]) for node in own.replicas)


def test_each_client_has_a_server_of_its_own_which_ends_with_it(own: Cluster, pgweir: Pooler) -> None:
    def backend(wire: Wire) -> str:
        return wire.query("SELECT pg_backend_pid()").rows[0][0]
    with connected(pgweir.port, "postgres", replication="database") as first:
        with connected(pgweir.port, "postgres", replication="database") as second:
            one, two = backend(first), backend(second)
            assert one != two
            second.query("SET geqo = off")
            assert first.query("SHOW geqo").rows == [("on",)]
            second.send(TERMINATE)
        wait_for("the second's backend ends", lambda: own.primary.value(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {two}") == 0)
        assert backend(first) == one
        pooled = pgweir.value("SELECT pg_backend_pid() /* pgweir: primary */", user="postgres")
        assert str(pooled) not in (one, two)
    wait_for("the first's backend ends", lambda: own.primary.value(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {one}") == 0)


def test_what_is_written_over_it_is_seen_by_reads_on_replicas(own: Cluster, pgweir: Pooler) -> None:
    """A logical connection takes SQL, too. Readers of a lagging replica must not miss it."""
    replica = own.replicas[0]
    own.primary.execute("INSERT INTO t VALUES (7, 'old')", "r")
    own.wait_caught_up()
    replica.pause_replay()
    try:
        with connected(pgweir.port, "postgres", replication="database") as writer, pgweir.connect() as reader:
            for round_ in range(3):
                assert query(reader, "SELECT note FROM t WHERE id = 7")
                assert writer.query(f"UPDATE t SET note = 'round {round_}' WHERE id = 7").tags == ["UPDATE 1"]
                assert query(reader, "SELECT note FROM t WHERE id = 7") == [(f"round {round_}",)]
            # In parts, so that its text is not there to be read.
            whole = simple("UPDATE t SET note = 'in parts' WHERE id = 7")
            writer.send(whole[:9])
            writer.send(whole[9:])
            assert writer.until("Z").tags == ["UPDATE 1"]
            assert query(reader, "SELECT note FROM t WHERE id = 7") == [("in parts",)]
            assert writer.extended("SELECT 1").sqlstates == ["08P01"]       # PostgreSQL's own word.
    finally:
        replica.resume_replay()
        own.primary.execute("DELETE FROM t WHERE id = 7", "r")


def test_what_the_node_refuses_is_the_clients_answer_and_no_ban(own: Cluster, pgweir: Pooler) -> None:
    with Wire(pgweir.port) as wire:
        error = wire.login("app", replication="true").errors[0]
    assert error["C"] == "42501" and ("replication" in error["M"].lower() or "WAL sender" in error["M"])  # as of PostgreSQL 16
    assert pgweir.value("SELECT 1") == 1                # The pool of that user goes on.
    with Wire(pgweir.port) as wire:
        error = wire.login("postgres", replication="perhaps").errors[0]
    assert (error["C"], error["M"]) == ("22023", 'invalid value for parameter "replication": "perhaps"')
    with Wire(pgweir.port) as wire:
        assert wire.login("postgres", "nowhere", replication="true").errors[0]["M"] == "no such database: nowhere"
    with Wire(pgweir.port) as wire:
        assert wire.login("admin", "pgbouncer", replication="true").sqlstates == ["0A000"]
    with connected(pgweir.port, "postgres", replication="true") as wire:
        assert wire.query("SELECT 1").sqlstates          # PostgreSQL's own word: no SQL there.
        assert wire.query("IDENTIFY_SYSTEM").rows


# ---------------------------------------------------------------------------------------- streams

def test_both_directions_stream_and_keepalives_pass(own: Cluster, pgweir: Pooler) -> None:
    with connected(pgweir.port, "postgres", replication="true") as wire:
        start_physical(wire, own)
        wire.send(status_update(reply=True))            # Asks for a keepalive.
        while True:
            kind, body = wire.receive()
            assert kind == "d"
            if body[:1] == b"k":
                break
        wal(own, 1)
        got = 0
        while got < 1_000_000:
            kind, body = wire.receive()
            assert kind == "d"
            got += len(body) if body[:1] == b"w" else 0
        wire.send(message("c"))
        answer = wire.until("Z")
        assert "c" in answer.kinds and "START_REPLICATION" in answer.tags and not answer.errors, answer
        assert wire.query("IDENTIFY_SYSTEM").rows        # The connection goes on.


def test_a_slow_receiver_stops_the_walsender_and_not_the_memory(own: Cluster, pgweir: Pooler) -> None:
    def resident_kb() -> int:
        status = pathlib.Path(f"/proc/{pgweir.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))
    megabytes = 60
    wire = connected(pgweir.port, "postgres", replication="true")
    try:
        position = start_physical(wire, own)
        before = resident_kb()
        wal(own, megabytes)
        sent = -1

        def stands_still() -> bool:
            nonlocal sent
            last, sent = sent, own.primary.value(
                "SELECT pg_wal_lsn_diff(sent_lsn, '0/0')::bigint FROM pg_stat_replication WHERE application_name <> 'walreceiver'")
            return sent == last
        wait_for("the walsender waits", stands_still, beat_s=0.5)
        assert sent - lsn_number(position) < 30 << 20, "nobody held the walsender back"
        assert resident_kb() - before < 8 << 10
        assert pgweir.value("SELECT 1") == 1            # Others are not held up.
        got = 0
        while got < megabytes << 20:                    # And nothing is lost.
            kind, body = wire.receive()
            assert kind == "d"
            got += len(body) - 25 if body[:1] == b"w" else 0
        assert resident_kb() - before < 8 << 10
    finally:
        wire.close()


def test_a_slow_server_stops_the_client_and_not_the_memory(own: Cluster, pgweir: Pooler) -> None:
    """COPY to a server that takes nothing: the client is not read on for ever."""
    own.primary.execute("CREATE TABLE IF NOT EXISTS lines (line text)", "r")

    def resident_kb() -> int:
        status = pathlib.Path(f"/proc/{pgweir.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))
    line = message("d", b"y" * 99_999 + b"\n")
    with connected(pgweir.port, "postgres", replication="database") as wire:
        wire.send(simple("COPY lines FROM STDIN"))
        assert wire.receive()[0] == "G"
        pid = own.primary.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender' AND query LIKE 'COPY lines%'")
        before = resident_kb()
        subprocess.run(["kill", "-STOP", str(pid)], check=True)
        sent = 0
        try:
            wire.socket.settimeout(2)
            with pytest.raises(TimeoutError):
                for _ in range(1000):
                    wire.socket.sendall(line)
                    sent += 1
        finally:
            subprocess.run(["kill", "-CONT", str(pid)], check=True)
        assert sent < 500
        assert resident_kb() - before < 8 << 10
    own.primary.execute("DROP TABLE lines", "r")


def test_many_streams_at_once(own: Cluster) -> None:
    count = 20
    with pooler_for(own, settings="default_pool_size = 25\n") as pooler:
        wires = [connected(pooler.port, "postgres", replication="true") for _ in range(count)]
        try:
            for wire in wires:
                start_physical(wire, own)
            assert len(replication_rows(pooler, "SHOW SERVERS")) == count
            wal(own, 2)
            totals = [0] * count

            def drain(i: int) -> None:
                while totals[i] < 2 << 20:
                    kind, body = wires[i].receive()
                    assert kind == "d"
                    totals[i] += len(body) - 25 if body[:1] == b"w" else 0
            threads = [threading.Thread(target=drain, args=(i,)) for i in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE_S)
            assert min(totals) >= 2 << 20
        finally:
            for wire in wires:
                wire.close()
        wait_for("all servers are gone", lambda: not replication_rows(pooler, "SHOW SERVERS"))
        wait_for("all walsenders are gone", lambda: walsenders(own) == 0)


def test_a_cancel_request_reaches_the_walsender(own: Cluster, pgweir: Pooler) -> None:
    with connected(pgweir.port, "postgres", replication="database") as wire:
        wire.send(simple("SELECT pg_sleep(600)"))
        wait_for("it sleeps", lambda: own.primary.value(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event = 'PgSleep'") == 1)
        send_cancel(pgweir.port, wire.key)
        assert wire.until("Z").sqlstates == ["57014"]
        start_physical(wire, own)
        send_cancel(pgweir.port, wire.key)
        answer = wire.until("Z")
        assert answer.sqlstates == ["57014"], answer
        assert wire.query("IDENTIFY_SYSTEM").rows


def test_kill_client_ends_a_stream_with_a_word(own: Cluster, pgweir: Pooler) -> None:
    with connected(pgweir.port, "postgres", replication="true") as wire:
        start_physical(wire, own)
        row = replication_rows(pgweir, "SHOW CLIENTS")[0]
        pgweir.console(f"KILL_CLIENT {row['id']}")
        assert [error["M"] for error in wire.until_closed().errors] == ["admin forced disconnect"]
    wait_for("its walsender ends", lambda: walsenders(own) == 0)


def test_reload_and_reconnect_leave_a_stream_alone(own: Cluster) -> None:
    with pooler_for(own) as pooler, connected(pooler.port, "postgres", replication="true") as wire:
        start_physical(wire, own)
        ini = ini_for(own, "r", "application_name=changed", "default_pool_size = 3\n",
                      more_databases=MORE.format(host=HOST, port=own.primary.port))
        pooler.write_ini(ini)
        pooler.console("RELOAD")
        pooler.console("RECONNECT")
        wal(own, 1)
        got = 0
        while got < 1_000_000:
            kind, body = wire.receive()
            assert kind == "d"
            got += len(body) if body[:1] == b"w" else 0


def test_timeouts_of_queries_do_not_cut_a_stream(own: Cluster) -> None:
    settings = "query_timeout = 1\nidle_transaction_timeout = 1\ntransaction_timeout = 1\nclient_idle_timeout = 1\nserver_idle_timeout = 1\n" \
               "server_lifetime = 1\n"
    with pooler_for(own, settings=settings, split=False) as pooler, connected(pooler.port, "postgres", replication="true") as wire:
        start_physical(wire, own)
        # Somebody else is cut by the same setting, twice: then the stream has lived through more than its time.
        for _ in range(2):
            with connected(pooler.port, "app") as other:
                other.send(simple("SELECT pg_sleep(600)"))
                assert other.until_closed().errors[-1]["M"] == "query timeout"
        wire.send(status_update())
        assert wire.receive()[0] == "d"


# ---------------------------------------------------------------------------------------- limits

def test_it_counts_against_the_limits_and_an_idle_server_makes_room(own: Cluster) -> None:
    with pooler_for(own, settings="default_pool_size = 2\nquery_wait_timeout = 1\n", split=False) as pooler:
        with pooler.connect(user="postgres") as one, pooler.connect(user="postgres") as two:
            one.autocommit = two.autocommit = False
            query(one, "SELECT 1"), query(two, "SELECT 1")
            one.rollback(), two.rollback()
            assert len([row for row in pooler.console("SHOW SERVERS") if row["state"] == "idle"]) == 2
            with connected(pooler.port, "postgres", replication="database") as first, \
                    connected(pooler.port, "postgres", replication="database") as second:
                assert pooler.log().count("evicted") == 2
                with Wire(pooler.port) as third:
                    assert third.login("postgres", replication="database").errors[0]["M"] == "query_wait_timeout"
                assert first.query("IDENTIFY_SYSTEM").rows and second.query("IDENTIFY_SYSTEM").rows
            # Both have gone: whoever pools gets servers again.
            assert query(one, "SELECT 2") == [(2,)]


def test_it_takes_its_turn_when_servers_are_busy(own: Cluster) -> None:
    """A pool of one, always in use: a client that waits for a server of its own gets the next one's place."""
    with pooler_for(own, settings="default_pool_size = 1\n", split=False) as pooler:
        stop = threading.Event()

        def busy() -> None:
            with pooler.connect(user="postgres") as connection:
                while not stop.is_set():
                    query(connection, "SELECT pg_sleep(0.01)")
        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            wait_for("the pool is busy", lambda: any(row["state"] == "waiting" for row in pooler.console("SHOW CLIENTS")))
            with connected(pooler.port, "postgres", replication="database") as wire:
                assert wire.query("IDENTIFY_SYSTEM").rows
        finally:
            stop.set()
        for thread in threads:
            thread.join(DEADLINE_S)


def test_pause_waits_for_a_stream_and_newcomers_wait_for_resume(own: Cluster) -> None:
    with pooler_for(own, split=False) as pooler:
        wire = connected(pooler.port, "postgres", replication="true")
        start_physical(wire, own)
        with connected(pooler.port, "admin", "pgbouncer") as console, Wire(pooler.port) as late:
            console.send(simple("PAUSE t"))
            wait_for("t is paused", lambda: [r["paused"] for r in pooler.console("SHOW DATABASES") if r["name"] == "t"] == [1])
            late_login: list = []
            thread = threading.Thread(target=lambda: late_login.append(late.login("postgres", replication="true")))
            thread.start()
            wait_for("it waits", lambda: any(r["state"] == "login" for r in replication_rows(pooler, "SHOW CLIENTS")))
            assert console.quiet_for(0.05)
            wire.close()
            assert console.until("Z").tags == ["PAUSE"]
            assert not late_login
            assert console.query("RESUME t").tags == ["RESUME"]
            thread.join(DEADLINE_S)
            assert late_login and late_login[0].kinds[-1] == "Z"


# ---------------------------------------------------------------------------------------- when things break

def test_a_walsender_that_is_killed_ends_its_clients_connection(own: Cluster, pgweir: Pooler) -> None:
    with connected(pgweir.port, "postgres", replication="true") as wire, connected(pgweir.port, "postgres", replication="true") as other:
        start_physical(wire, own)
        start_physical(other, own)
        pid = own.primary.value("SELECT max(pid) FROM pg_stat_replication WHERE application_name <> 'walreceiver'")
        own.primary.execute(f"SELECT pg_terminate_backend({pid})")
        left = wait_for("one is gone", lambda: [r for r in [replication_rows(pgweir, "SHOW CLIENTS")] if len(r) == 1])[0][0]
        survivor, killed = (wire, other) if left["port"] == wire.socket.getsockname()[1] else (other, wire)
        assert [error["M"] for error in killed.until_closed().errors] == \
            ["terminating connection due to administrator command", "server conn crashed?"]
        survivor.send(status_update())
        assert survivor.receive()[0] == "d"


def test_a_client_that_vanishes_takes_its_walsender_along(own: Cluster, pgweir: Pooler) -> None:
    wire = connected(pgweir.port, "postgres", replication="true")
    start_physical(wire, own)
    wire.reset()
    wait_for("its walsender ends", lambda: walsenders(own) == 0)
    wait_for("its server is gone", lambda: not replication_rows(pgweir, "SHOW SERVERS"))


def test_a_node_that_is_down_is_said_at_once(own: Cluster) -> None:
    nobody = free_port()
    ini = ini_for(own, "r", split=False).replace(f"port={own.primary.port}", f"port={nobody}", 1)
    with running(ini) as pooler, Wire(pooler.port) as wire:
        error = wire.login("postgres", replication="true").errors[0]
        assert error["C"] == "08001" and "server login failed" in error["M"]


def test_promotion_ends_streams_from_the_old_primary_and_new_ones_come_from_the_new() -> None:
    cluster = Cluster.create(replicas=1, settings=SETTINGS)
    try:
        old, new = cluster.primary, cluster.replicas[0]
        with for_cluster(cluster, "postgres") as pooler:
            with connected(pooler.port, "postgres", replication="true") as wire:
                start_physical(wire, cluster)
                old.ctl("-m", "immediate", "stop")
                answer = wire.until_closed()
                assert [error["M"] for error in answer.errors][-1:] == ["server conn crashed?"], answer
            # There is no primary now: who comes waits for the next one.
            with Wire(pooler.port) as again:
                logged_in: list = []
                thread = threading.Thread(target=lambda: logged_in.append(again.login("postgres", replication="true").kinds[-1]))
                thread.start()
                wait_for("it waits", lambda: len(replication_rows(pooler, "SHOW CLIENTS")) == 1)
                wait_for("the old one counts as down", lambda: any(row["role"] == "down" for row in pooler.console("SHOW NODES")))
                new.promote()
                thread.join(20)
                assert logged_in == ["Z"]
                assert again.query("IDENTIFY_SYSTEM").rows[0][1] == "2"
    finally:
        cluster.stop()


def test_nobody_goes_on_streaming_from_a_primary_that_was_succeeded() -> None:
    """The old primary hangs for everybody but this stream: another one is promoted, and the stream is of a history that ends here."""
    cluster = Cluster.create(replicas=1, settings=SETTINGS)
    stopped: list[int] = []
    try:
        old, new = cluster.primary, cluster.replicas[0]
        with for_cluster(cluster, "postgres") as pooler, connected(pooler.port, "postgres", replication="true") as wire:
            start_physical(wire, cluster)
            backends = old.rows("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
            stopped = [int((old.data / "postmaster.pid").read_text().split()[0]), *(pid for pid, in backends)]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            wait_for("the old one counts as down", lambda: any(row["role"] == "down" for row in pooler.console("SHOW NODES")))
            new.promote()
            errors = wire.until_closed().errors
            assert [(error["C"], error["M"]) for error in errors] == [("57P01", "the primary has changed")]
    finally:
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        cluster.stop()


def test_a_primary_that_is_shut_down_ends_its_stream_in_order() -> None:
    """The walsender completes its command and leaves: nothing of ours comes behind it."""
    cluster = Cluster.create(replicas=0, settings=SETTINGS)
    try:
        with for_cluster(cluster, "postgres", split=False) as pooler, connected(pooler.port, "postgres", replication="true") as wire:
            position = start_physical(wire, cluster)
            stopping = threading.Thread(target=cluster.primary.stop)
            stopping.start()
            seen, messages = lsn_number(position), []
            try:
                while True:                                 # It waits until its client has confirmed everything.
                    kind, body = wire.receive()
                    messages.append(kind)
                    if kind == "d" and body[:1] == b"w":
                        seen = max(seen, struct.unpack_from("!Q", body, 1)[0] + len(body) - 25)
                    elif kind == "d":
                        seen = max(seen, struct.unpack_from("!Q", body, 1)[0])
                    if kind == "d":
                        wire.send(status_update(seen, reply=False))
            except (Closed, ConnectionError):
                pass
            stopping.join(DEADLINE_S)
            assert "C" in messages and "E" not in messages, messages
    finally:
        cluster.stop()
