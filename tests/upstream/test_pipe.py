"""A body that is piped: each piece is passed to a sink when it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import weakref
from collections.abc import Callable

import pytest

from dragoman.upstream import IdleTimeout, Timeouts, TotalTimeout, Truncated, UpstreamClient
from tests.upstream.calling import post

from .servers import PATIENCE, STREAM_HEAD, Call, Handler, Server, answers, chunk

SOON = 0.2
END = b"0\r\n\r\n"

Sink = Callable[[bytes], bool]


def slowly(*raw: bytes) -> Handler:
    """A handler that sends pieces far enough apart to arrive each by itself."""

    async def handler(call: Call) -> None:
        for part in raw:
            await call.send(part)
            await asyncio.sleep(0.01)

    return handler


async def test_every_piece_is_given_as_it_comes(client: UpstreamClient) -> None:
    pieces = [b"one", b"two", b"three"]
    server = Server(slowly(STREAM_HEAD, *(chunk(piece) for piece in pieces), END))
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with server, await client.send(post(server.url)) as response:
        assert await response.pipe(take) is False
        assert response.has_arrived
        # There is nothing more, however often one asks.
        assert await response.pipe(take) is False
    assert taken == pieces


async def test_what_one_read_brings_is_given_at_once(client: UpstreamClient) -> None:
    """Many small chunks cost one call, and whoever writes them on one write."""
    whole = b"".join(chunk(b"x") for _ in range(100))
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with (
        Server(slowly(STREAM_HEAD, whole, END)) as server,
        await client.send(post(server.url)) as response,
    ):
        assert await response.pipe(take) is False
    assert taken == [b"x" * 100]


async def test_a_sink_that_has_enough_gets_no_more(client: UpstreamClient) -> None:
    """What comes meanwhile is kept for whoever asks next."""
    pieces = [b"one", b"two", b"three", b"four"]
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return False

    async with (
        Server(slowly(STREAM_HEAD, *(chunk(piece) for piece in pieces), END)) as server,
        await client.send(post(server.url)) as response,
    ):
        assert await response.pipe(take) is True
        assert taken == [b"one"]
        await asyncio.sleep(0.1)
        assert taken == [b"one"]
        assert await anext(response) == b"twothreefour"
        assert await response.pipe(take) is False


async def test_a_reader_that_stops_taking_stops_the_socket(client: UpstreamClient) -> None:
    sent = 0

    async def flood(call: Call) -> None:
        nonlocal sent
        await call.send(STREAM_HEAD)
        for _ in range(10_000):
            await call.send(chunk(bytes(64 * 1024)))
            sent += 64 * 1024

    async with Server(flood) as server, await client.send(post(server.url)) as response:
        assert await response.pipe(lambda data: False) is True
        before = -1
        async with asyncio.timeout(PATIENCE):
            while sent != before:
                before = sent
                await asyncio.sleep(0.2)
        assert sent < 64 * 1024 * 1024


async def test_the_sinks_own_error_comes_out(client: UpstreamClient) -> None:
    def take(data: bytes) -> bool:
        raise KeyError(data)

    for raw in ([STREAM_HEAD + chunk(b"at once")], [STREAM_HEAD, chunk(b"later")]):
        async with Server(slowly(*raw, END)) as server:
            with pytest.raises(KeyError):
                async with await client.send(post(server.url)) as response:
                    await response.pipe(take)


@pytest.mark.parametrize(
    ("limits", "error"),
    [(Timeouts(idle=SOON), IdleTimeout), (Timeouts(total=SOON), TotalTimeout)],
)
async def test_silence_ends_it(
    client: UpstreamClient, limits: Timeouts, error: type[Exception]
) -> None:
    async def silent(call: Call) -> None:
        await call.send(STREAM_HEAD + chunk(b"so far"))
        await call.client_left()

    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with Server(silent) as server:
        with pytest.raises(error):
            async with await client.send(post(server.url, timeouts=limits)) as response:
                await response.pipe(take)
        async with asyncio.timeout(PATIENCE):
            await server.abandoned.wait()
    assert taken == [b"so far"]


async def test_pieces_keep_it_alive(client: UpstreamClient) -> None:
    """The limit is for silence: a body that goes on may take several times as long."""

    async def going_on(call: Call) -> None:
        await call.send(STREAM_HEAD)
        for _ in range(12):
            await asyncio.sleep(SOON / 4)
            await call.send(chunk(b"."))
        await call.send(END)

    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with (
        Server(going_on) as server,
        await client.send(post(server.url, timeouts=Timeouts(idle=SOON))) as response,
    ):
        assert await response.pipe(take) is False
    assert b"".join(taken) == b"." * 12


@pytest.mark.parametrize("raw", [(chunk(b"half"),), (chunk(b"half"), b"5\r\nab")])
async def test_a_body_that_is_cut_short(client: UpstreamClient, raw: tuple[bytes, ...]) -> None:
    """What came is given before the error is told."""
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with Server(answers(STREAM_HEAD, *raw, close=True)) as server:
        with pytest.raises(Truncated):
            async with await client.send(post(server.url)) as response:
                await response.pipe(take)
    assert b"".join(taken).startswith(b"half")


async def test_cancelled_it_closes_the_connection(client: UpstreamClient) -> None:
    async def silent(call: Call) -> None:
        await call.send(STREAM_HEAD + chunk(b"so far"))
        await call.client_left()

    async with Server(silent) as server:
        response = await client.send(post(server.url))
        begun = asyncio.Event()

        def take(data: bytes) -> bool:
            begun.set()
            return True

        piping = asyncio.create_task(response.pipe(take))
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            piping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await piping
            await server.abandoned.wait()


async def test_a_caller_that_was_cancelled_is_given_nothing_more(client: UpstreamClient) -> None:
    """It may hear of it only after what arrives meanwhile, and could not use that any more."""

    async def cancelling(call: Call) -> None:
        await call.send(STREAM_HEAD + chunk(b"in time"))
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        await call.send(chunk(b"too late"))
        piping.cancel()
        await call.client_left()

    taken: list[bytes] = []
    begun = asyncio.Event()

    def take(data: bytes) -> bool:
        taken.append(data)
        begun.set()
        return True

    async with Server(cancelling) as server:
        response = await client.send(post(server.url))
        piping = asyncio.create_task(response.pipe(take))
        with pytest.raises(asyncio.CancelledError):
            await piping
    assert taken == [b"in time"]


async def test_an_error_of_the_sink_leaves_nothing_behind(client: UpstreamClient) -> None:
    """What it was given and what it holds die with the error, without a search for cycles."""

    class Held:
        """Something that can be watched."""

    def failing(held: Held) -> Sink:
        def take(data: bytes) -> bool:
            raise KeyError(held)

        return take

    held = Held()
    watched = weakref.ref(held)
    take = failing(held)
    del held
    gc.disable()
    try:
        async with Server(slowly(STREAM_HEAD, chunk(b"later"), END)) as server:
            with contextlib.suppress(KeyError):
                async with await client.send(post(server.url)) as response:
                    await response.pipe(take)
            del take
            await asyncio.sleep(0)
            assert watched() is None
    finally:
        gc.enable()


async def test_a_coded_body_is_piped_decoded(client: UpstreamClient) -> None:
    text = b"text " * 10_000
    coded = gzip.compress(text)
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    half = len(coded) // 2
    raw = (head, chunk(coded[:half]), chunk(coded[half:]), END)
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return True

    async with Server(slowly(*raw)) as server, await client.send(post(server.url)) as response:
        assert await response.pipe(take) is False
    assert b"".join(taken) == text
