"""Encryption on both sides: who gets in, what is refused and with which words, and that nobody else notices."""
from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import ssl
import threading
import time

import psycopg2
import psycopg2.errors
import pytest

import pooler as poolers
import wire
from certificates import Certificates
from cluster import HOST, Cluster, give_away, wait_for
from pooler import query
from wire import Wire

SSL_REQUEST = 80877103


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    made.issue("server", "localhost", "DNS:localhost,IP:127.0.0.1")
    made.issue("anna", "anna")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def tls_cluster(cluster, certificates):
    """The nodes with TLS on; as they were afterwards."""
    use_certificate(cluster, certificates, "server")
    for node in cluster.nodes:
        node.set("ssl", "on")
    yield cluster
    for node in cluster.nodes:
        for name in ("ssl", "ssl_cert_file", "ssl_key_file"):
            node.set(name, None)


def use_certificate(cluster: Cluster, certificates: Certificates, name: str) -> None:
    for node in cluster.nodes:
        node.execute(f"ALTER SYSTEM SET ssl_key_file = '{certificates.key(name)}'")
        node.set("ssl_cert_file", str(certificates.crt(name)))


def ini(cluster: Cluster, dbname: str, settings: str, databases: str = "", split: bool = False) -> str:
    return poolers.ini_for(cluster, dbname, settings=settings, more_databases=databases, split=split)


def towards_clients(certificates: Certificates, mode: str, name: str = "server", ca: bool = False) -> str:
    lines = f"client_tls_sslmode = {mode}\nclient_tls_cert_file = {certificates.crt(name)}\nclient_tls_key_file = {certificates.key(name)}\n"
    return lines + (f"client_tls_ca_file = {certificates.crt('ca')}\n" if ca else "")


def readable(certificates: Certificates) -> dict[str, str]:
    """The test itself runs as another user than the poolers: what libpq needs to log in as anna."""
    return {"sslcert": str(certificates.crt("anna")), "sslkey": str(certificates.key("anna"))}


@contextlib.contextmanager
def own_key(certificates: Certificates, name: str):
    """libpq takes a key of its own user or of root only."""
    owner = os.stat(certificates.key(name))
    os.chown(certificates.key(name), os.geteuid(), os.getegid())
    try:
        yield
    finally:
        os.chown(certificates.key(name), owner.st_uid, owner.st_gid)


# ---------------------------------------------------------------------------------------- clients


def tls_context(certificates: Certificates, alpn: str | None = "postgresql") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.crt("ca")))
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


def ask_for_tls(port: int) -> socket.socket:
    raw = socket.create_connection((HOST, port), timeout=30)
    raw.sendall(wire.request(SSL_REQUEST))
    assert raw.recv(1) == b"S"
    return raw


class TlsWire(Wire):
    """A Wire whose socket is encrypted; `direct` begins with the handshake."""

    def __init__(self, port: int, context: ssl.SSLContext, name: str = "localhost", direct: bool = False) -> None:
        self.deadline_s = 30.0
        raw = socket.create_connection((HOST, port), timeout=30) if direct else ask_for_tls(port)
        self.socket = context.wrap_socket(raw, server_hostname=name)
        self._kept = b""
        self.parameters: dict[str, str] = {}
        self.key = None


# What a client of the mode (column) gets from the pooler's mode (row): plain, tls, or the words of a refusal.
CLIENT_TABLE = {
    #               disable          prefer    require                        verify-full
    "disable":     ("plain",         "plain",  "does not support SSL",        "does not support SSL"),
    "allow":       ("plain",         "tls",    "tls",                         "tls"),
    "prefer":      ("plain",         "tls",    "tls",                         "tls"),
    "require":     ("SSL required",  "tls",    "tls",                         "tls"),
    "verify-ca":   ("SSL required",  "certificate required", "certificate required",  "certificate required"),
    "verify-full": ("SSL required",  "certificate required", "certificate required",  "certificate required"),
}


def outcome(pooler, **more: object) -> str:
    try:
        with pooler.connect(**more) as connection:
            assert query(connection, "SELECT 1") == [(1,)]
            return "tls" if connection.info.ssl_in_use else "plain"
    except psycopg2.OperationalError as error:
        return str(error)


