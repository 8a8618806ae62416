#!/usr/bin/env python3
"""What a transaction costs in the pooler: pgweir beside Debian's pgbouncer, in alternating rounds on one machine.

    test/bench/pooler_bench.py [--bin build/release/pgweir] [--rounds 5] [--seconds 5] [--clients 32] [--out FILE.md]

For `pgbench -S` in the three protocol modes: CPU time of the pooler (utime + stime over transactions), system calls and
allocations per transaction. Three poolers: pgbouncer, pgweir without replicas, pgweir with its reads split over two. A ratio is
the median of the ratios of the same rounds; it tells more than the figures, which depend on the machine and its other work.
pgbouncer 1.18 can't prepare in transaction pooling, so the prepared mode runs all of them in session pooling.

Needs pgbouncer and, for the last two columns, perf or strace, and cc. As root, the poolers run as the account postgres.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import HOST, Cluster, clean_environment, free_port, give_away, make_folder, run_as, wait_for     # noqa: E402

import psycopg2     # noqa: E402

MODES = ("simple", "extended", "prepared")
POOLERS = ("pgbouncer", "pgweir", "pgweir split")
SERVERS = 20
TICKS = os.sysconf("SC_CLK_TCK")
STARVED_BELOW = 0.7         # of the most transactions that any pooler has done in this mode and time
ATTEMPTS_MAX = 4

COUNTER_C = r"""
/* Counts calls of malloc, calloc and realloc into a file that is mapped shared: ALLOC_COUNT_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static _Atomic unsigned long long unmapped, *count = &unmapped;
static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t), *(*real_realloc)(void *, size_t);
static char early[65536]; static size_t early_used;      /* dlsym itself asks for memory */
static void *early_take(size_t n) { void *p = early + early_used; early_used += (n + 15) & ~(size_t)15; return early_used <= sizeof early ? p : 0; }
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("ALLOC_COUNT_FILE");
  int fd = path ? open(path, O_RDWR) : -1;
  if (fd < 0) return;
  void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) count = page;
}
static void resolve(void) {
  static int busy;
  if (busy) return;
  busy = 1;
  real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
  real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
  real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  busy = 0;
}
void *malloc(size_t n) { if (!real_malloc) resolve(); ++*count; return real_malloc ? real_malloc(n) : early_take(n); }
void *calloc(size_t n, size_t m) { if (!real_calloc) resolve(); ++*count; return real_calloc ? real_calloc(n, m) : early_take(n * m); }
void *realloc(void *p, size_t n) { if (!real_realloc) resolve(); ++*count; return real_realloc(p, n); }
void free(void *p) {
  static void (*real_free)(void *);
  if ((char *)p >= early && (char *)p < early + sizeof early) return;
  if (!real_free) real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
  real_free(p);
}
"""


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = make_folder("pgweir-bench-")
        self.cluster = Cluster.create()
        for node in self.cluster.nodes:
            node.set("log_statement", "none")
        self.program = self.folder / "pgweir"
        shutil.copyfile(options.bin, self.program)
        os.chmod(self.program, 0o755)
        self.counter = self.build_counter()
        self.most_done: dict[str, int] = {}

    def close(self) -> None:
        self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def build_counter(self) -> pathlib.Path | None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return None
        source, library = self.folder / "count.c", self.folder / "count.so"
        source.write_text(COUNTER_C)
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        os.chmod(library, 0o755)
        return library

    # -- one pooler

    def start(self, which: str, mode: str, counting: bool = False) -> "Running":
        port = free_port()
        folder = self.folder / f"run-{port}"
        folder.mkdir()
        give_away(folder)
        replicas = f" replica_host={self.cluster.replica_hosts}" if which == "pgweir split" else ""
        more = "" if which == "pgbouncer" else "monitor_user = postgres\n"
        pool_mode = "session" if mode == "prepared" else "transaction"
        ini = folder / "pooler.ini"
        ini.write_text(f"[databases]\nt = host={HOST} port={self.cluster.primary.port} dbname=postgres{replicas}\n[pgbouncer]\n"
                       f"listen_addr = {HOST}\nlisten_port = {port}\nunix_socket_dir = {folder}\nauth_type = trust\n"
                       f"auth_file = {folder}/users\npool_mode = {pool_mode}\ndefault_pool_size = {max(SERVERS, self.options.clients)}\n"
                       f"max_client_conn = 1000\nlog_connections = 0\nlog_disconnections = 0\nadmin_users = app\n{more}")
        (folder / "users").write_text('"app" ""\n')
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        environment = clean_environment()
        counts = folder / "allocations"
        counts.write_bytes(bytes(4096))
        give_away(counts)
        if counting:
            environment |= {"LD_PRELOAD": str(self.counter), "ALLOC_COUNT_FILE": str(counts)}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program if which == "pgbouncer" else str(self.program), str(ini)], cwd=folder, env=environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, **run_as())
        running = Running(process, port, counts)
        wait_for(f"{which} answers", running.answers)
        if replicas:
            time.sleep(2)               # the monitor's first rounds, the catalog
        return running

    def pgbench(self, port: int, mode: str, *length: str) -> int:
        """Transactions done. `length` is -T and seconds, or -t and transactions of each client."""
        done = subprocess.run(["pgbench", "-h", HOST, "-p", str(port), "-U", "app", "-n", "-S", "-M", mode, "-c", str(self.options.clients),
                               "-j", "2", *length, "t"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=clean_environment(), cwd="/tmp")
        found = re.search(r"transactions actually processed: (\d+)", done.stdout)
        if done.returncode != 0 or not found:
            raise RuntimeError(f"pgbench through port {port}:\n{done.stdout}")
        return int(found.group(1))

    # -- figures

    def cpu_us(self, running: "Running", mode: str) -> float:
        """Measured again while it got much less done than others have in this mode: then somebody else was using the machine, and
        few ticks over few transactions tell nothing. The best of the attempts counts."""
        attempts = []
        for _ in range(ATTEMPTS_MAX):
            before = running.cpu_ticks()
            transactions = self.pgbench(running.port, mode, "-T", str(self.options.seconds))
            attempts.append((transactions, (running.cpu_ticks() - before) * 1e6 / TICKS / transactions))
            most = self.most_done[mode] = max(self.most_done.get(mode, 0), transactions)
            if transactions >= STARVED_BELOW * most:
                break
        return max(attempts)[1]

    def system_calls(self, running: "Running", mode: str) -> float | None:
        """Per transaction, over a run of its own: counting slows it down."""
        output = self.folder / "calls"
        pid = str(running.process.pid)
        for tool in (["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", pid, "-o", str(output)],
                     ["strace", "-c", "-f", "-p", pid, "-o", str(output)]):
            if shutil.which(tool[0]) is None:
                continue
            output.unlink(missing_ok=True)
            watcher = subprocess.Popen(tool, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            if watcher.poll() is not None:
                continue
            transactions = self.pgbench(running.port, mode, "-T", "2")
            watcher.send_signal(2)
            watcher.wait(20)
            text = output.read_text(errors="replace") if output.exists() else ""
            found = re.search(r"^(\d+),", text, re.M) if tool[0] == "perf" else re.search(r"^100.00\s+\S+\s+\S*?\s+(\d+)\s", text, re.M)
            if found and int(found.group(1)) > transactions:
                return int(found.group(1)) / transactions
        return None

    def allocations(self, which: str, mode: str) -> float | None:
        """Of a long run without those of a short one, so that logins drop out; the least of three, because the catalog may be read
        again during one of them. What the monitor needs, some hundred a second, is in it."""
        if self.counter is None:
            return None
        running = self.start(which, mode, counting=True)
        try:
            if running.allocations() == 0:
                return None             # a counter that counts nothing (a static allocator) is no zero
            counts = []
            for transactions in (10_000, 40_000, 40_000, 40_000):
                before = running.allocations()
                self.pgbench(running.port, mode, "-t", str(transactions // self.options.clients))
                counts.append(running.allocations() - before)
            return max(0, min(counts[1:]) - counts[0]) / 30_000
        finally:
            running.stop()

    def run(self) -> str:
        subprocess.run(["pgbench", "-h", HOST, "-p", str(self.cluster.primary.port), "-U", "postgres", "-i", "-q", "-s", "10", "postgres"],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/tmp")
        self.cluster.primary.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")
        self.cluster.wait_caught_up()
        lines = ["| pgbench -S | pooler | CPU µs/tx (median) | ratio to pgbouncer | ratios of the rounds | system calls/tx | allocations/tx |",
                 "|---|---|---|---|---|---|---|"]
        for mode in MODES:
            samples: dict[str, list[float]] = {which: [] for which in POOLERS}
            calls: dict[str, float | None] = {}
            running = {which: self.start(which, mode) for which in POOLERS}
            try:
                for which in POOLERS:
                    self.pgbench(running[which].port, mode, "-T", "1")
                for number in range(self.options.rounds):
                    order = POOLERS if number % 2 == 0 else POOLERS[::-1]
                    for which in order:
                        samples[which].append(self.cpu_us(running[which], mode))
                        print(f"{mode:9} round {number + 1} {which:13} {samples[which][-1]:6.2f} us/tx", file=sys.stderr, flush=True)
                for which in POOLERS:
                    calls[which] = self.system_calls(running[which], mode)
            finally:
                for one in running.values():
                    one.stop()
            for which in POOLERS:
                ratios = [mine / theirs for mine, theirs in zip(samples[which], samples["pgbouncer"])]
                each = "" if which == "pgbouncer" else " ".join(f"{ratio:.2f}" for ratio in ratios)
                lines.append(f"| {mode} | {which} | {statistics.median(samples[which]):.2f} | {statistics.median(ratios):.2f} | {each} | "
                             f"{figure(calls[which])} | {figure(self.allocations(which, mode))} |")
        return "\n".join(lines) + "\n"


class Running:
    def __init__(self, process: subprocess.Popen, port: int, counts: pathlib.Path) -> None:
        self.process, self.port, self.counts = process, port, counts

    def answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"a pooler ended: {(self.counts.parent / 'log').read_text(errors='replace')}")
        psycopg2.connect(host=HOST, port=self.port, dbname="t", user="app", connect_timeout=5).close()
        return True

    def cpu_ticks(self) -> int:
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def allocations(self) -> int:
        return struct.unpack_from("Q", self.counts.read_bytes())[0]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def figure(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "pgweir"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--out")
    options = parser.parse_args()
    for needed in (options.bin, shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"):
        if not os.access(needed, os.X_OK):
            print(f"pooler_bench: {needed} is missing", file=sys.stderr)
            return 1
    bench = Bench(options)
    try:
        table = bench.run()
    finally:
        bench.close()
    print(table)
    if options.out:
        pathlib.Path(options.out).write_text(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
