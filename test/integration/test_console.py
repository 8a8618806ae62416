"""The admin console: the columns PgBouncer 1.25.2 has, and what is new in commands of its own."""
from __future__ import annotations

import asyncio
import pathlib
import re
import subprocess

import asyncpg
import psycopg
import psycopg2
import pytest

import pooler as poolers
import wire
from cluster import HOST, clean_environment, run_as, wait_for
from wire import Wire, connected, simple

CONTRACT = pathlib.Path(__file__).parents[1] / "data" / "pgbouncer"


def contract(name: str) -> list[list[str]]:
    """The facts of one file, split at tabs."""
    lines = (CONTRACT / name).read_text().splitlines()
    return [(line + "\t\t\t").split("\t")[:4] for line in lines if line and not line.startswith("#")]


TEXT, INT4, INT8, NUMERIC = 25, 23, 20, 1700
OIDS = {"": TEXT, "int4": INT4, "int8": INT8, "numeric": NUMERIC}
# What it has to be: name and type of each column. SHOW FDS is refused.
COLUMNS = {words.removeprefix("SHOW "): [(column.partition(":")[0], OIDS[column.partition(":")[2]]) for column in columns.split()]
           for words, _, _, columns in contract("console.tsv") if words.startswith("SHOW ") and words != "SHOW FDS" and columns}
LISTS = ("databases users peers pools peer_pools free_clients used_clients login_clients free_servers used_servers dns_names dns_zones "
         "dns_queries dns_pending").split()


@pytest.fixture(scope="module")
def weir(cluster, db):
    cluster.primary.execute("CREATE TABLE things (n int); GRANT ALL ON things TO PUBLIC; INSERT INTO things VALUES (1)", db)
    cluster.wait_caught_up()
    with poolers.for_cluster(cluster, db, settings="stats_users = reader\nmax_client_conn = 200",
                             userlist=poolers.USERLIST + '"reader" ""\n') as pooler:
        yield pooler


def columns(answer: wire.Answer) -> list[tuple[str, int]]:
    """(name, type) of a RowDescription."""
    import struct
    for kind, body in answer:
        if kind == "T":
            count, at, found = struct.unpack_from("!H", body)[0], 2, []
            for _ in range(count):
                end = body.index(0, at)
                found.append((body[at:end].decode(), struct.unpack_from("!I", body, end + 7)[0]))
                at = end + 19
            return found
    return []


@pytest.mark.parametrize("show", list(COLUMNS))
def test_show_has_exactly_the_columns_of_pgbouncer(weir, show):
    with connected(weir.port) as client, connected(weir.port, "admin", "pgbouncer") as console:
        client.query("SELECT 1")
        answer = console.query(f"SHOW {show}")
        assert not answer.errors, answer.errors
        assert columns(answer) == COLUMNS[show]
        assert answer.tags == ["SHOW"]
        lower = console.query(f"show {show.lower()};")
        assert columns(lower) == columns(answer)
        assert columns(console.query(f"SELECT {show.lower()}")) == columns(answer)


def test_version_lists_state_and_config(weir):
    assert weir.console("SHOW VERSION")[0]["version"].startswith("PgBouncer 1.25.2")
    assert [row["list"] for row in weir.console("SHOW LISTS")] == LISTS
    assert {row["key"]: row["value"] for row in weir.console("SHOW STATE")} == {"active": "yes", "paused": "no", "suspended": "no"}
    rows = {row["key"]: row for row in weir.console("SHOW CONFIG")}
    assert rows["listen_port"]["value"] == str(weir.port) and rows["listen_port"]["changeable"] == "no"
    assert rows["unix_socket_mode"]["default"] == "0777" and rows["default_pool_size"]["value"] == "20"
    assert rows["query_wait_timeout"] == {"key": "query_wait_timeout", "value": "120", "default": "120", "changeable": "yes"}
    names = [row["name"] for row in weir.console("SHOW TOTALS")]
    assert "total_xact_count" in names and "avg_query_time" in names