@pytest.mark.parametrize("mode", list(CLIENT_TABLE))
def test_each_mode_of_the_pooler_with_each_of_the_client(tls_cluster, db, certificates, mode):
    settings = towards_clients(certificates, mode, ca=mode.startswith("verify"))
    no_files = {"sslcert": "/nonexistent", "sslkey": "/nonexistent"}
    with poolers.running(ini(tls_cluster, db, settings)) as pooler:
        for client_mode, expected in zip(("disable", "prefer", "require", "verify-full"), CLIENT_TABLE[mode]):
            got = outcome(pooler, sslmode=client_mode, sslrootcert=str(certificates.crt("ca")), **no_files)
            assert expected in got, (mode, client_mode, got)
        # Over the Unix socket there is no encryption, and none is asked for.
        with Wire(pooler.port, str(pooler.folder)) as client:
            client.send(wire.request(SSL_REQUEST))
            assert client.take(1) == b"N"
            assert client.login("app", "t").kinds[-1] == "Z"


def test_a_client_certificate_opens_verify_ca(tls_cluster, db, certificates):
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "verify-full", ca=True))) as pooler:
        with own_key(certificates, "anna"):
            assert outcome(pooler, sslmode="require", **readable(certificates)) == "tls"


BAD_CLIENTS = {"expired-client": "certificate has expired", "foreign-client": "unable to get local issuer certificate"}


def test_bad_certificates_of_clients_are_refused_by_name_and_disturb_nobody(tls_cluster, db, certificates):
    certificates.issue("expired-client", "anna", days=-1)
    certificates.issue("foreign-client", "anna", by="other-ca")
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "verify-ca", ca=True))) as pooler, own_key(certificates, "anna"):
        with pooler.connect(sslmode="require", **readable(certificates)) as good:
            for name in BAD_CLIENTS:
                with own_key(certificates, name):
                    got = outcome(pooler, sslmode="require", sslcert=str(certificates.crt(name)), sslkey=str(certificates.key(name)))
                assert "alert" in got or "closed" in got or "reset" in got, (name, got)
                pooler.wait_log(f"closing because: TLS handshake failed: certificate verify failed: {BAD_CLIENTS[name]}")
                assert query(good, "SELECT 1") == [(1,)]
            # A certificate whose key is another.
            with pytest.raises(psycopg2.OperationalError):
                with own_key(certificates, "foreign-client"), pooler.connect(sslmode="require", sslcert=str(certificates.crt("anna")),
                                                                             sslkey=str(certificates.key("foreign-client"))):
                    pass
            assert query(good, "SELECT 1") == [(1,)]
            assert outcome(pooler, sslmode="require", **readable(certificates)) == "tls"


def test_sessions_of_clients_are_resumed_until_the_certificate_is_another(tls_cluster, db, certificates):
    first, second = certificates.issue("ticket-1", "localhost", "DNS:localhost"), certificates.issue("ticket-2", "localhost", "DNS:localhost")
    with poolers.running(ini(tls_cluster, db, "")) as pooler:
        def install(name: str) -> None:
            pooler.write("own.crt", certificates.crt(name).read_bytes())
            pooler.write("own.key", certificates.key(name).read_bytes())
        install(first)
        pooler.write_ini(ini(tls_cluster, db, "client_tls_sslmode = require\nclient_tls_cert_file = {folder}/own.crt\nclient_tls_key_file = {folder}/own.key\n"))
        pooler.console("RELOAD")
        context = tls_context(certificates)

        def log_in(session: ssl.SSLSession | None) -> tuple[bool, ssl.SSLSession]:
            with contextlib.closing(context.wrap_socket(ask_for_tls(pooler.port), server_hostname="localhost", session=session)) as connection:
                connection.sendall(wire.startup("app", "t"))
                while b"Z" not in connection.recv(65536):       # tickets come with what is read
                    pass
                return connection.session_reused, connection.session
        reused, session = log_in(None)
        assert not reused
        reused, session = log_in(session)
        assert reused
        pooler.wait_log("sni=localhost resumed")
        install(second)
        pooler.signal(signal.SIGHUP)
        wait_for("the new certificate is shown", lambda: presented(pooler, certificates) == certificates.serial(second))
        reused, _ = log_in(session)
        assert not reused


