"""Every method towards clients with every form of secret, every method of the server and every kind of encryption, by psql and psycopg2:
each cell of test/data/auth_matrix.tsv."""
from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import pwd
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Iterator

import psycopg2
import pytest

import pam_service
import pooler as poolers
from cluster import HOST, clean_environment
from directory import MEMBERS, Directory
from test_auth import PASSWORDS, secrets, settings_with    # noqa: F401: a fixture among them
from test_tls import certificates, own_key, tls_cluster, towards_clients    # noqa: F401

DATA = pathlib.Path(os.environ.get("PGWEIR_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "test/data/auth_matrix.tsv"
# The role whose servers ask by the method of the column (see cluster.py), and who comes in its place where the login is unknown.
ROLES = {"trust": "other", "password": "u_plain", "md5": "u_md5", "scram-sha-256": "u_scram"}
NOBODIES = {method: f"no_{role}" for method, role in ROLES.items()}
# Somebody else judges; and those that ask for a password, hba in some of its rules.
OUTSIDE = ("pam", "ldap")
ASKING = ("password", "plain", "md5", "scram-sha-256", "hba", *OUTSIDE)
METHODS = ("any", "trust", "cert", "peer", *ASKING)
KEYS = ("login", "method", "secret", "client", "server")
OUTCOMES = {"ok", "refused", "rejected", "no-rule", "wrong-type", "client-refuses"}
# The query tells whether the server's side is encrypted.
QUERY = "SELECT current_user || ' ' || ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

Row = dict[str, str]


def rows_that_have_to_be() -> set[tuple[str, ...]]:
    """The crossings that exist; the head of the table says why the others don't."""
    stored, encryption, servers = ("plain", "md5", "scram"), ("plain", "tls", "bound"), ("plain", "tls")
    found: set[tuple[str, ...]] = set()
    for method in METHODS:
        secret = ("-",) if method in OUTSIDE else stored
        client = encryption + (("unix",) if method in ("hba", "peer") else ())
        found.update(itertools.product(("right",), (method,), secret, client, servers))
        found.update(itertools.product(("unknown",), (method,), ("-",), client, ("-",)))
        if method in ASKING:
            found.update(itertools.product(("wrong",), (method,), secret, encryption, ("-",)))
    return found


def table() -> list[tuple[Row, dict[str, str]]]:
    """(what the row is about, method of the server -> outcome) for each row."""
    lines = [line.split("\t") for line in DATA.read_text().splitlines() if not line.startswith("#")]
    names = lines[0]
    assert names == [*KEYS, *ROLES] and all(len(line) == len(names) for line in lines)
    rows = [dict(zip(names, line)) for line in lines[1:]]
    return [({key: row[key] for key in KEYS}, {method: row[method] for method in ROLES}) for row in rows]


def test_no_cell_is_missing():
    rows = table()
    keys = [tuple(row[key] for key in KEYS) for row, _ in rows]
    assert len(keys) == len(set(keys))
    assert set(keys) == rows_that_have_to_be()
    assert {outcome for _, outcomes in rows for outcome in outcomes.values()} == OUTCOMES


def word(answer: str, expected_answer: str) -> str:
    if answer == expected_answer:
        return "ok"
    for text, outcome in (("wrong password type", "wrong-type"), ("channel binding", "client-refuses"), ("login rejected\n", "rejected"),
                          ("no authentication method is found", "no-rule")):
        if text in answer and "unix socket login rejected" not in answer:
            return outcome
    refusals = ('"trust"', "password", "SASL", "certificate", "PAM", "LDAP")
    if "unix socket login rejected" in answer or any(f"FATAL:  {who} authentication failed\n" in answer for who in refusals):
        return "refused"
    return answer


# ---------------------------------------------------------------------------------------- the poolers

def database_of(row: Row, server_method: str) -> str:
    """Each cell of right logins has a pool of its own, so that none lives on what another one has proved; the others come to one of these."""
    secret = "plain" if row["login"] == "unknown" and row["method"] not in ("pam", "ldap") else row["secret"]
    name = f"{row['method']}_{secret}_{row['client']}_{row['server'].replace('-', 'plain')}"
    return f"{name}_{ROLES[server_method]}" if row["method"] == "any" else name


def pooler_of(row: Row) -> str:
    """auth_type and what else tells one pooler from another. Who is unknown is treated like most of those who were found: nobody was,
    where the unknown ones come, so all are led through SCRAM."""
    if row["method"] == "any":
        return f"any {row['secret'].replace('-', 'plain')}"
    auth_type = row["method"] if row["method"] == "plain" or (row["method"] == "peer" and row["client"] != "unix") else "hba"
    return f"{auth_type} unknown" if row["login"] == "unknown" else auth_type


def rules_of(row: Row, directory: Directory) -> str:
    name, method = database_of(row, "trust"), row["method"]
    if row["client"] == "unix":
        return f"local {name} all peer map=anybody\n"
    if method == "ldap":
        return f'host {name} all all ldap ldapserver={HOST} ldapport={directory.port} ldapprefix="uid=" ldapsuffix=",{MEMBERS}"\n'
    if method != "hba":
        return f"host {name} all all {method}\n"
    who = {role: f"{role},{NOBODIES[column]}" for column, role in ROLES.items()}
    return (f"hostnossl {name} {who['other']} all trust\nhostssl {name} {who['other']} all cert\nhost {name} {who['u_plain']} all password\n"
            f"hostnossl {name} {who['u_md5']} all md5\nhostssl {name} {who['u_md5']} all reject\nhostssl {name} {who['u_scram']} all scram-sha-256\n")


@pytest.fixture(scope="module")
def directory(certificates) -> Iterator[Directory]:    # noqa: F811
    certificates.issue("directory", "directory", "IP:127.0.0.1")
    running = Directory(certificates, "directory", PASSWORDS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def everybodys_certificates(certificates) -> Iterator[None]:    # noqa: F811
    """Also of those whom nobody knows."""
    with contextlib.ExitStack() as stack:
        for name in (*ROLES.values(), *NOBODIES.values()):
            certificates.issue(name, name)
            stack.enter_context(own_key(certificates, name))
        yield


@contextlib.contextmanager
def started(kind: str, rows: list[Row], port: int, dbname: str, certificates, directory, secrets) -> Iterator[poolers.Pooler]:    # noqa: F811
    """The pooler for these rows, whose server listens at `port`."""
    auth_type = kind.split()[0]
    lines, hba, users = {}, {}, '"postgres" ""\n'
    for row in rows:
        for column, role in ROLES.items():
            tls = "require" if row["server"] == "tls" else "disable"
            # Servers go when they have served: all logins of all cells would leave too many.
            line = f"host={HOST} port={port} dbname={dbname} server_tls_sslmode={tls} server_lifetime=0"
            query = f"SELECT name, secret FROM secrets WHERE form = ''{row['secret']}'' AND name = $1"
            more = f"user={role}" if auth_type == "any" else f"auth_query='{query}' auth_dbname=asked"
            lines[database_of(row, column)] = f"{line} {more}"
        if auth_type == "hba":
            hba[database_of(row, "trust")] = rules_of(row, directory)
    if auth_type == "any":
        users = "".join(f'"{role}" "{secrets[role, kind.split()[1]]}"\n' for role in PASSWORDS)
    databases = f"[databases]\nasked = host={HOST} port={port} dbname={dbname}\n" + "".join(f"{name} = {line}\n" for name, line in lines.items())
    settings = settings_with(auth_type, "auth_user = postgres\nmax_client_conn = 200\nauth_pam_confdir = {folder}\n" + towards_clients(certificates, "allow", ca=True)
                             + ("auth_hba_file = {folder}/hba\nauth_ident_file = {folder}/ident\n" if auth_type == "hba" else ""))
    account = pwd.getpwuid(os.getuid()).pw_name     # the tests connect as whoever runs them
    pooler = poolers.Pooler(databases + settings, users, {"hba": "".join(hba.values()), "ident": f"anybody {account} all\n"})
    try:
        pam_service.write_service(pooler, pam_service.judge_of(PASSWORDS))
        pooler.start()
        yield pooler
        assert pooler.stop() == 0
    except BaseException:
        pooler.stop()
        print(f"--- log of pgweir for {kind}\n{pooler.log_tail()}")
        raise
    finally:
        pooler.remove()


# ---------------------------------------------------------------------------------------- the logins

class Logins:
    """To one pooler, by either program."""

    def __init__(self, pooler: poolers.Pooler, certificates) -> None:    # noqa: F811
        self.pooler = pooler
        self.certificates = certificates

    def parameters(self, row: Row, column: str) -> dict[str, str]:
        user = NOBODIES[column] if row["login"] == "unknown" else ROLES[column]
        host = str(self.pooler.folder) if row["client"] == "unix" else HOST
        given = {"host": host, "port": str(self.pooler.port), "dbname": database_of(row, column), "user": user, "connect_timeout": "30", "sslmode": "disable"}
        if row["client"] in ("tls", "bound"):
            # Without `disable` libpq would take SCRAM-SHA-256-PLUS wherever it can have it.
            given |= {"sslmode": "verify-full", "sslrootcert": str(self.certificates.crt("ca")), "channel_binding": "require" if row["client"] == "bound" else "disable"}
            if row["method"] in ("cert", "hba"):
                given |= {"sslcert": str(self.certificates.crt(user)), "sslkey": str(self.certificates.key(user))}
        return given

    def psycopg2(self, row: Row, column: str, password: str) -> str:
        try:
            connection = psycopg2.connect(**self.parameters(row, column), password=password)
        except psycopg2.OperationalError as error:
            return str(error)
        with contextlib.closing(connection), connection.cursor() as cursor:
            assert connection.info.ssl_in_use == (row["client"] in ("tls", "bound"))
            cursor.execute(QUERY)
            return cursor.fetchone()[0]

    def psql(self, row: Row, column: str, password: str) -> str:
        dsn = " ".join(f"{name}='{value}'" for name, value in self.parameters(row, column).items())
        done = subprocess.run(["psql", "-X", "-A", "-t", "-w", "-d", dsn, "-c", QUERY], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**clean_environment(), "PGPASSWORD": password})
        return done.stdout.strip() if done.returncode == 0 else done.stderr


def differences(logins: Logins, row: Row, column: str, expected: str) -> list[str]:
    """How the cell's logins came out, where that is not as written."""
    answer = f"{ROLES[column]} {'true' if row['server'] == 'tls' else 'false'}"
    password = "wrong" if row["login"] == "wrong" else PASSWORDS[ROLES[column]]
    programs = (logins.psql, logins.psycopg2) if row["login"] == "right" else (logins.psycopg2,)
    got = {program.__name__: word(program(row, column, password), answer) for program in programs}
    return [f"{' '.join(row.values())} {column} by {name}: {outcome}, expected {expected}" for name, outcome in got.items() if outcome != expected]


@pytest.mark.parametrize("method", METHODS)
def test_each_cell_comes_out_as_written(tls_cluster, db, secrets, certificates, everybodys_certificates, directory, method):    # noqa: F811
    rows = [(row, outcomes) for row, outcomes in table() if row["method"] == method]
    of_pooler: dict[str, list[Row]] = {}
    for row, _ in rows:
        of_pooler.setdefault(pooler_of(row), []).append(row)
    with contextlib.ExitStack() as stack:
        logins = {kind: Logins(stack.enter_context(started(kind, its, tls_cluster.primary.port, db, certificates, directory, secrets)), certificates)
                  for kind, its in of_pooler.items()}
        cells = [(logins[pooler_of(row)], row, column, expected) for row, outcomes in rows for column, expected in outcomes.items()]
        assert len(cells) >= 4 * 12
        with ThreadPoolExecutor(4) as several:
            assert [each for found in several.map(lambda cell: differences(*cell), cells) for each in found] == []


@pytest.mark.parametrize("form", ["plain", "md5", "scram"])
def test_secrets_of_auth_file_come_out_the_same(cluster, db, secrets, form):    # noqa: F811
    rows = [(row, outcomes) for row, outcomes in table() if (row["login"], row["secret"], row["client"], row["server"]) == ("right", form, "plain", "plain")
            and row["method"] in ("trust", "password", "md5", "scram-sha-256")]
    assert len(rows) == 4
    lines = "".join(f"{database_of(row, 'trust')} = host={HOST} port={cluster.primary.port} dbname={db} server_tls_sslmode=disable\n" for row, _ in rows)
    hba = "".join(f"host {database_of(row, 'trust')} all 127.0.0.1/32 {row['method']}\n" for row, _ in rows)
    users = "".join(f'"{role}" "{secrets[role, form]}"\n' for role in PASSWORDS)
    with poolers.running("[databases]\n" + lines + settings_with("hba", "auth_hba_file = {folder}/hba\n"), users, {"hba": hba}) as pooler:
        found = []
        for row, outcomes in rows:
            for column, expected in outcomes.items():
                role = ROLES[column]
                given = {"host": HOST, "port": pooler.port, "dbname": database_of(row, column), "user": role, "connect_timeout": 30}
                try:
                    psycopg2.connect(**given, password=PASSWORDS[role]).close()
                    got = "ok"
                except psycopg2.OperationalError as error:
                    got = word(str(error), "")
                if got != expected:
                    found.append(f"{database_of(row, column)} {role}: {got}, expected {expected}")
        assert found == []
