"""Whatever a client sends, it harms itself alone: an error, a log line, and the others go on."""
from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import threading

import pytest

import pooler as poolers
import wire
from cluster import HOST, clean_environment, run_as, wait_for
from wire import SYNC, Closed, Wire, bind, connected, execute, message, parse, request, run, simple, startup


@pytest.fixture(scope="module")
def weir(cluster, db):
    cluster.primary.execute("CREATE TABLE things (n int); GRANT ALL ON things TO PUBLIC; INSERT INTO things VALUES (1)", db)
    cluster.wait_caught_up()
    with poolers.for_cluster(cluster, db, "pool_size=3", "max_client_conn = 500\nclient_login_timeout = 20\nmax_packet_size = 20000000"
                             ) as pooler:
        yield pooler


@pytest.fixture(autouse=True)
def others_are_unaffected(weir):
    """Around each test: a client in a transaction and one outside go on as if nothing had happened."""
    with connected(weir.port) as idle, connected(weir.port) as busy:
        busy.query("BEGIN")
        pid = busy.query("SELECT pg_backend_pid()").rows
        yield
        assert idle.query("SELECT count(*) FROM things WHERE n = 1").rows == [("1",)]
        assert busy.query("SELECT pg_backend_pid()").rows == pid
        assert not busy.query("COMMIT").errors
        assert weir.alive()


def first_error(client: Wire) -> dict[str, str]:
    answer = client.until_closed()
    return answer.errors[0] if answer.errors else {}


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 64, b"\xff" * 64, struct.pack("!II", 8, 196608), struct.pack("!II", 4, 0), struct.pack("!I", 0),
    struct.pack("!II", 1 << 30, 196608), struct.pack("!II", 16, 80877102) + b"12", struct.pack("!II", 9, 196608) + b"u",
    struct.pack("!II", 12, 196608) + b"user", struct.pack("!II", 13, 196608) + b"user\0", startup().replace(b"app\0", b"app\1"),
    request(wire.SSL_REQUEST, b"more"), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 64,
], ids=range(14))
def test_garbage_instead_of_a_startup_packet(weir, data):
    with Wire(weir.port) as client:
        client.send(data)
        client.socket.shutdown(socket.SHUT_WR)
        client.until_closed_bytes = b""
        try:
            while client.socket.recv(65536):
                pass
        except OSError:
            pass


def test_startup_without_a_user(weir):
    with Wire(weir.port) as client:
        body = struct.pack("!I", wire.PROTOCOL_3_0) + b"database\0t\0\0"
        client.send(struct.pack("!I", len(body) + 4) + body)
        error = first_error(client)
        assert error["S"] == "FATAL" and error["C"] in ("28000", "08P01")


def test_startup_one_byte_at_a_time_and_cut_anywhere(weir):
    packet = startup()
    with Wire(weir.port) as client:
        for byte in packet:
            client.send(bytes([byte]))
        assert client.until("Z").kinds[-1] == "Z"
    for cut in range(1, len(packet), 5):
        with Wire(weir.port) as client:
            client.send(packet[:cut])
            client.reset()


@pytest.mark.parametrize("data", [
    message("?"), message("z", b"what"), b"Q" + struct.pack("!I", 3), b"Q" + struct.pack("!I", 0x7fffffff), b"P" + struct.pack("!i", -5),
    message("Q", b"no terminator"), message("P", b"name"), message("B", b"\0"), message("D", b"X\0"), message("C", b"?x\0"),
    message("E", b"portal"), message("F", b"\1"), b"\0" * 32, b"\xff" * 300,
], ids=range(14))
def test_broken_messages_after_login(weir, data):
    with connected(weir.port) as client:
        client.send(data, SYNC)
        client.socket.shutdown(socket.SHUT_WR)
        answer = client.until_closed()
        for error in answer.errors:
            assert error["C"] in ("08P01", "22021", "54000", "42601", "22P03", "34000", "26000"), error
    with connected(weir.port) as client:
        assert client.query("SELECT 'fine'").rows == [("fine",)]


def test_a_packet_over_the_limit_is_refused(weir):
    with connected(weir.port) as client:
        client.send(b"Q" + struct.pack("!I", 20_000_100))
        error = first_error(client)
        assert error["S"] == "FATAL" and error["C"] in ("08P01", "54000")


