"""Unusual and hostile orders of messages: what one client does must never reach another, hang, or break the books."""
from __future__ import annotations

import struct

import pytest

import pooler as poolers
from wire import FLUSH, SYNC, Wire, bind, close, connected, describe, error_fields, execute, message, parse, run, send_cancel, simple, text

SCHEMA = """
CREATE TABLE rows_ (n int, word text);
INSERT INTO rows_ SELECT i, 'word ' || i FROM generate_series(1, 20) AS i;
CREATE TABLE written (n int, word text);
CREATE TABLE shape (a int);
INSERT INTO shape VALUES (1);
CREATE SCHEMA hidden;
CREATE TABLE hidden.secret (n int);
GRANT ALL ON SCHEMA hidden TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA public, hidden TO PUBLIC;
ALTER TABLE shape OWNER TO app;
CREATE SEQUENCE hits;
GRANT ALL ON SEQUENCE hits TO PUBLIC;
CREATE FUNCTION counts() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN nextval('hits'); END $$;
CREATE FUNCTION chatty(n int) RETURNS int LANGUAGE plpgsql STABLE AS $$
  BEGIN FOR i IN 1..n LOOP RAISE NOTICE '%', repeat('x', 8000); END LOOP; RETURN n; END $$;
"""
INT4PL = 177          # the oid of int4pl(int4, int4)


