"""A WebSocket connection of an upstream, and the call that it carries."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import cast

from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from dragoman.http.clock import Clock, Timeout
from dragoman.http.websocket.handshake import SILENT
from dragoman.upstream.dial import notice_vanished
from dragoman.upstream.errors import BadAnswer, CallError, IdleTimeout
from dragoman.upstream.incoming import IncomingResponse
from dragoman.upstream.request import SocketCall, SocketContext, SocketFailure

HANDSHAKE_LINES = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
_URI = parse_uri("ws://upstream/")
"""Names no host: the request line and the `host` header are those of the prepared request."""
_MESSAGE_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest message of an upstream: a terminal event repeats all of a response."""
_SMALL = 64 * 1024
"""Bytes of a message for which no memory is reserved."""
_FRAGMENT = 256 * 1024
"""Bytes of a request that are sent as one frame. Pings are answered in between."""
_PING_S = 20.0
"""Seconds of silence within an answer after which the upstream is sent a ping."""
_FOLLOWING_S = 15.0
"""Seconds to wait for what may follow the terminal event of a steered response."""
_TOO_BIG = 1009


class Restart(CallError):
    """The connection cannot answer and has done nothing: another may, with the whole request."""


class MessageTooLarge(CallError):
    """The upstream accepts no message of this size."""