def test_random_bytes_after_login(weir):
    chance = random.Random(4)
    for _ in range(40):
        with connected(weir.port) as client:
            try:
                client.send(bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400))))
                client.socket.shutdown(socket.SHUT_WR)
                client.until_closed()
            except (OSError, Closed, struct.error, IndexError):
                pass


VANISHING = {
    "after a query": lambda c: c.send(simple("SELECT pg_sleep(0.2)")),
    "after a read": lambda c: c.send(simple("SELECT count(*) FROM things, generate_series(1, 300000)")),
    "in a transaction": lambda c: c.query("BEGIN; INSERT INTO things VALUES (5)"),
    "in the middle of a message": lambda c: c.send(simple("SELECT 1")[:7]),
    "after a header": lambda c: c.send(b"Q" + struct.pack("!I", 5000) + b"SELECT"),
    "before the Sync": lambda c: c.send(run("SELECT 1")),
    "in the middle of a batch": lambda c: c.send(run("SELECT 1"), run("INSERT INTO things VALUES (5)"), parse("SELECT")[:4]),
    "in COPY IN": lambda c: (c.send(simple("COPY things FROM STDIN")), c.until("G"), c.send(message("d", b"5\n"))),
    "in COPY OUT": lambda c: (c.send(simple("COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT")), c.until("H")),
    "in a large answer": lambda c: (c.send(simple("SELECT repeat('x', 1000) FROM generate_series(1, 100000)")), c.until("T")),
    "after a Flush": lambda c: (c.send(parse("SELECT 1"), wire.describe("S", ""), wire.FLUSH), c.until("T")),
    "with a pipeline": lambda c: c.send(*[simple(f"SELECT {n}") for n in range(50)]),
    "with a write pipeline": lambda c: c.send(*[simple("INSERT INTO things SELECT 5 WHERE false") for n in range(20)]),
}


@pytest.mark.parametrize("when", list(VANISHING))
@pytest.mark.parametrize("how", ["reset", "close"])
def test_clients_that_vanish(cluster, db, weir, when, how):
    for _ in range(3):
        client = connected(weir.port)
        VANISHING[when](client)
        getattr(client, how)()
    # More clients than servers: had one been lost, or left in a transaction, this would show.
    clients = [connected(weir.port) for _ in range(6)]
    for client in clients:
        client.send(simple("BEGIN; SELECT 'usable'; COMMIT"))
    for client in clients:
        answer = client.until("Z")
        assert answer.rows == [("usable",)] and answer.status == "I" and not answer.errors
        client.close()
    assert cluster.primary.value("SELECT count(*) FROM things WHERE n = 5", db) in (0, 5 * 0), "nothing of theirs was committed"


def test_a_slow_reader_stops_its_server_and_not_the_pooler(weir):
    """200 MB to a client that does not read: pgweir's memory must not grow by that."""
    def resident_kb() -> int:
        with open(f"/proc/{weir.process.pid}/status") as status:
            return int([line.split()[1] for line in status if line.startswith("VmRSS:")][0])
    before = resident_kb()
    with connected(weir.port) as client:
        client.send(simple("SELECT repeat('x', 10000) FROM generate_series(1, 20000)"))
        client.until("T")
        with connected(weir.port) as other:
            for _ in range(200):
                assert other.query("SELECT 1").rows == [("1",)]
        assert resident_kb() - before < 30_000
        assert client.until("Z").kinds.count("D") == 20000


def test_many_connections_that_say_nothing(weir):
    silent = [Wire(weir.port) for _ in range(200)]
    with connected(weir.port) as client:
        assert client.query("SELECT 1").rows == [("1",)]
    for client in silent:
        client.close()


