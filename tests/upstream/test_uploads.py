"""Requests whose body is sent while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.upstream import (
    ConnectionReset,
    FirstByteTimeout,
    Timeouts,
    UpstreamClient,
    UpstreamRequest,
)
from dragoman.upstream.errors import SendTimeout

from .servers import OK, PATIENCE, Call, Server

MEGABYTE = 1024 * 1024


class Pieces:
    """A source of pieces, the next of which is made when it is asked for."""

    def __init__(self, *pieces: bytes, known: bool = True, error: Exception | None = None) -> None:
        self.length = sum(map(len, pieces)) if known else -1
        self.left = list(pieces)
        self.error = error
        self.given = 0
        self.more = asyncio.Event()
        """Where there is an `error`, the source waits for this first."""

    def anew(self) -> bool:
        return not self.given

    async def pipe(self, sink: Callable[[bytes], bool]) -> bool:
        await asyncio.sleep(0)
        while self.left:
            piece = self.left.pop(0)
            self.given += len(piece)
            if not sink(piece):
                return True
        if self.error is not None:
            await self.more.wait()
            raise self.error
        return False


def upload(url: str, source: Pieces, **timeouts: float) -> UpstreamRequest:
    limits = Timeouts(**timeouts)
    return UpstreamRequest(method="POST", url=url, source=source, timeouts=limits)


class Reader:
    """A server that takes bodies by hand."""

    def __init__(self, handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]):
        self.server = Server(lambda call: asyncio.sleep(0))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await handler(reader, writer)  # type: ignore[misc]

        self.server.serve = serve  # type: ignore[method-assign]


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_a_body_with_a_length(client: UpstreamClient) -> None:
    async def answer(call: Call) -> None:
        await call.send(OK)

    async with Server(answer) as server:
        for number in range(2):
            source = Pieces(b"a" * MEGABYTE, b"b" * 5, b"c" * 300_000)
            async with await client.send(upload(server.url, source)) as response:
                assert response.status == 200
                assert await response.read(10) == b"ok"
            call = server.calls[number]
            assert call.body == b"a" * MEGABYTE + b"b" * 5 + b"c" * 300_000
            assert ("content-length", str(source.length)) in call.headers
        # Each has a connection of its own, and leaves it to others.
        assert server.connections == 2
        async with await client.send(UpstreamRequest(method="GET", url=server.url)):
            pass
        assert server.connections == 2


async def test_a_body_of_unknown_length_goes_in_chunks(client: UpstreamClient) -> None:
    found: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"transfer-encoding: chunked" in await head_of(reader)
        while size := int(await reader.readline(), 16):
            found.append(await reader.readexactly(size))
            assert await reader.readexactly(2) == b"\r\n"
        assert await reader.readexactly(2) == b"\r\n"
        writer.write(OK)

    async with Reader(take).server as server:
        source = Pieces(b"one", b"two" * 50_000, known=False)
        async with await client.send(upload(server.url, source)) as response:
            assert response.status == 200
    assert found == [b"one", b"two" * 50_000]


async def test_an_upstream_that_takes_nothing_stops_the_source(client: UpstreamClient) -> None:
    go_on = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        await go_on.wait()
        await reader.readexactly(64 * MEGABYTE)
        writer.write(OK)

    async with Reader(wait).server as server:
        source = Pieces(*[b"x" * 65536] * 1024)
        sending = asyncio.create_task(client.send(upload(server.url, source)))
        before = -1
        while source.given != before:
            before = source.given
            await asyncio.sleep(0.1)
        assert source.given < 32 * MEGABYTE
        go_on.set()
        async with await sending as response:
            assert response.status == 200
        assert source.given == 64 * MEGABYTE


async def test_silence_while_it_sends_and_after(client: UpstreamClient) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(PATIENCE)

    async with Reader(silent).server as server:
        large = Pieces(*[b"x" * MEGABYTE] * 64)
        with pytest.raises(SendTimeout):
            await client.send(upload(server.url, large, idle=0.1))
        with pytest.raises(FirstByteTimeout):
            await client.send(upload(server.url, Pieces(b"x"), first_byte=0.1))


async def test_the_time_that_a_body_takes_is_not_the_answers(client: UpstreamClient) -> None:
    class Slow(Pieces):
        async def pipe(self, sink: Callable[[bytes], bool]) -> bool:
            await asyncio.sleep(0.3)
            return await super().pipe(sink)

    async def answer(call: Call) -> None:
        await call.send(OK)

    async with Server(answer) as server:
        sent = upload(server.url, Slow(b"x"), first_byte=0.2, idle=0.2)
        async with await client.send(sent) as response:
            assert response.status == 200


@pytest.mark.parametrize("closes", [False, True])
async def test_an_early_answer_ends_the_sending(client: UpstreamClient, closes: bool) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 413 No\r\ncontent-length: 4\r\n\r\nfull")
        await writer.drain()
        if not closes:
            while await reader.read(65536):
                pass

    async with Reader(refuse).server as server:
        source = Pieces(b"x", error=ValueError("asked for what nobody wants"))
        async with await client.send(upload(server.url, source)) as response:
            assert response.status == 413
            assert await response.read(10) == b"full"
        # Its connection cannot carry another request.
        await server.abandoned.wait()
        assert source.given == 1


async def test_an_answer_may_begin_while_the_body_goes_on(client: UpstreamClient) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n")
        for _ in range(2):
            writer.write(await reader.readexactly(3))
            await writer.drain()

    class Paused(Pieces):
        async def pipe(self, sink: Callable[[bytes], bool]) -> bool:
            sink(b"one")
            await self.more.wait()
            sink(b"two")
            return False

    async with Reader(echo).server as server:
        source = Paused()
        source.length = 6
        async with await client.send(upload(server.url, source)) as response:
            assert await anext(response) == b"one"
            source.more.set()
            assert await anext(response) == b"two"


async def test_an_error_of_the_source_closes_the_connection(client: UpstreamClient) -> None:
    ended: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        ended.append(await reader.read())

    async with Reader(take).server as server:
        source = Pieces(b"half", error=ValueError("the client left"))
        source.length = 8
        source.more.set()
        with pytest.raises(ValueError, match="the client left"):
            await client.send(upload(server.url, source))
        await server.abandoned.wait()
    assert ended in ([b"half"], [])


async def test_a_connection_that_breaks_while_it_sends(client: UpstreamClient) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(100)

    async with Reader(leave).server as server:
        source = Pieces(b"x" * 1000, error=ValueError("never raised"))
        with pytest.raises(ConnectionReset):
            await client.send(upload(server.url, source))
