"""The client's connection: detect at once that it is lost, or break it on purpose."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Protocol

_LINGER_OFF = struct.pack("ii", 1, 0)
_SETTLE_SECONDS = 0.02


class Served(Protocol):
    """The parts of a request that are used here: of HTTP, or of one over a WebSocket."""

    on_gone: Callable[[], object] | None

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport of its connection."""

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Send a whole answer."""

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Start an answer."""

    async def write(self, data: bytes) -> None:
        """Send a piece of it."""

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of it."""


class Connection:
    """A connection for the time of one request.

    ``lost`` turns true when the client leaves or the simulator breaks the connection.
    """

    __slots__ = ("_loop", "_transport", "_waiter", "lost")

    def __init__(self, request: Served) -> None:
        transport = request.transport
        self.lost = transport is None
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        request.on_gone = self._on_lost

    def _on_lost(self) -> None:
        self.lost = True
        _wake(self._waiter)

    async def pause(self, seconds: float) -> bool:
        """Wait so long or until the connection is lost; returns whether it is still open."""
        if self.lost:
            return False
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        return not self.lost

    def write(self, data: bytes) -> None:
        """Write bytes past the HTTP layer."""
        if self._transport is not None:
            self._transport.write(data)

    async def close(self) -> None:
        """Flush what was written and close, whatever the HTTP layer still expects."""
        if self._transport is not None:
            self._transport.close()
            await self._gone()

    async def reset(self) -> None:
        """Break the connection with a TCP reset, after a pause in which written data arrives."""
        if await self.pause(_SETTLE_SECONDS) and self._transport is not None:
            sock: socket.socket = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
            self._transport.abort()
            await self._gone()

    async def _gone(self) -> None:
        while not self.lost:
            await self.pause(1.0)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
