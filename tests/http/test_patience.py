"""What a client may not do for long, or not much of. Every limit is short here."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dragoman.http import Limits, Request
from dragoman.http.limits import Budget, connections_for, files_to_share
from tests.http.serving import (
    QUICK,
    Running,
    read_all,
    read_answer,
    running,
    statuses,
    take_answer,
)

POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def quick() -> Iterator[Running]:
    with running(limits=QUICK) as server:
        yield server


@pytest.mark.parametrize("said", [b"", b"\r\n", b"G", b"GET / HTTP/1.1\r\nhost: x\r\n\r"])
def test_a_head_that_never_comes(quick: Running, said: bytes) -> None:
    assert statuses(quick.say(said)) == ([408] if said else [])


def test_a_head_that_comes_in_drops(quick: Running) -> None:
    with quick.connect() as sock:
        try:
            for _ in range(200):
                sock.sendall(b"a")
                time.sleep(0.02)
        except OSError:
            pass
        else:
            raise AssertionError("it was read for four seconds")
    wait_for_none(quick)


def wait_for_none(server: Running) -> None:
    deadline = time.monotonic() + 30
    while server.server.connections or server.server.requests:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_idle_connection_ends(quick: Running) -> None:
    with quick.connect() as sock:
        sock.sendall(GET)
        assert read_answer(sock)[0] == 200
        assert read_all(sock) == b""


def test_a_body_that_never_comes(quick: Running) -> None:
    data = quick.say(POST + b"content-length: 10\r\n\r\nhel")
    assert statuses(data) == [408]
    assert data.endswith(b"BODY_TIMEOUT")


def test_a_body_that_comes_too_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.http.arrival.PROGRESS_S", 0.1)
    with running(limits=replace(QUICK, body_s=60.0, rate=10_000)) as server:
        with server.connect() as sock:
            sock.sendall(POST + b"content-length: 100000\r\n\r\n")
            for _ in range(20):
                sock.sendall(b"x" * 4000)
                time.sleep(0.02)
            sock.sendall(b"x" * 20_000)
            assert read_answer(sock)[0] == 200
        with server.connect() as sock:
            sock.sendall(POST + b"content-length: 100000\r\n\r\n")
            sock.settimeout(0.02)
            answered = b""
            for _ in range(200):
                try:
                    answered = sock.recv(1000)
                    break
                except TimeoutError:
                    sock.sendall(b"x" * 10)
            assert answered.startswith(b"HTTP/1.1 408 ")


async def refuse(request: Request) -> None:
    request.respond(401, b"", b"no")


@pytest.mark.parametrize(
    "framing",
    [b"content-length: 1000", b"content-length: 100000000", b"transfer-encoding: chunked"],
)
def test_a_body_that_trickles_after_an_early_answer(framing: bytes) -> None:
    """The connection ends, however long the client goes on, and whatever was said of the body."""
    with running(refuse, QUICK) as server:
        socks = [server.connect() for _ in range(50)]
        for sock in socks:
            sock.sendall(POST + framing + b"\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 401 ")
        deadline = time.monotonic() + 30
        while server.server.connections:
            assert time.monotonic() < deadline
            for sock in socks:
                try:
                    sock.sendall(b"1\r\nx\r\n" if b"chunked" in framing else b"x")
                except OSError:
                    continue
            time.sleep(0.02)
        for sock in socks:
            sock.close()


def test_a_body_that_comes_after_an_early_answer_is_thrown_away() -> None:
    bodies = [
        b"content-length: 50000\r\n\r\n" + b"x" * 50_000,
        b"transfer-encoding: chunked\r\n\r\n8\r\n\r\n\r\n\r\n\r\n\r\n0\r\na: b\r\n\r\n",
    ]
    with running(refuse, QUICK) as server, server.connect() as sock:
        for body in bodies:
            sock.sendall(POST + body[:40])
            assert read_answer(sock)[0] == 401
            sock.sendall(body[40:])
        sock.sendall(GET)
        assert read_answer(sock)[0] == 401


def test_no_rest_of_a_body_need_be_awaited() -> None:
    with running(refuse, replace(QUICK, linger_s=0.0)) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: 5\r\n\r\n")
        status, headers, _ = read_answer(sock)
        assert (status, headers[b"connection"]) == (401, b"close")
        assert read_all(sock) == b""


def test_an_early_answer_arrives_though_the_client_goes_on_sending() -> None:
    """A reset would destroy it on its way."""
    with running(refuse, Limits(linger_bytes=50_000_000)) as server, server.connect() as sock:
        sock.sendall(POST + b"content-length: 200000000\r\n\r\n")
        for _ in range(100):
            sock.sendall(b"x" * 100_000)
        status, headers, body, _ = take_answer(sock)
        assert (status, headers[b"connection"], body) == (401, b"close", b"no")


@pytest.mark.parametrize("app", [None, refuse])
@pytest.mark.parametrize("said", [b"0\r\n", b"0\r\na: ", b"5;a", b"5\r\nhello\r\n0\r\n"])
@pytest.mark.parametrize("flood", [b"a: b\r\n", b"x"])
def test_endless_trailers(app: object, said: bytes, flood: bytes) -> None:
    """And an endless extension of a chunk: neither is held."""
    with running(**({"app": refuse} if app else {}), limits=Limits(linger_bytes=200_000)) as server:  # type: ignore[arg-type]
        with server.connect() as sock:
            sent = 0
            try:
                sock.sendall(POST + b"transfer-encoding: chunked\r\n\r\n" + said)
                while sent < 100_000_000:
                    sock.sendall(flood * 10_000)
                    sent += 10_000 * len(flood)
            except OSError:
                pass
        assert sent < 20_000_000  # what the kernel's buffers take


def test_chunks_that_are_mostly_framing() -> None:
    with running() as server, server.connect() as sock:
        try:
            sock.sendall(POST + b"transfer-encoding: chunked\r\n\r\n")
            for _ in range(3000):
                sock.sendall((b"1;" + b"a" * 10_000 + b"\r\nx\r\n") * 5)
        except OSError:
            pass
        answered = read_all(sock)
    assert answered.startswith(b"HTTP/1.1 400 ") or answered == b""
    assert server.seen[0].received < 200


async def flood(request: Request) -> None:
    request.start(200)
    while not request.gone:
        await request.write(b"x" * 50_000)
        await asyncio.sleep(0)


async def large(request: Request) -> None:
    request.respond(200, b"", b"x" * 30_000_000)


@pytest.mark.parametrize("app", [flood, large])
@pytest.mark.parametrize("reads", [0, 100])
def test_a_client_that_does_not_take_its_answer(app: object, reads: int) -> None:
    """Neither one that has stopped, nor one that takes a little of it now and then."""
    with running(app, replace(QUICK, rate=10_000)) as server:  # type: ignore[arg-type]
        with server.connect() as sock:
            sock.sendall(GET)
            deadline = time.monotonic() + 10
            while server.server.connections or not server.seen:
                assert time.monotonic() < deadline
                if reads:
                    try:
                        sock.recv(reads)
                    except ConnectionError:
                        break
                time.sleep(0.05)
        wait_for_none(server)


def test_a_client_that_takes_its_answer_slowly() -> None:
    with running(large, QUICK) as server, server.connect() as sock:
        sock.sendall(GET)
        got = 0
        while got < 30_000_000:
            data = sock.recv(100_000)
            assert data
            got += len(data)
            time.sleep(0.003)


def test_what_comes_before_its_time_is_kept_only_so_far() -> None:
    release = asyncio.Event()

    async def slow(request: Request) -> None:
        await release.wait()
        request.respond(200)

    with running(slow) as server, server.connect() as sock:
        sock.sendall(GET)
        sock.settimeout(0.5)
        sent = 0
        try:
            while sent < 100_000_000:
                sent += sock.send(GET * 1000)
        except TimeoutError:
            pass
        assert sent < 20_000_000  # what the kernel's buffers take
        assert len(server.seen) == 1
        server.on_loop(release.set)
        sock.settimeout(10)
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_one_budget_for_all_bodies() -> None:
    """Nobody is refused who fits, and what was held is given back."""
    with running(limits=Limits(memory_bytes=1_000_000)) as server:
        head = POST + b"content-length: 400000\r\n\r\n"
        for _ in range(2):
            socks = [server.connect() for _ in range(4)]
            for sock in socks:
                sock.sendall(head + b"x" * 399_999)
            time.sleep(0.2)
            assert server.server.budget.used <= 1_000_000
            got = []
            for sock in socks:
                try:
                    sock.sendall(b"x")
                except ConnectionError:
                    continue
                got.append(take_answer(sock)[0])
                sock.close()
            assert sorted(got) == [200, 200, 503, 503]
        deadline = time.monotonic() + 30
        while server.server.budget.used:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_budget() -> None:
    budget = Budget(10)
    assert budget.reserve(10)
    assert not budget.reserve(1)
    budget.release(4)
    assert budget.reserve(4)
    assert budget.used == 10


def test_connections_of_one_address() -> None:
    with running(limits=Limits(address_connections=3), exempt=lambda _: False) as server:
        socks = [server.connect() for _ in range(3)]
        for sock in socks:
            sock.sendall(GET)
            assert read_answer(sock)[0] == 200
        with server.connect() as sock:
            assert statuses(read_all(sock)) == [503]
        socks.pop().close()
        time.sleep(0.1)
        with server.connect() as sock:
            sock.sendall(GET)
            assert read_answer(sock)[0] == 200
        for sock in socks:
            sock.close()


def test_connections_in_all() -> None:
    """Whoever comes too many waits, and gets its turn: those that sent nothing give way."""
    with running(limits=Limits(connections=10)) as server:
        idle = [server.connect() for _ in range(10)]
        for sock in idle[:5]:
            sock.sendall(GET)
            assert read_answer(sock)[0] == 200
        late = [server.connect() for _ in range(30)]
        for sock in late:
            sock.sendall(GET)
        for sock in late:
            assert read_answer(sock)[0] == 200
            assert server.server.connections <= 10
            sock.close()
        for sock in idle:
            sock.close()


def test_more_clients_than_connections_are_all_served() -> None:
    """Each sends many requests, and connects anew where it is told to; no request fails."""

    async def client(port: int) -> int:
        served = 0
        while served < 20:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            keep = True
            while keep and served < 20:
                writer.write(GET)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 ")
                await reader.readexactly(7)
                keep = b"connection: close" not in head
                served += 1
            writer.close()
            await writer.wait_closed()
        return served

    async def clients(port: int) -> list[int]:
        return await asyncio.gather(*(client(port) for _ in range(40)))

    with running(limits=Limits(connections=8)) as server:
        assert asyncio.run(clients(server.port)) == [20] * 40


def test_files_are_kept_back() -> None:
    limits = Limits(connections=1000)
    assert connections_for(limits, 32) == 16
    assert connections_for(limits, 1000) == 500
    assert connections_for(limits, 100_000) == 1000
    assert connections_for(limits, None) == 1000
    assert connections_for(limits, 0) == 1
    assert files_to_share() != 0


def test_a_client_that_half_closes_with_an_unfinished_body(quick: Running) -> None:
    """It is taken for gone."""
    with quick.connect() as sock:
        sock.sendall(POST + b"content-length: 10\r\n\r\nhel")
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b""
    wait_for_none(quick)


def test_a_client_that_half_closes_is_told_what_is_ready(quick: Running) -> None:
    with quick.connect() as sock:
        sock.sendall(GET * 3)
        sock.shutdown(socket.SHUT_WR)
        assert statuses(read_all(sock)) == [200, 200, 200]
    wait_for_none(quick)


def test_a_client_that_half_closes_is_not_waited_for() -> None:
    async def slow(request: Request) -> None:
        gone = asyncio.Event()
        request.on_gone = gone.set
        await gone.wait()

    with running(slow) as server, server.connect() as sock:
        sock.sendall(GET)
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b""
        wait_for_none(server)