@pytest.fixture(scope="module")
def schema(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.wait_caught_up()
    return db


@pytest.fixture(scope="module")
def weir(cluster, schema):
    """Split, and one server for all on each node: whoever keeps one, or leaves something there, is noticed by the next."""
    with poolers.for_cluster(cluster, schema, "pool_size=1", "replica_pool_size = 1\nquery_wait_timeout = 20") as pooler:
        yield pooler


@pytest.fixture(scope="module")
def plain(cluster, schema):
    """Without replicas, as PgBouncer is used."""
    with poolers.for_cluster(cluster, schema, "pool_size=1", "query_wait_timeout = 20", split=False) as pooler:
        yield pooler


@pytest.fixture(params=["split", "plain"])
def any_weir(request, weir, plain):
    return weir if request.param == "split" else plain


@pytest.fixture()
def direct(cluster, schema):
    with connected(cluster.primary.port, database=schema) as direct:
        yield direct


def function_call(oid: int = INT4PL) -> bytes:
    return message("F", struct.pack("!IHHHI", oid, 1, 0, 2, 1) + b"2" + struct.pack("!I", 2) + b"40" + struct.pack("!H", 0))


def plain_answer(answer) -> list:
    """What must be equal: texts that name our own statements and fields that only PostgreSQL gives are left out."""
    return [(kind, error_fields(body).get("C") if kind in "EN" else body) for kind, body in answer if kind != "S"]


def same(client: Wire, direct: Wire, *parts: bytes, ready: int = 1):
    answers = []
    for place in (client, direct):
        place.send(*parts)
        answers.append(place.until("Z", ready))
    assert plain_answer(answers[0]) == plain_answer(answers[1])
    return answers[0]


def others_are_served(pooler) -> None:
    """The only server of the pool is free again."""
    with connected(pooler.port) as other:
        assert other.query("INSERT INTO written VALUES (0, 'other') RETURNING 7").rows == [("7",)]


# ---------------------------------------------------------------------------------------- errors before Sync

@pytest.mark.parametrize("skipped", [
    simple("SELECT 1"), simple("INSERT INTO written VALUES (66, 'skipped')"), function_call(),
    simple("SELECT '" + "x" * 100_000 + "'"), function_call() + simple("SELECT 2") + run("SELECT 3"),
    close("S", "x") + FLUSH + message("d", b"x") + message("c"),
], ids=["query", "write", "function call", "long query", "all", "copy"])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_follows_an_error_up_to_sync_is_skipped_and_the_server_given_back(any_weir, direct, skipped, at_once):
    with connected(any_weir.port) as client:
        for place in (client, direct):
            place.send(parse("INSERT INTO no_such VALUES (1)"), *([skipped] if at_once else [FLUSH]))
            if not at_once:
                place.until("E")
                place.send(skipped)
            place.send(SYNC)
            kinds = place.until("Z").kinds
            assert kinds == ("EZ" if at_once else "Z"), place
        others_are_served(any_weir)
        same(client, direct, simple("SELECT 'still here'"))
        same(client, direct, run("SELECT 5"), SYNC)


def test_a_long_query_that_comes_in_parts_while_it_is_skipped(any_weir, direct):
    long = simple("SELECT '" + "x" * 300_000 + "'")
    with connected(any_weir.port) as client:
        for place in (client, direct):
            place.send(parse("INSERT INTO no_such VALUES (1)"), FLUSH)
            place.until("E")
            for at in range(0, len(long), 40_000):
                place.send(long[at:at + 40_000])
            place.send(SYNC)
            assert place.until("Z").kinds == "Z"
        others_are_served(any_weir)
        same(client, direct, simple("SELECT 'still here'"))


def test_a_statement_whose_close_was_skipped_is_still_there(any_weir, direct):
    with connected(any_weir.port) as client:
        same(client, direct, parse("SELECT 42", "kept"), SYNC)
        same(client, direct, bind(name="no_such"), close("S", "kept"), parse("SELECT 43", "kept"), SYNC)
        answer = same(client, direct, bind(name="kept"), execute(), SYNC)
        assert answer.rows == [("42",)]


# ---------------------------------------------------------------------------------------- COPY

@pytest.mark.parametrize("syncs", [0, 1, 2])
@pytest.mark.parametrize("begin", [b"", simple("BEGIN")], ids=["alone", "in a transaction"])
def test_copy_in_with_all_messages_sent_at_once(any_weir, direct, syncs, begin):
    """PostgreSQL passes over a Sync while it copies, and answers the one behind CopyDone."""
    with connected(any_weir.port) as client:
        for place in (client, direct):
            if begin:
                place.send(begin)
                place.until("Z")
            place.send(run("COPY written FROM STDIN"), SYNC * syncs, message("d", b"1\tx\n"), message("c"), SYNC,
                       simple("SELECT 'behind'"))
            answer = place.until("Z", 2)
            assert answer.tags == ["COPY 1", "SELECT 1"] and answer.rows == [("behind",)]
            if begin:
                place.send(simple("COMMIT"))
                place.until("Z")
        others_are_served(any_weir)


def test_copy_in_that_fails_with_all_messages_sent_at_once(any_weir, direct):
    with connected(any_weir.port) as client:
        same(client, direct, simple("BEGIN"))
        same(client, direct, run("COPY written FROM STDIN"), message("d", b"not a number\tx\n"), message("c"), SYNC)
        same(client, direct, simple("ROLLBACK"))
        same(client, direct, run("COPY no_such FROM STDIN"), message("d", b"1\tx\n"), message("c"), SYNC)
        same(client, direct, simple("COPY no_such FROM STDIN"), message("d", b"1\tx\n"), message("c"), simple("SELECT 1"),
             ready=2)
        same(client, direct, run("COPY written FROM STDIN"), message("f", text("no")), SYNC, run("SELECT 8"), SYNC, ready=2)
        others_are_served(any_weir)


def test_flush_and_sync_while_copying(any_weir, direct):
    with connected(any_weir.port) as client:
        for place in (client, direct):
            place.send(simple("COPY written FROM STDIN"))
            place.until("G")
            place.send(FLUSH, SYNC, message("d", b"1\tx\n"), SYNC, FLUSH, message("c"))
            assert place.until("Z").kinds == "CZ"
        same(client, direct, simple("SELECT 1"))
        others_are_served(any_weir)


# ---------------------------------------------------------------------------------------- what one leaves for the next

SET_PATH = simple("SET search_path = hidden")
LEAKS = {                       # what is sent, and how many units that is
    "search_path, then an error": ([SET_PATH, simple("INSERT INTO no_such VALUES (1)")], 2),
    "search_path, then a rollback": ([SET_PATH, simple("BEGIN"), simple("ROLLBACK")], 3),
    "search_path in a transaction, then a rollback": (
        [simple("BEGIN"), SET_PATH, simple("COMMIT"), simple("BEGIN"), simple("ROLLBACK")], 5),
    "search_path in the extended protocol, then an error": (
        [run("SET search_path = hidden"), SYNC, run("INSERT INTO no_such VALUES (1)"), SYNC], 2),
    "search_path committed in a message that fails": ([simple("SET search_path = hidden; COMMIT; SELECT 1/0")], 1),
    "search_path taken back": ([simple("BEGIN"), SET_PATH, simple("ROLLBACK")], 3),
    "a temporary table behind DISCARD ALL": ([simple("DISCARD ALL"), simple("CREATE TEMP TABLE secret (a int)")], 2),
    "a temporary table behind DISCARD ALL in one unit": (
        [run("DISCARD ALL"), run("CREATE TEMP TABLE secret (a int)"), SYNC], 1),
    "TimeZone, then an error": ([simple("SET TimeZone = 'Asia/Tokyo'"), simple("INSERT INTO no_such VALUES (1)")], 2),
}


@pytest.mark.parametrize("reset_query", ["", "RESET ALL"], ids=["DISCARD ALL", "own reset query"])
def test_nothing_that_was_set_in_a_pipeline_reaches_the_next_client(cluster, schema, reset_query):
    settings = "query_wait_timeout = 20" + (f"\nserver_reset_query = {reset_query}" if reset_query else "")
    with poolers.for_cluster(cluster, schema, "pool_size=1", settings, wait=False) as pooler:
        for what, (parts, ready) in LEAKS.items():
            with connected(pooler.port) as client:
                client.send(*parts)
                client.until("Z", ready)
                if "temporary" not in what and "committed" not in what:      # those keep the server until they leave
                    check_nothing_is_left(pooler, what)
            check_nothing_is_left(pooler, what)


def check_nothing_is_left(pooler, what: str) -> None:
    with connected(pooler.port) as other:
        answer = other.query("INSERT INTO written VALUES (1, 'x') RETURNING current_setting('search_path'), "
                             "current_setting('TimeZone')")
        assert answer.sqlstates == [], (what, answer.errors)
        assert answer.rows[0][0] == '"$user", public', what
        assert answer.rows[0][1] != "Asia/Tokyo", what
        assert other.query("SELECT to_regclass('secret') /* pgweir: primary */").rows == [(None,)], what


def test_a_prepared_statement_means_what_it_meant_under_its_own_clients_settings(any_weir):
    """Literals become values when a statement is parsed: two clients with different settings must not share one."""
    sql = "SELECT extract(epoch FROM timestamptz '2026-01-01 00:00')::int, date '01/02/2026'::text, interval '1-2'::text"
    answers = []
    for zone, style in (("UTC", "ISO, MDY"), ("Asia/Tokyo", "ISO, DMY"), ("UTC", "ISO, MDY")):
        with connected(any_weir.port, TimeZone=zone, DateStyle=style) as client:
            client.send(parse(sql, "literal"), bind(name="literal"), execute(), SYNC)
            answers.append(client.until("Z").rows[0][:2])
    assert answers[0] == answers[2] == ("1767225600", "2026-01-02")
    assert answers[1] == ("1767193200", "2026-02-01")


def test_a_statement_whose_result_changed_can_be_prepared_again(any_weir, direct):
    """It is shared under a name of ours, so a client's own Close does not take it off the server."""
    direct.query("ALTER TABLE shape DROP COLUMN IF EXISTS extra")
    with connected(any_weir.port) as client:
        def step(*parts: bytes):
            client.send(simple("BEGIN"), *parts, SYNC, simple("COMMIT"))       # so that it is the primary's
            return client.until("Z", 3)
        assert step(parse("SELECT * FROM shape", "s"), bind(name="s"), execute()).sqlstates == []
        direct.query("ALTER TABLE shape ADD COLUMN extra int")
        assert step(bind(name="s"), execute()).sqlstates == ["0A000"]
        answer = step(close("S", "s"), parse("SELECT * FROM shape", "s"), bind(name="s"), execute())
        assert answer.sqlstates == [] and answer.rows == [("1", None)]


def test_statements_that_a_function_deallocates_do_not_spoil_the_server(any_weir):
    with connected(any_weir.port) as client:
        client.send(parse("INSERT INTO written VALUES (1, 'd') RETURNING 3", "s"), SYNC)
        client.until("Z")
        client.send(bind(name="s"), execute(), SYNC)
        assert client.until("Z").rows == [("3",)]
        client.query("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
        for _ in range(2):
            client.send(bind(name="s"), execute(), SYNC)
            answer = client.until("Z")
        assert answer.rows == [("3",)]


@pytest.mark.parametrize("discard", ["DISCARD ALL", "DEALLOCATE ALL"])
@pytest.mark.parametrize("extended", [False, True])
def test_statements_prepared_behind_a_discard_in_the_same_pipeline(any_weir, discard, extended):
    write = "INSERT INTO written VALUES (2, 'behind') RETURNING 4"
    with connected(any_weir.port) as client:
        client.send(parse(write, "a"), SYNC)
        client.until("Z")
        client.send(run(discard) + SYNC if extended else simple(discard), parse(write, "a"), bind(name="a"), execute(), SYNC)
        answer = client.until("Z", 2)
        assert answer.sqlstates == [] and answer.rows == [("4",)]
        for _ in range(2):
            client.send(bind(name="a"), execute(), SYNC)
            assert client.until("Z").rows == [("4",)]
    with connected(any_weir.port) as other:
        other.send(parse(write, "b"), bind(name="b"), execute(), SYNC)
        assert other.until("Z").rows == [("4",)]


# ---------------------------------------------------------------------------------------- reads that run again

def test_a_read_that_runs_again_still_has_the_statement_that_its_unit_closes(weir):
    with connected(weir.port) as client:
        client.send(parse("SELECT 1 WHERE counts() > 0", "s"), SYNC)
        client.until("Z")
        for name in ("s", ""):
            if not name:
                client.send(parse("SELECT 2 WHERE counts() > 0"), SYNC)
                client.until("Z")
            client.send(bind(name=name), execute(), close("S", name), SYNC)
            answer = client.until("Z")
            assert answer.sqlstates == [] and answer.rows, answer
            client.send(bind(name=name), execute(), SYNC)
            assert client.until("Z").sqlstates == ["26000"]


def test_a_flushed_describe_that_a_replica_refuses_is_answered(weir):
    """No Sync is on its way that would bring a ReadyForQuery after the replica's error."""
    with connected(weir.port) as client:
        for parts in ((parse("SELECT * FROM no_such"), describe("S", "")), (describe("P", "nowhere"),), (describe("S", "nobody"),)):
            client.send(*parts, FLUSH)
            assert client.until("E").sqlstates[0] in ("42P01", "34000", "26000")
            client.send(run("SELECT 'skipped'"), SYNC)
            assert client.until("Z").kinds == "Z"
            assert client.query("SELECT 1").rows == [("1",)]


# ---------------------------------------------------------------------------------------- cancel

def test_a_cancel_that_hits_the_settings_of_a_client_ends_its_unit_only(cluster, weir):
    """Whenever it comes: an answer or 57014, and the connection lives."""
    with connected(weir.port) as client:
        client.query("SET search_path = public, hidden")
        for _ in range(20):
            others_are_served(weir)              # so that the settings have to be brought again
            client.send(simple("INSERT INTO written VALUES (1, 'c')"))
            send_cancel(weir.port, client.key)
            answer = client.until("Z")
            assert answer.tags == ["INSERT 0 1"] or answer.sqlstates == ["57014"]


# ---------------------------------------------------------------------------------------- reload

def test_a_reload_that_ends_the_split_in_the_middle_of_things(cluster, schema):
    with poolers.for_cluster(cluster, schema) as pooler:
        with connected(pooler.port) as writer, connected(pooler.port) as half, connected(pooler.port) as idle:
            writer.query("BEGIN")
            writer.query("INSERT INTO written VALUES (1, 'reload')")
            half.send(parse("SELECT 1"))                 # a unit is being collected
            idle.query("SELECT 1")
            pooler.write_ini(poolers.ini_for(cluster, schema, split=False))
            pooler.console("RELOAD")
            assert writer.query("COMMIT").tags == ["COMMIT"]
            half.send(run("SELECT 2"), SYNC)
            assert half.until("Z").rows == [("2",)]
            assert idle.query("SELECT 3").rows == [("3",)]
            pooler.write_ini(poolers.ini_for(cluster, schema))
            pooler.console("RELOAD")
            assert writer.query("SELECT 4").rows == [("4",)]


# ---------------------------------------------------------------------------------------- writes of those who are not split

def test_writes_of_a_user_who_is_not_split_are_known_to_those_who_are(cluster, schema):
    with poolers.for_cluster(cluster, schema, settings="[users]\nother = read_split=off") as pooler:
        with connected(pooler.port, user="other") as writer, connected(pooler.port) as reader:
            for replica in cluster.replicas:
                replica.pause_replay()
            try:
                writer.query("BEGIN")
                writer.query("INSERT INTO written VALUES (901, 'unsplit')")
                writer.query("COMMIT")
                writer.send(run("INSERT INTO written VALUES ($1, 'unsplit')", "902"), SYNC)
                writer.until("Z")
                assert reader.query("SELECT count(*) FROM written WHERE word = 'unsplit'").rows == [("2",)]
            finally:
                for replica in cluster.replicas:
                    replica.resume_replay()


# ---------------------------------------------------------------------------------------- memory

def test_notices_without_end_do_not_pile_up_in_front_of_the_first_row(weir):
    with connected(weir.port) as client:
        answer = client.query("SELECT chatty(1000)")
        assert len(answer.notices) == 1000 and answer.rows == [("1000",)]
