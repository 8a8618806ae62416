"""Whoever was told that a commit is done sees it, and so does everybody else: on any connection, whichever node answers.

PGWEIR_TEST_PAIRS is how many write-then-read pairs are made altogether (2,000 unless said; 20,000 by hand).
"""
from __future__ import annotations

import os
import random
import threading
import time
from contextlib import contextmanager

import pytest

import pooler as poolers
import wire
from cluster import wait_for
from wire import SYNC, Wire, connected, message, parse, bind, execute, run, simple

PAIRS = int(os.environ.get("PGWEIR_TEST_PAIRS", "2000"))
WORKERS = 6
TABLES = 4
SCHEMA = "\n".join(f"""
CREATE TABLE kv{n} (k int PRIMARY KEY, v int);
INSERT INTO kv{n} SELECT i, 0 FROM generate_series(0, {WORKERS - 1}) AS i;
GRANT ALL ON kv{n} TO PUBLIC;""" for n in range(TABLES)) + """
CREATE TABLE filler (t text);
GRANT ALL ON filler TO PUBLIC;
CREATE PROCEDURE put(key int, value int) LANGUAGE plpgsql AS
  $$ BEGIN UPDATE kv0 SET v = value WHERE k = key; COMMIT; END $$;
CREATE FUNCTION put_quietly(key int, value int) RETURNS int LANGUAGE plpgsql VOLATILE AS
  $$ BEGIN UPDATE kv0 SET v = value WHERE k = key; RETURN 1; END $$;
"""


@pytest.fixture(scope="module")
def roles(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.primary.execute("DROP ROLE IF EXISTS app_async; CREATE ROLE app_async LOGIN; ALTER ROLE app_async SET synchronous_commit = off")
    cluster.wait_caught_up()
    yield
    cluster.primary.execute("DROP ROLE app_async")


@pytest.fixture(scope="module")
def weir(cluster, db, roles):
    userlist = poolers.USERLIST + '"app_async" ""\n'
    with poolers.for_cluster(cluster, db, "pool_size=8", "max_client_conn = 300", userlist=userlist) as pooler:
        yield pooler


# ---------------------------------------------------------------------------------------- ways to write

def by_simple_query(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"UPDATE kv{table} SET v = {value} WHERE k = {key}"))


def by_extended_query(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.extended(f"UPDATE kv{table} SET v = $1::int WHERE k = {key}", str(value)))


def by_insert_returning(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"INSERT INTO kv{table} VALUES ({key}, {value}) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING v"))


def by_one_message_of_several(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"SELECT 1; UPDATE kv{table} SET v = {value} WHERE k = {key}; SELECT 2"))


def by_transaction(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query("BEGIN"))
    checked(client.query(f"SELECT v FROM kv{table} WHERE k = {key}"))
    checked(client.query(f"UPDATE kv{table} SET v = {value} WHERE k = {key}"))
    checked(client.query("COMMIT"))


def by_transaction_in_one_message(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"BEGIN; UPDATE kv{table} SET v = {value} WHERE k = {key}; COMMIT"))


def by_pipelined_transaction(client: Wire, table: int, key: int, value: int) -> None:
    client.send(simple("BEGIN"), simple(f"UPDATE kv{table} SET v = {value} WHERE k = {key}"), simple("COMMIT"))
    checked(client.until("Z", 3))


def by_batch_before_one_sync(client: Wire, table: int, key: int, value: int) -> None:
    client.send(run("SELECT 1"), run(f"UPDATE kv{table} SET v = $1::int WHERE k = {key}", str(value)), run("SELECT 2"), SYNC)
    checked(client.until("Z"))


def by_copy(client: Wire, table: int, key: int, value: int) -> None:
    client.send(simple(f"BEGIN; DELETE FROM kv{table} WHERE k = {key}"))
    checked(client.until("Z"))
    client.send(simple(f"COPY kv{table} FROM STDIN"))
    client.until("G")
    client.send(message("d", f"{key}\t{value}\n".encode()), message("c"))
    checked(client.until("Z"))
    checked(client.query("COMMIT"))


