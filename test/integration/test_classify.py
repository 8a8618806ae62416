"""`pgweir classify`: one JSON object for each statement, without any server or with the catalog of one."""
from __future__ import annotations

import json
import subprocess

import pytest

import pooler as poolers
from cluster import clean_environment, make_folder, run_as

SQL = """SELECT * FROM users;
insert into users (name) values ('a;b');
SELECT nextval('s'); -- a comment ; with a semicolon
WITH d AS (DELETE FROM old RETURNING *) SELECT * FROM d;
SELECT my_function(1);
BEGIN;
SELECT $tag$ ; $tag$, 'it''s' FROM a.b JOIN "C d" ON true
"""


def classify(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([str(poolers.binary()), "classify", *arguments], input=stdin, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, cwd="/tmp", env=clean_environment(), timeout=60, **run_as())


def objects(*arguments: str, stdin: str | None = None) -> list[dict]:
    done = classify(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_statement_of_a_script_is_one_object():
    read = objects(stdin=SQL)
    assert [item["route"] for item in read] == ["replica", "primary", "primary", "primary", "primary", "primary", "replica"]
    for item in read:
        assert set(item) >= {"sql", "route", "reason", "class", "shape", "tables_read", "tables_written", "functions"}
    assert [item["reason"] for item in read][:2] == ["read", "write"]
    assert read[1]["tables_written"] in (["users"], ["public.users"])
    assert sorted(table.split(".")[-1].strip('"') for table in read[6]["tables_read"]) == ["C d", "b"]
    assert read[4]["functions"][0].endswith("my_function")


def test_a_file_and_json_lines():
    folder = make_folder("pgweir-sql-")
    try:
        (folder / "some.sql").write_text(SQL)
        assert len(objects(str(folder / "some.sql"))) == 7
        (folder / "some.jsonl").write_text(json.dumps({"sql": "SELECT 1; SELECT 2", "id": 3}) + "\n" + json.dumps({"sql": "DELETE FROM x"}) + "\n")
        read = objects("--jsonl", str(folder / "some.jsonl"))
        assert [item["route"] for item in read] == ["replica", "primary"]
        assert read[0]["sql"] == "SELECT 1; SELECT 2"
    finally:
        import shutil
        shutil.rmtree(folder)


def test_one_shape_for_statements_that_differ_in_literals_alone():
    shapes = [item["shape"] for item in objects(stdin="SELECT * FROM t WHERE a = 1; select  *  from t where a = 2 -- c\n; SELECT * FROM u WHERE a = 1")]
    assert shapes[0] == shapes[1] != shapes[2]


def test_a_catalog_tells_about_functions_and_relations(cluster, db):
    cluster.primary.execute("CREATE FUNCTION reads_only() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1'; CREATE UNLOGGED TABLE fast (n int);"
                            "CREATE FUNCTION writes() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'", db)
    script = "SELECT reads_only(); SELECT writes(); SELECT * FROM fast"
    assert [item["route"] for item in objects(stdin=script)][:2] == ["primary", "primary"]
    url = f"postgresql://postgres@127.0.0.1:{cluster.primary.port}/{db}"
    read = objects("--catalog", url, stdin=script)
    assert [(item["route"], item["reason"]) for item in read] == [
        ("replica", "read"), ("primary", "primary_function"), ("primary", "unlogged")]


@pytest.mark.parametrize("arguments, stdin", [(["/tmp/no such file.sql"], None), (["--jsonl"], "not json\n"), (["--jsonl"], '{"no": "sql"}\n'),
                                              (["--no-such-option"], ""), (["--catalog", "postgresql://127.0.0.1:1/x"], "SELECT 1")])
def test_what_can_not_be_done_is_said(arguments, stdin):
    done = classify(*arguments, stdin=stdin if stdin is not None else "")
    assert done.returncode != 0 and done.stderr.strip()


def test_odd_input_is_read_without_trouble():
    assert objects(stdin="") == []
    assert objects(stdin=";;; -- nothing\n /* at all */ ;") in ([], objects(stdin=";"))
    assert objects(stdin="SELECT 'unterminated")[0]["route"] == "primary"
    assert len(objects(stdin="SELECT " + "(" * 20000 + "1" + ")" * 20000)) == 1
    assert objects(stdin="SELECT 'é€😀', E'\\'', U&'\\0041'")[0]["route"] == "replica"
