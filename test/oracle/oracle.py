#!/usr/bin/env python3
"""The verdicts of `pgweir classify` beside those that follow from PostgreSQL 15's own parse tree (libpg_query, in a process
of its own), for the corpus, for statements made from it by exchange of parts, and for statements of a small grammar.

A statement that the tree sends to the primary must go there; one that the tree allows on a replica, and the tables read and
written, may differ only where EXPLAINED says why. `--generated N` statements of each kind, `--seed S`.
"""
from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.setrecursionlimit(20000)

# Why a verdict may be more careful than the tree's. (what, pattern of the text or of our reason)
EXPLAINED = {
    "a name with UESCAPE is not understood": lambda sql, ours: re.search(r"uescape", sql, re.I) is not None,
    "f(1) 'x' is a literal of a type with modifiers, and taken for a call": lambda sql, ours: ours["reason"] == "primary_function" and re.search(r"\)\s*['$]", sql),
    "an alias with columns that is called like a function may be one": lambda sql, ours: ours["reason"] == "primary_function" and any(
        re.search(rf'[\w")]\s+(?:as\s+)?"?{re.escape(name)}"?\s*\(', sql, re.I) for name in ours["functions"]),
    "COPY of a relation needs the catalog to tell a table from a view": lambda sql, ours: ours["reason"] == "unparsed" and re.match(r"\W*copy\b", sql, re.I),
}

# Syntax since 17; to the parser of 15 these are calls of functions that it does not know.
NEWER_SYNTAX = {"json_value", "json_exists", "json_query", "json_serialize", "json_scalar", "json", "json_table"}

MODIFICATIONS = ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt")


# ---------------------------------------------------------------------------------------- built-in functions

class Functions:
    """The two tables of built-in functions, read anew and asked in the plainest way."""

    def __init__(self) -> None:
        self.listed: dict[str, list[tuple[int, str]]] = collections.defaultdict(list)
        self.harmless: dict[str, tuple[int, int]] = {}
        for line in (ROOT / "src/sql/builtin_functions.tsv").read_text().splitlines()[1:]:
            name, types, _, _, _, route = line.split("\t")[:6]
            many = types.endswith(("any", "VARIADIC"))
            self.listed[name].append((99 if many else len(types.split(",")) if types else 0, route))
        for line in (ROOT / "src/sql/harmless_functions.tsv").read_text().splitlines()[1:]:
            name, _, least, most = line.split("\t")[:4]
            self.harmless[name] = (int(least), int(most))

    def may_run_on_replica(self, name: str, arguments: int) -> bool:
        fitting = [route for count, route in self.listed.get(name, []) if arguments < 0 or count in (99, arguments)]
        if fitting:
            return "primary" not in fitting
        if name in self.harmless:
            least, most = self.harmless[name]
            if name not in self.listed or least <= arguments <= most:
                return True
        return name in self.listed and all(route != "primary" for _, route in self.listed[name])


def catalog_list() -> set[str]:
    text = (ROOT / "src/sql/builtins.cpp").read_text()
    return set(re.findall(r'"(pg_\w+)"', text.split("kReplicatedCatalogs[] = {")[1].split("};")[0]))


REPLICATED = catalog_list()


def is_catalog(schema: str, name: str) -> bool:
    return schema in ("information_schema", "pg_toast", "pg_catalog") or (not schema and name.startswith("pg_"))


# ---------------------------------------------------------------------------------------- the tree's verdict

