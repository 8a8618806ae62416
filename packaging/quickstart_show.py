"""The demonstration of packaging/quickstart: quickstart_show.py CLUSTER_JSON PORT

Which node answered is told by the nodes themselves: each logs every statement it runs. Why, is told by pgweir's SHOW ROUTING.
"""
from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test" / "integration"))

from cluster import HOST, Cluster, clean_environment, wait_for      # noqa: E402

import psycopg2             # noqa: E402

SESSION = [
    "CREATE TABLE items (id int PRIMARY KEY, name text, stock int)",
    "INSERT INTO items SELECT n, 'item ' || n, 10 FROM generate_series(1, 1000) AS n",
    "SELECT count(*) FROM items",
    "SELECT name FROM items WHERE id = 7",
    "UPDATE items SET stock = stock - 1 WHERE id = 7",
    "SELECT stock FROM items WHERE id = 7",
    "SELECT name FROM items WHERE id = 8 FOR UPDATE",
    "WITH gone AS (DELETE FROM items WHERE id = 999 RETURNING id) SELECT * FROM gone",
    "BEGIN",
    "SELECT stock FROM items WHERE id = 7",
    "COMMIT",
    "/* pgweir: primary */ SELECT stock FROM items WHERE id = 7",
    "SELECT pg_is_in_recovery()",
    "SELECT max(id) FROM items",
]
PAIRS = 1000
BENCH_SECONDS = 5
BENCH_STATEMENT = "SELECT abalance FROM pgbench_accounts"


class Show:
    def __init__(self, cluster: Cluster, port: int) -> None:
        self.cluster = cluster
        self.port = port

    def connect(self, dbname: str, user: str):
        connection = psycopg2.connect(host=HOST, port=self.port, dbname=dbname, user=user, connect_timeout=30)
        connection.autocommit = True
        return connection

    def rows(self, connection, sql: str) -> list[tuple]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def reasons(self, console) -> dict[tuple[str, str], int]:
        return {(target, reason): int(units) for _, target, reason, units in self.rows(console, "SHOW ROUTING")}

    def prepare(self) -> None:
        self.cluster.wait_caught_up()
        # Closed by closing(): psycopg2's own `with connection` sends a BEGIN, which the console doesn't know.
        with contextlib.closing(self.connect("pgbouncer", "admin")) as console:
            with contextlib.closing(self.connect("shop", "app")) as application:
                self.rows(application, "SELECT 1")          # the first client starts the pool
                wait_for("both replicas are ok", lambda: self.rows(application, "SELECT 1") and sum(
                    1 for row in self.nodes(console) if row["role"] == "replica" and row["health"] == "ok") == 2)

    def nodes(self, console) -> list[dict]:
        with console.cursor() as cursor:
            cursor.execute("SHOW NODES")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    # -- one psql session, statement by statement

    def session(self) -> None:
        psql = subprocess.Popen(["psql", "-X", "-q", "-P", "footer=off", "-P", "null=null", "-h", HOST, "-p", str(self.port), "-U", "app", "shop"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/tmp",
                                env=clean_environment())
        console = self.connect("pgbouncer", "admin")
        try:
            for number, sql in enumerate(SESSION):
                if sql.startswith("SELECT") and "FOR UPDATE" not in sql:
                    self.cluster.wait_caught_up()           # so that the tale is the same on every run
                    time.sleep(0.3)
                marker = f"step {number} of the session"
                positions, before = self.cluster.log_positions(), self.reasons(console)
                psql.stdin.write(f"{sql} /* {marker} */;\n\\echo {marker}\n")
                psql.stdin.flush()
                output = []
                while (line := psql.stdout.readline().rstrip("\n")) != marker:
                    if not line and psql.poll() is not None:
                        raise RuntimeError("psql ended: " + "\n".join(output))
                    output.append(line)
                where = [name for name, count in self.cluster.times_run(marker, positions).items() if count]
                why = [reason for (target, reason), units in self.reasons(console).items()
                       if units > before.get((target, reason), 0)]
                print(f"  shop=> {sql}")
                for line in output:
                    if line.strip():
                        print(f"         {line}")
                print(f"           answered by {' and '.join(where) or 'nobody'}: {', '.join(why)}\n", flush=True)
        finally:
            psql.stdin.close()
            psql.wait(20)
            console.close()

    # -- read after write

    def read_after_write(self) -> int:
        writer, reader = self.connect("shop", "app"), self.connect("shop", "app")
        positions = self.cluster.log_positions()
        stale = 0
        began = time.monotonic()
        for value in range(1, PAIRS + 1):
            self.rows(writer, f"UPDATE items SET stock = {value} WHERE id = 1")
            client = reader if value % 2 else writer
            # Every tenth time a little later, when a replica may be ready.
            if value % 10 == 0:
                time.sleep(0.01)
            stale += self.rows(client, "SELECT stock FROM items WHERE id = 1 /* read after write */") != [(value,)]
        counts = self.cluster.times_run("read after write", positions)
        print(f"  {PAIRS} updates, each read at once on the same or another connection ({time.monotonic() - began:.1f} s): "
              f"{stale} stale reads")
        print(f"  the reads were answered by: {', '.join(f'{name} {count}' for name, count in counts.items())}\n", flush=True)
        writer.close()
        reader.close()
        return stale

    # -- load

    def bench(self) -> float:
        pgbench = ["pgbench", "-h", HOST, "-p", str(self.port), "-U", "app"]
        for arguments in (["-i", "-q", "-s", "5", "shop"],):
            subprocess.run([*pgbench, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
                           cwd="/tmp", env=clean_environment())
        self.cluster.wait_caught_up()
        positions = self.cluster.log_positions()
        done = subprocess.run([*pgbench, "-n", "-S", "-c", "10", "-j", "2", "-T", str(BENCH_SECONDS), "shop"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/tmp", env=clean_environment())
        if done.returncode != 0:
            raise RuntimeError(f"pgbench failed:\n{done.stdout}")
        counts = self.cluster.times_run(BENCH_STATEMENT, positions)
        total = sum(counts.values())
        share = 100.0 * (total - counts["primary"]) / max(total, 1)
        tps = [line for line in done.stdout.splitlines() if line.startswith("tps")]
        print(f"  pgbench -S, 10 clients, {BENCH_SECONDS} s: {total} reads ({', '.join(f'{name} {count}' for name, count in counts.items())})")
        print(f"  {share:.1f} % answered by replicas; {tps[0] if tps else ''}", flush=True)
        return share


def main(arguments: list[str]) -> int:
    cluster = Cluster.from_json(pathlib.Path(arguments[0]).read_text())
    show = Show(cluster, int(arguments[1]))
    show.prepare()
    print("\n  A psql session; below each statement, who answered it and why:\n", flush=True)
    show.session()
    stale = show.read_after_write()
    show.bench()
    return 1 if stale else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (psycopg2.Error, OSError, RuntimeError) as error:        # TimeoutError is an OSError
        sys.exit(f"quickstart: {error}")
