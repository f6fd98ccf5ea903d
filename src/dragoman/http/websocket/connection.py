"""An open WebSocket connection of the server: messages in, text frames out, and its end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import cast

from websockets.frames import CloseCode, Frame, Opcode

from dragoman.http.clock import Clock, Timeout
from dragoman.http.limits import Budget
from dragoman.http.request import UpgradedConnection
from dragoman.http.websocket.handshake import Accepted, CompressedFrame
from dragoman.http.websocket.messages import BadCompression, control_frame, pieces_of

_SILENT_PINGS = 3
"""Pings in a row without any answer after which the client is gone."""
_CLOSE_S = 5.0
"""Seconds that a client has to answer a close frame."""
_SLICE = 8 * 1024
"""Bytes that are parsed at once: 1,400 frames at most, 5 ms."""
_TURN = 256
"""Frames that are handled before others have their turn."""
_PIECE_COST = 32
"""How many frames a piece of a long message counts for."""
_PONGS = 16
"""Pings that came together of which each is answered."""
_FRAGMENTS = 64
_FRAGMENT_BYTES = 64
"""A message may have so many frames, and one more for each so many of its bytes."""
_SMALL = 64 * 1024
"""Bytes of a message that are not taken from the memory budget."""
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class WebSocket(UpgradedConnection, ABC):
    """An open connection of the server. Subclasses handle its messages.

    `closing` says that nothing more is sent, and what comes is ignored. The message that
    `on_message` is called with is counted in the memory budget; who stores the message takes these
    bytes over by `take_reserved`.

    The parser's own answers are not used: pings are answered only while the client reads, and a
    connection is not closed for an error before `on_refusal` has sent the last message.
    """

    __slots__ = (
        "_busy",
        "_failed",
        "_fragments",
        "_frames",
        "_head",
        "_heard",
        "_is_compressed",
        "_is_scheduled",
        "_opcode",
        "_parts",
        "_pieces",
        "_pong",
        "_protocol",
        "_reserved",
        "_resumed",
        "_silent",
        "_since",
        "_size",
        "_timer",
        "_unparsed",
        "_wire_bytes",
        "budget",
        "clock",
        "closing",
        "limits",
        "transport",
    )

    def __init__(self, accepted: Accepted, clock: Clock, budget: Budget) -> None:
        """
        Args:
            accepted: the outcome of the handshake.
            clock: of the loop.
            budget: memory for messages.
        """
        self.limits = accepted.limits
        self.clock = clock
        self.budget = budget
        self.transport: asyncio.Transport | None = None
        self.closing = False
        self._head = accepted.head
        self._protocol = accepted.protocol
        self._unparsed = bytearray()
        self._frames: list[Frame] = []
        """Parsed frames that were not handled yet, the last first."""
        self._wire_bytes = 0
        """Bytes that came of a frame that is not whole."""
        self._failed = False
        """Whether what comes cannot be parsed any more, or is not to be."""
        self._busy: asyncio.Future[None] | None = None
        """The handling of a message that the next ones wait for."""
        self._is_scheduled = False
        """Whether frames will be handled in a later turn of the loop."""
        self._timer: Timeout | None = None
        self._resumed: asyncio.Event | None = None
        """Set when the client has read enough of what waits; None while nothing does."""
        self._heard = True
        self._silent = 0
        """Pings in a row without any answer."""
        self._pong: bytes | None = None
        """Payload of the last ping that was not answered yet."""
        self._opcode = Opcode.TEXT
        self._is_compressed = False
        self._parts: list[bytes] = []
        """Payloads of the message's frames, then its pieces."""
        self._pieces: Iterator[bytes] | None = None
        """What is left to check, or to inflate, of a message that came whole."""
        self._size = 0
        """Bytes in `_parts`."""
        self._fragments = 0
        self._reserved = 0
        """Bytes of the memory budget for the message."""
        self._since = 0.0
        """Loop time at which the message began; 0 while there is none."""

    # To be overridden

    @abstractmethod
    def on_message(self, data: bytes) -> asyncio.Future[None] | None:
        """Handle a whole text message, which is UTF-8. Where it returns a future, no other message
        is handled before that is done."""

    def on_binary(self, data: bytes) -> asyncio.Future[None] | None:
        """Handle a whole binary message: as text, if it is UTF-8."""
        try:
            data.decode()
        except UnicodeDecodeError:
            self.refuse(CloseCode.UNSUPPORTED_DATA, "not text")
            return None
        return self.on_message(data)

    @abstractmethod
    def on_refusal(self, code: int) -> None:
        """The connection will be closed with this code for what the client sent: the moment for a
        last message."""

    @abstractmethod
    def on_end(self) -> None:
        """Nothing is to be sent any more, whoever ended it. Called once."""

    def on_tick(self, now: float) -> None:
        """`ping_s` seconds have passed."""

    # Sending

    @property
    def is_receiving(self) -> bool:
        """Whether a message has begun and is not whole."""
        return bool(self._parts) or self._wire_bytes > 0

    @property
    def is_paused(self) -> bool:
        """Whether the client reads too slowly for more to be sent."""
        return self._resumed is not None

    def send(self, frames: bytes) -> None:
        """Send frames made by `text_frame`."""
        if self.transport is not None and not self.closing:
            self.transport.write(frames)

    async def drained(self) -> None:
        """Wait until the client has read enough, or nothing is sent any more."""
        while self._resumed is not None and not self.closing:
            await self._resumed.wait()

    def close(self, code: int, reason: str = "", last: bytes = b"") -> None:
        """Close, and send nothing more but the frames `last`, in the same write, so that who reads
        these knows of the end."""
        if self.closing:
            return
        if self.transport is not None:
            payload = code.to_bytes(2, "big") + reason.encode()
            self.transport.write(last + control_frame(Opcode.CLOSE, payload))
        self._end()
        self._timer = self.clock.after(_CLOSE_S, self._abort)

    def refuse(self, code: int, reason: str) -> None:
        """Close for what the client sent, after a last message."""
        if not self.closing:
            self.on_refusal(code)
            self.close(code, reason)

    def take_reserved(self) -> int:
        """Take over the bytes of the memory budget that are reserved for the message."""
        reserved, self._reserved = self._reserved, 0
        return reserved

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        head, self._head = self._head, b""
        self.transport.write(head)
        self._timer = self.clock.after(self.limits.ping_s, self._tick)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if not self._failed:
            self._unparsed += data
            self._handle_frames()

    def eof_received(self) -> None:
        # The transport closes; a client that left without a close frame waits for nothing.
        self._end()

    def pause_writing(self) -> None:
        self._resumed = asyncio.Event()

    def resume_writing(self) -> None:
        self._release_waiters()
        self._answer_ping()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._drop_message()
        self.transport = None
        self._failed = True
        if self._timer is not None:
            self._timer.cancel()

    # Frames

    def _handle_frames(self) -> None:
        """Handle what came, some at a time. Reading is paused while some is left."""
        left, pings = _TURN, 0
        while left > 0 and self._busy is None and not self._failed and not self._is_scheduled:
            if self._pieces is not None:
                left -= _PIECE_COST
                self._add_piece(self._pieces)
            elif self._frames:
                left -= 1
                frame = self._frames.pop()
                if frame.opcode in _DATA:
                    self._add_frame(frame)
                    continue
                if not self._parts:
                    self._since = 0.0
                if frame.opcode is Opcode.CLOSE:
                    self._closed(bytes(frame.data))
                elif frame.opcode is Opcode.PING:
                    # Of many pings the last is answered (RFC 6455, 5.5.3).
                    self._pong = bytes(frame.data)
                    pings += 1
                    if pings <= _PONGS:
                        self._answer_ping()
            elif self._protocol.close_expected():
                self._fail_framing()
            elif self._unparsed:
                self._parse()
            else:
                break
        else:
            self._continue_later()
        self._answer_ping()

    def _parse(self) -> None:
        """Parse some of what came."""
        protocol = self._protocol
        part = self._unparsed[:_SLICE]
        del self._unparsed[:_SLICE]
        protocol.receive_data(bytes(part))
        protocol.data_to_send()
        events = protocol.events_received()
        self._frames = [one for one in reversed(events) if isinstance(one, Frame)]
        if self._frames:
            self._wire_bytes = 0
            return
        self._since = self._since or self.clock.loop.time()
        self._wire_bytes += len(part)
        if not self._reserve():
            if self.closing:
                self._abort()
            self._refuse_message(CloseCode.TRY_AGAIN_LATER, "no memory")

    def _continue_later(self) -> None:
        """Handle the rest in another turn of the loop, or when the message that is being handled
        is done."""
        transport = self.transport
        if transport is None or self._failed or self._is_scheduled:
            return
        transport.pause_reading()
        self._is_scheduled = True
        if self._busy is None:
            self.clock.loop.call_soon(self._continue)
        else:
            self._busy.add_done_callback(self._continue)

    def _continue(self, _: asyncio.Future[None] | None = None) -> None:
        self._is_scheduled = False
        self._busy = None
        if self.transport is not None and not self._failed:
            self.transport.resume_reading()
            self._handle_frames()

    def _fail_framing(self) -> None:
        """Close since what came is not WebSocket, or too large."""
        self._failed = True
        received, sent = self._protocol.close_rcvd, self._protocol.close_sent
        if received is not None:
            # Within a message.
            self._closed(received.code.to_bytes(2, "big"))
            return
        assert sent is not None
        self._refuse_message(sent.code, sent.reason)
        # The client's close frame could not be found in what it sends.
        transport = self.transport
        if transport is not None and not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()

    def _closed(self, payload: bytes) -> None:
        """The client closes, or confirms that it is closed."""
        self._failed = True
        if self.transport is not None:
            if not self.closing:
                self.transport.write(control_frame(Opcode.CLOSE, payload[:2]))
            self.transport.close()
        self._end()

    def _answer_ping(self) -> None:
        # While the client does not read, it is not sent more.
        if self._pong is not None and self._resumed is None and not self.closing:
            if self.transport is not None:
                self.transport.write(control_frame(Opcode.PONG, self._pong))
            self._pong = None

    # Messages

    def _add_frame(self, frame: Frame) -> None:
        if self.closing:
            return
        if frame.opcode is not Opcode.CONT:
            self._since = self._since or self.clock.loop.time()
            self._opcode = frame.opcode
            self._is_compressed = isinstance(frame, CompressedFrame)
        self._fragments += 1
        if self._fragments > _FRAGMENTS + (self._size + len(frame.data)) // _FRAGMENT_BYTES:
            self._refuse_message(CloseCode.POLICY_VIOLATION, "too many fragments")
        elif self._add_part(bytes(frame.data)) and frame.fin:
            self._finish_frames()

    def _finish_frames(self) -> None:
        """The frames of a message are complete."""
        self._answer_ping()
        if not self._is_compressed and self._size <= _SMALL:
            self._finish_message()
            return
        payload = b"".join(self._parts)
        self._parts, self._size = [], 0
        self._pieces = pieces_of(
            payload, is_compressed=self._is_compressed, is_text=self._opcode is Opcode.TEXT
        )

    def _add_piece(self, pieces: Iterator[bytes]) -> None:
        """Inflate and check the next piece of a message."""
        try:
            piece = next(pieces, None)
        except BadCompression:
            self._refuse_message(CloseCode.INVALID_DATA, "not compressed as agreed")
        except UnicodeDecodeError:
            self._refuse_message(CloseCode.INVALID_DATA, "not UTF-8")
        else:
            if piece is None:
                self._finish_message()
            else:
                self._add_part(piece)

    def _add_part(self, data: bytes) -> bool:
        """Add a part of the message; False if the limits do not allow it."""
        self._parts.append(data)
        self._size += len(data)
        if self._size > self.limits.message_bytes:
            self._refuse_message(CloseCode.MESSAGE_TOO_BIG, "message too big")
        elif not self._reserve():
            self._refuse_message(CloseCode.TRY_AGAIN_LATER, "no memory")
        return not self.closing

    def _reserve(self) -> bool:
        """Reserve memory for what came of the message; False if there is not enough."""
        size = self._size + self._wire_bytes
        wanted = size - self._reserved if size > _SMALL else 0
        if wanted <= 0:
            return True
        if not self.budget.reserve(wanted):
            return False
        self._reserved += wanted
        return True

    def _finish_message(self) -> None:
        data = b"".join(self._parts)
        is_checked, self._pieces = self._pieces is not None, None
        self._parts = []
        try:
            if self._opcode is Opcode.BINARY:
                self._busy = self.on_binary(data)
                return
            if not is_checked:
                data.decode()
            self._busy = self.on_message(data)
        except UnicodeDecodeError:
            self._refuse_message(CloseCode.INVALID_DATA, "not UTF-8")
        finally:
            self._drop_message()

    def _refuse_message(self, code: int, reason: str) -> None:
        self._drop_message()
        self.refuse(code, reason)

    def _drop_message(self) -> None:
        self._parts, self._pieces = [], None
        self._size = self._fragments = 0
        self._since = 0.0
        self.budget.release(self.take_reserved())

    # Time, and the end

    def _tick(self) -> None:
        self._timer = self.clock.after(self.limits.ping_s, self._tick)
        now = self.clock.loop.time()
        self._silent = 0 if self._heard or self._busy is not None else self._silent + 1
        self._heard = False
        if self._silent >= _SILENT_PINGS:
            self.close(CloseCode.INTERNAL_ERROR, "keepalive ping timeout")
            self._abort()
            return
        late = self.limits.message_s
        if self.is_receiving and late and now - self._since > late:
            self._refuse_message(CloseCode.POLICY_VIOLATION, "message timeout")
            return
        if self._resumed is None and self.transport is not None:
            self.transport.write(control_frame(Opcode.PING))
        self.on_tick(now)

    def _end(self) -> None:
        if self.closing:
            return
        self.closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._drop_message()
        self._release_waiters()
        self.on_end()

    def _release_waiters(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
