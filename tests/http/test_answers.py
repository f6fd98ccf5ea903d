"""Answers: whole, in pieces, none, and to clients that leave."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

from dragoman.http import ClientGone, Limits, Request, UpgradedConnection
from dragoman.http.head import header_lines
from tests.http.serving import QUICK, parse_head, read_all, read_answer, running, statuses

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def pieces(request: Request) -> None:
    request.start(200, b"a: b\r\n")
    await request.write(b"one ")
    if not request.try_write(b"two "):
        assert request.version == "1.0" or request.method == "HEAD"
        await request.write(b"two ")
    await request.write(b"")
    request.end(b"three")


async def nothing(request: Request) -> None:
    request.start(200)
    request.end()


def test_in_pieces() -> None:
    with running(pieces) as server, server.connect() as sock:
        data = server.say(LAST)
        head, _, body = data.partition(b"\r\n\r\n")
        assert parse_head(head)[1][b"transfer-encoding"] == b"chunked"
        assert body == b"4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n"
        for _ in range(3):
            sock.sendall(GET)
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += sock.recv(1000)


@pytest.mark.parametrize("told", [9, 12])
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_in_pieces_whose_length_is_told(told: int, version: bytes) -> None:
    async def measured(request: Request) -> None:
        request.start(200, b"", told)
        await request.write(b"one ")
        await request.write(b"two ")
        request.end(b"3")

    ask = b"GET / HTTP/%b\r\nhost: x\r\nconnection: keep-alive\r\n\r\n" % version
    with running(measured) as server, server.connect() as sock:
        sock.sendall(ask)
        if told == 9:
            assert read_answer(sock)[2] == b"one two 3"
            sock.sendall(ask)
            assert read_answer(sock)[2] == b"one two 3"
        else:
            # Less than was told: the end of the connection says so.
            assert read_all(sock).endswith(b"\r\n\r\none two 3")


def test_head_and_first_piece_are_one_write() -> None:
    async def slowly(request: Request) -> None:
        request.start(200)
        await asyncio.sleep(0.05)
        await request.write(b"first")
        await asyncio.sleep(0.3)
        request.end()

    with running(slowly) as server, server.connect() as sock:
        sock.sendall(GET)
        assert sock.recv(10_000).endswith(b"\r\n\r\n5\r\nfirst\r\n")


def test_in_pieces_to_http_1_0() -> None:
    """The end of the connection is the end of the answer."""
    with running(pieces) as server:
        for head in (b"", b"Connection: keep-alive\r\n"):
            answered = server.say(b"GET / HTTP/1.0\r\n" + head + b"\r\n")
            first, _, body = answered.partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in first
            assert b"\r\nconnection: close" in first
            assert body == b"one two three"


@pytest.mark.parametrize("app", [pieces, nothing])
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_in_pieces_to_head(app: object, version: bytes) -> None:
    ask = b"HEAD / HTTP/%b\r\nhost: x\r\nconnection: close\r\n\r\n" % version
    with running(app) as server:  # type: ignore[arg-type]
        head, _, body = server.say(ask).partition(b"\r\n\r\n")
    assert parse_head(head)[0] == 200
    assert body == b""


def test_an_empty_stream() -> None:
    with running(nothing) as server:
        assert server.say(LAST).endswith(b"\r\n\r\n0\r\n\r\n")


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(status: int) -> None:
    async def answer(request: Request) -> None:
        request.respond(status, b"", b"ignored")

    with running(answer) as server:
        data = server.say(GET + LAST)
    assert statuses(data) == [status, status]
    assert b"content-length" not in data


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 5_000_000])
def test_whole(size: int) -> None:
    async def answer(request: Request) -> None:
        request.respond(299, b"", b"x" * size)

    with running(answer) as server, server.connect() as sock:
        for _ in range(2):
            sock.sendall(GET)
            status, headers, body = read_answer(sock)
            assert (status, len(body)) == (299, size)
            assert b"date" in headers


def test_an_application_that_fails() -> None:
    async def fail(request: Request) -> None:
        if request.path != "/":
            request.start(200)
            await request.write(b"begun")
        if request.path != "/returns":
            raise ValueError("the application's own words")

    with running(fail) as server:
        data = server.say(GET + LAST)
        assert statuses(data) == [500, 500]
        assert b"own words" not in data
        for path in (b"/fails", b"/returns"):
            data = server.say(LAST.replace(b"/", path, 1))
            # The last chunk is missing: nobody takes this for whole.
            assert data.endswith(b"5\r\nbegun\r\n")


def test_a_broken_answer_to_http_1_0_is_no_whole_one() -> None:
    async def fail(request: Request) -> None:
        request.start(200)
        await request.write(b"begun")
        await asyncio.sleep(0.05)

    with running(fail) as server, server.connect() as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert sock.recv(1000).endswith(b"begun")
        with pytest.raises(ConnectionResetError):
            sock.recv(1000)


def test_a_client_that_leaves() -> None:
    """The task of a request that is tied to its client ends at once; others go on."""
    ended: list[str] = []

    async def wait(request: Request) -> None:
        if request.path == "/tied":
            task = asyncio.current_task()
            assert task is not None
            request.on_gone = task.cancel
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            assert request.gone
            ended.append("cancelled")
            raise
        assert request.gone
        request.start(200)
        await request.write(b"to nobody")
        assert not request.try_write(b"x")
        request.end()
        ended.append("went on")

    with running(wait) as server:
        for path in (b"/tied", b"/other"):
            with server.connect() as sock:
                sock.sendall(LAST.replace(b"/", path, 1))
                time.sleep(0.05)
    assert ended == ["cancelled", "went on"]


def test_a_client_that_leaves_before_its_body_is_there() -> None:
    told: list[type] = []

    async def read(request: Request) -> None:
        try:
            await request.body(1000)
        except ClientGone:
            told.append(ClientGone)

    with running(read) as server:
        with server.connect() as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhel")
            time.sleep(0.05)
        deadline = time.monotonic() + 30
        while not told:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_leaving_is_noticed_behind_a_request_sent_ahead() -> None:
    left: list[bool] = []

    async def wait(request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None
        request.on_gone = task.cancel
        try:
            await asyncio.sleep(10)
        finally:
            left.append(request.gone)

    with running(wait) as server:
        with server.connect() as sock:
            sock.sendall(GET + GET)
            time.sleep(0.05)
        deadline = time.monotonic() + 30
        while not left:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert left == [True]


def test_a_slow_reader_makes_the_application_wait() -> None:
    written: list[int] = [0]

    async def stream(request: Request) -> None:
        request.start(200)
        for _ in range(400):
            await request.write(b"x" * 100_000)
            written[0] += 100_000
        request.end()

    with running(stream) as server, server.connect() as sock:
        sock.sendall(LAST)
        time.sleep(0.5)
        assert written[0] < 20_000_000
        data = read_all(sock)
    assert data.endswith(b"0\r\n\r\n")
    assert len(data) > 40_000_000


def test_an_unread_answer_holds_its_memory_until_it_is_taken() -> None:
    async def large(request: Request) -> None:
        assert request.reserve(30_000_000)
        request.respond(200, b"", b"x" * 30_000_000)

    with running(large, Limits(memory_bytes=40_000_000)) as server, server.connect() as sock:
        sock.sendall(GET)
        time.sleep(0.3)
        assert server.server.requests == 0
        assert server.server.budget.used == 30_000_000
        read_answer(sock)
        assert server.server.budget.used == 0


class Shouting(UpgradedConnection):
    """Another protocol: gives everything back in capitals."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of uvloop are none of asyncio's by their class.
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data.upper())

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


