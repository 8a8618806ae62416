"""The wire protocol, message by message: pgweir answers as PostgreSQL does."""
from __future__ import annotations

import struct

import pytest

import pooler as poolers
import wire
from cluster import HOST, wait_for
from wire import FLUSH, SYNC, Wire, bind, close, connected, describe, execute, message, parse, run, simple, text

SCHEMA = """
CREATE TABLE numbers (n int PRIMARY KEY, word text);
INSERT INTO numbers SELECT i, 'word ' || i FROM generate_series(1, 100) AS i;
CREATE TABLE written (n int, word text);
GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC;
CREATE FUNCTION shout(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', $1; RETURN 1; END $$;
"""


@pytest.fixture(scope="module")
def weir(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.wait_caught_up()
    with poolers.for_cluster(cluster, db) as pooler:
        yield pooler


@pytest.fixture()
def client(weir):
    with connected(weir.port) as client:
        yield client


@pytest.fixture()
def direct(cluster, db):
    with connected(cluster.primary.port, database=db) as direct:
        yield direct


# ---------------------------------------------------------------------------------------- start-up

@pytest.mark.parametrize("code", [wire.SSL_REQUEST, wire.GSSENC_REQUEST])
def test_encryption_is_declined_and_the_session_goes_on(weir, code):
    with Wire(weir.port) as client:
        client.send(wire.request(code))
        assert client.take(1) == b"N"
        assert client.login().kinds[-1] == "Z"


def test_both_encryption_requests_one_after_the_other(weir):
    with Wire(weir.port) as client:
        for code in (wire.GSSENC_REQUEST, wire.SSL_REQUEST):
            client.send(wire.request(code))
            assert client.take(1) == b"N"
        assert client.login().kinds[-1] == "Z"


def negotiated(answer: wire.Answer) -> list[tuple[int, list[str]]]:
    found = []
    for kind, body in answer:
        if kind == "v":
            version, count = struct.unpack_from("!II", body)
            found.append((version, [part.decode() for part in body[8:].split(b"\0")[:count]]))
    return found


@pytest.mark.parametrize("protocol", [196609, 196610, 196612])
def test_a_newer_minor_version_is_negotiated_down(weir, protocol):
    with Wire(weir.port) as client:
        answer = client.login(protocol=protocol)
        assert negotiated(answer) == [(wire.PROTOCOL_3_0, [])] or negotiated(answer) == [(0, [])]
        assert answer.kinds[0] == "v" and answer.kinds[-1] == "Z"
        assert len(client.key[1]) == 4
        assert client.query("SELECT 1").rows == [("1",)]


def test_protocol_options_are_named_as_unknown(weir):
    with Wire(weir.port) as client:
        answer = client.login(**{"_pq_.fancy": "on", "_pq_.other": "1"})
        [(_, names)] = negotiated(answer)
        assert names == ["_pq_.fancy", "_pq_.other"]
        assert answer.kinds[-1] == "Z"


def test_protocol_2_is_refused(weir):
    with Wire(weir.port) as client:
        answer = client.login(protocol=131072)
        assert answer.errors[0]["M"] == "old V2 protocol not supported"


def test_login_reports_the_parameters_of_the_server(weir, direct):
    with connected(weir.port, application_name="me", client_encoding="UTF8") as client:
        for name in ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone", "integer_datetimes",
                     "standard_conforming_strings", "IntervalStyle", "is_superuser"):
            assert client.parameters[name] == direct.parameters[name], name
        assert client.parameters["application_name"] == "me"
        assert client.key is not None


# ---------------------------------------------------------------------------------------- simple protocol

def same(client: Wire, direct: Wire, *parts: bytes, ready: int = 1) -> wire.Answer:
    """Sends the same to both; the answers must be equal, but for fields that pgweir's own errors lack, as PgBouncer's do."""
    answers = []
    for place in (client, direct):
        place.send(*parts)
        answers.append(place.until("Z", ready))
    def plain(answer: wire.Answer) -> list:
        return [(kind, {k: v for k, v in wire.error_fields(body).items() if k not in "VLRFP"} if kind in "EN" else body)
                for kind, body in answer if kind != "S"]
    assert plain(answers[0]) == plain(answers[1])
    return answers[0]