class Verdict:
    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.primary: list[str] = []
        self.read: set[str] = set()
        self.later: set[str] = set()     # names of WITH RECURSIVE that a query before them may use
        self.written: set[str] = set()
        self.tables_known = True

    def no(self, why: str) -> None:
        self.primary.append(why)

    def table(self, node: dict, ctes: frozenset, into: set[str]) -> None:
        schema, name = node.get("schemaname", ""), node["relname"]
        if not schema and name in ctes and into is self.read:
            return
        if schema.startswith("pg_temp"):
            self.no("temporary table")
        if is_catalog(schema, name):
            if into is self.read and schema not in ("information_schema", "pg_toast") and name not in REPLICATED:
                self.no(f"server view {name}")
            return
        into.add(f"{schema}.{name}" if schema else name)

    def statement(self, node: dict) -> None:
        (kind, body), = node.items()
        if kind == "SelectStmt":
            self.query(node, frozenset())
        elif kind in MODIFICATIONS:
            self.no(kind)
            self.query(node, frozenset())
        elif kind == "CopyStmt":
            if "query" in body:
                self.query(body["query"], frozenset())
            elif body.get("is_from"):
                self.table(body["relation"], frozenset(), self.written)
                self.walk(body.get("whereClause", {}), frozenset())
            else:
                self.table(body["relation"], frozenset(), self.read)
            if body.get("is_from") or "filename" in body or body.get("is_program"):
                self.no("COPY FROM or to a file")
        else:
            self.no(kind)
            self.tables_known = False

    def query(self, node: dict, ctes: frozenset) -> None:
        """A SELECT or modification with what WITH makes visible in it."""
        (kind, body), = node.items()
        with_clause = body.get("withClause")
        if with_clause:
            entries = [entry["CommonTableExpr"] for entry in with_clause["ctes"]]
            if with_clause.get("recursive"):
                ctes = ctes | {entry["ctename"] for entry in entries}
                self.later |= {entry["ctename"] for entry in entries[1:]}
            for entry in entries:
                self.query(entry["ctequery"], ctes)
                ctes = ctes | {entry["ctename"]}
        if kind in MODIFICATIONS:
            self.no(kind)
            self.table(body["relation"], ctes, self.written)
        if body.get("intoClause"):
            self.no("INTO")
            self.table(body["intoClause"]["rel"], ctes, self.written)
        if body.get("lockingClause"):
            self.no("row locks")
        for key, value in body.items():
            if key in ("withClause", "intoClause", "lockingClause") or (key == "relation" and kind in MODIFICATIONS):
                continue
            if key in ("larg", "rarg"):
                self.query({"SelectStmt": value}, ctes)
            else:
                self.walk(value, ctes)

    def walk(self, node: object, ctes: frozenset) -> None:
        if isinstance(node, list):
            for item in node:
                self.walk(item, ctes)
            return
        if not isinstance(node, dict):
            return
        for key, value in node.items():
            if key in ("SelectStmt",) + MODIFICATIONS:
                self.query({key: value}, ctes)
            elif key == "RangeVar":
                self.table(value, ctes, self.read)
            elif key == "FuncCall":
                self.call(value)
                self.walk(value, ctes)
            elif key == "RangeTableSample":
                method = [part["String"]["sval"] for part in value["method"]]
                if method[-1] not in ("system", "bernoulli"):
                    self.no(f"sampling method {method}")
                self.walk({k: v for k, v in value.items() if k != "method"}, ctes)
            else:
                self.walk(value, ctes)

    def call(self, body: dict) -> None:
        names = [part["String"]["sval"] for part in body["funcname"]]
        arguments = len(body.get("args", []))
        if body.get("func_variadic"):
            arguments = -1
        if body.get("agg_within_group"):
            arguments = -1          # the ordered arguments count too, by PostgreSQL's own rules
        if body.get("funcformat") == "COERCE_SQL_SYNTAX":
            return                  # EXTRACT, OVERLAY, AT TIME ZONE and the like: the grammar's own
        schema = names[0] if len(names) > 1 else ""
        if not schema and names[-1] in NEWER_SYNTAX:
            return
        if schema not in ("", "pg_catalog") or not self.functions.may_run_on_replica(names[-1], arguments):
            self.no(f"function {'.'.join(names)}/{arguments}")


# ---------------------------------------------------------------------------------------- the two programs