def test_show_config_has_every_setting_with_its_default(weir):
    rows = {row["key"]: row for row in weir.console("SHOW CONFIG")}
    for name, default, changeable, later in contract("settings.tsv"):
        if later:
            assert name not in rows
            continue
        assert (rows[name]["default"], rows[name]["changeable"]) == (default, changeable), name


def test_set_of_what_only_a_restart_changes_succeeds_and_does_nothing(weir):
    with connected(weir.port, "admin", "pgbouncer") as console:
        before = {row["key"]: row["value"] for row in weir.console("SHOW CONFIG")}
        for name, _, changeable, _ in contract("settings.tsv"):
            if changeable == "no":
                assert console.query(f"SET {name} = '17'").tags == [f"SET {name}=17"]
        assert {row["key"]: row["value"] for row in weir.console("SHOW CONFIG")} == before


@pytest.mark.parametrize("name, value", [("client_encoding", "UTF-8"), ("default_transaction_isolation", "read committed"),
                                         ("standard_conforming_strings", "on"), ("datestyle", "ISO"), ("timezone", "GMT")])
def test_parameters_that_drivers_ask_for_and_set(weir, name, value):
    with connected(weir.port, "admin", "pgbouncer") as console, connected(weir.port, "reader", "pgbouncer") as reader:
        answer = console.query(f"SHOW {name}")
        assert columns(answer) == [(name, TEXT)] and answer.rows == [(value,)] and answer.tags == ["SHOW"]
        for who in (console, reader):
            answer = who.query(f"SET {name} TO 'x'")
            assert answer.notices == ["SET ignored"] and answer.tags == ["SET"] and not answer.errors
        assert reader.query("SET query_timeout = 1").errors[0]["M"] == "admin access needed"


@pytest.mark.parametrize("words", [row[0] for row in contract("console.tsv") if row[1] == "admin"])
def test_orders_are_for_admins(weir, words):
    with connected(weir.port, "reader", "pgbouncer") as reader:
        assert reader.query(words + (" query_timeout = 1" if words == "SET" else "")).errors[0]["M"] == "admin access needed"


@pytest.mark.parametrize("sql, text", [
    ("PAUSE nowhere", "no such database: nowhere"), ("RESUME nowhere", "no such database: nowhere"),
    ("KILL nowhere", "no such database: nowhere"), ("RECONNECT nowhere", "no such database: nowhere"),
    ("WAIT_CLOSE nowhere", "no such database: nowhere"), ("DISABLE nowhere", "no such database: nowhere"),
    ("ENABLE nowhere", "no such database: nowhere"), ("DISABLE", "a database is required"), ("ENABLE", "a database is required"),
    ("PAUSE pgbouncer", "cannot pause admin db: pgbouncer"), ("RESUME", "pooler is not paused/suspended"),
    ("RESUME t", "database t is not paused"), ("KILL_CLIENT x", "invalid client pointer supplied"),
    ("KILL_CLIENT 999999", "client not found"), ("SET nonsense = 1", "SET failed"),
])
def test_orders_that_can_not_be_carried_out(weir, sql, text):
    with connected(weir.port, "admin", "pgbouncer") as console:
        [error] = console.query(sql).errors
        assert (error["S"], error["C"], error["M"]) == ("ERROR", "08P01", text)
        assert set(error) == {"S", "C", "M"}