OFFER = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: shouting\r\n\r\n"


def test_an_upgrade_is_handed_out() -> None:
    """With what the client sent behind it."""

    async def upgrade(request: Request) -> None:
        if not request.wants_upgrade:
            with pytest.raises(RuntimeError):
                request.switch_to(Shouting())
            request.respond(426)
            return
        taker = Shouting()
        request.switch_to(taker)
        await taker.lost.wait()

    with running(upgrade, QUICK) as server:
        with server.connect() as sock:
            sock.sendall(GET)
            assert read_answer(sock)[0] == 426
            sock.sendall(OFFER + b"ahead ")
            time.sleep(0.5)  # longer than any limit of HTTP
            sock.sendall(b"and behind")
            data = b""
            while not data.endswith(b"BEHIND"):
                data += sock.recv(1000)
        assert data == b"HTTP/1.1 101 Switching Protocols\r\n\r\nAHEAD AND BEHIND"
        deadline = time.monotonic() + 30
        while server.server.connections or server.server.requests:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_header_lines() -> None:
    assert header_lines([(b"a", b"b"), (b"c", b"")]) == b"a: b\r\nc: \r\n"
    assert header_lines([]) == b""
    for bad in (b"x\r\ny: z", b"x\n", b"\r", b"\0"):
        with pytest.raises(ValueError, match="line break"):
            header_lines([(b"a", b"b"), (b"c", bad)])
