"""Settings whose effect is seen from outside only: what the kernel and the nodes are asked for."""
from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct

import pooler as poolers
from cluster import HOST, wait_for
from pooler import Pooler, query
from wire import SYNC, bind, connected, execute, parse

_PIDFD_GETFD = 438                       # Linux 5.6, x86-64 and most others
TCP_INFO_UNACKED = 24                    # Of a listening socket, the field behind it is the backlog.
libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def sockets_of(pooler: Pooler):
    """Copies of all TCP sockets of the running pooler: who is its parent may have them."""
    pidfd = os.pidfd_open(pooler.process.pid)
    copies: list[socket.socket] = []
    try:
        for name in os.listdir(f"/proc/{pooler.process.pid}/fd"):
            fd = libc.syscall(_PIDFD_GETFD, pidfd, int(name), 0)
            if fd < 0:
                continue
            try:
                copy = socket.socket(fileno=fd)
            except OSError:
                os.close(fd)
                continue
            copies.append(copy)
        yield [copy for copy in copies if copy.family == socket.AF_INET and copy.type == socket.SOCK_STREAM]
    finally:
        for copy in copies:
            copy.close()
        os.close(pidfd)


def is_listening(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def test_tcp_settings_reach_the_sockets_of_both_sides(cluster, db):
    settings = ("tcp_keepalive = 1\ntcp_keepidle = 71\ntcp_keepintvl = 13\ntcp_keepcnt = 4\ntcp_user_timeout = 17000\n"
                "tcp_socket_buffer = 20000\nlisten_backlog = 37\ntcp_defer_accept = 0\n")
    ini = poolers.ini_for(cluster, db, settings=settings, split=False)
    with poolers.running(ini) as pooler, pooler.connect() as client:
        query(client, "SELECT 1")
        expected = {"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 71, "TCP_KEEPINTVL": 13, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 17000,
                    "SO_SNDBUF": 40000, "SO_RCVBUF": 40000}      # The kernel doubles the last two.
        seen = {"client": 0, "server": 0, "listener": 0}
        with sockets_of(pooler) as sockets:
            for one in sockets:
                if is_listening(one):
                    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
                    assert struct.unpack_from("I", info, TCP_INFO_UNACKED + 4)[0] == 37
                    assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) == 0
                    seen["listener"] += 1
                    continue
                found = {name: one.getsockopt(socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP, getattr(socket, name))
                         for name in expected}
                assert found == expected, one
                seen["client" if one.getsockname()[1] == pooler.port else "server"] += 1
        assert all(seen.values()), seen


def test_keepalive_and_deferred_accept_can_be_changed(cluster, db):
    ini = poolers.ini_for(cluster, db, settings="tcp_keepalive = 0\ntcp_defer_accept = 7\n", split=False)
    with poolers.running(ini) as pooler, pooler.connect() as client:
        query(client, "SELECT 1")
        with sockets_of(pooler) as sockets:
            for one in sockets:
                if is_listening(one):
                    assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) > 0
                else:
                    assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


def test_dns_settings_say_how_long_a_name_is_believed(cluster, db):
    lines = "gone = host=no-such-host.invalid\n"
    settings = "dns_max_ttl = 3000\ndns_nxdomain_ttl = 700\nclient_login_timeout = 5\n"
    ini = poolers.ini_for(cluster, db, settings=settings, split=False, more_databases=lines).replace(f"t = host={HOST}", "t = host=localhost")
    with poolers.running(ini) as pooler:
        assert pooler.value("SELECT 1") == 1
        with contextlib.suppress(Exception):
            pooler.value("SELECT 1", dbname="gone")
        hosts = {row["hostname"]: row for row in pooler.console("SHOW DNS_HOSTS")}
        assert HOST in hosts["localhost"]["addrs"].split(",") or "::1" in hosts["localhost"]["addrs"].split(",")
        assert 2900 < hosts["localhost"]["ttl"] <= 3000
        assert hosts["no-such-host.invalid"]["addrs"] == "" and 600 < hosts["no-such-host.invalid"]["ttl"] <= 700
        lists = {row["list"]: row["items"] for row in pooler.console("SHOW LISTS")}
        assert lists["dns_names"] == 2


def prepared_on_the_server(pooler: Pooler) -> int:
    return sum(row["prepared_statements"] for row in pooler.console("SHOW SERVERS") if row["database"] == "t")


def test_max_prepared_statements_bounds_what_a_server_keeps(cluster, db):
    ini = poolers.ini_for(cluster, db, settings="max_prepared_statements = 3\ndefault_pool_size = 1\n", split=False)
    with poolers.running(ini) as pooler, connected(pooler.port) as client:
        for n in range(8):
            client.send(parse(f"SELECT {n}", f"s{n}") + bind(name=f"s{n}") + execute() + SYNC)
            assert client.until("Z").rows == [(str(n),)]
        for n in range(8):                           # What went from the server comes back when it is used.
            client.send(bind(name=f"s{n}") + execute() + SYNC)
            assert client.until("Z").rows == [(str(n),)]
        # What a unit brings is more than that until the next one begins.
        assert prepared_on_the_server(pooler) <= 4
        assert int(client.query("SELECT count(*) FROM pg_prepared_statements").rows[0][0]) <= 4


def test_max_prepared_statements_0_passes_names_as_they_are(cluster, db):
    ini = poolers.ini_for(cluster, db, settings="max_prepared_statements = 0\ndefault_pool_size = 1\npool_mode = session\n", split=False)
    with poolers.running(ini) as pooler, connected(pooler.port) as client:
        client.send(parse("SELECT 1", "by this name") + SYNC)
        client.until("Z")
        assert client.query("SELECT name FROM pg_prepared_statements").rows == [("by this name",)]


def test_server_fast_close_ends_a_session_whose_server_is_to_go(cluster, db):
    for fast in (0, 1):
        ini = poolers.ini_for(cluster, db, settings=f"pool_mode = session\nserver_fast_close = {fast}\n", split=False)
        with poolers.running(ini) as pooler, connected(pooler.port) as client, connected(pooler.port) as busy:
            client.query("SELECT 1")
            busy.query("BEGIN")
            pooler.console("RECONNECT t")
            if fast:
                assert [error["M"] for error in client.until_closed().errors] == ["database configuration changed"]
            wait_for("the servers are to go", lambda: all(row["close_needed"] for row in pooler.console("SHOW SERVERS") if row["database"] == "t"))
            assert busy.query("SELECT 2").rows == [("2",)]       # A transaction is not interrupted.
            if fast:
                busy.query("COMMIT")
                busy.until_closed()
            else:
                assert client.query("SELECT 3").rows == [("3",)]
