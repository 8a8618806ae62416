"""The process and its neighbours: what the service manager is told, where the log goes, how it ends, and several
processes behind one port."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import socket

import struct
import subprocess
import sys
import threading
import time
from typing import Callable, Iterator

import psycopg2
import pytest

import pooler as poolers
from cluster import HOST, clean_environment, free_port, give_away, make_folder, run_as, wait_for
from pooler import Pooler, ini_for
from wire import Wire, connected, request, simple, CANCEL_REQUEST

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

# Puts the descriptors named by its first argument where systemd puts them, and says so in the environment.
LAUNCHER = """
import os, sys
given = [int(fd) for fd in sys.argv[1].split(',') if fd]
for i, fd in enumerate(given):
    os.dup2(fd, 100 + i)                # away from the places that are to be filled
for i in range(len(given)):
    os.dup2(100 + i, 3 + i)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Process(Pooler):
    """A pooler with an environment, sockets from its parent, or another's port."""

    def __init__(self, ini: str, port: int | None = None, environment: dict[str, str] | None = None,
                 sockets: tuple[socket.socket, ...] = (), arguments: tuple[str, ...] = ()) -> None:
        super().__init__("", poolers.USERLIST)
        self.port = port or self.port
        self.environment = {**clean_environment(), **(environment or {})}
        self.sockets, self.arguments = sockets, arguments
        self.write_ini(ini)

    def spawn(self, *_: str) -> None:
        command = [str(poolers.binary()), *self.arguments, str(self.ini_path)]
        if self.sockets:
            command = [sys.executable, "-c", LAUNCHER, ",".join(str(each.fileno()) for each in self.sockets), *command]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=[each.fileno() for each in self.sockets],
                                            preexec_fn=poolers._die_with_parent, **run_as())
        poolers.living.append(self)

    def unix(self) -> Wire:
        """A connection over its Unix socket, not logged in."""
        return Wire(self.port, unix_folder=str(self.folder))


@contextlib.contextmanager
def started(*args, ready: Callable[[Process], object] | None = None, **more) -> Iterator[Process]:
    """A running Process that has to end with status 0."""
    process = Process(*args, **more)
    try:
        process.spawn()
        wait_for("pgweir serves", (lambda: ready(process)) if ready else process._listens)
        yield process
        assert process.stop() == 0, process.log_tail()
    except BaseException:
        process.stop()
        print(process.log_tail(), file=sys.stderr)
        raise
    finally:
        process.remove()


def run_program(*arguments: str, **how) -> subprocess.CompletedProcess:
    return subprocess.run([str(poolers.binary()), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          cwd="/tmp", env=clean_environment(), timeout=60, **(how or run_as()))


@contextlib.contextmanager
def files(ini: str) -> Iterator[Process]:
    """An ini and its folder, for runs that end by themselves."""
    process = Process(ini)
    try:
        yield process
    finally:
        process.remove()


def no_server(settings: str = "") -> str:
    """An ini whose database nobody has to reach."""
    return f"[databases]\nt = host={HOST} port=1\n{poolers.GLOBAL_LINES}{settings}\n"


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


# ---------------------------------------------------------------------------------------- the service manager

@contextlib.contextmanager
def manager() -> Iterator[tuple[str, list[str]]]:
    """What systemd hears: the path of its socket, and the datagrams."""
    folder = make_folder("pgweir-notify-")
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(folder / "notify"))
        os.chmod(folder / "notify", 0o777)
        ear.settimeout(0.1)
        over = threading.Event()

        def listen() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    heard.append(ear.recv(65536).decode())
        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield str(folder / "notify"), heard
        finally:
            over.set()
            thread.join()
            (folder / "notify").unlink()
            folder.rmdir()


