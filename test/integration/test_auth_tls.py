"""Logins that rest on TLS: channel binding, certificates, and rules that tell encrypted connections from others."""
from __future__ import annotations

import socket

import psycopg2
import pytest

import pooler as poolers
from cluster import HOST, wait_for
from tcp_proxy import TcpProxy
from test_auth import OK, PASSWORDS, settings_with
from test_tls import certificates, own_key, tls_cluster, towards_clients    # noqa: F401: fixtures among them
from wire import scram_secret


def attempt(pooler, database: str, user: str, password: str | None = None, **more: object) -> str:
    parts = {"host": HOST, "port": pooler.port, "dbname": database, "user": user, "connect_timeout": 30, **more}
    try:
        connection = psycopg2.connect(password=password, **parts)
    except psycopg2.OperationalError as error:
        return str(error).split("FATAL:")[-1].strip()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return OK
    finally:
        connection.close()


@pytest.mark.parametrize("form", ["plain", "scram"])
def test_a_login_over_tls_is_bound_to_the_certificate(tls_cluster, db, certificates, form):  # noqa: F811
    """libpq insists on the binding; towards the server both sides offer it, and a wrong hash would end the login."""
    stored = tls_cluster.primary.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'u_scram'")
    users = f'"u_scram" "{PASSWORDS["u_scram"] if form == "plain" else stored}"\n"other" "{scram_secret("hush")}"\n"admin" ""\n'
    ini = (f"[databases]\nt = host={HOST} port={tls_cluster.primary.port} dbname={db}\n"
           + settings_with("scram-sha-256", towards_clients(certificates, "allow") + "server_tls_sslmode = require\n"))
    with poolers.running(ini, users) as pooler:
        assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"], sslmode="require", channel_binding="require") == OK
        assert attempt(pooler, "t", "u_scram", "wrong", sslmode="require", channel_binding="require") == "SASL authentication failed"
        assert attempt(pooler, "t", "other", "hush", sslmode="require", channel_binding="require") == OK
        assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"], sslmode="require", channel_binding="disable") == OK
        assert attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"], sslmode="disable") == OK
        assert "channel binding required" in attempt(pooler, "t", "u_scram", PASSWORDS["u_scram"], sslmode="disable",
                                                     channel_binding="require")


def test_a_certificate_is_whose_name_it_bears(tls_cluster, db, certificates):  # noqa: F811
    ini = (f"[databases]\nt = host={HOST} port={tls_cluster.primary.port} dbname={db} user=app\n"
           + settings_with("cert", towards_clients(certificates, "allow", ca=True)))
    with poolers.running(ini, '"anna" ""\n"other" ""\n') as pooler, own_key(certificates, "anna"):
        mine = {"sslmode": "require", "sslcert": str(certificates.crt("anna")), "sslkey": str(certificates.key("anna"))}
        assert attempt(pooler, "t", "anna", **mine) == OK
        for user, how in (("other", mine), ("stranger", mine), ("anna", {"sslmode": "require"}), ("anna", {"sslmode": "disable"})):
            assert attempt(pooler, "t", user, **how) == "certificate authentication failed"


def test_rules_tell_encrypted_connections_from_others(tls_cluster, db, certificates):  # noqa: F811
    lines = "".join(f"{name} = host={HOST} port={tls_cluster.primary.port} dbname={db} user=app\n" for name in ("t", "c", "m", "d"))
    hba = ("hostssl   t all   all trust\nhostnossl t other all trust\n"
           "hostssl   c all   all trust clientcert=verify-full\n"
           "hostssl   m all   all cert map=people\n"
           "hostssl   d all   all cert map=whole clientname=DN\n")
    ident = "people /^(.)nna$ \\1pp\nwhole CN=anna other\n"
    settings = settings_with("hba", "auth_hba_file = {folder}/hba\nauth_ident_file = {folder}/ident\n"
                             + towards_clients(certificates, "allow", ca=True))
    users = '"anna" ""\n"other" ""\n"app" ""\n'
    with poolers.running("[databases]\n" + lines + settings, users, {"hba": hba, "ident": ident}) as pooler, \
            own_key(certificates, "anna"):
        mine = {"sslmode": "require", "sslcert": str(certificates.crt("anna")), "sslkey": str(certificates.key("anna"))}
        bare, plain = {"sslmode": "require"}, {"sslmode": "disable"}
        none, failed = "no authentication method is found", "certificate authentication failed"
        table = [("t", "app", bare, OK), ("t", "app", plain, none), ("t", "other", plain, OK),
                 ("c", "anna", mine, OK), ("c", "other", mine, failed), ("c", "anna", bare, failed), ("c", "anna", plain, none),
                 ("m", "app", mine, OK), ("m", "anna", mine, failed), ("m", "app", bare, failed),
                 ("d", "other", mine, OK), ("d", "anna", mine, failed)]
        assert [(row[0], row[1], attempt(pooler, row[0], row[1], **row[2])) for row in table] == [(row[0], row[1], row[3]) for row in table]
        pooler.wait_log("ident map: people does not have a match")


def own_address() -> str:
    """An address of this machine that is not a loopback one: as far away as the pooler can tell."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))     # sends nothing, and chooses where it would come from
        except OSError:
            pytest.skip("this machine has no address but loopback ones")
        return probe.getsockname()[0]


@pytest.mark.parametrize("encrypted", [False, True])
def test_neither_clients_servers_nor_the_monitor_give_a_password_to_who_reads_along(tls_cluster, db, encrypted):  # noqa: F811
    """u_plain's servers ask for it in clear text, u_scram's don't. Over TLS all may have it, and with server_cleartext_password."""
    far = own_address()
    words = "asks for the password in clear text over a connection that is not encrypted"
    with TcpProxy(tls_cluster.primary.port, host=far) as proxy:
        def ini(user: str, more: str = "") -> str:
            line = f"t = host={far} port={proxy.port} replica_host={HOST}:{tls_cluster.replicas[0].port} dbname={db} user={user} password='{PASSWORDS[user]}'\n"
            mode = "prefer" if encrypted else "disable"
            return (f"[databases]\n{line}{poolers.GLOBAL_LINES}pool_mode = transaction\nserver_tls_sslmode = {mode}\nclient_login_timeout = 10\n"
                    f"monitor_user = {user}\nmonitor_password = {PASSWORDS[user]}\n{more}")

        def monitored(pooler) -> bool:
            rows = [row for row in pooler.console("SHOW NODES") if str(proxy.port) in row["node"]]
            return bool(rows) and rows[0]["role"] == "primary"
        for user, more, works in (("u_scram", "", True), ("u_plain", "", encrypted), ("u_plain", "server_cleartext_password = 1\n", True)):
            with poolers.running(ini(user, more)) as pooler:
                if works:
                    assert pooler.value("SELECT current_user") == user
                    wait_for("the monitor has asked it", lambda: monitored(pooler))
                    assert words not in pooler.log()
                else:
                    with pytest.raises(psycopg2.OperationalError, match="server login failed: the server " + words):
                        pooler.value("SELECT 1")
                    pooler.wait_log(f"the monitor can't log in to node {far}:{proxy.port} as \"{user}\": the server {far}:{proxy.port} {words}")
                assert PASSWORDS[user] not in pooler.log()