def test_what_is_logged_and_shown_of_an_encrypted_client(tls_cluster, db, certificates):
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "prefer"))) as pooler:
        with TlsWire(pooler.port, tls_context(certificates)) as client:
            assert client.login("app", "t").kinds[-1] == "Z"
            version, cipher = client.socket.version(), client.socket.cipher()[0]
            pooler.wait_log(f"SSL established: {version}/{cipher} sni=localhost")
            pooler.wait_log(f"login attempt: db=t user=app tls={version}/{cipher} replication=no")
            rows = [row for row in pooler.console("SHOW CLIENTS") if row["user"] == "app"]
            assert [row["tls"] for row in rows] == [f"{version}/{cipher}"]
            servers = pooler.console("SHOW SERVERS")
            assert servers and all(row["tls"].startswith("TLSv1.") for row in servers)


def test_direct_tls_names_its_protocol(tls_cluster, db, certificates):
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "require"))) as pooler:
        with TlsWire(pooler.port, tls_context(certificates), direct=True) as client:
            assert client.socket.selected_alpn_protocol() == "postgresql"
            assert client.login("app", "t").kinds[-1] == "Z"
            assert client.query("SELECT 7").rows == [("7",)]
        for alpn in (None, "http/1.1"):
            with pytest.raises((ssl.SSLError, OSError, wire.Closed)):
                with TlsWire(pooler.port, tls_context(certificates, alpn), direct=True) as client:
                    client.login("app", "t")
        pooler.wait_log("a direct TLS connection has to name the protocol postgresql (ALPN)")
        pooler.wait_log("TLS handshake failed: no application protocol")


def test_bytes_that_were_put_behind_the_ssl_request_are_refused(tls_cluster, db, certificates):
    """Whoever sits on the wire could have a query of his run with the client's rights."""
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "prefer"))) as pooler:
        with Wire(pooler.port) as client:
            client.send(wire.request(SSL_REQUEST) + wire.startup("app", "t"))
            answer = client.until_closed()
            assert answer.kinds == "E" and answer.errors[0]["M"] == "received unencrypted data after SSL request"
        assert "login attempt" not in pooler.log()
        # In a packet of their own they become part of the handshake, and end it.
        with contextlib.closing(ask_for_tls(pooler.port)) as raw:
            raw.sendall(wire.startup("app", "t"))
            assert b"app" not in raw.recv(1000)
        pooler.wait_log("TLS handshake failed: ")
        # Over an encrypted connection there is nothing left to ask for.
        with TlsWire(pooler.port, tls_context(certificates)) as client:
            client.send(wire.request(SSL_REQUEST))
            assert client.until_closed().errors[0]["M"] == "SSL request on an encrypted connection"


def test_half_handshakes_end_at_the_login_timeout_and_disturb_nobody(tls_cluster, db, certificates):
    settings = towards_clients(certificates, "prefer") + "client_login_timeout = 1\n"
    hello = ssl.MemoryBIO()
    half = tls_context(certificates).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    first_flight = hello.read()
    with poolers.running(ini(tls_cluster, db, settings)) as pooler:
        with TlsWire(pooler.port, tls_context(certificates)) as other:
            assert other.login("app", "t").kinds[-1] == "Z"
            waiting = []
            for cut in (0, 1, 5, 100, len(first_flight)):
                raw = ask_for_tls(pooler.port)
                raw.sendall(first_flight[:cut])
                waiting.append(raw)
            leaving = ask_for_tls(pooler.port)
            leaving.sendall(first_flight[:50])
            leaving.close()
            pooler.wait_log("TLS handshake broken off: ")
            for raw in waiting:
                while raw.recv(65536):          # until the pooler hangs up
                    pass
                raw.close()
            wait_for("all timed out", lambda: pooler.log().count("client_login_timeout") >= len(waiting))
            for _ in range(20):
                assert other.query("SELECT 1").rows == [("1",)]
        rubbish = ask_for_tls(pooler.port)
        rubbish.sendall(b"\x16\x03\x01" + os.urandom(300))
        while rubbish.recv(65536):
            pass
        rubbish.close()
        # Without a word, and with one: neither is an error.
        raw = TlsWire(pooler.port, tls_context(certificates))
        raw.login("app", "t")
        raw.reset()
        polite = TlsWire(pooler.port, tls_context(certificates))
        polite.login("app", "t")
        with contextlib.suppress(ssl.SSLError, OSError):
            polite.socket.unwrap()
        polite.close()
        wait_for("all are gone", lambda: not [row for row in pooler.console("SHOW CLIENTS") if row["user"] == "app"])
        assert "unexpected eof while reading" not in pooler.log()


