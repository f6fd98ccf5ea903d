"""The answer to one request on a connection: what has arrived, who waits, and the time limits."""

import asyncio
from collections.abc import Callable
from copy import copy
from typing import Protocol

from msgspec.structs import replace

from dragoman.http.clock import Clock, Timeout
from dragoman.upstream.errors import (
    ConnectionReset,
    FirstByteTimeout,
    IdleTimeout,
    SendTimeout,
    TotalTimeout,
    Truncated,
)
from dragoman.upstream.request import Timeouts

HIGH_WATER = 32 * 1024
"""Bytes of a body buffered for a slow caller; beyond, the socket is not read."""


class Carrier(Protocol):
    """The connection that the answer comes over."""

    def abort(self) -> None:
        """Close the connection at once."""

    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the socket."""

    def unsent(self) -> int:
        """Bytes of the request that were not taken yet: as long as there are some, nobody can have
        read all of it."""


class IncomingResponse:
    """The state of one answer.

    The connection feeds it (`on_*`), one caller takes from it (`head`, `next_chunk`, `pipe`).
    Whatever ends it early closes the connection at once.
    """

    __slots__ = (
        "_buffered",
        "_chunks",
        "_clock",
        "_connection",
        "_loop",
        "_on_silent",
        "_sent_at",
        "_silent_at",
        "_silent_s",
        "_sink",
        "_timeouts",
        "_timer",
        "_total_at",
        "_unsent",
        "_waiter",
        "_waiting_since",
        "complete",
        "error",
        "has_head",
        "in_bulk",
        "paused",
        "raw_headers",
        "received",
        "status",
    )

    def __init__(
        self,
        clock: Clock,
        timeouts: Timeouts,
        total_at: float,
        connection: Carrier,
        silent_s: float = 0.0,
        on_silent: Callable[[], bool] | None = None,
    ) -> None:
        """The request is handed to the connection: the clock runs.

        Args:
            clock: of the running loop.
            timeouts: limits of the call.
            total_at: loop time at which the whole call must be over; 0 for no limit.
            connection: the connection.
            silent_s: seconds without a head after which `on_silent` is called, 0 for never.
            on_silent: whether the call is to end.
        """
        self._connection = connection
        self._clock = clock
        self._loop = clock.loop
        self._timeouts = timeouts
        self._total_at = total_at
        self._timer: asyncio.TimerHandle | Timeout | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._sent_at = self._loop.time()
        self._sink: Callable[[bytes], bool] | None = None
        self._chunks: list[bytes] = []
        self._buffered = 0
        self.status = 0
        self.raw_headers: list[tuple[bytes, bytes]] = []
        """Names, in lower case, and values."""
        self.received = 0
        """Bytes of the answer that arrived, its head and its framing among them."""
        self.has_head = False
        self.paused = False
        """Whether the socket is not read because the caller is slow."""
        self.in_bulk = False
        """Whether a sink takes what arrives, much of it at once."""
        self.complete = False
        self.error: Exception | None = None
        """What ended the call early. Copies are raised: a traceback would reference the error
        itself."""
        self._silent_s = silent_s
        self._silent_at = self._sent_at + silent_s if silent_s else 0.0
        self._unsent = 0
        self._on_silent = on_silent
        limit = timeouts.first_byte
        self._limit(silent_s if silent_s and (not limit or silent_s < limit) else limit)

    # What the caller does

    async def head(self) -> None:
        """Wait until status and headers are there.

        Raises:
            CallError: they will not come.
        """
        try:
            while not self.has_head:
                if self.error is not None:
                    raise copy(self.error)
                self._waiter = waiter = self._loop.create_future()
                await waiter
        except asyncio.CancelledError:
            self.close()
            raise

    async def next_chunk(self) -> bytes:
        """The bytes of the body that have arrived, at least one.

        Raises:
            StopAsyncIteration: the body is complete, and all of it was taken.
            CallError: the body will not be complete. Raised once all that came was taken.
        """
        try:
            while not self._chunks:
                if self.error is not None:
                    raise copy(self.error)
                if self.complete:
                    raise StopAsyncIteration
                await self._arrival()
        except asyncio.CancelledError:
            self.close()
            raise
        return self.take()

    async def pipe(self, sink: Callable[[bytes], bool], *, in_bulk: bool = False) -> bool:
        """Give the body to `sink` as it arrives, at once: neither this task nor those who wait for
        it are woken for it. Until `sink` returns False (then True), or has had all (then False).
        `in_bulk`: as in `UpstreamResponse.pipe`.

        Raises:
            CallError: the body will not be complete. Raised once all that came was taken.
            Exception: `sink`'s own.
        """
        try:
            while True:
                if self._chunks and not sink(self.take()):
                    return True
                if self.error is not None:
                    raise copy(self.error)
                if self.complete:
                    return False
                self._sink, self.in_bulk = sink, in_bulk
                await self._arrival()
                if self._sink is None:
                    return True
                self._sink = None
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._sink, self.in_bulk = None, False

    def take(self) -> bytes:
        """The bytes of the body that have arrived, without waiting for any."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._buffered = 0
        if self.paused:
            self.paused = False
            if self.error is None and not self.complete:
                self._connection.pause(False)
        return data

    def close(self) -> None:
        """End the call; where the answer is not complete, the connection closes at once.

        A caller that waits in another task gets `Truncated`.
        """
        if not self.complete and self.error is None:
            self.fail(Truncated("the call was ended here"))

    def drop(self) -> None:
        """As `close`, from wherever the last reference was dropped."""
        if not self._loop.is_closed():
            self.close()

    def _arrival(self) -> asyncio.Future[None]:
        """Done when more of the body has arrived, or nothing more will. Its clock starts here: most
        whole answers come with their head in one read."""
        if not self._waiting_since:
            self._stop_timer()
            self._limit(self._timeouts.idle)
        self._waiting_since = self._loop.time()
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def on_sent(self, limit: float) -> None:
        """The rest of the request was handed over only now: its answer must begin within `limit`
        seconds, 0 for any time."""
        if not self.has_head:
            self._sent_at = self._loop.time()
            self._timeouts = replace(self._timeouts, first_byte=limit)
            self._arm()

    # What the connection does

    def on_head(self, status: int) -> None:
        """Status and headers are complete."""
        self.status = status
        self.has_head = True
        self._on_silent = None
        self._wake()

    def on_body(self, data: bytes) -> None:
        """Bytes of the body arrived."""
        self._chunks.append(data)
        self._buffered += len(data)
        if self._sink is None and self._waiter is not None:
            self._wake()

    def on_read(self) -> None:
        """All bytes of one read of the socket were passed to `on_head` and `on_body`."""
        sink, waiter = self._sink, self._waiter
        # Nothing is given to a caller that was cancelled but has not run yet.
        if sink is None or waiter is None or waiter.done() or not self._chunks:
            if self._buffered > HIGH_WATER and not (self.paused or self.complete):
                self.paused = True
                self._connection.pause(True)
            return
        self._waiting_since = self._loop.time()
        try:
            if sink(self.take()):
                return
        except Exception as error:
            if not waiter.done():
                waiter.set_exception(error)
        self._sink = None
        self._wake()
        # The traceback of an error references this frame, and the waiter the error.
        del waiter

    def on_complete(self) -> None:
        """The answer is whole."""
        self.complete = True
        self._stop_timer()
        if self._waiter is not None:
            self._wake()

    def on_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        if self.complete or self.error is not None:
            return
        if not self.has_head:
            self.fail(ConnectionReset("the connection was closed before an answer began"))
        elif error is None and not _is_framed(self.raw_headers):
            self.on_complete()
        else:
            self.fail(Truncated("the connection was closed before the answer was complete"))

    def fail(self, error: Exception) -> None:
        """End the call with an error; the caller gets it after what has arrived."""
        if self.complete or self.error is not None:
            return
        self.error = error
        self._stop_timer()
        self._connection.abort()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        # A caller that was cancelled has cancelled what it waits for.
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The clock: one timer that is set anew when it rings, so that a chunk costs no timer

    def _limit(self, seconds: float) -> None:
        """Ring after `seconds` (0: never), or when the call must be over if that is sooner."""
        if self._total_at and (not seconds or self._total_at < self._loop.time() + seconds):
            self._timer = self._loop.call_at(self._total_at, self._ring)
        elif seconds:
            self._timer = self._clock.after(seconds, self._ring)

    def _arm(self) -> None:
        self._stop_timer()
        deadlines = [self._total_at] if self._total_at else []
        if not self.has_head:
            if self._timeouts.first_byte:
                deadlines.append(self._sent_at + self._timeouts.first_byte)
            if self._silent_at:
                deadlines.append(self._silent_at)
        elif self._timeouts.idle:
            since = self._waiting_since if self._waiter is not None else self._loop.time()
            deadlines.append(since + self._timeouts.idle)
        if deadlines:
            self._timer = self._loop.call_at(min(deadlines), self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        limits = self._timeouts
        if self._total_at and now >= self._total_at:
            self.fail(TotalTimeout(f"the call took longer than {limits.total:g} s"))
        elif not self.has_head:
            if limits.first_byte and now >= self._sent_at + limits.first_byte:
                self.fail(FirstByteTimeout(f"no answer began within {limits.first_byte:g} s"))
            elif self._silent_at and now >= self._silent_at:
                self._look_for_silence(now)
        elif limits.idle and self._waiter is not None and now >= self._waiting_since + limits.idle:
            self.fail(IdleTimeout(f"the answer was silent for {limits.idle:g} s"))
        if self.error is None:
            self._arm()

    def _look_for_silence(self, now: float) -> None:
        """Ask whether to go on, where the request was sent whole at the last look. One of which
        nothing was taken since then cannot have done anything, so nobody is asked."""
        before, self._unsent = self._unsent, self._connection.unsent()
        if self._unsent != before:
            self._silent_at = now + self._silent_s
            return
        self._silent_at = 0.0
        on_silent, self._on_silent = self._on_silent, None
        ends = on_silent is not None and on_silent()
        if self._unsent:
            self.fail(SendTimeout(f"nothing of the request was taken for {self._silent_s:g} s"))
        elif ends:
            late = f"no answer began within {self._silent_s:g} s, as is usual"
            self.fail(FirstByteTimeout(late))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_framed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the headers define the end of the body; otherwise it ends with the connection."""
    for name, value in headers:
        if name == b"content-length":
            return True
        if name == b"transfer-encoding" and b"chunked" in value.lower():
            return True
    return False
