"""The answer to one request on a connection: what has arrived, who waits, and the time limits."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from math import inf

from msgspec import Struct
from msgspec.structs import replace

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


class Carrier(ABC):
    """A connection that answers come over, one at a time."""

    _rings_at = inf
    """Loop time at which the limits of an answer are looked at. The timer is not stopped with the
    answer, but serves the next: most end long before, and cost no timer."""
    _timer: asyncio.TimerHandle | None = None
    _loop: asyncio.AbstractEventLoop
    _incoming: IncomingResponse | None = None

    @abstractmethod
    def abort(self) -> None:
        """Close the connection at once."""

    @abstractmethod
    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the socket."""

    @abstractmethod
    def unsent(self) -> int:
        """Bytes of the request that were not taken yet: as long as there are some, nobody can have
        read all of it."""

    def expect(
        self,
        timeouts: Timeouts,
        total_at: float,
        silent_s: float = 0.0,
        on_silent: Callable[[], bool] | None = None,
    ) -> IncomingResponse:
        """The answer to a request that is sent: its clock runs.

        Args:
            timeouts: limits of the call.
            total_at: loop time at which the whole call must be over, infinite for no limit.
            silent_s: seconds without a head after which `on_silent` is called, 0 for never.
            on_silent: whether the call is to end.
        """
        assert self._incoming is None, "one exchange at a time"
        loop = self._loop
        now, head = loop.time(), loop.create_future()
        first_at, silent_at = now + (timeouts.first_byte or inf), now + (silent_s or inf)
        self._incoming = incoming = IncomingResponse(
            self, loop, timeouts, head, total_at, first_at, silent_at, silent_s, on_silent
        )
        due = min(total_at, first_at, silent_at)
        if due < self._rings_at:
            self.watch(due)
        return incoming

    def watch(self, due: float) -> None:
        """Look at the limits of the answer at `due`, if not sooner."""
        if due < self._rings_at:
            self._stop_timer()
            self._rings_at, self._timer = due, self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._rings_at = inf
        if self._incoming is not None:
            self.watch(self._incoming.check_limits())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class IncomingResponse(Struct, eq=False):
    """The state of one answer.

    The connection feeds it (`on_*`), one caller takes from it (`head`, `next_chunk`, `pipe`).
    Whatever ends it early closes the connection at once.
    """

    _connection: Carrier
    _loop: asyncio.AbstractEventLoop
    _timeouts: Timeouts
    head: asyncio.Future[Exception | None]
    """Done when status and headers are there, or why they will not come."""
    _total_at: float
    """Loop time at which the whole call must be over; infinite for no limit, as the next ones."""
    _first_at: float
    _silent_at: float
    _silent_s: float
    _on_silent: Callable[[], bool] | None
    _unsent: int = 0
    """Bytes of the request that were not taken at the last look."""
    _waiter: asyncio.Future[None] | None = None
    _waiting_since: float = 0.0
    _sink: Callable[[bytes], bool] | None = None
    _data: bytes = b""
    """What has arrived of the body and was not taken."""
    has_head: bool = False
    status: int = 0
    raw_headers: dict[bytes, bytes] = {}
    """By name in lower case; several values of one name are separated by commas."""
    received: int = 0
    """Bytes of the answer that arrived, its head and its framing among them."""
    paused: bool = False
    """Whether the socket is not read because the caller is slow."""
    in_bulk: bool = False
    """Whether a sink takes what arrives, much of it at once."""
    complete: bool = False
    error: Exception | None = None
    """What ended the call early. Copies are raised: a traceback would reference the error itself.
    """

    # What the caller does

    async def next_chunk(self) -> bytes:
        """The bytes of the body that have arrived, at least one.

        Raises:
            StopAsyncIteration: the body is complete, and all of it was taken.
            CallError: the body will not be complete. Raised once all that came was taken.
        """
        try:
            while not self._data:
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
                if self._data and not sink(self.take()):
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
        data, self._data = self._data, b""
        if self.paused:
            self.paused = False
            if self.error is None and not self.complete:
                self._connection.pause(False)
        return data

    def close(self) -> None:
        """End the call; where the answer is not complete, the connection closes at once.

        A caller that waits in another task gets `Truncated`.
        """
        self.fail(Truncated("the call was ended here"))

    def drop(self) -> None:
        """As `close`, from wherever the last reference was dropped."""
        if not self._loop.is_closed():
            self.close()

    def _arrival(self) -> asyncio.Future[None]:
        """Done when more of the body has arrived, or nothing more will. Its clock starts here: most
        whole answers come with their head in one read."""
        begins = not self._waiting_since
        self._waiting_since = self._loop.time()
        self._waiter = waiter = self._loop.create_future()
        if begins:
            self._connection.watch(self.check_limits())
        return waiter

    def on_sent(self, limit: float) -> None:
        """The rest of the request was handed over only now: its answer must begin within `limit`
        seconds, 0 for any time."""
        if not self.has_head:
            self._timeouts = replace(self._timeouts, first_byte=limit)
            self._first_at = self._loop.time() + (limit or inf)
            self._connection.watch(self._first_at)

    # What the connection does

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        """Status and headers are complete."""
        self.status = status
        self.raw_headers = headers
        self.has_head = True
        # A caller that was cancelled has cancelled what it waits for.
        if not self.head.done():
            self.head.set_result(None)

    def on_read(self, pieces: list[bytes]) -> None:
        """One read of the socket brought these pieces of the body, which are taken out of the list.
        They are the last if it is `complete`."""
        self._data += b"".join(pieces)
        pieces.clear()
        sink, waiter = self._sink, self._waiter
        # Nothing is given to a caller that was cancelled but has not run yet.
        if waiter is None or waiter.done():
            if len(self._data) > HIGH_WATER and not (self.paused or self.complete):
                self.paused = True
                self._connection.pause(True)
            return
        if sink is not None and self._data:
            self._waiting_since = self._loop.time()
            try:
                if not sink(self.take()):
                    self._sink = None
                elif not self.complete:
                    return
            except Exception as error:
                self._sink = None
                if not waiter.done():
                    waiter.set_exception(error)
        self._wake()
        # The traceback of an error references this frame, and the waiter the error.
        del waiter

    def on_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        if self.complete or self.error is not None:
            return
        if not self.has_head:
            self.fail(ConnectionReset("the connection was closed before an answer began"))
        elif error is None and not _is_framed(self.raw_headers):
            self.complete = True
            self._wake()
        else:
            self.fail(Truncated("the connection was closed before the answer was complete"))

    def fail(self, error: Exception) -> None:
        """End the call with an error; the caller gets it after what has arrived."""
        if self.complete or self.error is not None:
            return
        self.error = error
        self._connection.abort()
        if not self.head.done():
            self.head.set_result(error)
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def check_limits(self) -> float:
        """End the call if a limit is reached. Returns the loop time at which to look again,
        infinite for never."""
        now, limits = self._loop.time(), self._timeouts
        if now >= self._total_at:
            self.fail(TotalTimeout(f"the call took longer than {limits.total:g} s"))
        elif self.has_head:
            since = now if self._waiter is None else self._waiting_since
            due = since + (limits.idle or inf)
            if now < due:
                return min(due, self._total_at)
            self.fail(IdleTimeout(f"the answer was silent for {limits.idle:g} s"))
        elif now >= self._first_at:
            self.fail(FirstByteTimeout(f"no answer began within {limits.first_byte:g} s"))
        elif now >= self._silent_at:
            self._look_for_silence(now)
        return inf if self.error else min(self._total_at, self._first_at, self._silent_at)

    def _look_for_silence(self, now: float) -> None:
        """Ask whether to go on, where the request was sent whole at the last look. One of which
        nothing was taken since then cannot have done anything, so nobody is asked."""
        before, self._unsent = self._unsent, self._connection.unsent()
        if self._unsent != before:
            self._silent_at = now + self._silent_s
            return
        self._silent_at = inf
        on_silent, self._on_silent = self._on_silent, None
        ends = on_silent is not None and on_silent()
        if self._unsent:
            self.fail(SendTimeout(f"nothing of the request was taken for {self._silent_s:g} s"))
        elif ends:
            late = f"no answer began within {self._silent_s:g} s, as is usual"
            self.fail(FirstByteTimeout(late))


def _is_framed(headers: dict[bytes, bytes]) -> bool:
    """Whether the headers define the end of the body; otherwise it ends with the connection."""
    coding = headers.get(b"transfer-encoding", b"")
    return b"content-length" in headers or b"chunked" in coding.lower()