@pytest.mark.parametrize("sql", [
    "SELECT 1", "", ";", "SELECT 1; SELECT 2", "SELECT n, word FROM numbers WHERE n < 5 ORDER BY n",
    "SELECT 1; SELECT 1/0; SELECT 2", "INSERT INTO written VALUES (1, 'a'); SELECT 1", "BEGIN; SELECT 1; COMMIT",
    "SELECT 1; INSERT INTO written VALUES (2, 'b'); SELECT count(*) > 0 FROM written", "SET DateStyle = 'SQL, DMY'; RESET DateStyle",
    "COPY (SELECT 1, 'x') TO STDOUT", "SELECT 1; COPY (SELECT 2) TO STDOUT; SELECT 3", "-- nothing", "/* nothing */ ; SELECT 'a;b'",
    "ROLLBACK", "SELECT * FROM no_such", "SELECT 'unterminated", "CREATE TEMP TABLE gone (a int); DROP TABLE gone", "SELECT shout('hey')",
    "VALUES (1), (2)", "TABLE numbers LIMIT 1", "(SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a",
])
def test_simple_queries_answer_as_postgresql_does(client, direct, sql):
    same(client, direct, simple(sql))
    same(client, direct, simple("SELECT 'still here'"))


def test_queries_sent_without_waiting_are_answered_in_order(client, direct):
    parts = []
    for n in range(60):
        parts.append(simple(f"SELECT {n}" if n % 3 else f"INSERT INTO written VALUES ({n}, 'pipelined') RETURNING n"))
    answer = same(client, direct, *parts, ready=60)
    assert [row[0] for row in answer.rows] == [str(n) for n in range(60)]


def test_a_large_answer_and_a_large_statement_pass(client):
    assert len(client.query("SELECT repeat('0123456789', 500000)").rows[0][0]) == 5_000_000
    assert client.query("SELECT length('" + "x" * 3_000_000 + "')").rows == [("3000000",)]
    assert client.query("INSERT INTO written SELECT 0, '" + "y" * 2_000_000 + "' WHERE false").tags == ["INSERT 0 0"]


def test_notices_reach_the_client(client):
    answer = client.query("SELECT shout('hello')")
    assert answer.notices == ["hello"]


def test_parameter_status_tells_the_truth_after_set(client, direct):
    for sql, name in (("SET TimeZone = 'Asia/Tokyo'", "TimeZone"), ("SET application_name = 'renamed'", "application_name"),
                      ("SET client_encoding = 'LATIN1'", "client_encoding"), ("RESET ALL", "client_encoding")):
        client.query(sql)
        direct.query(sql)
        if sql != "RESET ALL":
            assert client.parameters[name] == direct.parameters[name]
    client.query("SET TimeZone = 'Europe/Paris'")
    assert client.query("SHOW TimeZone").rows == [("Europe/Paris",)]


# ---------------------------------------------------------------------------------------- extended protocol

def test_extended_queries_answer_as_postgresql_does(client, direct):
    for parts in (
        (run("SELECT $1::int + 1", "41"), SYNC),
        (run("SELECT n, word FROM numbers WHERE n = $1", "7"), SYNC),
        (run("SELECT NULL::text WHERE $1::text IS NULL", None), SYNC),
        (parse("SELECT word FROM numbers WHERE n = $1", "by_n"), describe("S", "by_n"), SYNC),
        (bind("3", name="by_n"), execute(), SYNC),
        (bind("4", name="by_n"), describe(), execute(), bind("5", name="by_n"), execute(), SYNC),
        (close("S", "by_n"), SYNC),
        (bind("3", name="by_n"), execute(), SYNC),                          # it is gone: 26000
        (parse("SELECT 1/$1::int"), bind("0"), execute(), run("SELECT 1"), SYNC),   # what follows an error is skipped
        (run("INSERT INTO written VALUES (9, $1)", "ext"), SYNC),
        (run("INSERT INTO written VALUES (9, $1) RETURNING n", "ext"), run("SELECT count(*) > 1 FROM written"), SYNC),
        (run(""), SYNC),
        (SYNC,),
        (parse("SELECT broken FROM"), SYNC),
        (run("COPY (SELECT 1, 2) TO STDOUT"), SYNC),
        (run("SET DateStyle = 'German'"), SYNC),
        (run("SELECT date '2026-02-03'"), SYNC),
        (run("RESET DateStyle"), SYNC),
    ):
        same(client, direct, *parts)