class Parser:
    def __init__(self, program: str) -> None:
        self.program = program
        self.process: subprocess.Popen | None = None
        self.crashes = 0

    def parse(self, sql: str) -> dict | str:
        """The tree, or what is wrong."""
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        data = sql.encode()
        try:
            self.process.stdin.write(struct.pack(">I", len(data)) + data)
            self.process.stdin.flush()
            head = self.process.stdout.read(4)
            if len(head) < 4:
                raise BrokenPipeError
            answer = self.process.stdout.read(struct.unpack(">I", head)[0]).decode()
        except BrokenPipeError:
            self.process.wait()
            self.process = None
            self.crashes += 1
            return "the parser crashed"
        return answer[1:] if answer.startswith("!") else json.loads(answer)

    def close(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def classify(program: str, statements: list[str]) -> list[dict]:
    done = subprocess.run([program, "classify", "--jsonl"], input="".join(json.dumps({"sql": sql}) + "\n" for sql in statements),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---------------------------------------------------------------------------------------- statements to try

def corpus() -> list[str]:
    lines = (ROOT / "test/data/corpus/routing.jsonl").read_text().splitlines()
    return [json.loads(line)["sql"] for line in lines]


PIECE = re.compile(r"""--[^\n]*|/\*.*?\*/|[eEuUbBxXnN]?&?'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\w*\$.*?\$\w*\$|\w+|\s+|[<>=!~|&#@%^*/+?-]+|.""", re.S)


def exchanged(texts: list[str], dice: random.Random) -> str:
    """A statement of the corpus with a part of it left out, doubled, or taken from another one."""
    pieces = PIECE.findall(dice.choice(texts))
    for _ in range(dice.choice((1, 1, 2, 3))):
        other = PIECE.findall(dice.choice(texts))
        at = dice.randrange(len(pieces) + 1)
        end = min(len(pieces), at + dice.choice((0, 1, 1, 2, 3, 5, 9)))
        begin = dice.randrange(len(other) + 1)
        pieces[at:end] = [] if dice.random() < 0.25 else other[begin:begin + dice.choice((1, 1, 2, 3, 5, 9, 20))]
    return "".join(pieces)


class Grammar:
    """Statements from the top down, with names that look like key words and key words that are names."""

    NAMES = ["t", "users", "public.orders", '"Q"', "a", "b", "x", "into_t", "delete", "update", '"select"', "s.seq", "pg_class", "values_"]
    ALIASES = ["", " a", " AS b", " AS c (d, e)", " delete", " AS insert(name, n)", " f (g)", " over", ' "into"']
    COLUMNS = ["id", "a.id", "name", "t.into", '"update"', "b.c", "x", "current_date", "nextval", "u.delete", "*", "a.*"]
    CALLS = ["now()", "lower(%s)", "count(*)", "nextval('s')", "f(%s)", "coalesce(%s, 1)", "random()", "max(%s) FILTER (WHERE true)", "extract(year FROM %s)",
             "substring(%s FROM 1 FOR 2)", "cast(%s AS numeric(10, 2))", "pg_advisory_lock(%s)", "set_config('a', 'b', true)", "row_number() OVER (PARTITION BY %s ORDER BY 1)",
             "trim(both 'x' FROM %s)", "position('a' IN %s)", "array[%s, 2]", "s.g(%s)", "sum(%s) OVER w", "string_agg(%s, ',' ORDER BY 1)", "overlay(%s PLACING 'x' FROM 1)",
             "pg_catalog.lower(%s)", '"lower"(%s)', "greatest(%s, 1)", "concat(VARIADIC ARRAY[%s])", "txid_current()", "pg_is_in_recovery()", "exists (%q)", "(%q)", "ARRAY(%q)", "xmlelement(name foo, %s)"]

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def pick(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def expression(self, depth: int) -> str:
        kind = self.dice.random()
        if depth <= 0 or kind < 0.35:
            return self.pick(self.dice.choice([c for c in self.COLUMNS if "*" not in c]), "1", "'s'", "$1", "E'\\''", "$$;$$", "1.5", "'a' || 'b'")
        if kind < 0.7:
            call = self.dice.choice(self.CALLS)
            if "%q" in call:
                return call.replace("%q", self.query(depth - 1))
            return call.replace("%s", self.expression(depth - 1))
        if kind < 0.8:
            return f"{self.expression(depth - 1)} {self.pick('=', '<>', '+', '-', 'IS DISTINCT FROM', 'AND', 'OR', 'LIKE')} {self.expression(depth - 1)}"
        if kind < 0.9:
            return f"{self.expression(depth - 1)} IN ({self.pick(self.query(depth - 1), '1, 2, 3', '$1')})"
        return f"CASE WHEN {self.expression(depth - 1)} THEN {self.expression(depth - 1)} END"

    def item(self, depth: int) -> str:
        kind = self.dice.random()
        if depth > 0 and kind < 0.2:
            return f"{self.pick('', 'LATERAL ')}({self.query(depth - 1)}) {self.pick('q', 'AS r (s)')}"
        if depth > 0 and kind < 0.3:
            return f"({self.item(depth - 1)} JOIN {self.item(depth - 1)} ON true)"
        if kind < 0.4:
            return self.pick("generate_series(1, 3) g", "unnest($1) WITH ORDINALITY AS u (v, w)", "ROWS FROM (generate_series(1, 2), f(1)) AS z", "f(1) AS y (a int)")
        only = self.pick("", "", "", "ONLY ")
        return only + self.dice.choice(self.NAMES) + self.dice.choice(self.ALIASES) + self.pick("", "", "", " TABLESAMPLE system (10)")

    def from_list(self, depth: int) -> str:
        out = self.item(depth)
        for _ in range(self.dice.choice((0, 0, 1, 2))):
            join = self.pick(", {}", " JOIN {} ON true", " LEFT JOIN {} USING (id)", " CROSS JOIN {}", " NATURAL JOIN {}")
            out += join.replace("{}", self.item(depth))
        return out

    def select(self, depth: int) -> str:
        targets = ", ".join(self.expression(depth) + self.pick("", "", " AS into", " AS delete", " x", ' AS "f(1)"') for _ in range(self.dice.choice((1, 1, 2))))
        out = f"SELECT {self.pick('', '', 'DISTINCT ', 'ALL ')}{targets}"
        out += self.pick("", "", "", "", "", " INTO new_t", " INTO TEMP TABLE n2") if self.dice.random() < 0.3 else ""
        if self.dice.random() < 0.85:
            out += f" FROM {self.from_list(depth)}"
        if self.dice.random() < 0.5:
            out += f" WHERE {self.expression(depth)}"
        out += self.pick("", "", "", " GROUP BY 1", " GROUP BY ROLLUP (id), CUBE (x)", " GROUP BY GROUPING SETS ((id), ())")
        out += self.pick("", "", "", " WINDOW w AS (ORDER BY id)")
        return out

    def query(self, depth: int) -> str:
        out = ""
        if depth > 0 and self.dice.random() < 0.25:
            parts = []
            for _ in range(self.dice.choice((1, 2))):
                body = self.modification(depth - 1) if self.dice.random() < 0.2 else self.query(depth - 1)
                name = self.pick("a", "b", "t", "users", "recursive", "materialized", '"Q"')
                parts.append(f"{name}{self.pick('', ' (c1)')} AS {self.pick('', 'MATERIALIZED ', 'NOT MATERIALIZED ')}({body})")
            out = f"WITH {self.pick('', 'RECURSIVE ')}{', '.join(parts)} "
        kind = self.dice.random()
        if kind < 0.7:
            out += self.select(depth)
        elif kind < 0.75:
            out += f"VALUES (1, {self.expression(depth)}), (2, 3)"
        elif kind < 0.8:
            out += f"TABLE {self.dice.choice(self.NAMES)}"
        elif kind < 0.9 and depth > 0:
            out += f"({self.query(depth - 1)})"
        else:
            out += f"{self.select(depth - 1)} {self.pick('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} {self.pick(self.select(depth - 1), '(' + self.query(depth - 1) + ')')}"
        out += self.pick("", "", "", " ORDER BY 1", " LIMIT 3", " FETCH FIRST (1) ROWS ONLY", " OFFSET 1 ROWS")
        out += self.pick(" FOR UPDATE", " FOR SHARE OF a", " FOR READ ONLY", " FOR NO KEY UPDATE SKIP LOCKED") if self.dice.random() < 0.08 else ""
        return out

    def modification(self, depth: int) -> str:
        table = self.dice.choice([name for name in self.NAMES if name not in ("values_",)])
        returning = self.pick("", "", " RETURNING *", f" RETURNING {self.expression(depth)}")
        kind = self.dice.random()
        if kind < 0.3:
            conflict = self.pick("", "", " ON CONFLICT DO NOTHING", f" ON CONFLICT (id) DO UPDATE SET name = {self.expression(depth)} WHERE true")
            source = self.pick(f"VALUES ({self.expression(depth)}, DEFAULT)", self.query(depth), "DEFAULT VALUES", "(id, name) " + self.query(depth))
            return f"INSERT INTO {table}{self.pick('', ' AS i')} {source}{conflict}{returning}"
        if kind < 0.6:
            return (f"UPDATE {self.pick('', 'ONLY ')}{table}{self.pick('', ' AS u', ' u')} SET name = {self.expression(depth)}"
                    f"{self.pick('', ', (a, b) = (' + self.query(depth) + ')')}{self.pick('', ' FROM ' + self.from_list(depth))}"
                    f"{self.pick('', ' WHERE ' + self.expression(depth))}{returning}")
        if kind < 0.85:
            return f"DELETE FROM {table}{self.pick('', ' AS d')}{self.pick('', ' USING ' + self.from_list(depth))}{self.pick('', ' WHERE ' + self.expression(depth))}{returning}"
        return (f"MERGE INTO {table} AS m USING {self.item(depth)} ON {self.expression(depth)} WHEN MATCHED THEN {self.pick('DELETE', 'UPDATE SET name = 1', 'DO NOTHING')}"
                f"{self.pick('', ' WHEN NOT MATCHED THEN INSERT (id) VALUES (' + self.expression(depth) + ')')}")

    def statement(self) -> str:
        depth = self.dice.choice((0, 1, 1, 2, 2, 3))
        kind = self.dice.random()
        if kind < 0.75:
            return self.query(depth)
        if kind < 0.9:
            return self.modification(depth)
        if kind < 0.95:
            return f"COPY ({self.query(depth)}) TO {self.pick('STDOUT', 'STDIN', chr(39) + '/tmp/x' + chr(39))}{self.pick('', ' WITH (FORMAT csv)', ' CSV HEADER')}"
        return f"{self.query(depth)}; {self.statement()}"


# ---------------------------------------------------------------------------------------- the comparison

def compare(statements: list[str], parser: Parser, program: str, functions: Functions) -> tuple[collections.Counter, list[str]]:
    counts: collections.Counter = collections.Counter()
    complaints: list[str] = []
    for sql, ours in zip(statements, classify(program, statements)):
        tree = parser.parse(sql)
        if isinstance(tree, str):
            counts["not parsed by PostgreSQL 15"] += 1
            continue
        counts["compared"] += 1
        verdict = Verdict(functions)
        for statement in tree.get("stmts", []):
            verdict.statement(statement["stmt"])
        theirs = "primary" if verdict.primary else "replica"
        counts[theirs] += 1
        if theirs == "primary" and ours["route"] == "replica":
            complaints.append(f"WRONG: to a replica, though {verdict.primary}: {sql!r}")
        if theirs == "replica" and ours["route"] == "primary" and ours["reason"] != "hint":
            why = next((text for text, holds in EXPLAINED.items() if holds(sql, ours)), None)
            if why is None:
                complaints.append(f"LOST: {ours['reason']} {ours['functions']}: {sql!r}")
            else:
                counts[why] += 1
        if verdict.tables_known and ours["reason"] != "unparsed":
            for what, expected in (("tables_read", verdict.read), ("tables_written", verdict.written)):
                found = set(ours[what])
                # Queries of WITH RECURSIVE see those that come later; pgweir takes such a name for a table as well.
                if what == "tables_read" and found - expected and found - expected <= verdict.later:
                    counts["a name of WITH RECURSIVE used before its query counts as a table, too"] += 1
                    found &= expected
                if found != expected:
                    complaints.append(f"TABLES: {what} {sorted(ours[what])}, by the tree {sorted(expected)}: {sql!r}")
    return counts, complaints


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pgweir", required=True)
    arguments.add_argument("--parser", required=True)
    arguments.add_argument("--generated", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()

    dice = random.Random(options.seed)
    texts = corpus()
    grammar = Grammar(dice)
    functions = Functions()
    parser = Parser(options.parser)
    failed = False
    for name, statements in (("corpus", texts),
                             ("exchanged parts", [exchanged(texts, dice) for _ in range(options.generated)]),
                             ("grammar", [grammar.statement() for _ in range(options.generated)])):
        counts, complaints = compare([sql for sql in statements if "\0" not in sql], parser, options.pgweir, functions)
        print(f"{name}: " + ", ".join(f"{key} {count}" for key, count in sorted(counts.items())))
        for complaint in complaints[:40]:
            print("  " + complaint)
        if complaints:
            failed = True
            print(f"  {len(complaints)} in all")
        if counts["compared"] * 10 < len(statements):
            print("  too few could be compared to tell anything")
            failed = True
    parser.close()
    if parser.crashes:
        print(f"the parser crashed {parser.crashes} times")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
