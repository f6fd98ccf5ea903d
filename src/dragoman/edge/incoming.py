"""One request of a client: what came, and the way to answer it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from io import BytesIO
from typing import Any, Protocol

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.edge.errors import Headers, refusal, rendered
from dragoman.edge.lanes import Continuation
from dragoman.http.addresses import is_here
from dragoman.http.clock import Clock
from dragoman.http.decoding import BadCoding, Inflater
from dragoman.http.head import header_lines
from dragoman.http.problems import BodyRefused, ClientGone, Problem
from dragoman.protocols.base import OFFICIAL, Codec, Operation
from dragoman.translation.call import mint_request_id

_JSON = b"content-type: application/json\r\n"
_RETRY_S = 5.0

_FORWARDED = {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"}

_SMALL = 64 * 1024
"""Bytes of a body that the memory budget is not asked for."""

_TURN_BYTES = 256 * 1024
"""Bytes that are unpacked before others have their turn."""


class Asked(Protocol):
    """What a incoming needs of a request: `dragoman.http.Request`, or what stands in for one whose
    client does not wait."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> bytes: ...
    @property
    def headers(self) -> dict[bytes, bytes]: ...
    @property
    def address(self) -> str: ...
    @property
    def gone(self) -> bool: ...

    on_gone: Callable[[], object] | None

    async def body(self, limit: int) -> bytes:
        """The whole body."""

    def hold(self, size: int) -> bool:
        """Take so much of the memory budget."""

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Give a whole answer."""

    def start(self, status: int, lines: bytes = b"") -> None:
        """Begin an answer."""

    def put(self, data: bytes) -> bool:
        """Send a piece of it, if that takes no waiting."""

    async def write(self, data: bytes) -> None:
        """Send a piece of it."""

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of it."""


