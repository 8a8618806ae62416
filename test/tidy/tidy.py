#!/usr/bin/env python3
"""The rules of the house that a script can check. `tidy.py CHECK` prints what breaks one, and fails then.

Run by ctest, one test for each check below; `tidy.py` alone runs them all.
"""
from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
import sys
from collections.abc import Iterator

TOP = pathlib.Path(__file__).resolve().parents[2]

# Which modules a module may use at most. A CMakeLists says what it does use; #include lines must agree with that.
LOWER = ["base", "io", "protocol", "sql", "config", "stats", "tokens", "auth", "routing", "pool"]
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "io": {"base"},
    "protocol": {"base"},
    "sql": {"base"},
    "config": {"base"},
    "stats": {"base"},
    "tokens": {"base"},
    "auth": {"base", "protocol"},
    "routing": {"base", "sql", "tokens", "config"},
    "pool": {"base", "config", "stats"},
    "monitor": {"base", "io", "sql", "tokens", "routing", "config", "stats"},
    "session": set(LOWER),
    "admin": {*LOWER, "monitor", "session"},
    "app": {*LOWER, "monitor", "session", "admin"},
    "net": {"base", "io", "monitor", "tokens", "auth"},
    "tools": {*LOWER, "monitor", "admin", "app"} - {"pool"},
    "web": {"base", "io", "stats", "admin"},
}
MAIN_MAY_USE = {*ALLOWED}

FOREIGN = {                     # header prefix: modules that may include it
    "uv.h": {"net"},
    "uv/": {"net"},
    "libpq": {"net"},
    "hiredis": {"net"},
    "openssl/ssl.h": {"net"},
    "openssl/bio.h": {"net"},
    "openssl/err.h": {"net"},
    "openssl/x509": {"net"},
    "openssl/": {"net", "auth"},  # what is left is libcrypto: hashes, random bytes
    "security/": {"net"},
    "ldap.h": {"net"},
    "ini.h": {"config"},
    "pg_query.h": set(),
    "sys/socket.h": {"net"},
    "sys/epoll.h": {"net"},
}
IMPURE = re.compile(r"steady_clock::now|system_clock::now|high_resolution_clock|\bclock_gettime\b|\bgettimeofday\b"
                    r"|(?<![\w.>:])(?:std::)?time\((?:nullptr|NULL|0|&)|\b(?:std::)?s?rand\(|\bgetenv\b|random_device")
IMPURE_MODULES = {"net"}
WORDS = re.compile("|".join([
    "DESIGN" + r"\.md", "HOUSE" + r"\.md", "pitfalls" + r"\.md", r"(?<![\w.])/wo" + r"rk/", r"\.libr" + "ary/",
    r"https?://(?:deb|registry|security|proxy)\.", "pypi" + r"\.org", "registry" + r"\.npmjs", r'"resolved": *"https?:',
    "sub" + "agent", "helper " + "session"]))
LINES_MAX = 1000
SOURCE_NAMES = ("*.h", "*.cpp")
SKIPPED_FOLDERS = {"build", ".git", "node_modules", "__pycache__", ".pytest_cache"}


def files(folder: str, *patterns: str) -> Iterator[pathlib.Path]:
    for pattern in patterns:
        for path in sorted((TOP / folder).rglob(pattern)):
            if path.is_file() and not SKIPPED_FOLDERS & set(path.relative_to(TOP).parts):
                yield path


def where(path: pathlib.Path, line: int) -> str:
    return f"{path.relative_to(TOP)}:{line}"


def lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    yield from enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)


def module_of(path: pathlib.Path) -> str | None:
    """The module of a source file, None for main.cpp."""
    parts = path.relative_to(TOP / "src").parts
    return parts[0] if len(parts) > 1 else None


def without_comments(text: str) -> str:
    """The code alone; line numbers stay."""
    def blank(match: re.Match) -> str:
        return match.group(0) if match.group(0).startswith(('"', "'")) else re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


# ---------------------------------------------------------------------------------------- the checks

