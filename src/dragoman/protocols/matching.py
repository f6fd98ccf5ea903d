"""The common parts of all protocols' matchers.

A matcher checks a stream that is passed through. As long as events conform exactly to the protocol,
their bytes pass unchanged, and the matcher records them for a reader: texts without the JSON around
their pieces, other events as received. The first event that is not exact ends the matching; then
the record is read, and reader and writer take over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Raw

from dragoman.canonical.errors import Fault
from dragoman.canonical.escapes import open_escape, whole_escapes
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError, decoder, members
from dragoman.protocols.base import to_json
from dragoman.sse import Frame

Read: TypeAlias = Callable[[Frame], object]
"""A function that feeds a frame to the reader that takes over."""


class Run:
    """A text received in pieces: the JSON around each piece, and the text with JSON escapes."""

    __slots__ = ("head", "tail", "text")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head, self.tail = head, tail
        self.text = bytearray()

    def add(self, text: str) -> None:
        """Add a decoded piece."""
        self.text += to_json(text)[1:-1]

    def value(self) -> str:
        """All of the text."""
        return _text(b'"%b"' % bytes(self.text))

    def frame(self, event: bytes = b"") -> Frame:
        """The text as one event."""
        return Frame(event, b"%b%b%b" % (self.head, bytes(self.text), self.tail), b"")


class Arguments(Run):
    """The arguments of a call, which are JSON in a text. `open` is a possibly incomplete escape at
    their end."""

    __slots__ = ("open",)

    def __init__(self, head: bytes, tail: bytes) -> None:
        super().__init__(head, tail)
        self.open = ""

    def allows(self, piece: str, *, is_undoable: bool = False) -> bool:
        """Whether a piece may follow: `null` means no arguments, and lone surrogates have to be
        repaired, so neither is exact. `is_undoable`: the piece before can be undone, see `grow`."""
        if is_undoable and self.text and not self.open:
            return False
        if not self.text and piece.lstrip().startswith("n"):
            return False
        text = self.open + piece
        end = open_escape(text)
        return whole_escapes(text[:end]) == text[:end] and not (is_undoable and end < len(text))

    def grow(self, piece: str) -> Callable[[], None] | None:
        """Add an allowed piece. Returns a function that undoes it if its meaning depends on the
        next one: a `{}`, which may be a placeholder for other arguments, or a part of an escape."""
        before, was_open = len(self.text), self.open
        text = was_open + piece
        self.open = text[open_escape(text) :]
        self.add(piece)

        def undo() -> None:
            del self.text[before:]
            self.open = was_open

        return undo if self.open or (not before and piece.strip() == "{}") else None


class Likeness:
    """A fast test for events that differ from an earlier one only in their text, without escapes
    that need decoding."""

    __slots__ = ("after", "before", "left")

    def __init__(self) -> None:
        self.before = self.after = b""
        self.left = _MOST_UNLIKE
        """Remaining attempts to learn from an event: in some streams no two are alike."""

    def text_in(self, data: bytes) -> bytes | None:
        """The encoded text of such an event; None for any other."""
        before, after = self.before, self.after
        if not before or not data.startswith(before) or not data.endswith(after):
            return None
        start, end = len(before), len(data) - len(after)
        if end < start or data.find(b'"', start, end) >= 0:
            return None
        if data.find(b"\\", start, end) >= 0 and (
            data.find(b"\\u", start, end) >= 0 or data.endswith(b"\\", start, end)
        ):
            return None
        try:
            _text(data[start - 1 : end + 1])
        except JsonError:
            return None
        return data[start:end]

    def learn(self, data: bytes, member: bytes, text: str) -> None:
        """Learn from an exact event that has `text` in `member`, and nothing else specific to
        it."""
        if not self.left:
            return
        self.left -= 1
        sign = b'"%b":"' % member
        start = data.find(sign) + len(sign)
        end = data.find(b'"', start)
        is_found = start >= len(sign) and end >= 0 and data[start:end] == text.encode()
        self.before, self.after = (data[:start], data[end:]) if is_found else (b"", b"")

    def forget(self) -> None:
        """Forget the event, as the next ones may have another meaning."""
        self.before = b""


_MOST_UNLIKE = 8


class Watch:
    """The state of a stream that is passed through; see `base.Matcher`."""

    __slots__ = (
        "answer_id",
        "begun",
        "blank",
        "ended",
        "fault",
        "reason",
        "text_bytes",
        "undo",
        "unreported",
        "usage",
    )

    def __init__(self) -> None:
        self.answer_id = ""
        self.begun = False
        self.blank = 0
        self.ended = False
        self.fault: Fault | None = None
        self.reason = ""
        self.text_bytes = 0
        self.undo: Callable[[], object] | None = None
        self.unreported = 0
        self.usage: Usage | None = None

    @property
    def thinks(self) -> bool:
        """False: reasoning is signed, or in blocks of its own."""
        return False


def blank_after(before: int, piece: str | bytes) -> int:
    """The length of the current run of white space in arguments, after a further piece. A piece in
    JSON's escapes has two bytes for a line feed, which makes no difference to a limit."""
    if not piece:
        return before
    if isinstance(piece, bytes):
        return before + len(piece) if not piece.strip(b" \\nrt") else 0
    return before + len(piece) if piece.isspace() else 0


def has_lone_escape(arguments: str) -> bool:
    """Whether complete arguments have the escape of a lone surrogate."""
    return whole_escapes(arguments) != arguments


MODEL: Final = re.compile(rb'("model"\s*:\s*)("(?:[^"\\]|\\.)*")')
"""The model name in an answer or a chunk. Quotes in texts are escaped, so it matches no content."""


def renamed(body: bytes, model: str) -> bytes:
    """A whole answer with another model name, where it can be with all other bytes as they are."""
    found = MODEL.search(body)
    if (
        found is None
        # The match may be inside another member, or of a name that comes again.
        or body.find(b"{", body.find(b"{") + 1, found.start()) >= 0
        or body.find(b'"model"', found.end()) >= 0
    ):
        return to_json({**members(body), "model": model})
    return body[: found.start(2)] + to_json(model) + body[found.end() :]


def is_object(text: str) -> bool:
    """Whether the arguments of a call are one JSON object."""
    try:
        _object(text)
    except JsonError:
        return False
    return True


_object = decoder(dict[str, Raw])
_text = decoder(str)
