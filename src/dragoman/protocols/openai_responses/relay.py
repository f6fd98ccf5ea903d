"""Pass-through of streams, byte for byte, but for what is shown of the response instead of the
upstream's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct

from dragoman import jsontext
from dragoman.canonical.errors import Fault, UpstreamError
from dragoman.canonical.usage import Usage, summed
from dragoman.jsontext import JsonError, JsonMismatch
from dragoman.protocols.base import NOTHING, to_json
from dragoman.protocols.error_body import is_readable, is_typed, stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.openai_responses.additions import ANSWERS, CREATED, Additions, retargeted
from dragoman.protocols.openai_responses.errors import error_members, failed_in_stream
from dragoman.protocols.openai_responses.passed_response import (
    ABSENT,
    Answer,
    changed_in,
    has_failed,
    reason_in,
    usage_of,
)
from dragoman.protocols.raw import blank_pattern, blank_run, split_object, text_of
from dragoman.sse import Frame, encode

_LIFECYCLE = frozenset(
    {
        b"response.created",
        b"response.queued",
        b"response.in_progress",
        b"response.completed",
        b"response.incomplete",
        b"response.failed",
    }
)
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})

_ARGUMENTS = frozenset(
    {b"response.function_call_arguments.delta", b"response.custom_tool_call_input.delta"}
)
_BLANK = blank_pattern("delta")
"""A piece of a tool call's arguments that is nothing but white space."""

_LOOKED_AT = (
    "usage",
    "error",
    "status",
    "id",
    "service_tier",
    "tool_usage",
    "incomplete_details",
)


class _Lifecycle(Struct):
    """What of a lifecycle event is looked at."""

    type: Any = None
    sequence_number: Any = None
    response: Answer | None = None


class _Opened(Struct, forbid_unknown_fields=True):
    """A lifecycle event that has no other members, opened in one go: it repeats the client's tools,
    which may be long."""

    type: Raw = ABSENT
    sequence_number: Raw = ABSENT
    response: dict[str, Raw] | None = None


class _Typed(Struct):
    """The type of an event, which is also its name."""

    type: str = ""


_typed = jsontext.decoder(_Typed)
_lifecycle = jsontext.decoder(_Lifecycle)
_opened = jsontext.decoder(_Opened)


