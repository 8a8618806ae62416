"""Starts pgweir as the unprivileged user in a folder of its own, and looks after it until the test is over."""
from __future__ import annotations

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import Iterator

import psycopg2
import psycopg2.extensions

from cluster import (DEADLINE_S, HOST, Cluster, clean_environment, free_port, give_away, make_folder, run_as, wait_for)

_libc = ctypes.CDLL(None, use_errno=True)
_binary_copy: pathlib.Path | None = None
living: list["Pooler"] = []             # for the watchdog in conftest.py


def binary() -> pathlib.Path:
    """The program under test, copied to where the unprivileged user may run it."""
    global _binary_copy
    if _binary_copy is None:
        named = os.environ.get("PGWEIR_BIN") or str(pathlib.Path(__file__).parents[2] / "build" / "debug" / "pgweir")
        if not os.access(named, os.X_OK):
            raise RuntimeError(f"no program to test: {named} (build it, or set PGWEIR_BIN)")
        folder = make_folder("pgweir-bin-")
        _binary_copy = folder / pathlib.Path(named).name
        shutil.copyfile(named, _binary_copy)
        os.chmod(_binary_copy, 0o755)
    return _binary_copy


def remove_binary() -> None:
    if _binary_copy is not None:
        shutil.rmtree(_binary_copy.parent, ignore_errors=True)


def _die_with_parent() -> None:
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)      # PR_SET_PDEATHSIG: no pooler outlives a test run that was killed


class Pooler:
    """One running pgweir. Use `running(...)` or `for_cluster(...)` below."""

    def __init__(self, ini: str, userlist: str = "", extra_files: dict[str, str] | None = None) -> None:
        self.folder = make_folder("pgweir-run-")
        self.port = free_port()
        self.ini_path = self.folder / "pgweir.ini"
        self.log_path = self.folder / "log"
        self.returncode: int | None = None
        self.process: subprocess.Popen | None = None
        for name, text in {"userlist.txt": userlist, **(extra_files or {})}.items():
            self.write(name, text)
        self.write_ini(ini)

    def write(self, name: str, text: str | bytes) -> pathlib.Path:
        """A file beside the ini, readable for the pooler."""
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, 0o644)
        give_away(path)
        return path

    def write_ini(self, ini: str) -> None:
        """`ini` with {port} and {folder} filled in."""
        self.write("pgweir.ini", ini.replace("{port}", str(self.port)).replace("{folder}", str(self.folder)))

    # -- its life

    def spawn(self, *arguments: str) -> None:
        """Starts it without waiting."""
        log = self.log_path.open("ab")
        self.process = subprocess.Popen(
            [str(binary()), *(arguments or (str(self.ini_path),))], cwd=self.folder, env=clean_environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent, **run_as())
        log.close()
        living.append(self)

    def start(self) -> None:
        self.spawn()
        wait_for("pgweir listens", self._listens)

    def _listens(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"pgweir ended with {self.process.returncode} at its start:\n{self.log_tail()}")
        return f"listening on {HOST}:{self.port}" in self.log() and self._connects()

    def _connects(self) -> bool:
        import socket
        with socket.create_connection((HOST, self.port), timeout=5):
            return True

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_exit(self, deadline_s: float = DEADLINE_S) -> int:
        self.returncode = self.process.wait(timeout=deadline_s)
        return self.returncode

    def stop(self) -> int:
        """Ends it at once; its exit status, after which the caller decides whether that was right."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                print("pgweir did not end within 30 s of SIGQUIT", file=sys.stderr)
        if self in living:
            living.remove(self)
        self.returncode = self.process.returncode
        return self.returncode

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- its log

    def log(self) -> str:
        try:
            return self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def wait_log(self, text: str, deadline_s: float = DEADLINE_S) -> None:
        wait_for(f"pgweir logs {text!r}", lambda: text in self.log(), deadline_s)

    # -- talking to it

    def dsn(self, dbname: str = "t", user: str = "app", **more: object) -> str:
        parts = {"host": HOST, "port": self.port, "dbname": dbname, "user": user, "connect_timeout": 30, **more}
        return " ".join(f"{key}='{value}'" for key, value in parts.items())

    @contextmanager
    def connect(self, dbname: str = "t", user: str = "app", **more: object
                ) -> Iterator[psycopg2.extensions.connection]:
        connection = psycopg2.connect(self.dsn(dbname, user, **more))
        try:
            connection.autocommit = True
            yield connection
        finally:
            connection.close()

    def rows(self, sql: str, dbname: str = "t", user: str = "app", **more: object) -> list[tuple]:
        with self.connect(dbname, user, **more) as connection:
            return query(connection, sql)

    def value(self, sql: str, dbname: str = "t", user: str = "app", **more: object):
        return self.rows(sql, dbname, user, **more)[0][0]

    def console(self, command: str) -> list[dict]:
        """A command of the admin console; its rows with column names."""
        with self.connect("pgbouncer", "admin") as connection, connection.cursor() as cursor:
            cursor.execute(command)
            if cursor.description is None:
                return []
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    def routing(self) -> dict[tuple[str, str], int]:
        """SHOW ROUTING: units by (target, reason), over all databases."""
        counts: dict[tuple[str, str], int] = {}
        for row in self.console("SHOW ROUTING"):
            key = (row["target"], row["reason"])
            counts[key] = counts.get(key, 0) + int(row["units"])
        return counts

    def wait_split(self, cluster: Cluster, dbname: str = "t", user: str = "app", replicas: int | None = None) -> None:
        """Until reads are answered by (that many) replicas, as the replicas' own logs tell."""
        wanted = len(cluster.replicas) if replicas is None else replicas
        marker = f"wait_split {time.monotonic_ns()}"
        positions = cluster.log_positions()
        with self.connect(dbname, user) as one, self.connect(dbname, user) as two:
            # A table, when there is one: then pgweir has read the catalog, too, once a replica answers.
            tables = query(one, "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' "
                                "AND relpersistence = 'p' AND has_table_privilege(oid, 'select') ORDER BY 1 LIMIT 1 /* pgweir: primary */")
            read = f"SELECT 1 /* {marker} */" + (f" FROM {tables[0][0]} LIMIT 1" if tables else "")

            def both() -> bool:
                for connection in (one, two):
                    query(connection, read)
                counts = cluster.times_run(marker, positions)
                return sum(1 for replica in cluster.replicas if counts[replica.name]) >= min(wanted, 1)
            try:
                wait_for("replicas answer reads", both)
            except TimeoutError as error:
                raise TimeoutError(f"{error}\n{self.console('SHOW NODES')}\n{self.console('SHOW ROUTING')}") from error
        if wanted > 1:
            wait_for(f"{wanted} replicas are ok", lambda: sum(
                1 for row in self.console("SHOW NODES")
                if row["database"] == dbname and row["role"] == "replica" and row["health"] == "ok") >= wanted)