class IncomingRequest:
    """One request of a client, and the ways to answer it.

    `path` is in the form that routes know, `codec` the client's protocol, `operation` what else the
    path tells, `options` those of the dialect in which errors are told. `continuation` is what a
    request of a WebSocket goes on from, None for one of HTTP.

    `headers` have lower-case names. `lines` and `shared` are the headers of every answer, those
    that are sure to be sound as they are sent and those to be checked; `status` is that of
    the answer, 0 before there is one, `answered` when it began, on the clock of
    `time.perf_counter`; `ended` says that it is whole.
    """

    __slots__ = (
        "answered",
        "clock",
        "codec",
        "continuation",
        "ended",
        "headers",
        "lines",
        "method",
        "operation",
        "options",
        "path",
        "query",
        "request",
        "request_id",
        "shared",
        "status",
    )

    def __init__(
        self,
        request: Asked,
        codec: Codec,
        clock: Clock,
        path: str,
        operation: Operation | None = None,
        options: Options = OFFICIAL,
        continuation: Continuation | None = None,
    ) -> None:
        self.request = request
        self.clock = clock
        self.codec = codec
        self.operation = operation
        self.continuation = continuation
        self.options = options
        self.method = request.method
        self.path = path
        self.query = request.query
        self.headers = request.headers
        self.request_id = mint_request_id()
        minted = self.request_id.encode()
        # Each vendor's SDKs read one of them.
        self.lines = b"x-request-id: %b\r\nrequest-id: %b\r\n" % (minted, minted)
        self.shared: Headers = []
        self.status = 0
        self.answered = 0.0
        self.ended = False

    @property
    def gone(self) -> bool:
        """Whether the client left before it was answered."""
        return self.request.gone

    @property
    def is_local(self) -> bool:
        """Whether the request comes from this machine, and not from a proxy on it that forwards
        what others ask."""
        return is_here(self.request.address) and not self.headers.keys() & _FORWARDED

    async def body(self, limit: int) -> bytes:
        """The whole body, decompressed.

        Raises:
            DragomanError: TOO_LARGE beyond `limit` bytes, UNSUPPORTED_MEDIA_TYPE for an encoding
                that is not known, INVALID_REQUEST for one that is broken, REQUEST_TIMEOUT,
                OVERLOADED where there is no memory for it.
            ClientGone: the client left.
        """
        encoding = self.headers.get(b"content-encoding")
        packed = encoding is not None and _is_packed(encoding)
        try:
            body = await self.request.body(limit)
        except BodyRefused as refused:
            raise _refused_body(refused.problem, limit) from None
        if packed:
            body = await self._unpacked(body, limit)
        if len(body) > _SMALL:
            # It is held twice: as it came, and as it is sent upstream.
            self.hold(len(body))
        return body

    async def _unpacked(self, body: bytes, limit: int) -> bytes:
        inflater = Inflater(gzip_only=True)
        plain = BytesIO()
        size = turn = 0
        try:
            for piece in inflater.feed(body):
                size += len(piece)
                if size > limit:
                    raise _refused_body(Problem.BODY_TOO_LARGE, limit)
                self.hold(len(piece))
                plain.write(piece)
                if size - turn >= _TURN_BYTES:
                    turn = size
                    await asyncio.sleep(0)
            inflater.finish()
        except BadCoding:
            told = "The request body is not valid gzip data."
            raise refusal(FaultKind.INVALID_REQUEST, told) from None
        return plain.getvalue()

    def hold(self, size: int) -> None:
        """Take so many bytes of the memory that all requests share, until this one is answered.

        Raises:
            DragomanError: OVERLOADED: there are not so many.
        """
        if not self.request.hold(size):
            raise _refused_body(Problem.NO_MEMORY, 0)

    def start(self, status: int, headers: Headers, lines: bytes = b"") -> None:
        """Begin an answer that comes in pieces: its head goes out with the first of them. `lines`
        are headers, each with its line end, that are sure to be sound."""
        self._begin(status)
        self.request.start(status, self.lines + lines + header_lines(self.shared + headers))

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer's body; waits while the client reads too slowly."""
        await self.request.write(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of the answer's body."""
        self.ended = True
        self.request.end(data)

    async def reply(
        self, status: int, body: bytes, headers: Headers | None = None, media: bytes = _JSON
    ) -> None:
        """Send a whole answer, in one write. `media` is the line of its content type."""
        self._begin(status)
        self.ended = True
        lines = self.lines
        if self.shared or headers:
            lines += header_lines([*self.shared, *(headers or ())])
        self.request.respond(status, lines + media if body else lines, body)

    async def fail(self, fault: Fault, headers: Headers | None = None) -> None:
        """Answer with an error in the client's own shape."""
        status, body, own = rendered(self.codec, fault, self.request_id, self.options)
        await self.reply(status, body, [*own, *(headers or ())])

    def _begin(self, status: int) -> None:
        self.status = status
        self.answered = time.perf_counter()


async def while_connected(
    incoming: IncomingRequest,
    work: Coroutine[Any, Any, None],
    linger: Callable[[], float] | None = None,
) -> None:
    """Run `work`, and cancel it the moment the client leaves, or as many seconds later as `linger`
    says then. Only after the body was read.

    Raises:
        ClientGone: the client left.
    """
    request = incoming.request
    if request.gone:
        work.close()
        raise ClientGone
    task = asyncio.current_task(incoming.clock.loop)
    assert task is not None
    timer: asyncio.TimerHandle | None = None

    def left() -> None:
        nonlocal timer
        seconds = 0.0 if linger is None else linger()
        if seconds:
            timer = incoming.clock.loop.call_later(seconds, task.cancel)
        else:
            task.cancel()

    request.on_gone = task.cancel if linger is None else left
    try:
        await work
        if timer is not None:
            raise ClientGone
    except asyncio.CancelledError:
        if not request.gone:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        request.on_gone = None
        if timer is not None:
            timer.cancel()


def _is_packed(encoding: bytes) -> bool:
    """Whether a body with this content encoding is to be unpacked.

    Raises:
        DragomanError: UNSUPPORTED_MEDIA_TYPE.
    """
    encoding = encoding.strip().lower()
    if encoding in (b"gzip", b"x-gzip"):
        return True
    if encoding not in (b"identity", b""):
        raise refusal(
            FaultKind.UNSUPPORTED_MEDIA_TYPE,
            "The request body's content encoding is not supported; send it as it is or gzip.",
        )
    return False


def _refused_body(problem: Problem, limit: int) -> Exception:
    """Why the body of a request is not read, as an error for its client."""
    if problem is Problem.BODY_TOO_LARGE:
        return refusal(FaultKind.TOO_LARGE, f"The request body exceeds {limit} bytes.")
    if problem is Problem.BODY_TIMEOUT:
        return refusal(FaultKind.REQUEST_TIMEOUT, problem.message)
    if problem is Problem.NO_MEMORY:
        told = "The gateway holds as many requests and answers as it may."
        return refusal(FaultKind.OVERLOADED, told, retry_after=_RETRY_S)
    return refusal(FaultKind.INVALID_REQUEST, problem.message)
