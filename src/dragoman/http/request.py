"""One request of a client: what came, and the way to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from math import inf
from typing import Protocol

from msgspec import Struct

from dragoman.http.limits import Budget
from dragoman.http.problems import BodyRefused, ClientGone, Problem
from dragoman.http.sending import Sending

_JOINED = 16 * 1024
"""Bodies up to this size are copied behind their head: cheaper than a second piece."""

_LAST_CHUNK = b"0\r\n\r\n"
_BODYLESS = frozenset({204, 304})

BodySink = Callable[[bytes], bool]
"""Takes the next piece of a body. Returns whether it can take another at once."""


class UpgradedConnection(asyncio.Protocol):
    """A connection after it was switched to another protocol; see `Request.switch_to`."""

    __slots__ = ()

    def retire(self) -> None:
        """The server shuts down: end as soon as nothing is in progress."""

    def cancel(self) -> None:
        """The server waits no longer: cancel what is in progress."""


class Link(Protocol):
    """The connection of a request, as far as the request uses it."""

    loop: asyncio.AbstractEventLoop
    sending: Sending
    transport: asyncio.Transport | None
    """None before the connection is open, and after it is gone."""

    def want_body(self, request: Request) -> None:
        """The application waits for the body."""

    def head(self, request: Request, status: int, lines: bytes, framing: bytes) -> bytes:
        """The head of an answer."""

    def answered(self, request: Request) -> None:
        """The answer is whole."""

    def switch_to(self, upgraded: UpgradedConnection) -> asyncio.Transport:
        """Switch the connection to another protocol."""

    def abort(self) -> None:
        """Cut the connection off."""


class Request(Struct, eq=False):
    """One request, and its answer.

    `headers` have lower-case names. `path` is decoded, `query` is not. `address` is that of the
    connection's other end, empty for a Unix socket. `complete` says that all of the body is there;
    `gone` that the client left before it was answered, after which whatever is sent goes nowhere.
    `connection` is None once the answer is whole, or the client has left.

    An application gives one answer: either `respond`, or `start`, any number of `try_write` and
    `write`, and `end`. `on_gone`, where it is set, is called when the client leaves before that.
    """

    connection: Link | None
    address: str
    budget: Budget
    """The memory for bodies and answers."""
    method: str
    """In capitals."""
    path: str
    query: bytes
    """As it came, without its question mark."""
    version: str
    """Of HTTP, "1.0" or "1.1"."""
    headers: dict[bytes, bytes]
    length: int
    """Of the body in bytes, -1 for one in chunks."""
    keep_alive: bool
    """Whether the client may send another request on the connection."""
    wants_upgrade: bool
    """Whether the client asks for another protocol; see `switch_to`."""
    expects: bool = False
    """Whether the client waits for `100 Continue`."""
    complete: bool = False
    gone: bool = False
    begun: bool = False
    """Whether a part of the answer went out."""
    on_gone: Callable[[], object] | None = None
    received: int = 0
    """Bytes of the body that came."""
    unwanted: bool = False
    """Whether the rest of the body is discarded as it comes."""
    reserved: int = 0
    """Bytes of the memory budget for this request."""
    is_piped: bool = False
    """Whether the application takes the body in pieces, and none of it is to be collected."""
    is_chunked: bool = False
    """Whether the answer goes out in chunks."""
    is_measured: bool = False
    """Whether the answer goes out in pieces with a `Content-Length`."""
    _body: bytes = b""
    _whole: BytesIO | None = None
    """The body, where it came in several pieces."""
    _limit: float = inf
    """The largest body that the application takes, once it waits for it."""
    _sink: BodySink | None = None
    _taken: int = 0
    """Bytes of the body that a sink took."""
    _failure: Problem | None = None
    waiter: asyncio.Future[None] | None = None
    """What the application waits for."""
    _head: bytes = b""
    """The head of an answer that comes in pieces, until it is sent."""
    _promised: int = 0
    """Bytes that such an answer still has, where it is measured."""

    # The body

    async def body(self, limit: int) -> bytes:
        """The whole body, as it came.

        Raises:
            BodyRefused: it is larger than `limit` bytes, broken, late, or there is no memory for
                it.
            ClientGone: the client left before all of it was there.
        """
        if not self.complete:
            await self._receive(limit)
        if self._failure is not None:
            raise BodyRefused(self._failure)
        if self.received > limit:
            self._drop_body()
            raise BodyRefused(Problem.BODY_TOO_LARGE)
        whole = self._whole
        return self._body if whole is None else whole.getvalue()

    async def pipe(self, sink: BodySink, limit: int) -> bool:
        """Give the body to `sink` as it arrives, piece by piece and at once: no task is woken for
        it. Until `sink` returns False (then True), or has had all (then False). Between two calls
        nothing is read from the client.

        Raises:
            BodyRefused: it is larger than `limit` bytes, broken, or nothing of it came in time.
            ClientGone: the client left before all of it was there.
            Exception: `sink`'s own.
        """
        self._limit, self.is_piped = limit, True
        while True:
            if self.length > limit:
                raise BodyRefused(Problem.BODY_TOO_LARGE)
            if self._failure is not None:
                raise BodyRefused(self._failure)
            if self.held:
                if not sink(self._take_collected()):
                    return True
            elif self.complete:
                return False
            elif self.connection is None:
                raise ClientGone
            else:
                await self._pipe_on(self.connection, sink)
                if self._sink is None:
                    return True
                self._sink = None

    async def _pipe_on(self, connection: Link, sink: BodySink) -> None:
        """Wait until `sink` has taken enough, or nothing more will come."""
        self._sink = sink
        connection.want_body(self)
        self.waiter = connection.loop.create_future()
        try:
            await self.waiter
        except BaseException:
            self._sink = None
            raise

    def _take_collected(self) -> bytes:
        """What came since the last piece, for a sink."""
        data = self._body if self._whole is None else self._whole.getvalue()
        self._body, self._whole, self._taken = b"", None, self.received
        return data

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport of the connection, None when it is gone: for tests that break it."""
        return None if self.connection is None else self.connection.transport

    @property
    def wanted(self) -> bool:
        """Whether the application waits for more of the body."""
        return self._sink is not None if self.is_piped else self._limit < inf

    @property
    def held(self) -> int:
        """Bytes of the body that came, and that no sink took."""
        return self.received - self._taken

    async def _receive(self, limit: int) -> None:
        connection = self.connection
        if connection is None:
            raise ClientGone
        if self.length > limit:
            raise BodyRefused(Problem.BODY_TOO_LARGE)
        self._limit = limit
        if self._failure is None:
            connection.want_body(self)
        # A body that failed may be complete before the application learns of it.
        while not self.complete and self._failure is None:
            if self.gone:
                raise ClientGone
            self.waiter = connection.loop.create_future()
            await self.waiter

    def reserve(self, size: int) -> bool:
        """Reserve so many bytes of the memory budget until the request is over; False if there are
        not so many."""
        if not self.budget.reserve(size):
            return False
        self.reserved += size
        return True

    # Called by the connection

    def take(self, data: bytes) -> None:
        """A piece of the body came."""
        received = self.received = self.received + len(data)
        if self.unwanted:
            return
        if received > self._limit:
            self.fail(Problem.BODY_TOO_LARGE)
        elif self._sink is not None and self.length >= 0:
            self._taken = self.received
            self._pass(self._sink, data)
        elif self._whole is not None:
            self._whole.write(data)
        elif self._body:
            # It grows in place: concatenating a list of pieces takes twice the memory.
            self._whole = BytesIO()
            self._whole.write(self._body)
            self._whole.write(data)
            self._body = b""
        else:
            self._body = data

    def pass_chunks(self) -> None:
        """All chunks of one read came: pass them on as one piece."""
        if self._sink is not None and self.held:
            self._pass(self._sink, self._take_collected())

    def _pass(self, sink: BodySink, data: bytes) -> None:
        try:
            if sink(data):
                return
        except Exception as error:
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_exception(error)
        self._sink = None
        self.wake()

    def fail(self, problem: Problem) -> None:
        """The body will not come."""
        if self._failure is None and not self.complete:
            self._failure = problem
            self._drop_body()
            self.wake()

    def left(self) -> None:
        """The client has left."""
        self.connection = None
        self.gone = True
        self._drop_body()
        self.wake()
        if self.on_gone is not None:
            self.on_gone()

    def release(self) -> None:
        """Give back what is reserved of the memory budget."""
        self.budget.release(self.reserved)
        self.reserved = 0

    def _drop_body(self) -> None:
        self.unwanted = True
        self._body, self._whole, self._taken = b"", None, self.received
        self.release()

    def wake(self) -> None:
        """The application goes on."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The answer

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Give a whole answer, in one write. `lines` are its headers, each with its line end, but
        for those of its length and of the connection."""
        connection = self.connection
        if connection is None:
            return
        length = b"content-length: %d\r\n" % len(body)
        if status in _BODYLESS:
            length = body = b""
        elif self.method == "HEAD":
            body = b""
        head = connection.head(self, status, lines, length)
        transport = connection.transport
        assert transport is not None
        if len(body) <= _JOINED:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        connection.answered(self)

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Begin an answer that comes in pieces, of `length` bytes in all, None if that is not yet
        determined. Its head goes out with the first piece."""
        connection = self.connection
        if connection is None:
            return
        framing = b""
        if length is not None:
            framing = b"content-length: %d\r\n" % length
            self._promised, self.is_measured = length, True
        elif self.version == "1.1":
            framing = b"transfer-encoding: chunked\r\n"
            self.is_chunked = self.method != "HEAD"
        elif self.method != "HEAD":
            # For a client of HTTP/1.0 the answer ends with the connection.
            self.keep_alive = False
        self._head = connection.head(self, status, lines, framing)

    def try_write(self, data: bytes) -> bool:
        """Send a piece of the answer, not empty, if that takes no waiting; else False."""
        connection = self.connection
        if connection is None or not self.begun or connection.sending.paused:
            return False
        transport = connection.transport
        assert transport is not None
        transport.write(
            b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else self._framed(data)
        )
        return True

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer; waits while the client reads too slowly."""
        connection = self.connection
        if connection is not None:
            self._send(connection, data)
            if connection.sending.paused:
                await connection.sending.drained()

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of the answer."""
        connection = self.connection
        if connection is None:
            return
        self._send(connection, data, _LAST_CHUNK if self.is_chunked else b"")
        if self.is_measured and self._promised and self.method != "HEAD":
            # The end of the connection shows that some of it is missing.
            self.keep_alive = False
        connection.answered(self)

    def switch_to(self, upgraded: UpgradedConnection) -> asyncio.Transport:
        """Switch the connection to another protocol: `upgraded` gets it, and what the client sent
        beyond the request, before this returns, and sends the answer. The limits of the server
        still apply to what waits to be sent.

        Raises:
            ClientGone: there is no connection any more.
            RuntimeError: the client asked for no upgrade, or the answer has begun.
        """
        if self.connection is None:
            raise ClientGone
        if not self.wants_upgrade or self.begun or not self.complete:
            raise RuntimeError("the connection cannot be switched")
        connection, self.connection = self.connection, None
        try:
            return connection.switch_to(upgraded)
        except BaseException:
            connection.abort()
            raise

    def _send(self, connection: Link, data: bytes, last: bytes = b"") -> None:
        framed = self._framed(data) + last
        if not self.begun:
            self.begun, framed = True, self._head + framed
        if framed:
            connection.sending.write(framed)

    def _framed(self, data: bytes) -> bytes:
        """A piece of the answer as it is sent."""
        if self.is_chunked:
            return b"%x\r\n%b\r\n" % (len(data), data) if data else data
        if self.method == "HEAD":
            return b""
        self._promised -= len(data)
        return data