class HandshakeFailed(Exception):
    """The upstream refused the handshake with this status; 0 if it did not answer it in time."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class SocketConnection(asyncio.Protocol):
    """A connection that carries one response at a time. It is read at all times, unless the caller
    reads slowly: pings are answered and its end is noticed while it is idle, too.

    It feeds an `IncomingResponse` with the answer that POST would have had.
    """

    def __init__(
        self,
        clock: Clock,
        key: Hashable,
        on_free: Callable[[SocketConnection], None],
        on_lost: Callable[[SocketConnection], None],
    ) -> None:
        self.key = key
        self.opened_at = clock.loop.time()
        self.context: SocketContext | None = None
        """What the upstream remembers of the last response."""
        self.expiry: Timeout | None = None
        self._clock = clock
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._protocol = ClientProtocol(_URI, max_size=_MESSAGE_LIMIT, logger=SILENT)
        self._status: asyncio.Future[int] = clock.loop.create_future()
        """The status of the handshake's answer."""
        self._frames: deque[Frame] = deque()
        """Frames that were not handled yet, as the caller reads slowly."""
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes that came of the message."""
        self._wire_bytes = 0
        """Bytes that came of a frame that is not whole."""
        self._reserved = _SMALL
        self._reserve: Callable[[int], None] = _no_reservation
        self._incoming: IncomingResponse | None = None
        self._call: SocketCall | None = None
        self._idle_s = 0.0
        """Seconds within an answer without any byte after which the call fails; 0 for no limit."""
        self._heard_at = 0.0
        self._watch: Timeout | None = None
        self._following: Timeout | None = None
        self._unsent: memoryview | None = None
        self._is_full = False
        """Whether the transport takes no more for now."""
        self._lost: Exception | None = None
        """Why the connection is gone; frames that came before are still handled."""

    @property
    def is_open(self) -> bool:
        """Whether a call can be made on it."""
        return self._transport is not None and not self._transport.is_closing()

    async def open(self, lines: bytes, seconds: float) -> None:
        """Perform the handshake. `lines` is the head of the request, without its blank line.

        Raises:
            HandshakeFailed: the upstream refuses, or does not answer in time.
        """
        key = self._protocol.key.encode()
        self._write(b"%b%bsec-websocket-key: %b\r\n\r\n" % (lines, HANDSHAKE_LINES, key))
        status = 0
        try:
            async with asyncio.timeout(seconds):
                status = await self._status
        except TimeoutError:
            pass
        finally:
            if status != 101:
                self.abort()
        if status != 101:
            raise HandshakeFailed(status)

    def begin(
        self,
        incoming: IncomingResponse,
        call: SocketCall,
        message: bytes,
        reserve: Callable[[int], None],
        idle_s: float,
    ) -> None:
        """Send the message of a call; its answer goes to `incoming`. `reserve` is that of its use;
        the call fails after `idle_s` seconds within the answer without any byte (0: never)."""
        assert self._incoming is None, "one response at a time"
        self._reserve, self._reserved = reserve, _SMALL
        self._incoming, self._call, self.context = incoming, call, None
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
        if not incoming.has_head or not self.is_open or self._is_full or self._unsent is not None:
            return False
        self._send_message(message)
        return True

    def _send_message(self, message: bytes) -> None:
        self._unsent = memoryview(message)
        self._send_fragment()

    def _send_fragment(self) -> None:
        unsent = self._unsent
        if unsent is None or not self.is_open:
            return
        fragment, rest = bytes(unsent[:_FRAGMENT]), unsent[_FRAGMENT:]
        self._unsent = rest if rest else None
        if self._protocol.expect_continuation_frame:
            self._protocol.send_continuation(fragment, fin=not rest)
        else:
            self._protocol.send_text(fragment, fin=not rest)
        self._flush()
        if rest and not self._is_full:
            self._clock.loop.call_soon(self._send_fragment)

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

    # Carrier

    def abort(self) -> None:
        """Close at once: there is no other way to cancel a response."""
        self._frames.clear()
        if self._transport is not None:
            self._transport.abort()

    def pause(self, paused: bool) -> None:
        """Stop or resume reading."""
        if self.is_open:
            assert self._transport is not None
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        if not paused:
            self._clock.loop.call_soon(self._handle_frames)

    def unsent(self) -> int:
        """Bytes of the request that were not taken yet."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + (0 if self._unsent is None else len(self._unsent))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._send_fragment()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent = None
        for timeout in (self._watch, self._following):
            if timeout is not None:
                timeout.cancel()
        if not self._status.done():
            self._status.set_result(0)
        self._lost = exc or ConnectionError()
        self._handle_frames()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._clock.loop.time()
        protocol = self._protocol
        protocol.receive_data(data)
        self._flush()
        before = len(self._frames)
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._frames.append(event)
            elif isinstance(event, Response) and not self._status.done():
                accepted = protocol.state is State.OPEN
                self._status.set_result(101 if accepted else event.status_code % 1000)
        if protocol.handshake_exc is not None:
            self.abort()
        self._wire_bytes = 0 if len(self._frames) > before else self._wire_bytes + len(data)
        self._handle_frames()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            self._write(data)

    def _write(self, data: bytes) -> None:
        if data and self.is_open:
            assert self._transport is not None
            self._transport.write(data)

    # Frames

    def _is_paused(self) -> bool:
        return self._incoming is not None and self._incoming.paused

    def _handle_frames(self) -> None:
        while self._frames and not self._is_paused():
            frame = self._frames.popleft()
            if frame.opcode is Opcode.CLOSE:
                self._closed(bytes(frame.data))
            elif frame.opcode not in (Opcode.PING, Opcode.PONG):
                self._add(bytes(frame.data), frame.fin)
        if self._incoming is not None:
            self._incoming.on_read()
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

    def _add(self, data: bytes, is_last: bool) -> None:
        """Add a part of a message."""
        if self._incoming is not None:
            self._incoming.received += len(data)
        self._parts.append(data)
        self._size += len(data)
        if self._reserve_message() and is_last:
            message = b"".join(self._parts)
            self._parts, self._size = [], 0
            self._receive(message)

    def _reserve_message(self) -> bool:
        """Reserve memory for what came of a message; without it the call fails. A larger message
        takes only what it has beyond those before it."""
        size = self._size + self._wire_bytes
        if size <= self._reserved:
            return True
        try:
            self._reserve(size - self._reserved)
        except Exception as error:
            if self._incoming is not None:
                self._incoming.fail(error)
            self.abort()
            return False
        self._reserved = size
        return True

    def _closed(self, payload: bytes) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
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
            self._fail(incoming, call.error)
            return
        if call.awaits_following is (self._following is None):
            self._await_following(call.awaits_following)
        if event:
            self._pass(incoming, event)
        if call.is_complete:
            self._complete(incoming)
            if self._unsent is None and self.is_open:
                self.context, self._reserve = call.context, _no_reservation
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

    def _fail(self, incoming: IncomingResponse, error: SocketFailure) -> None:
        if not incoming.has_head and error.is_retryable:
            incoming.fail(Restart("the connection cannot answer"))
            return
        if incoming.has_head:
            self._pass(incoming, error.event)
        else:
            incoming.raw_headers += [(b"content-type", b"application/json"), *error.headers]
            incoming.on_head(error.status)
            incoming.on_body(error.body)
        self._complete(incoming)
        self.abort()

    def _pass(self, incoming: IncomingResponse, events: bytes) -> None:
        if not incoming.has_head:
            incoming.raw_headers.append((b"content-type", b"text/event-stream"))
            incoming.on_head(200)
        incoming.on_body(events)

    def _complete(self, incoming: IncomingResponse) -> None:
        self._incoming = None
        incoming.on_read()
        incoming.on_complete()
        if incoming.paused:
            self.pause(False)


def _no_reservation(size: int) -> None:
    """No memory is reserved for an idle connection."""
