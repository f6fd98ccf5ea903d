"""Whatever comes without a key: no turn of the loop is long, and little is looked into.

Work is counted, not timed: the lines of Python that one turn of the gateway's loop runs, and the
bytes that are decoded or unpacked for one request.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.config import Admin, Secret, Storage
from dragoman.http.decoding import Inflater
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.administration import TOKEN
from tests.gateway.conftest import SERVER, config_for
from tests.gateway.http import call

MOST_LINES = 30_000
"""Of one turn: a line takes 50 to 200 ns, so these take less than 6 ms."""
MOST_BYTES = 64 * 1024
CASES = 40


@dataclass
class Work:
    """What the gateway's thread did: the lines of its longest turn since `reset`, and bytes."""

    depth: int = 0
    base: int = 0
    lines: int = 0
    longest: int = 0
    bytes: int = 0

    def reset(self) -> None:
        self.longest = self.bytes = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count lines. A turn of the loop is what is called from the frame that runs the loop."""
        if event == "line":
            self.lines += 1
        elif event == "call":
            self.depth += 1
            if not self.base and frame.f_code is asyncio.Runner.run.__code__:
                self.base = self.depth
        elif event == "return":
            self.depth -= 1
            if self.depth == self.base:
                self.longest, self.lines = max(self.longest, self.lines), 0
        return self.trace


@contextmanager
def traced(work: Work) -> Iterator[None]:
    """Threads that are started here are traced, if they are the gateway's."""

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        if threading.current_thread().name == "gateway":
            return work.trace(frame, event, argument)
        sys.settrace(None)
        return None

    before = threading.gettrace()
    threading.settrace(begin)
    try:
        yield
    finally:
        threading.settrace(before)


@pytest.fixture
def watched(
    simulator: RunningSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RunningGateway, Work]]:
    work = Work()
    decode, feed = jsontext.decode, Inflater.feed

    def decoded(text: Any) -> Any:
        work.bytes += len(text)
        return decode(text)

    def fed(self: Inflater, data: bytes) -> Iterator[bytes]:
        for piece in feed(self, data):
            work.bytes += len(piece)
            yield piece

    monkeypatch.setattr(jsontext, "decode", decoded)
    monkeypatch.setattr(Inflater, "feed", fed)
    config = replace(
        config_for(simulator.base_url, server=replace(SERVER, trusted_proxies=("127.0.0.0/8",))),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.5),
        admin=Admin(key=Secret(TOKEN)),
    )
    with traced(work), running_gateway(config) as gateway:
        yield gateway, work


