#!/usr/bin/env python3
"""A PostgreSQL primary and its streaming replicas for the tests.

As a module: `Cluster.create()`. As a program: `cluster.py start STATE` leaves one running and writes what
others need to find it into the file STATE; `cluster.py stop STATE` ends it. All of it lives in one
folder below /tmp or /dev/shm that an unprivileged user owns, because PostgreSQL refuses to run as root and the
checkout may be in a folder that only root can read.
"""
from __future__ import annotations

import atexit
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import Callable, Iterator

import psycopg2
import psycopg2.extensions

DEADLINE_S = 60.0          # of every wait: far above what a healthy machine needs, so that slow ones pass too
HOST = "127.0.0.1"


# ---------------------------------------------------------------------------------------- small tools

def unprivileged_user() -> str | None:
    """The account for PostgreSQL and pgweir when we are root, else None: our own."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
            return name
        except KeyError:
            continue
    raise RuntimeError("running as root and neither the user postgres nor nobody exists")


def run_as() -> dict:
    """Arguments for subprocess that drop root."""
    name = unprivileged_user()
    if name is None:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def give_away(path: os.PathLike | str) -> None:
    """Hands a file or folder that we made to the unprivileged user."""
    name = unprivileged_user()
    if name is not None:
        entry = pwd.getpwnam(name)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def clean_environment() -> dict[str, str]:
    """Ours without what would change how PostgreSQL's programs behave (PGHOST, PGOPTIONS, …)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_"))}
    environment.update({key: os.environ[key] for key in os.environ if key.startswith("PGWEIR_")})
    environment.update({"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC", "HOME": "/tmp"})
    return environment


def memory_folder() -> str:
    """Where data folders are made: in memory if there is plenty, for the disk may be busy with other things, else /tmp."""
    try:
        shm = os.statvfs("/dev/shm")
        if shm.f_bavail * shm.f_frsize > 4_000_000_000 and not shm.f_flag & os.ST_NOEXEC and os.access("/dev/shm", os.W_OK):
            return "/dev/shm"
    except OSError:
        pass
    return "/tmp"


def make_folder(prefix: str, parent: str = "/tmp") -> pathlib.Path:
    """A new folder, short enough for the path of a Unix socket."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    os.chmod(folder, 0o755)
    give_away(folder)
    return folder


_given_ports: set[int] = set()


def free_port() -> int:
    """A port nobody listens on, below the range the kernel takes outgoing ports from: a port in that range
    could be lost to any connection while a server that is to come back is down."""
    first = 10000
    try:
        first_outgoing = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first_outgoing = 32768
    last = first_outgoing - 1 if first_outgoing > first + 2000 else 32000
    chance = random.SystemRandom()
    for _ in range(2000):
        port = chance.randint(first, last)
        if port in _given_ports or port == 6432 or port == 5432:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port
    raise RuntimeError("found no free port")


def wait_for(what: str, condition: Callable[[], object], deadline_s: float = DEADLINE_S, beat_s: float = 0.02):
    """Calls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + deadline_s
    last_error: BaseException | None = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last_error = None
        except (psycopg2.Error, OSError) as error:
            last_error = error
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline_s:.0f} s in vain: {what}" + (f" ({last_error})" if last_error else ""))
        time.sleep(beat_s)


def postgres_bin() -> pathlib.Path:
    """Where initdb, postgres and pg_ctl are: PGWEIR_PG_BIN, else Debian's newest."""
    named = os.environ.get("PGWEIR_PG_BIN")
    if named:
        return pathlib.Path(named)
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    for initdb in found:
        if initdb.parts[-3] == "15":
            return initdb.parent
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return pathlib.Path(on_path).resolve().parent
    raise RuntimeError("no PostgreSQL server binaries: neither PGWEIR_PG_BIN nor /usr/lib/postgresql/*/bin/initdb")


# ---------------------------------------------------------------------------------------- one node

