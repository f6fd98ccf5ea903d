"""Calls over WebSocket connections that an upstream keeps."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, cast

from dragoman.http.clock import Clock, Timeout
from dragoman.http.websocket.client import OFFER, new_key, read_answer
from dragoman.http.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    BadFrame,
    FrameReader,
    masked_frame,
)
from dragoman.upstream.errors import BadAnswer, CallError, ConnectionReset, IdleTimeout
from dragoman.upstream.incoming import IncomingResponse
from dragoman.upstream.request import (
    Prepared,
    SocketCall,
    SocketFailure,
    SocketUse,
    UpstreamRequest,
)

_HEAD_LIMIT = 64 * 1024
_MESSAGE_LIMIT = 64 * 1024 * 1024
"""Bytes of the largest message of an upstream: a last event repeats all of a response."""
_SMALL = 64 * 1024
"""Bytes of a message for which no memory is asked."""
_PIECE = 256 * 1024
"""Bytes of a request that are sent as one frame. Answers to pings go in between."""
_TURN = 256
"""Frames that are looked at before others have their turn."""
_AGE_S = 55 * 60.0
"""Seconds after which a connection is not used again: services end them after an hour."""
_IDLE_S = 300.0
_MOST_IDLE = 256
_MOST_HELD = 64 * 1024 * 1024
"""Bytes of conversations that idle connections may hold, for comparison."""
_HANDSHAKE_S = 15.0
_PING_S = 20.0
"""Seconds of an answer's silence after which the upstream is asked whether it is there."""
_PARTING_S = 15.0
"""Seconds for which what may follow the end of an answer is waited for."""
_ABSENT = frozenset({400, 404, 405, 426, 501})
"""Statuses that tell that a service does not offer WebSocket."""
_ABSENT_S = 3600.0
_FAILED_S = 300.0
"""Seconds for which it is remembered that a host does not offer it, or that it failed to."""
_MOST_HOSTS = 1024

_STREAM = [(b"content-type", b"text/event-stream")]
_TOO_BIG = (1009).to_bytes(2, "big")
_JSON = (b"content-type", b"application/json")


class _Again(CallError):
    """The connection cannot answer, and has done nothing: another may, asked for all of it."""


class _TooLarge(CallError):
    """The upstream takes no message of this size."""


