"""Clients that come through a proxy: rules, console and log see where they really are, and nobody can say so for himself."""
from __future__ import annotations

import os
import socket
import subprocess
from contextlib import contextmanager

import psycopg2
import pytest

import pooler as poolers
import wire
from certificates import Certificates
from cluster import HOST, clean_environment, free_port, run_as, wait_for
from tcp_proxy import TcpProxy
from test_auth import settings_with
from test_tls import TlsWire, tls_context, towards_clients
from wire import Wire

TRUSTED = "proxy_protocol_networks = 127.0.0.0/8\n"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LINE = b"PROXY TCP4 192.0.2.7 127.0.0.1 56324 6432\r\n"
BINARY = SIGNATURE + b"\x21\x11\0\x0c" + bytes([192, 0, 2, 7, 127, 0, 0, 1]) + (56324).to_bytes(2, "big") + (6432).to_bytes(2, "big")
BINARY_V6 = (SIGNATURE + b"\x21\x21\0\x24" + bytes.fromhex("20010db8000000000000000000000005") + bytes(15) + b"\1"
             + (80).to_bytes(2, "big") + (6432).to_bytes(2, "big"))
HBA = "local all all trust\nhost all all 192.0.2.7/32 trust\nhost all all 2001:db8::/32 trust\nhost all all 127.0.0.1/32 reject\n"


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    made.issue("server", "localhost", "DNS:localhost,IP:127.0.0.1")
    yield made
    made.remove()


def ini(cluster, dbname: str, more: str = "") -> str:
    return (f"[databases]\nt = host={HOST} port={cluster.primary.port} dbname={dbname}\n"
            + settings_with("hba", "auth_hba_file = {folder}/hba\n" + more))


def console(pooler, command: str) -> list[dict]:
    """Over the Unix socket: no proxy stands there."""
    connection = psycopg2.connect(host=str(pooler.folder), port=pooler.port, dbname="pgbouncer", user="admin")
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(command)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]
    finally:
        connection.close()


@contextmanager
def started(cluster, db, more: str = TRUSTED, hba: str = HBA):
    """`running`, but its port is only listened at: who connects there has to be a proxy."""
    pooler = poolers.Pooler(ini(cluster, db, more), poolers.USERLIST, {"hba": hba})
    try:
        pooler.spawn()
        pooler.wait_log(f"listening on {HOST}:{pooler.port}")
        yield pooler
    except BaseException:
        print(pooler.log_tail())
        raise
    finally:
        status = pooler.stop()
        pooler.remove()
    assert status == 0


@pytest.mark.parametrize("header, host, port", [(LINE, "192.0.2.7", 56324), (BINARY, "192.0.2.7", 56324), (BINARY_V6, "2001:db8::5", 80)],
                         ids=["version 1", "version 2", "version 2 with IPv6"])
def test_drivers_behind_a_proxy_are_where_it_says(cluster, db, header, host, port):
    with started(cluster, db) as pooler, TcpProxy(pooler.port) as proxy:
        proxy.preamble = header
        client = psycopg2.connect(host=HOST, port=proxy.port, dbname="t", user="app", connect_timeout=30)
        with client.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert [(row["addr"], row["port"]) for row in console(pooler, "SHOW CLIENTS") if row["database"] == "t"] == [(host, port)]
            cursor.execute("SET statement_timeout = 0")
        client.close()
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        pooler.wait_log(f"t/app@{shown} login attempt: db=t user=app tls=no replication=no proxy=127.0.0.1")
        pooler.wait_log(f"t/app@{shown} closing because: client close request")
        # The proxy for itself is refused by the rules, which know its own address.
        for own in (b"PROXY UNKNOWN\r\n", SIGNATURE + b"\x20\0\0\0"):
            with Wire(pooler.port) as check:
                check.send(own)
                assert check.login().errors[0]["M"] == "login rejected"


def test_a_header_may_come_in_pieces_and_nobody_waits_for_the_rest(cluster, db):
    with started(cluster, db, TRUSTED + "client_login_timeout = 2\n") as pooler:
        half = Wire(pooler.port)
        half.send(LINE[:20])
        with Wire(pooler.port) as slow:
            for byte in BINARY:
                slow.send(bytes([byte]))
            assert slow.login().kinds[-1] == "Z"
        with Wire(pooler.port) as gone:
            gone.send(BINARY[:14])
        answer = half.until_closed()
        assert answer.errors[0]["M"] == "client_login_timeout"
        half.close()


