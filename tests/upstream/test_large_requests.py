"""Large requests are sent in pieces, between which others have their turn."""

from __future__ import annotations

import asyncio
import os

from dragoman.http.turns import Turns
from dragoman.upstream import connection as module
from dragoman.upstream.connection import Connection


class Recorder(asyncio.Transport):
    """Keeps what is written, and is full when told so."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__()
        self.protocol = protocol
        self.written: list[bytes] = []
        self.full_after = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        if len(self.written) == self.full_after:
            self.protocol.pause_writing()


def sent(size: int, full_after: int = 0) -> tuple[Recorder, bytes, list[int]]:
    """What is written of a request of `size` bytes, and how much of it at each turn of the loop."""
    body = os.urandom(size)
    turns: list[int] = []

    async def run() -> Recorder:
        loop = asyncio.get_running_loop()
        connection = Connection(
            loop, memoryview(bytearray(10)), Turns(loop), 0, lambda _: None, lambda _: None
        )
        transport = Recorder(connection)
        transport.full_after = full_after
        connection.connection_made(transport)
        connection.begin(b"head", body)
        for _ in range(50):
            turns.append(len(transport.written))
            await asyncio.sleep(0)
        return transport

    return asyncio.run(run()), body, turns


def test_a_large_body_goes_out_piece_by_piece() -> None:
    transport, body, turns = sent(5_000_001)
    assert transport.written[0] == b"head"
    assert b"".join(transport.written[1:]) == body
    assert max(map(len, transport.written)) <= module._PIECE
    assert turns[:4] == [2, 3, 4, 5]


def test_no_more_is_written_than_is_taken() -> None:
    transport, body, _ = sent(5_000_001, full_after=4)
    assert len(transport.written) == 4
    transport.full_after = 0

    async def go_on() -> None:
        transport.protocol._loop = asyncio.get_running_loop()
        transport.protocol.resume_writing()
        for _ in range(50):
            await asyncio.sleep(0)

    asyncio.run(go_on())
    assert b"".join(transport.written[1:]) == body