def test_the_service_manager_hears_of_start_reload_statistics_and_end(cluster, db):
    with manager() as (path, heard):
        with started(ini_for(cluster, db, settings="stats_period = 1", split=False), environment={"NOTIFY_SOCKET": path}) as weir:
            wait_for("READY=1", lambda: heard[:1] == ["READY=1"])
            before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            weir.signal(signal.SIGHUP)
            wait_for("RELOADING=1", lambda: any(text.startswith("RELOADING=1\n") for text in heard))
            at = next(i for i, text in enumerate(heard) if text.startswith("RELOADING=1\n"))
            began_us = int(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", heard[at])[1])
            assert before_us <= began_us <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            wait_for("READY=1 again", lambda: "READY=1" in heard[at:])
            wait_for("STATUS=", lambda: any(text.startswith("STATUS=stats: 0 xacts/s, ") for text in heard))
            weir.signal(signal.SIGTERM)
            wait_for("STOPPING=1", lambda: "STOPPING=1" in heard)
            assert weir.wait_exit() == 0


def test_sockets_of_the_service_manager_are_served_and_outlive_the_process(cluster, db):
    port, folder = free_port(), make_folder("pgweir-sockets-")
    with socket.create_server((HOST, port)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        path = folder / ".s.PGSQL.7777"
        unix.bind(str(path))
        os.chmod(path, 0o777)
        unix.listen()

        def serves() -> bool:
            with connected(port) as client:
                return client.query("SELECT 1").rows == [("1",)]

        with started(ini_for(cluster, db, split=False), sockets=(tcp, unix), ready=lambda _: serves()) as weir:
            assert port != weir.port and "WARNING the service manager opened the sockets" in weir.log()
            assert f"listening on {HOST}:{port} (from the service manager)" in weir.log()
            assert f"listening on unix:{path} (from the service manager)" in weir.log()
            with pytest.raises(ConnectionRefusedError):
                Wire(weir.port)
            with Wire(7777, unix_folder=str(folder)) as client:
                assert client.login().kinds[-1] == "Z"
                assert client.query("SELECT 2").rows == [("2",)]
            weir.signal(signal.SIGTERM)
            assert weir.wait_exit() == 0
        # Nobody is there, yet nobody is refused: he waits for the next process.
        with Wire(port) as early:
            with started(ini_for(cluster, db, split=False), sockets=(tcp, unix), ready=lambda _: serves()):
                assert early.login().kinds[-1] == "Z"
                assert early.query("SELECT 3").rows == [("3",)]
        path.unlink()                       # ours: pgweir has not taken it away
    folder.rmdir()


# ---------------------------------------------------------------------------------------- the log

def test_the_journal_gets_priorities_and_keeps_time_itself():
    process = Process(no_server())
    try:
        process.log_path.touch()
        give_away(process.log_path)
        its = process.log_path.stat()
        process.environment["JOURNAL_STREAM"] = f"{its.st_dev}:{its.st_ino}"
        process.spawn()
        wait_for("it listens", process._listens)
        process.stop()
        lines = process.log().splitlines()
        assert lines and all(re.match(r"<[0-7]>\S", line) for line in lines), lines
        assert f"<6>listening on {HOST}:{process.port}" in lines
        process.log_path.write_text("")
        process.environment["JOURNAL_STREAM"] = f"{its.st_dev}:{its.st_ino + 1}"      # somebody else's stream
        process.spawn()
        wait_for("it listens", process._listens)
        process.stop()
        stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+\] (LOG|WARNING) "
        assert all(re.match(stamp, line) for line in process.log().splitlines())
    finally:
        process.stop()
        process.remove()


@as_root
def test_syslog_gets_the_lines_with_facility_and_name():
    ear = pathlib.Path("/dev/log")
    if ear.exists():
        pytest.skip("a syslog is running: its lines are not ours to read")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(ear))
        try:
            os.chmod(ear, 0o777)
            log.settimeout(30)
            settings = "syslog = 1\nsyslog_facility = local3\nsyslog_ident = weir-test\n"
            with started(no_server(settings), arguments=("-q",), ready=lambda weir: weir._connects()) as weir:
                lines = []
                while not any(f"listening on {HOST}:{weir.port}" in line for line in lines):
                    lines.append(log.recv(65536).decode())
                line = next(each for each in lines if "listening on" in each)
                priority = (16 + 3) * 8 + 6          # local3, info
                assert line.startswith(f"<{priority}>") and f"weir-test[{weir.process.pid}]: listening on" in line
        finally:
            ear.unlink()


