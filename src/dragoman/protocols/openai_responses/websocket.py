"""The Responses API over WebSocket: client events in addition to request bodies, and the frames
that only a socket has (types: responses_client_event.py, responses_server_event.py).

Each text message is one JSON object with a `type`. A `response.create` has the fields of the body
of `POST /responses` and its own; an answer is its events, one in each message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_errors import fault_of, shown_status
from dragoman.protocols.openai_responses.additions import Addition
from dragoman.protocols.openai_responses.errors import error_object, write_error
from dragoman.protocols.openai_responses.shown import Lifecycle
from dragoman.protocols.raw import join_object, split_list, split_object, text_of

MOST_STREAM_IDS = 32
"""Values of `stream_id` that one connection may use (WebSocket mode guide)."""
MOST_ACTIVE = 16
"""Responses of one connection that are made at once; further ones wait (WebSocket mode guide)."""

_STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_OWN = ("type", "stream_id", "generate", "background", "background_options")
"""Members of a `response.create` that are not sent on."""
_NULL = b"null"
_SWALLOWED = frozenset({"response.processed"})
"""Types without an answer: an error would be attributed to the next request."""


class Create(Struct, frozen=True):
    """A `response.create`: the `body` that `POST /responses` would have had, streamed, its
    `stream_id` (empty for none), the response that it continues, and whether it only prepares
    (`generate: false`)."""

    body: bytes
    stream_id: str
    previous: str | None
    prepares: bool


def read_event(data: bytes) -> Create | Addition | None:
    """The event of a client's message; None for one that expects nothing.

    Raises:
        BadEvent: it is none.
    """
    try:
        members = jsontext.members(data)
    except JsonError:
        try:
            value = jsontext.decode(data)
        except JsonError:
            raise BadEvent(_invalid("The message is not valid JSON.")) from None
        if not isinstance(value, dict):
            raise BadEvent(_invalid("The message must be a JSON object.")) from None
        members = jsontext.members(to_json(value))
    kind = text_of(members.get("type"))
    if kind == "response.create":
        return _read_create(members)
    if kind in ("response.steer", "response.inject"):
        return _read_addition(kind.removeprefix("response."), members)
    if kind in _SWALLOWED:
        return None
    problem = f"There is no event of type '{kind[:100]}'." if kind else "type: is required"
    raise BadEvent(_invalid(problem, "type"), _stream_id_in(members))


class BadEvent(DragomanError):
    """A client's event that cannot be handled, and the `stream_id` of the error."""

    def __init__(self, fault: Fault, stream_id: str = "") -> None:
        super().__init__(fault)
        self.stream_id = stream_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fault, self.stream_id)


def _read_create(members: Mapping[str, Raw]) -> Create:
    stream_id = ""
    if not _is_null(members.get("stream_id")):
        stream_id = text_of(members.get("stream_id"))
        if _STREAM_ID.fullmatch(stream_id) is None:
            problem = "stream_id: must be 1 to 256 letters, digits, '_', '-' or '.'"
            raise BadEvent(_invalid(problem, "stream_id", "invalid_stream_id"))
    generates = _flag(members, "generate", stream_id)
    _flag(members, "stream", stream_id)
    if _flag(members, "background", stream_id):
        raise BadEvent(
            _invalid("background: is not served over WebSocket", "background"), stream_id
        )
    options = _prewarming(members.get("prompt_cache_options"))
    body = {name: raw for name, raw in members.items() if name not in _OWN}
    body["stream"] = Raw(b"true")
    if options is not None:
        body["prompt_cache_options"] = options
    previous = text_of(members.get("previous_response_id")) or None
    prepares = generates is False or options is not None
    return Create(to_json(body), stream_id, previous, prepares)


def _prewarming(given: Raw | None) -> Raw | None:
    """Caching options without `prewarm`, if that is set: it means the same as `generate: false`."""
    options = split_object(given) if given is not None and b"prewarm" in bytes(given) else None
    if options is None or bytes(options.get("prewarm", b"")) != b"true":
        return None
    return join_object({name: raw for name, raw in options.items() if name != "prewarm"})


def _read_addition(kind: str, members: Mapping[str, Raw]) -> Addition:
    name = "previous_response_id" if kind == "steer" else "response_id"
    return Addition(kind, text_of(members.get(name)), members.get("input", Raw(_NULL)))


def _flag(members: Mapping[str, Raw], name: str, stream_id: str) -> bool | None:
    raw = bytes(members.get(name, _NULL))
    if raw not in (b"true", b"false", _NULL):
        raise BadEvent(_invalid(f"{name}: must be a boolean", name), stream_id)
    return None if raw == _NULL else raw == b"true"


def _is_null(raw: Raw | None) -> bool:
    return raw is None or bytes(raw) == _NULL


def _stream_id_in(members: Mapping[str, Raw]) -> str:
    stream_id = text_of(members.get("stream_id"))
    return stream_id if _STREAM_ID.fullmatch(stream_id) else ""


def _invalid(message: str, param: str | None = None, code: str | None = None) -> Fault:
    return Fault(FaultKind.INVALID_REQUEST, message, param=param, code=code)


