"""Transaction blocks whose reads may go to replicas: every answer is held against the primary's own, message by message."""
from __future__ import annotations

import contextlib

import pytest

import pooler as poolers
from cluster import wait_for
from test_read_split import Count, runs_on_replica
from wire import SYNC, bind, close, connected, describe, error_fields, execute, parse, run, send_cancel, simple

BOTH = "transaction_reads = replica\nread_only_transactions = replica\nreplica_wait = 1"

SCHEMA = """
SET ROLE app;
CREATE TABLE deeds (n int PRIMARY KEY, note text);
INSERT INTO deeds SELECT i, 'deed ' || i FROM generate_series(1, 50) AS i;
CREATE TABLE marks (n int);
CREATE VIEW recent AS SELECT n, now() AS seen FROM deeds;
CREATE FUNCTION the_time() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now()';
CREATE FUNCTION writes_quietly(int) RETURNS int LANGUAGE plpgsql STABLE AS
  $$ BEGIN EXECUTE 'SELECT do_' || 'write(' || $1 || ')'; RETURN $1; END $$;
CREATE FUNCTION do_write(int) RETURNS int LANGUAGE plpgsql VOLATILE AS
  $$ BEGIN INSERT INTO marks VALUES ($1); RETURN $1; END $$;
"""


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.wait_caught_up()


@contextlib.contextmanager
def served(cluster, db, settings: str = BOTH):
    with poolers.for_cluster(cluster, db, settings=settings) as weir, connected(weir.port) as client:
        assert runs_on_replica(cluster, client, "SELECT * FROM deeds")
        yield weir, client


@pytest.fixture(scope="module")
def weir(cluster, db):
    with served(cluster, db) as (weir, _):
        yield weir


@pytest.fixture()
def client(weir):
    with connected(weir.port) as client:
        yield client


READ = "SELECT n, note FROM deeds WHERE n < 4 ORDER BY n"