class Node:
    """One PostgreSQL instance."""

    def __init__(self, name: str, folder: pathlib.Path, port: int, binaries: pathlib.Path) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.binaries = binaries
        self.data = folder / name
        self.log = folder / f"{name}.log"

    # -- its life

    def ctl(self, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / "pg_ctl"), "-D", str(self.data), "-w", "-t", str(int(DEADLINE_S)), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=self.folder, env=clean_environment(), **run_as())
        if done.returncode != 0:
            raise RuntimeError(f"pg_ctl {' '.join(arguments)} for {self.name} failed:\n{done.stdout}\n{self.log_tail()}")

    def start(self) -> None:
        self.ctl("-l", str(self.log), "start")

    def begin_start(self) -> subprocess.Popen:
        """Starts without waiting, for several at once; wait_ready() follows."""
        log = self.log.open("ab")
        give_away(self.log)
        try:
            return subprocess.Popen([str(self.binaries / "pg_ctl"), "-D", str(self.data), "-W", "-l", str(self.log), "start"],
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=clean_environment(),
                                    **run_as())
        finally:
            log.close()

    def wait_ready(self, starting: subprocess.Popen) -> None:
        if starting.wait(timeout=DEADLINE_S) != 0:
            raise RuntimeError(f"{self.name} did not start:\n{self.log_tail()}")

        def answers() -> bool:
            if not (self.data / "postmaster.pid").exists() and "shut down" in self.log_tail(3):
                raise RuntimeError(f"{self.name} ended at its start:\n{self.log_tail()}")
            return self.running()
        wait_for(f"{self.name} answers", answers)

    def stop(self, mode: str = "fast") -> None:
        self.ctl("-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        self.ctl("promote")

    def reload(self) -> None:
        self.ctl("reload")

    def running(self) -> bool:
        try:
            with self.connect():
                return True
        except psycopg2.Error:
            return False

    def log_tail(self, lines: int = 30) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return f"({self.log}: {error})"

    # -- asking it

    def dsn(self, dbname: str = "postgres", user: str = "postgres", **more: object) -> str:
        parts = {"host": HOST, "port": self.port, "dbname": dbname, "user": user, "connect_timeout": 20, **more}
        return " ".join(f"{key}='{value}'" for key, value in parts.items())

    @contextmanager
    def connect(self, dbname: str = "postgres", user: str = "postgres", **more: object
                ) -> Iterator[psycopg2.extensions.connection]:
        connection = psycopg2.connect(self.dsn(dbname, user, **more))
        try:
            connection.autocommit = True
            yield connection
        finally:
            connection.close()

    def execute(self, sql: str, dbname: str = "postgres") -> None:
        with self.connect(dbname) as connection, connection.cursor() as cursor:
            cursor.execute(sql)

    def rows(self, sql: str, dbname: str = "postgres") -> list[tuple]:
        with self.connect(dbname) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def value(self, sql: str, dbname: str = "postgres"):
        return self.rows(sql, dbname)[0][0]

    # -- what it ran: every statement is logged before it runs, so this is exact and at once

    def log_position(self) -> int:
        return self.log.stat().st_size

    def log_since(self, position: int) -> str:
        with self.log.open("rb") as file:
            file.seek(position)
            return file.read().decode("utf-8", "replace")

    def times_run(self, marker: str, position: int = 0) -> int:
        """How many statements with `marker` in their text were executed here."""
        return sum(1 for line in self.log_since(position).splitlines()
                   if marker in line and ("LOG:  statement: " in line or "LOG:  execute " in line))

    # -- replay

    def pause_replay(self) -> None:
        self.execute("SELECT pg_wal_replay_pause()")
        wait_for(f"{self.name} pauses replay",
                 lambda: self.value("SELECT pg_get_wal_replay_pause_state()") == "paused")

    def resume_replay(self) -> None:
        self.execute("SELECT pg_wal_replay_resume()")

    def set(self, name: str, value: str | None) -> None:
        """ALTER SYSTEM and reload, waited for; None takes the line out again."""
        loaded = self.value("SELECT pg_conf_load_time()")
        self.execute(f"ALTER SYSTEM RESET {name}" if value is None else f"ALTER SYSTEM SET {name} = '{value}'")
        self.reload()
        wait_for(f"{self.name} takes {name}", lambda: self.value("SELECT pg_conf_load_time()") > loaded)

    def set_apply_delay(self, delay_ms: int) -> None:
        self.set("recovery_min_apply_delay", f"{delay_ms}ms" if delay_ms else None)
        wait_for(f"{self.name} delays by {delay_ms} ms",
                 lambda: int(self.value("SELECT setting FROM pg_settings WHERE name = 'recovery_min_apply_delay'"))
                 == delay_ms)


# ---------------------------------------------------------------------------------------- all of them

ROLES_SQL = """
CREATE ROLE app LOGIN;
CREATE ROLE other LOGIN;
SET password_encryption = 'md5';
CREATE ROLE u_md5 LOGIN PASSWORD 'md5 secret';
SET password_encryption = 'scram-sha-256';
CREATE ROLE u_scram LOGIN PASSWORD 'scram secret';
CREATE ROLE u_plain LOGIN PASSWORD 'plain secret';
GRANT ALL ON DATABASE postgres TO app;
GRANT ALL ON SCHEMA public TO PUBLIC;
"""


class Cluster:
    """A primary with streaming replicas, in a folder of its own. Always stop() it."""

    def __init__(self, folder: pathlib.Path, ports: list[int], binaries: pathlib.Path) -> None:
        self.folder = folder
        self.binaries = binaries
        names = ["primary"] + [f"replica{i}" for i in range(1, len(ports))]
        self.nodes = [Node(name, folder, port, binaries) for name, port in zip(names, ports)]
        self.primary = self.nodes[0]
        self.replicas = self.nodes[1:]

    # -- making one

    @classmethod
    def create(cls, replicas: int = 2, settings: str = "") -> "Cluster":
        """A new one, running and caught up; `settings` are lines for all nodes' postgresql.conf. Tried three times: a port may be
        taken between the choice and the start."""
        for attempt in (1, 2, 3):
            folder = make_folder("pgweir-db-", memory_folder())
            try:
                cluster = cls(folder, [free_port() for _ in range(replicas + 1)], readable_binaries(folder))
                cluster._build(settings)
                return cluster
            except Exception as error:
                logs = "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in folder.glob("*.log"))
                Cluster._remove(folder)
                if attempt == 3:
                    raise RuntimeError(f"no test cluster: {error}\n{logs}") from error
        raise AssertionError("unreachable")

    def _build(self, settings: str) -> None:
        primary = self.primary
        data = template(self.binaries)
        for node in self.nodes:     # a cluster that was never started is a perfect base backup of itself
            subprocess.run(["cp", "-a", "--reflink=never", "--sparse=never", str(data), str(node.data)], check=True, cwd=self.folder,
                           **run_as())
            with (node.data / "postgresql.conf").open("a") as conf:
                conf.write(POSTGRESQL_CONF.format(folder=self.folder) + f"port = {node.port}\ncluster_name = '{node.name}'\n{settings}\n")
                if node is not primary:
                    conf.write(self.follow_line(primary) + "\n")
            (node.data / "pg_hba.conf").write_text(PG_HBA_CONF)
        for replica in self.replicas:
            (replica.data / "standby.signal").touch()
            give_away(replica.data / "standby.signal")
        starting = [(node, node.begin_start()) for node in self.nodes]
        for node, process in starting:
            node.wait_ready(process)
        primary.execute(ROLES_SQL)
        self.wait_caught_up()

    def follow_line(self, leader: Node) -> str:
        return f"primary_conninfo = 'host={HOST} port={leader.port} user=postgres application_name=walreceiver'"

    # -- using it

    @property
    def replica_hosts(self) -> str:
        return ",".join(f"{HOST}:{replica.port}" for replica in self.replicas)

    def wait_caught_up(self, *nodes: Node) -> None:
        """Until the replicas have replayed what the primary has written by now."""
        target = self.primary.value("SELECT pg_current_wal_flush_lsn()")
        for node in nodes or self.replicas:
            wait_for(f"{node.name} replays {target}", lambda: node.value(
                f"SELECT pg_last_wal_replay_lsn() >= '{target}'::pg_lsn"))

    def log_positions(self) -> dict[str, int]:
        return {node.name: node.log_position() for node in self.nodes}

    def times_run(self, marker: str, positions: dict[str, int] | None = None) -> dict[str, int]:
        positions = positions or {}
        return {node.name: node.times_run(marker, positions.get(node.name, 0)) for node in self.nodes}

    # -- ending it

    def stop(self) -> None:
        for node in reversed(self.nodes):
            try:
                node.stop("immediate")
            except Exception:       # noqa: BLE001 - it may be down already; whatever is left is killed below
                pass
        Cluster._remove(self.folder)

    @staticmethod
    def _remove(folder: pathlib.Path) -> None:
        for pid_file in folder.glob("*/postmaster.pid"):
            try:
                os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
            except (OSError, ValueError, IndexError):
                pass
        shutil.rmtree(folder, ignore_errors=True)

    # -- shared by several processes

    def to_json(self) -> str:
        return json.dumps({"folder": str(self.folder), "ports": [node.port for node in self.nodes],
                           "binaries": str(self.binaries)})

    @classmethod
    def from_json(cls, text: str) -> "Cluster":
        read = json.loads(text)
        return cls(pathlib.Path(read["folder"]), read["ports"], pathlib.Path(read["binaries"]))

    def all_running(self) -> bool:
        return all(node.running() for node in self.nodes)


_template: pathlib.Path | None = None


def template(binaries: pathlib.Path) -> pathlib.Path:
    """A data folder as initdb makes it, made once for all clusters of this process."""
    global _template
    if _template is None:
        folder = make_folder("pgweir-initdb-", memory_folder())
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # Small WAL segments: faster to copy, and their longer page headers come by often.
        made = subprocess.run(
            [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync",
             "--encoding=UTF8", "--locale=C", "--no-instructions", "--wal-segsize=1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=folder, env=clean_environment(), **run_as())
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{made.stdout}")
        _template = folder / "data"
    return _template


def readable_binaries(folder: pathlib.Path) -> pathlib.Path:
    """PostgreSQL's binaries where the unprivileged user can run them: Debian's as they are, others copied."""
    binaries = postgres_bin()
    tried = subprocess.run([str(binaries / "postgres"), "--version"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **run_as()) \
        if os.access(binaries, os.X_OK) and _reachable(binaries) else None
    if tried is not None and tried.returncode == 0:
        return binaries
    copied = folder / "postgresql"
    shutil.copytree(binaries.parent, copied, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(copied)], check=True)
    return copied / "bin"


def _reachable(path: pathlib.Path) -> bool:
    """Whether everybody may enter all folders on the way."""
    return all(os.stat(parent).st_mode & 0o001 for parent in [path, *path.parents])


POSTGRESQL_CONF = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
max_connections = 300
shared_buffers = 24MB
max_parallel_workers_per_gather = 0
fsync = off
full_page_writes = off
wal_level = replica
max_wal_senders = 10
wal_keep_size = 512MB
min_wal_size = 32MB
max_wal_size = 1GB
wal_init_zero = off
hot_standby = on
wal_retrieve_retry_interval = 100ms
wal_receiver_timeout = 10s
autovacuum_naptime = 10min
checkpoint_timeout = 30min
max_prepared_transactions = 10
log_statement = all
log_line_prefix = '%m [%p] %u@%d %a '
log_checkpoints = off
timezone = 'UTC'
log_timezone = 'UTC'
datestyle = 'iso, mdy'
lc_messages = 'C'
"""

PG_HBA_CONF = """
local all         all      trust
local replication all      trust
host  all         u_md5    127.0.0.1/32 md5
host  all         u_scram  127.0.0.1/32 scram-sha-256
host  all         u_plain  127.0.0.1/32 password
host  all         all      127.0.0.1/32 trust
host  replication all      127.0.0.1/32 trust
"""


# ---------------------------------------------------------------------------------------- as a program

def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("start", "stop"):
        print("usage: cluster.py start|stop STATE_FILE", file=sys.stderr)
        return 2
    state = pathlib.Path(arguments[1])
    if state.exists():                      # also before a start: what an interrupted run has left behind
        try:
            Cluster.from_json(state.read_text()).stop()
        except (OSError, ValueError, KeyError) as error:
            print(f"could not stop what {state} names: {error}", file=sys.stderr)
        state.unlink(missing_ok=True)
    if arguments[0] == "start":
        cluster = Cluster.create()
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(cluster.to_json())
        version = cluster.primary.value("SHOW server_version")
        print(f"PostgreSQL {version}: " + ", ".join(f"{node.name} on {node.port}" for node in cluster.nodes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
