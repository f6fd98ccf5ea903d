"""The Responses API over WebSocket as an upstream offers it: requests as messages, messages as the
events of a stream, and what a connection of the upstream remembers (WebSocket mode guide)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.openai_responses.additions import (
    ANSWERS,
    CREATED,
    ENDS,
    Addition,
    Additions,
)
from dragoman.protocols.openai_responses.websocket import answer_in, finished_item, response_id_in
from dragoman.protocols.raw import split_list, split_object

LARGEST = 15 * 1024 * 1024
"""Bytes of the largest request that goes over a connection: services close at 16 MiB what they
take by POST."""

_NOT_FOUND = "previous_response_not_found"
_CONNECTION_LIMIT = "websocket_connection_limit_reached"

_REFUSALS = (400, 404, 405, 422, 501)
"""Statuses of errors that are about a message, while the answer goes on."""

_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Za-z0-9_.]+)"')
_NOT_SENT = ("stream", "background", "type")
_NOT_COMPARED = ("input", "client_metadata", "previous_response_id")
_PRIVATE = (b"codex.", b"responsesapi.")
"""How the types of events begin that no stream has."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = ("content-length", "content-type", "content-encoding", "transfer-encoding")


class SocketTurn:
    """A streamed request to a connection, and its answer as it comes.

    `over` says that the last event came, and `held` what the connection holds from then on; `error`
    is that which came in place of further events. `lingers`: the response has ended, and what was
    added to it is not settled yet.
    """

    __slots__ = (
        "_additions",
        "_begun",
        "_continues",
        "_end",
        "_finished",
        "_members",
        "_names",
        "error",
        "fields",
        "held",
        "input",
        "lingers",
        "over",
    )

    def __init__(self, members: dict[str, Raw]) -> None:
        self._members = members
        self._continues = False
        self._begun = False
        """Whether an event came."""
        self._finished: list[bytes] = []
        self._names: list[str] = []
        """Ids of the responses that were begun."""
        self._additions: Additions | None = None
        self._end = b""
        """A terminal event that is held back, as an answer to an addition may be on its way."""
        self.lingers = False
        fields = {name: raw for name, raw in members.items() if name not in _NOT_COMPARED}
        self.fields = to_json(fields)
        """JSON of what must not change within a chain."""
        self.input = _unclosed(members.get("input"))
        """JSON of the input, a list, up to what closes it; empty if it is none."""
        self.over = False
        self.held: Held | None = None
        self.error: SocketError | None = None

    @property
    def names_parent(self) -> bool:
        """Whether the request itself says which response it goes on from."""
        given = self._members.get("previous_response_id")
        return given is not None and bytes(given) != b"null"

    def message(self, held: Any = None) -> bytes | None:
        """The message; of a connection that holds `held`, only with what is new. None if the
        request does not go on from that."""
        members = {"type": Raw(b'"response.create"'), **self._members}
        if held is not None:
            added = held.added(self)
            if added is None:
                return None
            members["previous_response_id"] = Raw(to_json(held.id))
            members["input"] = Raw(added)
        self._continues = held is not None
        return to_json(members)

    def take(self, message: bytes) -> bytes:
        """What a message of the upstream is in the stream that POST would give: nothing if it is of
        none, or an `error`."""
        kind = type_of(message)
        if kind == b"error":
            error = socket_error(message, continues=self._continues)
            waiting = [] if self._additions is None else self._additions.unanswered
            if not waiting or error.status not in _REFUSALS:
                self.error = error
                return b""
            # A service that knows no such message says so, and goes on with its answer.
            told = str(error.error.get("message") or "")
            message = waiting[0].refused("steering_not_supported", told)
            kind = type_of(message)
        if not kind and not self._begun:
            # Whoever begins so speaks another protocol; no end would come to tell so.
            self.error = _UNREADABLE
            return b""
        self._begun = True
        if kind == CREATED:
            self._names.append(response_id_in(message))
        if kind == b"response.output_item.done":
            self._finished.append(message)
        elif self._additions is not None:
            return self._settling(self._additions, kind, message)
        elif kind in ENDS:
            self.over = True
            if kind != b"response.failed":
                self.held = _held_after(self, message, self._finished)
        return streamed(kind, message)

    def add(self, send: Callable[[bytes], bool], addition: Addition) -> bool:
        """Send a response more input by `send`, which says whether it does. The response is known
        by its place, for the client may have another id of it. What the connection holds is then
        no longer what the request says."""
        if addition.place >= len(self._names):
            return False
        addition = replace(addition, target=self._names[addition.place])
        message = addition.message
        if len(message) >= LARGEST or not send(message):
            return False
        if self._additions is None:
            self._additions = Additions()
        self._additions.sent(addition)
        return True

    def part(self) -> bytes:
        """The last events where the upstream tells no more of what was added."""
        additions, end = self._additions, self._end
        self.over, self.lingers = True, False
        returned = [] if additions is None else additions.returned
        return b"".join([streamed(type_of(one), one) for one in (*returned, end)])

    def _settling(self, additions: Additions, kind: bytes, message: bytes) -> bytes:
        """As `take`, of an event after something was added. A terminal one goes after the answers
        to what was added before it came, so that who sees it knows whether it is the last."""
        before = b""
        if self._end and kind not in ANSWERS:
            before = self._passed(additions, self._end)
        if kind in ENDS and additions.unanswered:
            self._end, self.lingers = message, True
            return before
        told = before + streamed(kind, message)
        if kind in ENDS or kind in ANSWERS or kind == CREATED:
            self.over = additions.take(kind, message)
        if self._end and not additions.unanswered:
            told += self._passed(additions, self._end)
        self.lingers = not self.over and (additions.ended or bool(self._end))
        return told

    def _passed(self, additions: Additions, end: bytes) -> bytes:
        """The terminal event that was held back."""
        self._end, kind = b"", type_of(end)
        self.over = additions.take(kind, end)
        return streamed(kind, end)

    @staticmethod
    def spoils(message: bytes) -> bool:
        """Whether a message that no request waits for would be taken for the answer to the next."""
        return type_of(message) == b"error"


