"""Lines of the log that scripts look for, each as PgBouncer writes it, where no other test stands for it."""
from __future__ import annotations

import re

import pytest

import pooler as poolers
from cluster import HOST, Cluster, wait_for
from wire import Wire, connected, simple

STAMP = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+\] "


def test_a_server_that_can_t_be_reached_is_told_in_pgbouncers_words_and_with_its_cause():
    ini = f"""
[databases]
refused = host={HOST} port=1
unknown = host=no-such-host.invalid
[pgbouncer]
listen_addr = {HOST}
listen_port = {{port}}
auth_type = trust
auth_file = {{folder}}/userlist.txt
unix_socket_dir =
"""
    with poolers.running(ini) as pooler:
        for database, cause, word in (("refused", f"connect to {HOST}:1: Connection refused", "connect failed"),
                                      ("unknown", "resolve no-such-host.invalid: ", "server DNS lookup failed")):
            with Wire(pooler.port) as client:
                [error] = client.login("app", database).errors
            # The client is told the cause; a log watcher finds the word, and the cause in a line of its own before it.
            assert error["M"].startswith(f"server login failed: {cause}"), error
            pooler.wait_log(f"closing because: {word} (age=0s)")
            who = rf"S-0x[0-9a-f]+: {database}/app@[^ ]+ "
            assert re.search(rf"{STAMP}WARNING {who}{re.escape(cause)}[^\n]*\n{STAMP[1:]}LOG {who}closing because: {word} \(age=0s\)$",
                             pooler.log(), re.MULTILINE), pooler.log()


def test_each_new_server_connection_is_logged_once(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=3", split=False) as pooler:
        clients = [connected(pooler.port) for _ in range(3)]
        pids = set()
        for client in clients:
            assert not client.query("BEGIN").errors
            pids |= set(client.query("SELECT pg_backend_pid()").rows)
        assert len(pids) == 3
        for client in clients:
            client.query("COMMIT")
            for _ in range(3):
                client.query("SELECT 1")
            client.close()
        lines = re.findall(rf"{STAMP}LOG S-0x[0-9a-f]+: t/app@[^ ]+ new connection to server \(from {HOST}:(\d+)\)$", pooler.log(), re.MULTILINE)
        assert len(lines) == len(set(lines)) == pooler.log().count(f"t/app@{HOST}:{cluster.primary.port} new connection to server") == 3


def test_orders_of_the_console_are_logged(cluster, db):
    with poolers.for_cluster(cluster, db, split=False) as pooler:
        for command, line in (("RELOAD", "RELOAD command issued"), ("PAUSE t", "PAUSE command issued: t"), ("RESUME t", "RESUME command issued: t"),
                              ("RECONNECT t", "RECONNECT command issued: t"), ("SUSPEND", "SUSPEND command issued"),
                              ("RESUME", "RESUME command issued: all databases")):
            pooler.console(command)
            assert re.search(rf"{STAMP}LOG {line}$", pooler.log(), re.MULTILINE), (line, pooler.log_tail())


def test_a_value_that_the_server_refuses_ends_its_client_with_the_reason(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", split=False) as pooler:
        with connected(pooler.port, extra_float_digits="many") as client:
            client.send(simple("SELECT 1"))
            assert client.until_closed().errors[-1]["M"] == (
                'invalid server parameter: invalid value for parameter "extra_float_digits": "many"')
        pooler.wait_log('closing because: invalid server parameter: invalid value for parameter "extra_float_digits": "many" (age=')
        assert pooler.value("SELECT 1") == 1            # The next client of that server has nothing of it.


@pytest.fixture
def own():
    """A primary of this test's own."""
    made = Cluster.create(replicas=0)
    yield made
    made.stop()


def test_a_node_without_a_line_for_replication_says_so(own):
    node = own.primary
    path = node.data / "pg_hba.conf"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "replication" not in line))
    node.execute("SELECT pg_reload_conf()")
    said = f"no pg_hba.conf entry for replication connection from host \"{HOST}\""
    with poolers.for_cluster(own, "postgres", split=False) as pooler:
        def refused() -> bool:
            with Wire(pooler.port) as client:
                errors = client.login("postgres", "t", replication="true").errors
                return bool(errors) and errors[0]["M"].startswith(said)
        wait_for("the node has read its rules", refused)
        pooler.wait_log(f"server login failed: FATAL {said}")


def test_a_backend_that_is_killed_in_a_query_speaks_first_and_the_pooler_after_it(cluster, db):
    with poolers.for_cluster(cluster, db, split=False, settings="sqlstate_style = pgbouncer") as pooler, connected(pooler.port) as client:
        client.send(simple("SELECT pg_sleep(60) /* killed */"))
        wait_for("it is killed", lambda: cluster.primary.value(
            f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{db}' AND query LIKE '%/* killed */' AND state = 'active'"
            " AND pid <> pg_backend_pid()"))
        assert [(error["S"], error["C"], error["M"]) for error in client.until_closed().errors] == [
            ("FATAL", "57P01", "terminating connection due to administrator command"), ("FATAL", "08P01", "server conn crashed?")]


def test_clients_and_servers_are_counted_together(cluster, db):
    with poolers.for_cluster(cluster, db, split=False, wait=False) as pooler:
        with connected(pooler.port) as first, connected(pooler.port) as second:
            first.query("BEGIN")
            second.query("BEGIN")
            found = [(kind, int(number, 16)) for kind, number in re.findall(r"([CS])-(0x[0-9a-f]+): t/app@[^ ]+ (?:login attempt|new connection)", pooler.log())]
            numbers = [number for _, number in found]
            assert len(found) == len(set(numbers)) == 4 and max(numbers) - min(numbers) == 3, found
            shown = {row["id"] for show in ("CLIENTS", "SERVERS") for row in pooler.console(f"SHOW {show}") if row["database"] == "t"}
            assert shown == set(numbers)
