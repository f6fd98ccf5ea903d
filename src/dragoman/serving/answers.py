"""Reading an upstream's answer: whether it is a stream, a whole answer or an error."""

from __future__ import annotations

import asyncio

from dragoman.translation import Call, Outcome
from dragoman.upstream.errors import CallError
from dragoman.upstream.response import UpstreamResponse

MOST_BYTES = 256 * 1024 * 1024
"""Largest whole answer that is read."""

_ERROR_BYTES = 128 * 1024
_DRAIN_S = 0.5
_SSE_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BOM = b"\xef\xbb\xbf"
_LENGTHS = (b"\0", b"\1")
"""First bytes of a binary stream, which begins with the length of a message."""
_START = 64
"""Bytes of a body that are enough to see what it is."""


async def beginning(answer: UpstreamResponse) -> bytes:
    """The first bytes of an answer, enough to see whether it is a stream: some upstreams send them
    one by one.

    Raises:
        CallError: the answer broke off.
    """
    begun = await anext(answer, b"")
    while _is_undecided(begun):
        chunk = await anext(answer, b"")
        if not chunk:
            break
        begun += chunk
    return begun


def is_stream(answer: UpstreamResponse, first: bytes, media: str) -> bool:
    """Whether an answer is a stream of events, by its content type, which should be `media`, and
    the beginning of its body: neither alone is reliable."""
    start = _start(first)
    if start.startswith((b"{", b"[", b"<")):
        return False
    return media in answer.headers.get("content-type", "") or _is_field(start)


def holds_events(body: bytes) -> bool:
    """Whether a whole body is a stream of events, although none was asked for."""
    return not body.startswith(b"{") and (_is_field(_start(body)) or body[:1] in _LENGTHS)


def translate_whole(call: Call, body: bytes, outcome: Outcome, *, streamed: bool) -> bytes:
    """What a client is sent for an upstream's answer `body`, without secrets of the account. One
    that asked for a stream is sent one for a whole answer; one that did not, a whole answer for a
    stream as well.

    Raises:
        UpstreamError: as `Call.translate_response`.
    """
    body = call.mask.secrets_in(body)
    if streamed:
        return call.response_as_stream(body, outcome)
    if holds_events(body):
        # A secret may have been cut over two pieces, which are one text in the answer.
        return call.mask.secrets_in(call.stream_as_response(body, outcome))
    return call.translate_response(body, outcome)


async def read_error(answer: UpstreamResponse) -> bytes:
    """The body of an error, as far as it can be read: the status alone is enough."""
    try:
        return await answer.read(_ERROR_BYTES)
    except CallError:
        return b""


async def drain(answer: UpstreamResponse) -> None:
    """Read what follows the last event, commonly nothing, so that the connection can serve
    again."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in answer:
                pass
    except (TimeoutError, CallError):
        pass


def _start(body: bytes) -> bytes:
    return body[:_START].removeprefix(_BOM).lstrip()


def _is_undecided(begun: bytes) -> bool:
    if len(begun) >= _START:
        return False
    start = _start(begun)
    return _BOM.startswith(begun) or any(
        field.startswith(start) and field != start for field in _SSE_FIELDS
    )


def _is_field(start: bytes) -> bool:
    return start.startswith(_SSE_FIELDS)