def test_plain_cancel_requests_are_taken_where_tls_is_required(tls_cluster, db, certificates):
    """libpq before 17 sends them so; and towards the server they are encrypted like everything else."""
    settings = towards_clients(certificates, "require") + f"server_tls_sslmode = verify-full\nserver_tls_ca_file = {certificates.crt('ca')}\n"
    with poolers.running(ini(tls_cluster, db, settings)) as pooler:
        with Wire(pooler.port) as plain:
            assert plain.login("app", "t").errors[0]["M"] == "SSL required"
        with pooler.connect(sslmode="require") as connection:
            def cancel() -> None:
                wait_for("it sleeps", lambda: tls_cluster.primary.value(
                    f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{db}' AND query LIKE '%pg_sleep(60)%' AND state = 'active'"))
                connection.cancel()
            helper = threading.Thread(target=cancel)
            helper.start()
            with pytest.raises(psycopg2.errors.QueryCanceled):
                query(connection, "SELECT pg_sleep(60)")
            helper.join()
            assert query(connection, "SELECT 1") == [(1,)]


def test_much_data_passes_unchanged(tls_cluster, db, certificates):
    """Up and down, through both encryptions, while the reader takes his time."""
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "require") + "server_tls_sslmode = require\n")) as pooler:
        with pooler.connect(sslmode="require") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT string_agg(md5(i::text), '' ORDER BY i) FROM generate_series(1, 100000) i")
            text = cursor.fetchone()[0]
            assert hashlib.md5(text.encode()).hexdigest() == hashlib.md5(
                "".join(hashlib.md5(str(i).encode()).hexdigest() for i in range(1, 100001)).encode()).hexdigest()
            cursor.execute("SELECT md5(%s)", (text,))
            assert cursor.fetchone()[0] == hashlib.md5(text.encode()).hexdigest()
        with TlsWire(pooler.port, tls_context(certificates)) as slow:
            assert slow.login("app", "t").kinds[-1] == "Z"
            slow.send(wire.simple("SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i"))
            wait_for("the server waits for the reader", lambda: tls_cluster.primary.value(
                f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{db}' AND wait_event = 'ClientWrite'"))
            assert pooler.rows("SELECT 1", sslmode="require") == [(1,)]
            rows = slow.until("Z").rows
            assert [int(row[0]) for row in rows] == list(range(1, 20001))


# ---------------------------------------------------------------------------------------- reload

def presented(pooler, certificates) -> str:
    context = tls_context(certificates)
    with contextlib.closing(context.wrap_socket(ask_for_tls(pooler.port), server_hostname="localhost")) as connection:
        return connection.getpeercert()["serialNumber"]


def test_certificates_are_renewed_without_dropping_anybody(tls_cluster, db, certificates):
    first, second = certificates.issue("first"), certificates.issue("second")
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "require"))) as pooler:
        def install(name: str, also_key: bool = True) -> None:
            pooler.write("own.crt", certificates.crt(name).read_bytes())
            if also_key:
                pooler.write("own.key", certificates.key(name).read_bytes())
        install(first)
        pooler.write_ini(ini(tls_cluster, db, "client_tls_sslmode = require\nclient_tls_cert_file = {folder}/own.crt\nclient_tls_key_file = {folder}/own.key\n"))
        with pooler.connect(sslmode="require") as old:
            reload_over_tls(pooler)
            assert presented(pooler, certificates) == certificates.serial(first)
            install(second)
            pooler.signal(signal.SIGHUP)
            wait_for("the new certificate is shown", lambda: presented(pooler, certificates) == certificates.serial(second))
            assert query(old, "SELECT 1") == [(1,)]

            # One half of a pair alone can't be used; neither can a file that is not there.
            install(first, also_key=False)
            with pytest.raises(psycopg2.DatabaseError):
                reload_over_tls(pooler)
            pooler.wait_log(f"reload failed, the old configuration stays: TLS setup failed: client_tls_key_file = \"{pooler.folder}/own.key\": "
                            f"the key is not the one of the certificate in {pooler.folder}/own.crt")
            assert presented(pooler, certificates) == certificates.serial(second)
            (pooler.folder / "own.crt").unlink()
            pooler.signal(signal.SIGHUP)
            pooler.wait_log(f"TLS setup failed: client_tls_cert_file = \"{pooler.folder}/own.crt\": No such file or directory")
            assert presented(pooler, certificates) == certificates.serial(second)
            assert query(old, "SELECT 1") == [(1,)]
            assert "PRIVATE KEY" not in pooler.log()

            # The mode, too: from now on nobody is asked for more, and who is in stays.
            install(first)
            pooler.write_ini(ini(tls_cluster, db, "client_tls_sslmode = disable\n"))
            reload_over_tls(pooler)
            assert outcome(pooler, sslmode="prefer") == "plain"
            assert query(old, "SELECT 1") == [(1,)]


