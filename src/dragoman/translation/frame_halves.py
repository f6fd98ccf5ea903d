"""Halves of characters in the events of a stream that is passed through."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from dragoman import jsontext
from dragoman.canonical.escapes import open_escape, whole_escapes
from dragoman.canonical.halves import MENDED
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.jsontext import JsonError
from dragoman.protocols.base import PIECES, to_json
from dragoman.sse import Frame, encode

_MOST = 64
"""Events that wait, at most."""

_ENDS = ("_stop", "message_delta", ".done", ".completed", ".incomplete", ".failed", "error")
"""How the types of events end after which no text goes on that waits."""

_SIGNS = re.compile(rb'\\u[dD][89a-fA-F]|\\\\(?:u(?:[dD](?:[89abAB][0-9a-fA-F]?)?)?)?"')
"""An escape of half of a character, or what may be the beginning of one in a text of JSON."""

_ESCAPED = re.compile(rb"\\\\u[dD][89a-fA-F]")
"""A half that is escaped in a text of JSON."""

_JSON = frozenset({"arguments", "partial_json"})
"""Members whose text is JSON, in which halves may be escaped."""


class _Event(Struct, eq=False):
    """An event that waits."""

    frame: Frame
    value: Any
    changed: bool


class _Piece(Struct, eq=False):
    """A text in an event, and the object that it is a member of."""

    event: _Event
    holder: dict[str, Any]
    name: str
    is_json: bool

    @property
    def text(self) -> str:
        return str(self.holder[self.name])

    def put(self, text: str) -> None:
        """Replace the text."""
        if text != self.holder[self.name]:
            self.holder[self.name] = text
            self.event.changed = True

    def kept(self) -> int:
        """How much of the text does not wait for what follows it."""
        text = self.text
        if text and "\ud800" <= text[-1] <= "\udbff":
            return len(text) - 1
        return open_escape(text) if self.is_json else len(text)


class FrameHalves:
    """Joins halves of characters where a text goes on in a later event; others become U+FFFD and
    are reported.

    An event whose text ends with a first half waits for more of that text, and all that follows
    waits with it.
    """

    __slots__ = ("_held", "_ledger", "_open", "waits")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: list[_Event] = []
        self._open: dict[tuple[Any, ...], _Piece] = {}
        """The texts that wait, by where they belong."""
        self.waits = False
        """Whether any event waits."""

    def concerns(self, frame: Frame) -> bool:
        """Whether `push` may change anything."""
        return self.waits or _SIGNS.search(frame.data) is not None

    def push(self, frame: Frame) -> list[Frame]:
        """Take one event; return those that can be passed on."""
        value, changed = self._decoded(frame.data)
        event = _Event(frame, value, changed)
        self._held.append(event)
        for place, piece in _pieces(event, value):
            before = self._open.pop(place, None)
            if before is not None:
                # What waits begins the piece that it goes on in.
                kept = before.kept()
                piece.put(before.text[kept:] + piece.text)
                before.put(before.text[:kept])
            if piece.kept() < len(piece.text):
                self._open[place] = piece
        if value is None or _is_end(value) or len(self._held) > _MOST:
            self._open.clear()
        return self._released()

    def flush(self) -> list[Frame]:
        """The events that wait."""
        if not self.waits:
            return []
        self._open.clear()
        return self._released()

    def _released(self) -> list[Frame]:
        """The events before the first that still waits."""
        waiting = {id(piece.event) for piece in self._open.values()}
        released = []
        while self._held and id(self._held[0]) not in waiting:
            event = self._held.pop(0)
            self._mend(event)
            frame = event.frame
            if event.changed:
                data = to_json(event.value)
                frame = Frame(frame.event, data, encode(data, frame.event))
            released.append(frame)
        self.waits = bool(self._held)
        return released

    def _decoded(self, data: bytes) -> tuple[Any, bool]:
        """The value of an event, and whether it has to be written anew; None of what is no JSON."""
        try:
            return jsontext.strict(data), False
        except JsonError:
            pass
        try:
            value, was_mended = jsontext.decode_mended(data, PIECES)
        except JsonError:
            return None, False
        if was_mended:
            self._report()
        return value, was_mended

    def _mend(self, event: _Event) -> None:
        """Mend the texts of an event."""
        for _, piece in _pieces(event, event.value):
            text = _mended(piece.text, piece.is_json)
            if _marks(text) != _marks(piece.text):
                self._report()
            piece.put(text)

    def _report(self) -> None:
        self._ledger.add("text", LossKind.REPAIRED, MENDED)


def mended_answer(body: bytes, ledger: Ledger) -> bytes:
    """A whole answer that is passed through, with whole characters only."""
    if body.find(b"\\") < 0:
        return body
    if _ESCAPED.search(body) is None and not jsontext.has_halves(body):
        return body
    halves = FrameHalves(ledger)
    frames = halves.push(Frame(b"", body, body)) + halves.flush()
    return frames[0].data


def _mended(text: str, is_json: bool) -> str:
    if not text.isascii():
        text = jsontext.mended(text)
    return whole_escapes(text) if is_json else text


def _marks(text: str) -> int:
    """How many characters of a text say that one is missing."""
    return text.count("\ufffd") + text.count("\\ufffd")


def _is_end(value: Any) -> bool:
    """Whether the texts that wait are over with an event."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind.endswith(_ENDS)


_INDEXES = ("index", "output_index", "content_index", "summary_index")
_HOLDERS = frozenset({"delta", "content_block", "message"})
"""Members that hold pieces of the same texts."""


def _pieces(
    event: _Event, value: Any, place: tuple[Any, ...] = (), kind: Any = ""
) -> Iterator[tuple[tuple[Any, ...], _Piece]]:
    """The texts of an event that pieces of an answer are, but for empty ones, each with what tells
    where it belongs. `kind` is the type of the event."""
    if isinstance(value, dict):
        kind = kind or value.get("type") or "event"
        numbers = [value[name] for name in _INDEXES if type(value.get(name)) is int]
        here = (*place, *numbers)
        for name, inner in value.items():
            if isinstance(inner, str):
                if name in PIECES and inner:
                    is_json = name in _JSON or (name == "delta" and "arguments" in str(kind))
                    yield (*here, name), _Piece(event, value, name, is_json)
            elif isinstance(inner, dict | list):
                there = here if name in _HOLDERS else (*here, name)
                yield from _pieces(event, inner, there, kind)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            is_numbered = isinstance(inner, dict) and type(inner.get("index")) is int
            yield from _pieces(event, inner, place if is_numbered else (*place, number), kind)
