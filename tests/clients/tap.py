"""A tap on the way to a gateway: bytes go through untouched, and the requests in them are kept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httptools
import msgspec

_CHUNK = 65536
_BACKLOG = 64
_PATIENCE_S = 10.0


@dataclass
class Heard:
    """One request as the client sent it, and when by the monotonic clock. Header names are in lower
    case."""

    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    at: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The decoded body.

        Raises:
            msgspec.DecodeError: it is not JSON.
        """
        return msgspec.json.decode(self.body)


class Tap:
    """A listening socket before another. `heard` are the requests in the order they ended."""

    def __init__(self, port: int) -> None:
        self.heard: list[Heard] = []
        self._target = ("127.0.0.1", port)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def posts(self, path: str = "") -> list[Heard]:
        """The POST requests, to that path or to any."""
        return [one for one in self.heard if one.method == "POST" and path in ("", one.path)]

    def serve(self) -> None:
        """Take connections until closed."""
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Close the socket and every connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _connect(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target, timeout=_PATIENCE_S) as server:
            server.settimeout(None)
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            parser = _Requests(self.heard)
            with suppress(OSError):
                while data := _read(client):
                    parser.feed(data)
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)
            back.join()
            with self._lock:
                self._open -= {client, server}


def _read(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK)
    except OSError:
        return b""


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := _read(source):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class _Requests:
    """The requests in the bytes of one connection."""

    def __init__(self, heard: list[Heard]) -> None:
        self._heard = heard
        self._now = Heard()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._upgraded = False

    def feed(self, data: bytes) -> None:
        if self._upgraded:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The rest is no HTTP.
            self._upgraded = True

    def on_message_begin(self) -> None:
        self._now = Heard()

    def on_url(self, url: bytes) -> None:
        self._now.target += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._now.headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._now.body += body

    def on_message_complete(self) -> None:
        self._now.method = self._parser.get_method().decode()
        self._heard.append(self._now)


@contextmanager
def tapped(port: int) -> Iterator[Tap]:
    """Listen in on what is sent to a port of this machine while the context lasts."""
    tap = Tap(port)
    threading.Thread(target=tap.serve, name="tap", daemon=True).start()
    try:
        yield tap
    finally:
        tap.close()