# Each is a row of units; a unit is SQL for a simple query, or the bytes of a unit of the extended protocol.
SCRIPTS = {
    "reads and commit": ["BEGIN", READ, "SELECT count(*) FROM deeds", "COMMIT"],
    "nothing": ["BEGIN", "COMMIT", "BEGIN", "ROLLBACK", "BEGIN;", "END", "begin work", "abort"],
    "start transaction": ["START TRANSACTION READ ONLY", READ, "COMMIT WORK"],
    "read only": ["BEGIN READ ONLY", READ, "INSERT INTO marks VALUES (1)", READ, "COMMIT", READ],
    "repeatable": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", READ, "SHOW transaction_isolation", READ, "SELECT now() = now()", "COMMIT"],
    "repeatable, refused": ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", READ, "UPDATE marks SET n = 1", READ, "ROLLBACK"],
    "repeatable, cursor": ["BEGIN TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ, DEFERRABLE", READ,
                           "DECLARE c CURSOR FOR SELECT n FROM deeds ORDER BY n", "FETCH 3 FROM c", "FETCH 2 FROM c", "CLOSE c", "COMMIT"],
    "repeatable, savepoint": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", READ, "SAVEPOINT a", "SELECT 1/0", READ, "ROLLBACK TO a", READ, "COMMIT"],
    "repeatable, set local": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", READ, "SET LOCAL extra_float_digits = 0", "SELECT 0.1::float8 + 0.2", "COMMIT",
                              "SELECT 0.1::float8 + 0.2"],
    "repeatable, errors": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SELECT 1/0", READ, "COMMIT", READ],
    "repeatable, failed": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", READ, "SELECT 1/0", "SELECT pg_advisory_lock(1)", "LOCK TABLE marks", "SET TimeZone = 'UTC'",
                           run("SELECT pg_advisory_lock(1)") + SYNC, "ROLLBACK"],
    "repeatable, chain": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", READ, "COMMIT AND CHAIN", "SHOW transaction_isolation", "SHOW transaction_read_only", "COMMIT"],
    "serializable": ["BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", READ, "SHOW transaction_isolation", "COMMIT"],
    "a write moves it": ["BEGIN", READ, "INSERT INTO marks VALUES (7) RETURNING n", "SELECT n FROM marks WHERE n = 7", "ROLLBACK", "SELECT n FROM marks WHERE n = 7"],
    "error": ["BEGIN", READ, "SELECT 1/0 FROM deeds", READ, "SELECT", "SHOW transaction_isolation", "COMMIT", READ],
    "error first": ["BEGIN", "SELECT 1/0", "ROLLBACK", "BEGIN", "SELECT 1/0", "COMMIT"],
    "error and savepoint": ["BEGIN", READ, "SELECT 1/0", "ROLLBACK TO a", "SAVEPOINT a", "ROLLBACK"],
    "syntax error": ["BEGIN", READ, "SELEKT", READ, "ROLLBACK"],
    "no such table": ["BEGIN", READ, "SELECT * FROM nowhere", "ROLLBACK"],
    "savepoints": ["BEGIN", READ, "SAVEPOINT a", "INSERT INTO marks VALUES (8)", "ROLLBACK TO a", "SELECT n FROM marks WHERE n = 8", "COMMIT"],
    "begin twice": ["BEGIN", "BEGIN", READ, "COMMIT", "COMMIT"],
    "begin twice, late": ["BEGIN", READ, "BEGIN ISOLATION LEVEL SERIALIZABLE", "COMMIT"],
    "chain": ["BEGIN", READ, "COMMIT AND CHAIN", READ, "ROLLBACK AND CHAIN", "SELECT 1/0", "COMMIT AND CHAIN", READ, "COMMIT AND NO CHAIN", "COMMIT AND CHAIN"],
    "chain of a kind": ["START TRANSACTION READ ONLY", READ, "COMMIT AND CHAIN", "SHOW transaction_read_only", "COMMIT"],
    "what begins it": ["BEGIN READ WRITE", "SHOW transaction_isolation", "SHOW transaction_read_only", "COMMIT"],
    "set transaction": ["BEGIN", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SHOW transaction_isolation", READ, "COMMIT"],
    "set transaction too late": ["BEGIN", READ, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "ROLLBACK"],
    "set transaction too late for read write": ["BEGIN READ ONLY", READ, "SET TRANSACTION READ WRITE", "ROLLBACK"],
    "set local": ["BEGIN", READ, "SET LOCAL extra_float_digits = 0", "SELECT 0.1::float8 + 0.2", "COMMIT", "SELECT 0.1::float8 + 0.2"],
    "set": ["BEGIN", READ, "SET TimeZone = 'Asia/Tokyo'", "SHOW TimeZone", "ROLLBACK", "SHOW TimeZone"],
    "default isolation": ["SET default_transaction_isolation = 'repeatable read'", "BEGIN", "SHOW transaction_isolation", READ, "COMMIT",
                          "BEGIN READ ONLY", READ, "SHOW transaction_isolation", "COMMIT", "RESET default_transaction_isolation"],
    "default serializable": ["SET default_transaction_isolation = serializable", "BEGIN READ ONLY", READ, "SHOW transaction_isolation", "COMMIT",
                             "RESET default_transaction_isolation"],
    "cursor": ["BEGIN", READ, "DECLARE c CURSOR FOR SELECT n FROM deeds ORDER BY n", "FETCH 2 FROM c", "COMMIT"],
    "locks": ["BEGIN", READ, "SELECT n FROM deeds WHERE n = 1 FOR UPDATE", "LOCK TABLE marks", "COMMIT"],
    "discard": ["BEGIN", READ, "DISCARD ALL", "ROLLBACK"],
    "the time stands still": ["BEGIN", "SELECT now() = transaction_timestamp()", "SELECT pg_sleep(0.01)", "SELECT statement_timestamp() > now()", "COMMIT"],
    "copy": ["BEGIN", "COPY (SELECT n FROM deeds WHERE n < 3 ORDER BY n) TO STDOUT", "COPY deeds TO STDOUT", "COMMIT"],
    "several statements": ["BEGIN; SELECT 1", READ, "COMMIT", "BEGIN", "SELECT 1; SELECT 2", "SELECT 3; SELECT 1/0", "ROLLBACK", "BEGIN", READ + "; COMMIT", READ],
    "empty": ["BEGIN", "", ";", "COMMIT"],
    "comments": ["/* a */ BEGIN /* b */ -- c", READ, "-- x\nCOMMIT -- y"],
    "hidden write": ["BEGIN", READ, "SELECT writes_quietly(9)", "SELECT n FROM marks WHERE n = 9", "ROLLBACK"],
    "hidden write, read only": ["BEGIN READ ONLY", READ, "SELECT writes_quietly(9)", "ROLLBACK"],
    "wrong ends": ["BEGIN", READ, "COMMIT PREPARED 'x'", "ROLLBACK", "BEGIN", "COMMIT WORK AND", "ROLLBACK", "COMMIT"],
    "no isolation": ["BEGIN ISOLATION LEVEL SNAPSHOT", "BEGIN READ", "BEGIN READ ONLY,", "ROLLBACK"],
    "extended": [run("BEGIN") + SYNC, run(READ) + SYNC, run("SELECT note FROM deeds WHERE n = $1", "3") + SYNC, run("COMMIT") + SYNC],
    "extended, described": [parse("BEGIN") + describe("S") + bind() + describe() + execute() + SYNC, run(READ) + SYNC,
                            parse("ROLLBACK") + bind() + execute() + SYNC],
    "extended, error": [run("BEGIN") + SYNC, run(READ) + SYNC, run("SELECT 1/n FROM deeds WHERE n = $1 - $1 + 1 AND 1/(n-1) > 0", "1") + SYNC,
                        run(READ) + SYNC, SYNC, parse("SELECT 1", "named") + SYNC, run("COMMIT") + SYNC, run(READ) + SYNC],
    "extended, begin and read in one unit": [run("BEGIN") + run(READ) + SYNC, run("COMMIT") + SYNC],
    "extended, reads in one unit": ["BEGIN", run(READ) + run("SELECT count(*) FROM deeds") + SYNC, "COMMIT"],
    "extended, error in one unit": ["BEGIN", run(READ) + run("SELECT 1/0") + run(READ) + SYNC, READ, "COMMIT"],
    "portals live on": ["BEGIN", parse("SELECT n FROM deeds ORDER BY n") + bind(portal="p") + execute("p", 2) + SYNC, execute("p", 2) + SYNC,
                        close("P", "p") + SYNC, "COMMIT"],
    "the unnamed portal lives on": ["BEGIN", parse("SELECT n FROM deeds ORDER BY n") + bind() + SYNC, execute("", 2) + SYNC, execute("", 2) + SYNC, "COMMIT"],
    "named statements": [parse("BEGIN", "b") + SYNC, bind(name="b") + execute() + SYNC, parse(READ, "r") + SYNC, bind(name="r") + execute() + SYNC,
                         bind(name="r") + execute() + SYNC, parse("COMMIT", "c") + bind(name="c") + execute() + SYNC],
    "deallocate": ["BEGIN", parse(READ, "r") + SYNC, bind(name="r") + execute() + SYNC, "DEALLOCATE r", "COMMIT"],
    "no such statement": ["BEGIN", READ, bind(name="unknown") + execute() + SYNC, READ, "ROLLBACK"],
    "extended in a repeatable one": ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", run(READ) + SYNC, parse(READ, "r") + SYNC, bind(name="r") + execute() + SYNC,
                                     parse("SELECT n FROM deeds ORDER BY n") + bind(portal="p") + execute("p", 2) + SYNC, execute("p", 2) + SYNC,
                                     run("DELETE FROM marks") + SYNC, run(READ) + SYNC, run("COMMIT") + SYNC],
}