def test_a_named_statement_works_on_whichever_server_the_unit_goes_to(cluster, weir):
    """Many clients, few servers: nobody gets a statement of another."""
    clients = [connected(weir.port) for _ in range(12)]
    try:
        for number, client in enumerate(clients):
            client.send(parse(f"SELECT {number} + $1::int FROM numbers WHERE n = 1", "mine"), SYNC)
            client.until("Z")
        for step in range(6):
            for client in clients:
                client.send(bind(str(step), name="mine"), execute(), SYNC)
            for number, client in enumerate(clients):
                assert client.until("Z").rows == [(str(number + step),)]
            writer = clients[step]
            writer.query("INSERT INTO written VALUES (1, 'between')")
    finally:
        for client in clients:
            client.close()


def test_the_unnamed_statement_stays_for_later_units(client, direct):
    same(client, direct, parse("SELECT $1::int * 2"), describe("S", ""), SYNC)
    same(client, direct, bind("21"), execute(), SYNC)
    same(client, direct, bind("22"), execute(), SYNC)
    same(client, direct, simple("SELECT 1"))
    same(client, direct, bind("23"), execute(), SYNC)           # a simple query dropped it: 26000


def test_a_statement_name_in_use_is_refused_and_stays_usable(client, direct):
    same(client, direct, parse("SELECT 1", "twice"), SYNC)
    same(client, direct, parse("SELECT 2", "twice"), SYNC)
    same(client, direct, bind(name="twice"), execute(), SYNC)


def test_pipelines_with_a_sync_each(client, direct):
    parts = []
    for n in range(40):
        parts += [run("SELECT $1::int", str(n)) if n % 4 else run("INSERT INTO written VALUES ($1, 'p') RETURNING n", str(n)), SYNC]
    answer = same(client, direct, *parts, ready=40)
    assert [row[0] for row in answer.rows] == [str(n) for n in range(40)]


def test_pipelines_with_one_sync_at_the_end(client, direct):
    parts = [run("SELECT $1::int", str(n)) for n in range(20)] + [run("INSERT INTO written VALUES (1, 'q')"), run("SELECT 1"), SYNC]
    same(client, direct, *parts)
    parts = [run("INSERT INTO written VALUES (5, 'undone')"), run("SELECT 1/0"), run("SELECT 2"), SYNC, run("SELECT 3"), SYNC]
    answer = same(client, direct, *parts, ready=2)
    assert answer.sqlstates == ["22012"]
    assert client.query("SELECT count(*) FROM written WHERE word = 'undone'").rows == [("0",)]


def test_a_flush_brings_answers_before_the_sync(client):
    client.send(parse("SELECT word FROM numbers WHERE n = $1", "flushed"), describe("S", "flushed"), FLUSH)
    assert client.until("T").kinds == "1tT"
    client.send(bind("8", name="flushed"), execute(), FLUSH)
    assert client.until("C").rows == [("word 8",)]
    client.send(bind("9", name="flushed"), execute(), SYNC)
    answer = client.until("Z")
    assert answer.rows == [("word 9",)] and answer.status == "I"


def test_pitfall_21_parse_describe_flush_and_then_bind(client):
    """asyncpg and psycopg do this: describe first, bind when the answer is here."""
    for n in range(5):
        client.send(parse("SELECT $1::int + n FROM numbers WHERE n = 1"), describe("S", ""), FLUSH)
        assert client.until("T").kinds == "1tT"
        client.send(bind(str(n)), execute(), SYNC)
        assert client.until("Z").rows == [(str(n + 1),)]


def test_a_flush_without_anything_to_answer(client):
    client.send(FLUSH, SYNC)
    assert client.until("Z").kinds == "Z"


