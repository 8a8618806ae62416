"""How many servers there are, who gets them, and when they go."""
from __future__ import annotations

import threading

import psycopg2
import pytest

import pooler as poolers
import wire
from cluster import wait_for
from wire import Wire, connected, simple


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("CREATE TABLE things (n int); GRANT ALL ON things TO PUBLIC; INSERT INTO things VALUES (1)", db)
    cluster.wait_caught_up()


def servers(node, db: str, user: str | None = None) -> int:
    """Connections to `db` on a node, but the monitor's and our own."""
    who = f"usename = '{user}'" if user else "usename <> 'postgres'"
    return node.value(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{db}' AND {who}")


def backends(node, db: str) -> set[int]:
    return {row[0] for row in node.rows(
        f"SELECT pid FROM pg_stat_activity WHERE datname = '{db}' AND usename <> 'postgres'")}


def sleepers(pooler, count: int, seconds: float, **login) -> list[Wire]:
    """Clients that each keep a server for a while."""
    clients = [connected(pooler.port, **login) for _ in range(count)]
    for client in clients:
        client.send(simple(f"SELECT pg_sleep({seconds})"))
    return clients


def holders(pooler, count: int, **login) -> list[Wire]:
    """Clients that each keep a server until they COMMIT."""
    clients = [connected(pooler.port, **login) for _ in range(count)]
    for client in clients:
        assert not client.query("BEGIN; SELECT 1").errors
    return clients


def close_all(clients: list[Wire]) -> None:
    for client in clients:
        client.close()


def test_transactions_share_the_servers_of_a_pool(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=3", split=False) as pooler:
        clients = [connected(pooler.port) for _ in range(20)]
        for _ in range(5):
            for client in clients:
                client.send(simple("SELECT pg_sleep(0.001)"))
            for client in clients:
                assert not client.until("Z").errors
        assert 1 <= servers(cluster.primary, db) <= 3
        close_all(clients)


def test_a_transaction_keeps_its_server(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=2", split=False) as pooler:
        with connected(pooler.port) as one, connected(pooler.port) as two:
            one.query("BEGIN")
            pid = one.query("SELECT pg_backend_pid()").rows
            for _ in range(5):
                assert two.query("SELECT pg_backend_pid()").rows != pid
                assert one.query("SELECT pg_backend_pid()").rows == pid
            one.query("COMMIT")


def test_pool_size_counts_for_each_node(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=2") as pooler:
        clients = [connected(pooler.port) for _ in range(12)]
        try:
            for _ in range(10):
                for client in clients:
                    client.send(simple("SELECT count(*) FROM things, generate_series(1, 20000)"))
                for client in clients:
                    assert not client.until("Z").errors
            for client in clients[:6]:
                client.send(simple("SELECT pg_sleep(0.05)"))
            for client in clients[:6]:
                assert not client.until("Z").errors
            for node in cluster.nodes:
                assert 1 <= servers(node, db) <= 2, node.name
        finally:
            close_all(clients)


def test_replica_pool_size_limits_replicas_alone(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=4 replica_pool_size=1") as pooler:
        clients = [connected(pooler.port) for _ in range(12)]
        try:
            for _ in range(5):
                for client in clients:
                    client.send(simple("SELECT count(*) FROM things, generate_series(1, 20000)"))
                for client in clients:
                    assert not client.until("Z").errors
            for replica in cluster.replicas:
                assert servers(replica, db) == 1
        finally:
            close_all(clients)


def test_max_db_connections_caps_a_database(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=10 max_db_connections=2", split=False) as pooler:
        clients = sleepers(pooler, 3, 0.3) + sleepers(pooler, 3, 0.3, user="other")
        wait_for("both servers are there", lambda: servers(cluster.primary, db) == 2)
        for client in clients:
            assert not client.until("Z").errors
        assert servers(cluster.primary, db) <= 2
        close_all(clients)


def test_max_user_connections_caps_a_user(cluster, db):
    settings = "[users]\napp = max_user_connections=1\n"
    with poolers.for_cluster(cluster, db, "pool_size=10", settings, split=False) as pooler:
        clients = sleepers(pooler, 3, 0.1)
        for client in clients:
            assert not client.until("Z").errors
        assert servers(cluster.primary, db, "app") == 1
        clients += holders(pooler, 3, user="other")
        assert servers(cluster.primary, db, "other") == 3
        close_all(clients)


def test_max_client_conn_refuses_the_next_client_only(cluster, db):
    with poolers.for_cluster(cluster, db, settings="max_client_conn = 3", split=False) as pooler:
        clients = [connected(pooler.port) for _ in range(3)]
        with Wire(pooler.port) as late:
            answer = late.login()
            assert answer.errors[0]["M"] == "no more connections allowed (max_client_conn)"
            assert answer.errors[0]["S"] == "FATAL"
        assert clients[0].query("SELECT 1").rows == [("1",)]
        assert pooler.console("SHOW VERSION")       # the console is exempt
        clients.pop().close()
        wait_for("there is room again", lambda: _can_login(pooler))
        close_all(clients)


def _can_login(pooler) -> bool:
    with Wire(pooler.port) as client:
        return client.login().kinds[-1] == "Z"


def test_waiting_clients_are_served_in_the_order_they_came(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", split=False) as pooler:
        cluster.primary.execute("CREATE TABLE IF NOT EXISTS queue (id serial, who int)", db)
        cluster.primary.execute("GRANT ALL ON queue, queue_id_seq TO PUBLIC; TRUNCATE queue", db)
        with connected(pooler.port) as holder:
            holder.query("BEGIN")
            holder.query("SELECT 1")
            clients = []
            for number in range(15):
                client = connected(pooler.port)
                clients.append(client)
                client.send(simple(f"INSERT INTO queue (who) VALUES ({number})"))
                wait_for("it waits", lambda: sum(row["cl_waiting"] for row in pooler.console("SHOW POOLS")) == number + 1)
            holder.query("COMMIT")
            for client in clients:
                assert not client.until("Z").errors
        assert [row[0] for row in cluster.primary.rows("SELECT who FROM queue ORDER BY id", db)] == list(range(15))
        close_all(clients)


def test_pitfall_16_reads_wait_for_whichever_node_is_free_first(cluster, db):
    """One server each on two replicas: while one is busy for long, all other reads get the other."""
    with poolers.for_cluster(cluster, db, "pool_size=1") as pooler:
        with connected(pooler.port) as slow:
            position = cluster.log_positions()
            slow.send(simple("SELECT count(*) /* slow one */ FROM generate_series(1, 4000) a, generate_series(1, 4000) b, "
                             "generate_series(1, 100) c"))
            wait_for("it runs", lambda: sum(cluster.times_run("slow one", position).values()))
            clients = [connected(pooler.port) for _ in range(6)]
            for _ in range(10):
                for client in clients:
                    client.send(simple("SELECT count(*) FROM things"))
                for client in clients:
                    assert client.until("Z").rows == [("1",)]
            close_all(clients)
            assert slow.quiet_for(0)
            wire.send_cancel(pooler.port, slow.key)
            assert slow.until("Z").sqlstates == ["57014"]


def test_pitfall_15_writers_and_readers_never_wait_for_each_other_in_a_circle(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1") as pooler:
        failures: list[str] = []

        def work(number: int) -> None:
            with connected(pooler.port) as client:
                for step in range(25):
                    for sql in ("BEGIN", "SELECT count(*) FROM things", "COMMIT") if (number + step) % 3 == 0 else \
                            ("SELECT count(*) FROM things",) if step % 2 else ("INSERT INTO things SELECT 2 WHERE false",):
                        if client.query(sql).errors:
                            failures.append(sql)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a standstill"
        assert not failures


def test_query_wait_timeout_tells_the_client_that_waited(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", "query_wait_timeout = 1", split=False) as pooler:
        with connected(pooler.port) as holder, connected(pooler.port) as waiter:
            holder.query("BEGIN")
            holder.query("SELECT 1")
            waiter.send(simple("SELECT 2"))
            error = waiter.until("E").errors[0]
            assert error["M"] == "query_wait_timeout" and error["S"] == "FATAL"
            assert waiter.until_closed() == []
            assert holder.query("SELECT 3").rows == [("3",)]


def test_idle_servers_are_closed_and_min_pool_size_is_kept(cluster, db):
    options = "pool_size=5 min_pool_size=2"
    with poolers.for_cluster(cluster, db, options, "server_idle_timeout = 1", split=False) as pooler:
        with connected(pooler.port) as keeper:
            clients = holders(pooler, 5)
            assert servers(cluster.primary, db) == 5
            for client in clients:
                client.query("COMMIT")
            close_all(clients)
            wait_for("the idle ones are gone, two stay", lambda: servers(cluster.primary, db) == 2)
            assert keeper.query("SELECT 1").rows == [("1",)]


def test_server_lifetime_replaces_servers(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", "server_lifetime = 1", split=False) as pooler:
        with connected(pooler.port) as client:
            first = client.query("SELECT pg_backend_pid()").rows
            wait_for("another server", lambda: client.query("SELECT pg_backend_pid()").rows != first, beat_s=0.2)


def test_the_reserve_helps_after_its_timeout(cluster, db):
    settings = "reserve_pool_size = 1\nreserve_pool_timeout = 0.5"
    with poolers.for_cluster(cluster, db, "pool_size=1", settings, split=False) as pooler:
        with connected(pooler.port) as holder, connected(pooler.port) as waiter:
            holder.query("BEGIN")
            holder.query("SELECT 1")
            assert waiter.query("SELECT 'by the reserve'").rows == [("by the reserve",)]
            assert "taking connection from reserve_pool" in pooler.log()
            holder.query("COMMIT")


def test_a_check_query_goes_before_a_server_that_was_idle(cluster, db):
    settings = "server_check_delay = 0\nserver_check_query = SELECT 'checked'"
    with poolers.for_cluster(cluster, db, "pool_size=1", settings, split=False) as pooler:
        with connected(pooler.port) as client:
            client.query("SELECT 1")
            position = cluster.log_positions()
            client.query("SELECT 2")
            wait_for("the check was run", lambda: cluster.times_run("SELECT 'checked'", position)["primary"])


def test_session_pooling_keeps_the_server_and_resets_it(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", "pool_mode = session", split=False) as pooler:
        with connected(pooler.port) as one:
            one.query("SET work_mem = '7MB'")
            one.query("PREPARE mine AS SELECT 1")
            pid = one.query("SELECT pg_backend_pid()").rows
            assert one.query("SELECT pg_backend_pid()").rows == pid
            assert one.query("SHOW work_mem").rows == [("7MB",)]
            assert one.query("EXECUTE mine").rows == [("1",)]
            with connected(pooler.port) as two:
                two.send(simple("SELECT pg_backend_pid(), current_setting('work_mem')"))
                assert two.quiet_for(0.2)
                one.close()
                [(other_pid, work_mem)] = two.until("Z").rows
                assert (other_pid,) == pid[0] and work_mem != "7MB"
                assert two.query("EXECUTE mine").sqlstates == ["26000"]


def test_session_pooling_is_split_too(cluster, db):
    with poolers.for_cluster(cluster, db, settings="pool_mode = session") as pooler:
        with connected(pooler.port) as client:
            client.query("SET application_name = 'session client'")
            position = cluster.log_positions()
            for _ in range(20):
                assert client.query("SELECT count(*) /* session read */ FROM things").rows
            counts = cluster.times_run("session read", position)
            assert counts["primary"] == 0 and counts["replica1"] + counts["replica2"] == 20


def test_statement_pooling_refuses_transactions(cluster, db):
    with poolers.for_cluster(cluster, db, settings="pool_mode = statement", split=False) as pooler:
        with connected(pooler.port) as client:
            assert client.query("SELECT 1").rows == [("1",)]
            client.send(simple("BEGIN"))
            assert client.until("E").errors[0]["M"] == "transaction blocks not allowed in statement pooling mode"


def test_a_client_that_leaves_in_a_transaction_takes_nothing_along(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", split=False) as pooler:
        cluster.primary.execute("CREATE TABLE IF NOT EXISTS left_behind (n int); GRANT ALL ON left_behind TO PUBLIC", db)
        client = connected(pooler.port)
        client.query("BEGIN")
        client.query("INSERT INTO left_behind VALUES (1)")
        client.reset()
        with connected(pooler.port) as next_client:
            answer = next_client.query("SELECT count(*) FROM left_behind")
            assert answer.rows == [("0",)] and answer.status == "I"


def test_tracked_parameters_follow_the_client_to_any_server(cluster, db):
    """Few servers, many clients with settings of their own, on all nodes."""
    with poolers.for_cluster(cluster, db, "pool_size=2") as pooler:
        zones = ["UTC", "Asia/Tokyo", "Europe/Paris", "America/New_York"]
        styles = ["ISO, MDY", "German, DMY", "SQL, DMY", "Postgres, MDY"]
        clients = []
        for number in range(8):
            client = connected(pooler.port, TimeZone=zones[number % 4], DateStyle=styles[number % 4].lower(),
                               application_name=f"client {number}")
            if number >= 4:
                client.query(f"SET TimeZone = '{zones[(number + 1) % 4]}'")
            clients.append(client)
        expected = {zone: cluster.primary.rows(
            f"SET TimeZone = '{zone}'; SELECT extract(timezone FROM timestamptz '2026-07-01 00:00+00')::int")[0][0] for zone in zones}
        for step in range(12):
            for client in clients:
                client.send(simple("SELECT extract(timezone FROM timestamptz '2026-07-01 00:00+00')::int, date '2026-02-01'::text"
                                   if step % 3 else "INSERT INTO things SELECT 1 WHERE false RETURNING 1, 2"))
            for number, client in enumerate(clients):
                answer = client.until("Z")
                assert not answer.errors, answer.errors
                if step % 3:
                    zone = zones[number % 4] if number < 4 else zones[(number + 1) % 4]
                    text = {"ISO, MDY": "2026-02-01", "German, DMY": "01.02.2026", "SQL, DMY": "01/02/2026",
                            "Postgres, MDY": "02-01-2026"}[styles[number % 4]]
                    assert answer.rows == [(str(expected[zone]), text)]
        close_all(clients)


def test_a_server_that_does_not_answer_its_login_is_given_up(cluster, db):
    import socket
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        ini = poolers.ini_for(cluster, db, settings="server_connect_timeout = 1\nclient_login_timeout = 4", split=False).replace(
            f"port={cluster.primary.port}", f"port={silent.getsockname()[1]}")
        with poolers.running(ini) as pooler:
            with Wire(pooler.port) as client:
                error = client.login().errors[0]
                assert error["S"] == "FATAL"
            assert "connect timeout" in pooler.log() or "closing because" in pooler.log()


def test_drivers_pools_do_not_notice(cluster, db):
    """Ten connections of one application, each using few servers, mixing all there is."""
    with poolers.for_cluster(cluster, db, "pool_size=2") as pooler:
        errors: list[Exception] = []

        def work(number: int) -> None:
            try:
                connection = psycopg2.connect(pooler.dsn())
                for step in range(20):
                    with connection, connection.cursor() as cursor:
                        cursor.execute("INSERT INTO things SELECT %s WHERE false", (step,))
                        cursor.execute("SELECT %s", (number,))
                        assert cursor.fetchone() == (number,)
                connection.close()
            except Exception as error:      # noqa: BLE001 - told below
                errors.append(error)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors


def test_simple_queries_can_be_refused(cluster, db):
    with poolers.running(poolers.ini_for(cluster, db, settings="disable_pqexec = 1")) as pooler:
        with connected(pooler.port) as client:
            assert client.extended("SELECT 1").rows == [("1",)]
            client.send(simple("SELECT 1"))
            assert [error["M"] for error in client.until_closed().errors] == ["PQexec disallowed"]


def test_the_application_name_can_name_the_client(cluster, db):
    with poolers.for_cluster(cluster, db, settings="application_name_add_host = 1") as pooler:
        with connected(pooler.port, application_name="shop") as client:
            assert client.query("SHOW application_name").rows[0][0].startswith("shop - 127.0.0.1:")
