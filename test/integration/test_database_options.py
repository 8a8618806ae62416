"""What the options of a line of [databases], and settings that the kernel or PostgreSQL see, do with a real server."""
from __future__ import annotations

import grp
import os
import pathlib
import socket
import stat
import threading

import pytest

import pooler as poolers
from cluster import HOST, free_port, wait_for
from wire import connected


def show(client, name: str) -> str:
    return client.query(f"SHOW {name}").rows[0][0]


def pooler_for(cluster, line: str, settings: str = ""):
    ini = f"[databases]\nt = {line}\n{poolers.GLOBAL_LINES}\npool_mode = transaction\n{settings}\n"
    return poolers.running(ini)


def at(cluster, db: str, options: str = "") -> str:
    return f"host={HOST} port={cluster.primary.port} dbname={db} {options}"


def test_startup_parameters_of_the_line_reach_postgresql(cluster, db):
    options = "client_encoding=LATIN1 datestyle='SQL, DMY' timezone=Asia/Tokyo application_name='from the pool'"
    with pooler_for(cluster, at(cluster, db, options)) as pooler, connected(pooler.port) as client:
        assert show(client, "client_encoding") == "LATIN1"
        assert show(client, "datestyle") == "SQL, DMY"
        assert show(client, "timezone") == "Asia/Tokyo"
        assert show(client, "application_name") == "from the pool"
    with pooler_for(cluster, at(cluster, db, options)) as pooler, \
            connected(pooler.port, client_encoding="UTF8", TimeZone="UTC") as client:
        assert (show(client, "client_encoding"), show(client, "timezone")) == ("UTF8", "UTC")     # the client's own count
        assert show(client, "datestyle") == "SQL, DMY"


def test_connect_query_runs_once_on_each_server(cluster, db):
    cluster.primary.execute("CREATE TABLE greetings (pid int); GRANT ALL ON greetings TO PUBLIC", db)
    query = "insert into greetings values (pg_backend_pid())"
    with pooler_for(cluster, at(cluster, db, f"pool_size=1 connect_query='{query}'")) as pooler:
        for _ in range(3):
            with connected(pooler.port) as client:
                pid = client.query("SELECT pg_backend_pid()").rows[0][0]
        assert cluster.primary.rows("SELECT pid::text FROM greetings", db) == [(pid,)]


def test_a_connect_query_that_fails_is_logged_and_ignored(cluster, db):
    with pooler_for(cluster, at(cluster, db, "connect_query='select 1/0'")) as pooler, connected(pooler.port) as client:
        assert client.query("SELECT 1").rows == [("1",)]
        pooler.wait_log("connect_query failed: division by zero")


@pytest.mark.parametrize("how", ["round-robin", "disable"])
def test_a_host_that_is_not_there_is_passed_over(cluster, db, how):
    # One port for all hosts: on 127.0.0.2 nobody listens there.
    line = f"host=127.0.0.2,{HOST} port={cluster.primary.port} dbname={db} load_balance_hosts={how}"
    with pooler_for(cluster, line) as pooler:
        for _ in range(3):
            with connected(pooler.port) as client:
                assert client.query("SELECT 1").rows == [("1",)]
        [row] = [row for row in pooler.console("SHOW DATABASES") if row["name"] == "t"]
        assert (row["host"], row["load_balance_hosts"]) == (f"127.0.0.2,{HOST}", how)


class UnixRelay:
    """A Unix socket that leads to a TCP port; `path` may be abstract, with a NUL in front."""

    def __init__(self, path: str, port: int) -> None:
        self.port, self.accepted = port, 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        if not path.startswith("\0"):
            os.chmod(path, 0o777)
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            outer = socket.create_connection((HOST, self.port))
            for source, target in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.mark.parametrize("kind", ["folder", "abstract", "unix_socket_dir"])
def test_a_server_behind_a_unix_socket(cluster, db, kind, tmp_path):
    port = free_port()
    folder = f"@pgweir-test-{port}"
    if kind != "abstract":
        os.chmod(tmp_path, 0o777)
        for parent in tmp_path.parents:          # pytest's own folders are private
            if str(parent).startswith("/tmp/"):
                os.chmod(parent, 0o755)
        folder = str(tmp_path)
    relay = UnixRelay(f"{folder}/.s.PGSQL.{port}".replace("@", "\0", 1), cluster.primary.port)
    try:
        line, settings = f"host={folder} port={port} dbname={db}", ""
        if kind == "unix_socket_dir":
            line, settings = f"port={port} dbname={db}", f"unix_socket_dir = {folder}"
        with pooler_for(cluster, line, settings) as pooler, connected(pooler.port) as client:
            assert client.query("SELECT 1").rows == [("1",)]
            assert relay.accepted >= 1
    finally:
        relay.close()


