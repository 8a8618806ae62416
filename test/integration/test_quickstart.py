"""packaging/quickstart, with the program that is already built: twice, and away again."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import pooler as poolers
from cluster import clean_environment, free_port

TOP = pathlib.Path(__file__).parents[2]


@pytest.fixture()
def place():
    folder = f"/tmp/pgweir-quickstart-test-{os.getpid()}"
    environment = {**clean_environment(), "PGWEIR_BIN": str(poolers.binary()), "PGWEIR_PORT": str(free_port()),
                   "PGWEIR_QUICKSTART_FOLDER": folder}
    yield environment
    subprocess.run([str(TOP / "packaging" / "quickstart"), "--stop"], env=environment, stdin=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


def quickstart(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(TOP / "packaging" / "quickstart"), *arguments], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90)


def test_the_quickstart_shows_the_main_job_and_can_be_removed(place):
    for _ in range(2):          # the second run starts anew
        done = quickstart(place)
        assert done.returncode == 0, done.stdout
        assert "1000 updates" in done.stdout and " 0 stale reads" in done.stdout, done.stdout
        assert "answered by primary: write" in done.stdout and re.search(r"answered by replica[12]: read", done.stdout), done.stdout
        share = float(re.search(r"([0-9.]+) % answered by replicas", done.stdout).group(1))
        assert share > 90, done.stdout
    answered = subprocess.run(["psql", "-X", "-At", "-h", "127.0.0.1", "-p", place["PGWEIR_PORT"], "-U", "app", "shop", "-c",
                               "SELECT count(*) > 0 FROM items"], env=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert answered.stdout == "t\n"
    # Somebody else on the port is a sentence, not a riddle.
    taken = quickstart({**place, "PGWEIR_QUICKSTART_FOLDER": place["PGWEIR_QUICKSTART_FOLDER"] + "-other"})
    assert taken.returncode != 0 and f"port {place['PGWEIR_PORT']} is in use" in taken.stdout
    stopped = quickstart(place, "--stop")
    assert stopped.returncode == 0 and not os.path.exists(place["PGWEIR_QUICKSTART_FOLDER"])
    assert quickstart(place, "--stop").returncode == 0


def test_an_unknown_argument_and_a_missing_program_are_said(place):
    assert "unknown argument" in quickstart(place, "--nonsense").stdout
    missing = quickstart({**place, "PGWEIR_BIN": "/nowhere/pgweir"})
    assert missing.returncode != 0 and "PGWEIR_BIN" in missing.stdout and "/nowhere/pgweir" in missing.stdout
