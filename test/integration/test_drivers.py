"""An application keeps its driver: through pgweir every answer is the one a direct connection gives."""
from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest

import pooler as poolers
from cluster import HOST, clean_environment, run_as

SCHEMA = """
CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(10,2), tags text[], added timestamptz, extra jsonb);
INSERT INTO items SELECT i, 'item ' || i, i * 1.25, ARRAY['a', 'tag' || i], timestamptz '2026-01-01 00:00+00' + i * interval '1 day',
                         jsonb_build_object('n', i) FROM generate_series(1, 50) AS i;
CREATE TABLE log (id serial PRIMARY KEY, what text);
GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC;
"""

STATEMENTS = [
    "SELECT 1",
    "SELECT * FROM items ORDER BY id LIMIT 7",
    "SELECT id, name, price, tags, added, extra FROM items WHERE id IN (3, 5, 8) ORDER BY id",
    "SELECT count(*), sum(price), max(added) FROM items",
    "SELECT NULL::int, true, 1.5::float8, '\\x00ff'::bytea, ARRAY[1,2,NULL]::int[], '{\"a\":1}'::jsonb, 'é€😀'",
    "WITH x AS (SELECT id FROM items WHERE id < 4) SELECT x.id, i.name FROM x JOIN items i USING (id) ORDER BY 1",
    "VALUES (1, 'a'), (2, 'b')",
    "TABLE items LIMIT 0",
    "SELECT generate_series(1, 2000)",
    "SELECT repeat('x', 300000)",
    "SELECT interval '1 month 2 days', time '12:34', date '2026-02-28', uuid '00000000-0000-0000-0000-000000000001'",
    "EXPLAIN (COSTS OFF) SELECT * FROM items WHERE id = 3",
    "SHOW standard_conforming_strings",
]
FAILING = ["SELECT 1/0", "SELECT * FROM missing_table", "SELEC 1", "SELECT 'a'::int"]


@pytest.fixture(scope="module")
def weir(cluster, db):
    cluster.primary.execute(SCHEMA, db)
    cluster.wait_caught_up()
    with poolers.for_cluster(cluster, db) as pooler:
        yield pooler


def places(cluster, db, weir):
    """(direct, through pgweir) as keyword arguments of a driver."""
    return ({"host": HOST, "port": cluster.primary.port, "dbname": db, "user": "app"},
            {"host": HOST, "port": weir.port, "dbname": "t", "user": "app"})


def run_psql(port: int, dbname: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(["psql", "-X", "-h", HOST, "-p", str(port), "-U", "app", "-d", dbname, *arguments],
                          input=stdin, stdin=subprocess.DEVNULL if stdin is None else None, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), timeout=60, cwd="/tmp")


def test_psql_prints_the_same(cluster, db, weir):
    script = ";\n".join(STATEMENTS + FAILING) + ";\n\\d items\n\\dt\n\\echo done\nSELECT 1 AS a \\gset\nSELECT :a;\n"
    direct = run_psql(cluster.primary.port, db, stdin=script)
    through = run_psql(weir.port, "t", stdin=script)
    assert through.stdout == direct.stdout
    assert through.stderr == direct.stderr
    assert "done" in through.stdout


def test_psql_copies_in_and_out(cluster, db, weir):
    rows = "".join(f"{n}\tcopied {n}\n" for n in range(1000000, 1002000))
    done = run_psql(weir.port, "t", "-v", "ON_ERROR_STOP=1", "-c", "COPY log FROM STDIN", stdin=rows)
    assert (done.returncode, done.stderr) == (0, "")
    out = run_psql(weir.port, "t", "-c", "COPY (SELECT * FROM log WHERE id >= 1000000 ORDER BY id) TO STDOUT")
    assert out.stdout == rows
    several = run_psql(weir.port, "t", "-c", "SELECT 1; SELECT 2; COPY (SELECT 3) TO STDOUT")
    assert several.stdout == run_psql(cluster.primary.port, db, "-c", "SELECT 1; SELECT 2; COPY (SELECT 3) TO STDOUT").stdout


