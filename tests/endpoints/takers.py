"""An upstream that takes forms by hand, and clients that send them so."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message

from dragoman.server.testing import RunningGateway
from tests.gateway.http import AUTH, Answer, Connection

BOUNDARY = "7d3f1c0a9b8e4f6d5c2a1b0e9f8d7c6b"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
TRANSCRIPTIONS = "/v1/audio/transcriptions"
EDITS = "/v1/images/edits"
TEXT = {"text": "hello", "usage": {"type": "duration", "seconds": 2.5}}


def part(name: str, content: bytes, filename: str = "", media: str = "") -> bytes:
    more = f'; filename="{filename}"' if filename else ""
    more += f"\r\nContent-Type: {media}" if media else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()])


MODEL = part("model", b"my-model")


def speech(size: int, *before: bytes) -> bytes:
    """A form with a recording of so many bytes behind the other parts."""
    content = bytes(range(256)) * (size // 256 + 1)
    return form(*before, part("file", content[:size], "a.wav", "audio/wav"))


@dataclass
class Taken:
    """What came of one request. `body` is what was taken of it so far, without chunks."""

    method: str
    target: str
    headers: Mapping[str, str]
    sock: socket.socket
    rest: bytes
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    def read(self, size: int) -> bytes:
        """So many bytes of the connection.

        Raises:
            ConnectionError: it ended before.
        """
        while len(self.rest) < size:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionError
            self.rest += data
        found, self.rest = self.rest[:size], self.rest[size:]
        return found

    def take(self) -> None:
        """Take all of the body."""
        if self.method in ("GET", "DELETE"):
            pass
        elif "content-length" in self.headers:
            left = int(self.headers["content-length"])
            while left:
                piece = self.read(min(left, 65536))
                self.body += piece
                left -= len(piece)
        else:
            assert self.headers["transfer-encoding"] == "chunked"
            while size := int(self._line(), 16):
                self.body += self.read(size)
                assert self._line() == b""
            assert self._line() == b""
        self.whole = True

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.read(1)
        return line[:-2]

    def parts(self) -> list[Message]:
        """The parts of the form."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        _, *found = message_from_bytes(head + bytes(self.body)).walk()
        return found

    def named(self) -> list[tuple[str, str | None, str, bytes]]:
        """Name, file name, media type and content of each part."""
        return [
            (
                str(one.get_param("name", header="content-disposition")),
                one.get_filename(),
                one.get_content_type(),
                bytes(one.get_payload(decode=True)),
            )
            for one in self.parts()
        ]

    def say(
        self, body: bytes | Mapping[str, object], status: int = 200, media: str = "application/json"
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {media}\r\ncontent-length: {len(data)}\r\n"
        self.sock.sendall(head.encode() + b"\r\n" + data)


Behaviour = Callable[[Taken], None]


def answer(taken: Taken) -> None:
    """Takes all, and transcribes it."""
    taken.take()
    taken.say(TEXT)


class Taker:
    """A server with a thread for each connection. `behaviours` go by the key of the account; what
    is not named there is `usual`."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.listener = socket.create_server(address)
        self.port: int = self.listener.getsockname()[1]
        self.url = f"http://{address[0]}:{self.port}/v1"
        self.behaviours: dict[str, Behaviour] = {}
        self.usual: Behaviour = answer
        self.calls: list[Taken] = []

    @property
    def last(self) -> Taken:
        return self.calls[-1]

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    data = sock.recv(65536)
                    if not data:
                        return
                    rest += data
                head, _, rest = rest.partition(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {}
                for line in lines:
                    name, _, value = line.partition(": ")
                    headers[name.lower()] = value
                method, target, _ = first.split(" ")
                taken = Taken(method, target, headers, sock, rest)
                self.calls.append(taken)
                self.behaviours.get(taken.key, self.usual)(taken)
                if not taken.whole:
                    return
                rest = taken.rest


@contextmanager
def taking(address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Taker]:
    taker = Taker(address)
    threading.Thread(target=taker.serve, daemon=True).start()
    try:
        yield taker
    finally:
        taker.listener.shutdown(socket.SHUT_RDWR)
        taker.listener.close()


@contextmanager
def client(gateway: RunningGateway) -> Iterator[Connection]:
    with Connection(gateway.base_url) as connection:
        yield connection


def send(
    gateway: RunningGateway, body: bytes, path: str = TRANSCRIPTIONS, **headers: str
) -> Answer:
    """Send a form on a connection of its own."""
    with client(gateway) as connection:
        connection.send("POST", path, body, {**AUTH, **FORM, **headers})
        return connection.answer()


def saying(
    taker: Taker, body: bytes | Mapping[str, object], media: str = "application/json"
) -> None:
    """Have a server take everything, and answer so."""

    def say(taken: Taken) -> None:
        taken.take()
        taken.say(body, media=media)

    taker.usual = say
