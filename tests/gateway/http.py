"""A small HTTP client on a bare socket: it sends exactly what a test says, and reads streams as
they come."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

TRUSTS_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For SDKs, which read the system's authorities for each client: that takes ten times as long as a
request, and all of these are to loopback."""
KEY = "sk-test-client"
JSON = {"content-type": "application/json"}
AUTH = {"authorization": f"Bearer {KEY}"}


@dataclass
class Answer:
    """A whole answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Connection:
    """One connection to a server."""

    base_url: str
    sock: socket.socket = field(init=False)
    buffer: bytes = b""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.sock = socket.create_connection((parts.hostname, parts.port), timeout=60)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a request; a dict becomes JSON. Without a content-length of its own the body's is
        sent."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body or b""
        own = {"host": "localhost", **(JSON if isinstance(body, dict) else {}), **(headers or {})}
        if (data or method == "POST") and not own.keys() & {"content-length", "transfer-encoding"}:
            own["content-length"] = str(len(data))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]
        self.sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)

    def head(self) -> Answer:
        """The status line and headers."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        return Answer(int(status.split(" ")[1]), headers)

    def chunk(self) -> bytes:
        """One chunk of a chunked body: what the server wrote in one piece. Empty at the end."""
        while b"\r\n" not in self.buffer:
            self._more()
        size, _, self.buffer = self.buffer.partition(b"\r\n")
        wanted = int(size, 16)
        while len(self.buffer) < wanted + 2:
            self._more()
        data, self.buffer = self.buffer[:wanted], self.buffer[wanted + 2 :]
        return data

    def answer(self, *, bodyless: bool = False) -> Answer:
        """A whole answer."""
        found = self.head()
        if bodyless or found.status == 304:
            return found
        if found.headers.get("transfer-encoding") == "chunked":
            found.body = b"".join(iter(self.chunk, b""))
            return found
        length = int(found.headers["content-length"])
        while len(self.buffer) < length:
            self._more()
        found.body, self.buffer = self.buffer[:length], self.buffer[length:]
        return found

    def _more(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data


def call(
    base_url: str,
    method: str,
    path: str,
    body: bytes | dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    *,
    key: str | None = KEY,
) -> Answer:
    """One request on a connection of its own, with the test's key unless told otherwise."""
    auth = {} if key is None else {"authorization": f"Bearer {key}"}
    with Connection(base_url) as connection:
        connection.send(method, path, body, {**auth, **(headers or {})})
        return connection.answer(bodyless=method == "HEAD")


def events(body: bytes) -> list[tuple[str, Any]]:
    """The events of a stream: name and decoded data (`[DONE]` as text); comments left out."""
    found = []
    for frame in body.decode().split("\n\n"):
        name, data = "", None
        for line in frame.split("\n"):
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
        if data is not None:
            found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found