def _unclosed(given: Raw | None) -> bytes:
    """The JSON of a list without its last bracket; empty if it is no list."""
    text = memoryview(b"" if given is None else given)
    return bytes(text[:-1]).rstrip() if text[:1].tobytes() == b"[" else b""


def socket_turn(body: bytes) -> SocketTurn | None:
    """What a body for POST is over a connection; None if it can only be posted."""
    members = split_object(Raw(body)) if len(body) < LARGEST else None
    if members is None or bytes(members.get("stream", b"")) != b"true":
        return None
    if bytes(members.get("background", b"false")) not in (b"false", b"null"):
        return None
    return SocketTurn({name: raw for name, raw in members.items() if name not in _NOT_SENT})


class Held(Struct, frozen=True):
    """The last response of a connection: its id, the request that it answers, and its items as
    they are compared."""

    id: str
    fields: bytes
    input: bytes
    output: list[Any]

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self.input) + len(self.fields)

    def added(self, request: SocketTurn) -> bytes | None:
        """The JSON of the input that follows this response, where the request goes on from it: the
        same fields, the same input, the items of the answer, and more. Else None."""
        before, whole = self.input, request.input
        if (
            request.names_parent
            or request.fields != self.fields
            or not before
            or not whole.startswith(before)
        ):
            return None
        rest = whole[len(before) :].lstrip()
        if before != b"[":
            if rest[:1] != b",":
                return None
            rest = rest[1:]
        items = split_list(Raw(b"[%b]" % rest))
        count = len(self.output)
        if items is None or len(items) <= count:
            return None
        try:
            echoed = [_plain(jsontext.strict(item)) for item in items[:count]]
        except JsonError:
            return None
        if echoed != self.output:
            return None
        return b"[" + b",".join(map(bytes, items[count:])) + b"]"


