#!/usr/bin/env python3
"""Instructions that the class of a statement costs once the cache knows its shape (scan, hash of the shape, look-up), counted
by callgrind for each statement of the corpus and for some usual ones.

    cmake --preset release && cmake --build --preset release --target scanner_bench
    python3 test/bench/scanner_instructions.py build/release
"""
from __future__ import annotations

import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 10         # kRoundsEach of scanner_bench.cpp
MEDIAN_MAX = 800    # what the corpus' median may cost
LONG_MAX = 1600     # what a statement of 200 bytes may cost

top = pathlib.Path(__file__).resolve().parents[2]


def counted(program: pathlib.Path) -> list[tuple[str, int, float, bool]]:
    """(name, bytes, instructions, whether memory is allocated) of each statement."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--dump-before=bench_statement_begins",
             str(program), "--each", str(top / "test/data/corpus/routing.jsonl")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        named = [line.split(" ", 1) for line in done.stdout.splitlines()]
        counts = []
        # Part 1 is what came before the first statement, part n + 1 the nth statement.
        for part in range(2, len(named) + 2):
            text = pathlib.Path(f"{folder}/out.{part}").read_text()
            total = next(line for line in text.splitlines() if line.startswith(("totals:", "summary:")))
            counts.append((int(total.split()[1]) / ROUNDS, re.search(r"\bmalloc\b|operator new", text) is not None))
        return [(name, int(size), *count) for (size, name), count in zip(named, counts)]


def main() -> int:
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else top / "build/release")
    rows = counted(build / "test/bench/scanner_bench")
    usual = [row for row in rows if not row[0].startswith("q0")]
    corpus = [row for row in rows if row[0].startswith("q0")]
    print(f"{'statement':24} {'bytes':>6} {'instructions':>13}")
    for name, size, count, allocates in usual:
        print(f"{name:24} {size:6} {count:13.0f}{'  allocates' if allocates else ''}")
    median = statistics.median(count for _, _, count, _ in corpus)
    per_byte = sorted(count / size for _, size, count, _ in corpus if size >= 100)
    print(f"{'corpus, median':24} {statistics.median(size for _, size, _, _ in corpus):6.0f} {median:13.0f}")
    print(f"corpus, statements that allocate nothing: {sum(not allocates for *_, allocates in corpus)} of {len(corpus)}")
    print(f"corpus, per byte of statements from 100 bytes: median {statistics.median(per_byte):.1f}, most {per_byte[-1]:.1f}")
    long = next(count for name, _, count, _ in usual if name == "200 bytes")
    if median > MEDIAN_MAX or long > LONG_MAX:
        print(f"more than {MEDIAN_MAX} for the median or {LONG_MAX} for 200 bytes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