def play(client, script) -> list:
    """What was answered; of errors and notices what a program looks at."""
    told = []
    for unit in script:
        client.send(simple(unit) if isinstance(unit, str) else unit)
        answer = client.until("Z")
        for kind, body in answer:
            if kind in "EN":
                fields = error_fields(body)
                told.append((kind, fields["S"], fields["C"], fields["M"]))
            elif kind != "S":
                told.append((kind, body))
    return told


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_block_answers_as_the_primary_itself(cluster, db, weir, name, pipelined):
    script = SCRIPTS[name]
    with connected(cluster.primary.port, database=db) as direct, connected(weir.port) as client:
        if not pipelined:
            assert play(client, script) == play(direct, script)
            return
        answers = []
        for wire in (direct, client):
            wire.send(*[simple(unit) if isinstance(unit, str) else unit for unit in script])
            answer = wire.until("Z", len(script))
            answers.append([(kind, error_fields(body)["C"] if kind in "EN" else body) for kind, body in answer if kind != "S"])
        assert answers[1] == answers[0]


def test_reads_of_a_block_go_to_replicas_until_it_does_something_else(cluster, client):
    count = Count(cluster)
    client.query("BEGIN")
    for _ in range(5):
        assert len(client.query(count.comment + READ).rows) == 3
        assert len(client.extended(count.comment + READ).rows) == 3
    assert client.query("SHOW pgweir.last_route").rows[0][0].startswith("replica")
    assert (count.primary, count.replicas) == (0, 10)
    assert client.query("INSERT INTO marks VALUES (100)").status == "T"
    for _ in range(3):
        assert len(client.query(count.comment + READ).rows) == 3
    assert (count.primary, count.replicas) == (3, 10)
    assert client.query("ROLLBACK").tags == ["ROLLBACK"]
    assert not client.query("SELECT * FROM marks WHERE n = 100").rows


