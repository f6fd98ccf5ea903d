"""The Responses API over WebSocket as an upstream offers it: requests as messages, messages as the
events of a stream, and the context stored in an upstream connection (WebSocket mode guide)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
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

MAX_BYTES = 15 * 1024 * 1024
"""Largest request over a connection: services close at 16 MiB what they accept by POST."""

_NOT_FOUND = "previous_response_not_found"
_CONNECTION_LIMIT = "websocket_connection_limit_reached"
_MESSAGE_ERRORS = (400, 404, 405, 422, 501)
"""Statuses of errors about an addition, after which the response goes on."""
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Za-z0-9_.]+)"')
_NOT_SENT = ("stream", "background", "type")
_NOT_COMPARED = ("input", "client_metadata", "previous_response_id")
_PRIVATE = (b"codex.", b"responsesapi.")
"""Prefixes of event types that streams do not have."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = ("content-length", "content-type", "content-encoding", "transfer-encoding")


class SocketTurn(Struct, eq=False):
    """A streamed request over a connection, and its answer: a `dragoman.upstream.SocketCall`."""

    _members: dict[str, Raw]
    _fields: bytes = b""
    """JSON of what must not change within a chain."""
    _input: bytes = b""
    """JSON of the input without its last bracket; empty if it is no list."""
    _continues: bool = False
    _has_begun: bool = False
    _items: list[bytes] = []
    """Events of finished output items."""
    _ids: list[str] = []
    """Of the responses that were created."""
    _additions: Additions | None = None
    _end: bytes = b""
    """A terminal event delayed until pending additions are answered."""
    is_complete: bool = False
    awaits_following: bool = False
    context: Context | None = None
    error: SocketError | None = None

    def __post_init__(self) -> None:
        members = self._members
        self._fields = to_json({n: raw for n, raw in members.items() if n not in _NOT_COMPARED})
        given = bytes(members.get("input", b""))
        self._input = given[:-1].rstrip() if given.startswith(b"[") else b""

    @property
    def _names_parent(self) -> bool:
        return bytes(self._members.get("previous_response_id", b"null")) != b"null"

    def message(self, context: Any) -> bytes | None:
        """The message; with only the new input if it continues `context`. None if it does not."""
        members = {"type": Raw(b'"response.create"'), **self._members}
        if context is not None:
            added = self._added_to(context)
            if added is None:
                return None
            members |= {"previous_response_id": Raw(to_json(context.id)), "input": Raw(added)}
        self._continues = context is not None
        return to_json(members)

    def _added_to(self, context: Context) -> bytes | None:
        """JSON of the input after that of `context`, where this request continues it: the same
        fields, the same input, the items of the answer, and more."""
        before, given = context.input, self._input
        if self._names_parent or self._fields != context.fields or not given.startswith(before):
            return None
        rest = given[len(before) :].lstrip()
        if before != b"[":
            if rest[:1] != b",":
                return None
            rest = rest[1:]
        items = split_list(Raw(b"[%b]" % rest)) or []
        count = len(context.output)
        if len(items) <= count or _comparable(items[:count]) != context.output:
            return None
        return b"[" + b",".join(map(bytes, items[count:])) + b"]"

    def receive(self, message: bytes) -> bytes:
        """A message of the upstream as in the stream of a POST."""
        kind = type_of(message)
        if kind == b"error":
            error = socket_error(message, continues=self._continues)
            pending = [] if self._additions is None else self._additions.unanswered
            if not pending or error.status not in _MESSAGE_ERRORS:
                self.error = error
                return b""
            # The answer of a service without support for such messages.
            reason = str(error.error.get("message") or "")
            message = pending[0].refused("steering_not_supported", reason)
            kind = type_of(message)
        if not kind and not self._has_begun:
            # An upstream of another protocol: no terminal event would come.
            self.error = _UNREADABLE
            return b""
        self._has_begun = True
        if kind == CREATED:
            self._ids.append(response_id_in(message))
        if kind == b"response.output_item.done":
            self._items.append(message)
        elif self._additions is not None:
            return self._receive_after_addition(self._additions, kind, message)
        elif kind in ENDS:
            self.is_complete = True
            if kind != b"response.failed" and self._input and not self._names_parent:
                self.context = self._context_after(message)
        return streamed(kind, message)

    def _context_after(self, end: bytes) -> Context | None:
        """The context stored in the connection after the terminal event `end`. Not all services
        repeat the output in it."""
        name, output = answer_in(end, list(map(finished_item, self._items)))
        items = _comparable([b"[" + output + b"]"])
        return Context(name, self._fields, self._input, items[0]) if name and items else None

    def add(self, send: Callable[[bytes], bool], addition: Addition) -> bool:
        """Add input to a response by `send`, and return whether that was sent. The response is
        identified by its place, as the client may know it by another id. The connection's context
        then differs from the request."""
        if addition.place >= len(self._ids):
            return False
        addition = replace(addition, target=self._ids[addition.place])
        if len(addition.message) >= MAX_BYTES or not send(addition.message):
            return False
        if self._additions is None:
            self._additions = Additions()
        self._additions.sent(addition)
        return True

    def give_up(self) -> bytes:
        """The last events if the upstream sends no more about additions."""
        self.is_complete, self.awaits_following = True, False
        returned = [] if self._additions is None else self._additions.returned
        return b"".join([streamed(type_of(one), one) for one in (*returned, self._end)])

    def _receive_after_addition(self, additions: Additions, kind: bytes, message: bytes) -> bytes:
        """As `receive`. A terminal event goes after the answers to what was added before it came,
        so that its receiver knows whether it is the last."""
        events = b""
        if self._end and kind not in ANSWERS:
            events = self._release_end(additions)
        if kind in ENDS and additions.unanswered:
            self._end, self.awaits_following = message, True
            return events
        events += streamed(kind, message)
        if kind in ENDS or kind in ANSWERS or kind == CREATED:
            self.is_complete = additions.take(kind, message)
        if self._end and not additions.unanswered:
            events += self._release_end(additions)
        self.awaits_following = not self.is_complete and (additions.ended or bool(self._end))
        return events

    def _release_end(self, additions: Additions) -> bytes:
        end, self._end = self._end, b""
        self.is_complete = additions.take(type_of(end), end)
        return streamed(type_of(end), end)

    @staticmethod
    def is_late_error(message: bytes) -> bool:
        """Whether a message after the end would be taken for the answer to the next request."""
        return type_of(message) == b"error"


