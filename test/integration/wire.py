"""PostgreSQL's protocol, message by message, for tests that a driver would be too polite for."""
from __future__ import annotations

import base64
import hashlib
import hmac
import os
import select
import socket
import struct
import time

from cluster import HOST

PROTOCOL_3_0 = 196608
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104


class Closed(Exception):
    """The other side closed the connection."""


# ---------------------------------------------------------------------------------------- messages

def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


def text(value: str | bytes) -> bytes:
    return (value.encode() if isinstance(value, str) else value) + b"\0"


def startup(user: str = "app", database: str = "t", protocol: int = PROTOCOL_3_0, **parameters: str) -> bytes:
    pairs = {"user": user, "database": database, **parameters}
    body = struct.pack("!I", protocol) + b"".join(text(k) + text(v) for k, v in pairs.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def request(code: int, body: bytes = b"") -> bytes:
    return struct.pack("!II", len(body) + 8, code) + body


def simple(sql: str) -> bytes:
    return message("Q", text(sql))


def parse(sql: str, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    return message("P", text(name) + text(sql) + struct.pack("!H", len(types)) + b"".join(struct.pack("!I", t) for t in types))


def bind(*values: str | None, name: str = "", portal: str = "") -> bytes:
    body = text(portal) + text(name) + struct.pack("!HH", 0, len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!I", len(value.encode())) + value.encode()
    return message("B", body + struct.pack("!H", 0))


def describe(kind: str = "P", name: str = "") -> bytes:
    return message("D", kind.encode() + text(name))


def execute(portal: str = "", rows_max: int = 0) -> bytes:
    return message("E", text(portal) + struct.pack("!I", rows_max))


def close(kind: str, name: str) -> bytes:
    return message("C", kind.encode() + text(name))


SYNC = message("S")
FLUSH = message("H")
TERMINATE = message("X")


def run(sql: str, *values: str | None) -> bytes:
    """One statement in the extended protocol, without its Sync."""
    return parse(sql) + bind(*values) + describe() + execute()


# ---------------------------------------------------------------------------------------- reading answers

def error_fields(body: bytes) -> dict[str, str]:
    """Fields of an ErrorResponse or NoticeResponse by their letter."""
    return {field[:1].decode(): field[1:].decode("utf-8", "replace") for field in body.split(b"\0") if field}


def row_values(body: bytes) -> tuple[str | None, ...]:
    count, at, values = struct.unpack_from("!H", body)[0], 2, []
    for _ in range(count):
        size = struct.unpack_from("!i", body, at)[0]
        at += 4
        values.append(None if size < 0 else body[at:at + size].decode())
        at += max(size, 0)
    return tuple(values)


class Answer(list):
    """Messages as (kind, body), with what tests ask of them."""

    @property
    def kinds(self) -> str:
        return "".join(kind for kind, _ in self)

    @property
    def rows(self) -> list[tuple]:
        return [row_values(body) for kind, body in self if kind == "D"]

    @property
    def tags(self) -> list[str]:
        return [body.rstrip(b"\0").decode() for kind, body in self if kind == "C"]

    @property
    def errors(self) -> list[dict[str, str]]:
        return [error_fields(body) for kind, body in self if kind == "E"]

    @property
    def sqlstates(self) -> list[str]:
        return [error["C"] for error in self.errors]

    @property
    def notices(self) -> list[str]:
        return [error_fields(body)["M"] for kind, body in self if kind == "N"]

    @property
    def parameters(self) -> dict[str, str]:
        return {pair[0].decode(): pair[1].decode() for kind, body in self if kind == "S" for pair in [body.split(b"\0")]}

    @property
    def status(self) -> str:
        """Transaction status of the last ReadyForQuery."""
        return [body.decode() for kind, body in self if kind == "Z"][-1]


class Wire:
    """A connection that sends what it is told and hands out messages."""

    def __init__(self, port: int, unix_folder: str | None = None, deadline_s: float = 30.0) -> None:
        self.deadline_s = deadline_s
        if unix_folder is None:
            self.socket = socket.create_connection((HOST, port), timeout=deadline_s)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(deadline_s)
            self.socket.connect(f"{unix_folder}/.s.PGSQL.{port}")
        self._kept = b""
        self.parameters: dict[str, str] = {}
        self.key: tuple[int, bytes] | None = None

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Vanishes with an RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # -- bytes

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def _fill(self, want: int) -> None:
        while len(self._kept) < want:
            try:
                data = self.socket.recv(262144)
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not data:
                raise Closed("end of stream")
            self._kept += data

    def take(self, count: int) -> bytes:
        self._fill(count)
        taken, self._kept = self._kept[:count], self._kept[count:]
        return taken

    # -- messages

    def receive(self) -> tuple[str, bytes]:
        head = self.take(5)
        body = self.take(struct.unpack("!I", head[1:])[0] - 4)
        kind = head[:1].decode("latin-1")
        if kind == "S":
            name, value = body.split(b"\0")[:2]
            self.parameters[name.decode()] = value.decode()
        return kind, body

    def until(self, kinds: str = "Z", count: int = 1) -> Answer:
        """Messages up to the `count`th of one of `kinds`."""
        answer = Answer()
        while count:
            answer.append(self.receive())
            if answer[-1][0] in kinds:
                count -= 1
        return answer

    def until_closed(self) -> Answer:
        answer = Answer()
        try:
            while True:
                answer.append(self.receive())
        except Closed:
            return answer

    def quiet_for(self, seconds: float) -> bool:
        """Nothing comes for so long."""
        if self._kept:
            return False
        readable, _, _ = select.select([self.socket], [], [], seconds)
        return not readable

    # -- conversations

    def login(self, user: str = "app", database: str = "t", password: str | None = None, protocol: int = PROTOCOL_3_0,
              **parameters: str) -> Answer:
        """Up to the first ReadyForQuery, or to the error that refused us."""
        self.send(startup(user, database, protocol, **parameters))
        answer = Answer()
        scram: _Scram | None = None
        while True:
            kind, body = self.receive()
            answer.append((kind, body))
            if kind == "R":
                code = struct.unpack_from("!I", body)[0]
                if code == 3:
                    self.send(message("p", text(password or "")))
                elif code == 5:
                    inner = hashlib.md5((password or "").encode() + user.encode()).hexdigest()
                    self.send(message("p", text("md5" + hashlib.md5(inner.encode() + body[4:8]).hexdigest())))
                elif code == 10:
                    scram = _Scram(password or "")
                    first = scram.first()
                    self.send(message("p", text("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
                elif code == 11:
                    self.send(message("p", scram.final(body[4:])))
                elif code == 12:
                    scram.check(body[4:])
            elif kind == "K":
                self.key = (struct.unpack_from("!I", body)[0], body[4:])
            elif kind in "ZE":
                return answer

    def query(self, sql: str) -> Answer:
        self.send(simple(sql))
        return self.until("Z")

    def extended(self, sql: str, *values: str | None) -> Answer:
        self.send(run(sql, *values), SYNC)
        return self.until("Z")


def connected(port: int, user: str = "app", database: str = "t", password: str | None = None, **parameters: str) -> Wire:
    wire = Wire(port)
    answer = wire.login(user, database, password, **parameters)
    if answer.kinds[-1] != "Z":
        wire.close()
        raise AssertionError(f"login refused: {answer.errors}")
    return wire


def send_cancel(port: int, key: tuple[int, bytes]) -> None:
    with Wire(port) as wire:
        wire.send(request(CANCEL_REQUEST, struct.pack("!I", key[0]) + key[1]))
        wire.until_closed()


class _Scram:
    """A client's side of SCRAM-SHA-256."""

    def __init__(self, password: str) -> None:
        self.password = password.encode()
        self.nonce = base64.b64encode(os.urandom(18)).decode()

    def first(self) -> bytes:
        self.first_bare = f"n=,r={self.nonce}"
        return ("n,," + self.first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        assert fields["r"].startswith(self.nonce)
        salted = hashlib.pbkdf2_hmac("sha256", self.password, base64.b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = f"c=biws,r={fields['r']}"
        auth_message = f"{self.first_bare},{server_first.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), auth_message, "sha256")
        self.expected = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), auth_message, "sha256"))
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
        return f"{without_proof},p={proof}".encode()

    def check(self, server_final: bytes) -> None:
        assert server_final == b"v=" + self.expected, "the server's SCRAM signature is wrong"


def scram_secret(password: str, iterations: int = 4096) -> str:
    """What pg_authid would hold for `password`."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encode = lambda raw: base64.b64encode(raw).decode()     # noqa: E731
    return f"SCRAM-SHA-256${iterations}:{encode(salt)}${encode(stored)}:{encode(server)}"


def md5_secret(user: str, password: str) -> str:
    return "md5" + hashlib.md5((password + user).encode()).hexdigest()


def drained_within(wire: Wire, seconds: float) -> bytes:
    """Whatever comes within `seconds`, unparsed."""
    end, got = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        readable, _, _ = select.select([wire.socket], [], [], left)
        if not readable:
            break
        data = wire.socket.recv(65536)
        if not data:
            break
        got += data
    return got
