"""[table_rules]: single tables are read by a rule of their own."""
from __future__ import annotations

import psycopg2
import pytest

import pooler as poolers
from cluster import wait_for
from test_read_split import ran_on, runs_on_replica
from wire import connected



@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("SET ROLE app; CREATE TABLE secret (n int); CREATE TABLE feed (n int); CREATE TABLE plain (n int);"
                            "CREATE TABLE events (n int) PARTITION BY RANGE (n);"
                            "CREATE TABLE events_old PARTITION OF events FOR VALUES FROM (0) TO (100);"
                            "CREATE VIEW shown AS SELECT n FROM secret", db)
    cluster.wait_caught_up()


RULES = """
[table_rules]
public.sec* = primary
feed = eventual
public.events_old = primary
"""


def ini(cluster, db, rules: str) -> str:
    return poolers.ini_for(cluster, db, settings=rules)


def on_replica(cluster, client, table: str) -> bool:
    return ran_on(cluster, client, f"SELECT * FROM {table}") == "replica"


def test_each_table_is_judged_by_its_own_rule(cluster, db):
    with poolers.running(ini(cluster, db, RULES)) as weir:
        with connected(weir.port) as client:
            assert runs_on_replica(cluster, client, "SELECT * FROM plain")
            for one in ("secret", "shown", "events", "events_old", "plain, secret", "feed, secret"):
                assert ran_on(cluster, client, f"SELECT * FROM {one}") == "primary", one
            assert weir.routing()[("primary", "table_rule")] >= 6
            explained = weir.console("EXPLAIN ROUTE SELECT * FROM secret")[0]
            assert (explained["target"], explained["reason"]) == ("primary", "table_rule")
            for replica in cluster.replicas:
                replica.pause_replay()
            try:
                for table in ("feed", "plain"):
                    assert not client.query(f"INSERT INTO {table} VALUES (1)").errors
                assert on_replica(cluster, client, "feed"), "it may be stale"
                assert not on_replica(cluster, client, "plain") and not on_replica(cluster, client, "plain, feed")
                rows = {row["table"]: row["rule"] for row in weir.console("SHOW TABLES")}
                assert rows["public.feed"] == "eventual" and rows["public.plain"] is None
            finally:
                for replica in cluster.replicas:
                    replica.resume_replay()


def test_a_reload_applies_rules_at_once_and_a_bad_one_changes_nothing(cluster, db):
    with poolers.running(ini(cluster, db, "")) as weir:
        weir.wait_split(cluster)
        with connected(weir.port) as client:
            assert runs_on_replica(cluster, client, "SELECT * FROM secret")
            weir.write_ini(ini(cluster, db, "[table_rules:t]\nsecret = primary\n"))
            weir.console("RELOAD")
            assert not on_replica(cluster, client, "secret")
            weir.write_ini(ini(cluster, db, "[table_rules:t]\nsecret = seldom\n"))
            with pytest.raises(psycopg2.Error, match="RELOAD failed"):
                weir.console("RELOAD")
            weir.wait_log('secret = "seldom": expected eventual, session')
            assert not on_replica(cluster, client, "secret")
            weir.write_ini(ini(cluster, db, ""))
            weir.console("RELOAD")
            assert runs_on_replica(cluster, client, "SELECT * FROM secret")


def test_a_rule_may_be_stricter_than_the_level_in_force(cluster, db):
    with poolers.running(ini(cluster, db, "read_consistency = eventual\n[table_rules]\nplain = table\n")) as weir:
        weir.wait_split(cluster)
        for replica in cluster.replicas:
            replica.pause_replay()
        try:
            with connected(weir.port) as writer, connected(weir.port) as reader:
                for table in ("feed", "plain"):
                    assert not writer.query(f"INSERT INTO {table} VALUES (2)").errors
                assert on_replica(cluster, reader, "feed") and not on_replica(cluster, reader, "plain")
        finally:
            for replica in cluster.replicas:
                replica.resume_replay()
        cluster.wait_caught_up()
        with connected(weir.port) as reader:
            wait_for("plain is read on replicas again", lambda: on_replica(cluster, reader, "plain"))


def test_a_window_of_one_table(cluster, db):
    with poolers.running(ini(cluster, db, "[table_rules]\nfeed = window 1.5\n")) as weir:
        weir.wait_split(cluster)
        with connected(weir.port) as client:
            wait_for("feed is read on replicas", lambda: on_replica(cluster, client, "feed"))
            assert not client.query("INSERT INTO feed VALUES (3)").errors
            assert not on_replica(cluster, client, "feed")
            row = next(row for row in weir.console("SHOW TABLES") if row["table"] == "public.feed")
            assert row["rule"] == "window 1.5" and row["window_us"] == 1500000
            wait_for("the window is over", lambda: on_replica(cluster, client, "feed"))
