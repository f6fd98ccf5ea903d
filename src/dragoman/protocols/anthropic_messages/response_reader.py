"""Reads whole answers, as the streams they could have been."""

from __future__ import annotations

from dragoman import jsontext
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Event
from dragoman.jsontext import JsonError
from dragoman.protocols.anthropic_messages import shapes
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.stream_reader import MessagesReader
from dragoman.protocols.base import Inbound
from dragoman.protocols.error_body import stray_error
from dragoman.protocols.fields import JsonObject

_STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")
_answer = jsontext.decoder(shapes.Answer)


def read_response(body: bytes, inbound: Inbound) -> list[Event]:
    """A `message` object as the events of its stream.

    Raises:
        UpstreamError: it is an error, or not an answer of this protocol.
    """
    reader = MessagesReader(inbound)
    try:
        answer = _answer(body)
    except JsonError:
        return _read_loose(inbound.decode_answer(body), reader)
    return reader.exact(answer)


def _read_loose(body: JsonObject, reader: MessagesReader) -> list[Event]:
    """An answer in any other form."""
    content = body.get("content")
    if body.get("type") == "error" or content is None:
        error = stray_error(body)
        if error is not None or body.get("type") == "error":
            raise UpstreamError(fault_of(error))
    if not isinstance(content, list):
        if not isinstance(content, str):
            raise UpstreamError.unreadable("it has no content")
        body = {**body, "content": [content] if content else []}
    return reader.whole(body, {name: body.get(name) for name in _STOP_FIELDS})
