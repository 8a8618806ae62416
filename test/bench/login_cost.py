#!/usr/bin/env python3
"""What a login costs in the pooler: pgweir beside Debian's pgbouncer, in alternating rounds on one machine.

    test/bench/login_cost.py [--bin build/release/pgweir] [--rounds 5] [--seconds 5] [--rate 1000] [--out FILE.md]

Clients connect, log in, and leave, `--rate` times a second: with trust, and with scram-sha-256 at 4,096 iterations, where auth_file holds
a SCRAM secret or the password itself. CPU time of the pooler (from schedstat, in nanoseconds) over logins. The clients know the
salted password and take no iterated hash, so that one process keeps up; that the pooler's iterated hash is bounded shows in the figures.
A ratio is the median of the ratios of the same rounds.

Needs pgbouncer. As root, the poolers run as the account postgres.
"""
from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import os
import pathlib
import select
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import HOST, Cluster, clean_environment, free_port, give_away, make_folder, run_as, wait_for     # noqa: E402
from wire import message, scram_secret, startup     # noqa: E402

POOLERS = ("pgbouncer", "pgweir")
WAYS = ("trust", "SCRAM secret", "password")
PASSWORD = "a secret of usual length"
AT_ONCE = 32


class Login:
    """One client on a socket that never blocks."""

    salted: dict[bytes, tuple[bytes, bytes]] = {}       # of salt and iterations: the client's key, and the stored one

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex((HOST, port))
        self.nonce = base64.b64encode(os.urandom(18)).decode()
        self.kept = b""
        self.said = False

    def begin(self) -> None:
        self.socket.send(startup("app", "t"))
        self.said = True

    def go_on(self) -> bool:
        """True when it is in."""
        data = self.socket.recv(65536)
        if not data:
            raise RuntimeError("the pooler hung up")
        self.kept += data
        while len(self.kept) >= 5:
            size = 1 + struct.unpack_from("!I", self.kept, 1)[0]
            if len(self.kept) < size:
                return False
            kind, body, self.kept = self.kept[:1], self.kept[5:size], self.kept[size:]
            if kind == b"E":
                raise RuntimeError(body.decode("latin-1"))
            if kind == b"Z":
                return True
            if kind == b"R":
                self.answer(struct.unpack_from("!I", body)[0], body[4:])
        return False

    def answer(self, code: int, body: bytes) -> None:
        if code == 10:
            self.first = f"n=,r={self.nonce}"
            text = ("n,," + self.first).encode()
            self.socket.send(message("p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(text)) + text))
        elif code == 11:
            self.socket.send(message("p", self.final(body.decode())))

    def final(self, server_first: str) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        question = f"{fields['s']},{fields['i']}".encode()
        if question not in self.salted:
            assert fields["i"] == "4096"
            salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(fields["s"]), 4096)
            key = hmac.digest(salted, b"Client Key", "sha256")
            self.salted[question] = key, hashlib.sha256(key).digest()
        key, stored = self.salted[question]
        without_proof = f"c=biws,r={fields['r']}"
        signature = hmac.digest(stored, f"{self.first},{server_first},{without_proof}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        return f"{without_proof},p={proof}".encode()

    def leave(self) -> None:
        self.socket.send(message("X"))
        self.socket.close()


def log_in(port: int, rate: int, seconds: float) -> int:
    """Logins within `seconds`, no more than `rate` a second and AT_ONCE at a time."""
    begun, done = 0, 0
    open_ones: dict[int, Login] = {}
    poll = select.epoll()
    start = time.monotonic()
    while True:
        now = time.monotonic() - start
        if now >= seconds and not open_ones:
            return done
        while now < seconds and begun < now * rate and len(open_ones) < AT_ONCE:
            client = Login(port)
            open_ones[client.socket.fileno()] = client
            poll.register(client.socket.fileno(), select.EPOLLOUT)
            begun += 1
        for descriptor, _ in poll.poll(0.001):
            client = open_ones[descriptor]
            if not client.said:
                client.begin()
                poll.modify(descriptor, select.EPOLLIN)
            elif client.go_on():
                poll.unregister(descriptor)
                del open_ones[descriptor]
                client.leave()
                done += 1


def cpu_ns(process: subprocess.Popen) -> int:
    """Of all its threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir())


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = make_folder("pgweir-bench-")
        self.cluster = Cluster.create(replicas=0)
        self.program = self.folder / "pgweir"
        shutil.copyfile(options.bin, self.program)
        os.chmod(self.program, 0o755)
        self.secrets = {"trust": "", "SCRAM secret": scram_secret(PASSWORD), "password": PASSWORD}

    def close(self) -> None:
        self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def round(self, which: str, way: str) -> tuple[float, float]:
        """(microseconds of the pooler's CPU for a login, logins a second)"""
        port = free_port()
        folder = self.folder / f"run-{port}"
        folder.mkdir()
        give_away(folder)
        (folder / "users").write_text(f'"app" "{self.secrets[way]}"\n')
        (folder / "pooler.ini").write_text(
            f"[databases]\nt = host={HOST} port={self.cluster.primary.port} dbname=postgres\n[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {port}\n"
            f"unix_socket_dir = {folder}\nauth_type = {'trust' if way == 'trust' else 'scram-sha-256'}\nauth_file = {folder}/users\npool_mode = transaction\n"
            "max_client_conn = 1000\nlog_connections = 0\nlog_disconnections = 0\n")
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program if which == "pgbouncer" else str(self.program), str(folder / "pooler.ini")], cwd=folder,
                                       env=clean_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **run_as())
        try:
            wait_for(f"{which} answers", lambda: socket.create_connection((HOST, port), timeout=1).close() is None)
            log_in(port, self.options.rate, 0.5)        # its first server, and what it remembers
            before, start = cpu_ns(process), time.monotonic()
            done = log_in(port, self.options.rate, self.options.seconds)
            return (cpu_ns(process) - before) / 1000 / done, done / (time.monotonic() - start)
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    top = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(top / "build/release/pgweir"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--out")
    options = parser.parse_args()
    bench = Bench(options)
    try:
        lines = ["| login | pgbouncer, µs CPU | pgweir, µs CPU | pgweir / pgbouncer | logins per second |", "|---|---|---|---|---|"]
        for way in WAYS:
            costs: dict[str, list[float]] = {which: [] for which in POOLERS}
            rates: dict[str, list[float]] = {which: [] for which in POOLERS}
            for number in range(options.rounds):
                for which in POOLERS if number % 2 == 0 else POOLERS[::-1]:
                    cost, rate = bench.round(which, way)
                    costs[which].append(cost)
                    rates[which].append(rate)
            ratios = sorted(mine / its for its, mine in zip(costs["pgbouncer"], costs["pgweir"]))
            lines.append(f"| {way} | {statistics.median(costs['pgbouncer']):.0f} | {statistics.median(costs['pgweir']):.0f} | "
                         f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | "
                         + ", ".join(f"{statistics.median(rates[which]):.0f}" for which in POOLERS) + " |")
            print(lines[-1], flush=True)
    finally:
        bench.close()
    print("\n".join(lines))
    if options.out:
        pathlib.Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
