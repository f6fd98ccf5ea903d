"""One request of a client: what came, and the way to answer it."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from io import BytesIO
from typing import Any, TypeAlias

from dragoman.canonical.errors import Fault, FaultKind
from dragoman.config.checks import is_loopback
from dragoman.gateway.edge.errors import ClientGone, Headers, refusal, rendered
from dragoman.gateway.edge.writes import AnswerTransport
from dragoman.protocols.base import OFFICIAL, Codec
from dragoman.translation.call import mint
from dragoman.http.clock import Clock

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")

_FORWARDED = {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"}

_BODY_TIMEOUT_S = 120.0
"""Seconds within which a request's body must have arrived."""


class Visit:
    """One request. `path` is in the form that routes know, `codec` the client's protocol, `options`
    those of the dialect in which errors are told.

    `headers` have lower-case names. `lines` and `shared` are the headers of every answer, those
    that are sure to be sound as they are sent and those to be checked; `status` is that of
    the answer, 0 before there is one, `answered` when it began, on the clock of
    `time.perf_counter`; `ended` says that it is whole, `gone` that the client left
    before. `connection` is the client's, None if nobody waits for the answer.
    """

    __slots__ = (
        "_receive",
        "_send",
        "answered",
        "clock",
        "codec",
        "connection",
        "ended",
        "gone",
        "headers",
        "lines",
        "method",
        "options",
        "path",
        "peer",
        "query",
        "request_id",
        "shared",
        "status",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        codec: Codec,
        clock: Clock,
        connection: AnswerTransport | None = None,
    ) -> None:
        self._receive = receive
        self._send = send
        self.connection = connection
        self.clock = clock
        self.codec = codec
        self.options = OFFICIAL
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.peer: tuple[str, int] | None = scope.get("client")
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = mint("req_")
        minted = self.request_id.encode()
        # Each vendor's SDKs read one of them.
        self.lines = b"x-request-id: %b\r\nrequest-id: %b\r\n" % (minted, minted)
        self.shared: Headers = []
        self.status = 0
        self.answered = 0.0
        self.ended = False
        self.gone = False

    @property
    def is_local(self) -> bool:
        """Whether the request comes from this machine, and not from a proxy on it that forwards
        what others ask."""
        if self.peer is None or not is_loopback(self.peer[0]):
            return False
        return not self.headers.keys() & _FORWARDED

    async def body(self, limit: int) -> bytes:
        """The whole body, decompressed.

        Raises:
            DragomanError: TOO_LARGE beyond `limit` bytes, UNSUPPORTED_MEDIA_TYPE for an encoding
                that is not known, INVALID_REQUEST for one that is broken, REQUEST_TIMEOUT.
            ClientGone: the client left.
        """
        encoding = self.headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b"", b"gzip", b"x-gzip"):
            raise refusal(
                FaultKind.UNSUPPORTED_MEDIA_TYPE,
                "The request body's content encoding is not supported; send it as it is or gzip.",
            )
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        if self.connection is not None and self.connection.has_body:
            body = await self._read(limit)
        else:
            body = await self._read_in_time(limit)
        return _gunzip(body, limit) if encoding.endswith(b"gzip") else body

    async def _read_in_time(self, limit: int) -> bytes:
        # asyncio.timeout costs many times as much.
        task = asyncio.current_task(self.clock.loop)
        assert task is not None
        late = False

        def expire() -> None:
            nonlocal late
            late = True
            task.cancel()

        timer = self.clock.after(_BODY_TIMEOUT_S, expire)
        try:
            return await self._read(limit)
        except asyncio.CancelledError:
            if not late:
                raise
            task.uncancel()
            raise refusal(
                FaultKind.REQUEST_TIMEOUT, "The request body did not arrive in time."
            ) from None
        finally:
            timer.cancel()

    async def _read(self, limit: int) -> bytes:
        # It grows in place: a list of pieces, to be joined, takes twice the time and the memory.
        whole: BytesIO | None = None
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            more = message.get("more_body", False)
            if whole is None:
                if not more:
                    return piece
                whole = BytesIO()
            whole.write(piece)
            if not more:
                return whole.getvalue()

    def start(self, status: int, headers: Headers) -> Awaitable[None]:
        """Send the head of the answer."""
        self.status = status
        self.answered = time.perf_counter()
        if self.connection is not None:
            self.connection.lines = self.lines
        return self._send(
            {"type": "http.response.start", "status": status, "headers": self.shared + headers}
        )

    def write(self, data: bytes) -> Awaitable[None]:
        """Send a piece of the answer's body; waits while the client reads too slowly."""
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    def put(self, data: bytes) -> bool:
        """Send a piece of the answer's body, not empty, if that takes no waiting; else False."""
        return self.connection is not None and self.connection.put(data)

    def end(self, data: bytes = b"") -> Awaitable[None]:
        """Send the last piece of the answer's body."""
        self.ended = True
        return self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def reply(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """Send a whole answer; JSON unless it is empty."""
        head = [(b"content-length", b"%d" % len(body)), *(headers or ())]
        if body:
            head.append(JSON)
        await self.start(status, head)
        await self.end(body)

    async def fail(self, fault: Fault, headers: Headers | None = None) -> None:
        """Answer with an error in the client's own shape."""
        status, body, own = rendered(self.codec, fault, self.request_id, self.options)
        await self.reply(status, body, [*own, *(headers or ())])


async def while_connected(visit: Visit, work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, and cancel it the moment the client leaves. Only after the body was read.

    Raises:
        ClientGone: the client left.
    """
    connection = visit.connection
    if connection is None:
        await work
        return
    task = asyncio.current_task(visit.clock.loop)
    assert task is not None

    def left() -> None:
        if not visit.ended:
            visit.gone = True
            task.cancel()

    try:
        if not connection.watch(left):
            visit.gone = True
            work.close()
            raise ClientGone
        await work
    except asyncio.CancelledError:
        if not visit.gone:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        connection.unwatch()


def _too_large(limit: int) -> Exception:
    return refusal(FaultKind.TOO_LARGE, f"The request body exceeds {limit} bytes.")


def _gunzip(body: bytes, limit: int) -> bytes:
    unzipper = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = unzipper.decompress(body, limit + 1)
    except zlib.error:
        plain = b""
    if len(plain) > limit:
        raise _too_large(limit)
    # What follows, be it a further member of the file, must not be left out in silence.
    if not unzipper.eof or unzipper.unused_data.strip(b"\0"):
        raise refusal(FaultKind.INVALID_REQUEST, "The request body is not valid gzip data.")
    return plain
