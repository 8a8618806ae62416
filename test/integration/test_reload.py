"""RELOAD and SIGHUP take a new file without dropping a client; a bad one changes nothing."""
from __future__ import annotations

import signal

import pytest

import pooler as poolers
from cluster import HOST, wait_for
from wire import Wire, connected, simple


@pytest.fixture(scope="module", autouse=True)
def tables(cluster, db):
    cluster.primary.execute("CREATE TABLE things (n int); GRANT ALL ON things TO PUBLIC; INSERT INTO things VALUES (1)", db)
    cluster.wait_caught_up()


def config(pooler, key: str) -> str:
    return [row["value"] for row in pooler.console("SHOW CONFIG") if row["key"] == key][0]


def by_console(pooler) -> None:
    pooler.console("RELOAD")


def by_signal(pooler) -> None:
    before = pooler.log().count("got SIGHUP")
    pooler.signal(signal.SIGHUP)
    wait_for("the signal is logged", lambda: pooler.log().count("got SIGHUP") > before)


@pytest.mark.parametrize("reload", [by_console, by_signal])
def test_a_new_file_is_applied_and_clients_stay(cluster, db, reload):
    with poolers.for_cluster(cluster, db, settings="query_wait_timeout = 77") as pooler:
        with connected(pooler.port) as idle, connected(pooler.port) as in_transaction, connected(pooler.port) as busy:
            in_transaction.query("BEGIN")
            in_transaction.query("INSERT INTO things VALUES (2)")
            busy.send(simple("SELECT pg_sleep(0.5), 'through'"))
            pooler.write_ini(poolers.ini_for(cluster, db, settings="query_wait_timeout = 55\nserver_idle_timeout = 30"))
            reload(pooler)
            wait_for("the new value is shown", lambda: config(pooler, "query_wait_timeout") == "55")
            assert config(pooler, "server_idle_timeout") == "30"
            assert idle.query("SELECT 1").rows == [("1",)]
            assert in_transaction.query("SELECT count(*) FROM things WHERE n = 2").rows == [("1",)]
            assert not in_transaction.query("ROLLBACK").errors
            assert busy.until("Z").rows[0][1] == "through"


@pytest.mark.parametrize("line, reason", [
    ("pool_mode = trx", "pool_mode"),
    ("no_such_setting = 1", "no_such_setting"),
    ("default_pool_size = many", "default_pool_size"),
    ("query_wait_timeout = soon", "query_wait_timeout"),
    ("read_consistency = maybe", "read_consistency"),
])
def test_a_bad_file_changes_nothing_and_the_log_says_where(cluster, db, line, reason):
    with poolers.for_cluster(cluster, db, settings="query_wait_timeout = 77", split=False) as pooler:
        with connected(pooler.port) as client:
            text = poolers.ini_for(cluster, db, settings="pool_mode = transaction\nserver_idle_timeout = 11\n" + line, split=False)
            pooler.write_ini(text)
            number = pooler.ini_path.read_text().splitlines().index(line) + 1
            with pytest.raises(Exception) as caught:
                pooler.console("RELOAD")
            assert "RELOAD failed, see logs for additional details" in str(caught.value)
            assert caught.value.pgcode == "F0000"
            pooler.wait_log(f"pgweir.ini:{number}: ")
            assert reason in [entry for entry in pooler.log().splitlines() if f"pgweir.ini:{number}: " in entry][-1]
            assert config(pooler, "query_wait_timeout") == "77" and config(pooler, "server_idle_timeout") != "11"
            assert client.query("SELECT 1").rows == [("1",)]
            # SIGHUP: the same, and the process lives.
            count = pooler.log().count(f"pgweir.ini:{number}: ")
            pooler.signal(signal.SIGHUP)
            wait_for("it is logged again", lambda: pooler.log().count(f"pgweir.ini:{number}: ") > count)
            assert client.query("SELECT 2").rows == [("2",)]


def test_an_ini_that_is_gone_changes_nothing(cluster, db):
    with poolers.for_cluster(cluster, db, split=False) as pooler, connected(pooler.port) as client:
        pooler.ini_path.unlink()
        with pytest.raises(Exception):
            pooler.console("RELOAD")
        assert client.query("SELECT 1").rows == [("1",)]


