"""A WebSocket connection to an upstream whose messages are passed on as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from websockets.frames import Close, CloseCode
from websockets.protocol import State

from dragoman.http.clock import Clock
from dragoman.upstream.client_socket import ClientSocket

_PING_S = 20.0
"""Seconds of silence after which the upstream is sent a ping."""
_GONE_S = 75.0
"""Seconds without any byte, pings or not, after which the upstream is gone."""


class Receiver(Protocol):
    """What takes the messages of an upstream."""

    def on_upstream_message(self, message: bytes) -> None:
        """A whole message came."""

    def on_upstream_closed(self, code: int, reason: str) -> None:
        """The upstream has closed, with this code (1006: the connection broke). Called once, after
        all messages."""


class RelayedSocket(ClientSocket):
    """A connection that is paused until it has a receiver."""

    def __init__(self, clock: Clock, on_lost: Callable[[RelayedSocket], None]) -> None:
        super().__init__(clock)
        self._on_lost = on_lost
        self._receiver: Receiver | None = None
        self._is_held = False
        self._is_over = False
        self._sent: asyncio.Future[None] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer to the handshake, by their names in lower case."""
        answer = self._answer.result()
        return {} if answer is None else {k.lower(): v for k, v in answer.headers.raw_items()}

    def attach(self, receiver: Receiver, reserve: Callable[[int], None]) -> None:
        """Pass messages to `receiver`. `reserve` reserves memory for a large one, and raises if
        there is none."""
        self._receiver, self._reserve = receiver, reserve
        self.hold(False)

    def hold(self, held: bool) -> None:
        """Pass no message on for now, or go on."""
        self._is_held = held
        self.pause(held)

    def send(self, message: bytes) -> asyncio.Future[None] | None:
        """Send a message. Where the upstream reads too slowly, the result is done once the next
        may be sent."""
        if self._protocol.state is not State.OPEN:
            return None
        self._send_message(message)
        if not self.is_sending or not self.is_open:
            return None
        self._sent = self._clock.loop.create_future()
        return self._sent

    def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        """Close, and pass nothing on any more."""
        self._is_over = True
        if self.is_open:
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(code, reason)
                self._flush()
            assert self._transport is not None
            self._transport.close()

    def watch(self, now: float) -> None:
        """Send a ping where nothing came for some time, and close if that has had no effect. To be
        called now and then, with the loop's time."""
        silent_s = now - max(self._heard_at, self.opened_at)
        if self._is_held:
            self._heard_at = now
        elif silent_s >= _GONE_S:
            self.abort()
        elif silent_s >= _PING_S and self.is_open:
            self._protocol.send_ping(b"")
            self._flush()

    # What came

    def _is_paused(self) -> bool:
        return self._receiver is None or self._is_held

    def _receive(self, message: bytes) -> None:
        if self._receiver is not None and not self._is_over:
            self._receiver.on_upstream_message(message)

    def _fail(self, error: Exception) -> None:
        self._end(CloseCode.TRY_AGAIN_LATER, "no memory")

    def _closed(self, payload: bytes) -> None:
        closed = Close.parse(payload)
        self._end(closed.code, closed.reason)
        self.abort()

    def _on_handled(self) -> None:
        if self._is_paused():
            return
        if self._wire_bytes:
            self._reserve_message()
        if self._protocol.parser_exc is not None:
            self._end(CloseCode.ABNORMAL_CLOSURE, "")
            self.abort()
        elif self._lost is not None:
            self._end(CloseCode.ABNORMAL_CLOSURE, "")

    def _end(self, code: int, reason: str) -> None:
        receiver, is_first, self._is_over = self._receiver, not self._is_over, True
        if receiver is not None and is_first:
            receiver.on_upstream_closed(code, reason)

    def _on_sent(self) -> None:
        sent, self._sent = self._sent, None
        if sent is not None and not sent.done():
            sent.set_result(None)

    def _on_gone(self) -> None:
        self._on_sent()
        self._on_lost(self)