def reload_over_tls(pooler) -> None:
    with pooler.connect("pgbouncer", "admin", sslmode="prefer") as console:
        query(console, "RELOAD")


def test_a_bad_file_at_the_start_is_the_end(tls_cluster, db, certificates):
    pooler = poolers.Pooler(ini(tls_cluster, db, towards_clients(certificates, "require") + "client_tls_cert_file = /no/such.crt\n"), poolers.USERLIST)
    try:
        pooler.spawn()
        assert pooler.wait_exit() == 1
        assert "FATAL TLS setup failed: client_tls_cert_file = \"/no/such.crt\": No such file or directory" in pooler.log()
    finally:
        pooler.stop()
        pooler.remove()


def test_set_on_the_console_is_checked_like_a_file(tls_cluster, db, certificates):
    with poolers.running(ini(tls_cluster, db, "server_tls_sslmode = disable\n")) as pooler:
        with pytest.raises(psycopg2.DatabaseError):
            pooler.console("SET client_tls_sslmode = 'require'")     # there is no certificate
        pooler.wait_log("SET client_tls_sslmode failed: TLS setup failed: client_tls_cert_file")
        assert outcome(pooler, sslmode="prefer") == "plain"
        pooler.console("SET server_tls_sslmode = 'require'")
        assert pooler.value("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") is True


# ---------------------------------------------------------------------------------------- servers

VERIFY_FAILED = "certificate verify failed: "
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# What a server with the certificate (row) is to a database of the mode (column): plain, tls, or why not.
SERVER_TABLE = {
    "good":       ("plain", "tls", "tls", "tls", "tls", "tls"),
    "expired":    ("plain", "tls", "tls", "tls", VERIFY_FAILED + "certificate has expired", VERIFY_FAILED + "certificate has expired"),
    "wrong-host": ("plain", "tls", "tls", "tls", "tls", "does not match host name \"127.0.0.1\""),
    "wrong-ca":   ("plain", "tls", "tls", "tls", VERIFY_FAILED + "unable to get local issuer certificate",
                   VERIFY_FAILED + "unable to get local issuer certificate"),
    "off":        ("plain", "plain", "plain", "server refused SSL", "server refused SSL", "server refused SSL"),
}


@pytest.fixture(scope="module")
def server_certificates(certificates):
    certificates.issue("good", "x", "IP:127.0.0.1")
    certificates.issue("expired", "x", "IP:127.0.0.1", days=-1)
    certificates.issue("wrong-host", "db.example.com", "DNS:db.example.com")
    certificates.issue("wrong-ca", "x", "IP:127.0.0.1", by="other-ca")
    return certificates


@pytest.mark.parametrize("certificate", list(SERVER_TABLE))
def test_each_mode_towards_each_server(tls_cluster, db, server_certificates, certificate):
    """The modes stand on the database lines: each database has its own."""
    port = tls_cluster.primary.port
    lines = "".join(f"{mode} = host={HOST} port={port} dbname={db} server_tls_sslmode={mode} server_tls_ca_file={server_certificates.crt('ca')}\n"
                    for mode in MODES)
    if certificate == "off":
        tls_cluster.primary.set("ssl", "off")
    else:
        use_certificate(tls_cluster, server_certificates, certificate)
    try:
        with poolers.running(ini(tls_cluster, db, "client_login_timeout = 10\nserver_tls_sslmode = disable\n", lines)) as pooler:
            for mode, expected in zip(MODES, SERVER_TABLE[certificate]):
                try:
                    encrypted = pooler.value("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", dbname=mode)
                    got = "tls" if encrypted else "plain"
                except psycopg2.OperationalError as error:
                    got = str(error)
                    pooler.wait_log(expected)
                assert expected in got, (certificate, mode, got)
            assert "unexpected eof while reading" not in pooler.log()
    finally:
        if certificate == "off":
            tls_cluster.primary.set("ssl", "on")
        use_certificate(tls_cluster, server_certificates, "server")


