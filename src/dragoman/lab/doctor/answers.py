"""An answer as it was received: bytes, times and the events in them.

Reads streams without forgiving anything: oddities of the framing are recorded as problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

DONE = "[DONE]"
_SEPARATORS = "\u2028\u2029\u0085"


class Answer(Struct, frozen=True):
    """One answer. `pieces` are (seconds since the request went out, bytes), as they came in;
    `failure` is why the body is not whole. `status` is 0 if there was no answer at all."""

    status: int
    headers: Mapping[str, str]
    pieces: tuple[tuple[float, bytes], ...] = ()
    failure: str = ""

    @property
    def body(self) -> bytes:
        """All bytes received."""
        return b"".join(piece for _, piece in self.pieces)

    @property
    def json(self) -> Any:
        """The decoded body, None if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def description(self) -> str:
        """The answer in a few words, for a person: its status and its error."""
        if not self.status:
            return self.failure
        message = error_message(self.json)
        return f"status {self.status}{f': {message}' if message else ''}"[:300]


def error_message(body: Any) -> str:
    """The message of an error body in any of the protocols' shapes; empty if there is none."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


class Event(Struct, frozen=True):
    """One event: the name of its `event:` line, its data decoded (`[DONE]` as text)."""

    name: str
    data: Any

    @property
    def type(self) -> str:
        """The `type` inside the data."""
        kind = self.data.get("type") if isinstance(self.data, dict) else None
        return kind if isinstance(kind, str) else ""


class Stream(Struct, frozen=True):
    """The events of a stream, and the problems of its framing by the names of checks."""

    events: tuple[Event, ...]
    problems: Mapping[str, str]

    @property
    def data(self) -> list[dict[str, Any]]:
        """The events that are JSON objects."""
        return [event.data for event in self.events if isinstance(event.data, dict)]


def read_stream(body: bytes) -> Stream:
    """Cut a body into events, noting every oddity once, with how often it occurs first."""
    problems: dict[str, str] = {}
    text = body.decode("utf-8", errors="replace")
    if "\r" in text:
        problems.setdefault("lines", "lines end in CR")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith("\ufeff"):
        problems.setdefault("lines", "the stream begins with a byte-order mark")
        text = text[1:]
    for separator in _SEPARATORS:
        if separator in text:
            problems.setdefault("separators", f"U+{ord(separator):04X} stands in it as it is")
    if text and not text.endswith("\n\n"):
        problems.setdefault("blank_lines", "the last event has none")
    events: list[Event] = []
    for block in text.split("\n\n"):
        events += _events(block.strip("\n").split("\n"), problems)
    return Stream(tuple(events), problems)


def _events(lines: Iterable[str], problems: dict[str, str]) -> list[Event]:
    """The event of a block; more than one where the blank lines between them are missing."""
    name = ""
    data: list[str] = []
    for line in lines:
        field, colon, value = line.partition(":")
        if not line or not field:
            continue
        if not colon or field not in ("event", "data"):
            problems.setdefault("lines", f"a line begins with {field[:20]!r}")
            continue
        if not value.startswith(" ") or value.startswith("  "):
            problems.setdefault("lines", f"`{field}:` is not followed by one space")
        if field == "event":
            name = value.strip()
        else:
            data.append(value.removeprefix(" "))
    if len(data) > 1:
        decoded = [_decode(one) for one in data]
        if all(one is not None for one in decoded):
            problems.setdefault("blank_lines", f"{len(data)} events run together")
            return [Event(name, one) for one in decoded]
        problems.setdefault("json", "an event's data is spread over several lines")
        data = ["\n".join(data)]
    return [_event(name, one, problems) for one in data]


def _event(name: str, data: str, problems: dict[str, str]) -> Event:
    value = _decode(data)
    if value is None:
        problems.setdefault("json", "an event's data is not JSON")
    return Event(name, value)


def _decode(data: str) -> Any:
    if data.strip() == DONE:
        return DONE
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
