"""One realtime session of a client: messages both ways, and its end."""

from __future__ import annotations

import asyncio

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.endpoints.realtime.events import error_event
from dragoman.endpoints.realtime.meter import Meter
from dragoman.http import Budget
from dragoman.http.clock import Clock
from dragoman.http.websocket import Accepted, CloseCode, WebSocket, text_frame
from dragoman.upstream.relayed_socket import RelayedSocket

_LEAVING = "going away"
_LONGEST_REASON = 120
"""Bytes of the reason in a close frame."""

_REFUSALS = {
    CloseCode.MESSAGE_TOO_BIG: Fault(
        FaultKind.TOO_LARGE, "The message is too large for this gateway.", code="too_large"
    ),
}
_BROKEN = Fault(
    FaultKind.INVALID_REQUEST, "What was sent is no event of a session.", code="invalid_event"
)


class _NoMemory(Exception):
    """There is no memory for a message."""


class RealtimeSession(WebSocket):
    """One connection of a client, and that of the upstream. Messages pass as they are, and as fast
    as the slower side reads; what the upstream sends is read for what it used."""

    __slots__ = ("_idle_s", "_meter", "_retiring", "_taken", "_task", "_upstream", "_used", "over")

    def __init__(
        self,
        accepted: Accepted,
        clock: Clock,
        budget: Budget,
        upstream: RelayedSocket,
        meter: Meter,
        idle_s: float,
    ) -> None:
        """
        Args:
            accepted: the outcome of the handshake.
            clock: of the loop.
            budget: memory for messages.
            upstream: the open connection of the upstream.
            meter: counts what the session uses.
            idle_s: seconds without any message after which it is closed; 0 for no limit.
        """
        super().__init__(accepted, clock, budget)
        self.over = asyncio.Event()
        """Set when nothing passes any more."""
        self._meter = meter
        self._upstream = upstream
        self._idle_s = idle_s
        self._used = clock.loop.time()
        self._retiring = False
        self._taken = 0
        """Bytes of the memory budget for messages of the upstream."""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._upstream.attach(self, self._take)

    def _take(self, size: int) -> None:
        if self.closing or not self.budget.reserve(size):
            raise _NoMemory
        self._taken += size

    # From the client

    def on_message(self, data: bytes) -> asyncio.Future[None] | None:
        """Pass a message on."""
        self._used = self.clock.loop.time()
        sent = self._upstream.send(data)
        if sent is not None:
            reserved = self.take_reserved()
            sent.add_done_callback(lambda _: self.budget.release(reserved))
        return sent

    def on_refusal(self, code: int) -> None:
        """The session ends for what was sent."""
        self.send(text_frame(error_event(_REFUSALS.get(CloseCode(code), _BROKEN))))

    # From the upstream

    def on_upstream_message(self, message: bytes) -> None:
        """Pass a message on. After an answer the next is admitted before anything else passes."""
        self._used = self.clock.loop.time()
        self.send(text_frame(message))
        is_over = self._meter.heard(message)
        if (is_over or self.is_paused) and not self.closing:
            self._upstream.hold(True)
            self._task = self.clock.loop.create_task(self._go_on(is_over))

    async def _go_on(self, is_over: bool) -> None:
        """Let further messages of the upstream pass, once they may."""
        if is_over:
            fault = await self._meter.admit_next()
            if fault is not None:
                self._refuse(fault)
            elif self._retiring:
                self.close(CloseCode.GOING_AWAY, _LEAVING)
        await self.drained()
        self._upstream.hold(False)

    def on_upstream_closed(self, code: int, reason: str) -> None:
        """Close as the upstream has closed."""
        self._meter.upstream_gone()
        if not _may_be_sent(code):
            code, reason = CloseCode.INTERNAL_ERROR, "the upstream's connection broke"
        self.close(code, reason.encode()[:_LONGEST_REASON].decode(errors="ignore"))

    def _refuse(self, fault: Fault) -> None:
        self.close(CloseCode.POLICY_VIOLATION, "", text_frame(error_event(fault)))

    # Time, and the end

    def on_tick(self, now: float) -> None:
        """Look whether the upstream is there, whether the key is still one, and whether anybody
        says anything."""
        self._upstream.watch(now)
        fault = self._meter.refusal()
        if fault is not None:
            self._refuse(fault)
        if self.is_receiving:
            self._used = now
        if self._idle_s and now - self._used >= self._idle_s:
            self.close(CloseCode.GOING_AWAY, _LEAVING)

    def retire(self) -> None:
        """End with the answer that is being given, or at once."""
        self._retiring = True
        if not self._meter.is_answering:
            self.close(CloseCode.GOING_AWAY, _LEAVING)

    def cancel(self) -> None:
        """End at once."""
        self.close(CloseCode.GOING_AWAY, _LEAVING)

    def on_end(self) -> None:
        """Pass nothing on any more."""
        if self._task is not None and self._task is not asyncio.current_task(self.clock.loop):
            self._task.cancel()
        self.budget.release(self._taken)
        self._taken = 0
        self.over.set()


def _may_be_sent(code: int) -> bool:
    """Whether a close frame may have this code (RFC 6455, 7.4)."""
    return code in _CODES or 3000 <= code < 5000


_CODES = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