CONNECTION_LIMIT = _invalid(
    "This connection has reached its end. Open a new one to go on.",
    code="websocket_connection_limit_reached",
)
"""The error on which clients open another connection and send the whole conversation."""
STREAM_LIMIT = _invalid(
    f"A connection has at most {MOST_STREAM_IDS} values of stream_id. Use one of them, or another "
    "connection.",
    "stream_id",
    "websocket_stream_limit_reached",
)
QUEUE_FULL = Fault(
    FaultKind.RATE_LIMITED,
    "Too many requests wait on this connection.",
    code="websocket_queue_full",
    retry_after=1.0,
)
NO_END = Fault(
    FaultKind.UPSTREAM_FAILED, "The answer ended before it was whole.", code="server_error"
)


def tagged(data: bytes, stream_id: str) -> bytes:
    """An event with this `stream_id`."""
    end = data.rfind(b"}") if stream_id else -1
    return data if end < 0 else b'%b,"stream_id":"%b"}' % (data[:end], stream_id.encode())


def error_event(fault: Fault, stream_id: str = "") -> bytes:
    """The error for a request that the gateway itself refuses."""
    rendered = write_error(fault, "")
    headers = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
    return error_answer(rendered.status, to_json(rendered.body), headers, stream_id)


def error_answer(
    status: int, body: bytes, headers: Mapping[str, str], stream_id: str = ""
) -> bytes:
    """The error that answers a request, from the status, body and headers that HTTP would have had.
    An error object that is not nested, or a missing one, is converted to the form that clients
    read; other members stay."""
    found = jsontext.object_of(body) or {}
    error = found.get("error", found)
    if not isinstance(error, dict):
        error = {"message": str(error)}
    usual = error_object(Fault(FaultKind.INTERNAL, "The request failed."))
    error = {**usual, **error}
    for name in ("type", "message"):
        if not isinstance(error[name], str):
            error[name] = usual[name]
    event: JsonObject = {"type": "error", "status": status, "error": error}
    if headers:
        # Clients look for them in one place or the other.
        error["headers"] = event["headers"] = dict(headers)
    return tagged(to_json(event), stream_id)


def error_of_stream(data: bytes, stream_id: str = "") -> bytes:
    """The error that answers a request, from the `error` event of a stream, which has another
    form."""
    event = jsontext.object_of(data) or {}
    error = event.get("error")
    flat = {name: event.get(name) for name in ("code", "message", "param")}
    found: Any = error if isinstance(error, dict) else flat
    fault = fault_of(found)
    body = {**found, "type": found.get("type") or error_object(fault)["type"]}
    return error_answer(shown_status(fault), to_json({"error": body}), {}, stream_id)


class _Done(Struct):
    """The members read of a finished item's event."""

    output_index: Any = 0
    item: Raw = Raw()


_done = jsontext.decoder(_Done)
_lifecycle = jsontext.decoder(Lifecycle)


def finished_item(data: bytes) -> tuple[int, bytes]:
    """Place and JSON of the item in a `response.output_item.done`; no JSON if it has none."""
    try:
        event = _done(data)
    except JsonError:
        return 0, b""
    place = event.output_index
    return place if type(place) is int else 0, bytes(event.item)


_ANSWER_ID = re.compile(
    rb'\{\s*"type"\s*:\s*"[a-z._]+"\s*,\s*(?:"sequence_number"\s*:\s*[0-9]+\s*,\s*)?'
    rb'"response"\s*:\s*\{\s*"id"\s*:\s*"([A-Za-z0-9_.:-]+)"'
)
"""A pattern for the response's id in an event as services encode it, so that the rest, with the
client's tools, is not decoded."""


def answer_in(end: bytes, finished: list[tuple[int, bytes]]) -> tuple[str, bytes]:
    """The id and the output items of an answer, as `response_in`, from its last event and the items
    as they were finished. The finished items are complete; some services leave the output of the
    last event empty."""
    items = b",".join([item for _, item in sorted(finished, key=itemgetter(0)) if item])
    found = _ANSWER_ID.match(end) if items else None
    if found is not None:
        return found[1].decode(), items
    name, output = response_in(end)
    return name, items or output


def response_id_in(data: bytes) -> str:
    """The id of the response in an event of its lifecycle, empty if it has none."""
    found = _ANSWER_ID.match(data)
    return response_in(data)[0] if found is None else found[1].decode()


def response_in(data: bytes) -> tuple[str, bytes]:
    """The id of the response in an event of its lifecycle, and its output items as JSON without
    the brackets around them; empty if there is none."""
    try:
        response = _lifecycle(data).response
    except JsonError:
        return "", b""
    if response is None:
        return "", b""
    items = split_list(response.output)
    output = b",".join(map(bytes, items)) if items else b""
    return response.id or "", output


def changed(data: bytes, **members: Any) -> bytes:
    """An event with these members; what is no event stays as it is."""
    try:
        return to_json({**jsontext.members(data), **members})
    except JsonError:
        return data


def numbered(data: bytes, number: int) -> bytes:
    """An event with this sequence number."""
    return changed(data, sequence_number=number)


def in_progress(created: bytes, number: int) -> bytes:
    """A `response.in_progress` event with the response object of the event `created`."""
    return changed(created, type="response.in_progress", sequence_number=number)


def sequence_number(data: bytes) -> int:
    """The number of an event, -1 if it has none."""
    try:
        number = jsontext.decode(jsontext.members(data)["sequence_number"])
    except (JsonError, KeyError):
        return -1
    return number if type(number) is int else -1


def with_headers(data: bytes, headers: Mapping[str, str]) -> bytes:
    """An event with additional headers, which HTTP would send before it."""
    return changed(data, headers=dict(headers))