class ResponsesRelay:
    """Watches one stream. Only lifecycle events and errors are looked into."""

    __slots__ = (
        "_added",
        "_created",
        "_has_calls",
        "_is_untyped",
        "_last",
        "_names",
        "_shown",
        "_spent",
        "answer_id",
        "begun",
        "blank",
        "ended",
        "fault",
        "reason",
        "untold",
        "usage",
    )

    thinks = False  # its thoughts are signed, or have places

    def __init__(
        self,
        model: str | None,
        asked_for_usage: bool,
        shown: Mapping[str, Any] = NOTHING,
        request_id: str = "",
        choices: int = 1,
    ) -> None:
        """`model` is the name to show, None if the upstream's is right, `shown` what else is shown
        instead of the upstream's; whether the client asked for usage does not matter, for it is
        always given."""
        self._shown = shown if model is None else {"model": model, **shown}
        self._created = b""
        """The first response object of the stream: a failure of ours has to repeat it."""
        self._is_untyped: bool | None = None
        """Whether events have their type in their name alone, once that is known."""
        self._last = b""
        self._added: Additions | None = None
        """What was added to the response, once something was accepted."""
        self._has_calls = False
        """Whether arguments of a call came."""
        self._names: dict[str, str] = {}
        """By the upstream's ids, those that the responses are shown by, where these are others."""
        self._spent: Usage | None = None
        """Usage of the responses before the one under way."""
        self.begun = False
        self.blank = 0
        self.answer_id = ""
        self.reason = ""
        self.usage: Usage | None = None
        self.untold = 0
        self.ended = False
        self.fault: Fault | None = None

    def relay(self, frame: Frame) -> bytes:
        """The bytes to pass on."""
        self._last = frame.data
        if not frame.event:
            if not frame.data.strip():
                return b""
            name = _type_of(frame.data)
            frame = Frame(name, frame.data, encode(frame.data, name))
        elif self._is_untyped or (self._is_untyped is None and _type_of(frame.data) != frame.event):
            # Clients read the type that stands in the data.
            self._is_untyped = self._is_untyped or not _type_of(frame.data)
            frame = _with_type(frame)
        if self._is_untyped is None:
            self._is_untyped = False
        if frame.event == b"response.done":
            frame = _named_by_status(frame)
        name = frame.event
        if not is_typed(name.decode(errors="replace")):
            error = stray_error(jsontext.object_of(frame.data) or {})
            if error is not None:
                return self._stray(frame, error)
        if name in _LIFECYCLE:
            return self._lifecycle(frame)
        if name == b"error":
            event = jsontext.object_of(frame.data) or {}
            is_one = event.get("type") == "error" and is_readable(event)
            if not is_one and not is_readable(event.get("error")):
                return self._stray(frame, stray_error(event))
            return frame.raw + self._error(event, frame.data)
        if name in ANSWERS:
            if self._added is None:
                self._added = Additions()
            self.ended = self._added.take(name, frame.data)
            told = retargeted(frame.data, self._names) if self._names else frame.data
            return frame.raw if told is frame.data else encode(told, name)
        if not self.begun:
            self.begun = _has_content(name, frame.data)
        if name in _ARGUMENTS:
            self.blank = blank_run(self.blank, _BLANK, frame.data)
            self._has_calls = True
        elif self.blank:
            self.blank = 0
        return frame.raw

    def _lifecycle(self, frame: Frame) -> bytes:
        raw, data = frame.raw, frame.data
        try:
            data, event = _showing(data, self._shown) if self._shown else (data, _lifecycle(data))
        except JsonError:
            return raw
        if event.response is None:
            return raw
        raw = raw if data is frame.data else encode(data, frame.event)
        name = event.response.id
        if not self._created:
            self._created = data
            self.answer_id = name if isinstance(name, str) else ""
            if "id" in self._shown:
                self._names[self.answer_id] = self._shown["id"]
        elif name != self.answer_id and self.begun and self._added is None:
            # Clients would put the two together.
            return self.fail(UpstreamError.unreadable("a second response begins in it").fault)
        told = usage_of(event.response)
        if told is not None:
            self.usage = told if self._spent is None else summed(self._spent, told)
        if self._added is not None and event.type == "response.created":
            self._added.take(CREATED, data)
        if isinstance(event.type, str) and event.type in _ENDS:
            if event.type != "response.failed" and has_failed(event.response):
                return self.fail(fault_of(event.response.error))
            self.reason = reason_in(event.response, self._has_calls)
            self.ended = self._added is None or self._added.take(event.type.encode(), data)
            self._created, self._has_calls = b"", False
            if not self.ended:
                # What follows goes on from this response, and not from what it went on from.
                self._spent = self.usage
                self.untold += told is None
                self._shown = _of_next(self._shown, len(self._names))
            if event.type == "response.failed":
                self.fault = fault_of(event.response.error)
        return raw

    def _stray(self, frame: Frame, error: Any) -> bytes:
        """An error in a form that clients cannot read, written anew."""
        event = jsontext.object_of(frame.data) or {}
        if not frame.event and is_readable(event.get("error")):
            return encode(frame.data, b"error") + self._error(event, frame.data)
        self.ended = True
        return self.fail(fault_of(error))

    def _error(self, event: JsonObject, data: bytes) -> bytes:
        """An error event ends the stream; the failed response that belongs after it is written
        here, since not every server sends one."""
        self.ended = True
        self.fault = fault_of(event.get("error") or event)
        return self._failed(self.fault, _number(data) + 1)

    def finish(self) -> bytes:
        """The bytes are over: nothing, or a failure if the upstream's terminator is missing."""
        if self.ended or (self._added is not None and self._added.ended):
            self.ended = True
            return b""
        return self.fail(UpstreamError.unreadable("its stream ends before the answer does").fault)

    def fail(self, fault: Fault) -> bytes:
        """An error event and the failed response, numbered on from the last event."""
        self.fault = fault
        number = _number(self._last) + 1
        event = {"type": "error", "sequence_number": number, **error_members(fault)}
        return encode(to_json(event), b"error") + self._failed(fault, number + 1)

    def _failed(self, fault: Fault, number: int) -> bytes:
        """The failed response: the one that was begun, with the fault in it."""
        if not self._created:
            return b""
        try:
            response = jsontext.members(bytes(jsontext.members(self._created)["response"]))
        except JsonError:
            return b""
        response["status"] = Raw(b'"failed"')
        response["error"] = Raw(to_json(failed_in_stream(fault)))
        members = {
            "type": Raw(b'"response.failed"'),
            "sequence_number": Raw(b"%d" % number),
            "response": Raw(to_json(response)),
        }
        return encode(to_json(members), b"response.failed")


