"""A client's connection: bytes in, one request at a time, its answer out.

The table of `states` says what is legal when. The parser gets no byte beyond the end of a request's
head, and none beyond the end of its body: what follows waits, unparsed, until the request is
answered.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from math import inf
from typing import cast

import httptools

from dragoman.http.arrival import Arrival
from dragoman.http.boundary import Boundary
from dragoman.http.context import GRACE_S, SHORT_READ, Context
from dragoman.http.head import (
    CONTINUE,
    STATUS_LINES,
    BadHead,
    read_fields,
    split_target,
)
from dragoman.http.problems import Problem
from dragoman.http.request import Request, UpgradedConnection
from dragoman.http.sending import Sending
from dragoman.http.states import PARSED, TRANSITIONS, State

_log = logging.getLogger("dragoman.http")

_AHEAD = 64 * 1024
"""Bytes buffered of what a client sends before it is answered; beyond, its socket is not read."""

_EMPTY_LINES = 1024
"""Bytes that two empty lines before a head count for: each is parsed by itself."""

_HALF_CLOSED_S = 0.1


class Connection(asyncio.BufferedProtocol):
    """A connection that carries one request at a time."""

    __slots__ = (
        "_ahead",
        "_arrival",
        "_boundary",
        "_discarded",
        "_fields",
        "_half_closed",
        "_head_bytes",
        "_left",
        "_parser",
        "_reading",
        "_request",
        "_spent",
        "_upgraded",
        "_url",
        "address",
        "context",
        "deadline",
        "loop",
        "sending",
        "state",
        "transport",
        "waits_since",
    )

    def __init__(self, context: Context, address: str) -> None:
        """
        Args:
            context: what connections share.
            address: of the other end, empty for a Unix socket.
        """
        self.context = context
        self.loop = context.loop
        self.address = address
        self.state: State = "idle"
        self.deadline = inf
        """Loop time until which the client must send more, in the states where it has to."""
        self.waits_since = self.loop.time()
        """Loop time at which the connection was opened, or its last answer read."""
        self.sending = Sending(context.loop, context.limits, context.budget)
        self.transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._boundary = Boundary()
        self._arrival = Arrival(context.limits)
        self._request: Request | None = None
        """The request that is not answered yet."""
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        """Header fields of the next head."""
        self._head_bytes = 0
        self._left = 0
        """Bytes that are still to come of a body with a length."""
        self._spent = False
        """Whether the parser had what is not to be taken for a part of the next head: trailers, or
        the head that `_decline` gives it."""
        self._discarded = 0
        """Bytes that were discarded of what is not wanted of a body, or behind the last answer."""
        self._ahead = b""
        self._reading = True
        self._half_closed: asyncio.TimerHandle | None = None
        self._upgraded: UpgradedConnection | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.sending.open(self.transport)
        if self.state == "closing":
            # The server went down during the handshake of TLS.
            transport.close()
        else:
            self.deadline = self.loop.time() + (self.context.limits.head_s or inf)

    def connection_lost(self, exc: Exception | None) -> None:
        self.state = TRANSITIONS[self.state]["lost"]
        self.transport = None
        # It references this connection.
        del self._parser
        self.deadline = inf
        self._ahead = b""
        if self._half_closed is not None:
            self._half_closed.cancel()
        request, self._request = self._request, None
        if request is not None:
            request.left()
        self.sending.lost()
        if self._upgraded is not None:
            self._upgraded.connection_lost(exc)
            self._upgraded = None
        self.context.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        request = self._request
        if request is None:
            is_long = self._upgraded is not None
        else:
            is_long = request.length >= 0 or (request.is_piped and self._arrival.is_dense)
        return self.context.view if is_long else self.context.short_view

    def buffer_updated(self, nbytes: int) -> None:
        context = self.context
        self._read(context.buffer, context.view, nbytes)
        if nbytes < SHORT_READ or not self._reading or self.transport is None:
            return
        if nbytes >= len(self.get_buffer(-1)):
            # uvloop reads on while the buffer comes full, up to 32 times: others go first, unless
            # this was the head of a request with a body.
            self.transport.pause_reading()
            context.turns.wait(self._read_on)

    def _read_on(self) -> None:
        if self._reading and self.transport is not None:
            self.transport.resume_reading()

    def eof_received(self) -> bool:
        """The client sends no more. Nearly always it is gone; some only say that they are done
        asking, and are left the moment that a ready answer takes."""
        if self._upgraded is not None:
            return bool(self._upgraded.eof_received())
        transport = self.transport
        # Where False is returned, the transport closes once all is sent, if the client takes it.
        self.sending.watch()
        if self.state != "serving" or transport is None or not transport.can_write_eof():
            return False
        self._half_closed = self.loop.call_later(_HALF_CLOSED_S, transport.close)
        return True

    def pause_writing(self) -> None:
        self.sending.pause()
        if self._upgraded is not None:
            self._upgraded.pause_writing()

    def resume_writing(self) -> None:
        self.sending.resume()
        if self.state == "flushing":
            self._next()
        elif self.state == "closing":
            self.sending.watch()
        elif self._upgraded is not None:
            self._upgraded.resume_writing()

    # Reading

    def _read(self, data: bytes | bytearray, view: memoryview, end: int) -> None:
        start = 0
        while start < end:
            state = self.state
            if state not in PARSED:
                self._handle_unparsed(view[start:end])
                return
            left = self._left
            if left:
                cut = min(end, start + left)
                self._left = left - (cut - start)
            else:
                cut = self._boundary.cut(data, start, end)
                if state == "idle" or state == "head":
                    if self._spent:
                        self._spent = False
                        self._parser = httptools.HttpRequestParser(self)
                        self._url, self._fields = b"", []
                    # Behind an empty line only another empty line can have left a head unbegun.
                    size = self._head_bytes + cut - start + (_EMPTY_LINES if start else 0)
                    if size > self.context.limits.head_bytes:
                        self._refuse(Problem.HEAD_TOO_LARGE)
                        return
                    self._head_bytes = size
            try:
                self._parser.feed_data(view[start:cut])
            except httptools.HttpParserUpgrade:
                self._decline()
            except httptools.HttpParserError as error:
                bad = error.__context__
                self._break(bad.problem if isinstance(bad, BadHead) else Problem.MALFORMED)
                return
            start = cut
        state = self.state
        if state == "receiving":
            self._account(end)
        elif state == "discarding":
            self._discard(end)
        elif self._head_bytes and state == "idle":
            self.state = TRANSITIONS[state]["began"]
            self.deadline = self.loop.time() + (self.context.limits.head_s or inf)

    def _handle_unparsed(self, data: memoryview) -> None:
        """Handle bytes that are not for the parser: of a later request, of another protocol, or to
        be discarded."""
        if self.state in ("serving", "flushing"):
            self._ahead += data
            if len(self._ahead) >= _AHEAD:
                self._pause_reading(True)
        elif self._upgraded is not None:
            self._upgraded.data_received(bytes(data))
        else:
            self._discard(len(data))

    def _discard(self, size: int) -> None:
        """Discard bytes. Too many of them are left in the kernel while there is an answer to send;
        otherwise they end the connection."""
        self._discarded += size
        if self._discarded <= self.context.limits.linger_bytes:
            return
        if self._request is not None:
            self._pause_reading(True)
        else:
            self.abort()

    def _account(self, size: int) -> None:
        """A read has brought `size` bytes of a body, and not its end."""
        request = self._request
        assert request is not None
        if request.length < 0 and not self._arrival.is_framed_well(size, request.received):
            self._break(Problem.BODY_MALFORMED)
            return
        if request.is_piped and request.length < 0:
            request.pass_chunks()
        if request.unwanted:
            self._discard(size)
        elif request.held > request.reserved and not request.reserve(
            request.held - request.reserved
        ):
            request.fail(Problem.NO_MEMORY)
        elif not request.wanted and (request.is_piped or request.held >= _AHEAD):
            self._pause_reading(True)
        elif request.is_piped:
            self.deadline = self.loop.time() + (self.context.limits.body_s or inf)

    def _break(self, problem: Problem) -> None:
        """Handle malformed HTTP: nothing after it can be parsed."""
        request = self._request
        if request is not None:
            self.state = TRANSITIONS[self.state]["broken"]
            request.keep_alive = False
            request.fail(Problem.BODY_MALFORMED)
        elif self.state == "discarding":
            self.abort()
        else:
            self._refuse(problem)

    def _pause_reading(self, paused: bool) -> None:
        if self.transport is not None and self._reading is paused:
            self._reading = not paused
            if paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # httptools

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head of a request is complete.

        Raises:
            BadHead: none that can be served.
        """
        if self._request is not None:
            # The head that `_decline` gives to the parser.
            return
        parser = self._parser
        method = parser.get_method().decode()
        version = parser.get_http_version()
        path, query = split_target(method, self._url)
        headers, length = read_fields(self._fields, version)
        context = self.context
        request = Request(
            self,
            self.address,
            context.budget,
            method,
            path,
            query,
            version,
            headers,
            length,
            parser.should_keep_alive(),
            parser.should_upgrade(),
        )
        if b"expect" in headers and version == "1.1":
            if headers[b"expect"].strip().lower() != b"100-continue":
                raise BadHead(Problem.EXPECTATION)
            request.expects = length != 0
        self._request = request
        self._url, self._fields = b"", []
        self._head_bytes = self._discarded = 0
        if length > 0:
            self._left = length
        elif length < 0:
            self._spent = True
            self._arrival.begin()
        self.state = TRANSITIONS[self.state]["request"]
        context.requests[request] = asyncio.Task(
            self._serve(request), loop=self.loop, name="request"
        )

    def on_body(self, data: bytes) -> None:
        if self._request is not None:
            self._request.take(data)

    def on_message_complete(self) -> None:
        request = self._request
        if request is not None:
            if request.wants_upgrade and request.length:
                # The parser takes the body for the other protocol.
                return
            self.state = TRANSITIONS[self.state]["whole"]
            request.complete = True
            if request.waiter is not None:
                request.wake()
        elif self.state == "discarding":
            self.state = TRANSITIONS[self.state]["whole"]
            self._next()

    def _decline(self) -> None:
        """Continue without the upgrade that the client offers, where the parser stopped. The body
        of such a request comes as of any other (Java's HTTP client offers HTTP/2 with each), so a
        new parser is put where that begins."""
        self._parser = httptools.HttpRequestParser(self)
        request = self._request
        if request is not None and request.length:
            request.wants_upgrade = False
            framing = (
                b"transfer-encoding: chunked"
                if request.length < 0
                else b"content-length: %d" % request.length
            )
            self._spent = True
            self._parser.feed_data(b"POST / HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n" % framing)

    # The application

    async def _serve(self, request: Request) -> None:
        try:
            await self.context.app(request)
        except Exception as error:
            # Its message may quote the request.
            places = "".join(traceback.format_tb(error.__traceback__))
            _log.error("a request failed: %s\n%s", type(error).__name__, places)
        finally:
            del self.context.requests[request]
            if request.reserved:
                request.release()
            if request.connection is not None:
                self._give_up(request)

    def _give_up(self, request: Request) -> None:
        """The application returned without finishing its answer."""
        if not request.begun:
            request.respond(*self.context.refuse(Problem.FAILED, request.path, request.headers))
        elif request.is_chunked or request.is_measured:
            # The framing shows the client that the rest is missing.
            self._request = request.connection = None
            self._end()
        else:
            # A plain end would be the answer's.
            self.sending.reset()

    def want_body(self, request: Request) -> None:
        """The application waits for the body."""
        if request.expects:
            request.expects = False
            if not request.received:
                self.sending.write(CONTINUE)
        now = self.loop.time()
        if request.is_piped:
            self.deadline = now + (self.context.limits.body_s or inf)
        else:
            self.deadline = self._arrival.start_waiting(request.received, now)
        self._pause_reading(False)

    def head(self, request: Request, status: int, lines: bytes, framing: bytes) -> bytes:
        """The head of an answer, which says whether another request may follow."""
        context = self.context
        if context.closing or not (request.complete or self._can_skip(request)):
            request.keep_alive = False
        if not request.keep_alive:
            last = b"connection: close\r\n\r\n"
        elif request.version == "1.0":
            last = b"connection: keep-alive\r\n\r\n"
        else:
            last = b"\r\n"
        return b"".join((STATUS_LINES[status], context.date, lines, framing, last))

    def _can_skip(self, request: Request) -> bool:
        """Whether the rest of a body can be discarded, for another request to follow."""
        limits = self.context.limits
        if request.expects or not limits.linger_s:
            return False
        return request.length - request.received <= limits.linger_bytes

    def answered(self, request: Request) -> None:
        """The answer is complete."""
        self._request = request.connection = None
        if request.reserved and self.sending.paused:
            self.sending.reserve(request.reserved)
            request.reserved = 0
        if not request.keep_alive:
            self._end()
            return
        self.state = TRANSITIONS[self.state]["answered"]
        if self.state == "flushing":
            self._next()
            return
        self.deadline = self.loop.time() + self.context.limits.linger_s
        self._discarded = 0
        self._pause_reading(False)

    def switch_to(self, upgraded: UpgradedConnection) -> asyncio.Transport:
        """Switch to another protocol; see `Request.switch_to`."""
        transport = self.transport
        assert transport is not None
        self._request = None
        self.state = TRANSITIONS[self.state]["upgraded"]
        self._upgraded = upgraded
        upgraded.connection_made(transport)
        ahead, self._ahead = self._ahead, b""
        self._pause_reading(False)
        if ahead:
            upgraded.data_received(ahead)
        return transport

    def _next(self) -> None:
        """Go on with the next request, once the client has read enough of the answer."""
        if self.sending.paused:
            return
        self.state = TRANSITIONS[self.state]["drained"]
        self.waits_since = now = self.loop.time()
        idle_s = self.context.limits.idle_s or inf
        if self.context.closing:
            # The head of the answer did not say that it is the last: the next request may have been
            # sent, and would be reset.
            idle_s = min(idle_s, GRACE_S)
        self.deadline = now + idle_s
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            self._pause_reading(False)
            self._read(ahead, memoryview(ahead), len(ahead))
        if self._half_closed is not None and self.state in ("idle", "head"):
            self._end()

    # The end

    def on_deadline(self, now: float) -> None:
        """The client has not sent enough in time."""
        self.deadline = inf
        state = self.state
        if state == "head":
            self._refuse(Problem.HEAD_TIMEOUT)
        elif state == "receiving":
            self._check_progress(now)
        elif state == "idle":
            self._end()
        elif state == "discarding" or state == "closing":
            self.abort()

    def _check_progress(self, now: float) -> None:
        request = self._request
        assert request is not None
        if not request.wanted:
            # It is the application that waits, for whoever it passes the body to.
            return
        check_at = None if request.is_piped else self._arrival.next_check(request.received, now)
        if check_at is None:
            request.fail(Problem.BODY_TIMEOUT)
        else:
            self.deadline = check_at

    def retire(self) -> None:
        """End as soon as no request is being served."""
        if self.state in ("idle", "head"):
            self._end()
        elif self._upgraded is not None:
            self._upgraded.retire()

    def cancel(self) -> None:
        """Cancel what another protocol is doing."""
        if self._upgraded is not None:
            self._upgraded.cancel()

    def abort(self) -> None:
        """End at once, whatever is under way."""
        self.sending.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer what is no valid request, and end."""
        try:
            path = split_target("", self._url)[0] if self._url else ""
        except BadHead:
            path = ""
        headers = dict(self._fields)
        status, lines, body = self.context.refuse(problem, path, headers)
        length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.sending.write(b"".join((STATUS_LINES[status], self.context.date, lines, length, body)))
        self._end()

    def _end(self) -> None:
        """End after the last answer. A reset would destroy the answer of a client that still sends,
        so what it sends is read for a while (RFC 9112, 9.6)."""
        sends = self.state in ("head", "receiving", "broken", "discarding")
        self.state = TRANSITIONS[self.state]["last"]
        transport = self.transport
        if transport is None:
            return
        linger_s = self.context.limits.linger_s
        if sends and linger_s:
            if transport.can_write_eof():
                transport.write_eof()
            self._discarded = 0
            self.deadline = self.loop.time() + linger_s
            self._pause_reading(False)
        else:
            self.deadline = inf
            transport.close()
        self.sending.watch()
