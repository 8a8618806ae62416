"""Each statement of the corpus, with its setup, through pgweir and directly on the primary, each in a database of its own made from one
template: the same messages come back and the same is in the database afterwards. On the way: with its setup, each statement goes
where its label says.

What can't be the same at two moments, in two backends or in two databases is masked, line by line and with its reason, in
test/data/corpus/masked.tsv. PGWEIR_CORPUS_CONTROL=1 runs both sides directly, which shows what must be masked whoever stands between.

The whole corpus takes a minute or two: PGWEIR_CORPUS_SHARE=1. Unless that is said, every third statement of each kind is run, and all that
have a setup."""
from __future__ import annotations

import json
import os
import pathlib

import pytest

import pooler as poolers
from cluster import HOST, Cluster, wait_for
from wire import SYNC, Answer, Wire, bind, connected, describe, error_fields, execute, message, parse, simple

DATA = pathlib.Path(os.environ.get("PGWEIR_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "test/data/corpus"
SIDES = {"weir": "corpus_w", "direct": "corpus_d"}

# Everything in a database that statements can change and that is no accident of time: contents, sequences, definitions.
RELATIONS = """
SELECT c.oid::regclass::text, c.relkind::text, coalesce((SELECT string_agg(quote_literal(a.attname), ',') FROM pg_attribute a
    JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = c.oid AND pg_get_expr(d.adbin, d.adrelid) ~ 'now\\(|CURRENT_|random|clock_timestamp|gen_random'), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'S') AND n.nspname !~ '^pg_|^information_schema$' AND (c.relkind <> 'm' OR c.relispopulated)
ORDER BY 1"""
DEFINITIONS = """
SELECT md5(string_agg(what, E'\\n' ORDER BY what)) FROM (
  SELECT concat_ws('|', 'c', n.nspname, c.relname, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity, c.relacl, c.relowner::regrole,
                   obj_description(c.oid, 'pg_class'), CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END) AS what
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_|^information_schema$'
  UNION ALL SELECT concat_ws('|', 'a', attrelid::regclass, attname, attnum, atttypid::regtype, attnotnull, attisdropped, attidentity, attgenerated)
    FROM pg_attribute WHERE attnum > 0 AND attrelid >= 16384 AND attrelid::regclass::text !~ '^pg_toast'
  UNION ALL SELECT concat_ws('|', 'p', oid::regprocedure, provolatile, md5(prosrc), proacl) FROM pg_proc WHERE oid >= 16384
  UNION ALL SELECT concat_ws('|', 't', tgrelid::regclass, tgname, tgenabled) FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT concat_ws('|', 'k', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE oid >= 16384
  UNION ALL SELECT concat_ws('|', 'i', pg_get_indexdef(indexrelid)) FROM pg_index WHERE indexrelid >= 16384 AND indrelid::regclass::text !~ '^pg_toast'
  UNION ALL SELECT concat_ws('|', 'n', nspname, nspacl) FROM pg_namespace WHERE nspname !~ '^pg_'
  UNION ALL SELECT concat_ws('|', 'y', typname, typtype) FROM pg_type WHERE oid >= 16384 AND typname !~ '^_?pg_toast'
  UNION ALL SELECT concat_ws('|', 'e', extname, extversion) FROM pg_extension
  UNION ALL SELECT concat_ws('|', 'o', polrelid::regclass, polname) FROM pg_policy
  UNION ALL SELECT concat_ws('|', 'r', ev_class::regclass, rulename) FROM pg_rewrite WHERE ev_class >= 16384
  UNION ALL SELECT concat_ws('|', 'u', pubname, puballtables) FROM pg_publication
  UNION ALL SELECT concat_ws('|', 'v', evtname, evtevent) FROM pg_event_trigger
  UNION ALL SELECT concat_ws('|', 'l', (SELECT count(*) FROM pg_largeobject_metadata), (SELECT md5(string_agg(data, '' ORDER BY loid, pageno)) FROM pg_largeobject))
  UNION ALL SELECT concat_ws('|', 's', (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()))
) AS everything"""
# What is shared by all databases of a cluster, and so must be gone before the other side does the same.
SHARED = ["SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin", "ALTER SYSTEM RESET ALL", "ALTER ROLE corpus_reader RESET ALL"]


def corpus_lines() -> list[dict]:
    return [json.loads(line) for line in (DATA / "routing.jsonl").read_text().splitlines()]


def masks() -> dict[str, tuple[str, str]]:
    """What is not compared of a line, and why: rows, or what notices say."""
    rows = [line.split("\t") for line in (DATA / "masked.tsv").read_text().splitlines()]
    assert rows[0] == ["id", "what", "reason"]
    assert all(len(row) == 3 and row[1] in ("rows", "notices") and len(row[2]) > 10 for row in rows[1:])
    return {row[0]: (row[1], row[2]) for row in rows[1:]}


def shown(kind: str, body: bytes, database: str) -> tuple:
    """A message as far as it must be the same."""
    body = body.replace(database.encode(), b"corpus_x")
    if kind in "EN":
        fields = error_fields(body)
        return kind, fields["S"], fields["C"], fields["M"]
    if kind == "A":
        return kind, body[4:]
    if kind == "T":     # Without the table's oid, which differs when it is new.
        columns, at = [], 2
        while at < len(body):
            end = body.index(b"\0", at)
            columns.append((body[at:end], body[end + 5:end + 19]))
            at = end + 19
        return kind, tuple(columns)
    return kind, body


class Side:
    def __init__(self, cluster: Cluster, database: str, port: int) -> None:
        self.cluster, self.database, self.port = cluster, database, port

    def renew(self) -> None:
        self.cluster.primary.execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")
        self.cluster.primary.execute(f"CREATE DATABASE {self.database} TEMPLATE corpus_template STRATEGY file_copy")

    def ask(self, wire: Wire, line: dict) -> Answer:
        if line.get("protocol") == "extended":
            wire.send(parse(line["sql"]), bind(*line.get("params", [])), describe(), execute(), SYNC)
        else:
            wire.send(simple(line["sql"]))
        answer = Answer()
        while True:
            answer += wire.until("ZG")
            if answer[-1][0] == "Z":
                return answer
            wire.send(message("d", line["copy_data"].encode()) if "copy_data" in line else b"", message("c"))

    def run(self, line: dict) -> tuple[list[tuple], str]:
        """The messages of setup and statement, and where pgweir sent the latter."""
        route = ""
        with connected(self.port, "postgres", self.database) as wire:
            answer = Answer()
            for sql in line.get("setup", []):
                answer += wire.query(sql)
            answer += self.ask(wire, line)
            if self.port != self.cluster.primary.port:
                told = wire.query("SHOW pgweir.last_route")
                route = told.rows[0][0] if told.rows else f"not told in status {told.status}"
            # Also where status says that none is open, for pgweir must not lose track of it.
            wire.query("ROLLBACK")
        return [shown(kind, body, self.database) for kind, body in answer], route

    def state(self) -> list[tuple]:
        with self.cluster.primary.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(RELATIONS)
            parts = []
            for name, kind, left_out in cursor.fetchall():
                if kind == "S":
                    parts.append(f"SELECT $q${name}$q$, last_value::text || is_called FROM {name}")
                else:
                    parts.append(f"SELECT $q${name}$q$, md5(string_agg((to_jsonb(t) - ARRAY[{left_out}]::text[])::text, E'\\n'"
                                 f" ORDER BY (to_jsonb(t) - ARRAY[{left_out}]::text[])::text)) FROM ONLY {name} AS t")
            cursor.execute(" UNION ALL ".join(parts))
            contents = sorted(cursor.fetchall())
            cursor.execute(DEFINITIONS)
            return contents + cursor.fetchall()

    def tidy(self) -> None:
        primary = self.cluster.primary
        for [gid] in primary.rows(f"SELECT gid FROM pg_prepared_xacts WHERE database = '{self.database}'"):
            primary.execute(f"ROLLBACK PREPARED '{gid}'", self.database)
        for sql in SHARED:
            primary.execute(sql)


@pytest.fixture(scope="module")
def servers():
    """A cluster of its own: some statements change what belongs to all databases."""
    cluster = Cluster.create(replicas=1, settings="max_prepared_transactions = 5")
    try:
        primary = cluster.primary
        primary.execute("CREATE DATABASE corpus_template")
        primary.execute((DATA / "schema.sql").read_text(), "corpus_template")
        line = f"host={HOST} port={primary.port} replica_host={cluster.replica_hosts} dbname=corpus_w pool_mode="
        ini = (f"[databases]\nt = {line}transaction\ncorpus_w = {line}transaction\ncorpus_s = {line}session\n{poolers.GLOBAL_LINES}"
               "read_consistency = eventual\nmax_replica_lag = 100\ncatalog_refresh = 3600\nmisroute_expiry = 0\n")
        for side in SIDES.values():
            Side(cluster, side, 0).renew()
        cluster.wait_caught_up()
        with poolers.running(ini) as pooler:
            yield cluster, pooler
    finally:
        cluster.stop()


def settled(pooler, database: str) -> bool:
    """The catalog is loaded and certain, and the replica is known to be well."""
    rows = {row["database"]: row for row in pooler.console("EXPLAIN ROUTE SELECT * FROM v_nested")}
    return database in rows and rows[database]["target"] == "replica" and rows[database]["tables_read_deep"] != "*"


def sample(lines: list[dict], share: int) -> list[dict]:
    """Every `share`th line of each category, and all with a setup."""
    seen: dict[str, int] = {}
    chosen = []
    for line in lines:
        number = seen[line["category"]] = seen.get(line["category"], -1) + 1
        if line.get("setup") or number % share == 0:
            chosen.append(line)
    return chosen


PARTS = 4
MASKED = {"rows": "D", "notices": "N", "": ""}


def goes_wrong(line: dict, route: str) -> bool:
    if line["route"] == "primary":
        return route.startswith("replica")
    return line.get("offload") == "expected" and not route.startswith("replica")


@pytest.mark.parametrize("part", range(PARTS))
def test_the_corpus_gives_through_pgweir_what_it_gives_directly(servers, part):
    cluster, pooler = servers
    control = "PGWEIR_CORPUS_CONTROL" in os.environ
    version = int(cluster.primary.value("SHOW server_version_num")) // 10000
    lines = sample(corpus_lines(), int(os.environ.get("PGWEIR_CORPUS_SHARE", "3")))[part::PARTS]
    lines = [line for line in lines if line.get("min_version", 0) <= version]
    # What leaves everything as it was comes first, so that databases are made anew as seldom as can be.
    lines.sort(key=lambda line: (line["route"] == "primary", bool(line["tables_written"])))
    known = masks()
    direct = Side(cluster, "corpus_d", cluster.primary.port)
    weir = Side(cluster, "corpus_w", cluster.primary.port if control else pooler.port)
    pristine = direct.state()
    assert weir.state() == pristine
    wait_for("pgweir knows the catalog", lambda: settled(pooler, "corpus_w"))

    differs, routes, renewed = [], [], 0
    for line in lines:
        states, answers = [], []
        for side in (direct, weir):
            messages, route = side.run(line)
            answers.append(messages)
            states.append(side.state())
            if line["route"] == "primary":
                side.tidy()
        masked = MASKED[known.get(line["id"], ("", ""))[0]]
        # Not even their number: plans of PostgreSQL 18 leave lines out that say nothing.
        expected, found = [[message for message in messages if not masked or message[0] != masked] for messages in answers]
        if found != expected:
            differs.append((line["id"], line["sql"], [pair for pair in zip(expected, found) if pair[0] != pair[1]] or (expected, found)))
        if states[0] != states[1]:
            differs.append((line["id"], line["sql"], sorted(set(states[0]) ^ set(states[1]))))
        if not control and goes_wrong(line, route):
            routes.append((line["id"], line["sql"], line.get("setup"), route))
        if states != [pristine, pristine]:
            renewed += 1
            direct.renew()
            weir.renew()
            cluster.wait_caught_up()
            wait_for("pgweir knows the catalog again", lambda: settled(pooler, "corpus_w"))
    print(f"{len(lines)} statements, {renewed} times new databases")
    for item in differs + routes:
        print(item)
    assert len(lines) >= 30
    assert differs == [], "\n".join(str(item) for item in differs)
    assert routes == [], "\n".join(str(item) for item in routes)