def by_copy_alone(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"DELETE FROM kv{table} WHERE k = {key}"))
    client.send(parse(f"COPY kv{table} FROM STDIN"), bind(), execute(), SYNC)
    client.until("G")
    client.send(message("d", f"{key}\t{value}\n".encode()), message("c"), SYNC)
    checked(client.until("Z"))


def by_do_block(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"DO $$ BEGIN UPDATE kv{table} SET v = {value} WHERE k = {key}; END $$"))


def by_procedure(client: Wire, table: int, key: int, value: int) -> None:
    if table:
        return by_do_block(client, table, key, value)
    checked(client.query(f"CALL put({key}, {value})"))


def by_function(client: Wire, table: int, key: int, value: int) -> None:
    if table:
        return by_simple_query(client, table, key, value)
    checked(client.query(f"SELECT put_quietly({key}, {value})"))


def by_cte(client: Wire, table: int, key: int, value: int) -> None:
    checked(client.query(f"WITH w AS (UPDATE kv{table} SET v = {value} WHERE k = {key} RETURNING v) SELECT v FROM w"))


def pitfall_4_a_commit_that_ends_in_an_error(client: Wire, table: int, key: int, value: int) -> None:
    assert client.query(f"BEGIN; UPDATE kv{table} SET v = {value} WHERE k = {key}; COMMIT; SELECT 1/0").sqlstates == ["22012"]


def pitfall_4_a_block_that_commits_and_fails(client: Wire, table: int, key: int, value: int) -> None:
    answer = client.query(f"DO $$ BEGIN UPDATE kv{table} SET v = {value} WHERE k = {key}; COMMIT; PERFORM 1/0; END $$")
    assert answer.sqlstates == ["22012"]


WAYS = [by_simple_query, by_extended_query, by_insert_returning, by_one_message_of_several, by_transaction,
        by_transaction_in_one_message, by_pipelined_transaction, by_batch_before_one_sync, by_copy, by_copy_alone, by_do_block,
        by_procedure, by_function, by_cte, pitfall_4_a_commit_that_ends_in_an_error, pitfall_4_a_block_that_commits_and_fails]


def checked(answer: wire.Answer) -> wire.Answer:
    assert not answer.errors, answer.errors
    return answer


# ---------------------------------------------------------------------------------------- the pairs

class Worker(threading.Thread):
    """Writes its own key and reads it again, on the connection that wrote or on another one."""

    def __init__(self, pooler, number: int, pairs: int, user: str, pause_s: float, who: str) -> None:
        super().__init__(daemon=True)
        self.pooler, self.number, self.pairs, self.user, self.pause_s, self.who = pooler, number, pairs, user, pause_s, who
        self.stale: list[str] = []
        self.done = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with connected(self.pooler.port, user=self.user) as writer, connected(self.pooler.port) as other, \
                    connected(self.pooler.port) as third:
                clients = [writer, other, third]
                if self.who == "key":
                    for client in clients:
                        checked(client.query(f"SET pgweir.causal_key = 'worker {self.number}'"))
                self.make_pairs(writer, clients[:1] if self.who == "session" else clients)
        except BaseException as error:      # noqa: BLE001 - told by the test
            self.error = error

    def make_pairs(self, writer: Wire, readers: list[Wire]) -> None:
        chance = random.Random(self.number)
        for value in range(1, self.pairs + 1):
            way = chance.choice(WAYS)
            table = chance.randrange(TABLES)
            reader = chance.choice(readers)
            read = f"SELECT v FROM kv{table} WHERE k = {self.number}"
            if reader is writer and chance.random() < 0.3:      # sent behind the write without waiting for its answer
                if chance.random() < 0.5:
                    writer.send(simple(f"UPDATE kv{table} SET v = {value} WHERE k = {self.number}"), simple(read))
                else:
                    writer.send(run(f"UPDATE kv{table} SET v = {value} WHERE k = {self.number}"), SYNC, run(read), SYNC)
                answer, told = checked(writer.until("Z", 2)), "pipelined"
            else:
                way(writer, table, self.number, value)
                if self.pause_s and chance.random() < 0.5:
                    time.sleep(chance.random() * self.pause_s)
                told = way.__name__ + (" and the same client" if reader is writer else " and another client")
                answer = checked(reader.query(read) if chance.random() < 0.5 else reader.extended(read))
            self.done += 1
            if answer.rows[-1] != (str(value),):
                self.stale.append(f"{told}: wrote {value} to kv{table}, read {answer.rows}")


