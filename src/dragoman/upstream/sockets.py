"""A WebSocket connection of an upstream, and the call that it carries."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from websockets.frames import Close

from dragoman.http.clock import Clock, Timeout
from dragoman.upstream.client_socket import SMALL, ClientSocket, no_reservation
from dragoman.upstream.dial import notice_vanished
from dragoman.upstream.errors import BadAnswer, CallError, IdleTimeout
from dragoman.upstream.incoming import Carrier, IncomingResponse
from dragoman.upstream.request import SocketCall, SocketContext, SocketFailure

_PING_S = 20.0
"""Seconds of silence within an answer after which the upstream is sent a ping."""
_FOLLOWING_S = 15.0
"""Seconds to wait for what may follow the terminal event of a steered response."""
_TOO_BIG = 1009


class Restart(CallError):
    """The connection cannot answer and has done nothing: another may, with the whole request."""


class MessageTooLarge(CallError):
    """The upstream accepts no message of this size."""


class SocketConnection(ClientSocket, Carrier):
    """A connection that carries one response at a time. It is read also while it is idle.

    It feeds an `IncomingResponse` with the answer that POST would have had.
    """

    def __init__(
        self,
        clock: Clock,
        key: Hashable,
        on_free: Callable[[SocketConnection], None],
        on_lost: Callable[[SocketConnection], None],
    ) -> None:
        super().__init__(clock)
        self.key = key
        self.context: SocketContext | None = None
        """What the upstream remembers of the last response."""
        self.expiry: Timeout | None = None
        self._on_free = on_free
        self._on_lost = on_lost
        self._loop = clock.loop
        self._events: list[bytes] = []
        """What came of the answer's body in one read."""
        self._call: SocketCall | None = None
        self._idle_s = 0.0
        """Seconds within an answer without any byte after which the call fails; 0 for no limit."""
        self._watch: Timeout | None = None
        self._following: Timeout | None = None

    def begin(
        self,
        call: SocketCall,
        message: bytes,
        reserve: Callable[[int], None],
        idle_s: float,
    ) -> None:
        """Send the message of a call, of which an answer is expected. `reserve` is that of its use;
        the call fails after `idle_s` seconds within the answer without any byte (0: never)."""
        self._reserve, self._reserved = reserve, SMALL
        self._call, self.context = call, None
        self._idle_s, self._heard_at = idle_s, self._clock.loop.time()
        self._send_message(message)
        if self._watch is None:
            self._check_silence()

    def send_more(self, incoming: IncomingResponse, message: bytes) -> bool:
        """Send a further message of the call that `incoming` answers. False if it is over, or
        another message is still being sent."""
        call = self._call
        if self._incoming is not incoming or call is None or call.awaits_following:
            return False
        if not incoming.has_head or not self.is_open or self.is_sending:
            return False
        self._send_message(message)
        return True

    def _check_silence(self) -> None:
        """Send a ping where nothing came for some time; end the call if that has no effect."""
        self._watch = None
        incoming, now = self._incoming, self._clock.loop.time()
        if incoming is None or not self.is_open:
            return
        every = min(_PING_S, self._idle_s / 4) if self._idle_s else _PING_S
        if self._is_paused() or not incoming.has_head:
            self._heard_at = now
        silent_s = now - self._heard_at
        if self._idle_s and silent_s >= self._idle_s:
            incoming.fail(IdleTimeout(f"nothing came from the upstream for {self._idle_s:g} s"))
            return
        if silent_s >= every / 2:
            self._protocol.send_ping(b"")
            self._flush()
        self._watch = self._clock.after(every, self._check_silence)

    # What came

    def connection_lost(self, exc: Exception | None) -> None:
        for timeout in (self._watch, self._following):
            if timeout is not None:
                timeout.cancel()
        self._stop_timer()
        super().connection_lost(exc)

    def _on_gone(self) -> None:
        self._on_lost(self)

    def _is_paused(self) -> bool:
        return self._incoming is not None and self._incoming.paused

    def _on_handled(self) -> None:
        if self._incoming is not None and self._events:
            self._incoming.on_read(self._events)
        if self._is_paused():
            return
        if self._wire_bytes:
            self._reserve_message()
        incoming = self._incoming
        if incoming is not None and self._protocol.parser_exc is not None:
            bad = self._protocol.parser_exc
            incoming.fail(BadAnswer(f"the upstream's WebSocket frames are bad: {bad}"))
            self.abort()
        elif self._lost is not None and incoming is not None:
            # A stream without its terminal event is cut off, whoever closed it.
            self._incoming = None
            incoming.on_lost(self._lost)

    def _count(self, data: bytes) -> None:
        if self._incoming is not None:
            self._incoming.received += len(data)

    def _fail(self, error: Exception) -> None:
        if self._incoming is not None:
            self._incoming.fail(error)

    def _closed(self, payload: bytes) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.on_read(self._events)
            if payload and Close.parse(payload).code == _TOO_BIG and not incoming.has_head:
                incoming.fail(MessageTooLarge("the request is too large for a message"))
            incoming.on_lost(ConnectionError())
        self.abort()

    # The call

    def _receive(self, message: bytes) -> None:
        call, incoming = self._call, self._incoming
        if call is None:
            return
        if incoming is None:
            if call.is_late_error(message):
                self.abort()
            return
        event = call.receive(message)
        if call.error is not None:
            self._fail_call(incoming, call.error)
            return
        if call.awaits_following is (self._following is None):
            self._await_following(call.awaits_following)
        if event:
            self._pass(incoming, event)
        if call.is_complete:
            self._complete(incoming)
            if self._unsent is None and self.is_open:
                self.context, self._reserve = call.context, no_reservation
                assert self._transport is not None
                notice_vanished(self._transport)
                self._on_free(self)
            else:
                self.abort()

    def _await_following(self, begins: bool) -> None:
        """Wait for what may follow a terminal event, for some time; or no longer."""
        if self._following is not None:
            self._following.cancel()
        self._following = self._clock.after(_FOLLOWING_S, self._give_up) if begins else None

    def _give_up(self) -> None:
        """Nothing followed a terminal event."""
        incoming, call = self._incoming, self._call
        if incoming is not None and call is not None:
            self._pass(incoming, call.give_up())
            self._complete(incoming)
            self.abort()

    def _fail_call(self, incoming: IncomingResponse, error: SocketFailure) -> None:
        if not incoming.has_head and error.is_retryable:
            incoming.fail(Restart("the connection cannot answer"))
            return
        if incoming.has_head:
            self._pass(incoming, error.event)
        else:
            headers = {b"content-type": b"application/json", **dict(error.headers)}
            incoming.on_head(error.status, headers)
            self._events.append(error.body)
        self._complete(incoming)
        self.abort()

    def _pass(self, incoming: IncomingResponse, events: bytes) -> None:
        if not incoming.has_head:
            incoming.on_head(200, {b"content-type": b"text/event-stream"})
        self._events.append(events)

    def _complete(self, incoming: IncomingResponse) -> None:
        self._incoming = None
        incoming.complete = True
        incoming.on_read(self._events)
        if incoming.paused:
            self.pause(False)
