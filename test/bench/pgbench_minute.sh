#!/usr/bin/env bash
# pgbench -S, -N and TPC-B through pgweir: 50 clients over 10 servers, a minute each, and no error.
#
#   test/bench/pgbench_minute.sh [SECONDS]        with PGWEIR_BIN, else build/release/pgweir
set -euo pipefail
exec </dev/null
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
seconds=${1:-60}
export PGWEIR_BIN="${PGWEIR_BIN:-$top/build/release/pgweir}"
[ -x "$PGWEIR_BIN" ] || { echo "pgbench_minute.sh: $PGWEIR_BIN is missing (cmake --preset release && cmake --build --preset release)" >&2; exit 1; }

exec /usr/bin/python3 - "$top" "$seconds" <<'PYTHON'
import re, subprocess, sys
top, seconds = sys.argv[1:]
sys.path.insert(0, top + "/test/integration")
import pooler as poolers
from cluster import HOST, Cluster, clean_environment

def pgbench(port, *arguments):
    done = subprocess.run(["pgbench", "-h", HOST, "-p", str(port), "-U", "app", *arguments, "t"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(), cwd="/tmp")
    if done.returncode != 0 or "number of failed transactions: 0 " not in done.stdout and "-i" not in arguments:
        sys.exit(f"pgbench {' '.join(arguments)} failed:\n{done.stdout}")
    return done.stdout

cluster = Cluster.create()
try:
    for node in cluster.nodes:
        node.set("log_statement", "none")
    with poolers.running(poolers.ini_for(cluster, "postgres", "pool_size=10", "max_client_conn = 200")) as weir:
        cluster.primary.execute("GRANT ALL ON SCHEMA public TO app")
        pgbench(weir.port, "-i", "-q", "-s", "20")
        cluster.wait_caught_up()
        for name, script in (("-S", "select-only"), ("-N", "simple-update"), ("TPC-B", "tpcb-like")):
            for mode in ("simple", "extended", "prepared"):
                each = str(max(1, int(seconds) // 3))
                before = weir.routing()
                out = pgbench(weir.port, "-n", "-c", "50", "-j", "2", "-T", each, "-M", mode, "-b", script)
                after = weir.routing()
                gained = {key: after[key] - before.get(key, 0) for key in after}
                by_replicas = sum(count for (target, _), count in gained.items() if target.startswith("replica"))
                tps = re.search(r"tps = ([0-9.]+)", out).group(1)
                print(f"{name:6} {mode:9} {each} s: {tps} tps, no error, {100 * by_replicas / max(1, sum(gained.values())):.1f} % of units by replicas", flush=True)
finally:
    cluster.stop()
    poolers.remove_binary()
PYTHON
