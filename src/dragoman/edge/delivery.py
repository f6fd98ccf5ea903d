"""A streamed answer on its way to the client: head, pieces, and keepalives between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest
from dragoman.http.clock import Timeout
from dragoman.protocols.base import StreamForm

# nginx and what imitates it would collect events but for the last.
_LINES = b"content-type: %b\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"
_EVENTS = _LINES % b"text/event-stream; charset=utf-8"


class Delivery:
    """Sends one stream to one client.

    The head is held back until the first piece, or until `commit_after_s` seconds have passed
    without one: then the head goes out with a keepalive, and an error can no longer have a status
    of its own. After `keepalive_s` seconds of silence the result of `keepalive`, which may be
    replaced, is sent. 0 for either means never. Each piece is written at once and as
    one; `write` waits while the client reads too slowly, so nothing is buffered here.

    One timer serves the whole stream: it is not moved for each piece but, when it fires, looks
    how long ago the last piece went out.
    """

    __slots__ = (
        "_clock",
        "_headers",
        "_incoming",
        "_keepalive_task",
        "_last",
        "_lines",
        "_loop",
        "_silence",
        "_timer",
        "_writing",
        "committed",
        "keepalive",
        "over",
    )

    def __init__(
        self,
        incoming: IncomingRequest,
        headers: Headers,
        *,
        keepalive: Callable[[], bytes],
        keepalive_s: float,
        commit_after_s: float,
    ) -> None:
        self._incoming = incoming
        self._headers = headers
        self.keepalive = keepalive
        self._silence = keepalive_s
        self._clock = incoming.clock
        self._loop = self._clock.loop
        self._last = self._loop.time()
        self._keepalive_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | Timeout | None = None
        self._writing = False
        self.over = False
        self.committed = False
        self._lines = _EVENTS
        if commit_after_s:
            self._timer = self._clock.after(commit_after_s, self._tick)

    def announce(self, headers: Headers) -> None:
        """Give the answer these headers in place of those it had, if the head is not out yet."""
        self._headers = headers

    async def write(self, data: bytes) -> None:
        """Send whole events."""
        if self._keepalive_task is not None:
            await asyncio.wait((self._keepalive_task,))
        self._writing = True
        if not self.committed:
            self._commit()
        await self._incoming.write(data)
        self._last = self._loop.time()
        self._writing = False

    def try_write(self, data: bytes) -> bool:
        """Send whole events, if that takes no waiting; else False, and `write` must."""
        if (
            not self.committed
            or self._keepalive_task is not None
            or not self._incoming.try_write(data)
        ):
            return False
        self._last = self._loop.time()
        return True

    async def end(self, data: bytes = b"") -> None:
        """Send the last events. Nothing is sent after them."""
        self.over = True
        self.close()
        if self._keepalive_task is not None:
            await asyncio.wait((self._keepalive_task,))
        if not self.committed:
            self._commit()
        self._incoming.end(data)

    async def withdraw(self) -> None:
        """Stop, so that an error may be sent in place of the stream, if nothing went out so far
        (see `committed`)."""
        self.close()
        if self._keepalive_task is not None:
            await asyncio.wait((self._keepalive_task,))

    def close(self) -> None:
        """Stop the timer. Harmless when it was stopped before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _commit(self) -> None:
        self.committed = True
        self.close()
        if self._silence and not self.over:
            self._timer = self._clock.after(self._silence, self._tick)
        self._incoming.start(200, self._headers, self._lines)

    def _tick(self) -> None:
        self._timer = None
        if not self.committed:
            self._keepalive_task = self._loop.create_task(self._send_keepalive())
            return
        due = self._last + self._silence
        now = self._loop.time()
        if now >= due:
            # While a write waits for a slow reader, the client has more than enough to read.
            if not self._writing and self._keepalive_task is None:
                self._keepalive_task = self._loop.create_task(self._send_keepalive())
            due = now + self._silence
        self._timer = self._loop.call_at(due, self._tick)

    async def _send_keepalive(self) -> None:
        try:
            if not self.committed:
                self._commit()
            # The head goes out with what follows it, be it nothing.
            await self._incoming.write(self._quiet())
            self._last = self._loop.time()
        finally:
            self._keepalive_task = None

    def _quiet(self) -> bytes:
        """What is sent during silence."""
        return self.keepalive() if self._silence else b""


class FramedDelivery(Delivery):
    """Sends one stream to one client in another form than events."""

    __slots__ = ("_framing",)

    def __init__(
        self,
        form: StreamForm,
        incoming: IncomingRequest,
        headers: Headers,
        *,
        keepalive: Callable[[], bytes],
        keepalive_s: float,
        commit_after_s: float,
    ) -> None:
        super().__init__(
            incoming,
            headers,
            keepalive=keepalive,
            keepalive_s=keepalive_s,
            commit_after_s=commit_after_s,
        )
        self._lines = _LINES % form.media
        self._framing = form.framing()

    async def write(self, data: bytes) -> None:
        """Send whole events."""
        await super().write(self._framing.write(data))

    def try_write(self, data: bytes) -> bool:
        """False: `write` must."""
        return False

    async def end(self, data: bytes = b"") -> None:
        """Send the last events. Nothing is sent after them."""
        await super().end(self._framing.write(data) + self._framing.end())

    def _quiet(self) -> bytes:
        return self._framing.write(super()._quiet())