def test_clients_of_all_kinds_at_once(weir):
    """Good and bad ones together for a moment; the good ones get their own answers in order."""
    failures: list[str] = []

    def good(number: int) -> None:
        try:
            with connected(weir.port) as client:
                for step in range(60):
                    client.send(simple(f"SELECT {number}, {step}"), run("SELECT $1::int", str(step)), SYNC)
                    if client.until("Z", 2).rows != [(str(number), str(step)), (str(step),)]:
                        failures.append(f"client {number}, step {step}")
        except Exception as error:      # noqa: BLE001 - told below
            failures.append(repr(error))

    def bad(number: int) -> None:
        chance = random.Random(number)
        for _ in range(12):
            client = connected(weir.port)
            VANISHING[chance.choice(list(VANISHING))](client)
            client.reset()
    threads = [threading.Thread(target=good if number % 2 else bad, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(80)
        assert not thread.is_alive(), "a standstill"
    assert not failures


# ---------------------------------------------------------------------------------------- configuration and command line

def run_program(*arguments: str, cwd: str = "/tmp") -> subprocess.CompletedProcess:
    return subprocess.run([str(poolers.binary()), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, cwd=cwd, env=clean_environment(), timeout=60, **run_as())


@pytest.mark.parametrize("ini, told", [
    ("[pgbouncer]\nlisten_port = 1x\n", "bad.ini:2: "),
    ("[pgbouncer]\nno_such = 1\n", "bad.ini:2: "),
    ("[nowhere]\nx = 1\n", "bad.ini:2: "),
    ("[databases]\nt = host=h port=ninety\n", "bad.ini:2: "),
    ("[databases]\nt = host=h nonsense=1\n", "bad.ini:2: "),
    ("[databases]\nt = host=h replica_host=h:99999\n", "bad.ini:2: "),
    ("[databases]\nt = host=\n", "bad.ini:2: "),
    ("[pgbouncer]\nthis is no line\n", "bad.ini:2: "),
    ("[pgbouncer\n", "bad.ini:1: "),
    ("listen_port = 1\n", "bad.ini:1: "),
    ("%include nowhere.ini\n", "bad.ini:1: "),
    ("%include bad.ini\n", "bad.ini:1: "),
])
def test_a_wrong_file_stops_the_start_and_says_where(weir, ini, told):
    path = weir.write("bad.ini", ini)
    done = run_program(str(path), cwd=str(weir.folder))
    assert done.returncode == 1
    assert told in done.stderr, done.stderr


def test_a_file_that_can_not_be_read(weir):
    done = run_program("/tmp/there is no such file.ini")
    assert done.returncode == 1 and "there is no such file.ini" in done.stderr
    done = run_program("/tmp")
    assert done.returncode == 1 and "/tmp" in done.stderr


def test_a_port_in_use_is_said(cluster, db, weir):
    ini = poolers.ini_for(cluster, db, split=False).replace("{port}", str(weir.port)).replace("unix_socket_dir = {folder}", "unix_socket_dir =")
    path = weir.write("same_port.ini", ini.replace("{folder}", str(weir.folder)))
    done = run_program(str(path))
    assert done.returncode == 1 and str(weir.port) in done.stderr


def test_a_bad_line_in_the_userlist_does_not_spoil_the_rest(cluster, db):
    userlist = '; comment\n"app" ""\nthis is nonsense\n"half\n"admin" ""\n' + '"long" "' + "x" * 65000 + '"\n"other" ""\n'
    with poolers.running(poolers.ini_for(cluster, db, split=False), userlist) as pooler:
        assert pooler.value("SELECT 1", user="other") == 1


def test_a_missing_userlist_is_no_end(cluster, db):
    ini = poolers.ini_for(cluster, db, split=False).replace("{folder}/userlist.txt", "{folder}/missing.txt").replace(
        "auth_type = trust", "auth_type = any").replace(f"dbname={db} ", f"dbname={db} user=app ")
    with poolers.running(ini) as pooler:
        assert pooler.value("SELECT 1") == 1


def test_root_is_refused(weir):
    if os.geteuid() != 0:
        return
    done = subprocess.run([str(poolers.binary()), str(weir.ini_path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, cwd="/tmp", timeout=60, env=clean_environment())
    assert done.returncode == 1 and "root" in done.stderr


def test_a_monitor_that_can_not_log_in_means_primary_and_one_line(cluster, db):
    ini = poolers.ini_for(cluster, db).replace("monitor_user = postgres", "monitor_user = u_scram\nmonitor_password = wrong")
    with poolers.running(ini) as pooler:
        with connected(pooler.port) as client:
            for n in range(20):
                assert client.query("SELECT count(*) FROM things WHERE n = 1").rows == [("1",)]
            wait_for("it is logged", lambda: "u_scram" in pooler.log() and "monitor" in pooler.log())