def test_suspend_stops_everything_until_resume(weir):
    def state() -> dict:
        return {row["key"]: row["value"] for row in weir.console("SHOW STATE")}
    with connected(weir.port) as busy, connected(weir.port) as idle, connected(weir.port, "admin", "pgbouncer") as console:
        busy.query("BEGIN")
        busy.send(simple("SELECT pg_sleep(0.3), 'under way'"))
        assert console.query("SUSPEND").tags == ["SUSPEND"]
        assert state() == {"active": "no", "paused": "no", "suspended": "yes"}
        assert console.query("SUSPEND").errors[0]["M"] == "already suspended/paused"
        assert console.query("PAUSE").errors[0]["M"] == "already suspended/paused"
        idle.send(simple("SELECT 'waits'"))
        late = connected(weir.port)
        late.send(simple("SELECT 'came later'"))
        assert busy.quiet_for(0.6) and idle.quiet_for(0.1) and late.quiet_for(0.1)
        assert console.query("RESUME").tags == ["RESUME"]
        assert busy.until("Z").rows[0][1] == "under way"
        assert busy.query("COMMIT").tags == ["COMMIT"]
        assert idle.until("Z").rows == [("waits",)] and late.until("Z").rows == [("came later",)]
        late.close()
        assert state() == {"active": "yes", "paused": "no", "suspended": "no"}
        console.query("PAUSE t")
        assert console.query("SUSPEND").errors[0]["M"] == "cannot suspend with paused databases"
        console.query("RESUME t")


def test_show_fds_says_what_to_use_instead(weir):
    with connected(weir.port, "admin", "pgbouncer") as console:
        [error] = console.query("SHOW FDS").errors
        assert "so_reuseport" in error["M"] and console.query("SHOW VERSION").rows


def test_disable_refuses_newcomers_and_enable_lets_them_in(weir):
    with connected(weir.port) as client, connected(weir.port, "admin", "pgbouncer") as console:
        assert console.query("DISABLE t").tags == ["DISABLE"]
        with Wire(weir.port) as other:
            assert other.login().errors[0]["M"] == 'database "t" is disabled'
        assert client.query("SELECT 1").rows == [("1",)]
        assert console.query("ENABLE t").tags == ["ENABLE"]
        with connected(weir.port) as other:
            assert other.query("SELECT 2").rows == [("2",)]


def test_help_is_a_notice(weir):
    with connected(weir.port, "admin", "pgbouncer") as console:
        answer = console.query("SHOW HELP")
        assert answer.notices == ["Console usage"] and not answer.rows


def test_clients_and_servers_are_listed(weir):
    with connected(weir.port, application_name="seen in show clients") as client:
        client.query("BEGIN")
        client.query("SELECT 1")
        [row] = [row for row in weir.console("SHOW CLIENTS") if row["application_name"] == "seen in show clients"]
        assert (row["type"], row["user"], row["database"], row["state"], row["addr"]) == ("C", "app", "t", "active", HOST)
        assert row["link"]
        servers = weir.console("SHOW SERVERS")
        [linked] = [server for server in servers if server["ptr"] == row["link"]]
        assert linked["link"] == row["ptr"] and linked["state"] == "active" and linked["remote_pid"] > 0
        pool = [pool for pool in weir.console("SHOW POOLS") if pool["database"] == "t" and pool["user"] == "app"][0]
        assert pool["cl_active"] >= 1 and pool["sv_active"] >= 1
        client.query("COMMIT")
    assert any(row["database"] == "pgbouncer" for row in weir.console("SHOW DATABASES"))
    assert any(row["database"] == "pgbouncer" for row in weir.console("SHOW POOLS"))


def test_stats_count(weir):
    def stats() -> dict:
        return [row for row in weir.console("SHOW STATS") if row["database"] == "t"][0]
    before = stats()
    with connected(weir.port) as client:
        for _ in range(10):
            client.query("SELECT 1")
        client.query("BEGIN")
        client.query("SELECT 1")
        client.query("SELECT 1")
        client.query("COMMIT")
    after = stats()
    assert after["total_query_count"] - before["total_query_count"] == 14
    assert after["total_xact_count"] - before["total_xact_count"] == 11
    assert after["total_received"] > before["total_received"] and after["total_sent"] > before["total_sent"]


