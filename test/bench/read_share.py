#!/usr/bin/env python3
"""How much a level leaves on the replicas: a web-like load (9 reads for a write, 20 tables of which 5 are written) through pgweir.

    test/bench/read_share.py [SECONDS] [RATE]        with PGWEIR_BIN, else build/release/pgweir

One row for each level, replica_wait and replay delay: share of reads that replicas answered, statements that the primary ran of those that came, CPU of the primary
per statement, mean latency. RATE statements a second are offered by 8 clients; pgbench counts latency from when each was due.
"""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("PGWEIR_BIN", str(TOP / "build/release/pgweir"))
sys.path.insert(0, str(TOP / "test/integration"))
import pooler as poolers  # noqa: E402
from cluster import HOST, Cluster, clean_environment, wait_for  # noqa: E402

READ = "\\set n random(0, 19)\n\\set k random(1, 1000)\nSELECT v FROM web:n WHERE k = :k;\n"
WRITE = "\\set n random(0, 4)\n\\set k random(1, 1000)\nUPDATE web:n SET v = v + 1 WHERE k = :k;\n"
CASES = [("table", wait) for wait in ("0", "0.001", "0.005", "0.02")] + [
    ("session", "0"), ("session", "0.005"), ("latest", "0.005"), ("latest", "0.02"), ("window", "0"), ("pin", "0"), ("eventual", "0"), ("primary", "0")]
DELAYS_MS = [0, 20, 200]


def cpu_s(cluster: Cluster) -> float:
    """Of the primary's processes that live now, its connections among them."""
    postmaster = int((cluster.primary.data / "postmaster.pid").read_text().splitlines()[0])
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == postmaster or stat.parent.name == str(postmaster):
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def measure(cluster: Cluster, level: str, wait: str, seconds: int, rate: int, folder: str) -> list[str]:
    settings = f"read_consistency = {level}\nreplica_wait = {wait}\npin_window = 1\nmax_client_conn = 100\n"
    with poolers.for_cluster(cluster, "web", settings=settings, wait=False) as weir:
        def run(duration: int) -> str:
            done = subprocess.run(
                ["pgbench", "-n", "-h", HOST, "-p", str(weir.port), "-U", "app", "-c", "8", "-T", str(duration), "-R", str(rate),
                 "-f", f"{folder}/read@9", "-f", f"{folder}/write@1", "t"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(), cwd="/tmp")
            if done.returncode != 0:
                sys.exit(done.stdout)
            return done.stdout
        run(3)
        if level != "primary":
            with weir.connect("t") as client:
                wait_for("a replica answers", lambda: poolers.query(client, "SELECT count(*) FROM web9") and weir.routing().get(("replica", "read")))
        before, cpu = weir.routing(), cpu_s(cluster)
        report = run(seconds)
        after, cpu = weir.routing(), cpu_s(cluster) - cpu
    units = {key: after[key] - before.get(key, 0) for key in after}
    total = sum(units.values())
    on_replicas = sum(count for (target, _), count in units.items() if target == "replica")
    writes = units.get(("primary", "write"), 0)
    latency_ms = float(re.search(r"latency average = ([\d.]+) ms", report).group(1))
    return [f"{100 * on_replicas / (total - writes):.0f} %", f"{100 * (total - on_replicas) / total:.0f} %", f"{1e6 * cpu / total:.0f} us", f"{latency_ms:.2f} ms"]


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    cluster = Cluster.create()
    try:
        for node in cluster.nodes:
            node.set("log_statement", "none")
            node.set("log_connections", "off")
        cluster.primary.execute("CREATE DATABASE web OWNER app")
        cluster.primary.execute("SET ROLE app; " + " ".join(
            f"CREATE TABLE web{n} (k int PRIMARY KEY, v int); INSERT INTO web{n} SELECT i, 0 FROM generate_series(1, 1000) AS i;" for n in range(20)), "web")
        cluster.primary.execute("VACUUM ANALYZE", "web")
        cluster.wait_caught_up()
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            for name, text in (("read", READ), ("write", WRITE)):
                pathlib.Path(folder, name).write_text(text)
            print("| replay delay | level | replica_wait | reads on replicas | statements on the primary | CPU of the primary per statement | latency |\n|---|---|---|---|---|---|---|")
            for delay_ms in DELAYS_MS:
                for replica in cluster.replicas:
                    replica.set_apply_delay(delay_ms)
                for level, wait in CASES:
                    print("| " + " | ".join([f"{delay_ms} ms", level, wait, *measure(cluster, level, wait, seconds, rate, folder)]) + " |", flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
