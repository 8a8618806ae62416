"""Unusual and hostile orders of messages: what one client does must never reach another, hang, or break the books."""
from __future__ import annotations

import struct

import pytest

import pooler as poolers
from cluster import wait_for
from wire import FLUSH, SYNC, Wire, bind, close, connected, describe, error_fields, execute, message, parse, run, simple, text

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
