"""Who may come in, and how pgweir logs in to servers."""
from __future__ import annotations

import psycopg
import psycopg2
import pytest

import pooler as poolers
import wire
from cluster import HOST
from wire import Wire, connected, md5_secret, scram_secret

PASSWORDS = {"u_md5": "md5 secret", "u_scram": "scram secret", "u_plain": "plain secret"}
# From pgweir to a server the three roles need md5, scram-sha-256 and a clear text password (see cluster.py).


def userlist(**secrets: str) -> str:
    others = [line for line in poolers.USERLIST.splitlines(True) if line.split('"')[1] not in secrets]
    return "".join(f'"{user}" "{secret}"\n' for user, secret in secrets.items()) + "".join(others)


def ini(cluster, db: str, auth_type: str, options: str = "", more: str = "") -> str:
    text = poolers.ini_for(cluster, db, options, more)
    return text.replace("auth_type = trust", f"auth_type = {auth_type}")


def logs_in(pooler, user: str, password: str | None, database: str = "t") -> wire.Answer:
    with Wire(pooler.port) as client:
        answer = client.login(user, database, password)
        if answer.kinds[-1] == "Z":
            assert client.query("SELECT current_user::text").rows == [(user,)]
            client.query("CREATE TEMP TABLE touched (a int) ON COMMIT DROP")    # the primary lets us in as well
        return answer


@pytest.mark.parametrize("auth_type", ["md5", "scram-sha-256"])
@pytest.mark.parametrize("user", list(PASSWORDS))
def test_plain_passwords_in_the_userlist_open_both_doors(cluster, db, auth_type, user):
    with poolers.running(ini(cluster, db, auth_type), userlist(**PASSWORDS)) as pooler:
        assert logs_in(pooler, user, PASSWORDS[user]).kinds[-1] == "Z"
        refused = logs_in(pooler, user, "wrong")
        assert refused.kinds[-1] == "E" and refused.errors[0]["S"] == "FATAL"
        assert refused.errors[0]["C"] in ("28P01", "08P01")
        assert logs_in(pooler, user, PASSWORDS[user]).kinds[-1] == "Z"


def test_trust_asks_for_nothing_and_the_userlist_pays_the_server(cluster, db):
    with poolers.running(ini(cluster, db, "trust"), userlist(**PASSWORDS)) as pooler:
        for user in PASSWORDS:
            answer = logs_in(pooler, user, None)
            assert answer.kinds[0] == "R" and answer.kinds[-1] == "Z"


def test_md5_secrets_in_the_userlist(cluster, db):
    secret = md5_secret("u_md5", PASSWORDS["u_md5"])
    with poolers.running(ini(cluster, db, "md5"), userlist(u_md5=secret)) as pooler:
        assert logs_in(pooler, "u_md5", PASSWORDS["u_md5"]).kinds[-1] == "Z"
        assert logs_in(pooler, "u_md5", "wrong").errors[0]["M"] == "password authentication failed"


def test_the_scram_key_of_the_client_opens_the_server(cluster, db):
    """The userlist holds the very secret of pg_authid, no password: what the client proves is used again."""
    secret = cluster.primary.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'u_scram'")
    for auth_type in ("scram-sha-256", "md5"):
        with poolers.running(ini(cluster, db, auth_type), userlist(u_scram=secret)) as pooler:
            assert logs_in(pooler, "u_scram", PASSWORDS["u_scram"]).kinds[-1] == "Z"
            assert logs_in(pooler, "u_scram", "wrong").errors[0]["M"] == "SASL authentication failed"


def test_a_scram_secret_of_its_own_lets_in_where_the_server_asks_nothing(cluster, db):
    with poolers.running(ini(cluster, db, "scram-sha-256"), userlist(other=scram_secret("hush"))) as pooler:
        assert logs_in(pooler, "other", "hush").kinds[-1] == "Z"
        assert logs_in(pooler, "other", "hush!").kinds[-1] == "E"


def test_drivers_log_in_with_scram(cluster, db):
    with poolers.running(ini(cluster, db, "scram-sha-256"), userlist(**PASSWORDS)) as pooler:
        with psycopg.connect(pooler.dsn(user="u_scram", password=PASSWORDS["u_scram"])) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg2.OperationalError):
            psycopg2.connect(pooler.dsn(user="u_scram", password="no"))


def test_unknown_users_and_databases_are_told_so(cluster, db):
    with poolers.running(ini(cluster, db, "md5"), userlist(**PASSWORDS)) as pooler:
        unknown_user = logs_in(pooler, "nobody_we_know", "x").errors[0]
        assert unknown_user["S"] == "FATAL"
        known = logs_in(pooler, "u_md5", PASSWORDS["u_md5"], database="no_such_database").errors[0]
        assert known["M"] == "no such database: no_such_database" and known["C"] in ("3D000", "08P01")
    with poolers.running(ini(cluster, db, "trust")) as pooler:
        assert logs_in(pooler, "app", None, "nowhere").errors[0]["M"] == "no such database: nowhere"
        assert logs_in(pooler, "stranger", None).errors[0]["M"] == '"trust" authentication failed'


def test_a_forced_user_is_who_the_server_sees(cluster, db):
    with poolers.running(ini(cluster, db, "trust", "user=other password=x"), userlist()) as pooler:
        with connected(pooler.port) as client:
            assert client.query("SELECT current_user::text").rows == [("other",)]


def test_the_star_database_takes_any_name_and_is_split(cluster, db):
    text = ini(cluster, db, "trust").replace("t = host=", "* = host=").replace(f" dbname={db}", "")
    with poolers.running(text) as pooler:
        assert pooler.value("SELECT current_database()::text", dbname=db) == db
        pooler.wait_split(cluster, dbname=db)
        refused = logs_in(pooler, "app", None, "no_such_database_at_all").errors[0]
        assert refused["C"] == "3D000"


def test_a_wrong_password_for_the_server_is_the_servers_own_error(cluster, db):
    with poolers.running(ini(cluster, db, "trust", more="client_login_timeout = 5"), userlist(u_scram="not it")) as pooler:
        error = logs_in(pooler, "u_scram", None).errors[0]
        assert error["C"] in ("28P01", "08P01") and error["S"] == "FATAL"
        assert "server login failed" in pooler.log()


def test_login_attempts_are_logged(cluster, db):
    with poolers.running(ini(cluster, db, "trust")) as pooler:
        logs_in(pooler, "app", None)
        pooler.wait_log("login attempt: db=t user=app tls=no")
        pooler.wait_log("t/app@127.0.0.1")
        pooler.wait_log("closing because: ")


def test_startup_parameters_unknown_to_the_server_do_not_break_logins(cluster, db):
    with poolers.running(ini(cluster, db, "trust", more="ignore_startup_parameters = extra_float_digits")) as pooler:
        with connected(pooler.port, extra_float_digits="2") as client:
            assert client.query("SELECT 1").rows == [("1",)]
        with connected(pooler.port, options="-c search_path=pg_catalog -c datestyle=german") as client:
            assert client.query("SHOW search_path").rows == [("pg_catalog",)]
            assert client.query("SHOW datestyle").rows[0][0].startswith("German")
