"""pgweir.token: what one session has written is carried, as a text, to another session, of this process or of another one."""
from __future__ import annotations

import contextlib
import re

import pytest

import pooler as poolers
from cluster import Cluster, wait_for
from test_levels import count_of, served
from test_read_split import ran_on, runs_on_replica
from wire import SYNC, connected, describe, execute, bind, parse, simple

TOKEN = re.compile(r"^[1-9][0-9]*:[1-9][0-9]*:[0-9A-F]+/[0-9A-F]+$")


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE notes (n int); CREATE TABLE quiet (n int); INSERT INTO quiet VALUES (1)", db)
    cluster.wait_caught_up()


def shown(client) -> str:
    answer = client.query("SHOW pgweir.token")
    assert not answer.errors and answer.tags == ["SHOW"]
    return answer.rows[0][0]


def lsn_of(token: str) -> int:
    high, low = token.rsplit(":", 1)[1].split("/")
    return (int(high, 16) << 32) + int(low, 16)


@contextlib.contextmanager
def paused(cluster):
    for replica in cluster.replicas:
        replica.pause_replay()
    try:
        yield
    finally:
        for replica in cluster.replicas:
            replica.resume_replay()


@pytest.mark.parametrize("level", ["session", "table"])
def test_a_token_carried_to_another_process_is_never_answered_by_something_older(cluster, db, level):
    """The other process has no other way to know of the write."""
    settings = f"read_consistency = {level}\nreplica_wait = 0"
    with served(cluster, db, settings) as (_, writer), served(cluster, db, settings) as (weir, reader), connected(weir.port) as bystander:
        for client in (reader, bystander):
            assert runs_on_replica(cluster, client, "SELECT count(*) FROM notes")
        with paused(cluster):
            for round_number in range(20):
                assert not writer.query("INSERT INTO notes VALUES (1)").errors
                token = shown(writer)
                assert TOKEN.match(token) and token.split(":")[0] == str(cluster.primary.value("SELECT system_identifier FROM pg_control_system()"))
                # What is written on the primary has got there, and somebody who brings no token goes on as before.
                written = int(cluster.primary.value("SELECT count(*) FROM notes", db))
                if round_number == 0:
                    assert ran_on(cluster, bystander, "SELECT * FROM notes") == "replica" and count_of(bystander) < written
                order = f"SET pgweir.token = '{token}'"
                answer = reader.query(order) if round_number % 2 else reader.extended(order)
                assert answer.tags == ["SET"] and answer.status == "I", answer.errors
                assert count_of(reader) == written
                assert "token_ahead" in reader.query("SHOW pgweir.last_route").rows[0][0]
        wait_for("a replica has replayed it", lambda: ran_on(cluster, reader, "SELECT * FROM notes") == "replica")
        assert count_of(reader) == written


def test_a_token_covers_what_was_seen_too_and_goes_on_to_a_third_session(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, writer), connected(weir.port) as second, connected(weir.port) as third:
        with paused(cluster):
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            written = count_of(writer)
            assert not second.query(f"SET pgweir.token = '{shown(writer)}'").errors
            assert not third.query(f"SET pgweir.token = '{shown(second)}'").errors
            assert count_of(third) == written
        # A session that only reads has seen something as well.
        with connected(weir.port) as fresh:
            assert shown(fresh) == ""
            assert not fresh.query("SET pgweir.token = ''").errors
            assert runs_on_replica(cluster, fresh, "SELECT * FROM notes")
            assert TOKEN.match(shown(fresh))


def test_a_token_raises_what_is_owed_and_never_lowers_it(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, writer), connected(weir.port) as reader:
        assert not writer.query("INSERT INTO notes VALUES (1)").errors
        older = shown(writer)
        cluster.wait_caught_up()
        with paused(cluster):
            assert not writer.query("INSERT INTO notes VALUES (2)").errors
            newer = shown(writer)
            assert lsn_of(newer) > lsn_of(older)
            written = count_of(writer)
            for order in (f"SET pgweir.token = '{newer}'", f"SET pgweir.token = '{older}'", "SET pgweir.token = ''", "RESET pgweir.token", "RESET ALL",
                          "SET pgweir.token TO DEFAULT"):
                assert not reader.query(order).errors, order
                assert count_of(reader) == written, order
            assert lsn_of(shown(reader)) >= lsn_of(newer)
            # Nor does it lower what the writer is owed for its own write.
            assert not writer.query(f"SET pgweir.token = '{older}'").errors
            assert count_of(writer) == written


def test_a_token_belongs_to_the_causal_key_while_one_is_set(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, writer), connected(weir.port) as one, connected(weir.port) as two:
        assert not two.query("SET pgweir.causal_key = 'user:another'").errors
        assert runs_on_replica(cluster, two, "SELECT * FROM notes")
        with paused(cluster):
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            written, token = count_of(writer), shown(writer)
            for client in (one, two):
                assert not client.query("SET pgweir.causal_key = 'user:token'").errors
            assert not one.query(f"SET pgweir.token = '{token}'").errors
            assert count_of(two) == written
            assert not two.query("SET pgweir.causal_key = 'user:another'").errors
            assert ran_on(cluster, two, "SELECT * FROM notes") == "replica"


