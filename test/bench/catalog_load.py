#!/usr/bin/env python3
"""How long a catalog of 50,000 relations and 20,000 functions takes to load, what it occupies, and how long it keeps the loop.

usage: catalog_load.py [--pgweir PATH] [--loads N]      (a release build; makes a cluster of its own, for some minutes)

It starts a primary with a replica, makes the schema, and starts pgweir with catalog_refresh = 1. The log line of each load
tells its time from question to snapshot and the snapshot's memory. Beside it a client asks the console for SHOW VERSION without pause:
the longest answer while catalogs are loaded is how long the loop was kept, or the machine was busy with something else. First nothing
changes between loads, then there is a new table for each, of which pgweir is not told.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import pooler as poolers            # noqa: E402
from cluster import Cluster, wait_for   # noqa: E402

LOOP = "DO $do$ BEGIN FOR i IN 1..{count} LOOP {body} IF i % 500 = 0 THEN COMMIT; END IF; END LOOP; END $do$"


def many(count: int, template: str) -> str:
    """`template` executed for each number, with %s standing for it."""
    uses = template.count("%s")
    return LOOP.format(count=count, body=f"EXECUTE format($f${template}$f${', i' * uses});")


SCHEMA = [
    "CREATE TABLE root (id int, k int) PARTITION BY LIST (k)",
    many(20_000, "CREATE TABLE t%s (id int, a text, b int DEFAULT 0, at timestamptz DEFAULT now())"),
    many(4_000, "CREATE TABLE p%s PARTITION OF root FOR VALUES IN (%s)"),
    many(15_000, "CREATE TABLE u%s (id int, parent int)"),
    many(2_000, "ALTER TABLE t%s ADD PRIMARY KEY (id)"),
    many(2_000, "ALTER TABLE u%s ADD FOREIGN KEY (parent) REFERENCES t%s ON DELETE CASCADE"),
    many(10_000, "CREATE VIEW v%s AS SELECT t.id, t.a, count(u.id) AS n, max(t.at) AS at FROM t%s t LEFT JOIN u%s u ON u.parent = t.id"
                 " WHERE lower(t.a) <> 'x' GROUP BY 1, 2"),
    many(1_000, "CREATE SEQUENCE s%s"),
    many(10_000, "CREATE FUNCTION f%s(x int) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM t%s t JOIN u%s u"
                 " ON u.parent = t.id WHERE t.b > x AND lower(t.a) LIKE ''a%%'''"),
    many(10_000, "CREATE FUNCTION g%s(x int) RETURNS bigint LANGUAGE plpgsql AS 'DECLARE n bigint; r record; BEGIN IF x > 0 THEN"
                 " SELECT f%s(x) INTO n; ELSE n := 0; END IF; FOR r IN SELECT * FROM v%s LOOP n := n + r.n; END LOOP;"
                 " INSERT INTO t%s (id, a) VALUES (n, r.a); UPDATE u%s SET parent = n WHERE id = x; RETURN n; END'"),
    "CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO t1 (id) VALUES (1); RETURN NULL; END'",
    many(2_000, "CREATE TRIGGER trg AFTER INSERT ON t%s FOR EACH ROW EXECUTE FUNCTION trg()"),
    "VACUUM ANALYZE",
]
LINE = re.compile(r"catalog of database \"big\": (\d+) relations, (\d+) functions, (\d+) KiB, loaded in (\d+) ms")


def answer_times_ms(cursor, until) -> list[float]:
    times = []
    while not until():
        began = time.perf_counter()
        cursor.execute("SHOW VERSION")
        times.append((time.perf_counter() - began) * 1000)
    return times


def told(times: list[float]) -> str:
    ordered = sorted(times)
    return (f"{len(ordered)} console answers, median {statistics.median(ordered):.2f} ms, p99.9 {ordered[len(ordered) * 999 // 1000]:.2f} ms,"
            f" longest {ordered[-1]:.2f} ms")


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident now, and the most it ever was."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pgweir", default="build/release/pgweir")
    parser.add_argument("--loads", type=int, default=5)
    options = parser.parse_args()
    os.environ["PGWEIR_BIN"] = str(pathlib.Path(options.pgweir).resolve())
    cluster = Cluster.create(replicas=1)
    try:
        cluster.primary.execute("CREATE DATABASE big")
        for sql in SCHEMA:
            cluster.primary.execute(sql, "big")
        cluster.wait_caught_up()
        with poolers.for_cluster(cluster, "big", settings="catalog_refresh = 1\nverbose = 2", wait=False) as pooler:
            pid = pooler.process.pid
            loads = lambda: LINE.findall(pooler.log())     # noqa: E731
            before = memory_mib(pid)[0]
            with pooler.connect("t", "app") as client, client.cursor() as cursor:
                cursor.execute("SELECT 1")
            wait_for("a first load", lambda: len(loads()) >= 1)
            resident, most = memory_mib(pid)
            print(f"relations {loads()[-1][0]}, functions {loads()[-1][1]}, snapshot {int(loads()[-1][2]) / 1024:.1f} MiB;"
                  f" resident {before:.1f} MiB before, {resident:.1f} MiB after, {most:.1f} MiB at most")
            with pooler.connect("pgbouncer", "admin") as console, console.cursor() as cursor:
                for what, ddl in (("unchanged", False), ("changed", True)):
                    first, times, began = len(loads()), [], cpu_s(pid)
                    for number in range(options.loads):
                        if ddl:
                            cluster.primary.execute(f"CREATE TABLE added_{number} (id int)", "big")
                        seen = len(loads())
                        times += answer_times_ms(cursor, lambda seen=seen: len(loads()) > seen)
                    print(f"{what}: loaded in ms {' '.join(load[3] for load in loads()[first:])}; {told(times)}")
                first, began = len(loads()), cpu_s(pid)
                wait_for("loads with nobody else", lambda: len(loads()) >= first + options.loads)
                print(f"unchanged, nobody asking: {(cpu_s(pid) - began) / options.loads * 1000:.0f} ms of pgweir's CPU for each")
                cursor.execute("SET catalog_refresh = 3600")
            print(f"resident {memory_mib(pid)[0]:.1f} MiB at the end, {memory_mib(pid)[1]:.1f} MiB at most")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
