"""Others have their turn between two reads of one connection, however much waits on it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvloop

from dragoman.http.boundary import Boundary
from dragoman.http.connection import Connection as ClientConnection
from dragoman.http.context import READ_BUFFER as HTTP_READ_BUFFER
from dragoman.http.context import SHORT_READ
from dragoman.upstream import UpstreamClient
from dragoman.upstream.connection import READ_BUFFER
from dragoman.upstream.connection import Connection as UpstreamConnection
from tests.http.serving import read_answer, running, statuses
from tests.upstream.calling import post

SIZE = 900_000
MANY = SIZE // READ_BUFFER // 2
"""Reads that bring full buffers, at least: all was in the kernel before the first."""


class Turns:
    """How often a connection read in each turn of its loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, connection: type, least: int = 1) -> None:
        """Of reads that bring fewer than `least` bytes nothing is told."""
        self.reads: list[int] = []
        self.largest = 0
        """Bytes that one read brought at most."""
        self._open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        read: Callable[[object, int], None] = connection.buffer_updated  # type: ignore[attr-defined]

        def counted(owner: object, nbytes: int) -> None:
            if nbytes < least:
                return read(owner, nbytes)
            if not self._open:
                self._open = True
                self.reads.append(0)
                asyncio.get_running_loop().call_soon(self._close)
            self.reads[-1] += 1
            self.largest = max(self.largest, nbytes)
            return read(owner, nbytes)

        monkeypatch.setattr(connection, "buffer_updated", counted)

    def _close(self) -> None:
        self._open = False


def test_of_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, ClientConnection)
    with running() as server, server.connect() as sock:
        # What is sent while the loop does something else waits in the kernel.
        server.loop.call_soon_threadsafe(time.sleep, 0.3)
        sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % SIZE)
        sock.sendall(b"x" * SIZE)
        assert read_answer(sock)[0] == 200
    assert len(turns.reads) >= MANY // 2
    assert turns.reads[0] <= 2, "the head, and a piece of the body"
    assert max(turns.reads[1:]) == 1


def test_of_a_body_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, ClientConnection)
    with running() as server, server.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        time.sleep(0.1)
        server.loop.call_soon_threadsafe(time.sleep, 0.3)
        sock.sendall(b"1\r\nx\r\n" * 8_000 + b"0\r\n\r\n")
        assert read_answer(sock)[0] == 200
    assert len(turns.reads) >= 3
    assert max(turns.reads) == 1
    assert turns.largest == SHORT_READ


def test_of_several_that_send_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a turn one of them reads on."""
    turns = Turns(monkeypatch, ClientConnection, least=HTTP_READ_BUFFER)
    with running() as server, contextlib.ExitStack() as stack:
        socks = [stack.enter_context(server.connect()) for _ in range(4)]
        for sock in socks:
            sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % SIZE)
        time.sleep(0.2)
        turns.reads.clear()
        server.loop.call_soon_threadsafe(time.sleep, 0.3)
        for sock in socks:
            sock.sendall(b"x" * SIZE)
        assert [read_answer(sock)[0] for sock in socks] == [200] * len(socks)
    # The first of each may share a turn, and the first after its buffer in the kernel was empty.
    shared = sum(count for count in turns.reads if count > 1)
    assert shared < sum(turns.reads) / 3


def test_of_many_empty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is a call of the parser, wherever they are; a few are nothing bad."""
    parsed = 0
    read: Callable[..., int] = Boundary.cut

    def counted(*arguments: object) -> int:
        nonlocal parsed
        parsed += 1
        return read(*arguments)

    monkeypatch.setattr(Boundary, "cut", counted)
    with running() as server:
        asked = b"\r\n" * 20 + b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        assert statuses(server.say(asked)) == [200]
        parsed = 0
        assert statuses(server.say(b"\r\n" * 30_000)) == [431]
        assert parsed < 100


@contextmanager
def _upstream() -> Iterator[int]:
    """The port of a server that answers one request with all it has at once."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % SIZE

    def answer() -> None:
        sock, _ = plug.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(head + b"x" * SIZE)
            sock.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as plug:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield plug.getsockname()[1]
        thread.join(10)


def test_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, UpstreamConnection)

    async def ask(port: int) -> int:
        async with (
            UpstreamClient() as client,
            await client.send(post(f"http://127.0.0.1:{port}/")) as response,
        ):
            time.sleep(0.3)  # noqa: ASYNC251 (the kernel takes all of it meanwhile)
            return sum([len(chunk) async for chunk in response])

    with _upstream() as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(ask(port)) == SIZE
    assert len(turns.reads) >= MANY // 2
    assert max(turns.reads) == 1