def test_replicas_are_added_and_taken_away_by_a_reload(cluster, db):
    with poolers.for_cluster(cluster, db, split=False) as pooler, connected(pooler.port) as client:
        assert client.query("SELECT count(*) FROM things").rows
        assert not client.query("INSERT INTO things VALUES (3)").errors
        pooler.write_ini(poolers.ini_for(cluster, db))
        pooler.console("RELOAD")
        # What was written before the split was turned on is seen all the same.
        assert client.query("SELECT count(*) FROM things WHERE n = 3").rows == [("1",)]
        pooler.wait_split(cluster)
        positions = cluster.log_positions()

        def answered_by_a_replica() -> bool:
            assert client.query("SELECT count(*) /* split now */ FROM things WHERE n = 3").rows == [("1",)]
            counts = cluster.times_run("split now", positions)
            return counts["replica1"] + counts["replica2"] > 0
        wait_for("a replica answers", answered_by_a_replica)
        pooler.write_ini(poolers.ini_for(cluster, db, split=False))
        pooler.console("RELOAD")
        positions = cluster.log_positions()
        for _ in range(10):
            assert client.query("SELECT count(*) /* split no more */ FROM things").rows
        assert cluster.times_run("split no more", positions)["primary"] == 10


def test_databases_come_go_and_move(cluster, db):
    more = f"second = host={HOST} port={cluster.primary.port} dbname={db}"
    with poolers.running(poolers.ini_for(cluster, db, split=False)) as pooler, connected(pooler.port) as client:
        with Wire(pooler.port) as early:
            assert early.login(database="second").errors[0]["M"] == "no such database: second"
        pooler.write_ini(poolers.ini_for(cluster, db, split=False, more_databases=more))
        pooler.console("RELOAD")
        with connected(pooler.port, database="second") as second:
            assert second.query("SELECT 1").rows == [("1",)]
            first_pid = client.query("SELECT pg_backend_pid()").rows
            # The line of `t` now names another database: its servers are replaced, its clients stay.
            pooler.write_ini(poolers.ini_for(cluster, "postgres", split=False, more_databases=more))
            pooler.console("RELOAD")
            wait_for("the client sees the other database",
                     lambda: client.query("SELECT current_database()::text").rows == [("postgres",)])
            assert client.query("SELECT pg_backend_pid()").rows != first_pid
            # And `second` is removed.
            pooler.write_ini(poolers.ini_for(cluster, "postgres", split=False))
            pooler.console("RELOAD")
            assert "database removed" in str(second.until_closed().errors) or "database removed" in pooler.log()
        assert client.query("SELECT 1").rows == [("1",)]


def test_the_userlist_is_read_again(cluster, db):
    with poolers.running(poolers.ini_for(cluster, db, split=False)) as pooler:
        with Wire(pooler.port) as client:
            assert client.login(user="u_scram").kinds[-1] == "E"
        pooler.write("userlist.txt", poolers.USERLIST + '"u_scram" "scram secret"\n')
        pooler.console("RELOAD")
        with Wire(pooler.port) as client:
            assert client.login(user="u_scram").kinds[-1] == "Z"


def test_limits_apply_at_once(cluster, db):
    with poolers.for_cluster(cluster, db, "pool_size=1", split=False) as pooler:
        with connected(pooler.port) as holder, connected(pooler.port) as waiter:
            holder.query("BEGIN")
            holder.query("SELECT 1")
            waiter.send(simple("SELECT 'has one now'"))
            assert waiter.quiet_for(0.2)
            pooler.write_ini(poolers.ini_for(cluster, db, "pool_size=2", split=False))
            pooler.console("RELOAD")
            assert waiter.until("Z").rows == [("has one now",)]
            holder.query("COMMIT")


def test_both_names_of_the_main_section_and_includes(cluster, db):
    text = poolers.ini_for(cluster, db, split=False).replace("[pgbouncer]", "  [pgweir]").replace(
        "auth_type = trust", "%include {folder}/more.ini")
    with poolers.running(text, extra_files={"more.ini": "; a comment\n   auth_type = trust\n"}) as pooler:
        assert pooler.value("SELECT 1") == 1
        pooler.write("more.ini", "auth_type = trust\nnonsense = 1\n")
        with pytest.raises(Exception):
            pooler.console("RELOAD")
        pooler.wait_log("more.ini:2: ")
