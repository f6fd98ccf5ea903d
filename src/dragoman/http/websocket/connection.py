"""One WebSocket connection: messages in, text frames out, and its end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import cast

from msgspec import Struct

from dragoman.http.clock import Clock, Timeout
from dragoman.http.limits import Budget
from dragoman.http.request import Taker
from dragoman.http.websocket.frames import (
    CLOSE,
    PING,
    PONG,
    TEXT,
    BadFrame,
    FrameReader,
    Piece,
    control_frame,
)
from dragoman.http.websocket.handshake import Agreed

NORMAL = 1000
GOING_AWAY = 1001
UNSUPPORTED = 1003
POLICY = 1008
NOT_UTF8 = 1007
TOO_BIG = 1009
INTERNAL = 1011
TRY_LATER = 1013

_SILENT_PINGS = 3
"""Pings in a row after which nothing was heard of the client."""
_CLOSE_S = 5.0
"""Seconds that a client has to answer that the connection is closed."""
_TURN = 256
"""Frames that are looked at before others have their turn."""
_PONGS = 16
"""Pings that came together of which each is answered."""
_FRAGMENTS = 64
_FRAGMENT_BYTES = 64
"""A message may have so many frames, and one more for each so many of its bytes."""
_SMALL = 64 * 1024
"""Bytes of a message that the memory budget is not asked for."""


class WebSocketLimits(Struct, frozen=True, kw_only=True):
    """What a client may take. Sizes in bytes, times in seconds."""

    message_bytes: int = 32 * 1024 * 1024
    """Largest message, inflated."""
    message_s: float = 120.0
    """From the first to the last byte of a message, to within `ping_s`; 0 for no limit."""
    ping_s: float = 25.0
    """Between two pings. Proxies end connections that are silent for a minute or two."""


class WebSocket(Taker, ABC):
    """A connection that stands, of a server. What derives from it is told of messages.

    `closing` says that nothing more is sent, and what comes is not looked at. `held` are the bytes
    of the memory budget for the message that `on_message` is called with: who keeps the message
    takes them over by `take_held`.
    """

    __slots__ = (
        "_broken",
        "_fragments",
        "_heard",
        "_held",
        "_lines",
        "_parts",
        "_pong",
        "_reader",
        "_resumed",
        "_silent",
        "_since",
        "_size",
        "_timer",
        "budget",
        "clock",
        "closing",
        "limits",
        "transport",
    )

    def __init__(
        self, agreed: Agreed, lines: bytes, limits: WebSocketLimits, clock: Clock, budget: Budget
    ) -> None:
        """
        Args:
            agreed: the outcome of the handshake.
            lines: further header lines of the answer, each with its line end.
            limits: what the client may take.
            clock: of the loop.
            budget: memory for messages.
        """
        self.limits = limits
        self.clock = clock
        self.budget = budget
        self.transport: asyncio.Transport | None = None
        self.closing = False
        self._lines = agreed.lines + lines
        self._reader = FrameReader(limits.message_bytes, compressed=agreed.compressed)
        self._broken = False
        """Whether what comes can no longer be told apart."""
        self._timer: Timeout | None = None
        self._resumed: asyncio.Event | None = None
        """Set when the client takes what waits for it; None while nothing does."""
        self._heard = True
        self._silent = 0
        """Pings in a row that brought nothing."""
        self._pong: bytes | None = None
        """Payload of the last ping that was not answered yet."""
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes of the message under way."""
        self._fragments = 0
        self._held = 0
        self._since = 0.0
        """Loop time at which the message under way began."""

    # To be overridden

    @abstractmethod
    def on_message(self, text: str) -> None:
        """A whole message came."""

    @abstractmethod
    def on_refusal(self, code: int) -> None:
        """The connection will be closed with this code, since of what the client sent: the moment
        for a last word."""

    @abstractmethod
    def on_end(self) -> None:
        """Nothing is to be sent any more, whoever ended it. Called once."""

    def on_tick(self, now: float) -> None:
        """`ping_s` seconds have passed."""

    # What is sent

    @property
    def is_told(self) -> bool:
        """Whether a message is under way."""
        return bool(self._parts)

    @property
    def is_paused(self) -> bool:
        """Whether more waits to be sent than should."""
        return self._resumed is not None

    def send(self, frames: bytes) -> None:
        """Send frames made by `frames.text_frame`."""
        if self.transport is not None and not self.closing:
            self.transport.write(frames)

    async def drained(self) -> None:
        """Wait until less waits to be sent, or nothing is sent any more."""
        while self._resumed is not None and not self.closing:
            await self._resumed.wait()

    def close(self, code: int, reason: str = "", last: bytes = b"") -> None:
        """Close, and send nothing more but the frames `last`: at once, so that who reads these
        knows of the end."""
        if self.closing:
            return
        if self.transport is not None:
            told = code.to_bytes(2, "big") + reason.encode()
            self.transport.write(last + control_frame(CLOSE, told))
        self._end()
        self._timer = self.clock.after(_CLOSE_S, self._abort)

    def refuse(self, code: int, reason: str) -> None:
        """Close for what the client sent, with a last word."""
        if not self.closing:
            self.on_refusal(code)
            self.close(code, reason)

    def take_held(self) -> int:
        """Take over the bytes of the memory budget that the message holds."""
        held, self._held = self._held, 0
        return held

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        lines, self._lines = self._lines, b""
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % lines)
        self._timer = self.clock.after(self.limits.ping_s, self._tick)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if not self._broken:
            self._reader.feed(data)
            self._look()

    def eof_received(self) -> None:
        # The transport closes; a client that left without a word waits for nothing.
        self._end()

    def pause_writing(self) -> None:
        self._resumed = asyncio.Event()

    def resume_writing(self) -> None:
        self._release_waiters()
        self._answer_ping()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self.transport = None
        if self._timer is not None:
            self._timer.cancel()

    # What comes

    def _look(self) -> None:
        """Look at the frames that came, some at a time."""
        left, pings = _TURN, 0
        try:
            while (piece := self._reader.next()) is not None:
                if piece.opcode == CLOSE:
                    self._closed(piece.data)
                    return
                if piece.opcode < CLOSE and not self.closing:
                    self._take(piece)
                elif piece.opcode == PING:
                    # Of many pings the last is answered (RFC 6455, 5.5.3).
                    self._pong = piece.data
                    pings += 1
                    if pings <= _PONGS:
                        self._answer_ping()
                left -= 1
                if not left:
                    self._pause_reading()
                    break
        except BadFrame as bad:
            self._broken = True
            self.refuse(bad.code, str(bad))
            # The client's answer could not be told from what it sends.
            transport = self.transport
            if transport is not None and not transport.is_closing() and transport.can_write_eof():
                transport.write_eof()
            return
        self._answer_ping()

    def _pause_reading(self) -> None:
        transport = self.transport
        if transport is not None:
            transport.pause_reading()
            self.clock.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self.transport is not None and not self._broken:
            self.transport.resume_reading()
            self._look()

    def _take(self, piece: Piece) -> None:
        if not self._parts:
            self._size = self._fragments = 0
            self._since = self.clock.loop.time()
        self._fragments += piece.ends_frame
        self._size += len(piece.data)
        self._parts.append(piece.data)
        if self._size > self.limits.message_bytes:
            self._drop()
            self.refuse(TOO_BIG, "message too big")
        elif self._fragments > _FRAGMENTS + self._size // _FRAGMENT_BYTES:
            self._drop()
            self.refuse(POLICY, "too many fragments")
        elif not self._hold():
            self._drop()
            self.refuse(TRY_LATER, "no memory")
        elif piece.ends_message:
            self._answer_ping()
            self._finish(piece.opcode)

    def _hold(self) -> bool:
        """Whether there is memory for what came of the message."""
        wanted = self._size - self._held if self._size > _SMALL else 0
        if not self.budget.take(wanted):
            return False
        self._held += wanted
        return True

    def _finish(self, opcode: int) -> None:
        parts, self._parts = self._parts, []
        try:
            text = b"".join(parts).decode()
        except UnicodeDecodeError:
            self._drop()
            self.refuse(*((NOT_UTF8, "not UTF-8") if opcode == TEXT else (UNSUPPORTED, "no text")))
            return
        del parts
        try:
            self.on_message(text)
        finally:
            self._drop()

    def _drop(self) -> None:
        self._parts = []
        self.budget.give(self.take_held())

    def _closed(self, payload: bytes) -> None:
        """The client closes, or has heard that it is closed."""
        self._broken = True
        if self.transport is not None:
            if not self.closing:
                self.transport.write(control_frame(CLOSE, payload[:2]))
            self.transport.close()
        self._end()

    def _answer_ping(self) -> None:
        # While the client does not read, it is not sent more.
        if self._pong is not None and self._resumed is None and not self.closing:
            if self.transport is not None:
                self.transport.write(control_frame(PONG, self._pong))
            self._pong = None

    # Time, and the end

    def _tick(self) -> None:
        self._timer = self.clock.after(self.limits.ping_s, self._tick)
        now = self.clock.loop.time()
        self._silent = 0 if self._heard else self._silent + 1
        self._heard = False
        if self._silent >= _SILENT_PINGS:
            self.close(INTERNAL, "keepalive ping timeout")
            self._abort()
            return
        late = self.limits.message_s
        if self._parts and late and now - self._since > late:
            self._drop()
            self.refuse(POLICY, "message timeout")
            return
        if self._resumed is None and self.transport is not None:
            self.transport.write(control_frame(PING))
        self.on_tick(now)

    def _end(self) -> None:
        if self.closing:
            return
        self.closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._drop()
        self._release_waiters()
        self.on_end()

    def _release_waiters(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
