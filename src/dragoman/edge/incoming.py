"""One request of a client: what came, and the way to answer it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from io import BytesIO
from typing import Any, Protocol

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.options import Options
from dragoman.edge.continuation import Continuation
from dragoman.edge.errors import Headers, refusal, rendered
from dragoman.http.addresses import is_here
from dragoman.http.clock import Clock
from dragoman.http.decoding import CODINGS, BadCoding, Unpacker, unpacker_for
from dragoman.http.head import header_lines
from dragoman.http.problems import BodyRefused, ClientGone, Problem
from dragoman.http.request import BodySink
from dragoman.protocols.base import OFFICIAL, Codec, Operation
from dragoman.sse import encode
from dragoman.translation.call import mint_request_id

_JSON = b"content-type: application/json\r\n"
_RETRY_S = 5.0

_FORWARDED = {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"}

SMALL = 64 * 1024
"""Bytes of a body that are not taken from the memory budget."""

_TURN_BYTES = 256 * 1024
_PACKED_BYTES = 64 * 1024
"""Bytes that a body is decompressed into, and of it as it came, before others have their turn."""


class Received(Protocol):
    """A request as it was received, and where its answer goes: `dragoman.http.Request`, or an
    `InternalRequest`.

    Names of `headers` are in lower case; `length` is that of the body in bytes, -1 if that is not
    declared. An answer is given either by `respond`, or by `start`, any number of `try_write` and
    `write`, and `end`. `gone` says that nobody waits for it any more; `on_gone`, where it is set,
    is called when that happens.
    """

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
    def length(self) -> int: ...
    @property
    def gone(self) -> bool: ...

    on_gone: Callable[[], object] | None

    async def body(self, limit: int) -> bytes:
        """The whole body, of at most so many bytes; raises `BodyRefused`."""

    async def pipe(self, sink: BodySink, limit: int) -> bool:
        """Give the body to a sink as it comes: `http.Request.pipe`."""

    def reserve(self, size: int) -> bool:
        """Reserve so much of the memory budget until the request is over, if there is so much."""

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Send a whole answer."""

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Begin an answer, of so many bytes if that is known."""

    def try_write(self, data: bytes) -> bool:
        """Send a piece of it, if that takes no waiting."""

    async def write(self, data: bytes) -> None:
        """Send a piece of it."""

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of it."""


class InternalRequest:
    """A POST that did not come over HTTP. No client waits for its answer: only its observer takes
    it."""

    __slots__ = ("_body", "address", "gone", "headers", "on_gone", "path")

    method = "POST"
    query = b""
    length = -1

    def __init__(
        self, path: str, headers: dict[bytes, bytes], body: bytes = b"", address: str = ""
    ) -> None:
        self.path = path
        self.headers = headers
        self._body = body
        self.address = address
        self.gone = False
        self.on_gone: Callable[[], object] | None = None

    def leave(self) -> None:
        """Nobody wants the answer any more."""
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()

    async def body(self, limit: int) -> bytes:
        """The body; empty when it was read before."""
        body, self._body = self._body, b""
        if len(body) > limit:
            raise BodyRefused(Problem.BODY_TOO_LARGE)
        return body

    async def pipe(self, sink: BodySink, limit: int) -> bool:
        """Give the body to a sink, whole."""
        body = await self.body(limit)
        return bool(body) and not sink(body)

    def reserve(self, size: int) -> bool:
        """Reserve nothing: few of these requests run at a time."""
        return True

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Discard a whole answer."""

    def start(self, status: int, lines: bytes = b"", length: int | None = None) -> None:
        """Discard the beginning of an answer."""

    def try_write(self, data: bytes) -> bool:
        """Discard a piece of it."""
        return True

    async def write(self, data: bytes) -> None:
        """Discard a piece of it."""

    def end(self, data: bytes = b"") -> None:
        """Discard the last piece of it."""


class ReplyObserver(Protocol):
    """Sees an answer as it is sent."""

    def on_start(self, status: int, lines: bytes) -> None:
        """The answer begins, with these header lines."""

    def on_data(self, data: bytes) -> None:
        """A piece of its body is sent."""


CheckBody = Callable[["IncomingRequest", bytes, int], Awaitable[bytes]]
"""Checks the body of a request, which may have so many bytes. Returns the body to read instead."""


def media_type(value: bytes) -> str:
    """The media type that a content type names, without its parameters; empty if it names none."""
    return value.partition(b";")[0].decode("latin-1").strip().lower()


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a body is declared as JSON, or as nothing."""
    media = media_type(headers.get(b"content-type", b""))
    return not media or media.endswith(("/json", "+json"))