def test_show_nodes_and_routing(cluster, weir):
    rows = [row for row in weir.console("SHOW NODES") if row["database"] == "t"]
    assert sorted((row["node"], row["role"]) for row in rows) == sorted(
        [(f"{HOST}:{cluster.primary.port}", "primary")] + [(f"{HOST}:{replica.port}", "replica") for replica in cluster.replicas])
    for row in rows:
        assert row["health"] == "ok", row
        assert re.fullmatch(r"[0-9A-F]+/[0-9A-F]+", row["lsn"]), row
    assert set(weir.console("SHOW ROUTING")[0]) == {"database", "target", "reason", "units"}


@pytest.mark.parametrize("sql, target, reason", [
    ("SELECT * FROM things", "replica", "read"),
    ("INSERT INTO things VALUES (1)", "primary", "write"),
    ("SELECT * FROM things FOR UPDATE", "primary", "write"),
    ("SELECT pg_advisory_lock(1)", "primary", None),
    ("BEGIN", "primary", "transaction_control"),
    ("SELECT 'it''s; fine'", "replica", "read"),
])
def test_explain_route_tells_where_a_statement_would_go(weir, sql, target, reason):
    [row] = [row for row in weir.console(f"EXPLAIN ROUTE {sql}") if row["database"] == "t"]
    assert row["target"] == target, row
    if reason:
        assert row["reason"] == reason, row


def test_pause_waits_and_resume_lets_go(weir):
    with connected(weir.port) as client, connected(weir.port) as other, connected(weir.port, "admin", "pgbouncer") as console:
        client.query("BEGIN")
        client.query("SELECT 1")
        console.send(simple("PAUSE"))
        assert console.quiet_for(0.3)
        client.query("COMMIT")
        assert console.until("Z").tags == ["PAUSE"]
        assert {row["key"]: row["value"] for row in weir.console("SHOW STATE")}["paused"] == "yes"
        other.send(simple("SELECT 'after the pause'"))
        assert other.quiet_for(0.3)
        assert console.query("RESUME").tags == ["RESUME"]
        assert other.until("Z").rows == [("after the pause",)]
        assert console.query("RESUME").errors[0]["M"] == "pooler is not paused/suspended"


def test_pause_of_one_database(cluster, db):
    more = f"second = host={HOST} port={cluster.primary.port} dbname={db}"
    with poolers.for_cluster(cluster, db, split=False, more_databases=more) as pooler:
        with connected(pooler.port) as client, connected(pooler.port, database="second") as second, \
                connected(pooler.port, "admin", "pgbouncer") as console:
            assert console.query("PAUSE t").tags == ["PAUSE"]
            client.send(simple("SELECT 1"))
            assert client.quiet_for(0.2)
            assert second.query("SELECT 2").rows == [("2",)]
            assert console.query("RESUME t").tags == ["RESUME"]
            assert client.until("Z").rows == [("1",)]
            assert console.query("PAUSE nowhere").errors[0]["M"] == "no such database: nowhere"
            assert console.query("KILL t").tags == ["KILL"]
            client.until_closed()
            assert second.query("SELECT 3").rows == [("3",)]
            assert console.query("RESUME t").tags == ["RESUME"]
        assert pooler.value("SELECT 4") == 4