def _held_after(request: SocketTurn, end: bytes, finished: list[bytes]) -> Held | None:
    """What a connection holds after a response: `end` is its last event, `finished` are the events
    of its items, which not all services repeat at the end. None if nothing can go on from it."""
    name, output = answer_in(end, list(map(finished_item, finished)))
    if not name or request.names_parent:
        return None
    try:
        answered = [_plain(item) for item in jsontext.strict(b"[" + output + b"]")]
    except JsonError:
        return None
    return Held(name, request.fields, request.input, answered)


def _plain(item: Any) -> Any:
    """An item without what clients need not repeat, or repeat in another way."""
    if not isinstance(item, dict):
        return item
    plain = {
        name: value
        for name, value in item.items()
        if name not in ("id", "status") and value is not None and value != []
    }
    if plain.get("role") == "assistant":
        plain.setdefault("type", "message")
        content = plain.get("content")
        if isinstance(content, str):
            plain["content"] = [{"type": "output_text", "text": content}]
        elif isinstance(content, list):
            plain["content"] = [_plain(part) for part in content]
    return plain


class _Typed(Struct):
    type: Any = None


_typed = jsontext.decoder(_Typed)


def type_of(message: bytes) -> bytes:
    """The type of an event; empty if it is none."""
    found = _TYPE.match(message)
    if found is not None:
        return found[1]
    try:
        kind = _typed(message).type
    except JsonError:
        return b""
    return kind.encode() if isinstance(kind, str) and kind.isprintable() else b""


def streamed(kind: bytes, message: bytes) -> bytes:
    """An event as one of a stream; nothing for one that streams do not have."""
    if not kind or kind.startswith(_PRIVATE):
        return b""
    if b"\n" in message or b"\r" in message:
        # Between the tokens of JSON only.
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: %b\ndata: %b\n\n" % (kind, message)


class SocketError(Struct, frozen=True):
    """An `error` event as the answer that HTTP would have had. `again` says that it is about the
    connection, and the request can be made whole on another."""

    status: int
    headers: list[tuple[bytes, bytes]]
    error: dict[str, Any]
    again: bool

    @property
    def body(self) -> bytes:
        """The body of that answer."""
        return to_json({"error": self.error})

    @property
    def event(self) -> bytes:
        """The event of a stream that has begun, where an error has another form."""
        flat = {name: self.error.get(name) for name in ("code", "message", "param")}
        return b"event: error\ndata: %b\n\n" % to_json({"type": "error", **flat})


_UNREADABLE = SocketError(
    502, [], {"type": "server_error", "message": "A message is no event of a response."}, False
)


def socket_error(message: bytes, *, continues: bool) -> SocketError:
    """An `error` event, taken apart; `continues`: the request was sent without what the connection
    holds. `status_code` is another name of the event's `status`."""
    event = jsontext.object_of(message) or {}
    error = event.get("error")
    if not isinstance(error, dict):
        error = {name: event.get(name) for name in ("code", "message", "param")}
    error = dict(error)
    told: dict[str, Any] = {}
    for headers in (error.pop("headers", None), event.get("headers")):
        if isinstance(headers, dict):
            told |= {str(name).lower(): value for name, value in headers.items()}
    lines = []
    for name, value in told.items():
        text = str(value)
        if name in _OWN_HEADERS or not _HEADER.fullmatch(name):
            continue
        if isinstance(value, (str, int, float)) and text.isascii() and text.isprintable():
            lines.append((name.encode(), text.encode()))
    status = event.get("status", event.get("status_code"))
    code = error.get("code")
    if type(status) is not int or not 400 <= status < 600:
        status = 400 if code in (_NOT_FOUND, _CONNECTION_LIMIT) else 500
    again = code == _CONNECTION_LIMIT or (code == _NOT_FOUND and continues)
    return SocketError(status, lines, error, again)