@pytest.mark.parametrize("prepare_threshold", [None, 0, 5])
def test_psycopg3_gives_the_same_rows(cluster, db, weir, prepare_threshold):
    answers = []
    for place in places(cluster, db, weir):
        with psycopg.connect(**place, autocommit=True, prepare_threshold=prepare_threshold) as connection:
            got = []
            for _ in range(3):          # past the threshold, and on whichever server comes
                for sql in STATEMENTS:
                    cursor = connection.execute(sql)
                    got.append(([c.name for c in cursor.description], [c.type_code for c in cursor.description], cursor.fetchall()))
                for n in range(4):
                    got.append(connection.execute("SELECT name, %s::text FROM items WHERE id = %s", (f"p{n}", n)).fetchall())
                for sql in FAILING:
                    with pytest.raises(psycopg.Error) as caught:
                        connection.execute(sql)
                    got.append((caught.value.sqlstate, caught.value.diag.message_primary, caught.value.diag.statement_position))
            answers.append(got)
    assert answers[1] == answers[0]


def test_psycopg3_pipelines(cluster, db, weir):
    answers = []
    for place in places(cluster, db, weir):
        with psycopg.connect(**place, autocommit=True) as connection:
            connection.execute("DELETE FROM log WHERE what LIKE 'pipe%'")
            got = []
            with connection.pipeline() as pipeline:
                cursors = []
                for n in range(30):
                    connection.execute("INSERT INTO log (what) VALUES (%s)", (f"pipe {n}",))
                    cursors.append(connection.execute("SELECT count(*) FROM log WHERE what LIKE 'pipe%%'"))
                    if n % 10 == 9:
                        pipeline.sync()
                got = [cursor.fetchone()[0] for cursor in cursors]
            answers.append(got)
    assert answers[0] == list(range(1, 31))
    assert answers[1] == answers[0]


def test_psycopg3_transactions_cursors_and_copy(weir):
    with psycopg.connect(weir.dsn()) as connection:
        with connection.transaction():
            connection.execute("INSERT INTO log (what) VALUES ('kept')")
            with pytest.raises(psycopg.errors.UniqueViolation):
                with connection.transaction():
                    connection.execute("INSERT INTO items (id) VALUES (1)")
        assert connection.execute("SELECT count(*) FROM log WHERE what = 'kept'").fetchone() == (1,)
        connection.commit()
        with connection.cursor(name="server_side") as cursor:
            cursor.itersize = 10
            cursor.execute("SELECT id FROM items ORDER BY id")
            assert [row[0] for row in cursor] == list(range(1, 51))
        connection.commit()
        with connection.cursor() as cursor:
            with cursor.copy("COPY log (what) FROM STDIN") as copy:
                for n in range(500):
                    copy.write_row((f"copied by psycopg {n}",))
            with cursor.copy("COPY (SELECT what FROM log WHERE what LIKE 'copied by psycopg%') TO STDOUT") as copy:
                assert len(list(copy.rows())) == 500


def test_psycopg2_gives_the_same_rows(cluster, db, weir):
    answers = []
    for place in places(cluster, db, weir):
        connection = psycopg2.connect(**place)
        connection.autocommit = True
        got = []
        with connection.cursor() as cursor:
            for sql in STATEMENTS:
                cursor.execute(sql)
                got.append(([c.name for c in cursor.description], [bytes(v) if isinstance(v, memoryview) else v
                                                                   for row in cursor.fetchall() for v in row]))
            for sql in FAILING:
                with pytest.raises(psycopg2.Error) as caught:
                    cursor.execute(sql)
                got.append((caught.value.pgcode, str(caught.value)))
            psycopg2.extras.execute_values(cursor, "INSERT INTO log (what) VALUES %s", [(f"many {n}",) for n in range(300)])
            cursor.execute("SELECT count(*) >= 300 FROM log WHERE what LIKE 'many%'")
            got.append(cursor.fetchone())
        connection.autocommit = False
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO log (what) VALUES ('rolled back')")
            connection.rollback()
            cursor.execute("SELECT count(*) FROM log WHERE what = 'rolled back'")
            got.append(cursor.fetchone())
        connection.close()
        answers.append(got)
    assert answers[1] == answers[0]