def _of_next(shown: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What is shown of the response that follows one by itself: where that has an id of ours, this
    has one as well, which is made of it; it is the one of that `number` in its stream."""
    of_next = {name: value for name, value in shown.items() if name != "previous_response_id"}
    if "id" in shown:
        first = shown["id"] if number == 1 else shown["id"][:-_NUMBER]
        of_next["id"] = f"{first}{number:0{_NUMBER}x}"
        of_next["previous_response_id"] = shown["id"]
    return of_next


_NUMBER = 4
"""Hexadecimal digits of the number of a response in its stream."""

_TEXT_ITEMS = frozenset({"message", "reasoning"})
_TEXT_PARTS = frozenset({"output_text", "refusal", "summary_text", "reasoning_text"})


def _has_content(name: bytes, data: bytes) -> bool:
    """Whether an event that is none of a lifecycle holds something of an answer: anything but a
    message, reasoning or text that is still empty."""
    if not name.startswith(b"response."):
        return False  # a sign of life, or what servers tell besides
    try:
        event = jsontext.decode(data)
    except JsonError:
        return False
    if not isinstance(event, dict):
        return False
    if "delta" in event:
        return bool(event["delta"])
    held = event.get("item", event.get("part"))
    if isinstance(held, dict):
        kind = str(held.get("type"))
        if kind in _TEXT_ITEMS:
            lists = (held.get("content"), held.get("summary"))
            parts = [part for parts in lists if isinstance(parts, list) for part in parts]
            return bool(held.get("encrypted_content")) or any(map(_is_filled, parts))
        return kind not in _TEXT_PARTS or _is_filled(held)
    if name.endswith((b"text.done", b"refusal.done")):
        return _is_filled(event)
    return True


def _is_filled(part: Any) -> bool:
    """Whether a part of a text has any."""
    return isinstance(part, dict) and bool(part.get("text") or part.get("refusal"))


def _type_of(data: bytes) -> bytes:
    """The name of an event whose server left it out."""
    try:
        return _typed(data).type.encode()
    except JsonError:
        return b""


def _with_type(frame: Frame) -> Frame:
    """An event that has its type in its name alone as others are."""
    try:
        members = jsontext.members(frame.data)
    except JsonError:
        return frame
    if not frame.event or "type" in members:
        return frame
    data = to_json({"type": frame.event.decode(errors="replace"), **members})
    return Frame(frame.event, data, encode(data, frame.event))


def _named_by_status(frame: Frame) -> Frame:
    """A `response.done`, as the Realtime API calls any end, under the name that clients know."""
    try:
        members = jsontext.members(frame.data)
        status = text_of((split_object(members.get("response")) or {}).get("status"))
    except JsonError:
        return frame
    name = f"response.{status}"
    name = name if name in _ENDS else "response.completed"
    data = to_json({**members, "type": name})
    return Frame(name.encode(), data, encode(data, name.encode()))


def _number(data: bytes) -> int:
    """The sequence number of an event, -1 if it has none."""
    try:
        number = _lifecycle(data).sequence_number
    except JsonError:
        return -1
    return number if type(number) is int else -1


def _members(data: bytes) -> tuple[dict[str, Raw], dict[str, Raw] | None]:
    """The members of a lifecycle event, its response's place kept by an empty one, and those of its
    response object.

    Raises:
        JsonMismatch: it is not written as services write it.
        JsonError: it is none.
    """
    if not data.startswith(b'{"type"'):
        raise JsonMismatch("it does not begin with its type")
    event = _opened(data)
    number = {"sequence_number": event.sequence_number} if event.sequence_number else {}
    response = {"response": ABSENT}
    ordered = number | response if data.endswith(b"}}") else response | number
    return {"type": event.type} | ordered, event.response


_COMPACT = re.compile(
    rb'\{"type":"[a-z._]+",(?:"sequence_number":[0-9]+,)?"response":\{"[a-z_]+":[^ \t]'
)
"""Finds how an event begins that was written without white space between its tokens."""


def _replaced(data: bytes, response: Mapping[str, Raw], changed: Mapping[str, Raw]) -> bytes:
    """A lifecycle event with other values of members of its response object, put in place of those
    there are: what it repeats of the client's tools is then not written anew. Empty if it cannot
    be told where they are."""
    if _COMPACT.match(data) is None:
        return b""
    for name, raw in changed.items():
        before = b'"%b":%b' % (name.encode(), response[name])
        # In a text its quotes would be escaped.
        if data.count(before) != 1:
            return b""
        data = data.replace(before, b'"%b":%b' % (name.encode(), raw))
    return data


def _showing(data: bytes, shown: Mapping[str, Any]) -> tuple[bytes, _Lifecycle]:
    """A lifecycle event with other values of members of its response object, the same bytes if none
    differs; and what of it is looked at.

    Raises:
        JsonError: it is none.
    """
    try:
        members, response = _members(data)
    except JsonMismatch:
        members = jsontext.members(data)
        response = split_object(members.get("response"))
    if response is None:
        return data, _Lifecycle()
    seen = {name: jsontext.strict(response[name]) for name in _LOOKED_AT if name in response}
    kind = text_of(members.get("type"))
    changed = changed_in(response, shown)
    if changed:
        data = _replaced(data, response, changed) or to_json(
            {**members, "response": Raw(to_json({**response, **changed}))}
        )
    return data, _Lifecycle(kind, response=Answer(**seen))
