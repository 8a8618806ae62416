"""Every method towards clients with every form of secret, every method of the server and every kind of encryption, by psql and psycopg2:
each cell of test/data/auth_matrix.tsv."""
from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

import pooler as poolers
from cluster import HOST, clean_environment
from test_auth import PASSWORDS, secrets, settings_with    # noqa: F401: a fixture among them
from test_tls import certificates, own_key, tls_cluster, towards_clients    # noqa: F401

DATA = pathlib.Path(os.environ.get("PGWEIR_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "test/data/auth_matrix.tsv"
# The role whose servers ask by the method of the column (see cluster.py).
ROLES = {"trust": "other", "password": "u_plain", "md5": "u_md5", "scram-sha-256": "u_scram"}
# The query tells whether the server's side is encrypted.
QUERY = "SELECT current_user || ' ' || ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


def table() -> list[tuple[dict[str, str], dict[str, str]]]:
    """(what the row is about, role -> outcome) for each row."""
    lines = [line.split("\t") for line in DATA.read_text().splitlines() if not line.startswith("#")]
    names = lines[0]
    rows = [dict(zip(names, line)) for line in lines[1:]]
    assert all(len(line) == len(names) for line in lines)
    return [(row, {role: row[method] for method, role in ROLES.items()}) for row in rows]


def word(answer: str, expected_answer: str) -> str:
    if answer == expected_answer:
        return "ok"
    for text, outcome in (("wrong password type", "wrong-type"), ("channel binding", "client-refuses"),
                          ("password authentication failed", "refused"), ("SASL authentication failed", "refused"),
                          ("certificate authentication failed", "refused")):
        if text in answer:
            return outcome
    return answer


class Logins:
    """As one role to one database, by either program."""

    def __init__(self, pooler, certificates) -> None:
        self.port = pooler.port
        self.certificates = certificates

    def parameters(self, row: dict[str, str], role: str) -> dict[str, str]:
        given = {"host": HOST, "port": str(self.port), "dbname": database_of(row), "user": role, "connect_timeout": "30", "sslmode": "disable"}
        if row["client"] != "plain":
            binding = "require" if row["client"] == "bound" else "prefer"
            given |= {"sslmode": "verify-full", "sslrootcert": str(self.certificates.crt("ca")), "channel_binding": binding}
        if row["method"] == "cert":
            given |= {"sslcert": str(self.certificates.crt(role)), "sslkey": str(self.certificates.key(role))}
        return given

    def psycopg2(self, row: dict[str, str], role: str, password: str) -> str:
        try:
            connection = psycopg2.connect(**self.parameters(row, role), password=password)
        except psycopg2.OperationalError as error:
            return str(error)
        with contextlib.closing(connection), connection.cursor() as cursor:
            assert connection.info.ssl_in_use == (row["client"] != "plain")
            cursor.execute(QUERY)
            return cursor.fetchone()[0]

    def psql(self, row: dict[str, str], role: str, password: str) -> str:
        dsn = " ".join(f"{name}='{value}'" for name, value in self.parameters(row, role).items())
        done = subprocess.run(["psql", "-X", "-A", "-t", "-w", "-d", dsn, "-c", QUERY], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**clean_environment(), "PGPASSWORD": password})
        return done.stdout.strip() if done.returncode == 0 else done.stderr


def database_of(row: dict[str, str]) -> str:
    return f"{row['method']}_{row['secret']}_{row['client']}_{row['server']}"


def test_each_cell_comes_out_as_written(tls_cluster, db, secrets, certificates):    # noqa: F811
    rows = table()
    assert len({database_of(row) for row, _ in rows}) == len(rows) == 75
    port = tls_cluster.primary.port
    # Each cell has a pool of its own, so that none lives on what another one has proved; its servers go when they have served.
    lines = "".join(
        f"{database_of(row)} = host={HOST} port={port} dbname={db} server_tls_sslmode={'require' if row['server'] == 'tls' else 'disable'} server_lifetime=0 "
        f"auth_query='SELECT name, secret FROM secrets WHERE form = ''{row['secret']}'' AND name = $1' auth_dbname=asked\n" for row, _ in rows)
    hba = "".join(f"host {database_of(row)} all all {row['method']}\n" for row, _ in rows)
    settings = settings_with("hba", "auth_hba_file = {folder}/hba\nauth_user = postgres\nmax_client_conn = 200\n"
                             + towards_clients(certificates, "allow", ca=True))
    for role in ROLES.values():
        certificates.issue(role, role)
    with contextlib.ExitStack() as stack:
        for role in ROLES.values():
            stack.enter_context(own_key(certificates, role))
        pooler = stack.enter_context(poolers.running(f"[databases]\nasked = host={HOST} port={port} dbname={db}\n{lines}{settings}", '"postgres" ""\n',
                                                     {"hba": hba + "host all all all trust\n"}))
        logins = Logins(pooler, certificates)

        def differences(cell) -> list[str]:
            row, role, expected = cell
            found = []
            answer = f"{role} {'true' if row['server'] == 'tls' else 'false'}"
            if row["method"] not in ("trust", "cert"):
                wrong = word(logins.psycopg2(row, role, "wrong"), answer)
                if wrong != ("client-refuses" if expected == "client-refuses" else "refused"):
                    found.append(f"{database_of(row)} {role} with a wrong password: {wrong}")
            for program in (logins.psql, logins.psycopg2):
                got = word(program(row, role, PASSWORDS[role]), answer)
                if got != expected:
                    found.append(f"{database_of(row)} {role} by {program.__name__}: {got}, expected {expected}")
            return found
        cells = [(row, role, expected) for row, outcomes in rows for role, expected in outcomes.items()]
        with ThreadPoolExecutor(4) as several:
            assert [each for found in several.map(differences, cells) for each in found] == []


@pytest.mark.parametrize("form", ["plain", "md5", "scram"])
def test_secrets_of_auth_file_come_out_the_same(cluster, db, secrets, form):    # noqa: F811
    rows = [(row, outcomes) for row, outcomes in table() if (row["secret"], row["client"], row["server"]) == (form, "plain", "plain")]
    lines = "".join(f"{database_of(row)} = host={HOST} port={cluster.primary.port} dbname={db} server_tls_sslmode=disable\n" for row, _ in rows)
    hba = "".join(f"host {database_of(row)} all 127.0.0.1/32 {row['method']}\n" for row, _ in rows)
    users = "".join(f'"{role}" "{secrets[role, form]}"\n' for role in PASSWORDS)
    with poolers.running("[databases]\n" + lines + settings_with("hba", "auth_hba_file = {folder}/hba\n"), users, {"hba": hba}) as pooler:
        differences = []
        for row, outcomes in rows:
            for role, expected in outcomes.items():
                given = {"host": HOST, "port": pooler.port, "dbname": database_of(row), "user": role, "connect_timeout": 30}
                try:
                    psycopg2.connect(**given, password=PASSWORDS[role]).close()
                    got = "ok"
                except psycopg2.OperationalError as error:
                    got = word(str(error), "")
                if got != expected:
                    differences.append(f"{database_of(row)} {role}: {got}, expected {expected}")
        assert differences == []