def socket_turn(body: bytes) -> SocketTurn | None:
    """The turn of a body for POST; None if it can only be posted."""
    members = split_object(Raw(body)) if len(body) < MAX_BYTES else None
    if members is None or bytes(members.get("stream", b"")) != b"true":
        return None
    if bytes(members.get("background", b"false")) not in (b"false", b"null"):
        return None
    return SocketTurn({name: raw for name, raw in members.items() if name not in _NOT_SENT})


class Context(Struct, frozen=True):
    """The last response of a connection: its id, the fields and input of its request, and its
    output items in the form in which they are compared."""

    id: str
    fields: bytes
    input: bytes
    output: Any

    @property
    def size(self) -> int:
        """Approximate bytes of memory."""
        return len(self.input) + len(self.fields)


def _comparable(texts: list[Any]) -> list[Any]:
    """JSON values without members that clients leave out or repeat differently; empty if one is not
    JSON."""
    try:
        return [_plain(jsontext.strict(text)) for text in texts]
    except JsonError:
        return []


def _plain(item: Any) -> Any:
    if isinstance(item, list):
        return [_plain(one) for one in item]
    if not isinstance(item, dict):
        return item
    plain = {
        name: value
        for name, value in item.items()
        if name not in ("id", "status") and value is not None and value != []
    }
    if isinstance(arguments := plain.get("arguments"), str):
        # A client of another protocol repeats them as a value, with other white space.
        with suppress(JsonError):
            plain["arguments"] = jsontext.decode(arguments.encode())
    if plain.get("role") == "assistant":
        plain.setdefault("type", "message")
        content = plain.get("content")
        if isinstance(content, str):
            plain["content"] = [{"type": "output_text", "text": content}]
        elif isinstance(content, list):
            plain["content"] = _plain(content)
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
    """An event in the form of a stream; empty for one that streams do not have."""
    if not kind or kind.startswith(_PRIVATE):
        return b""
    # Line breaks are only between the tokens of JSON.
    message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: %b\ndata: %b\n\n" % (kind, message)


class SocketError(Struct, frozen=True):
    """An `error` event as the answer that HTTP would have had; see `SocketFailure`."""

    status: int
    headers: list[tuple[bytes, bytes]]
    error: dict[str, Any]
    is_retryable: bool

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
    """The error in an `error` event; `continues`: the request was sent without the context stored
    in the connection. `status_code` is another name of the event's `status`."""
    event = jsontext.object_of(message) or {}
    error = event.get("error")
    if not isinstance(error, dict):
        error = {name: event.get(name) for name in ("code", "message", "param")}
    nested = error.get("headers")
    error = {name: value for name, value in error.items() if name != "headers"}
    given: dict[str, Any] = {}
    for headers in (nested, event.get("headers")):
        if isinstance(headers, dict):
            given |= {str(name).lower(): value for name, value in headers.items()}
    lines = [
        (name.encode(), str(value).encode())
        for name, value in given.items()
        if name not in _OWN_HEADERS
        and _HEADER.fullmatch(name)
        and isinstance(value, (str, int, float))
        and (text := str(value)).isascii()
        and text.isprintable()
    ]
    status = event.get("status", event.get("status_code"))
    code = error.get("code")
    if type(status) is not int or not 400 <= status < 600:
        status = 400 if code in (_NOT_FOUND, _CONNECTION_LIMIT) else 500
    retryable = code == _CONNECTION_LIMIT or (code == _NOT_FOUND and continues)
    return SocketError(status, lines, error, retryable)