def test_asyncpg_gives_the_same_rows(cluster, db, weir):
    async def use(place: dict) -> list:
        connection = await asyncpg.connect(host=place["host"], port=place["port"], database=place["dbname"], user=place["user"],
                                           ssl=False, timeout=30)
        got: list = []
        try:
            for _ in range(2):
                for sql in STATEMENTS:
                    got.append([tuple(row) for row in await connection.fetch(sql)])
            statement = await connection.prepare("SELECT name FROM items WHERE id = $1")
            got.append([await statement.fetchval(n) for n in range(1, 20)])
            for sql in FAILING:
                with pytest.raises(asyncpg.PostgresError) as caught:
                    await connection.fetch(sql)
                got.append((caught.value.sqlstate, str(caught.value)))
            await connection.executemany("INSERT INTO log (what) VALUES ($1)", [(f"async {n}",) for n in range(100)])
            got.append(await connection.fetchval("SELECT count(*) >= 100 FROM log WHERE what LIKE 'async%'"))
            async with connection.transaction():
                got.append([row[0] async for row in connection.cursor("SELECT id FROM items ORDER BY id", prefetch=7)])
            got.append(await connection.copy_records_to_table("log", records=[("by copy",)] * 50, columns=["what"]))
        finally:
            await connection.close()
        return got

    async def use_pool(place: dict) -> int:
        async with asyncpg.create_pool(host=place["host"], port=place["port"], database=place["dbname"], user=place["user"],
                                       ssl=False, min_size=4, max_size=4) as pool:
            names = await asyncio.gather(*(pool.fetchval("SELECT name FROM items WHERE id = $1", 1 + n % 50) for n in range(200)))
        return sum(1 for n, name in enumerate(names) if name == f"item {1 + n % 50}")

    direct, through = places(cluster, db, weir)
    assert asyncio.run(use(through)) == asyncio.run(use(direct))
    assert asyncio.run(use_pool(through)) == 200


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_pgbench_runs_without_an_error(cluster, db, weir, mode):
    arguments = ["pgbench", "-h", HOST, "-U", "app", "-n", "-M", mode]
    if mode == "simple":
        made = subprocess.run([*arguments[:-3], "-i", "-q", "-s", "1", "-p", str(weir.port), "t"], env=clean_environment(), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/tmp", timeout=60)
        assert made.returncode == 0, made.stdout
    for script in ("select-only", "simple-update", "tpcb-like"):
        done = subprocess.run([*arguments, "-c", "8", "-j", "2", "-t", "25", "-b", script, "-p", str(weir.port), "t"],
                              env=clean_environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd="/tmp", timeout=60)
        assert done.returncode == 0, done.stdout
        assert "number of transactions actually processed: 200/200" in done.stdout, done.stdout
        assert re.search(r"number of failed transactions: 0 ", done.stdout), done.stdout


NODE_SCRIPT = """
const { Client, Pool } = require('pg');
(async () => {
  const out = [];
  const client = new Client({ host: '127.0.0.1', port: Number(process.argv[2]), database: process.argv[3], user: 'app' });
  await client.connect();
  for (let round = 0; round < 3; round++) {
    out.push((await client.query('SELECT id, name, price, tags, added, extra FROM items WHERE id < 5 ORDER BY id')).rows);
    out.push((await client.query('SELECT name FROM items WHERE id = $1', [7])).rows);
    out.push((await client.query({ name: 'by id', text: 'SELECT name FROM items WHERE id = $1', values: [round + 1] })).rows);
    try { await client.query('SELECT 1/0'); } catch (error) { out.push([error.code, error.message]); }
  }
  await client.query('BEGIN');
  await client.query('INSERT INTO log (what) VALUES ($1)', ['node']);
  out.push((await client.query("SELECT count(*) > 0 AS seen FROM log WHERE what = 'node'")).rows);
  await client.query('COMMIT');
  await client.end();
  const pool = new Pool({ host: '127.0.0.1', port: Number(process.argv[2]), database: process.argv[3], user: 'app', max: 4 });
  const many = await Promise.all([...Array(100).keys()].map(n => pool.query('SELECT $1::int AS n', [n])));
  out.push(many.map(answer => answer.rows[0].n));
  await pool.end();
  console.log(JSON.stringify(out));
})().catch(error => { console.error(error); process.exit(1); });
"""


@pytest.mark.skipif(not (os.environ.get("PGWEIR_NODE_MODULES") and shutil.which("node")), reason="node-postgres is not here")
def test_node_postgres_gives_the_same_rows(cluster, db, weir):
    def use(port: int, dbname: str) -> str:
        done = subprocess.run(["node", "-e", NODE_SCRIPT, "script", str(port), dbname], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              env={**clean_environment(), "NODE_PATH": os.environ["PGWEIR_NODE_MODULES"]})
        assert done.returncode == 0, done.stderr
        return done.stdout
    assert use(weir.port, "t") == use(cluster.primary.port, db)


def test_an_unprivileged_psql_uses_the_unix_socket(weir):
    done = subprocess.run(["psql", "-X", "-At", "-h", str(weir.folder), "-p", str(weir.port), "-U", "app", "-d", "t", "-c", "SELECT 42"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=clean_environment(), cwd="/tmp", timeout=60, **run_as())
    assert done.stdout == "42\n"