def test_verbose_says_more():
    for arguments, debug in (((), False), (("-v",), True), (("--verbose",), True)):
        with started(no_server(), arguments=arguments) as weir:
            with contextlib.suppress(psycopg2.OperationalError):
                weir.rows("SELECT 1")
            weir.wait_log("closing because: ")
            assert (" DEBUG S-" in weir.log()) == debug and ("connecting to 127.0.0.1:1" in weir.log()) == debug


def test_quiet_says_nothing_on_stderr():
    with started(no_server("logfile = {folder}/weir.log\n"), arguments=("--quiet",), ready=lambda weir: weir._connects()) as weir:
        assert weir.log() == ""
        assert f"listening on {HOST}:{weir.port}" in (weir.folder / "weir.log").read_text()
    with started(no_server("logfile = {folder}/weir.log\n")) as weir:
        assert weir.log() == (weir.folder / "weir.log").read_text()


# ---------------------------------------------------------------------------------------- the start

def test_a_daemon_needs_a_pidfile_and_a_log():
    with files(no_server("logfile = {folder}/weir.log\n")) as weir:
        done = run_program("-d", str(weir.ini_path))
        assert done.returncode == 1 and "pidfile" in done.stderr and "FATAL" in done.stderr
    with files(no_server("pidfile = {folder}/weir.pid\n")) as weir:
        done = run_program("-d", str(weir.ini_path))
        assert done.returncode == 1 and "logfile" in done.stderr


def test_a_pidfile_of_the_dead_is_removed_and_one_of_the_living_respected():
    with started(no_server("pidfile = {folder}/weir.pid\n")) as weir:
        pidfile = weir.folder / "weir.pid"
        done = run_program(str(weir.ini_path))
        assert done.returncode == 1 and str(weir.process.pid) in done.stderr
        weir.process.kill()
        weir.process.wait()
        assert pidfile.exists()
        weir.spawn()
        wait_for("it took the pidfile over", lambda: pidfile.exists() and pidfile.read_text() == f"{weir.process.pid}\n")
        assert "of a process that is gone" in weir.log()


def test_a_start_that_can_t_work_ends_with_status_1():
    with started(no_server()) as weir:
        # The port is taken, and there is no Unix socket to be had.
        taken = no_server().replace("unix_socket_dir = {folder}", "unix_socket_dir =")
        with files(taken.replace("{port}", str(weir.port))) as second:
            done = run_program(str(second.ini_path))
            assert done.returncode == 1 and "Address already in use" in done.stderr and "FATAL" in done.stderr
        # Somebody answers at the Unix socket: he must not be pushed aside.
        in_use = no_server().replace("{folder}", str(weir.folder)).replace(f"listen_addr = {HOST}", "listen_addr =")
        with files(in_use.replace("{port}", str(weir.port))) as second:
            done = run_program(str(second.ini_path))
            assert done.returncode == 1 and "unix socket is in use" in done.stderr
        assert weir.alive()
        with weir.unix() as console:
            assert console.login("admin", "pgbouncer").kinds[-1] == "Z"
    with files(no_server("no_such_setting = 1\n")) as weir:
        done = run_program(str(weir.ini_path))
        assert done.returncode == 1 and "no_such_setting" in done.stderr


def test_reboot_says_what_to_do_instead():
    done = run_program("-R", "/nonexistent.ini")
    assert done.returncode == 1 and "so_reuseport" in done.stderr and "SIGTERM" in done.stderr