def make_pairs(pooler, pairs: int, user: str, pause_s: float = 0.0, who: str = "anybody") -> None:
    """`who` reads: the session that wrote, those of its causal key, or anybody."""
    workers = [Worker(pooler, number, pairs // WORKERS + 1, user, pause_s, who) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(90 + pairs / 50)
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    assert not any(worker.is_alive() for worker in workers), "a standstill"
    stale = [line for worker in workers for line in worker.stale]
    assert not stale, f"{len(stale)} stale reads of {sum(worker.done for worker in workers)}:\n" + "\n".join(stale[:10])
    assert sum(worker.done for worker in workers) >= pairs


@contextmanager
def troubled(cluster):
    """replica1 applies late, replica2 stops and goes on all the time."""
    late, halting = cluster.replicas
    late.set_apply_delay(150)
    over = threading.Event()

    def halt() -> None:
        chance = random.Random(1)
        with halting.connect() as connection, connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute("SELECT pg_wal_replay_pause()")
                over.wait(chance.random() * 0.08)
                cursor.execute("SELECT pg_wal_replay_resume()")
                over.wait(chance.random() * 0.03)
    thread = threading.Thread(target=halt, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
        late.set_apply_delay(0)
        halting.resume_replay()
        cluster.wait_caught_up()


@pytest.mark.parametrize("user", ["app", "app_async"], ids=["synchronous_commit_on", "synchronous_commit_off"])
def test_no_read_is_stale_while_replicas_lag(cluster, weir, user):
    with troubled(cluster):
        make_pairs(weir, PAIRS * 3 // 10, user)


@pytest.mark.parametrize("user", ["app", "app_async"], ids=["synchronous_commit_on", "synchronous_commit_off"])
def test_no_read_is_stale_while_replicas_keep_up(cluster, weir, user):
    """Here replicas do answer soon after a write: the race that a wrong token would lose. (An asynchronous commit reaches them
    only when the primary flushes it, up to 0.2 s later.)"""
    before = by_replicas(weir)
    make_pairs(weir, PAIRS * 2 // 10, user, pause_s=0.02)
    assert by_replicas(weir) > before or user == "app_async", weir.routing()


def by_replicas(weir) -> int:
    return sum(count for (target, _), count in weir.routing().items() if target.startswith("replica"))


# Options of the database's line, who reads what somebody wrote, and whether replicas answer while all tables are written all the time.
PROMISES = {
    "table": ("read_consistency=table", "anybody", True),
    "table, inline": ("read_consistency=table lsn_check=inline", "anybody", True),
    "latest": ("read_consistency=latest", "anybody", True),
    "session": ("read_consistency=session", "session", True),
    "session, by key": ("read_consistency=session", "key", True),
    "pin": ("read_consistency=pin pin_window=10", "session", False),
    "pin, by key": ("read_consistency=pin pin_window=10", "key", False),
    "window": ("read_consistency=window table_window=10", "anybody", False),
    "primary": ("read_consistency=primary", "anybody", False),
}


@pytest.mark.parametrize("level", list(PROMISES))
def test_no_read_is_stale_at_a_level_that_promises_it(cluster, db, roles, level):
    """Half of the pairs under trouble. Windows are longer than that makes the replicas lag."""
    options, who, replicas_answer = PROMISES[level]
    userlist = poolers.USERLIST + '"app_async" ""\n'
    with poolers.for_cluster(cluster, db, f"pool_size=8 {options}", "max_client_conn = 300", userlist=userlist, wait=level != "primary") as pooler:
        with troubled(cluster):
            make_pairs(pooler, PAIRS // 20, "app_async", who=who)
        before = by_replicas(pooler)
        make_pairs(pooler, PAIRS // 20, "app", pause_s=0.02, who=who)
        assert not replicas_answer or by_replicas(pooler) > before, pooler.routing()


def test_level_session_serves_the_own_writes(cluster, db, weir):
    """At level session another client may be behind, the writer never."""
    with poolers.for_cluster(cluster, db, "read_consistency=session") as pooler, troubled(cluster):
        with connected(pooler.port) as client:
            for value in range(1, 101):
                WAYS[value % len(WAYS)](client, value % TABLES, 0, 1_000_000 + value)
                assert client.query(f"SELECT v FROM kv{value % TABLES} WHERE k = 0").rows == [(str(1_000_000 + value),)]


@pytest.mark.parametrize("level", ["table", "session"])
def test_pitfall_6_reads_never_go_backwards(cluster, db, weir, level):
    """One reader, many statements, a counter that only grows: on whichever node it reads, never less than before.

    At level session also while the writer bypasses pgweir, so that no table is ever marked. One exception is PostgreSQL's: it sends a
    commit's WAL to its standbys a moment before the commit is visible on the primary itself. So what a replica has shown may be missing on
    the primary, as long as it has not been acknowledged to anybody when the primary is asked.
    """
    over = threading.Event()
    acknowledged = 0
    with poolers.for_cluster(cluster, db, f"read_consistency={level}") as pooler:
        def count_up() -> None:
            nonlocal acknowledged
            place = cluster.primary.connect(db) if level == "session" else pooler.connect()
            with place as connection, connection.cursor() as cursor:
                value = {"table": 10_000_000, "session": 20_000_000}[level]
                while not over.is_set():
                    value += 1
                    cursor.execute(f"UPDATE kv3 SET v = {value} WHERE k = 5")
                    acknowledged = value
                    over.wait(0.002)
        thread = threading.Thread(target=count_up, daemon=True)
        with troubled(cluster):
            thread.start()
            try:
                with connected(pooler.port) as reader:
                    last = 0
                    for step in range(300):
                        sql = "SELECT v FROM kv3 WHERE k = 5"
                        owed = acknowledged
                        answer = reader.query(sql if step % 7 else "/* pgweir: primary */ " + sql)
                        value = int(checked(answer).rows[0][0])
                        if value < last:
                            told = f"read {value} after {last} in step {step}, {owed} was acknowledged"
                            assert reader.query("SHOW pgweir.last_route").rows[0][0].startswith("primary"), told
                            assert owed <= value and last == value + 1, told      # It is the one commit that is under way.
                        last = max(last, value)
            finally:
                over.set()
                thread.join(30)


def test_pitfall_7_what_one_replica_has_shown_no_other_replica_takes_back(cluster, db, weir):
    """Under synchronous replication a commit is visible on a standby while the primary still waits: it shows it later, which is allowed
    as long as nobody has the acknowledgement. Another replica that lacks it must not answer."""
    ahead, behind = cluster.replicas
    cluster.primary.set("synchronous_standby_names", "ANY 2 (walreceiver)")
    try:
        behind.pause_replay()
        with connected(weir.port) as reader, connected(weir.port) as writer, connected(weir.port) as other:
            assert not writer.query("SET synchronous_commit = remote_apply").errors
            writer.send(simple("UPDATE kv2 SET v = 31000000 WHERE k = 1"))
            wait_for("it is visible on the replica that goes on", lambda: ahead.rows("SELECT v FROM kv2 WHERE k = 1", db) == [(31_000_000,)])
            sql = "SELECT v FROM kv2 WHERE k = 1"

            def shows() -> bool:
                return checked(reader.query(sql)).rows == [("31000000",)]
            wait_for("the reader has seen it", shows)
            for step in range(60):
                checked(other.query("SELECT count(*) FROM kv1"))
                seen = shows()
                route = reader.query("SHOW pgweir.last_route").rows[0][0]
                assert seen or route.startswith("primary"), (step, route)
            assert writer.quiet_for(0.05), "it still waits for the other replica"
            behind.resume_replay()
            checked(writer.until("Z"))
            assert shows() and checked(other.query(sql)).rows == [("31000000",)]
    finally:
        cluster.primary.set("synchronous_standby_names", None)
        behind.resume_replay()


def test_pitfall_3_what_was_written_before_the_start_is_seen(cluster, db, weir):
    """A pooler that has just started knows of no earlier write; its first reads must see them all the same."""
    for replica in cluster.replicas:
        replica.pause_replay()
    try:
        cluster.primary.execute("UPDATE kv1 SET v = 777 WHERE k = 1", db)
        with poolers.for_cluster(cluster, db, wait=False) as pooler:
            with connected(pooler.port) as client:
                for _ in range(100):
                    assert client.query("SELECT v FROM kv1 WHERE k = 1").rows == [("777",)]
                    time.sleep(0.01)
    finally:
        for replica in cluster.replicas:
            replica.resume_replay()
    cluster.wait_caught_up()


def test_pitfall_26_tokens_at_a_page_boundary_are_reached(cluster, db, weir):
    """Some commits end exactly on a WAL page boundary; on a primary that is idle afterwards their reads must come back to replicas."""
    with connected(weir.port) as client:
        filler = "x" * 150
        for step in range(400):
            checked(client.query(f"INSERT INTO filler VALUES ('{filler[:8 + step % 140]}')"))
        positions = cluster.log_positions()

        def answered_by_a_replica() -> bool:
            checked(client.query("SELECT count(*) /* idle primary */ FROM filler"))
            counts = cluster.times_run("idle primary", positions)
            return counts["replica1"] + counts["replica2"] > 0
        wait_for("a replica answers again", answered_by_a_replica, 30)


def test_pitfall_14_a_listener_reads_what_it_was_told_about(cluster, weir):
    """Cache invalidation: the notification may arrive before the writer's acknowledgement."""
    with connected(weir.port) as listener, connected(weir.port) as writer:
        checked(listener.query("LISTEN changed"))
        for value in range(1, 60):
            writer.send(simple(f"BEGIN; UPDATE kv1 SET v = {20_000_000 + value} WHERE k = 3; NOTIFY changed; COMMIT"))
            listener.until("A")
            assert checked(listener.query("SELECT v FROM kv1 WHERE k = 3")).rows == [(str(20_000_000 + value),)]
            checked(writer.until("Z"))


def test_lines_of_one_database_share_what_is_known_of_writes(cluster, db, roles):
    replicas = f"replica_host={cluster.replica_hosts}"
    more = f"second = host={poolers.HOST} port={cluster.primary.port} {replicas} dbname={db}\n"
    with poolers.running(poolers.ini_for(cluster, db, more_databases=more, settings="replica_wait = 0\n")) as weir:
        weir.wait_split(cluster)
        weir.wait_split(cluster, "second")
        with connected(weir.port) as writer, connected(weir.port, database="second") as reader:
            for replica in cluster.replicas:
                replica.pause_replay()
            try:
                for value in range(1, 21):
                    by_simple_query(writer, 1, 0, value)
                    assert reader.query("SELECT v FROM kv1 WHERE k = 0").rows == [(str(value),)]
                # A migration through one line is under way for the other one too.
                with connected(weir.port, user="postgres") as owner:
                    assert not owner.query("ALTER TABLE kv1 ADD added int DEFAULT 7").errors
                assert reader.query("SELECT added FROM kv1 WHERE k = 0").rows == [("7",)]
            finally:
                for replica in cluster.replicas:
                    replica.resume_replay()
                cluster.primary.execute("ALTER TABLE kv1 DROP COLUMN IF EXISTS added", db)
