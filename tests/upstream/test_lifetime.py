"""Connections: kept, reused, given up at once, and never read faster than the caller reads."""

from __future__ import annotations

import asyncio
import gc
import selectors
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from dragoman.upstream import (
    ConnectionReset,
    Truncated,
    UpstreamClient,
    UpstreamRequest,
    UpstreamResponse,
    addresses,
    dial,
)
from tests.upstream.calling import post

from .servers import OK, PATIENCE, STREAM_HEAD, Call, Handler, Server, answers, chunk, silence


async def read_ok(client: UpstreamClient, url: str) -> None:
    async with await client.send(post(url)) as response:
        assert await response.read(10) == b"ok"


async def test_a_connection_is_used_again(client: UpstreamClient) -> None:
    async with Server(answers(OK)) as server:
        for _ in range(5):
            await read_ok(client, server.url)
        assert server.connections == 1


def test_a_request_without_a_body_leaves_nothing_to_write() -> None:
    """The standard loop of Python 3.12 and later would try to write an empty piece for ever."""
    selector = Looks()

    async def looks_while_nothing_happens() -> int:
        async with UpstreamClient() as client, Server(answers(OK)) as server:
            request = UpstreamRequest(method="GET", url=server.url)
            async with await client.send(request) as response:
                assert await response.read(10) == b"ok"
            before = selector.looks
            await asyncio.sleep(0.1)
            return selector.looks - before

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(looks_while_nothing_happens()) < 20


class Looks(selectors.DefaultSelector):
    """Counts how often a loop looks for something to do."""

    looks = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.looks += 1
        return super().select(timeout)


async def test_concurrent_calls_have_connections_of_their_own(client: UpstreamClient) -> None:
    together = asyncio.Barrier(5)

    async def handler(call: Call) -> None:
        await together.wait()
        await call.send(OK)

    async with Server(handler) as server:
        for _ in range(2):
            await asyncio.gather(*(read_ok(client, server.url) for _ in range(5)))
        assert server.connections == 5


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
        OK + b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n\r\nidle",
        OK + b"HT",
    ],
)
async def test_a_connection_that_is_spent_is_not_used_again(
    client: UpstreamClient, raw: bytes
) -> None:
    async with Server(answers(raw)) as server:
        for _ in range(3):
            await read_ok(client, server.url)
        assert server.connections == 3


async def test_an_old_connection_is_not_used_again() -> None:
    async with UpstreamClient(max_age=0.0) as client, Server(answers(OK)) as server:
        for _ in range(3):
            await read_ok(client, server.url)
        assert server.connections == 3


MISDIRECTED = b"HTTP/1.1 421 Misdirected Request\r\ncontent-length: 2\r\n\r\nok"


async def test_a_misdirected_request_is_not_repeated_on_its_connection(
    client: UpstreamClient,
) -> None:
    async with Server(answers(MISDIRECTED)) as server:
        for _ in range(2):
            await read_ok(client, server.url)
        assert server.connections == 2


async def test_a_misdirected_request_is_sent_on_another_connection(client: UpstreamClient) -> None:
    """A shared connection may lead to a host that does not serve the name any more."""
    calls = 0

    async def handler(call: Call) -> None:
        nonlocal calls
        calls += 1
        await call.send(MISDIRECTED if calls == 2 else OK)

    async with Server(handler) as server:
        for _ in range(2):
            await read_ok(client, server.url)
        assert (calls, server.connections) == (3, 2)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has this option")