@as_root
def test_root_is_refused_and_can_become_somebody_else():
    with files(no_server()) as weir:
        done = run_program(str(weir.ini_path), user=0)
        assert done.returncode == 1 and "should not run as root" in done.stderr
        done = run_program("-u", "nobody-of-this-name", str(weir.ini_path), user=0)
        assert done.returncode == 1 and "no such user" in done.stderr
        weir.write_ini(no_server("user = nobody-of-this-name\n"))
        account = run_as()["user"]
        import pwd
        process = subprocess.Popen([str(poolers.binary()), "-u", pwd.getpwuid(account).pw_name, str(weir.ini_path)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=clean_environment(), preexec_fn=poolers._die_with_parent)
        try:
            wait_for("it serves", weir._connects)
            ids = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            assert re.search(rf"^Uid:(\t{account}){{4}}$", ids, re.M) and "\nGroups:\t0" not in ids
        finally:
            process.send_signal(signal.SIGQUIT)
            assert process.wait(timeout=30) == 0


# ---------------------------------------------------------------------------------------- the end

def test_during_a_shutdown_the_unix_socket_is_for_the_console_alone(cluster, db):
    with started(ini_for(cluster, db, split=False)) as weir:
        with connected(weir.port) as client:
            client.query("SELECT 1")
            weir.signal(signal.SIGTERM)
            weir.wait_log("waiting for clients")
            with weir.unix() as late:
                refused = late.login()
                assert [(each["S"], each["C"], each["M"]) for each in refused.errors] == [
                    ("FATAL", "08P01", "pooler is shutting down")]
            with weir.unix() as console:
                assert console.login("admin", "pgbouncer").kinds[-1] == "Z"
                assert [row[0] for row in console.query("SHOW STATE").rows] == ["active", "paused", "suspended"]
                assert "pooler is shutting down" in str(console.query("RESUME").errors)
            weir.signal(signal.SIGUSR2)
            weir.wait_log("got SIGUSR2 while shutting down, ignoring")
            assert client.query("SELECT 2").rows == [("2",)]
        assert weir.wait_exit() == 0


def test_who_had_connected_before_term_is_let_in(cluster, db):
    with started(ini_for(cluster, db, settings="tcp_defer_accept = 0", split=False)) as weir:
        with Wire(weir.port) as early:
            weir.signal(signal.SIGTERM)
            weir.wait_log("waiting for clients")
            assert early.login().kinds[-1] == "Z"
            assert early.query("SELECT 1").rows == [("1",)]
        assert weir.wait_exit() == 0


def test_int_cuts_who_waits_and_a_second_one_everybody(cluster, db):
    with started(ini_for(cluster, db, settings="default_pool_size = 1", split=False)) as weir:
        with connected(weir.port) as working, connected(weir.port) as waiting:
            working.query("BEGIN")
            waiting.send(simple("SELECT 'never'"))
            wait_for("it waits", lambda: any(row["cl_waiting"] == 1 for row in weir.console("SHOW POOLS")))
            weir.signal(signal.SIGINT)
            cut = waiting.until_closed()
            assert [each["M"] for each in cut.errors] == ["server shutting down"] and not cut.rows
            assert working.query("SELECT 1").rows == [("1",)] and weir.alive()
            weir.signal(signal.SIGINT)
            assert weir.wait_exit() == 0
            assert [each["M"] for each in working.until_closed().errors] == ["server shutting down"]


# ---------------------------------------------------------------------------------------- several processes

def peers_ini(cluster, db, own_id: int, ports: dict[int, int], more: str = "") -> str:
    lines = "".join(f"{peer} = host={HOST} port={port}\n" for peer, port in ports.items())
    return ini_for(cluster, db, settings=f"peer_id = {own_id}\n{more}", split=False) + f"\n[peers]\n{lines}"


def peer_id(key: tuple[int, bytes]) -> int:
    first = struct.pack("!I", key[0])
    return first[1] + first[2] * 256


def cancel(port: int, key: bytes) -> None:
    with Wire(port) as wire:
        wire.send(request(CANCEL_REQUEST, key))
        wire.until_closed()


def test_a_cancel_request_finds_its_way_to_the_peer(cluster, db):
    ports = {1: free_port(), 300: free_port()}
    with started(peers_ini(cluster, db, 1, ports), port=ports[1]) as one, \
            started(peers_ini(cluster, db, 300, ports), port=ports[300]) as other:
        with connected(one.port) as client, connected(other.port) as unharmed:
            key = struct.pack("!I", client.key[0]) + client.key[1]
            assert peer_id(client.key) == 1 and peer_id(unharmed.key) == 300
            assert key[0] < 128 and key[7] & 3 == 3
            unharmed.send(simple("SELECT pg_sleep(1), 'unharmed'"))
            client.send(simple("SELECT pg_sleep(60)"))
            wait_for("it runs", lambda: cluster.primary.value(
                f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{db}' AND query LIKE '%pg_sleep(60)'") == 1)
            cancel(other.port, key)
            assert client.until("Z").sqlstates == ["57014"]
            assert client.query("SELECT 1").rows == [("1",)]
            assert unharmed.until("Z").rows == [("", "unharmed")]
        assert other.console("SHOW PEERS") == [
            {"peer_id": peer, "host": HOST, "port": port, "pool_size": 0} for peer, port in ports.items()]
        pools = wait_for("nothing is left", lambda: [
            row for row in other.console("SHOW PEER_POOLS") if row["sv_active_cancel"] == row["sv_login"] == 0])
        assert [list(row.values()) for row in pools] == [[1, 0, 0, 0, 0]]


def test_a_cancel_request_finds_its_way_to_a_peer_that_takes_us_for_a_proxy(cluster, db):
    """Both expect a header from wherever in 127.0.0.0/8; clients of the test come by the Unix sockets."""
    ports = {1: free_port(), 300: free_port()}
    trusting = "proxy_protocol_networks = 127.0.0.0/8\n"
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(started(peers_ini(cluster, db, own_id, ports, trusting), port=port, ready=lambda process: "process up" in process.log()))
                      for own_id, port in ports.items())
        with one.unix() as client:
            assert client.login().kinds[-1] == "Z" and peer_id(client.key) == 1
            client.send(simple("SELECT pg_sleep(61)"))
            wait_for("it runs", lambda: cluster.primary.value(
                f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{db}' AND query LIKE '%pg_sleep(61)'") == 1)
            with other.unix() as wire:
                wire.send(request(CANCEL_REQUEST, struct.pack("!I", client.key[0]) + client.key[1]))
                wire.until_closed()
            assert client.until("Z").sqlstates == ["57014"]
        assert "invalid PROXY" not in one.log()


def test_a_cancel_request_goes_from_peer_to_peer_three_times_at_most(cluster, db):
    one_port, two_port = free_port(), free_port()
    # Each takes the other for the owner of 7.
    with started(peers_ini(cluster, db, 1, {7: two_port}), port=one_port) as one, \
            started(peers_ini(cluster, db, 2, {7: one_port}), port=two_port) as two:
        cancel(one.port, bytes([1, 7, 0, 9, 9, 9, 9, 3]))
        two.wait_log("it has been passed on 3 times")
        assert "failed cancel request" not in one.log() and two.log().count("failed cancel request") == 1
        cancel(one.port, bytes([1, 8, 0, 9, 9, 9, 9, 3]))
        one.wait_log("failed cancel request: no such client")


def shared_port_ini(cluster, db, settings: str = "", **more) -> str:
    return ini_for(cluster, db, settings=f"so_reuseport = 1\n{settings}", **more)


def test_processes_that_share_a_port_cancel_for_each_other(cluster, db):
    """The usual way of so_reuseport: [peers] that know each other."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        processes = {own_id: Process("", port=port) for own_id in (1, 2)}
        # The port is everybody's, so they reach each other over their Unix sockets.
        peers = "".join(f"{own_id} = host={process.folder} port={port}\n" for own_id, process in processes.items())
        for own_id, process in processes.items():
            stack.callback(process.remove)
            stack.callback(process.stop)
            process.write_ini(shared_port_ini(cluster, db, f"peer_id = {own_id}\n", split=False) + f"\n[peers]\n{peers}")
            process.spawn()
            wait_for("it listens", process._listens)
        owners = set()
        for _ in range(40):
            with connected(port) as client:
                owners.add(peer_id(client.key))
                client.send(simple("SELECT pg_sleep(60)"))
                key = struct.pack("!I", client.key[0]) + client.key[1]
                end = time.monotonic() + 30
                while client.quiet_for(0.1):       # sent again: it may have come before the query
                    assert time.monotonic() < end
                    cancel(port, key)
                assert client.until("Z").sqlstates == ["57014"]
            if len(owners) == 2:
                break
        assert owners == {1, 2}


def test_several_processes_serve_as_latest_what_they_can_t_know(cluster, db):
    cluster.primary.execute("CREATE TABLE seen (n int); ALTER TABLE seen OWNER TO app", db)
    cluster.wait_caught_up()
    more = (f"loose = host={HOST} port={cluster.primary.port} replica_host={cluster.replica_hosts} dbname={db} "
            "read_consistency=eventual\n")
    with started(shared_port_ini(cluster, db, more_databases=more)) as weir:
        weir.wait_split(cluster, "loose")
        with weir.connect("t") as connection:
            # Nobody has told this process of the writes, and every read sees them.
            for count in range(1, 101):
                cluster.primary.execute("INSERT INTO seen VALUES (1)", db)
                assert poolers.query(connection, "SELECT count(*) FROM seen") == [(count,)]
            # Where no replica may be waited for, the primary answers.
            weir.write_ini(shared_port_ini(cluster, db, "replica_wait = 0\n", more_databases=more))
            weir.signal(signal.SIGHUP)
            weir.wait_log("configuration reloaded")
            wait_for("a reason", lambda: poolers.query(connection, "SELECT count(*) FROM seen") and
                     weir.routing().get(("primary", "latest_wait"), 0) > 0)
        warning = "WARNING several processes, each knows its own writes only"
        weir.signal(signal.SIGHUP)
        wait_for("a second reload", lambda: weir.log().count("configuration reloaded") == 2)
        assert weir.log().count(warning) == 1
        reasons = {row["reason"] for row in weir.console("SHOW NODES") if row["role"] == "replica"}
        assert any("several processes" in (reason or "") for reason in reasons), reasons
        facts = {row["key"]: row["value"] for row in weir.console("SHOW PGWEIR")}
        assert facts["token_store"].startswith("local: several processes")


def test_a_rolling_restart_fails_no_query(cluster, db):
    ini = shared_port_ini(cluster, db, "max_client_conn = 1000", split=False)
    port = free_port()
    over = threading.Event()
    done, failed = [0] * 6, []

    def reconnect(number: int) -> None:
        while not over.is_set():
            try:
                with contextlib.closing(psycopg2.connect(host=HOST, port=port, dbname="t", user="app", connect_timeout=30)) as one:
                    assert poolers.query(one, f"SELECT {number}") == [(number,)]
                done[number] += 1
            except Exception as error:          # whatever it is, it is a failed query
                failed.append(repr(error))

    with contextlib.ExitStack() as stack:
        old = [stack.enter_context(started(ini, port=port)) for _ in range(2)]
        clients = [threading.Thread(target=reconnect, args=(number,)) for number in range(len(done))]
        staying = stack.enter_context(connected(port))
        try:
            for client in clients:
                client.start()
            for process in old:
                so_far = list(done)
                wait_for("all clients work", lambda: all(now > before for now, before in zip(done, so_far)))
                process.signal(signal.SIGTERM)
                process.wait_log("waiting for clients")
                stack.enter_context(started(ini, port=port))
                staying.query("BEGIN")
                assert staying.query("SELECT 1").rows == [("1",)]
                staying.query("COMMIT")
            so_far = list(done)
            wait_for("all clients go on", lambda: all(now > before for now, before in zip(done, so_far)))
        finally:
            over.set()
            for client in clients:
                client.join()
        staying.close()
        assert [process.wait_exit() for process in old] == [0, 0]
    assert failed == [] and min(done) > 0
