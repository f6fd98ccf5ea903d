"""The client's end of a WebSocket connection: its handshake, and frames both ways."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import cast

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from dragoman.http.clock import Clock
from dragoman.http.websocket.handshake import SILENT

HANDSHAKE_LINES = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
HANDSHAKE_S = 15.0
"""Seconds for a handshake where no time limit is set for connecting."""
_URI = parse_uri("ws://upstream/")
"""Names no host: the request line and the `host` header are those of the prepared request."""
MESSAGE_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest message of an upstream: a terminal event repeats all of a response."""
SMALL = 64 * 1024
"""Bytes of a message for which no memory is reserved."""
_FRAGMENT = 256 * 1024
"""Bytes of a message that are sent as one frame. Pings are answered in between."""


class HandshakeFailed(Exception):
    """The upstream refused the handshake with this status; 0 if it did not answer it in time.
    `headers` (names in lower case) and `body` are those of its answer."""

    def __init__(self, answer: Response | None) -> None:
        self.status = 0 if answer is None else answer.status_code % 1000
        super().__init__(self.status)
        self.headers: dict[str, str] = {}
        self.body = b""
        if answer is not None:
            self.headers = {name.lower(): value for name, value in answer.headers.raw_items()}
            self.body = bytes(answer.body or b"")


class ClientSocket(asyncio.Protocol, ABC):
    """A WebSocket connection to an upstream. It is read at all times, unless it is paused: pings
    are answered, and its end is noticed.

    Subclasses take messages in `_receive`. Memory for a large one is reserved by `_reserve`, which
    raises if there is none: `_fail` is called with that then.
    """

    def __init__(self, clock: Clock) -> None:
        self.opened_at = clock.loop.time()
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._protocol = ClientProtocol(_URI, max_size=MESSAGE_LIMIT, logger=SILENT)
        self._answer: asyncio.Future[Response | None] = clock.loop.create_future()
        """The answer to the handshake; None if there is none."""
        self._is_accepted = False
        self._frames: deque[Frame] = deque()
        """Frames that were not handled yet, as it is paused."""
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes that came of the message."""
        self._wire_bytes = 0
        """Bytes that came of a frame that is not whole."""
        self._reserved = SMALL
        self._reserve: Callable[[int], None] = no_reservation
        self._heard_at = 0.0
        self._unsent: memoryview | None = None
        self._is_full = False
        """Whether the transport takes no more for now."""
        self._lost: Exception | None = None
        """Why the connection is gone; frames that came before are still handled."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._transport is not None and not self._transport.is_closing()

    async def open(self, lines: bytes, seconds: float) -> None:
        """Perform the handshake. `lines` is the head of the request, without its blank line.

        Raises:
            HandshakeFailed: the upstream refuses, or does not answer in time.
        """
        key = self._protocol.key.encode()
        self._write(b"%b%bsec-websocket-key: %b\r\n\r\n" % (lines, HANDSHAKE_LINES, key))
        answer = None
        try:
            async with asyncio.timeout(seconds):
                answer = await self._answer
        except TimeoutError:
            pass
        finally:
            if not self._is_accepted:
                self.abort()
        if not self._is_accepted:
            raise HandshakeFailed(answer)

    # Sending

    @property
    def is_sending(self) -> bool:
        """Whether a message is still being sent, or the upstream reads too slowly for more."""
        return self._is_full or self._unsent is not None

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
            self._clock.loop.call_soon(self._send_next)

    def _send_next(self) -> None:
        self._send_fragment()
        if not self.is_sending:
            self._on_sent()

    def unsent(self) -> int:
        """Bytes of a message that were not taken yet."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + (0 if self._unsent is None else len(self._unsent))

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            self._write(data)

    def _write(self, data: bytes) -> None:
        if data and self.is_open:
            assert self._transport is not None
            self._transport.write(data)

    # To be overridden

    @abstractmethod
    def _is_paused(self) -> bool:
        """Whether no message is to be handled now."""

    @abstractmethod
    def _receive(self, message: bytes) -> None:
        """Handle a whole message."""

    @abstractmethod
    def _fail(self, error: Exception) -> None:
        """There is no memory for a message."""

    @abstractmethod
    def _closed(self, payload: bytes) -> None:
        """The upstream closes; `payload` is that of its frame."""

    @abstractmethod
    def _on_handled(self) -> None:
        """What came was handled, or it is paused."""

    @abstractmethod
    def _on_gone(self) -> None:
        """The connection is gone, and what came before was handled as far as it is not paused."""

    def _count(self, data: bytes) -> None:
        """A part of a message came."""

    def _on_sent(self) -> None:
        """All of a message was sent that had to wait, and more may be."""

    # Reading

    def abort(self) -> None:
        """Close at once."""
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

    def _handle_frames(self) -> None:
        while self._frames and not self._is_paused():
            frame = self._frames.popleft()
            if frame.opcode is Opcode.CLOSE:
                self._closed(bytes(frame.data))
            elif frame.opcode not in (Opcode.PING, Opcode.PONG):
                self._add(bytes(frame.data), frame.fin)
        self._on_handled()

    def _add(self, data: bytes, is_last: bool) -> None:
        """Add a part of a message."""
        self._count(data)
        self._parts.append(data)
        self._size += len(data)
        if self._reserve_message() and is_last:
            message = b"".join(self._parts)
            self._parts, self._size = [], 0
            self._receive(message)

    def _reserve_message(self) -> bool:
        """Reserve memory for what came of a message. A larger message takes only what it has
        beyond those before it."""
        size = self._size + self._wire_bytes
        if size <= self._reserved:
            return True
        try:
            self._reserve(size - self._reserved)
        except Exception as error:
            self._fail(error)
            self.abort()
            return False
        self._reserved = size
        return True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent = None
        if not self._answer.done():
            self._answer.set_result(None)
        self._lost = exc or ConnectionError()
        self._handle_frames()
        self._on_gone()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._clock.loop.time()
        protocol = self._protocol
        protocol.receive_data(data)
        self._flush()
        before = len(self._frames)
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._frames.append(event)
            elif isinstance(event, Response) and not self._answer.done():
                self._is_accepted = protocol.state is State.OPEN
                self._answer.set_result(event)
        if protocol.handshake_exc is not None:
            self.abort()
        self._wire_bytes = 0 if len(self._frames) > before else self._wire_bytes + len(data)
        self._handle_frames()


def no_reservation(size: int) -> None:
    """No memory is reserved for an idle connection."""
