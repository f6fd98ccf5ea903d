"""The bytes that wait to be sent to a client, and for how long."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from math import inf

from dragoman.http.limits import Budget, Limits

_RESET = struct.pack("ii", 1, 0)


class Sending:
    """The sending side of a connection.

    `paused`: more than the limit waits to be sent, and applications wait in `drained`. A client
    must read at a minimum rate; `deadline` is the loop time of the next check, infinite while
    nothing waits.
    """

    __slots__ = (
        "_budget",
        "_drain",
        "_limits",
        "_loop",
        "_reserved",
        "_unsent",
        "deadline",
        "paused",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, budget: Budget) -> None:
        self._loop = loop
        self._limits = limits
        self._budget = budget
        self.transport: asyncio.Transport | None = None
        self.paused = False
        self.deadline = inf
        self._unsent = 0
        """Bytes that waited at the last check."""
        self._reserved = 0
        """Bytes of the memory budget for an answer that the client has not read."""
        self._drain: asyncio.Future[None] | None = None

    def open(self, transport: asyncio.Transport) -> None:
        """The connection is open."""
        self.transport = transport
        transport.set_write_buffer_limits(self._limits.send_bytes)

    def lost(self) -> None:
        """The connection is gone: nobody waits for it any more."""
        self.transport = None
        self.deadline = inf
        self._release()
        self._wake()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self.transport is not None:
            self.transport.write(data)

    async def drained(self) -> None:
        """Wait until less waits to be sent, or the connection is gone."""
        while self.paused and self.transport is not None:
            self._drain = self._loop.create_future()
            await self._drain

    def pause(self) -> None:
        """More than the limit waits to be sent."""
        self.paused = True
        self.watch()

    def resume(self) -> None:
        """The client has read most of it."""
        self.paused = False
        self.deadline = inf
        self._release()
        self._wake()

    def reserve(self, size: int) -> None:
        """Take over a reservation of the memory budget until the client has read its answer."""
        self._reserved += size

    def watch(self) -> None:
        """Require progress of the client from now on."""
        self._unsent = self._waiting()
        self.deadline = self._loop.time() + (self._limits.send_s or inf) if self._unsent else inf

    def on_deadline(self) -> None:
        """Abort if the client has not read enough."""
        enough = min(self._limits.rate * self._limits.send_s, self._unsent)
        if self._unsent - self._waiting() < enough:
            self.abort()
        else:
            self.watch()

    def abort(self) -> None:
        """Close at once, whatever waits."""
        if self.transport is not None:
            self.transport.abort()

    def reset(self) -> None:
        """Close with a reset, so that the client cannot take it for a regular end."""
        if self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()

    def _wake(self) -> None:
        waiter, self._drain = self._drain, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _release(self) -> None:
        if self._reserved:
            self._budget.release(self._reserved)
            self._reserved = 0

    def _waiting(self) -> int:
        """Bytes that the client has not read: here, and in the kernel. 0 if none waits here."""
        return 0 if self.transport is None else unread_bytes(self.transport)


def unread_bytes(transport: asyncio.Transport) -> int:
    """Bytes that the other end has not read: here, and in the kernel. 0 if none waits here."""
    waiting = transport.get_write_buffer_size()
    if not waiting:
        return 0
    sock = transport.get_extra_info("socket")
    queued: int
    try:
        (queued,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    except OSError:
        queued = 0
    return waiting + queued