def test_what_is_offered_to_servers_is_as_configured(tls_cluster, db):
    cells = {"server_tls_protocols = tlsv1.2\nserver_tls_ciphers = ECDHE-ECDSA-AES256-GCM-SHA384\n": ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
             "server_tls_protocols = tlsv1.2\nserver_tls_ciphers = ECDHE-ECDSA-AES128-GCM-SHA256\n": ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
             "server_tls_protocols = tlsv1.3\nserver_tls13_ciphers = TLS_AES_128_GCM_SHA256\n": ("TLSv1.3", "TLS_AES_128_GCM_SHA256"),
             "server_tls13_ciphers = TLS_CHACHA20_POLY1305_SHA256\n": ("TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256")}
    for settings, expected in cells.items():
        with poolers.running(ini(tls_cluster, db, "server_tls_sslmode = require\n" + settings)) as pooler:
            assert pooler.rows("SELECT version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [expected], settings
            shown = {row["tls"] for row in pooler.console("SHOW SERVERS") if row["database"] == "t"}
            assert all(part in "".join(shown) for part in expected), shown


def test_what_is_offered_to_clients_is_as_configured(tls_cluster, db, certificates):
    for settings, version, cipher in (("client_tls_protocols = tlsv1.2\nclient_tls_ciphers = ECDHE-ECDSA-AES256-GCM-SHA384\n", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
                                      ("client_tls_protocols = tlsv1.3\nclient_tls13_ciphers = TLS_CHACHA20_POLY1305_SHA256\n", "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256")):
        with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "require") + settings)) as pooler:
            with TlsWire(pooler.port, tls_context(certificates)) as client:
                assert (client.socket.version(), client.socket.cipher()[0]) == (version, cipher)


def test_the_certificate_of_the_pooler_opens_the_server(tls_cluster, db, certificates):
    """`cert` in pg_hba.conf: the certificate is the login; the monitor's connections show it as well."""
    hba = tls_cluster.primary.data / "pg_hba.conf"
    before = hba.read_text()
    primary = tls_cluster.primary
    options = f"server_tls_sslmode=verify-full server_tls_ca_file={certificates.crt('ca')} " \
              f"server_tls_cert_file={certificates.crt('anna')} server_tls_key_file={certificates.key('anna')}"
    primary.execute("DROP ROLE IF EXISTS anna")
    primary.execute("CREATE ROLE anna LOGIN")
    primary.set("ssl_ca_file", str(certificates.crt("ca")))
    hba.write_text("hostssl all anna 127.0.0.1/32 cert\nhost all anna 127.0.0.1/32 reject\n" + before)
    give_away(hba)
    primary.reload()
    try:
        with poolers.running(poolers.ini_for(tls_cluster, db, options, split=False), poolers.USERLIST + '"anna" ""\n') as pooler:
            assert pooler.value("SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()", user="anna") == "/CN=anna"
    finally:
        hba.write_text(before)
        give_away(hba)
        primary.set("ssl_ca_file", None)
        primary.execute("DROP ROLE IF EXISTS anna")


def test_monitors_and_replicas_are_encrypted_too(tls_cluster, db, certificates):
    settings = f"server_tls_sslmode = verify-full\nserver_tls_ca_file = {certificates.crt('ca')}\n"
    with poolers.for_cluster(tls_cluster, db, settings=settings) as pooler:
        assert {row["tls"].split("/")[0] for row in pooler.console("SHOW SERVERS")} == {"TLSv1.3"}
        for node in tls_cluster.nodes:
            rows = node.rows("SELECT DISTINCT s.ssl, s.version FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
                             "WHERE a.application_name = 'pgweir monitor'")
            assert rows == [(True, "TLSv1.3")], (node.name, rows)


