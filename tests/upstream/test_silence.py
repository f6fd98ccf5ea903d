"""Calls that say nothing: who is asked, and what ends without asking."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import FirstByteTimeout, SendTimeout
from dragoman.upstream.request import Timeouts, UpstreamRequest
from tests.upstream.servers import Call, Server

SILENT_S = 0.4
LARGE = b"x" * (16 * 1024 * 1024)


class Slow(Server):
    """Reads what it is sent, with pauses of `takes` seconds (None: never reads on), and answers
    a second after all of it came."""

    def __init__(self, takes: float | None) -> None:
        super().__init__(_unused)
        self.takes = takes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if self.takes is None:
            await asyncio.sleep(5.0)
        while left:
            left -= len(await reader.read(1024 * 1024))
            await asyncio.sleep(self.takes or 0.0)
        await asyncio.sleep(1.0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        await reader.read()


async def _unused(call: Call) -> None:
    raise AssertionError("it serves by itself")


async def send(takes: float | None, body: bytes, *, ends: bool) -> int:
    """How often somebody was asked."""
    asked = 0

    def silent() -> bool:
        nonlocal asked
        asked += 1
        return ends

    async with Slow(takes) as server, UpstreamClient() as client:
        limits = Timeouts(first_byte=10.0)
        request = UpstreamRequest(method="POST", url=server.url, body=body, timeouts=limits)
        async with await client.send(request, SILENT_S, silent) as answer:
            assert await answer.read(10) == b"ok"
    return asked


async def test_one_that_was_sent_goes_on_unless_it_is_ended() -> None:
    assert await send(0.0, b"x", ends=False) == 1
    with pytest.raises(FirstByteTimeout):
        await send(0.0, b"x", ends=True)


async def test_one_that_is_not_taken_is_ended_without_asking_for_leave() -> None:
    with pytest.raises(SendTimeout) as caught:
        await send(None, LARGE, ends=False)
    assert not caught.value.sent


async def test_a_slow_taker_is_waited_for() -> None:
    """As long as it takes something; silence counts from when it has all."""
    assert await send(0.02, LARGE, ends=False) == 1