class _Refused(Exception):
    """No WebSocket connection was agreed to: with this status, 0 for none."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class SocketConnection(asyncio.Protocol):
    """A connection that carries one response at a time. It is read at all times, unless whoever
    takes the answer is slow: pings are answered, and its end is seen, while it is idle too.

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
        self.held: Any = None
        """What the upstream remembers of the last response, as the protocol tells it."""
        self.expiry: Timeout | None = None
        self.retires_at = clock.loop.time() + _AGE_S
        self._clock = clock
        self._loop = clock.loop
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[int] | None = None
        """The status of the handshake's answer, while it is waited for."""
        self._head = bytearray()
        self._key = b""
        self._reader = FrameReader(_MESSAGE_LIMIT, compressed=False, masked=False)
        self._parts: list[bytes] = []
        self._size = 0
        self._room = _SMALL
        """Bytes of a message for which there is memory."""
        self._hold: Callable[[int], None] = _freely
        self._incoming: IncomingResponse | None = None
        self._idle = 0.0
        """Seconds for which nothing at all may be heard within an answer; 0 for any."""
        self._heard = False
        """Whether anything came since the upstream was last looked after."""
        self._silent_since = 0.0
        self._watch: Timeout | None = None
        self._parting: Timeout | None = None
        self._call: SocketCall | None = None
        self._unsent: memoryview | None = None
        self._full = False
        self._looks_on = False
        """Whether frames that came will be looked at in a later turn of the loop."""
        self._lost: Exception | None = None
        """Why the connection is no more, while frames that came before are still to be taken."""
        self._aborted = False

    @property
    def is_open(self) -> bool:
        """Whether a call can be tried on it."""
        return self._transport is not None and not self._transport.is_closing()

    async def open(self, lines: bytes, seconds: float) -> None:
        """Shake hands. `lines` is the request, without its end.

        Raises:
            _Refused: the upstream does not agree, or not in time.
        """
        assert self._transport is not None
        self._key = new_key()
        self._opened = self._loop.create_future()
        self._transport.write(b"%bsec-websocket-key: %b\r\n\r\n" % (lines, self._key))
        try:
            async with asyncio.timeout(seconds):
                status = await self._opened
        except TimeoutError:
            self.abort()
            raise _Refused(0) from None
        except BaseException:
            self.abort()
            raise
        finally:
            self._opened = None
        if status != 101:
            self.abort()
            raise _Refused(status)
        if self._head:
            rest, self._head = bytes(self._head), bytearray()
            self.data_received(rest)

    def begin(
        self,
        incoming: IncomingResponse,
        call: SocketCall,
        message: bytes,
        hold: Callable[[int], None],
        idle: float,
    ) -> None:
        """Send the message of a call; its answer goes to `incoming`. `hold` is that of its use,
        `idle` the seconds for which nothing at all may be heard within the answer (0: any)."""
        assert self._incoming is None, "one response at a time"
        self._hold, self._room = hold, _SMALL
        self._incoming, self._call, self.held = incoming, call, None
        self._send_message(message)
        self._idle, self._heard = idle, True
        if self._watch is None:
            self._look_after()

    def send_more(self, incoming: IncomingResponse, message: bytes) -> bool:
        """Send a further message of the call that is answered by `incoming`. False if that cannot
        be now: it is over, or another message is still on its way."""
        call = self._call
        if self._incoming is not incoming or call is None or not incoming.has_head or call.lingers:
            return False
        if self._unsent is not None or self._full or not self.is_open:
            return False
        self._send_message(message)
        return True

    def _look_after(self) -> None:
        """Ask an upstream of which nothing was heard for some time whether it is there; end the
        call if it was asked in vain. Lasts as long as calls are under way."""
        self._watch = None
        incoming = self._incoming
        if incoming is None or self._transport is None:
            return
        now = self._loop.time()
        if self._heard or self._is_paused() or not incoming.has_head:
            self._silent_since = now
        elif self._idle and now - self._silent_since >= self._idle:
            incoming.fail(IdleTimeout(f"nothing was heard of the upstream for {self._idle:g} s"))
            return
        if not self._heard:
            self._write(masked_frame(PING, b""))
        self._heard = False
        every = min(_PING_S, self._idle / 4) if self._idle else _PING_S
        self._watch = self._clock.after(every, self._look_after)

    def _send_message(self, message: bytes) -> None:
        if len(message) <= _PIECE:
            self._write(masked_frame(TEXT, message))
        else:
            self._unsent = memoryview(message)
            self._send(TEXT)

    def _send(self, opcode: int = CONTINUATION) -> None:
        unsent, transport = self._unsent, self._transport
        if unsent is None or transport is None or (self._full and opcode == CONTINUATION):
            return
        last = len(unsent) <= _PIECE
        transport.write(masked_frame(opcode, bytes(unsent[:_PIECE]), last=last))
        self._unsent = None if last else unsent[_PIECE:]
        if not last and not self._full:
            self._loop.call_soon(self._send)

    # Carrier

    def abort(self) -> None:
        """Close at once: there is no other way to cancel a response."""
        self._aborted = True
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
        if not paused and not self._looks_on and (self.is_open or self._lost is not None):
            self._looks_on = True
            self._loop.call_soon(self._look_on)

    def unsent(self) -> int:
        """Bytes of the request that were not taken yet."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + (0 if self._unsent is None else len(self._unsent))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent = None
        for timeout in (self._watch, self._parting):
            if timeout is not None:
                timeout.cancel()
        opened = self._opened
        if opened is not None and not opened.done():
            opened.set_result(0)
        self._lost = exc or ConnectionError()
        if not self._looks_on:
            self._look()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._opened is not None or self._head:
            self._read_head(data)
            return
        self._reader.feed(data)
        if not self._looks_on:
            self._look()

    def _read_head(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        opened = self._opened
        if opened is None or opened.done():
            return
        if end < 0:
            if len(self._head) > _HEAD_LIMIT:
                opened.set_result(0)
            return
        try:
            status = read_answer(bytes(self._head[:end]), self._key)
        except ValueError:
            status = 0
        del self._head[: end + 4]
        opened.set_result(status)

    # Frames

    def _look_on(self) -> None:
        self._looks_on = False
        self._look()

    def _look(self) -> None:
        left = _TURN
        try:
            while self._may_take():
                piece = self._reader.next()
                if piece is None:
                    break
                if piece.opcode == CLOSE:
                    self._closed(piece.data)
                elif piece.opcode == PING:
                    self._write(masked_frame(PONG, piece.data))
                elif piece.opcode in (TEXT, BINARY):
                    self._parts.append(piece.data)
                    self._size += len(piece.data)
                    if self._incoming is not None:
                        self._incoming.received += len(piece.data)
                    if self._size > _MESSAGE_LIMIT:
                        raise BadFrame(1009, "message too big")
                    if self._size > self._room and not self._make_room():
                        break
                    if piece.ends_message:
                        message = b"".join(self._parts)
                        self._parts, self._size = [], 0
                        self._take(message)
                left -= 1
                if not left:
                    self._looks_on = True
                    self._loop.call_soon(self._look_on)
                    break
        except BadFrame as bad:
            if self._incoming is not None:
                self._incoming.fail(BadAnswer(f"the upstream's WebSocket frames are bad: {bad}"))
            self.abort()
        if self._incoming is not None:
            self._incoming.on_read()
        if self._lost is not None and not self._looks_on and not self._is_paused():
            self._give_up(self._lost)

    def _make_room(self) -> bool:
        """Have memory for what came of a message; without it the call fails. A larger message takes
        only what it has beyond those before it."""
        try:
            self._hold(self._size - self._room)
        except Exception as error:
            if self._incoming is not None:
                self._incoming.fail(error)
            self.abort()
            return False
        self._room = self._size
        return True

    def _may_take(self) -> bool:
        """Whether frames are taken: also those that came before the upstream went away."""
        there = self.is_open or (self._lost is not None and not self._aborted)
        return there and not self._is_paused()

    def _is_paused(self) -> bool:
        return self._incoming is not None and self._incoming.paused

    def _give_up(self, why: Exception) -> None:
        """Nothing more comes."""
        self._lost = None
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            # A stream without its last event is cut off, whoever closed it.
            incoming.on_lost(why)

    def _closed(self, payload: bytes) -> None:
        self._write(masked_frame(CLOSE, payload[:2]))
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            if payload[:2] == _TOO_BIG and not incoming.has_head:
                incoming.fail(_TooLarge("the request is too large for a message"))
            incoming.on_lost(ConnectionError())
        self.abort()

    def _write(self, frame: bytes | bytearray) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def _take(self, message: bytes) -> None:
        """A message came."""
        call, incoming = self._call, self._incoming
        if call is None:
            return
        if incoming is None:
            if call.spoils(message):
                self.abort()
            return
        event = call.take(message)
        if call.error is not None:
            self._fail(incoming, call.error)
            return
        if call.lingers is (self._parting is None):
            self._await_end(call.lingers)
        if not event:
            return
        if not incoming.has_head:
            incoming.raw_headers.extend(_STREAM)
            incoming.on_head(200)
        incoming.on_body(event)
        if call.over:
            self._end(incoming, call)

    def _await_end(self, lingers: bool) -> None:
        """Wait for what may follow an end, but not for long; or no longer."""
        if self._parting is not None:
            self._parting.cancel()
        self._parting = self._clock.after(_PARTING_S, self._part) if lingers else None

    def _part(self) -> None:
        self._parting = None
        incoming, call = self._incoming, self._call
        if incoming is None or call is None:
            return
        self._incoming = None
        incoming.on_body(call.part())
        incoming.on_read()
        incoming.on_complete()
        self.abort()

    def _fail(self, incoming: IncomingResponse, error: SocketFailure) -> None:
        self._incoming = None
        if incoming.has_head:
            incoming.on_body(error.event)
            incoming.on_read()
            incoming.on_complete()
        elif error.again:
            incoming.fail(_Again("the connection cannot answer"))
        else:
            incoming.raw_headers.extend((_JSON, *error.headers))
            incoming.on_head(error.status)
            incoming.on_body(error.body)
            incoming.on_complete()
        self.abort()

    def _end(self, incoming: IncomingResponse, call: SocketCall) -> None:
        self._incoming = None
        incoming.on_read()
        incoming.on_complete()
        if self._unsent is not None or not self.is_open:
            self.abort()
            return
        if incoming.paused:
            self.pause(False)
        self.held = call.held
        self._hold = _freely
        self._on_free(self)


def _freely(size: int) -> None:
    """Of an idle connection nothing is asked."""


Dial = Callable[[Callable[[], SocketConnection]], Awaitable[SocketConnection]]
Begin = Callable[[SocketConnection], IncomingResponse]


class SocketPool:
    """The connections of a client, by upstream, credentials, proxy and conversation. Which host
    does not offer any is remembered for a time."""

    def __init__(self, clock: Clock, on_lost: Callable[[SocketConnection], None]) -> None:
        """
        Args:
            clock: of the running loop.
            on_lost: told of each connection that is gone.
        """
        self._clock = clock
        self._lost = on_lost
        self._idle: OrderedDict[SocketConnection, None] = OrderedDict()
        self._by_key: dict[Hashable, list[SocketConnection]] = {}
        self._held = 0
        self._refusing: dict[Hashable, float] = {}

    async def send(
        self,
        use: SocketUse,
        request: UpstreamRequest,
        offer: Prepared,
        dial: Dial,
        begin: Begin,
    ) -> IncomingResponse | None:
        """Make a call; None if it has to be posted. `offer` is the prepared handshake, `begin`
        makes what takes the answer.

        Raises:
            CallError: no answer.
        """
        if offer.forwarded or self._refuses(use, offer):
            return None
        call = use.call(request.body)
        if call is None:
            return None
        key = (offer.key, offer.lines, use.conversation)
        connection, message = self._take(key, call)
        reused = connection is not None
        for _ in range(2):
            if connection is None:
                connection = await dial(lambda: self._made(key))
                try:
                    await connection.open(
                        offer.lines + OFFER_LINES, request.timeouts.connect or _HANDSHAKE_S
                    )
                except _Refused as refusal:
                    self._remember(offer, refusal.status)
                    return None
                if not connection.is_open:
                    return None
            incoming = begin(connection)
            message = message or call.message() or b""
            connection.begin(incoming, call, message, use.hold, request.timeouts.idle)
            use.begun(call, partial(connection.send_more, incoming))
            try:
                await incoming.head()
            except _TooLarge:
                return None
            except _Again:
                pass
            except ConnectionReset:
                if incoming.received or not reused:
                    raise
            else:
                return incoming
            connection, message, reused = None, None, False
        return None

    def _made(self, key: Hashable) -> SocketConnection:
        return SocketConnection(self._clock, key, self._put, self._gone)

    def _refuses(self, use: SocketUse, offer: Prepared) -> bool:
        until = self._refusing.get(offer.key, 0.0)
        return not use.always and until > self._clock.loop.time()

    def _remember(self, offer: Prepared, status: int) -> None:
        if status == 401:
            return  # that of an account, which POST tells better
        seconds = _ABSENT_S if status in _ABSENT else _FAILED_S
        self._refusing.pop(offer.key, None)
        self._refusing[offer.key] = self._clock.loop.time() + seconds
        if len(self._refusing) > _MOST_HOSTS:
            del self._refusing[next(iter(self._refusing))]

    def _take(
        self, key: Hashable, call: SocketCall
    ) -> tuple[SocketConnection | None, bytes | None]:
        """An idle connection, with the message that goes on from what it holds, if one does."""
        now = self._clock.loop.time()
        found = None
        for connection in reversed(self._by_key.get(key, ())):
            if not connection.is_open or connection.retires_at <= now:
                continue
            found = found or connection
            message = None if connection.held is None else call.message(connection.held)
            if message is not None:
                self._forget(connection)
                return connection, message
        if found is not None:
            self._forget(found)
        return found, None

    def _put(self, connection: SocketConnection) -> None:
        if connection.retires_at <= self._clock.loop.time():
            connection.abort()
            return
        self._idle[connection] = None
        self._by_key.setdefault(connection.key, []).append(connection)
        self._held += _size(connection)
        connection.expiry = self._clock.after(_IDLE_S, connection.abort)
        while len(self._idle) > _MOST_IDLE or (self._held > _MOST_HELD and len(self._idle) > 1):
            oldest = next(iter(self._idle))
            self._forget(oldest)
            oldest.abort()

    def _forget(self, connection: SocketConnection) -> None:
        if connection not in self._idle:
            return
        del self._idle[connection]
        same = self._by_key[connection.key]
        same.remove(connection)
        if not same:
            del self._by_key[connection.key]
        self._held -= _size(connection)
        if connection.expiry is not None:
            connection.expiry.cancel()
            connection.expiry = None

    def _gone(self, connection: SocketConnection) -> None:
        self._forget(connection)
        self._lost(connection)


def _size(connection: SocketConnection) -> int:
    return 0 if connection.held is None else connection.held.size


def offer_of(request: UpstreamRequest) -> UpstreamRequest:
    """The request for a connection, with the credentials of one that would be posted."""
    headers = tuple(
        (name, value) for name, value in request.headers if name.lower() not in _OF_BODY
    )
    return UpstreamRequest(
        method="GET",
        url=request.url,
        headers=headers,
        timeouts=request.timeouts,
        proxy=request.proxy,
    )


_OF_BODY = ("accept", "content-type", "idempotency-key", "traceparent")

OFFER_LINES = "".join(f"{name}: {value}\r\n" for name, value in OFFER).encode()