def test_what_is_no_token_or_can_not_be_true_is_refused_and_changes_nothing(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, client):
        assert not client.query("INSERT INTO notes VALUES (1)").errors
        system, timeline, position = shown(client).split(":")
        for value, expected in (("garbage", "expected what SHOW pgweir.token gave"), (position, "expected what SHOW pgweir.token gave"),
                                (f"{system}:{timeline}:{position}; DROP", "expected what SHOW pgweir.token gave"),
                                (f"{system}:{timeline}:\u20ac/1", "expected what SHOW pgweir.token gave"),
                                (f"7000000000000000000:{timeline}:{position}", f"of another cluster: expected system identifier {system}"),
                                (f"{system}:{timeline}:FFFFFFFF/FFFFFFFF", "expected at most position "),
                                (f"{system}:{int(timeline) + 1}:{position}", f"expected at most timeline {timeline}")):
            for answer in (client.query(f"SET pgweir.token = '{value}'"), client.extended(f"SET pgweir.token = '{value}'")):
                assert answer.sqlstates == ["22023"] and answer.status == "I" and not answer.tags
                text = answer.errors[0]["M"]
                assert text.startswith(f'invalid value for parameter "pgweir.token": "{value}": ') and expected in text
        long = client.query(f"SET pgweir.token = '{'1' * 100000}'").errors[0]["M"]
        assert len(long) < 500
        # The key of other sessions is not poisoned by them either.
        wait_for("replicas answer", lambda: ran_on(cluster, client, "SELECT * FROM notes") == "replica")
        with pytest.raises(AssertionError, match="expected what SHOW pgweir.token gave"):
            connected(weir.port, **{"pgweir.token": "garbage"}).close()


def test_a_token_in_the_startup_packet_counts_from_the_first_read_on(cluster, db):
    with served(cluster, db, "read_consistency = session\nreplica_wait = 0") as (weir, writer):
        with paused(cluster):
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            written, token = count_of(writer), shown(writer)
            with connected(weir.port, options=f"-c pgweir.token={token}") as reader:
                assert count_of(reader) == written
            with connected(weir.port) as other:
                assert ran_on(cluster, other, "SELECT * FROM notes") == "replica"
        ahead = token.rsplit(":", 1)[0] + ":FFFFFFFF/0"
        with connected(weir.port, **{"pgweir.token": ahead}) as refused:
            refused.send(simple("SELECT 1"))
            answer = refused.until_closed()
            assert answer.sqlstates == ["22023"] and not answer.rows


def test_the_token_is_answered_in_pipelines_and_in_transactions(cluster, db):
    with served(cluster, db, "read_consistency = table\nreplica_wait = 0") as (weir, client):
        client.send(simple("INSERT INTO notes VALUES (1)"), simple("SHOW pgweir.token"), parse("SHOW pgweir.token"), bind(), describe(), execute(), SYNC,
                    simple("BEGIN"), simple("SHOW pgweir.token"), simple("COMMIT"), simple("SELECT 1"))
        assert client.until("Z").tags == ["INSERT 0 1"]
        tokens = []
        for status in ("I", "I", None, "T", None):
            answer = client.until("Z")
            if status is None:
                assert answer.tags in (["BEGIN"], ["COMMIT"])
                continue
            tokens.append(answer.rows[0][0])
            assert TOKEN.match(tokens[-1]) and answer.status == status
        assert client.until("Z").rows == [("1",)]
        assert sorted(tokens, key=lsn_of) == tokens
        wait_for("no server is kept", lambda: all(int(row["sv_active"]) == 0 for row in weir.console("SHOW POOLS") if row["database"] == "t"))


def test_a_token_outlives_a_promotion_without_asking_for_what_was_lost():
    cluster = Cluster.create()
    try:
        cluster.primary.execute("SET ROLE app; CREATE TABLE notes (n int)")
        cluster.wait_caught_up()
        new, other = cluster.replicas
        settings = "read_consistency = session\nreplica_wait = 0\nserver_login_retry = 1\nquery_wait_timeout = 60"
        with poolers.for_cluster(cluster, "postgres", settings=settings) as weir, connected(weir.port) as writer:
            assert not writer.query("INSERT INTO notes VALUES (1)").errors
            survived = shown(writer)
            cluster.wait_caught_up()
            # Nobody but the old primary will ever have this one.
            with paused(cluster):
                assert not writer.query("INSERT INTO notes VALUES (2)").errors
                lost = shown(writer)
                cluster.primary.stop("immediate")
                for replica in cluster.replicas:
                    replica.set("primary_conninfo", "")
            new.promote()
            other.set("primary_conninfo", cluster.follow_line(new).split(" = ", 1)[1].strip("'"))
            with connected(weir.port) as reader:
                wait_for("the new primary takes a write", lambda: not reader.query("INSERT INTO notes VALUES (3)").errors)
                timeline = int(survived.split(":")[1])
                assert int(shown(reader).split(":")[1]) == timeline + 1
                for token in (survived, lost):
                    with connected(weir.port) as late:
                        assert not late.query(f"SET pgweir.token = '{token}'").errors, token
                        assert ("1",) in late.query("SELECT n FROM notes").rows
                        wait_for("it does not keep the session on the primary", lambda: late.query("SELECT n FROM notes").rows and late.query(
                            "SHOW pgweir.last_route").rows[0][0].startswith("replica"))
    finally:
        cluster.stop()
