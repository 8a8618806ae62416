"""Who may come in: methods, forms of secrets, auth_query, HBA rules; and what the pooler keeps to itself."""
from __future__ import annotations

import os
import pwd
import struct

import psycopg2
import pytest

import pam_service
import pooler as poolers
import wire
from cluster import HOST, free_port, wait_for
from wire import Wire, md5_secret, scram_secret

# The password of each role, and what its servers ask for (see cluster.py): nothing, clear text, md5, SCRAM.
PASSWORDS = {"other": "other secret", "u_plain": "plain secret", "u_md5": "md5 secret", "u_scram": "scram secret"}
OK, REFUSED = "ok", "refused by the pooler"


@pytest.fixture(scope="module")
def secrets(cluster, db):
    """A table with every form of every role's secret; of u_scram the very one that the server has."""
    stored = {}
    for user, password in PASSWORDS.items():
        kept = cluster.primary.value(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'") or ""
        stored[user, "plain"] = password
        stored[user, "md5"] = md5_secret(user, password)
        stored[user, "scram"] = kept if kept.startswith("SCRAM") else scram_secret(password)
    cluster.primary.execute("CREATE TABLE secrets (name text, form text, secret text)", db)
    with cluster.primary.connect(db) as connection, connection.cursor() as cursor:
        for (user, form), secret in stored.items():
            cursor.execute("INSERT INTO secrets VALUES (%s, %s, %s)", (user, form, secret))
        connection.commit()
    cluster.wait_caught_up()
    return stored


def settings_with(auth_type: str, more: str = "") -> str:
    return poolers.GLOBAL_LINES.replace("auth_type = trust", f"auth_type = {auth_type}") + "pool_mode = transaction\n" + more


def attempt(pooler, database: str, user: str, password: str | None) -> str:
    """What becomes of a login: ok, or the error's text."""
    try:
        connection = psycopg2.connect(host=HOST, port=pooler.port, dbname=database, user=user, password=password,
                                      connect_timeout=30)
    except psycopg2.OperationalError as error:
        return str(error).split("FATAL:")[-1].strip()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_user::text")
            assert cursor.fetchone() == (user,)
        return OK
    finally:
        connection.close()


def outcome(text: str) -> str:
    return REFUSED if "authentication failed" in text and "for user" not in text else text


# ---------------------------------------------------------------------------------------- auth_query

def query_ini(cluster, db: str, auth_type: str = "scram-sha-256", options: str = "", more: str = "") -> str:
    return (f"[databases]\nt = host={HOST} port={cluster.primary.port} dbname={db} {options}\n"
            + settings_with(auth_type, "auth_user = postgres\n" + more))


ONLY_ASKER = '"postgres" ""\n"admin" "admin secret"\n'


def console(pooler, command: str) -> list[tuple]:
    with pooler.connect("pgbouncer", "admin", password="admin secret") as connection:
        return poolers.query(connection, command)


def test_users_found_by_the_usual_query_log_in_everywhere(cluster, db):
    """md5 takes whichever form pg_authid has; what the client proves opens the server."""
    with poolers.running(query_ini(cluster, db, "md5"), ONLY_ASKER) as pooler:
        for user in ("u_md5", "u_scram"):
            assert attempt(pooler, "t", user, PASSWORDS[user]) == OK
            assert outcome(attempt(pooler, "t", user, "wrong")) == REFUSED
            assert attempt(pooler, "t", user, PASSWORDS[user]) == OK


def test_an_unknown_user_is_led_through_the_exchange_before_he_is_told(cluster, db):
    with poolers.running(query_ini(cluster, db), ONLY_ASKER) as pooler:
        with Wire(pooler.port) as client:
            answer = client.login("nobody_here", "t", "guess")
        codes = [struct.unpack_from("!I", body)[0] for kind, body in answer if kind == "R"]
        assert codes == [10, 11]            # the same two steps that a wrong password gets
        assert answer.errors[0]["M"] == "SASL authentication failed" and answer.errors[0]["S"] == "FATAL"
        pooler.wait_log("no such user: nobody_here")
        with Wire(pooler.port) as client:
            wrong = client.login("u_scram", "t", "guess")
        assert [struct.unpack_from("!I", body)[0] for kind, body in wrong if kind == "R"] == [10, 11]
        assert wrong.errors == answer.errors


def test_a_name_is_a_parameter_and_never_text(cluster, db, secrets):
    query = "auth_query = SELECT name, secret FROM secrets WHERE form = 'plain' AND name = $1\n"
    with poolers.running(query_ini(cluster, db, "plain", more=query), ONLY_ASKER) as pooler:
        for name in ("x' OR '1'='1", "x'; DROP TABLE secrets; --", "other' --", "$1", "\\'"):
            assert attempt(pooler, "t", name, "other secret") == "password authentication failed"
            pooler.wait_log(f"no such user: {name}")
        assert attempt(pooler, "t", "other", "other secret") == OK
        assert cluster.primary.value("SELECT count(*) FROM secrets", db) == len(secrets)


def test_passwords_expire_and_null_never_matches(cluster, db):
    cluster.primary.execute("DROP ROLE IF EXISTS u_late")
    cluster.primary.execute("CREATE ROLE u_late LOGIN PASSWORD 'late secret' VALID UNTIL '1999-01-01'")
    try:
        with poolers.running(query_ini(cluster, db, "md5"), ONLY_ASKER) as pooler:
            assert outcome(attempt(pooler, "t", "u_late", "late secret")) == REFUSED
            assert outcome(attempt(pooler, "t", "app", "whatever")) == REFUSED    # has no password at all
            cluster.primary.execute("ALTER ROLE u_late VALID UNTIL 'infinity'")
            assert attempt(pooler, "t", "u_late", "late secret") == OK
            cluster.primary.execute("ALTER ROLE u_late NOLOGIN")
            assert "authentication failed" in attempt(pooler, "t", "u_late", "late secret")
            pooler.wait_log("no such user: u_late")
    finally:
        cluster.primary.execute("DROP ROLE u_late")


def test_a_query_that_fails_says_so_in_the_log_and_little_to_the_client(cluster, db):
    for query, said in (("SELECT usename, passwd FROM no_such_table WHERE usename = $1", '"no_such_table" does not exist'),
                        ("SELECT rolpassword FROM pg_authid WHERE rolname = $1", "expected 2 columns")):
        with poolers.running(query_ini(cluster, db, more=f"auth_query = {query}\n"), ONLY_ASKER) as pooler:
            assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"]) == "bouncer config error"
            pooler.wait_log(said)
            assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"]) == "bouncer config error"


def test_auth_dbname_must_be_there_and_be_enabled(cluster, db):
    more = f"auth_dbname = elsewhere\nauth_query = SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1\n"
    with poolers.running(query_ini(cluster, db, more=more), ONLY_ASKER) as pooler:
        assert attempt(pooler, "t", "u_scram", "x") == "bouncer config error"
        pooler.wait_log('authentication database "elsewhere" is not configured')
    extra = query_ini(cluster, db, options="auth_dbname=a").replace("[databases]\n", f"[databases]\na = host={HOST} port={cluster.primary.port} dbname=postgres\n")
    with poolers.running(extra, ONLY_ASKER) as pooler:
        assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"]) == OK
        console(pooler, "DISABLE a")
        assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"]) == 'authentication database "a" is disabled'
    pooler = poolers.Pooler(query_ini(cluster, db, more="auth_dbname = pgbouncer\n"), ONLY_ASKER)
    pooler.spawn()
    assert pooler.wait_exit() == 1
    assert 'cannot use the reserved "pgbouncer" database as an auth_dbname' in pooler.log()
    pooler.stop()
    pooler.remove()


def test_the_console_finds_its_users_in_auth_dbname(cluster, db):
    more = "auth_dbname = t\nstats_users = u_scram\n"
    with poolers.running(query_ini(cluster, db, more=more), ONLY_ASKER) as pooler:
        with pooler.connect("pgbouncer", "u_scram", password=PASSWORDS["u_scram"]) as connection:
            assert poolers.query(connection, "SHOW VERSION")
        with pytest.raises(psycopg2.OperationalError):
            with pooler.connect("pgbouncer", "u_scram", password="wrong"):
                pass


def test_settings_of_clients_do_not_reach_the_query(cluster, db):
    """Neither those of the client that logs in, nor those that others of auth_user's pool have left on a server."""
    cluster.primary.execute(
        "CREATE SCHEMA evil; CREATE TABLE evil.accounts (name text, secret text); INSERT INTO evil.accounts VALUES ('other', 'evil');"
        "CREATE TABLE public.accounts (name text, secret text); INSERT INTO public.accounts VALUES ('other', 'good')", db)
    more = "auth_query = SELECT name, secret FROM accounts WHERE name = $1\ndefault_pool_size = 1\n"
    with poolers.running(query_ini(cluster, db, "plain", more=more), '"postgres" "asker"\n"admin" ""\n') as pooler:
        with pooler.connect("t", "postgres", password="asker") as asker:
            poolers.query(asker, "SET search_path = evil, public")
            assert poolers.query(asker, "SELECT secret FROM accounts") == [("evil",)]
            assert attempt(pooler, "t", "other", "good") == OK
        with Wire(pooler.port) as client:
            assert client.login("other", "t", "good", search_path="evil,public").kinds[-1] == "Z"


def test_a_replica_is_asked_while_the_primary_is_down(cluster, db):
    cluster.wait_caught_up()
    replica = cluster.replicas[0]
    ini = (f"[databases]\nt = host={HOST} port={free_port()} replica_host={HOST}:{replica.port} dbname={db}\n"
           + settings_with("scram-sha-256", "auth_user = postgres\n"))
    with poolers.running(ini, ONLY_ASKER) as pooler:
        with Wire(pooler.port) as client:
            assert client.login("u_scram", "t", PASSWORDS["u_scram"]).kinds[-1] == "Z"
        assert outcome(attempt(pooler, "t", "u_scram", "wrong")) == REFUSED


def test_what_was_found_is_kept_for_as_long_as_was_asked(cluster, db, secrets):
    query = "auth_query = SELECT name, secret FROM secrets WHERE form = 'plain' AND name = $1 /* {marker} */\n"
    for ttl, marker in ((0, "asked each time"), (60, "asked once")):
        position = cluster.primary.log_position()
        more = query.replace("{marker}", marker) + f"auth_query_cache_ttl = {ttl}\n"
        with poolers.running(query_ini(cluster, db, "plain", more=more), ONLY_ASKER) as pooler:
            for _ in range(3):
                assert attempt(pooler, "t", "other", "other secret") == OK
            times = cluster.primary.times_run(marker, position)
            assert times == 1 if ttl else times == 3
            # Nobody is refused twice for what was kept, and a failure is never kept.
            cluster.primary.execute("UPDATE secrets SET secret = 'new secret' WHERE name = 'other' AND form = 'plain'", db)
            try:
                if ttl:
                    assert outcome(attempt(pooler, "t", "other", "new secret")) == REFUSED
                assert attempt(pooler, "t", "other", "new secret") == OK
            finally:
                cluster.primary.execute("UPDATE secrets SET secret = 'other secret' WHERE name = 'other' AND form = 'plain'", db)
            cluster.primary.execute("DELETE FROM secrets WHERE name = 'late'", db)
            assert outcome(attempt(pooler, "t", "late", "x")) == REFUSED
            cluster.primary.execute("INSERT INTO secrets VALUES ('late', 'plain', 'x')", db)
            assert outcome(attempt(pooler, "t", "late", "x")) != REFUSED     # by the server, which has no such role
            cluster.primary.execute("DELETE FROM secrets WHERE name = 'late'", db)


# ---------------------------------------------------------------------------------------- HBA

def hba_ini(cluster, db: str, more: str = "") -> str:
    return (f"[databases]\nt = host={HOST} port={cluster.primary.port} dbname={db}\nx = host={HOST} port={cluster.primary.port} dbname={db}\n"
            + settings_with("hba", "auth_hba_file = {folder}/hba\n" + more))


def test_rules_decide_by_database_user_and_address(cluster, db):
    hba = "host t app 127.0.0.1/32 reject\nhost t @names 127.0.0.0 255.0.0.0 trust\nhost x all ::/0 trust\n"
    files = {"hba": hba, "names": "app other\n"}
    with poolers.running(hba_ini(cluster, db), poolers.USERLIST, files) as pooler:
        assert attempt(pooler, "t", "app", None) == "login rejected"
        assert attempt(pooler, "t", "other", None) == OK
        assert attempt(pooler, "x", "other", None) == "no authentication method is found"
        assert attempt(pooler, "t", "stranger", None) == "no authentication method is found"


def test_physical_replication_needs_a_rule_of_its_own(cluster, db):
    """`all` does not hold it; the refusal is in PostgreSQL's words."""
    files = {"hba": "host all other 127.0.0.1/32 trust\nhost replication app 127.0.0.1/32 trust\nlocal all all trust\n"}
    words = 'no pg_hba.conf entry for replication connection from host "{}", user "{}", no encryption'
    with poolers.running(hba_ini(cluster, db), poolers.USERLIST, files) as pooler:
        for folder, host in ((None, HOST), (str(pooler.folder), "[local]")):
            with Wire(pooler.port, folder) as client:
                error = client.login("other", "t", replication="true").errors[0]
            assert (error["S"], error["C"], error["M"]) == ("FATAL", "28000", words.format(host, "other"))
            pooler.wait_log("closing because: " + words.format(host, "other"))
        with Wire(pooler.port) as client:       # has its rule, and no such privilege on the server
            assert "pg_hba.conf" not in client.login("app", "t", replication="true").errors[0]["M"]
        with Wire(pooler.port) as client:       # logical: a login to its database
            assert "pg_hba.conf" not in client.login("other", "t", replication="database").errors[0]["M"]
        with psycopg2.connect(host=HOST, port=pooler.port, dbname="t", user="other") as connection:
            assert poolers.query(connection, "SELECT 1") == [(1,)]
        connection.close()


def test_a_bad_file_keeps_the_old_rules(cluster, db):
    with poolers.running(hba_ini(cluster, db), poolers.USERLIST, {"hba": "host all all 127.0.0.1/32 trust\n"}) as pooler:
        assert attempt(pooler, "t", "app", None) == OK
        pooler.write("hba", "host all all 127.0.0.1/32 reject\nhost all all all majic\n")
        with pytest.raises(psycopg2.Error):
            pooler.console("RELOAD")
        pooler.wait_log('hba:2: method "majic": expected trust')
        assert attempt(pooler, "t", "app", None) == OK
        pooler.write("hba", "host pgbouncer all 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 reject\n")
        pooler.console("RELOAD")
        assert attempt(pooler, "t", "app", None) == "login rejected"
    pooler = poolers.Pooler(hba_ini(cluster, db), poolers.USERLIST, {"hba": "nonsense\n"})
    pooler.spawn()
    assert pooler.wait_exit() == 1
    assert 'hba:1: connection type "nonsense"' in pooler.log()
    pooler.stop()
    pooler.remove()


def test_members_of_a_role_are_known_from_the_server(cluster, db):
    cluster.primary.execute("DROP ROLE IF EXISTS staff, leads; CREATE ROLE staff; CREATE ROLE leads; GRANT staff TO leads; GRANT leads TO other")
    try:
        hba = "host all postgres 127.0.0.1/32 trust\nhost all +staff 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 reject\n"
        with poolers.running(hba_ini(cluster, db, "auth_user = postgres\n"), poolers.USERLIST, {"hba": hba}) as pooler:
            assert attempt(pooler, "t", "other", None) == OK
            assert attempt(pooler, "t", "app", None) == "login rejected"
            cluster.primary.execute("REVOKE leads FROM other; GRANT staff TO app")
            assert attempt(pooler, "t", "other", None) == "login rejected"
            assert attempt(pooler, "t", "app", None) == OK
    finally:
        cluster.primary.execute("DROP ROLE staff; DROP ROLE leads")


def test_peers_of_a_unix_socket_are_who_the_system_says(cluster, db):
    """The tests connect as whoever runs them."""
    account = pwd.getpwuid(os.getuid()).pw_name
    ident = f"m {account} other\nn /^(.).*$ \\1pp\n"
    hba = "local t all peer map=m\nlocal x all peer\nhost all all all trust\n"
    with poolers.running(hba_ini(cluster, db, "auth_ident_file = {folder}/ident\n"), poolers.USERLIST, {"hba": hba, "ident": ident}) as pooler:
        def by_socket(database: str, user: str) -> wire.Answer:
            with Wire(pooler.port, str(pooler.folder)) as client:
                return client.login(user, database)
        assert by_socket("t", "other").kinds[-1] == "Z"
        assert by_socket("t", "app").errors[0]["M"] == "unix socket login rejected"
        pooler.wait_log("ident map: m does not have a match")
        assert by_socket("x", "app").errors[0]["M"] == "unix socket login rejected"
        pooler.write("ident", f"m {account} all\n")
        pooler.console("RELOAD")
        assert by_socket("t", "app").kinds[-1] == "Z"


# ---------------------------------------------------------------------------------------- what stays secret

def test_no_secret_is_ever_shown(cluster, db, secrets):
    """Not in the log at its most talkative, not on the console, not in an error."""
    ldap = 'auth_ldap_options = ldapserver=127.0.0.1 ldapbasedn="dc=x" ldapbindpasswd="ldap bind secret"\n'
    more = "verbose = 3\nmonitor_password = monitor secret\n" + ldap
    ini = query_ini(cluster, db, "md5", "", more).replace("[databases]\n", f"[databases]\nforced = host={HOST} port={cluster.primary.port} "
                                                         f"dbname={db} user=u_scram password='wrong forced secret'\n")
    users = '"admin" "admin secret"\n"u_plain" "plain secret"\n"postgres" ""\n' + '"broken line secret\n' + '"other" broken other secret\n'
    words = ["admin secret", "plain secret", "md5 secret", "scram secret", "ldap bind secret", "monitor secret", "wrong forced secret", "typed secret",
             "broken line secret", "broken other secret", *(value for value in secrets.values())]
    with poolers.running(ini, users) as pooler:
        said = [attempt(pooler, "t", user, PASSWORDS[user]) for user in ("u_plain", "u_md5", "u_scram")]
        assert said == [OK] * 3
        said += [attempt(pooler, "t", user, "typed secret") for user in ("u_plain", "u_md5", "u_scram", "nobody_here")]
        said.append(attempt(pooler, "forced", "u_plain", PASSWORDS["u_plain"]))
        shown = []
        for what in ("CONFIG", "DATABASES", "USERS", "CLIENTS", "SERVERS", "POOLS", "SOCKETS", "STATS", "LISTS"):
            shown += [str(value) for row in console(pooler, f"SHOW {what}") for value in row]
        console(pooler, "RELOAD")
        everything = "\n".join([*said, *shown, pooler.log()])
        assert "userlist.txt:" in everything        # the broken lines were complained about
        assert [word for word in words if word in everything] == []


# ---------------------------------------------------------------------------------------- PAM

PAM_JUDGE = """
[ "$PAM_USER" = other ] && [ "$PAM_RHOST" = 127.0.0.1 ] || exit 1
case "$password" in
  "pam secret") exit 0 ;;
  slow) while [ ! -e {folder}/go ]; do sleep 0.05; done; exit 0 ;;
  endless) touch {folder}/began; while [ -e {folder}/log ]; do sleep 0.05; done; exit 0 ;;
  *) exit 3 ;;
esac
"""


def test_pam_judges_the_password_and_nobody_waits_for_it(cluster, db):
    ini = (f"[databases]\nt = host={HOST} port={cluster.primary.port} dbname={db}\n"
           + settings_with("pam", "auth_pam_confdir = {folder}\n"))
    pooler = poolers.Pooler(ini, "")
    try:
        pam_service.write_service(pooler, PAM_JUDGE)
        pooler.start()
        assert attempt(pooler, "t", "other", "pam secret") == OK
        assert attempt(pooler, "t", "other", "wrong") == "PAM authentication failed"
        pooler.wait_log("pam_authenticate() failed: ")
        assert attempt(pooler, "t", "app", "pam secret") == "PAM authentication failed"
        slow = Wire(pooler.port)
        slow.send(wire.startup("other", "t"))
        assert slow.receive()[0] == "R"
        slow.send(wire.message("p", wire.text("slow")))
        left = Wire(pooler.port)                                    # leaves while it is being judged
        left.send(wire.startup("other", "t"))
        assert left.receive()[0] == "R"
        left.send(wire.message("p", wire.text("slow")))
        left.close()
        assert attempt(pooler, "t", "other", "pam secret") == OK    # while the other one waits
        pooler.write("go", "")
        assert slow.receive() == ("R", b"\0\0\0\0")
        slow.close()
        assert "pam secret" not in pooler.log()
        stuck = Wire(pooler.port)                                   # nor does the end of the process wait for it
        stuck.send(wire.startup("other", "t"))
        assert stuck.receive()[0] == "R"
        stuck.send(wire.message("p", wire.text("endless")))
        wait_for("it is being judged", lambda: (pooler.folder / "began").exists())
        assert pooler.stop() == 0, pooler.log_tail()
        assert "process down" in pooler.log()
    finally:
        pooler.stop()
        pooler.remove()


# ---------------------------------------------------------------------------------------- what is left in memory

def memory_of(process_id: int) -> bytes:
    """All that the process may write to, as a core dump would show it; but for what a sanitizer reserves, terabytes of it."""
    found = []
    with open(f"/proc/{process_id}/maps") as maps, open(f"/proc/{process_id}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if "w" in rights and "[v" not in line:
                first, end = (int(part, 16) for part in span.split("-"))
                if end - first < 1 << 30:
                    memory.seek(first)
                    found.append(memory.read(end - first))
    return b"\0".join(found)


def test_what_clients_typed_and_servers_told_is_not_left_in_memory(cluster, db, secrets):
    """But for what is kept on purpose: the password with which a pool logs in to its servers."""
    lines = "".join(f"{name} = host={HOST} port={cluster.primary.port} dbname={db} user=other\n" for name in ("plain", "md5", "scram"))
    hba = "host plain all all password\nhost md5 all all md5\nhost scram all all scram-sha-256\nlocal all all trust\n"
    query = "auth_query = SELECT name, secret FROM secrets WHERE form = 'scram' AND name = $1\n"
    settings = settings_with("hba", "auth_hba_file = {folder}/hba\nauth_user = postgres\nauth_dbname = asked\n" + query)
    with poolers.running(f"[databases]\nasked = host={HOST} port={cluster.primary.port} dbname={db}\n{lines}{settings}", '"postgres" ""\n', {"hba": hba}) as pooler:
        # Long ones lie behind what later messages would overwrite.
        logins = [("plain", "u_scram", PASSWORDS["u_scram"]), ("plain", "u_scram", "one " * 1000), ("plain", "nobody_here", "two " * 1000), ("md5", "u_plain", PASSWORDS["u_plain"]), ("scram", "u_md5", PASSWORDS["u_md5"])]
        for database, user, password in logins:
            with Wire(pooler.port) as client:
                client.login(user, database, password)
        with Wire(pooler.port) as client:               # in pieces, which are kept until the rest has come
            client.send(wire.startup("u_scram", "plain"))
            assert client.receive()[0] == "R"
            typed = wire.message("p", wire.text("three " * 1000))
            client.send(typed[:5000])
            wait_for("the first piece is read", lambda: memory_of(pooler.process.pid).count(b"three " * 100) > 0)
            client.send(typed[5000:])
            assert client.until_closed().errors
        # The text of a stored secret, without the prefix that all have.
        told = [secrets[user, "scram"].split("$")[2] for user in ("u_scram", "u_plain", "u_md5")]
        with Wire(pooler.port, str(pooler.folder)) as client:
            assert client.login("postgres", "asked").kinds[-1] == "Z"

            def left() -> list[str]:
                client.query("SELECT 1")
                memory = memory_of(pooler.process.pid)
                assert b"auth_hba_file" in memory       # we do look at the right thing
                typed = [password[-100:] for _, _, password in logins] + ["three " * 15]
                return [text for text in typed + told if text.encode() in memory]
            try:
                wait_for("those who have left are buried", lambda: not left(), 10)
            except TimeoutError:
                assert left() == []