def arrows() -> Iterator[str]:
    """Modules use only what they may and what their CMakeLists.txt says."""
    declared: dict[str, set[str]] = {}
    for cmake in files("src", "CMakeLists.txt"):
        for name, body in re.findall(r"pgweir_module\(\s*(\w+)(.*?)\)", cmake.read_text(), flags=re.S):
            depends = re.search(r"\bDEPENDS\b([^A-Z]*)", body)
            declared[name] = set(depends.group(1).split()) if depends else set()
            if name not in ALLOWED:
                yield f"{where(cmake, 1)}: module {name} is not in the table of test/tidy"
            for extra in sorted(declared[name] - ALLOWED.get(name, set())):
                yield f"{where(cmake, 1)}: {name} must not depend on {extra}"
    used: dict[str, set[str]] = {}
    for path in files("src", *SOURCE_NAMES):
        module = module_of(path)
        for number, line in lines(path):
            match = re.match(r'\s*#\s*include\s+"(\w+)/', line)
            if not match:
                if re.match(r'\s*#\s*include\s+"(?!\w+/)', line) and not line.rstrip().endswith('.inc"'):
                    yield f"{where(path, number)}: includes are written from src: {line.strip()}"
                continue
            other = match.group(1)
            if other == module or other not in ALLOWED:
                continue
            if module is None:
                if other not in MAIN_MAY_USE:
                    yield f"{where(path, number)}: main.cpp must not use {other}"
                continue
            used.setdefault(module, set()).add(other)
            if other not in ALLOWED.get(module, set()):
                yield f"{where(path, number)}: {module} must not use {other}"
            elif module in declared and other not in reachable(declared, module):
                yield f"{where(path, number)}: {module} uses {other}, which its CMakeLists.txt does not name in DEPENDS"


