"""Signals, exit codes and the command line, as PgBouncer has them."""
from __future__ import annotations

import signal
import subprocess

import pytest

import pooler as poolers
import wire
from cluster import clean_environment, run_as, wait_for
from wire import Wire, connected, simple


@pytest.fixture()
def weir(cluster, db):
    with poolers.for_cluster(cluster, db, split=False) as pooler:
        yield pooler


def refuses_tcp(pooler) -> bool:
    try:
        with Wire(pooler.port):
            return False
    except ConnectionRefusedError:
        return True


def test_quit_ends_at_once(weir):
    with connected(weir.port) as client:
        client.query("BEGIN")
        weir.signal(signal.SIGQUIT)
        assert weir.wait_exit() == 0


def test_term_waits_for_all_clients(weir):
    with connected(weir.port) as client:
        client.query("SELECT 1")
        weir.signal(signal.SIGTERM)
        wait_for("no new clients", lambda: refuses_tcp(weir))
        assert weir.alive()
        assert client.query("SELECT 2").rows == [("2",)]
        client.query("BEGIN")
        assert client.query("SELECT 3").rows == [("3",)]
        client.query("COMMIT")
    assert weir.wait_exit() == 0


def test_a_second_term_ends_at_once(weir):
    with connected(weir.port) as client:
        client.query("SELECT 1")
        weir.signal(signal.SIGTERM)
        wait_for("no new clients", lambda: refuses_tcp(weir))
        weir.signal(signal.SIGTERM)
        assert weir.wait_exit() == 0


def test_int_waits_for_servers_and_refuses_the_waiting(weir):
    with connected(weir.port) as working, connected(weir.port) as idle:
        working.query("BEGIN")
        working.query("SELECT 1")
        weir.signal(signal.SIGINT)
        wait_for("no new clients", lambda: refuses_tcp(weir))
        idle.send(simple("SELECT 'too late'"))
        assert "server shutting down" in str(idle.until_closed().errors)
        assert working.query("SELECT 2").rows == [("2",)]
        working.send(simple("COMMIT"))
        assert working.receive()[0] == "C"
    assert weir.wait_exit() == 0


def test_usr1_pauses_and_usr2_resumes(weir):
    with connected(weir.port) as client:
        client.query("SELECT 1")
        weir.signal(signal.SIGUSR1)
        wait_for("it is paused", lambda: {row["key"]: row["value"] for row in weir.console("SHOW STATE")}["paused"] == "yes")
        client.send(simple("SELECT 'resumed'"))
        assert client.quiet_for(0.3)
        weir.signal(signal.SIGUSR2)
        assert client.until("Z").rows == [("resumed",)]


def test_hup_is_logged_and_harmless(weir):
    with connected(weir.port) as client:
        for _ in range(5):
            weir.signal(signal.SIGHUP)
        weir.wait_log("got SIGHUP")
        assert client.query("SELECT 1").rows == [("1",)]


def run_program(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(poolers.binary()), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, cwd="/tmp", env=clean_environment(), timeout=60, **run_as())


def test_version_and_help():
    version = run_program("--version")
    assert version.returncode == 0 and "PgBouncer" in version.stdout + version.stderr
    assert run_program("-V").stdout == version.stdout
    usage = run_program("--help")
    assert usage.returncode == 0 and "--daemon" in usage.stdout and "--quiet" in usage.stdout


def test_no_file_is_an_error():
    done = run_program()
    assert done.returncode == 1 and "no configuration file specified" in done.stdout + done.stderr
    for arguments, complaint in ((("--no-such-option",), "unknown option: --no-such-option"), (("-Z",), "unknown option: -Z"),
                                 (("-qZ",), "unknown option: -Z"), (("-u",), "-u needs the name of a user"),
                                 (("--user",), "-u needs the name of a user")):
        done = run_program(*arguments)
        assert done.returncode == 1 and done.stderr.splitlines() == [f"pgweir: {complaint}", 'Try "pgweir --help".'], done


def test_a_pidfile_and_a_logfile_are_kept(cluster, db):
    ini = poolers.ini_for(cluster, db, settings="logfile = {folder}/pgweir.log\npidfile = {folder}/pgweir.pid", split=False)
    with poolers.running(ini) as pooler:
        pid = (pooler.folder / "pgweir.pid").read_text().strip()
        assert int(pid) == pooler.process.pid
        assert "listening on" in (pooler.folder / "pgweir.log").read_text()
        second = subprocess.run([str(poolers.binary()), str(pooler.ini_path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd="/tmp", env=clean_environment(), timeout=60, **run_as())
        assert second.returncode == 1
        assert pooler.value("SELECT 1") == 1
        # The log may be moved away: SIGHUP opens it anew.
        (pooler.folder / "pgweir.log").rename(pooler.folder / "old.log")
        pooler.signal(signal.SIGHUP)
        wait_for("a new log file", lambda: (pooler.folder / "pgweir.log").exists())
        pid_file = pooler.folder / "pgweir.pid"
        pooler.signal(signal.SIGTERM)
        assert pooler.wait_exit() == 0
        assert not pid_file.exists()


def test_it_can_run_as_a_daemon(cluster, db):
    ini = poolers.ini_for(cluster, db, settings="logfile = {folder}/pgweir.log\npidfile = {folder}/pgweir.pid", split=False)
    pooler = poolers.Pooler(ini, poolers.USERLIST)
    try:
        started = run_program("-d", str(pooler.ini_path))
        assert started.returncode == 0, started.stderr
        assert wait_for("the daemon answers", lambda: pooler.value("SELECT 1") == 1)
        pid = int((pooler.folder / "pgweir.pid").read_text())
        assert pooler.console("SHOW VERSION")
        import os
        os.kill(pid, signal.SIGTERM)
        wait_for("it is gone", lambda: not (pooler.folder / "pgweir.pid").exists())
    finally:
        pooler.remove()
