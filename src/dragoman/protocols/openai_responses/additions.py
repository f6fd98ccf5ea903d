"""Additional input for a response in progress (`response.steer`, `response.inject`) and its status
as reported in the response's stream (types: response_steer_*_event.py and
beta_response_inject_*_event.py).

Input that was accepted is queued. It is committed when the response that follows by itself is
created, waits for the next request if the response ends for tool outputs (`pending`), or is
returned (`failed`). So the terminal event of a steered response may not be the last of its stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json
from dragoman.protocols.raw import is_text, join_object, split_list, split_object, text_of

CREATED = b"response.created"
ENDS = frozenset({b"response.completed", b"response.incomplete", b"response.failed"})
_ACCEPTED = b"response.steer.accepted"
_PENDING = b"response.steer.pending"
_FAILED = b"response.steer.failed"
_INJECTED = b"response.inject.created"
_NOT_INJECTED = b"response.inject.failed"
ANSWERS = frozenset({_ACCEPTED, _PENDING, _FAILED, _INJECTED, _NOT_INJECTED})
"""Types of the events with the status of additional input."""


_INJECT_CODES = ("response_already_completed", "response_not_found")
"""All codes of `response.inject.failed` (beta_response_inject_failed_event.py)."""


class Addition(Struct, frozen=True):
    """Input for a response in progress: `kind` is `steer` or `inject`, `target` the id of the
    response, `input` as it was given. `place` is the position of the response in its stream; its
    service may use another id for it."""

    kind: str
    target: str
    input: Raw
    place: int = 0

    @property
    def message(self) -> bytes:
        """The message for the service."""
        target = "previous_response_id" if self.kind == "steer" else "response_id"
        kind = f"response.{self.kind}"
        return to_json({"type": kind, target: self.target, "input": self.input})

    @property
    def items(self) -> bytes:
        """JSON of its items, without the brackets around them; empty if it has none."""
        if is_text(self.input):
            return to_json({"type": "message", "role": "user", "content": self.input})
        return b",".join(map(bytes, split_list(self.input) or ()))

    def refused(self, code: str, message: str, name: str = "") -> bytes:
        """The event that returns it; `name` is the id under which it was accepted, if it was. A
        code that its kind does not have becomes the one for an unknown response."""
        if self.kind == "inject" and code not in _INJECT_CODES:
            code = "response_not_found"
        error: dict[str, Any] = {"code": code, "message": message}
        event: dict[str, Any] = {"type": f"response.{self.kind}.failed", "sequence_number": 0}
        if self.kind == "steer":
            steer = {"id": name} if name else {}
            event["steer"] = {**steer, "previous_response_id": self.target, "input": self.input}
            event["error"] = {"type": "invalid_request_error", **error}
        else:
            event |= {"response_id": self.target, "input": self.input, "error": error}
        return to_json(event)


class _Named(Struct):
    id: Any = None


class _SteerEvent(Struct):
    """The members read of an event about additional input."""

    steer: _Named | None = None


_steer_event = jsontext.decoder(_SteerEvent)


class Additions(Struct, eq=False):
    """The input added to the responses of one stream. A sender registers its input (`sent`); an
    observer of the stream knows it by its ids only.

    - `unanswered`: sent, with no event about it yet, in order.
    - `queued`: accepted, by id; None for input of another sender.
    - `committed`: added to the conversation by the last event.
    - `pending`: to be put before the input of the next request.
    """

    ended: bool = False
    """Whether the last response that was created has ended."""
    unanswered: list[Addition] = []
    queued: dict[str, Addition | None] = {}
    committed: list[Addition] = []
    pending: list[Addition] = []

    @property
    def returned(self) -> list[bytes]:
        """The events that return input neither committed nor refused."""
        reason = ("successor_creation_failed", "No response followed that takes this input.")
        queued = [
            one.refused(*reason, name) for name, one in self.queued.items() if one is not None
        ]
        return [*queued, *(one.refused(*reason) for one in self.unanswered)]

    def sent(self, addition: Addition) -> None:
        """Record that an addition was sent to the service."""
        self.unanswered.append(addition)

    def take(self, kind: bytes, data: bytes) -> bool:
        """Take an event of `ANSWERS`, `ENDS`, or `CREATED`. Returns whether it is the last."""
        self.committed = []
        if kind in ENDS:
            self.ended = True
        elif kind == CREATED:
            if self.ended:
                self.ended = False
                self.committed = [one for one in self.queued.values() if one is not None]
                self.queued.clear()
        elif kind in (_INJECTED, _NOT_INJECTED):
            one = self._answered("inject")
            if one is not None and kind == _INJECTED:
                self.committed = [one]
        else:
            self._steered(kind, _steer_in(data))
        return self.ended and not self.queued and not self.unanswered

    def _steered(self, kind: bytes, name: str) -> None:
        if kind == _ACCEPTED:
            self.queued[name] = self._answered("steer")
        elif name in self.queued:
            one = self.queued.pop(name)
            if one is not None and kind == _PENDING:
                self.pending.append(one)
        elif kind == _FAILED:
            self._answered("steer")

    def _answered(self, kind: str) -> Addition | None:
        """The first unanswered one of that kind: they are answered in order."""
        found = next((one for one in self.unanswered if one.kind == kind), None)
        if found is not None:
            self.unanswered.remove(found)
        return found


def retargeted(data: bytes, names: Mapping[str, str]) -> bytes:
    """An event about input, with the id of its response replaced; `names` has the ids to show by
    the service's ids."""
    event = split_object(Raw(data)) or {}
    steer = split_object(event.get("steer"))
    about, member = (event, "response_id") if steer is None else (steer, "previous_response_id")
    name = names.get(text_of(about.get(member)))
    if name is None:
        return data
    about[member] = Raw(to_json(name))
    if steer is not None:
        event["steer"] = join_object(steer)
    return bytes(join_object(event))


def _steer_in(data: bytes) -> str:
    """The id of the steering input that an event is about, empty if it has none."""
    try:
        steer = _steer_event(data).steer
    except JsonError:
        return ""
    return steer.id if steer is not None and isinstance(steer.id, str) else ""
