"""Bodies that an application takes while they come."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from msgspec.structs import replace

from dragoman.http import BodyRefused, ClientGone, Request
from tests.http.serving import QUICK, Running, read_all, read_answer, running, statuses

POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
LIMIT = 10_000_000


async def pieces(request: Request) -> None:
    """Answers with the size of the body, which is taken piece by piece."""
    size = 0

    def take(data: bytes) -> bool:
        nonlocal size
        size += len(data)
        return True

    try:
        assert not await request.pipe(take, LIMIT)
        assert not await request.pipe(take, LIMIT)
    except BodyRefused as refused:
        request.respond(refused.problem.status, b"", refused.problem.name.encode())
    except ClientGone:
        return
    else:
        request.respond(200, b"", b"%d" % size)


@pytest.mark.parametrize("ahead", [0, 1, 5000])
@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 5_000_000])
def test_a_body_of_any_size_is_given_as_it_comes(size: int, ahead: int) -> None:
    with running(pieces) as server, server.connect() as sock:
        body = b"x" * size
        sock.sendall(POST + b"content-length: %d\r\n\r\n" % size + body[:ahead])
        sock.sendall(body[ahead:])
        assert read_answer(sock)[2] == b"%d" % size
        # The connection carries another.
        sock.sendall(POST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        assert read_answer(sock)[2] == b"3"


def test_the_chunks_of_one_read_are_given_as_one_piece() -> None:
    taken: list[bytes] = []

    async def app(request: Request) -> None:
        def take(data: bytes) -> bool:
            taken.append(data)
            return True

        while await request.pipe(take, LIMIT):
            pass
        request.respond(200)

    with running(app) as server, server.connect() as sock:
        chunks = b"a\r\n0123456789\r\n" * 5000 + b"0\r\n\r\n"
        sock.sendall(POST + b"transfer-encoding: chunked\r\n\r\n" + chunks)
        assert read_answer(sock)[0] == 200
    assert b"".join(taken) == b"0123456789" * 5000
    assert len(taken) < 100


def test_an_application_that_takes_nothing_leaves_the_body_with_the_client() -> None:
    """While a sink says that it is full, at most 128 KB are read."""
    go_on = asyncio.Event()
    taken: list[int] = []

    async def slow(request: Request) -> None:
        def full(data: bytes) -> bool:
            taken.append(len(data))
            return False

        assert await request.pipe(full, LIMIT)
        await go_on.wait()
        while await request.pipe(full, LIMIT):
            pass
        request.respond(200, b"", b"%d" % sum(taken))

    with running(slow) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: %d\r\n\r\n" % LIMIT)
        sock.settimeout(0.5)
        sent = 0
        with suppress(TimeoutError):
            while sent < LIMIT:
                sent += sock.send(b"x" * 65536)
        (request,) = server.seen
        assert request.held <= 128 * 1024
        assert request.reserved <= 128 * 1024
        assert len(taken) == 1
        server.on_loop(go_on.set)
        sock.settimeout(10)
        sock.sendall(b"x" * (LIMIT - sent))
        assert read_answer(sock)[2] == b"%d" % LIMIT


def test_a_silent_client_ends_and_a_slow_one_does_not() -> None:
    with running(pieces, replace(QUICK, rate=1_000_000)) as server:
        assert statuses(server.say(POST + b"content-length: 10\r\n\r\nhel")) == [408]
        with server.connect() as sock:
            sock.sendall(POST + b"content-length: 30\r\n\r\n")
            # Longer in all than the limit between two pieces.
            for _ in range(30):
                time.sleep(0.03)
                sock.sendall(b"x")
            assert read_answer(sock)[2] == b"30"


def test_the_time_for_which_nobody_asks_is_not_the_clients() -> None:
    async def waits(request: Request) -> None:
        assert await request.pipe(lambda data: False, LIMIT)
        await asyncio.sleep(1.0)
        while await request.pipe(lambda data: False, LIMIT):
            pass
        request.respond(200)

    with running(waits, QUICK) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: 10\r\n\r\nhello")
        time.sleep(1.1)
        sock.sendall(b"hello")
        assert read_answer(sock)[0] == 200


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"content-length: 10000001\r\n\r\n", b"BODY_TOO_LARGE"),
        (b"transfer-encoding: chunked\r\n\r\nzz\r\n", b"BODY_MALFORMED"),
    ],
)
def test_a_body_that_cannot_be_had_is_refused(sent: bytes, problem: bytes) -> None:
    with running(pieces, QUICK) as server, server.connect() as sock:
        sock.sendall(POST + sent)
        assert read_all(sock).endswith(problem)


def test_a_body_in_chunks_is_refused_when_it_crosses_the_limit() -> None:
    with running(pieces) as server, server.connect() as sock:
        sock.sendall(POST + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(11):
            sock.sendall(b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n")
        assert read_answer(sock)[2] == b"BODY_TOO_LARGE"


def test_a_client_that_leaves_is_noticed() -> None:
    gone: list[bool] = []

    async def app(request: Request) -> None:
        with pytest.raises(ClientGone):
            await request.pipe(lambda data: True, LIMIT)
        gone.append(True)

    with running(app) as server:
        with server.connect() as sock:
            sock.sendall(POST + b"content-length: 10\r\n\r\nhel")
            wait_for(server)
        deadline = time.monotonic() + 10
        while not gone:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_an_error_of_a_sink_is_the_applications() -> None:
    async def app(request: Request) -> None:
        def fail(data: bytes) -> bool:
            raise ValueError(data)

        with pytest.raises(ValueError, match="hel"):
            await request.pipe(fail, LIMIT)
        request.respond(400)

    with running(app, QUICK) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: 10\r\n\r\nhel")
        assert read_answer(sock)[0] == 400


def test_an_early_answer_reaches_a_client_that_still_sends() -> None:
    async def app(request: Request) -> None:
        assert await request.pipe(lambda data: False, LIMIT)
        request.respond(413, b"", b"no")

    with running(app) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: %d\r\n\r\n" % LIMIT + b"x" * 300_000)
        status, headers, body = read_answer(sock)
        assert (status, body, headers[b"connection"]) == (413, b"no", b"close")


def test_a_client_that_expects_to_be_told_is_told() -> None:
    with running(pieces) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: 3\r\nexpect: 100-continue\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"abc")
        assert read_answer(sock)[2] == b"3"


def wait_for(server: Running) -> None:
    """Wait until the application has the request."""
    deadline = time.monotonic() + 10
    while not server.seen or not server.seen[0].received:
        assert time.monotonic() < deadline
        time.sleep(0.01)
