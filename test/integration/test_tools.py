"""Tools that watch PgBouncer, run against pgweir as Debian packages them; and what others read, asked the way they ask."""
from __future__ import annotations

import datetime
import re
import shutil
import struct
import subprocess

import psycopg2
import pytest

import pooler as poolers
from cluster import HOST, clean_environment, free_port, run_as, wait_for
from wire import connected


@pytest.fixture(scope="module")
def weir(cluster, db):
    """A pooler that has something to tell: finished and open sessions, an error, statistics."""
    with poolers.for_cluster(cluster, db, settings="stats_period = 1\nmax_client_conn = 200") as pooler:
        with pooler.connect() as first:
            assert poolers.query(first, "SELECT 1 /* pgweir: primary */") == [(1,)]
        with pytest.raises(psycopg2.OperationalError, match="no such database"):
            pooler.rows("SELECT 1", "no_such_database")
        with pooler.connect() as connection:
            poolers.query(connection, "SELECT 1")
            yield pooler


def tool(name: str, package: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: install {package} (packaging/packages.sh names what the tests need)"
    return found


def run(*command: str, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, env={**clean_environment(), **more}, capture_output=True, text=True, timeout=60, **run_as())


# ---------------------------------------------------------------------------------------- psql

def test_psql_shows_everything_that_help_names(weir):
    psql = (tool("psql", "postgresql-client"), "-X", "-w", "-h", HOST, "-p", str(weir.port), "-U", "admin", "-d", "pgbouncer")
    told = run(*psql, "-c", "SHOW HELP")
    assert told.returncode == 0 and "Console usage" in told.stderr, told.stderr
    names = sorted({word for line in re.findall(r"SHOW ([A-Z_|]+)", told.stderr) for word in line.split("|")} - {"HELP", "FDS", "DEPENDENCIES"})
    assert {"POOLS", "CLIENTS", "SERVERS", "STATS", "VERSION", "CONFIG", "NODES", "ROUTING"} <= set(names), names
    shown = run(*psql, *(argument for name in names for argument in ("-c", f"SHOW {name}")))
    assert shown.returncode == 0, shown.stderr
    assert len(re.findall(r"^\(\d+ rows?\)$", shown.stdout, re.MULTILINE)) == len(names), shown.stdout
    assert re.search(r"^\(\d+ rows?\)$", run(*psql, "-c", "SHOW DEPENDENCIES pg_class").stdout, re.MULTILINE)
    assert "SHOW FDS is not supported" in run(*psql, "-c", "SHOW FDS").stderr


# ---------------------------------------------------------------------------------------- check_postgres

def check(weir, action: str, *more: str) -> subprocess.CompletedProcess:
    return run(tool("check_postgres", "check-postgres"), f"--action={action}", f"--host={HOST}", f"--port={weir.port}", "--dbuser=admin",
               "--dbname=pgbouncer", *more)


@pytest.mark.parametrize("column", ["cl_active", "cl_waiting", "sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login", "maxwait"])
def test_check_postgres_reads_the_pools(weir, column):
    said = check(weir, f"pgb_pool_{column}", "--warning=90", "--critical=95")
    assert said.returncode == 0 and f"POSTGRES_PGB_POOL_{column.upper()} OK" in said.stdout, said
    assert re.search(r"\bt=\d+", said.stdout), said.stdout


def test_check_postgres_warns_by_the_number_of_clients(weir):
    said = check(weir, "pgb_pool_cl_active", "--warning=1", "--critical=95")
    assert said.returncode == 1 and "WARNING" in said.stdout, said
    backends = check(weir, "pgbouncer_backends", "--warning=90%", "--critical=95%")
    assert backends.returncode == 0 and " of 200 connections" in backends.stdout, backends


def test_check_postgres_notices_a_changed_setting(weir):
    first = check(weir, "pgbouncer_checksum", "--critical=0")
    checksum = re.search(r"[0-9a-f]{32}", first.stdout)
    assert checksum, first
    assert check(weir, "pgbouncer_checksum", f"--critical={checksum.group()}").returncode == 0
    weir.console("SET query_timeout = 77")
    try:
        assert check(weir, "pgbouncer_checksum", f"--critical={checksum.group()}").returncode == 2
    finally:
        weir.console("SET query_timeout = 0")


# ---------------------------------------------------------------------------------------- pgBadger

def test_pgbadger_counts_logins_and_errors(weir):
    for _ in range(10):        # It wants to see a few lines before it believes in a format.
        weir.console("SHOW VERSION")
    wait_for("the log has statistics", lambda: "stats: " in weir.log())
    text = weir.log()
    log = weir.write("for_pgbadger", text)
    counted = run(tool("pgbadger", "pgbadger"), "-q", "-x", "text", "-o", "-", str(log))      # It finds out the format by itself.
    assert counted.returncode == 0 and not counted.stderr, counted
    for database in ("t", "pgbouncer", "no_such_database"):
        logins = text.count(f"login attempt: db={database} ")
        found = re.search(rf"connections per database -+\n.*?^{database} - (\d+)$", counted.stdout, re.MULTILINE | re.DOTALL)
        assert found and int(found.group(1)) == logins > 0, counted.stdout
    assert "WARNING:  pooler error: no such database: no_such_database" in counted.stdout, counted.stdout
    assert re.search(r"Database: no_such_database\n\s+User: app\n\s+Client: 127\.0\.0\.1\n", counted.stdout), counted.stdout


def test_the_log_lines_that_later_pgbadgers_read_are_pgbouncers(weir):
    """Debian's pgBadger knows statistics up to PgBouncer 1.23 and ages without a unit: these lines are 1.25's, so we look ourselves."""
    wait_for("a session has ended", lambda: "closing because: " in weir.log())
    stamp = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+\] LOG "
    for line in (
            r"stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server parses/s, \d+ binds/s, in \d+ B/s, out \d+ B/s, "
            r"xact \d+ us, query \d+ us, wait \d+ us$",
            r"C-0x[0-9a-f]+: t/app@127\.0\.0\.1:\d+ login attempt: db=t user=app tls=no replication=no$",
            r"C-0x[0-9a-f]+: t/app@127\.0\.0\.1:\d+ closing because: client close request \(age=\d+s\)$",
            r"C-0x[0-9a-f]+: no_such_database/app@127\.0\.0\.1:\d+ closing because: no such database: no_such_database \(age=\d+s\)$",
            r"S-0x[0-9a-f]+: t/app@127\.0\.0\.1:\d+ new connection to server \(from 127\.0\.0\.1:\d+\)$",
            r"listening on 127\.0\.0\.1:\d+$",
            r"kernel file descriptor limit: \d+ \(hard: \d+\); max_client_conn: 200$",
            r"process up: .*PgBouncer 1\.25\.2.*"):
        wait_for(line, lambda line=line: re.search(stamp + line, weir.log(), re.MULTILINE))


