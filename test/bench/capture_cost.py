#!/usr/bin/env python3
"""What group captures, and all that a split adds to writes, cost: write-only pgbench through pgweir, with replica_host and without it, in turn.

    test/bench/capture_cost.py [PAIRS] [SECONDS]        with PGWEIR_BIN, else build/release/pgweir

Without replica_host nothing is classified, marked or captured. Of each run: CPU of the pooler and of the primary per write (which other work on the machine disturbs less than
the time it takes), writes a second, questions of the monitor a second (captures, and its polls), CPU of the monitor's backend on the primary per write, which is what captures cost there.
The result is the median over the pairs of (with / without), with the interval that holds the true median in 95 of 100 cases.
"""
from __future__ import annotations

import os
import pathlib
import re
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("PGWEIR_BIN", str(TOP / "build/release/pgweir"))
sys.path.insert(0, str(TOP / "test/integration"))
import pooler as poolers  # noqa: E402
from cluster import HOST, Cluster, clean_environment, wait_for  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
WRITE = "\\set k random(1, 100000)\nUPDATE written SET v = v + 1 WHERE k = :k;\nINSERT INTO logged VALUES (:k);\n"


def schedstat_s(pid: int | str) -> float:
    """CPU time of a process, to the nanosecond."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def waits_of(pid: int | str) -> int:
    """How often a backend has waited for its next question."""
    try:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1))
    except OSError:
        return 0


def children_of(parent: int) -> list[str]:
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found.append(stat.parent.name)
        except OSError:
            continue
    return found


def measure(cluster: Cluster, split: bool, seconds: int, folder: str) -> dict[str, float]:
    with poolers.for_cluster(cluster, "writes", settings="max_client_conn = 100", split=split, wait=False) as weir:
        def load(duration: int) -> float:
            done = subprocess.run(["pgbench", "-n", "-h", HOST, "-p", str(weir.port), "-U", "app", "-c", "8", "-T", str(duration), "-f", f"{folder}/write", "t"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(), cwd="/tmp")
            if done.returncode != 0:
                sys.exit(done.stdout)
            return float(re.search(r"transactions actually processed: (\d+)", done.stdout).group(1))
        if split:
            with weir.connect("t") as client:
                wait_for("a replica answers", lambda: poolers.query(client, "SELECT 1 FROM written LIMIT 1") and weir.routing().get(("replica", "read")))
        load(1)
        postmaster = int((cluster.primary.data / "postmaster.pid").read_text().splitlines()[0])
        monitors = [row[0] for row in cluster.primary.rows("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgweir monitor'")]

        def taken() -> tuple[float, float, float, float]:
            return (schedstat_s(weir.process.pid), schedstat_s(postmaster) + sum(schedstat_s(pid) for pid in children_of(postmaster)),
                    sum(schedstat_s(pid) for pid in monitors), sum(waits_of(pid) for pid in monitors))
        before = taken()
        writes = 2 * load(seconds)
        after = taken()
    pooler, primary, asked, questions = (after[i] - before[i] for i in range(4))
    return {"pooler": 1e6 * pooler / writes, "primary": 1e6 * primary / writes, "both": 1e6 * (pooler + primary) / writes, "monitor": 1e6 * asked / writes,
            "writes": writes / seconds, "questions": questions / seconds}


def interval(values: list[float]) -> str:
    """The median, and the order statistics that enclose the true one in 95 of 100 cases."""
    ordered = sorted(values)
    n = len(ordered)
    inside, low = 0.0, 0
    chance = 0.5 ** n
    while inside + chance <= 0.025 and low < n // 2:
        inside += chance
        chance = chance * (n - low) / (low + 1)
        low += 1
    low = max(0, low - 1)
    return f"{100 * (statistics.median(ordered) - 1):+.1f} % ({100 * (ordered[low] - 1):+.1f} to {100 * (ordered[n - 1 - low] - 1):+.1f})"


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    cluster = Cluster.create(replicas=1)
    try:
        folder = poolers.make_folder("capture-cost-")
        (folder / "write").write_text(WRITE)
        cluster.primary.execute("CREATE DATABASE writes OWNER app")
        cluster.primary.execute("SET ROLE app; CREATE TABLE written (k int PRIMARY KEY, v int) WITH (fillfactor = 50); CREATE TABLE logged (k int);"
                                "INSERT INTO written SELECT i, 0 FROM generate_series(1, 100000) AS i", "writes")
        cluster.wait_caught_up()
        runs: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        for pair in range(pairs):
            for split in ((True, False) if pair % 2 == 0 else (False, True)):
                runs[split].append(measure(cluster, split, seconds, str(folder)))
            print(f"{pair + 1}: with {runs[True][-1]} without {runs[False][-1]}", file=sys.stderr, flush=True)
        print("| | without replica_host | with it | difference, median of pairs (95 % interval) |\n| --- | --- | --- | --- |")
        for name, key in (("CPU of the pooler per write", "pooler"), ("CPU of the primary per write", "primary"), ("both", "both"), ("writes a second", "writes")):
            unit = "" if key == "writes" else " us"
            without, with_it = (statistics.median(run[key] for run in runs[split]) for split in (False, True))
            print(f"| {name} | {without:.1f}{unit} | {with_it:.1f}{unit} | {interval([w[key] / o[key] for w, o in zip(runs[True], runs[False])])} |")
        for name, key, unit in (("questions of the monitor a second", "questions", ""), ("CPU of its backend on the primary per write", "monitor", " us")):
            print(f"| {name} | {statistics.median(run[key] for run in runs[False]):.2f}{unit} | {statistics.median(run[key] for run in runs[True]):.2f}{unit} | |")
        share = [run["monitor"] / run["primary"] for run in runs[True]]
        print(f"\nOf the primary's CPU, its backend for the monitor takes {interval([1 + value for value in share])}.")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