def test_what_is_no_header_is_told_and_closed(cluster, db):
    expected = "invalid PROXY protocol header: expected one, as the connection comes from proxy_protocol_networks"
    cases = [(wire.startup("app", "t"), expected), (wire.request(80877103), expected), (b"\x16\x03\x01\x02\0\x01", expected), (b"GET / HTTP/1.0\r\n\r\n", expected),
             (b"PROXY TCP4 " + b"1" * 200, "invalid PROXY protocol header: its line does not end"),
             (b"PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n", "invalid PROXY protocol header: an address or port in it is none"),
             (SIGNATURE + b"\x21\x11\xff\xff", "invalid PROXY protocol header: it is too long"),
             (SIGNATURE + b"\x31\x11\0\x0c", "invalid PROXY protocol header: expected version 1 or 2")]
    with started(cluster, db) as pooler:
        for said, told in cases:
            with Wire(pooler.port) as client:
                client.send(said)
                errors = client.until_closed().errors
                assert [(error["S"], error["C"], error["M"]) for error in errors] == [("FATAL", "08P01", told)]
                own = client.socket.getsockname()[1]
            pooler.wait_log(f"(nodb)/(nouser)@127.0.0.1:{own} closing because: {told}")


def test_nobody_else_can_say_where_he_comes_from(cluster, db):
    with started(cluster, db, "proxy_protocol_networks = 192.0.2.0/24\n") as pooler:
        for header in (LINE, BINARY):
            with Wire(pooler.port) as client:
                client.send(header + wire.startup("app", "t"))
                assert client.until_closed().errors[0]["M"].startswith("invalid length of startup packet: ")
        with Wire(pooler.port) as client:
            assert client.login().errors[0]["M"] == "login rejected"


def test_the_header_stands_before_tls(cluster, db, certificates):
    hba = HBA.replace("host all all 192", "hostssl all all 192")
    with started(cluster, db, TRUSTED + towards_clients(certificates, "allow"), hba) as pooler, TcpProxy(pooler.port) as proxy:
        proxy.preamble = BINARY
        for direct in (False, True):
            with TlsWire(proxy.port, tls_context(certificates), direct=direct) as client:
                assert client.login().kinds[-1] == "Z"
                assert [row["addr"] for row in console(pooler, "SHOW CLIENTS") if row["tls"]] == ["192.0.2.7"]
        pooler.wait_log("@192.0.2.7:56324 SSL established: TLSv1.3/")
        with Wire(proxy.port) as plain:
            assert plain.login().errors[0]["M"] == "no authentication method is found"
        with Wire(pooler.port) as late:        # within TLS it is nobody's word
            late.send(wire.request(80877103))
            assert late.until_closed().errors[0]["M"].startswith("invalid PROXY protocol header")


def test_a_cancel_request_comes_through_the_proxy_too(cluster, db):
    with started(cluster, db) as pooler, TcpProxy(pooler.port) as proxy:
        proxy.preamble = LINE
        with wire.connected(proxy.port) as client:
            client.send(wire.simple("SELECT pg_sleep(60)"))
            wait_for("the query runs", lambda: cluster.primary.value("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'") == 1)
            wire.send_cancel(proxy.port, client.key)
            assert client.until("Z").sqlstates == ["57014"]


HAPROXY = """
global
  log stderr local0
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:{port}
  default_backend pgweir
backend pgweir
  server one 127.0.0.1:{target} {how} check inter 100ms rise 1
"""


@pytest.mark.parametrize("how", ["send-proxy", "send-proxy-v2"])
def test_haproxy_is_understood(cluster, db, how):
    """Its health checks too, which speak for the proxy itself and are no clients."""
    hba = HBA.replace("127.0.0.1/32 reject", "127.0.0.0/8 trust")
    with started(cluster, db, TRUSTED, hba) as pooler:
        port = free_port()
        configuration = pooler.write("haproxy.cfg", HAPROXY.format(port=port, target=pooler.port, how=how))
        haproxy = subprocess.Popen(["haproxy", "-db", "-f", str(configuration)], cwd=pooler.folder, env=clean_environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **run_as())
        try:
            def answers() -> bool:
                try:
                    psycopg2.connect(host=HOST, port=port, dbname="t", user="app", connect_timeout=30).close()
                    return True
                except psycopg2.OperationalError:
                    assert haproxy.poll() is None
                    return False
            wait_for("haproxy answers", answers)
            client = psycopg2.connect(host=HOST, port=port, dbname="t", user="app", connect_timeout=30)
            with client.cursor() as cursor:
                cursor.execute("SELECT 1")
                assert cursor.fetchone() == (1,)
            with socket.socket(fileno=os.dup(client.fileno())) as same:
                port_of_client = same.getsockname()[1]
            assert [(row["addr"], row["port"]) for row in console(pooler, "SHOW CLIENTS") if row["database"] == "t"] == [(HOST, port_of_client)]
            client.close()
            assert "invalid PROXY" not in pooler.log()
        finally:
            haproxy.terminate()
            haproxy.wait()
