"""Streamed answers of endpoints: events are passed on one by one, bytes as they come."""

from __future__ import annotations

from dragoman import jsontext
from dragoman.accounts.pool import Lease
from dragoman.canonical.errors import Fault, UpstreamError
from dragoman.config import Server
from dragoman.edge.delivery import Delivery
from dragoman.edge.errors import rendered
from dragoman.endpoints.call import EndpointCall
from dragoman.endpoints.members import Members, replaced
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.serving.failures import failed_call
from dragoman.sse import COMMENT, DONE, Decoder, EventTooLarge, Frame, encode
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

_USAGE = (b'"usage"', b'"tokens_evaluated"', b'.completed"')
"""Members of events that may have the usage of the request."""


async def deliver_events(
    call: EndpointCall, lease: Lease, answer: UpstreamResponse, first: bytes, server: Server
) -> None:
    """Send the client a stream of events, of which `first` was read.

    Raises:
        UpstreamError: it is an error, or none came.
        CallError: it broke off before any event.
    """
    stream = _Stream(call)
    data = stream.feed(first)
    while not data and not stream.over:
        chunk = await anext(answer, b"")
        if not chunk:
            raise UpstreamError.unreadable("it is empty")
        data = stream.feed(chunk)
    call.begins(lease)
    lease.succeeded()
    delivery = call.delivery = Delivery(
        call.incoming,
        call.headers(),
        keepalive=lambda: COMMENT,
        keepalive_s=0.0 if call.incoming.options.keepalive == "off" else server.keepalive_s,
        commit_after_s=0.0,
    )
    try:
        await delivery.write(data)
        async for chunk in answer:
            if data := stream.feed(chunk):
                await delivery.write(data)
        data = stream.finish()
    except CallError as error:
        data = stream.error(failed_call(error, call.plan.upstream.name).fault)
    except UpstreamError as error:
        data = stream.error(error.fault)
    if call.measured is not None:
        lease.succeeded(call.measured.usage.total)
    await delivery.end(data)


async def deliver_bytes(
    call: EndpointCall, lease: Lease, answer: UpstreamResponse, first: bytes
) -> None:
    """Send the client an answer that is no text, as it comes, of which `first` was read.

    Raises:
        CallError: it broke off.
    """
    chunk = first or await anext(answer, b"")
    call.begins(lease)
    lease.succeeded()
    call.note_usage()
    length = answer.headers.get("content-length", "")
    is_coded = "content-encoding" in answer.headers
    lines = b"".join(
        b"%b: %b\r\n" % (name.encode(), answer.headers[name].encode("latin-1"))
        for name in _PASSED
        if name in answer.headers
    )
    incoming = call.incoming
    size = int(length) if length.isdecimal() and not is_coded else None
    incoming.start(answer.status, call.headers(), lines, size)
    if chunk:
        await incoming.write(chunk)

    def take(data: bytes) -> bool:
        nonlocal chunk
        chunk = data
        return incoming.try_write(data)

    while await answer.pipe(take, in_bulk=True):
        await incoming.write(chunk)
    incoming.end()


_PASSED = (
    "content-type",
    "content-disposition",
    "content-range",
    "accept-ranges",
    "etag",
    "last-modified",
)


class _Stream:
    """The events of one answer on their way to the client."""

    def __init__(self, call: EndpointCall) -> None:
        self._call = call
        self._decoder = Decoder()
        self._hides_usage = call.row.asks_usage and not call.wants_usage
        self.over = False

    def feed(self, chunk: bytes) -> bytes:
        """What the client is sent for the next bytes.

        Raises:
            UpstreamError: the answer is an error, and nothing of it was passed on before.
        """
        try:
            return b"".join(map(self._event, self._decoder.feed(chunk)))
        except EventTooLarge as error:
            raise UpstreamError.unreadable(str(error)) from None

    def finish(self) -> bytes:
        """What the client is sent at the end of the bytes."""
        return b"".join(map(self._event, self._decoder.finish()))

    def _event(self, frame: Frame) -> bytes:
        call, data = self._call, frame.data
        if data == DONE:
            self.over = True
            return frame.raw
        if not call.events and (frame.event == b"error" or data.startswith(b'{"error"')):
            raise UpstreamError(call.plan.upstream.codec.translate.read_error(500, {}, data))
        if frame.event == b"error":
            call.record.fail(call.plan.upstream.codec.translate.read_error(500, {}, data))
        call.events += 1
        if any(data.find(word) >= 0 for word in _USAGE):
            try:
                members = Members(jsontext.members(data))
            except JsonError:
                return frame.raw
            call.measure(members)
            if self._hides_usage and members.get("choices") == []:
                return b""
        if call.plan.target.model == call.model or data.find(b'"model"') < 0:
            return frame.raw
        return encode(replaced(data, "model", to_json(call.model)), frame.event)

    def error(self, fault: Fault) -> bytes:
        """The end of a stream that failed."""
        call = self._call
        call.record.fail(fault)
        incoming = call.incoming
        _, body, _ = rendered(incoming.codec, fault, incoming.request_id, incoming.options)
        if call.row.output_limit:
            return encode(body)
        return encode(b'{"type":"error",%b' % body[1:], b"error")
