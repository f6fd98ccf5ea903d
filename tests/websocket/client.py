"""A WebSocket client on a bare socket: it sends exactly what a test says."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dragoman.server.testing import RunningGateway
from tests.gateway.http import AUTH, Answer, Connection

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def handshake(**more: str) -> dict[str, str]:
    """The headers of an offer; underscores in names stand for hyphens."""
    return {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
        **AUTH,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def frame(payload: bytes, opcode: int = TEXT, *, first: int = 0x80, masked: bool = True) -> bytes:
    """One frame of a client. `first` has the bits beside the opcode: 0x80 says that it is the last
    of its message, 0x40 that the message is compressed."""
    size = len(payload)
    if size < 126:
        head = bytes([first | opcode, size])
    elif size < 65536:
        head = bytes([first | opcode, 126]) + struct.pack("!H", size)
    else:
        head = bytes([first | opcode, 127]) + struct.pack("!Q", size)
    if not masked:
        return head + payload
    key = os.urandom(4)
    mask = (key * (size // 4 + 1))[:size]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")
    return head[:1] + bytes([head[1] | 0x80]) + head[2:] + key + mixed.to_bytes(size, "big")


class Closed(Exception):
    """The server closed, with this code; 1006 for the end of the connection without one."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


@dataclass
class Socket:
    """One WebSocket. Pings are answered, unless `mute`."""

    base_url: str
    headers: Mapping[str, str] = field(default_factory=handshake)
    path: str = "/v1/responses"
    mute: bool = False
    pings: int = 0
    frames: list[bytes] = field(default_factory=list)
    """Text messages that were not read yet."""

    def __post_init__(self) -> None:
        self.http = Connection(self.base_url)
        self.http.sock.settimeout(60)
        self.http.send("GET", self.path, headers=dict(self.headers))
        self.answer: Answer = self.http.head()
        assert self.answer.status == 101, self.answer

    @property
    def sock(self) -> socket.socket:
        return self.http.sock

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, event: Mapping[str, Any] | str) -> None:
        """Send an event, or a text as it is."""
        text = event if isinstance(event, str) else json.dumps(event)
        self.sock.sendall(frame(text.encode()))

    def create(self, model: str, text: str | list[Any] = "hi", **more: Any) -> None:
        """Send a `response.create`, not stored unless told otherwise."""
        given = {"model": model, "input": text, "store": False, **more}
        self.send({"type": "response.create", **given})

    def turn(self, model: str, text: str | list[Any] = "hi", **more: Any) -> list[dict[str, Any]]:
        """As `create`, and all events of the answer."""
        self.create(model, text, **more)
        return self.events()

    def events(self) -> list[dict[str, Any]]:
        """Events up to the next terminal one."""
        found: list[dict[str, Any]] = []
        while not found or found[-1]["type"] not in ENDS:
            found.append(self.event())
        return found

    def event(self) -> dict[str, Any]:
        """The next event."""
        event: dict[str, Any] = json.loads(self.message())
        return event

    def message(self, opcode: int = TEXT) -> bytes:
        """The next message of that kind; pings are answered on the way.

        Raises:
            Closed: there is none.
        """
        while True:
            first, payload = self._frame()
            assert first & 0x80, "a frame of the server is a whole message"
            kind = first & 0x0F
            if kind == opcode:
                return payload
            if kind == PING:
                self.pings += 1
                if not self.mute:
                    self.sock.sendall(frame(payload, PONG))
            elif kind == CLOSE:
                code = int.from_bytes(payload[:2], "big") if payload else 1005
                with suppress(OSError):
                    self.sock.sendall(frame(payload, CLOSE))
                raise Closed(code, payload[2:].decode())

    def closed(self) -> Closed:
        """How the server closes; what it says before is left in `frames`."""
        try:
            while True:
                self.frames.append(self.message())
        except Closed as closed:
            return closed

    def close(self, code: int = 1000) -> None:
        """Close as a client does, and wait for the answer."""
        self.sock.sendall(frame(struct.pack("!H", code), CLOSE))
        assert self.message(CLOSE)[:2] == struct.pack("!H", code)

    def _frame(self) -> tuple[int, bytes]:
        first, size = self._read(2)
        assert not size & 0x80, "a server masks nothing"
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        return first, self._read(size)

    def _read(self, size: int) -> bytes:
        while len(self.http.buffer) < size:
            try:
                data = self.sock.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                raise Closed(1006, "")
            self.http.buffer += data
        data, self.http.buffer = self.http.buffer[:size], self.http.buffer[size:]
        return data


def opened(gateway: RunningGateway, **headers: str) -> Socket:
    """A socket to a gateway."""
    return Socket(gateway.base_url, handshake(**headers))


def refused(gateway: RunningGateway, headers: Mapping[str, str], path: str = "") -> Answer:
    """The answer of HTTP to an offer that is not accepted."""
    with Connection(gateway.base_url) as connection:
        connection.send("GET", path or "/v1/responses", headers=dict(headers))
        return connection.answer()


def text_of(events: list[dict[str, Any]]) -> str:
    """What an answer says."""
    return "".join(event["delta"] for event in events if event["type"].endswith("text.delta"))


def answer_id(events: list[dict[str, Any]]) -> str:
    """The id of a completed answer."""
    assert events[-1]["type"] == "response.completed", events[-1]
    name: str = events[-1]["response"]["id"]
    return name