# ---------------------------------------------------------------------------------------- prometheus-pgbouncer-exporter

EXPORT = """
import sys
from prometheus_pgbouncer_exporter.collectors import ListsCollector, PoolsCollector
from prometheus_pgbouncer_exporter.utils import get_connection
connection = get_connection("admin", sys.argv[1], sys.argv[2])
for collector in (PoolsCollector(connection=connection, databases=None), ListsCollector(connection=connection)):
    for family in collector.collect():
        for sample in family.samples:
            print(sample.name, sample.labels.get("database", "-"), float(sample.value))
"""


def test_the_packaged_exporter_collects_pools_and_lists(weir):
    tool("prometheus-pgbouncer-exporter", "prometheus-pgbouncer-exporter")
    collected = run("/usr/bin/python3", "-c", EXPORT, str(weir.port), HOST)
    assert collected.returncode == 0, collected.stderr
    samples = {tuple(line.split()[:2]): float(line.split()[2]) for line in collected.stdout.splitlines()}
    assert samples["pgbouncer_active_clients", "t"] >= 1
    assert samples["pgbouncer_waiting_clients", "t"] == 0
    assert samples["pgbouncer_databases", "-"] >= 1


def test_the_packaged_exporter_misses_a_column_that_pgbouncer_has_not_had_since_1_8(weir):
    """Debian's exporter is older than PgBouncer 1.8 and can't read any later version's STATS: that is not ours to mend."""
    ended = run(tool("prometheus-pgbouncer-exporter", "prometheus-pgbouncer-exporter"), "--port", str(free_port()), "--host", HOST,
                "--pgbouncer-port", str(weir.port), "--pgbouncer-host", HOST, "--pgbouncer-user", "admin")
    assert ended.returncode != 0 and "KeyError: 'total_requests'" in ended.stderr, ended.stderr