class IncomingRequest:
    """One request of a client, and the ways to answer it.

    `path` is in the form that routes have, `codec` the client's protocol, `operation` what else the
    path says, `options` those of the dialect in which errors are rendered.

    `lines` and `shared` are the headers of every answer: lines that are known to be valid, and
    pairs that are still to be checked. `status` is that of the answer, 0 before there is one,
    `answered` when it began, on the clock of `time.perf_counter`; `ended` says that it is whole.
    `observer`, where it is set, sees the answer. `check`, where it is set, is given the body that
    was received, and returns the one to read. `is_moved`: it is answered anew, by another process.
    """

    __slots__ = (
        "address",
        "answered",
        "check",
        "clock",
        "codec",
        "continuation",
        "ended",
        "headers",
        "is_moved",
        "lines",
        "method",
        "observer",
        "operation",
        "options",
        "path",
        "query",
        "received",
        "request_id",
        "shared",
        "status",
    )

    def __init__(
        self,
        received: Received,
        codec: Codec,
        clock: Clock,
        path: str,
        operation: Operation | None = None,
        options: Options = OFFICIAL,
    ) -> None:
        self.received = received
        self.observer: ReplyObserver | None = None
        self.check: CheckBody | None = None
        self.clock = clock
        self.codec = codec
        self.operation = operation
        self.continuation: Continuation | None = None
        """What a request over a WebSocket continues."""
        self.options = options
        self.method = received.method
        self.path = path
        self.query = received.query
        self.headers = received.headers
        self.address = received.address
        self.request_id = mint_request_id()
        minted = self.request_id.encode()
        # Each vendor's SDKs read one of them.
        self.lines = b"x-request-id: %b\r\nrequest-id: %b\r\n" % (minted, minted)
        self.shared: Headers = []
        self.status = 0
        self.answered = 0.0
        self.ended = False
        self.is_moved = False

    @property
    def gone(self) -> bool:
        """Whether the client left before it was answered."""
        return self.received.gone

    @property
    def is_local(self) -> bool:
        """Whether the request comes from this machine, and not from a proxy on it that forwards
        what others ask."""
        return is_here(self.address) and not self.headers.keys() & _FORWARDED

    async def body(self, limit: int, *, as_received: bool = False) -> bytes:
        """The whole body, decompressed, and checked where there is a check; neither of them
        `as_received`.

        Raises:
            DragomanError: TOO_LARGE beyond `limit` bytes, UNSUPPORTED_MEDIA_TYPE for an encoding
                that is unsupported, INVALID_REQUEST for one that is broken, REQUEST_TIMEOUT,
                OVERLOADED where there is no memory for it, POLICY_BLOCKED by the check.
            ClientGone: the client left.
        """
        encoding = None if as_received else self.headers.get(b"content-encoding")
        unpacker = None if encoding is None else _unpacker(encoding)
        try:
            body = await self.received.body(limit)
        except BodyRefused as refused:
            raise _refused_body(refused.problem, limit) from None
        if unpacker is not None:
            body = await self._unpacked(body, limit, unpacker)
        if len(body) > SMALL:
            # It is in memory twice: as it came, and as it is sent upstream.
            self.reserve(len(body))
        return body if as_received or self.check is None else await self.check(self, body, limit)

    async def check_head(self) -> None:
        """Have a request checked whose body is not read whole, or that has none.

        Raises:
            DragomanError: POLICY_BLOCKED by the check.
        """
        if self.check is not None:
            await self.check(self, b"", 0)
            self.check = None

    @property
    def length(self) -> int:
        """The bytes of the body, as declared; -1 if they are not."""
        is_held = self.check is not None and is_json(self.headers)
        return -1 if is_held else self.received.length

    async def pipe(self, sink: BodySink, limit: int) -> bool:
        """Give the body to `sink` as it comes, in its content encoding, piece by piece: until
        `sink` returns False (then True), or has had all (then False). Instead of `body`. JSON that
        is to be checked comes whole and decompressed.

        Raises:
            DragomanError: TOO_LARGE beyond `limit` bytes, INVALID_REQUEST, REQUEST_TIMEOUT if
                nothing more of it comes, OVERLOADED where there is no memory for it.
            ClientGone: the client left.
            Exception: `sink`'s own.
        """
        if self.check is not None and is_json(self.headers):
            body = await self.body(limit)
            self.check = None
            return bool(body) and not sink(body)
        await self.check_head()
        try:
            return await self.received.pipe(sink, limit)
        except BodyRefused as refused:
            raise _refused_body(refused.problem, limit) from None

    async def _unpacked(self, body: bytes, limit: int, unpacker: Unpacker) -> bytes:
        plain = BytesIO()
        size = turn = 0
        try:
            for start in range(0, len(body), _PACKED_BYTES):
                if start:
                    await asyncio.sleep(0)  # Much may unpack into nothing.
                for piece in unpacker.feed(body[start : start + _PACKED_BYTES]):
                    size += len(piece)
                    if size > limit:
                        raise _refused_body(Problem.BODY_TOO_LARGE, limit)
                    self.reserve(len(piece))
                    plain.write(piece)
                    if size - turn >= _TURN_BYTES:
                        turn = size
                        await asyncio.sleep(0)
            unpacker.finish()
        except BadCoding:
            message = "The request body is not valid data of its content encoding."
            raise refusal(FaultKind.INVALID_REQUEST, message) from None
        return plain.getvalue()

    def reserve(self, size: int) -> None:
        """Reserve so many bytes of the memory that all requests share, until this one is over.

        Raises:
            DragomanError: OVERLOADED: there are not so many.
        """
        if not self.received.reserve(size):
            raise _refused_body(Problem.NO_MEMORY, 0)

    def start(
        self, status: int, headers: Headers, lines: bytes = b"", length: int | None = None
    ) -> None:
        """Begin an answer that comes in pieces, of `length` bytes in all, None if that is not yet
        determined: its head goes out with the first of them. `lines` are headers, each with its
        line end, that are sure to be sound."""
        self._begin(status)
        lines = self.lines + lines + header_lines(self.shared + headers)
        if self.observer is not None:
            self.observer.on_start(status, lines)
        self.received.start(status, lines, length)

    def try_write(self, data: bytes) -> bool:
        """Send a piece of the answer's body, if that takes no waiting."""
        if not self.received.try_write(data):
            return False
        if self.observer is not None:
            self.observer.on_data(data)
        return True

    async def write(self, data: bytes) -> None:
        """Send a piece of the answer's body; waits while the client reads too slowly."""
        if self.observer is not None:
            self.observer.on_data(data)
        await self.received.write(data)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of the answer's body."""
        self.ended = True
        if self.observer is not None:
            self.observer.on_data(data)
        self.received.end(data)

    def reply(
        self, status: int, body: bytes, headers: Headers | None = None, media: bytes = _JSON
    ) -> None:
        """Send a whole answer, in one write. `media` is the line of its content type."""
        self._begin(status)
        self.ended = True
        lines = self.lines
        if self.shared or headers:
            lines += header_lines([*self.shared, *(headers or ())])
        lines = lines + media if body else lines
        if self.observer is not None:
            self.observer.on_start(status, lines)
            self.observer.on_data(body)
        self.received.respond(status, lines, body)

    def fail(self, fault: Fault, headers: Headers | None = None) -> None:
        """Answer with an error in the client's own shape."""
        status, body, own = rendered(self.codec, fault, self.request_id, self.options)
        asked = self.operation
        if asked is not None and asked.stream and asked.form is not None:
            # What asks for a stream in another form reads its errors in that form, too.
            framing = asked.form.framing()
            body = framing.write(encode(body)) + framing.end()
        self.reply(status, body, [*own, *(headers or ())])

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
    received = incoming.received
    if received.gone:
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

    received.on_gone = task.cancel if linger is None else left
    try:
        await work
        if timer is not None:
            raise ClientGone
    except asyncio.CancelledError:
        if not received.gone:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        received.on_gone = None
        if timer is not None:
            timer.cancel()


def _unpacker(encoding: bytes) -> Unpacker | None:
    """The decoder of a body with this content encoding; None if there is nothing to decode.

    Raises:
        DragomanError: UNSUPPORTED_MEDIA_TYPE.
    """
    try:
        return unpacker_for(encoding.decode("latin-1"), exact=True)
    except BadCoding:
        known = ", ".join(CODINGS)
        message = f"The request body's content encoding is not one of {known}."
        raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message) from None


def _refused_body(problem: Problem, limit: int) -> Exception:
    """Why the body of a request is not read, as an error for its client."""
    if problem is Problem.BODY_TOO_LARGE:
        return refusal(FaultKind.TOO_LARGE, f"The request body exceeds {limit} bytes.")
    if problem is Problem.BODY_TIMEOUT:
        return refusal(FaultKind.REQUEST_TIMEOUT, problem.message)
    if problem is Problem.NO_MEMORY:
        message = "The gateway is out of memory for requests and answers."
        return refusal(FaultKind.OVERLOADED, message, retry_after=_RETRY_S)
    return refusal(FaultKind.INVALID_REQUEST, problem.message)