async def test_a_host_that_vanished_is_noticed(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = []

    async def reach(host: str, port: int) -> socket.socket:
        sockets.append(await addresses.reach(host, port))
        return sockets[-1]

    monkeypatch.setattr(dial, "reach", reach)
    async with Server(answers(OK)) as server:
        await read_ok(client, server.url)
        (sock,) = sockets
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


def test_calls_to_a_host_that_vanished_end_soon() -> None:
    """Where no reset comes: in a network namespace."""
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        subprocess.run([*alone, "ip", "link"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare, ip and the right to make namespaces")
    command = [*alone, sys.executable, "-m", "tests.upstream.vanishing", "1000"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.split() == ["unreachable"] * 10


async def test_a_server_that_is_busy_has_not_vanished(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may leave most of a large request unread for as long as it likes."""
    monkeypatch.setitem(dial.VANISHED_MS, "TCP_USER_TIMEOUT", 300)
    body = b"x" * 16 * 1024 * 1024

    async def unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.5)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(body))
        writer.write(OK)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(unread, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with await client.send(UpstreamRequest(method="POST", url=url, body=body)) as answer:
            assert answer.status == 200


async def test_idle_connections_expire() -> None:
    left = asyncio.Event()

    async def handler(call: Call) -> None:
        await call.send(OK)
        await call.client_left()
        left.set()

    async with UpstreamClient(idle_expiry=0.1) as client, Server(handler) as server:
        await read_ok(client, server.url)
        async with asyncio.timeout(PATIENCE):
            await left.wait()


async def test_at_most_so_many_idle_connections_are_kept() -> None:
    together = asyncio.Barrier(3)

    async def handler(call: Call) -> None:
        await together.wait()
        await call.send(OK)

    async with UpstreamClient(max_idle=1) as client, Server(handler) as server:
        for _ in range(2):
            await asyncio.gather(*(read_ok(client, server.url) for _ in range(3)))
        assert server.connections == 5


def once(*endings: Callable[[Call], Awaitable[None]]) -> Handler:
    """Answers the first request of a connection; what follows meets one ending after another."""
    left = list(endings)

    async def handler(call: Call) -> None:
        if call.number == 0 or not left:
            await call.send(OK)
        else:
            await left.pop(0)(call)

    return handler


async def close(call: Call) -> None:
    call.writer.close()


async def reset(call: Call) -> None:
    call.reset()


async def half(call: Call) -> None:
    await call.send(b"HTTP/1.1")
    call.writer.close()


@pytest.mark.parametrize("ending", [close, reset])
async def test_a_stale_connection_costs_no_request(
    client: UpstreamClient, ending: Callable[[Call], Awaitable[None]]
) -> None:
    async with Server(once(ending)) as server:
        for _ in range(3):
            await read_ok(client, server.url)
        assert (server.connections, len(server.calls)) == (2, 4)


async def test_a_request_is_not_sent_again_once_an_answer_began(client: UpstreamClient) -> None:
    async with Server(once(half)) as server:
        await read_ok(client, server.url)
        with pytest.raises(ConnectionReset):
            await read_ok(client, server.url)
        assert len(server.calls) == 2


async def test_a_request_is_not_sent_a_third_time(client: UpstreamClient) -> None:
    """The fresh connection fails, too: that is the upstream's answer."""

    async def handler(call: Call) -> None:
        if server.connections == 1 and call.number == 0:
            await call.send(OK)
        else:
            call.writer.close()

    async with Server(handler) as server:
        await read_ok(client, server.url)
        with pytest.raises(ConnectionReset):
            await read_ok(client, server.url)
        assert len(server.calls) == 3


async def test_an_answer_before_the_request_was_read(client: UpstreamClient) -> None:
    """A 413 comes early; the connection, with a body half sent, is not used again."""

    gone: list[asyncio.StreamWriter] = []

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    listener = await asyncio.start_server(early, "127.0.0.1", 0, limit=2**16)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    for _ in range(2):
        async with await client.send(post(url, b"x" * 20_000_000)) as response:
            assert response.status == 413
    assert len(gone) == 2
    listener.close()
    for writer in gone:
        writer.transport.abort()


async def stream_forever(call: Call) -> None:
    await call.send(STREAM_HEAD + chunk(b"one"))
    await call.client_left()


async def wait_for_head(client: UpstreamClient, url: str) -> None:
    await client.send(post(url))


async def wait_in_stream(client: UpstreamClient, url: str) -> None:
    async with await client.send(post(url)) as response:
        async for _ in response:
            pass


async def wait_in_stream_unguarded(client: UpstreamClient, url: str) -> None:
    response = await client.send(post(url))
    async for _ in response:
        pass


class Watched(Server):
    """Tells when a client has left a call."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(self._watched, tls=tls)
        self.inner = handler
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    async def _watched(self, call: Call) -> None:
        self.begun.set()
        await self.inner(call)
        self.left.set()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("handler", "wait"),
    [
        (silence, wait_for_head),
        (stream_forever, wait_in_stream),
        (stream_forever, wait_in_stream_unguarded),
    ],
)
async def test_a_cancelled_call_closes_its_connection_at_once(
    handler: Handler,
    wait: Callable[[UpstreamClient, str], Awaitable[None]],
    tls: bool,
    client_tls: ssl.SSLContext,
    server_tls: ssl.SSLContext,
) -> None:
    """The upstream must stop working, and charging, for a client that left. req: 130, 131"""
    async with (
        UpstreamClient(tls=client_tls) as client,
        Watched(handler, server_tls if tls else None) as server,
    ):
        task = asyncio.ensure_future(wait(client, server.url))
        async with asyncio.timeout(PATIENCE):
            await server.begun.wait()
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()


async def leave_block(client: UpstreamClient, url: str) -> None:
    async with await client.send(post(url)) as response:
        async for _ in response:
            break


async def drop(client: UpstreamClient, url: str) -> None:
    response: UpstreamResponse | None = await client.send(post(url))
    assert response is not None
    del response
    gc.collect()


async def close_client(client: UpstreamClient, url: str) -> None:
    response = await client.send(post(url))
    await client.aclose()
    with pytest.raises(Truncated):
        await response.read(1000)


@pytest.mark.parametrize("end", [leave_block, drop, close_client])
async def test_a_call_given_up_closes_its_connection(
    client: UpstreamClient, end: Callable[[UpstreamClient, str], Awaitable[None]]
) -> None:
    async with Watched(stream_forever) as server:
        await end(client, server.url)
        async with asyncio.timeout(PATIENCE):
            await server.left.wait()


async def test_a_reader_in_another_task_learns_of_the_end(client: UpstreamClient) -> None:
    async with Watched(stream_forever) as server:
        response = await client.send(post(server.url))
        reader = asyncio.ensure_future(response.read(1000))
        async with asyncio.timeout(PATIENCE):
            await asyncio.sleep(0.05)
            response.close()
            with pytest.raises(Truncated):
                await reader
            await server.left.wait()


async def test_cancelling_while_connecting_leaves_nothing_behind(client: UpstreamClient) -> None:
    async with Server(silence, tls=None) as server:
        # TLS is never answered: the server waits for the end of a request line.
        task = asyncio.ensure_future(
            client.send(UpstreamRequest(method="GET", url=f"https://127.0.0.1:{server.port}"))
        )
        async with asyncio.timeout(PATIENCE):
            await server.reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.abandoned.wait()


@pytest.mark.parametrize("tls", [False, True])
async def test_an_upstream_is_not_read_faster_than_the_caller_reads(
    tls: bool, client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    """A slow reader costs no memory: the upstream is made to wait."""
    piece, pieces = b"x" * 65536, 1024
    taken = 0

    async def flood(call: Call) -> None:
        nonlocal taken
        await call.send(STREAM_HEAD)
        for _ in range(pieces):
            await call.send(chunk(piece))
            taken += len(piece)
        await call.send(b"0\r\n\r\n")

    async with (
        UpstreamClient(tls=client_tls) as client,
        Server(flood, tls=server_tls if tls else None) as server,
        await client.send(post(server.url)) as response,
    ):
        before = -1
        async with asyncio.timeout(PATIENCE):
            while before != taken:
                before = taken
                await asyncio.sleep(0.2)
        # What is in flight sits in the kernel's buffers, a few megabytes on loopback.
        assert taken < len(piece) * pieces / 4
        got = 0
        largest = 0
        async for data in response:
            got += len(data)
            largest = max(largest, len(data))
        assert got == len(piece) * pieces
        assert largest <= 64 * 1024