def test_portals_with_row_limits(client, direct):
    same(client, direct, simple("BEGIN"))
    same(client, direct, parse("SELECT n FROM numbers ORDER BY n"), bind(portal="p"), execute("p", 3), SYNC)
    same(client, direct, execute("p", 4), SYNC)
    same(client, direct, execute("p", 0), execute("p", 0), SYNC)
    same(client, direct, close("P", "p"), SYNC)
    same(client, direct, simple("COMMIT"))
    # Outside a transaction a suspended portal lives up to its Sync.
    answer = same(client, direct, parse("SELECT n FROM numbers ORDER BY n"), bind(), execute("", 2), execute("", 2), SYNC)
    assert "s" in answer.kinds
    same(client, direct, execute("", 2), SYNC)


def test_errors_in_a_transaction_are_kept_apart(client, direct):
    for sql in ("BEGIN", "INSERT INTO written VALUES (77, 'in tx')", "SELECT 1/0", "SELECT 1", "SAVEPOINT a", "ROLLBACK",
                "SELECT count(*) FROM written WHERE n = 77", "BEGIN", "SAVEPOINT s", "SELECT broken", "ROLLBACK TO s", "SELECT 5", "COMMIT"):
        same(client, direct, simple(sql))


def test_function_call(client, direct):
    oid = int(direct.query("SELECT 'int4pl'::regproc::oid").rows[0][0])
    body = struct.pack("!IHHHI", oid, 1, 0, 2, 1) + b"2" + struct.pack("!I", 2) + b"40" + struct.pack("!H", 0)
    answer = same(client, direct, message("F", body))
    assert answer.kinds == "VZ"
    same(client, direct, simple("SELECT 1"))


# ---------------------------------------------------------------------------------------- COPY

def copy_data(*rows: str) -> bytes:
    return b"".join(message("d", (row + "\n").encode()) for row in rows)


def test_copy_in_by_simple_query(client, direct):
    for place in (client, direct):
        place.send(simple("COPY written FROM STDIN"))
        assert place.until("G").kinds == "G"
        place.send(copy_data("100\tx", "101\ty"), message("c"))
        assert place.until("Z").tags == ["COPY 2"]
        place.send(simple("COPY written FROM STDIN; SELECT 'after'"))
        place.until("G")
        place.send(copy_data("102\tz"), message("c"))
        answer = place.until("Z")
        assert answer.tags == ["COPY 1", "SELECT 1"] and answer.rows == [("after",)]


def test_copy_in_may_fail_on_either_side(client, direct):
    for place in (client, direct):
        place.send(simple("COPY written FROM STDIN"))
        place.until("G")
        place.send(copy_data("1\tx"), message("f", text("changed my mind")))
        answer = place.until("Z")
        assert answer.sqlstates == ["57014"] and answer.status == "I"
        place.send(simple("COPY written FROM STDIN"))
        place.until("G")
        place.send(copy_data("not a number\tx", "2\ty"), message("c"))
        answer = place.until("Z")
        assert answer.sqlstates == ["22P02"]
        assert place.query("SELECT 1").rows == [("1",)]


def test_pitfall_21_a_driver_executes_copy_and_waits_for_the_server(client):
    """No Sync is sent before CopyInResponse has come: whoever holds the unit until then waits for ever."""
    client.send(parse("COPY written FROM STDIN"), bind(), describe(), execute(), FLUSH)
    assert client.until("G").kinds.endswith("G")
    client.send(copy_data("200\text"), message("c"), SYNC)
    answer = client.until("Z")
    assert answer.tags == ["COPY 1"] and answer.status == "I"


def test_pitfall_21_copy_in_with_neither_flush_nor_sync(client):
    client.send(parse("COPY written FROM STDIN"), bind(), execute())
    assert client.until("G").kinds.endswith("G")
    client.send(copy_data("201\text"), message("c"), SYNC)
    assert client.until("Z").tags == ["COPY 1"]


