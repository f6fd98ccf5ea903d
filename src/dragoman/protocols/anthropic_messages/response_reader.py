"""Reads whole answers, as the streams they could have been."""

from __future__ import annotations

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Event
from dragoman.protocols.anthropic_messages.errors import fault_of
from dragoman.protocols.anthropic_messages.stream_reader import MessagesReader
from dragoman.protocols.base import Inbound
from dragoman.protocols.error_body import stray_error
from dragoman.protocols.fields import JsonObject

_STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")


def read_response(body: JsonObject, inbound: Inbound) -> list[Event]:
    """A `message` object as the events of its stream.

    Raises:
        UpstreamError: it is an error, or not an answer of this protocol.
    """
    content = body.get("content")
    if body.get("type") == "error" or content is None:
        error = stray_error(body)
        if error is not None or body.get("type") == "error":
            raise UpstreamError(fault_of(error))
    if not isinstance(content, list):
        if not isinstance(content, str):
            raise UpstreamError.unreadable("it has no content")
        body = {**body, "content": [content] if content else []}
    stop = {name: body.get(name) for name in _STOP_FIELDS}
    return MessagesReader(inbound).whole(body, stop)
