#!/usr/bin/env python3
"""What an idle client costs, and a RELOAD with all of them connected: pgweir beside Debian's pgbouncer, one after the other.

    test/bench/idle_clients.py [--bin build/release/pgweir] [--clients 10000] [--out FILE.md]

Each client logs in and stays. Memory is what the pooler's RSS and PSS have grown by since the first client, over the number of clients: once
after all logins, once after each of them has run a query. Then RELOAD is timed on the console, and each client runs another query on the
connection it has. Ends with status 1 when a client was lost, or when pgweir's RELOAD took 100 ms or more.

Needs pgbouncer, PostgreSQL, and a hard limit of open files above the number of clients. As root, the poolers run as the account postgres.
"""
from __future__ import annotations

import argparse
import pathlib
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import HOST, Cluster, clean_environment, free_port, give_away, make_folder, run_as, wait_for     # noqa: E402

RELOAD_MS_MAX = 100.0


def packet(user: str, database: str) -> bytes:
    body = struct.pack("!I", 196608) + b"".join(text.encode() + b"\0" for text in ("user", user, "database", database)) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def query(sql: str) -> bytes:
    return b"Q" + struct.pack("!I", len(sql) + 5) + sql.encode() + b"\0"


def read_answer(client: socket.socket) -> bytes:
    """Up to a ReadyForQuery outside of a transaction."""
    answer = b""
    while not answer.endswith(b"Z\0\0\0\x05I"):
        part = client.recv(65536)
        if not part:
            raise RuntimeError(f"a client was lost: {answer!r}")
        answer += part
    return answer


def login(port: int, user: str = "app", database: str = "t") -> socket.socket:
    client = socket.create_connection((HOST, port), timeout=60)
    client.sendall(packet(user, database))
    read_answer(client)
    return client


def ask(client: socket.socket, sql: str) -> bytes:
    client.sendall(query(sql))
    answer = read_answer(client)
    if answer[:1] == b"E":
        raise RuntimeError(f"{sql}: {answer!r}")
    return answer


class Memory:
    """Of a process, in bytes."""

    def __init__(self, pid: int) -> None:
        fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        self.rss, self.pss = (int(fields[name].split()[0]) * 1024 for name in ("Rss", "Pss"))


class Measured:
    """One pooler with all its clients."""

    def __init__(self, program: str, cluster: Cluster, clients: int) -> None:
        folder = make_folder("pgweir-idle-")
        port = free_port()
        ini = folder / "pooler.ini"
        ini.write_text(f"[databases]\nt = host={HOST} port={cluster.primary.port} dbname=postgres\n[pgbouncer]\n"
                       f"listen_addr = {HOST}\nlisten_port = {port}\nunix_socket_dir = {folder}\nauth_type = trust\n"
                       f"auth_file = {folder}/users\npool_mode = transaction\nmax_client_conn = {clients + 10}\n"
                       f"log_connections = 0\nlog_disconnections = 0\nadmin_users = app\n")
        (folder / "users").write_text('"app" ""\n')
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program, str(ini)], cwd=folder, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, **run_as())
        sockets: list[socket.socket] = []
        try:
            wait_for(f"{program} answers", lambda: login(port).close() or True)
            console = login(port, database="pgbouncer")
            sockets.append(login(port))
            ask(sockets[0], "SELECT 1")
            before = Memory(process.pid)
            while len(sockets) < clients:
                sockets.append(login(port))
            after_login = Memory(process.pid)
            for client in sockets:
                ask(client, "SELECT 1")
            after_query = Memory(process.pid)
            began = time.monotonic()
            ask(console, "RELOAD")
            self.reload_ms = (time.monotonic() - began) * 1000
            for client in sockets:
                ask(client, "SELECT 2")
            self.login_rss, self.login_pss = ((later - first) / clients for later, first in (
                (after_login.rss, before.rss), (after_login.pss, before.pss)))
            self.query_rss, self.query_pss = ((later - first) / clients for later, first in (
                (after_query.rss, before.rss), (after_query.pss, before.pss)))
        finally:
            for client in sockets:
                client.close()
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--bin", default="build/release/pgweir")
    options.add_argument("--clients", type=int, default=10_000)
    options.add_argument("--out", type=pathlib.Path)
    options = options.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < options.clients + 100:
        print(f"the hard limit of open files is {hard}: too low for {options.clients} clients", file=sys.stderr)
        return 2
    copy = make_folder("pgweir-bin-") / "pgweir"
    shutil.copyfile(options.bin, copy)
    copy.chmod(0o755)
    give_away(copy)
    programs = {"pgbouncer": shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", "pgweir": str(copy)}
    cluster = Cluster.create(replicas=0)
    try:
        measured = {name: Measured(program, cluster, options.clients) for name, program in programs.items()}
    finally:
        cluster.stop()
        shutil.rmtree(copy.parent, ignore_errors=True)
    lines = [f"| {options.clients:,} clients | RSS per client, logged in | PSS | RSS per client, after a query each | PSS | RELOAD |",
             "|---|---|---|---|---|---|"]
    lines += [f"| {name} | {one.login_rss:,.0f} B | {one.login_pss:,.0f} B | {one.query_rss:,.0f} B | {one.query_pss:,.0f} B | "
              f"{one.reload_ms:.1f} ms |" for name, one in measured.items()]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return 0 if measured["pgweir"].reload_ms < RELOAD_MS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