def test_reconnect_replaces_servers(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", split=False) as pooler, connected(pooler.port) as client:
        first = client.query("SELECT pg_backend_pid()").rows
        pooler.console("RECONNECT t")
        wait_for("another server", lambda: client.query("SELECT pg_backend_pid()").rows != first)


def test_kill_client_ends_one(weir):
    with connected(weir.port, application_name="to be killed") as client, connected(weir.port) as other:
        [row] = [row for row in weir.console("SHOW CLIENTS") if row["application_name"] == "to be killed"]
        weir.console(f"KILL_CLIENT {row['id']}")
        assert client.until_closed().errors[0]["M"] == "admin forced disconnect"
        assert other.query("SELECT 1").rows == [("1",)]


def test_set_changes_a_setting(weir):
    with connected(weir.port, "admin", "pgbouncer") as console:
        assert console.query("SET query_wait_timeout = 99").tags[0].startswith("SET")
        assert {row["key"]: row["value"] for row in weir.console("SHOW CONFIG")}["query_wait_timeout"] == "99"
        assert console.query("SET query_wait_timeout = '120'").tags[0].startswith("SET")
        assert console.query("SET query_wait_timeout = soon").errors[0]["M"] == "SET failed"


@pytest.mark.parametrize("sql", ["", ";", "BEGIN", "SHOW nonsense", "DROP TABLE users", "select 1", "SHOW", "\\d"])
def test_what_the_console_does_not_know_is_an_error_and_no_end(weir, sql):
    with connected(weir.port, "admin", "pgbouncer") as console:
        answer = console.query(sql)
        assert answer.errors and answer.errors[0]["S"] == "ERROR"
        assert console.query("SHOW VERSION").rows


def test_who_may_use_the_console(weir):
    with connected(weir.port, "reader", "pgbouncer") as console:
        assert console.query("SHOW POOLS").rows
        assert console.query("RELOAD").errors[0]["M"] == "admin access needed"
    with Wire(weir.port) as client:
        assert client.login("app", "pgbouncer").errors[0]["M"] == "not allowed"


def test_psql_on_the_unix_socket_needs_no_password_for_the_same_uid(weir):
    done = subprocess.run(["psql", "-X", "-At", "-h", str(weir.folder), "-p", str(weir.port), "-U", "pgbouncer", "-d", "pgbouncer",
                           "-c", "SHOW VERSION"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=clean_environment(), cwd="/tmp", timeout=60, **run_as())
    assert done.stdout.startswith("PgBouncer 1.25.2"), done.stdout
    with Wire(weir.port) as client:
        assert client.login("pgbouncer", "pgbouncer").kinds[-1] == "E"      # not over TCP


def test_drivers_with_the_extended_protocol_can_use_it(weir):
    with psycopg.connect(weir.dsn("pgbouncer", "admin"), autocommit=True) as connection:
        assert connection.execute("SHOW VERSION").fetchone()[0].startswith("PgBouncer")
        assert connection.execute("SHOW POOLS").fetchall()
    connection = psycopg2.connect(weir.dsn("pgbouncer", "admin"))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SHOW STATS")
        assert cursor.fetchall()
    connection.close()
    with connected(weir.port, "admin", "pgbouncer") as console:
        for _ in range(2):
            answer = console.extended("SHOW NODES")
            assert answer.kinds.startswith("12T") and answer.rows and not answer.errors
        console.send(wire.parse("SHOW LISTS", "named"), wire.describe("S", "named"), wire.SYNC)
        assert [name for name, _ in columns(console.until("Z"))] == ["list", "items"]
        console.send(wire.bind(name="named"), wire.execute(), wire.SYNC)
        assert len(console.until("Z").rows) == len(LISTS)
        assert console.extended("nonsense").errors and console.query("SHOW VERSION").rows

    async def with_asyncpg() -> None:
        connection = await asyncpg.connect(host=HOST, port=weir.port, database="pgbouncer", user="admin", ssl=False, timeout=30)
        assert (await connection.fetch("SHOW VERSION"))[0]["version"].startswith("PgBouncer")
        assert await connection.fetch("SHOW NODES")
        await connection.close()
    asyncio.run(with_asyncpg())


def test_the_console_has_a_second_name(weir):
    with connected(weir.port, "admin", "pgweir") as console:
        assert console.query("SHOW VERSION").rows


def test_shutdown_ends_the_process(cluster, db):
    with poolers.for_cluster(cluster, db, split=False) as pooler:
        with connected(pooler.port, "admin", "pgbouncer") as console:
            console.send(simple("SHUTDOWN"))
            console.until_closed()
        assert pooler.wait_exit() == 0