@pytest.mark.parametrize("begin", ["BEGIN READ ONLY", "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
                                   "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", "BEGIN READ ONLY NOT DEFERRABLE"])
def test_read_only_transactions_run_on_replicas(cluster, db, begin):
    with served(cluster, db, "read_only_transactions = replica\nreplica_wait = 1") as (_, client):
        count = Count(cluster)
        assert client.query(begin).status == "T"
        for _ in range(4):
            assert len(client.query(count.comment + READ).rows) == 3
        assert client.query("COMMIT").tags == ["COMMIT"]
        assert (count.primary, count.replicas) == (0, 4)
        client.query("BEGIN")
        client.query(count.comment + READ)
        client.query("COMMIT")
        assert (count.primary, count.replicas) == (1, 4)


def test_by_default_blocks_stay_on_the_primary(cluster, db):
    with served(cluster, db, "") as (_, client):
        count = Count(cluster)
        for begin in ("BEGIN", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            client.query(begin)
            client.query(count.comment + READ)
            client.query("COMMIT")
        assert (count.primary, count.replicas) == (3, 0)


def test_the_settings_of_database_and_user_come_first(cluster, db):
    line = poolers.ini_for(cluster, db, "transaction_reads=replica", settings="transaction_reads = primary\n[users]\napp = read_only_transactions=primary")
    with poolers.running(line) as weir, connected(weir.port) as client:
        assert runs_on_replica(cluster, client, "SELECT * FROM deeds")
        count = Count(cluster)
        client.query("BEGIN")
        client.query(count.comment + READ)
        client.query("COMMIT")
        assert (count.primary, count.replicas) == (0, 1)


@pytest.mark.parametrize("sql", ["SELECT now()", "SELECT * FROM deeds WHERE current_date > '1999-01-01'", "SELECT count(*) FROM recent", "SELECT the_time()",
                                 "SELECT 'now'::timestamptz", "SELECT * FROM deeds FOR SHARE", "SELECT pg_current_xact_id()", "SELECT age(now())"])
def test_what_asks_for_the_transaction_moves_it_to_the_primary(cluster, client, sql):
    count = Count(cluster)
    client.query("BEGIN")
    client.query(count.comment + READ)
    assert not client.query(count.comment + sql).errors
    client.query(count.comment + READ)
    assert (count.primary, count.replicas) == (2, 1)
    client.query("COMMIT")


def test_a_value_that_asks_for_the_time_moves_it_to_the_primary(cluster, client):
    client.query("BEGIN")
    first = client.extended("SELECT $1::timestamptz", "now").rows
    assert client.extended("SELECT $1::timestamptz", "now").rows == first
    client.query("COMMIT")


def test_reads_of_blocks_see_what_was_committed_before_them(cluster, db, weir):
    with connected(weir.port) as writer, connected(weir.port) as reader, connected(weir.port) as repeatable:
        seen = 0
        count = Count(cluster)
        for i in range(60):
            written = f"INSERT INTO marks VALUES ({1000 + i})"
            reader.query("BEGIN")
            before = int(reader.query(count.comment + "SELECT count(*) FROM marks").rows[0][0])
            assert before >= seen
            assert not writer.query(written).errors
            after = int(reader.query(count.comment + "SELECT count(*) FROM marks").rows[0][0])
            assert after == before + 1
            reader.query("COMMIT")
            repeatable.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            held = int(repeatable.query(count.comment + "SELECT count(*) FROM marks").rows[0][0])
            assert held == after
            assert not writer.query("INSERT INTO marks VALUES (1)").errors
            assert int(repeatable.query(count.comment + "SELECT count(*) FROM marks").rows[0][0]) == held
            repeatable.query("COMMIT")
            seen = after + 1
        assert count.replicas > 60, count.nodes


def test_a_repeatable_block_refuses_what_a_replica_would_get_wrong(client):
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    for unit in ("SELECT pg_advisory_lock(1)", "SELECT * FROM pg_stat_activity", "DECLARE c CURSOR FOR SELECT pg_advisory_lock(1)", "LOCK TABLE marks IN SHARE MODE",
                 "COMMIT; INSERT INTO marks VALUES (1)", run("SELECT pg_advisory_lock($1::bigint)", "1") + SYNC, "SET work_mem = '8MB'"):
        client.query(begin)
        assert client.query(READ).rows
        assert client.query("SHOW pgweir.last_route").rows[0][0].startswith("replica")
        client.send(simple(unit) if isinstance(unit, str) else unit)
        answer = client.until("Z")
        assert answer.sqlstates == ["25006"] and answer.status == "E", (unit, answer)
        assert "on a replica" in answer.errors[0]["M"]
        assert client.query(READ).sqlstates == ["25P02"]
        assert client.query("ROLLBACK").status == "I"
        # As the first statement it takes the block to the primary.
        if isinstance(unit, str) and not unit.startswith(("COMMIT", "DECLARE", "SET")):
            client.query(begin)
            assert client.query(unit).sqlstates == []
            client.query("SELECT pg_advisory_unlock_all()")
            client.query("COMMIT")
            client.query("DISCARD ALL")


def test_a_recovery_conflict_in_a_repeatable_block_is_passed_on(cluster, db):
    """The replica drops what a transaction of its own still needs."""
    for replica in cluster.replicas:
        replica.set("max_standby_streaming_delay", "10ms")
    try:
        with served(cluster, db) as (_, client):
            client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            assert client.query("SELECT count(*) FROM deeds").rows
            cluster.primary.execute("SET ROLE app; CREATE TABLE vanishing (n int)", db)
            cluster.primary.execute("ALTER TABLE deeds ADD COLUMN later int; ALTER TABLE deeds DROP COLUMN later", db)

            def conflict():
                answer = client.query("SELECT count(*) FROM deeds")
                return answer if answer.errors else None
            answer = wait_for("the conflict", conflict)
            assert answer.sqlstates == ["40001"], answer
            assert answer.status == "E"
            assert client.query("ROLLBACK").status == "I"
            assert client.query("SELECT count(*) FROM deeds").rows == [("50",)]
    finally:
        for replica in cluster.replicas:
            replica.set("max_standby_streaming_delay", None)


def test_a_cancel_in_a_moving_block_fails_it(cluster, weir, client):
    client.query("BEGIN")
    client.query(READ)
    client.send(simple("SELECT count(*) /* cancelled */ FROM deeds a, deeds b, deeds c, deeds d, deeds e, deeds f"))  # It runs for minutes.
    wait_for("it runs", lambda: any(node.value(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%/* cancelled */%' AND state = 'active' AND pid <> pg_backend_pid()")
        for node in cluster.nodes))
    send_cancel(weir.port, client.key)
    answer = client.until("Z")
    assert answer.sqlstates == ["57014"] and answer.status == "E"
    assert client.query(READ).sqlstates == ["25P02"]
    assert client.query("COMMIT").tags == ["ROLLBACK"]
    assert client.query(READ).status == "I"


def test_a_held_block_that_does_nothing_is_closed_after_idle_transaction_timeout(cluster, db):
    with served(cluster, db, BOTH + "\nidle_transaction_timeout = 1\nclient_idle_timeout = 0") as (_, client):
        client.query("BEGIN")
        client.query(READ)
        answer = client.until_closed()
        assert answer.errors[0]["M"] == "idle transaction timeout", answer


def test_in_session_pooling_too(cluster, db):
    with served(cluster, db, BOTH + "\npool_mode = session") as (_, client), connected(cluster.primary.port, database=db) as direct:
        for name in ("reads and commit", "a write moves it", "error", "chain", "repeatable", "extended"):
            assert play(client, SCRIPTS[name]) == play(direct, SCRIPTS[name]), name


def test_a_block_goes_on_when_the_split_is_turned_off(cluster, db):
    with served(cluster, db) as (weir, client):
        client.query("BEGIN")
        client.query(READ)
        weir.write_ini(poolers.ini_for(cluster, db, settings=BOTH + "\nread_split = off"))
        weir.console("RELOAD")
        assert client.query("INSERT INTO marks VALUES (2000)").status == "T"
        assert client.query("ROLLBACK").tags == ["ROLLBACK"]
        assert not client.query("SELECT * FROM marks WHERE n = 2000").rows