# ---------------------------------------------------------------------------------------- tools that Debian does not have

def cells(console, show: str) -> tuple[list[str], list[tuple]]:
    answer = console.query(f"SHOW {show}")
    assert not answer.errors, answer.errors
    body = next(body for kind, body in answer if kind == "T")
    names, at = [], 2
    for _ in range(struct.unpack_from("!H", body)[0]):
        end = body.index(0, at)
        names.append(body[at:end].decode())
        at = end + 19
    return names, answer.rows


@pytest.fixture()
def console(weir):
    with connected(weir.port, "admin", "pgbouncer") as client:
        yield client


def test_telegraf_finds_an_int64_in_every_statistic(console):
    names, rows = cells(console, "STATS")
    assert rows
    for row in rows:
        for name, value in zip(names, row):
            if name != "database":
                assert re.fullmatch(r"\d+", value) and int(value) < 2**63, (name, value)


def test_cloudnativepg_and_pg_exporter_count_the_columns(console):
    counts = {show: len(cells(console, show)[0]) for show in ("POOLS", "STATS", "DATABASES", "LISTS")}
    assert counts == {"POOLS": 17, "STATS": 23, "DATABASES": 17, "LISTS": 2}
    _, rows = cells(console, "POOLS")          # CloudNativePG reads them by place: two names, then numbers, then the mode
    for row in rows:
        assert all(value.isdigit() for value in row[2:13]) and row[15] in ("session", "transaction", "statement"), row


def test_netdata_and_datadog_read_a_version(console):
    names, rows = cells(console, "VERSION")
    assert names == ["version"] and len(rows) == 1
    assert "PgBouncer" in rows[0][0]
    assert tuple(int(n) for n in re.search(r"(\d+)\.(\d+)\.(\d+)", rows[0][0]).groups()) > (1, 8, 0)


def test_pgbouncer_fdw_finds_the_minor_version_it_knows(console):
    version = cells(console, "VERSION")[1][0][0]
    major, minor = re.search(r"PgBouncer (\d+)\.(\d+)", version).groups()
    assert major == "1" and 17 <= int(minor) <= 25


def test_datadog_reads_when_a_connection_began(console):
    for show in ("CLIENTS", "SERVERS"):
        names, rows = cells(console, show)
        for row in rows:
            began = row[names.index("connect_time")]
            when = datetime.datetime.strptime(" ".join(began.split()[:2]), "%Y-%m-%d %H:%M:%S")
            assert abs((datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - when).total_seconds()) < 3600, began


def test_pgbouncer_exporter_connects_with_extra_float_digits_and_asks_for_what_it_needs(weir):
    """lib/pq sends extra_float_digits; the first query is a ping by SHOW STATS; then columns are looked up by name."""
    with connected(weir.port, "admin", "pgbouncer", extra_float_digits="2") as console:
        assert cells(console, "STATS")[1]
        assert cells(console, "LISTS")[0] == ["list", "items"]
        assert all(value.isdigit() for _, value in cells(console, "LISTS")[1])
        config = {row[0]: row[1] for row in cells(console, "CONFIG")[1]}
        assert len(cells(console, "CONFIG")[0]) in (3, 4)
        assert config["max_client_conn"] == "200" and config["max_user_connections"].isdigit()
        for show, wanted in (
                ("DATABASES", "name host port database force_user pool_size reserve_pool_size pool_mode max_connections current_connections "
                              "paused disabled"),
                ("STATS_TOTALS", "database query_count query_time bytes_received bytes_sent xact_time xact_count wait_time "
                                 "client_parse_count server_parse_count bind_count"),
                ("POOLS", "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel "
                          "sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode")):
            assert set(wanted.split()) <= set(cells(console, show)[0]), show