def test_copy_in_with_everything_sent_at_once(client):
    client.send(parse("COPY written FROM STDIN"), bind(), execute(), SYNC)
    # PostgreSQL ignores a Sync while it copies; the one after CopyDone counts.
    client.until("G")
    client.send(copy_data("300\ta"), message("c"), SYNC)
    assert client.until("Z").tags == ["COPY 1"]
    assert client.query("SELECT count(*) FROM written WHERE n = 300").rows == [("1",)]


def test_copy_out_streams(client, direct):
    same(client, direct, simple("COPY numbers TO STDOUT"))
    client.send(simple("COPY (SELECT repeat('z', 1000) FROM generate_series(1, 20000)) TO STDOUT"))
    answer = client.until("Z")
    assert answer.kinds.count("d") == 20000 and answer.tags == ["COPY 20000"]


def test_bytes_arriving_one_by_one_change_nothing(client):
    for byte in run("SELECT word FROM numbers WHERE n = $1", "12") + SYNC + simple("SELECT 'second'"):
        client.send(bytes([byte]))
    answer = client.until("Z", 2)
    assert answer.rows == [("word 12",), ("second",)]


# ---------------------------------------------------------------------------------------- cancel

def test_cancel_stops_the_query_of_that_client_only(cluster, db, weir):
    with connected(weir.port) as sleeper, connected(weir.port) as other:
        position = cluster.log_positions()
        sleeper.send(simple("SELECT pg_sleep(60) /* to be cancelled */"))
        other.send(simple("SELECT pg_sleep(1.5), 'undisturbed' /* other sleeper */"))
        wait_for("both run", lambda: sum(cluster.times_run("to be cancelled", position).values())
                 and sum(cluster.times_run("other sleeper", position).values()))
        wire.send_cancel(weir.port, sleeper.key)
        assert sleeper.until("Z").sqlstates == ["57014"]
        assert other.until("Z").rows[0][1] == "undisturbed"
        assert sleeper.query("SELECT 1").rows == [("1",)]


def test_cancel_works_for_a_read_on_a_replica_too(cluster, weir):
    with connected(weir.port) as sleeper:
        position = cluster.log_positions()
        sleeper.send(simple("SELECT count(*) /* long read */ FROM generate_series(1, 3000) a, generate_series(1, 3000) b, "
                            "generate_series(1, 3000) c"))
        wait_for("it runs", lambda: sum(cluster.times_run("long read", position).values()))
        wire.send_cancel(weir.port, sleeper.key)
        assert sleeper.until("Z").sqlstates == ["57014"]
        assert sum(cluster.times_run("long read", position).values()) == 1, "a cancelled read must not be run again"


def test_a_wrong_or_idle_cancel_does_nothing(weir, client):
    process, secret = client.key
    wire.send_cancel(weir.port, (process, bytes(4)))
    wire.send_cancel(weir.port, client.key)
    wire.send_cancel(weir.port, (12345, b"\xff\xff\xff\xff"))
    assert client.query("SELECT 'alive'").rows == [("alive",)]


def test_pitfall_25_a_late_cancel_hits_nobody_else(cluster, db):
    """One server: whatever a late cancel hits would be the next client's query."""
    with poolers.for_cluster(cluster, db, "pool_size=1", split=False) as pooler:
        with connected(pooler.port) as one, connected(pooler.port) as two:
            for _ in range(30):
                one.send(simple("SELECT 1"))
                wire.send_cancel(pooler.port, one.key)
                two.send(simple("SELECT pg_sleep(0.01), 'mine'"))
                answer = one.until("Z")
                assert answer.rows == [("1",)] or answer.sqlstates == ["57014"]
                answer = two.until("Z")
                assert not answer.errors and answer.rows[0][1] == "mine"


def test_terminate_ends_the_connection(client):
    client.send(wire.TERMINATE)
    assert client.until_closed() == []


def test_the_unix_socket_speaks_the_same(weir):
    with Wire(weir.port, unix_folder=str(weir.folder)) as client:
        client.send(wire.request(wire.SSL_REQUEST))
        assert client.take(1) == b"N"
        assert client.login().kinds[-1] == "Z"
        assert client.query("SELECT 'unix'").rows == [("unix",)]