def test_servers_are_replaced_when_their_encryption_changes(tls_cluster, db, certificates):
    with poolers.running(ini(tls_cluster, db, "server_tls_sslmode = disable\npool_mode = transaction\n")) as pooler:
        with pooler.connect() as connection:
            first = query(connection, "SELECT pg_backend_pid()")
            pooler.console("RELOAD")
            assert query(connection, "SELECT pg_backend_pid()") == first
            pooler.write_ini(ini(tls_cluster, db, "server_tls_sslmode = require\npool_mode = transaction\n"))
            pooler.console("RELOAD")
            assert query(connection, "SELECT ssl, pid <> %d FROM pg_stat_ssl WHERE pid = pg_backend_pid()" % first[0][0]) == [(True, True)]


# ---------------------------------------------------------------------------------------- servers that lie

class Liar:
    """Takes connections, reads an SSLRequest and answers with `answer`."""

    def __init__(self, answer: bytes, then_close: bool = True) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.answer, self.then_close = answer, then_close
        self.heard: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(20)
                with contextlib.suppress(OSError):
                    self.heard.append(connection.recv(8))
                    connection.sendall(self.answer)
                    if not self.then_close:
                        while data := connection.recv(65536):
                            self.heard.append(data)

    def close(self) -> None:
        self.listener.close()


@pytest.mark.parametrize("mode, answer, words", [
    ("prefer", b"SR\0\0\0\x08\0\0\0\0", "received unencrypted data after SSL response"),
    ("require", b"SR\0\0\0\x08\0\0\0\0", "received unencrypted data after SSL response"),
    ("prefer", b"E", "server sent an error instead of an answer to the SSL request"),
    ("require", b"N", "server refused SSL"),
    ("prefer", b"?", "server sent an invalid answer to the SSL request"),
    ("prefer", b"", "after the SSL request: connection closed by the peer"),
    ("require", b"S", "TLS handshake broken off"),  # by a FIN or, as it has not read our hello, a reset
])
def test_a_server_that_answers_the_ssl_request_oddly_is_not_believed(mode, answer, words):
    liar = Liar(answer)
    text = f"[databases]\nt = host={HOST} port={liar.port}\n{poolers.GLOBAL_LINES}server_tls_sslmode = {mode}\nclient_login_timeout = 5\n"
    try:
        with poolers.running(text) as pooler:
            with pytest.raises(psycopg2.OperationalError, match=words.split(":")[0]):
                pooler.rows("SELECT 1")
            pooler.wait_log(f"closing because: {words}")
            assert liar.heard[0] == wire.request(SSL_REQUEST)
            assert "unexpected eof while reading" not in pooler.log()
    finally:
        liar.close()


def test_a_server_that_stops_in_the_handshake_costs_the_connect_timeout(tls_cluster, db):
    liar = Liar(b"S", then_close=False)
    text = ini(tls_cluster, db, "server_tls_sslmode = require\nserver_connect_timeout = 1\nclient_login_timeout = 5\n",
               f"stuck = host={HOST} port={liar.port}\n")
    try:
        with poolers.running(text) as pooler:
            began = time.monotonic()
            with pytest.raises(psycopg2.OperationalError):
                pooler.rows("SELECT 1", dbname="stuck")
            assert time.monotonic() - began < 30
            pooler.wait_log("closing because: connect timeout")
            assert pooler.rows("SELECT 1") == [(1,)]
    finally:
        liar.close()


def test_a_pooler_in_front_of_a_pooler_speaks_direct_tls_and_resumes(tls_cluster, db, certificates):
    """PostgreSQL 15 has neither, the inner pooler has both."""
    with poolers.running(ini(tls_cluster, db, towards_clients(certificates, "require"))) as inner:
        outer_text = (f"[databases]\nt = host=localhost port={inner.port} server_tls_sslnegotiation=direct server_tls_sslmode=verify-full "
                      f"server_tls_ca_file={certificates.crt('ca')}\n{poolers.GLOBAL_LINES}pool_mode = transaction\n")
        with poolers.running(outer_text) as outer:
            for _ in range(3):
                assert outer.rows("SELECT 1") == [(1,)]
                outer.console("RECONNECT")
            established = [line for line in inner.log().splitlines() if "SSL established: TLSv1.3/" in line]
            assert len(established) >= 2 and "sni=localhost" in established[0]
            # The first of its servers had no session to take up; whoever came later had.
            assert not established[0].endswith(" resumed") and established[-1].endswith(" resumed"), established