PATHS = (
    "/", "/healthz", "/readyz", "/metrics", "/ui", "/ui/lib/api.js", "/nowhere", "/v1/models",
    "/v1/models/some", "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens",
    "/v1/responses", "/v1/responses/input_tokens", "/v1/responses/resp_1/input_items",
    "/v1/responses/compact", "/v1/responses/resp_1/submit_tool_outputs", "/v1/key",
    "/v1/usage", "/admin", "/admin/session", "/admin/accounts", "/admin/accounts/import",
    "/admin/translate", "/admin/events", "/admin/doctor", "/admin/openapi.json", "*",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE")
PIECES = (
    "a", "%2e", "%00", "/", "//", "/v1", ";", ",", "=", "&", "?x=", "..", '"', "\\", "{}", "[",
    "sk-", "Bearer ", "10.0.0.1,", "127.0.0.1,", "[::1],", " ", "\t", "charset=", "\xff",
    "dragoman_session=a;", "q=0,", "W/\"", "*", "text/html,", "gzip,", "websocket,",
)  # fmt: skip
HEADERS = (
    "accept", "accept-encoding", "access-control-request-headers", "authorization", "content-type",
    "cookie", "host", "if-match", "if-none-match", "idempotency-key", "last-event-id", "origin",
    "traceparent", "tracestate", "upgrade", "x-api-key", "x-dragoman-csrf", "x-forwarded-for",
    "x-forwarded-host", "x-goog-api-key", "sec-websocket-extensions", "sec-websocket-protocol",
)  # fmt: skip


def head(chance: random.Random) -> tuple[str, list[str]]:
    """A request line and headers, without what frames a body."""
    path = chance.choice(PATHS)
    if chance.random() < 0.3:
        path += chance.choice(PIECES).strip() * chance.choice((1, 100, 10_000))
    lines = [] if chance.random() < 0.1 else [f"host: {chance.choice(('localhost', 'x.example'))}"]
    for _ in range(chance.choice((0, 1, 3, 250, 300))):
        name = chance.choice(HEADERS) if chance.random() < 0.8 else f"x-{chance.random()}"
        lines.append(f"{name}: {chance.choice(PIECES) * chance.choice((1, 1, 20, 4000))}")
    return f"{chance.choice(METHODS)} {path} HTTP/1.1", lines


def value(chance: random.Random) -> bytes:
    """A body: sign-ins, and what takes long to decode or to unpack."""
    unit = chance.choice((b"{},", b"[],", b'{"":0},', b" ", b'"\\ud800",', b"1e999,", b"[" * 50))
    many = unit * chance.choice((1, 1000, 100_000))
    return chance.choice(
        (
            b"",
            json.dumps({"key": "k" * chance.choice((1, 900, 5000))}).encode(),
            b'{"key":"x","y":"\\ud800","x":[%b0]}' % many,
            b"[" + many,
            many,
            chance.randbytes(chance.choice((10, 100_000))),
        )
    )


def requests(chance: random.Random) -> tuple[bytes, int]:
    """What a stranger sends on a connection: one request, so many times."""
    line, lines = head(chance)
    body = value(chance)
    if chance.random() < 0.3:
        line, lines = "POST /admin/session HTTP/1.1", ["host: localhost"]
    if chance.random() < 0.5:
        lines.append("content-type: application/json")
    if chance.random() < 0.3:
        coding = chance.choice(("gzip", "deflate", "zstd", "x-gzip", "gzip, gzip"))
        lines.append(f"content-encoding: {coding}")
        body = zlib.compress(body, 9) if coding == "deflate" else gzip.compress(body, 9)
    match chance.randrange(4):
        case 0:
            lines.append("transfer-encoding: chunked")
            size = chance.choice((1, 7, 4000))
            some = body[:60_000]
            pieces = [some[start : start + size] for start in range(0, len(some), size)]
            framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            trailers = b"a: b\r\n" * chance.choice((0, 1, 5000))
            body = framed + b"0\r\n" + trailers + b"\r\n"
        case 1:
            lines.append(f"content-length: {len(body) + chance.choice((0, 0, 1, 10**9))}")
        case 2:
            lines.append(f"content-length: {len(body)}")
        case _:
            body = b""
    made = "\r\n".join([line, *lines]).encode("latin-1") + b"\r\n\r\n" + body
    times = chance.choice((1, 1, 1, 50))
    return made * times, times


def sent(gateway: RunningGateway, data: bytes) -> None:
    """Send it all, and read what comes until nothing does for a while and the loop has another
    turn."""
    with socket.create_connection(("127.0.0.1", gateway.port)) as sock, suppress(OSError):
        sock.settimeout(0.1)
        sock.sendall(data[:2_000_000])
        while sock.recv(1_000_000):
            pass
    assert call(gateway.base_url, "GET", "/healthz").status == 200


def check(work: Work, sent: object, times: int = 1) -> None:
    assert work.longest <= MOST_LINES, (work.longest, sent)
    assert work.bytes <= MOST_BYTES * times, (work.bytes, sent)


def test_whatever_comes_without_a_key_is_little_work(
    watched: tuple[RunningGateway, Work],
) -> None:
    gateway, work = watched
    assert call(gateway.base_url, "GET", "/healthz").status == 200
    assert work.base
    for seed in range(CASES):
        made, times = requests(random.Random(seed))
        work.reset()
        sent(gateway, made)
        check(work, (seed, made[:200]), times)
    assert call(gateway.base_url, "GET", "/v1/models").status == 200


UNPACKED = b'{"y":"\\ud800","x":[' + b"{}," * 345_000 + b"{}]}"
ATTACKS: dict[str, Callable[[], bytes]] = {
    "a sign-in that unpacks to a million values": lambda: (
        b"POST /admin/session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b"
        % (len(gzip.compress(UNPACKED, 9)), gzip.compress(UNPACKED, 9))
    ),
    "chunks of one byte": lambda: (
        b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        + b"1\r\nx\r\n" * 200_000
    ),
    "trailers": lambda: (
        b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        b"0\r\n" + b"a: b\r\n" * 100_000
    ),
    "requests sent ahead": lambda: b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 5_000,
    "forwarded from trusted proxies alone": lambda: (
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: %b127.0.0.1\r\n\r\n"
        % (b"127.0.0.1," * 6000)
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_much_work(watched: tuple[RunningGateway, Work], attack: str) -> None:
    gateway, work = watched
    assert call(gateway.base_url, "GET", "/healthz").status == 200
    work.reset()
    sent(gateway, ATTACKS[attack]())
    check(work, attack)