def reachable(declared: dict[str, set[str]], module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        for other in declared.get(waiting.pop(), set()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def foreign() -> Iterator[str]:
    """Other people's headers stay at the edge."""
    for path in files("src", *SOURCE_NAMES):
        module = module_of(path)
        for number, line in lines(path):
            match = re.match(r'\s*#\s*include\s+[<"]([^>"]+)[>"]', line)
            if not match:
                continue
            for prefix, modules in FOREIGN.items():
                if match.group(1).startswith(prefix):
                    if module not in modules:
                        yield f"{where(path, number)}: {match.group(1)} belongs to {', '.join(sorted(modules)) or 'tests'}"
                    break


def purity() -> Iterator[str]:
    """Time, chance and the environment are handed in."""
    for path in files("src", *SOURCE_NAMES):
        if module_of(path) in IMPURE_MODULES or module_of(path) is None:
            continue
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            if IMPURE.search(line):
                yield f"{where(path, number)}: only net and main.cpp may ask for this: {line.strip()}"


def test_names() -> Iterator[str]:
    """Names that catch_discover_tests would silently not run."""
    for path in files("test", "*.cpp"):
        for match in re.finditer(r'\b(?:TEST_CASE|SCENARIO|TEST_CASE_METHOD)\(\s*(?:\w+\s*,\s*)?((?:"(?:\\.|[^"\\])*"\s*)+)',
                                 path.read_text()):
            name = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', match.group(1)))
            number = path.read_text()[:match.start()].count("\n") + 1
            if ";" in name or name.endswith("\\") or "," in name and name.startswith(","):
                yield f"{where(path, number)}: a test's name must hold no ';' and end in no '\\': {name}"
            if "[" in name.split(" [")[0][:1]:
                yield f"{where(path, number)}: a test's name must not begin with '[': {name}"


def words() -> Iterator[str]:
    """Nothing of the place where this was written stands in the project."""
    for path in files(".", "*"):
        if path.suffix in {".png", ".svg", ".bin"} or path.stat().st_size > 2_000_000:
            continue
        if "fuzz" in path.parts and "corpus" in path.parts:
            continue
        for number, line in lines(path):
            if WORDS.search(line):
                yield f"{where(path, number)}: {WORDS.search(line).group(0)!r} does not belong here"


def sizes() -> Iterator[str]:
    """A file is one idea; past a thousand lines it is two."""
    for path in files(".", "*.h", "*.cpp", "*.py", "*.sh", "CMakeLists.txt"):
        count = sum(1 for _ in lines(path))
        if count > LINES_MAX:
            yield f"{where(path, count)}: {count} lines, at most {LINES_MAX}"


CATCH_NAME = r'(?m)^(?:TEST_CASE|SCENARIO)\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)'


def tests_in(path: pathlib.Path) -> dict[str, str]:
    """The tests of a file by name, each with its whole text."""
    text = path.read_text()
    if path.suffix == ".py":
        nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        rows = text.splitlines()
        return {node.name: "\n".join(rows[min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1:node.end_lineno])
                for node in nodes}
    begins = list(re.finditer(CATCH_NAME, text))
    ends = [match.start() for match in begins[1:]] + [len(text)]
    return {"".join(re.findall(r'"((?:\\.|[^"\\])*)"', match.group(1))): text[match.start():end]
            for match, end in zip(begins, ends)}


@dataclasses.dataclass(frozen=True)
class ContractRow:
    """One thing that PgBouncer has or does, as tested_by.tsv names it, and what a test of it must hold (one of the words)."""
    kind: str
    name: str
    words: tuple[str, ...]
    different: bool = False


def contract_rows() -> Iterator[ContractRow]:
    for kind, name in (("setting", "settings"), ("option", "options"), ("command", "console"), ("flag", "flags"), ("signal", "signals"),
                       ("text", "texts"), ("rule", "rules"), ("tool", "tools")):
        for _, line in lines(TOP / "test/data/pgbouncer" / f"{name}.tsv"):
            if line.startswith("#"):
                continue
            first, *more = line.rstrip("\n").split("\t")
            if kind == "option":
                yield ContractRow(kind, f"{first} {more[0]}", (more[0],))
            elif kind == "flag":
                yield ContractRow(kind, f"-{first}, --{more[0]}", (f'"-{first}"', f'"--{more[0]}"'))
            elif kind == "signal":
                yield ContractRow(kind, first, (f"SIG{first}",))
            elif kind in ("rule", "tool"):
                yield ContractRow(kind, first, (more[0],))
            else:
                yield ContractRow(kind, first, (first,), kind == "text" and more == ["different"])


def names(row: ContractRow, test: str) -> bool:
    """Whether the text of a test holds a word of the row: of settings and commands as a whole word, whatever the case of a command."""
    # In C++ an escaped line end may stand before a setting's name, and quotes in a text are escaped.
    said = test.replace("\\n", " ").replace('\\"', '"')
    for word in row.words:
        if row.kind in ("text", "rule", "tool"):
            if word in said:
                return True
        elif re.search(r"(?<!\w)" + re.escape(word) + r"(?!\w)", said, re.IGNORECASE if row.kind == "command" else 0):
            return True
    return False


def contract() -> Iterator[str]:
    """Each row of the lists of what PgBouncer has is somebody's to test: the test exists, and names the row. A text that is different
    here is told on the migration page."""
    rows = {(row.kind, row.name): row for row in contract_rows()}
    table = TOP / "test/data/pgbouncer/tested_by.tsv"
    known: dict[pathlib.Path, dict[str, str]] = {}
    tested = set()
    for number, line in lines(table):
        if line.startswith("#"):
            continue
        kind, name, file, test = line.rstrip("\n").split("\t")
        row = rows.get((kind, name))
        if row is None:
            yield f"{where(table, number)}: PgBouncer has no {kind} {name}"
            continue
        if row in tested:
            yield f"{where(table, number)}: {kind} {name} stands here twice"
        tested.add(row)
        path = TOP / "test" / file
        if path not in known:
            known[path] = tests_in(path) if path.exists() else {}
        if test not in known[path]:
            yield f"{where(table, number)}: there is no test {test!r} in test/{file}"
        elif not names(row, known[path][test]):
            yield f"{where(table, number)}: the test {test!r} does not hold {' or '.join(row.words)!r}"
    page = TOP / "docs/migrating-from-pgbouncer.md"
    told = page.read_text()
    for row in rows.values():
        if row.different and f"| `{row.name}` |" not in told:
            yield f"{where(page, 1)}: the text {row.name!r}, which is different here, is not told"
        elif not row.different and row not in tested:
            yield f"{where(table, 1)}: nobody tests {row.kind} {row.name}"


CHECKS = {check.__name__: check for check in (arrows, foreign, purity, test_names, words, sizes, contract)}


def main(arguments: list[str]) -> int:
    unknown = [name for name in arguments if name not in CHECKS]
    if unknown:
        print(f"usage: tidy.py [{'|'.join(CHECKS)}]…", file=sys.stderr)
        return 2
    found = [problem for name in arguments or CHECKS for problem in CHECKS[name]()]
    print("\n".join(found) if found else "tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