def test_the_pooler_listens_on_an_abstract_socket(cluster, db):
    name = f"pgweir-test-{free_port()}"
    with pooler_for(cluster, at(cluster, db), f"unix_socket_dir = @{name}") as pooler:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\0{name}/.s.PGSQL.{pooler.port}")
            client.sendall(bytes.fromhex("0000000804d2162f"))       # SSLRequest: no TLS on a Unix socket
            assert client.recv(1) == b"N"


def test_the_unix_socket_has_the_rights_and_the_group_that_were_asked_for(cluster, db):
    with pooler_for(cluster, at(cluster, db), "unix_socket_mode = 0710") as pooler:
        path = pooler.folder / f".s.PGSQL.{pooler.port}"
        wait_for("the socket", path.exists)
        assert stat.S_IMODE(path.stat().st_mode) == 0o710
        rows = {row["key"]: row["value"] for row in pooler.console("SHOW CONFIG")}
        assert rows["unix_socket_mode"] == str(0o710)
        group = grp.getgrgid(path.stat().st_gid).gr_name
    with pooler_for(cluster, at(cluster, db), f"unix_socket_group = {group}\nunix_socket_mode = 0x1e8") as pooler:
        path = pooler.folder / f".s.PGSQL.{pooler.port}"
        wait_for("the socket", path.exists)
        found = path.stat()
        assert (grp.getgrgid(found.st_gid).gr_name, stat.S_IMODE(found.st_mode)) == (group, 0o750)


def test_tracked_parameters_follow_their_client(cluster, db):
    # IntervalStyle is tracked by default; every parameter that PostgreSQL reports can be added.
    settings = "track_extra_parameters = IntervalStyle, default_transaction_read_only"
    with pooler_for(cluster, at(cluster, db, "pool_size=1"), settings) as pooler, \
            connected(pooler.port, IntervalStyle="iso_8601") as one, connected(pooler.port) as two:
        assert show(one, "intervalstyle") == "iso_8601"
        assert show(two, "intervalstyle") == "postgres"
        one.query("SET default_transaction_read_only = on")
        assert show(two, "default_transaction_read_only") == "off"
        assert show(one, "default_transaction_read_only") == "on"
        assert show(one, "intervalstyle") == "iso_8601"


def test_a_line_that_loses_its_options_gives_servers_without_them(cluster, db):
    with pooler_for(cluster, at(cluster, db, "timezone=Asia/Tokyo")) as pooler, connected(pooler.port) as client:
        assert show(client, "timezone") == "Asia/Tokyo"
        pooler.write_ini(f"[databases]\nt = {at(cluster, db, 'timezone=Europe/Oslo')}\n{poolers.GLOBAL_LINES}\npool_mode = transaction\n")
        pooler.console("RELOAD")
        with connected(pooler.port) as other:
            assert show(other, "timezone") == "Europe/Oslo"


def test_a_file_can_be_tried_beside_the_one_that_runs(cluster, db):
    """As docs/migrating-from-pgbouncer.md says: the same file with a few lines behind it."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "migrating-from-pgbouncer.md").read_text()
    [lines] = [line.split("'")[1] for line in page.splitlines() if line.strip().startswith("printf '[pgbouncer]")]
    ini = f"[databases]\nt = {at(cluster, db)}\n{poolers.GLOBAL_LINES}\npidfile = {{folder}}/pid\nlogfile = {{folder}}/own.log\n"
    with poolers.running(ini) as pooler:
        wait_for("its pidfile", (pooler.folder / "pid").exists)
        pid = (pooler.folder / "pid").read_text()
        behind = lines.replace("\\n", "\n").replace("6433", "{port}")
        with poolers.running(ini.replace("{folder}", str(pooler.folder)) + behind) as trial:
            assert "process up" in trial.log() and trial.port != pooler.port
            assert trial.console("SHOW DATABASES")
            assert pooler.alive() and (pooler.folder / "pid").read_text() == pid
        assert (pooler.folder / "pid").read_text() == pid