def query(connection: psycopg2.extensions.connection, sql: str) -> list[tuple]:
    """Runs `sql` on an open connection; its rows, [] when it returns none."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description is not None else []


GLOBAL_LINES = """
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/userlist.txt
admin_users = admin
monitor_user = postgres
server_login_retry = 1
"""

USERLIST = '"app" ""\n"other" ""\n"admin" ""\n"postgres" ""\n'


def ini_for(cluster: Cluster, dbname: str, database_options: str = "", settings: str = "", split: bool = True,
            more_databases: str = "") -> str:
    """An ini whose database `t` is `dbname` on the cluster."""
    replicas = f" replica_host={cluster.replica_hosts}" if split else ""
    mode = "" if "pool_mode" in settings else "pool_mode = transaction\n"
    return (f"[databases]\nt = host={HOST} port={cluster.primary.port}{replicas} dbname={dbname} {database_options}\n"
            f"{more_databases}\n{GLOBAL_LINES}{mode}{settings}\n")


@contextmanager
def running(ini: str, userlist: str = USERLIST, extra_files: dict[str, str] | None = None,
            expected_exit: tuple[int, ...] = (0,)) -> Iterator[Pooler]:
    """A started pooler. At the end it must be alive (or have ended as expected) and must end cleanly."""
    pooler = Pooler(ini, userlist, extra_files)
    try:
        pooler.start()
        yield pooler
    except BaseException:
        pooler.stop()
        print(f"--- pgweir's log (exit status {pooler.returncode})\n{pooler.log_tail()}", file=sys.stderr)
        pooler.remove()
        raise
    ended_before = pooler.process.poll()
    status = pooler.stop()
    log = pooler.log_tail()
    pooler.remove()
    if status not in expected_exit:
        when = "crashed" if ended_before is not None else "did not end cleanly"
        raise AssertionError(f"pgweir {when}: exit status {status}\n{log}")


@contextmanager
def for_cluster(cluster: Cluster, dbname: str, database_options: str = "", settings: str = "", split: bool = True,
                wait: bool = True, userlist: str = USERLIST, more_databases: str = "") -> Iterator[Pooler]:
    """A pooler whose database `t` is `dbname`; by default it is returned when the replicas answer reads."""
    with running(ini_for(cluster, dbname, database_options, settings, split, more_databases), userlist) as pooler:
        if split and wait:
            pooler.wait_split(cluster)
        yield pooler
