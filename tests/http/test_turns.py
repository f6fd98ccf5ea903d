"""Others have their turn between two reads of one connection, however much waits on it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvloop

from dragoman.http.connection import Connection as ClientConnection
from dragoman.http.context import CHUNKED_READ
from dragoman.upstream import UpstreamClient
from dragoman.upstream.connection import READ_BUFFER
from dragoman.upstream.connection import Connection as UpstreamConnection
from tests.http.serving import read_answer, running
from tests.upstream.test_calls import post

SIZE = 900_000
MANY = SIZE // READ_BUFFER // 2
"""Reads that bring full buffers, at least: all was in the kernel before the first."""


class Turns:
    """How often a connection read in each turn of its loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, connection: type) -> None:
        self.reads: list[int] = []
        self.largest = 0
        """Bytes that one read brought at most."""
        self._open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        read: Callable[[object, int], None] = connection.buffer_updated  # type: ignore[attr-defined]

        def counted(owner: object, nbytes: int) -> None:
            if not self._open:
                self._open = True
                self.reads.append(0)
                asyncio.get_running_loop().call_soon(self._close)
            self.reads[-1] += 1
            self.largest = max(self.largest, nbytes)
            read(owner, nbytes)

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
    assert max(turns.reads) == 1


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
    assert turns.largest == CHUNKED_READ


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
