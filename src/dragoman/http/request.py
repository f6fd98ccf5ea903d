"""One request of a client: what came, and the way to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from typing import Protocol

from dragoman.http.head import STATUS_LINES, status_line
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

    address: str
    budget: Budget
    loop: asyncio.AbstractEventLoop
    sending: Sending
    transport: asyncio.Transport | None

    @property
    def date(self) -> bytes:
        """The `Date` line of answers."""

    def want_body(self, request: Request) -> None:
        """The application waits for the body."""

    def carries_on(self, request: Request) -> bool:
        """Whether the connection stays open after the answer."""

    def answered(self, request: Request) -> None:
        """The answer is whole."""

    def switch_to(self, upgraded: UpgradedConnection) -> asyncio.Transport:
        """Switch the connection to another protocol."""

    def abort(self) -> None:
        """Cut the connection off."""


class Request:
    """One request, and its answer.

    `headers` have lower-case names. `path` is decoded, `query` is not. `address` is that of the
    connection's other end, empty for a Unix socket. `complete` says that all of the body is there;
    `gone` that the client left before it was answered, after which whatever is sent goes nowhere;
    `status` is that of the answer, 0 before there is one; `answered` says that the answer is whole.

    An application gives one answer: either `respond`, or `start`, any number of `try_write` and
    `write`, and `end`. `on_gone`, where it is set, is called when the client leaves before that.
    """

    __slots__ = (
        "_body",
        "_failure",
        "_head",
        "_limit",
        "_promised",
        "_sink",
        "_taken",
        "_waiter",
        "_whole",
        "address",
        "answered",
        "budget",
        "complete",
        "connection",
        "expects",
        "gone",
        "headers",
        "is_chunked",
        "is_measured",
        "is_piped",
        "keep_alive",
        "length",
        "method",
        "on_gone",
        "path",
        "query",
        "received",
        "reserved",
        "status",
        "task",
        "unwanted",
        "version",
        "wants_upgrade",
    )

    def __init__(
        self,
        connection: Link,
        method: str,
        path: str,
        query: bytes,
        version: str,
        headers: dict[bytes, bytes],
        length: int,
    ) -> None:
        """
        Args:
            connection: that it came by.
            method: of the request, in capitals.
            path: decoded.
            query: as it came, without its question mark.
            version: of HTTP, "1.0" or "1.1".
            headers: by lower-case name.
            length: of the body in bytes, -1 for one in chunks.
        """
        self.connection: Link | None = connection
        self.method = method
        self.path = path
        self.query = query
        self.version = version
        self.headers = headers
        self.length = length
        self.address = connection.address
        self.complete = False
        self.gone = False
        self.status = 0
        self.answered = False
        self.on_gone: Callable[[], object] | None = None
        self.keep_alive = False
        """Whether the client may send another request on the connection."""
        self.expects = False
        """Whether the client waits for `100 Continue`."""
        self.wants_upgrade = False
        """Whether the client asks for another protocol; see `switch_to`."""
        self.received = 0
        """Bytes of the body that came."""
        self.unwanted = False
        """Whether the rest of the body is discarded as it comes."""
        self.reserved = 0
        """Bytes of the memory budget for this request."""
        self.task: asyncio.Task[None] | None = None
        self.budget: Budget = connection.budget
        """The memory for bodies and answers."""
        self._body = b""
        self._whole: BytesIO | None = None
        self._limit = -1
        self.is_piped = False
        """Whether the application takes the body in pieces, and none of it is to be collected."""
        self._sink: BodySink | None = None
        self._taken = 0
        """Bytes of the body that a sink took."""
        self._failure: Problem | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self.is_chunked = False
        """Whether the answer goes out in chunks."""
        self._promised = 0
        self.is_measured = False
        """Whether the answer goes out in pieces with a `Content-Length`."""

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
        return self._collected()

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
                data = self._collected()
                self._body, self._whole, self._taken = b"", None, self.received
                if not sink(data):
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
        self._waiter = connection.loop.create_future()
        try:
            await self._waiter
        except BaseException:
            self._sink = None
            raise

    def _collected(self) -> bytes:
        whole = self._whole
        return self._body if whole is None else whole.getvalue()

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport of the connection, None when it is gone: for tests that break it."""
        return None if self.connection is None else self.connection.transport

    @property
    def wanted(self) -> bool:
        """Whether the application waits for more of the body."""
        return self._sink is not None if self.is_piped else self._limit >= 0

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
            self._waiter = connection.loop.create_future()
            await self._waiter

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
        self.received += len(data)
        if self.unwanted:
            return
        if self.received > self._limit >= 0:
            self.fail(Problem.BODY_TOO_LARGE)
        elif self._sink is not None and self.length >= 0:
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
            data = self._collected()
            self._body, self._whole = b"", None
            self._pass(self._sink, data)

    def _pass(self, sink: BodySink, data: bytes) -> None:
        self._taken += len(data)
        try:
            if sink(data):
                return
        except Exception as error:
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(error)
        self._sink = None
        self._wake()

    def finish(self) -> None:
        """All of the body came."""
        self.complete = True
        if self._waiter is not None:
            self._wake()

    def fail(self, problem: Problem) -> None:
        """The body will not come."""
        if self._failure is None and not self.complete:
            self._failure = problem
            self._drop_body()
            self._wake()

    def left(self) -> None:
        """The client has left."""
        self.connection = None
        if self.answered:
            return
        self.gone = True
        self._drop_body()
        self._wake()
        if self.on_gone is not None:
            self.on_gone()

    def release(self) -> None:
        """Give back what is reserved of the memory budget."""
        if self.reserved:
            self.budget.release(self.reserved)
            self.reserved = 0

    def _drop_body(self) -> None:
        self.unwanted = True
        self._body, self._whole, self._taken = b"", None, self.received
        self.release()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The answer

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Give a whole answer, in one write. `lines` are its headers, each with its line end, but
        for those of its length and of the connection."""
        connection = self.connection
        self.status = status
        if connection is None:
            self.answered = True
            return
        length = b"" if status in _BODYLESS else b"content-length: %d\r\n" % len(body)
        head = self._rendered(connection, status, lines, length)
        if self.method == "HEAD" or status in _BODYLESS:
            body = b""
        if len(body) <= _JOINED:
            connection.sending.write(head + body)
        else:
            connection.sending.write_both(head, body)
        connection.answered(self)

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Begin an answer that comes in pieces, of `length` bytes in all, None if that is not yet
        determined. Its head goes out with the first piece."""
        connection = self.connection
        self.status = status
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
        self._head = self._rendered(connection, status, lines, framing)

    def try_write(self, data: bytes) -> bool:
        """Send a piece of the answer, not empty, if that takes no waiting; else False."""
        connection = self.connection
        if connection is None or self._head or not (self.is_chunked or self.is_measured):
            return False
        sending = connection.sending
        transport = sending.transport
        if sending.paused or transport is None:
            return False
        if self.is_chunked:
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        elif self.method != "HEAD":
            self._promised -= len(data)
            transport.write(data)
        return True

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer; waits while the client reads too slowly."""
        connection = self.connection
        if connection is None:
            return
        self._send(
            connection, b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data, data
        )
        if connection.sending.paused:
            await connection.sending.drained()

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of the answer."""
        connection = self.connection
        if connection is None:
            self.answered = True
            return
        if self.is_chunked:
            last = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else _LAST_CHUNK
            self._send(connection, last, last)
        else:
            self._send(connection, data, data)
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
        if not self.wants_upgrade or self.status or not self.complete:
            raise RuntimeError("the connection cannot be switched")
        self.status, self.answered = 101, True
        connection, self.connection = self.connection, None
        try:
            return connection.switch_to(upgraded)
        except BaseException:
            connection.abort()
            raise

    def _send(self, connection: Link, framed: bytes, data: bytes) -> None:
        head, self._head = self._head, b""
        self._promised -= len(data)
        if self.method == "HEAD" or not data:
            framed = b""
        if head or framed:
            connection.sending.write(head + framed)

    def _rendered(self, connection: Link, status: int, lines: bytes, framing: bytes) -> bytes:
        keep = self.keep_alive = connection.carries_on(self)
        if not keep:
            last = b"connection: close\r\n\r\n"
        elif self.version == "1.0":
            last = b"connection: keep-alive\r\n\r\n"
        else:
            last = b"\r\n"
        first = STATUS_LINES.get(status) or status_line(status)
        return b"".join((first, connection.date, lines, framing, last))
