"""The measured corpus against `pgweir classify` with the catalog of the corpus' schema. What differs is listed, with its
reason, in test/data/corpus/disagreements.tsv; one more or one less fails."""
from __future__ import annotations

import json
import pathlib
import subprocess

import pooler as poolers
from cluster import clean_environment, run_as

DATA = pathlib.Path(__file__).resolve().parents[1] / "data/corpus"


def corpus() -> list[dict]:
    return [json.loads(line) for line in (DATA / "routing.jsonl").read_text().splitlines()]


def explained() -> set[tuple[str, str]]:
    lines = (DATA / "disagreements.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["id", "mode", "aspect", "reason"]
    rows = [line.split("\t") for line in lines[1:]]
    assert all(len(row) == 4 and len(row[3]) > 10 for row in rows)
    return {(row[0], row[2]) for row in rows if row[1] in ("catalog", "both")}


def test_each_difference_is_on_the_page_with_its_reason():
    import test_catalog
    listed = {(row[0], row[-1]) for name in ("disagreements.tsv", "masked.tsv")
              for row in (line.split("\t") for line in (DATA / name).read_text().splitlines()[1:])}
    listed |= set(test_catalog.READ_DIFFERS.items()) | set(test_catalog.WRITTEN_DIFFERS.items())
    page = (DATA.parents[2] / "docs/internals/corpus.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.endswith(" |") and " | q0" in line]
    told = {(identity, reason) for reason, identities in rows for identity in identities.split()}
    bare_reason = lambda reason: reason.split(": ", 1)[1] if reason.startswith(("route: ", "tables_", "rows: ", "notices: ")) else reason  # noqa: E731
    assert {(identity, bare_reason(reason)) for identity, reason in told} == listed


def bare(names: list[str]) -> set[str]:
    return {name.removeprefix("public.") for name in names}


def test_the_catalogs_verdict_and_tables_are_the_corpus_but_for_what_is_listed(cluster):
    cluster.primary.execute("DROP DATABASE IF EXISTS corpus WITH (FORCE)")
    cluster.primary.execute("CREATE DATABASE corpus")
    try:
        url = f"postgresql://postgres@127.0.0.1:{cluster.primary.port}/corpus"
        cluster.primary.execute((DATA / "schema.sql").read_text(), "corpus")
        done = subprocess.run([str(poolers.binary()), "classify", "--jsonl", "--catalog", url, "-"],
                              input=(DATA / "routing.jsonl").read_text(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/tmp", env=clean_environment(),
                              timeout=60, **run_as())
    finally:
        cluster.primary.execute("DROP DATABASE corpus WITH (FORCE)")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    lines = corpus()
    assert len(answers) == len(lines) == 528

    differs = set()
    expected = offloaded = 0
    for line, answer in zip(lines, answers):
        if line["route"] == "primary" and answer["route"] != "primary":
            differs.add((line["id"], "route"))
        if line.get("offload") == "expected":
            expected += 1
            offloaded += answer["route"] == "replica"
            if answer["route"] != "replica":
                differs.add((line["id"], "route"))
        for aspect in ("tables_read", "tables_written"):
            if bare(line[aspect]) != bare(answer[aspect]):
                differs.add((line["id"], aspect))
    assert differs == explained()
    assert offloaded >= 0.99 * expected
