"""A TCP proxy that misbehaves on request, between pgweir and a node or between a client and pgweir."""
from __future__ import annotations

import select
import socket
import struct
import threading
import time

from cluster import HOST, free_port


class TcpProxy:
    """Forwards connections to one of `targets` in turn. One thread a connection; close() ends all."""

    def __init__(self, *targets: int, host: str = HOST) -> None:
        self.targets = list(targets)
        self.port = free_port()
        self.delay_s = 0.0              # held back before each piece from the target
        self.hang = False               # bytes are read and kept, in both directions
        self.preamble = b""             # goes to the target in front of what the client says
        self.refuse = False             # new connections are reset
        self.accepted = 0
        self._next = 0
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, self.port))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "TcpProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self) -> int:
        """Resets all open connections; how many there were."""
        with self._lock:
            pairs = list(self._open)
        for pair in pairs:
            for side in pair:
                _reset(side)
        return len(pairs)

    def half_close(self) -> None:
        """Sends a FIN to the client side of all connections and leaves the other half open."""
        with self._lock:
            pairs = list(self._open)
        for client, _ in pairs:
            try:
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self) -> None:
        self._closed = True
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.refuse:
                _reset(client)
                continue
            target = self.targets[self._next % len(self.targets)]
            self._next += 1
            try:
                server = socket.create_connection((HOST, target), timeout=10)
                server.settimeout(None)
                server.sendall(self.preamble)
            except OSError:
                _reset(client)
                continue
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        pair = (client, server)
        with self._lock:
            self._open.add(pair)
        try:
            other = {client: server, server: client}
            while not self._closed:
                if self.hang:
                    time.sleep(0.02)
                    continue
                ready, _, _ = select.select(list(other), [], [], 0.1)
                for source in ready:
                    if self.hang:
                        break
                    data = source.recv(65536)
                    if not data:
                        return
                    if self.delay_s and source is server:
                        time.sleep(self.delay_s)
                    other[source].sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(pair)
            for side in pair:
                side.close()


def _reset(side: socket.socket) -> None:
    """Closes with an RST, also when another thread is waiting in select() on it."""
    try:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
