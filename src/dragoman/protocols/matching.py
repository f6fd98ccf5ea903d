"""What the matchers of all protocols share.

A matcher follows a stream that is passed through. As long as an event is exactly what the protocol
allows, its bytes go on untouched, and the matcher records what a reader would have to know of it:
texts without what stands around their pieces, other events as they came. The first event that is
not exact ends the matching; what was recorded is read then, and reader and writer go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Raw

from dragoman.canonical.errors import Fault
from dragoman.canonical.escapes import open_escape, whole_escapes
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError, decoder
from dragoman.protocols.base import to_json
from dragoman.sse import Frame

Read: TypeAlias = Callable[[Frame], object]
"""Gives a frame to the reader that takes over."""


class Run:
    """A text that came in pieces: the JSON around each piece, and the text in JSON's escapes."""

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
    """The arguments of a call, which are JSON in a text. `open` is an escape at their end that may
    not be all of it."""

    __slots__ = ("open",)

    def __init__(self, head: bytes, tail: bytes) -> None:
        super().__init__(head, tail)
        self.open = ""

    def allows(self, piece: str, *, is_undoable: bool = False) -> bool:
        """Whether they may go on with a piece: a null stands for none, and halves of characters are
        mended. `is_undoable`: the piece before it could be taken back, as `grow` has it."""
        if is_undoable and self.text and not self.open:
            return False
        if not self.text and piece.lstrip().startswith("n"):
            return False
        text = self.open + piece
        end = open_escape(text)
        return whole_escapes(text[:end]) == text[:end] and not (is_undoable and end < len(text))

    def grow(self, piece: str) -> Callable[[], None] | None:
        """Add a piece that is allowed. Returns what takes it back if it waits for what follows: a
        `{}`, which may stand in the place of other arguments, or a part of an escape."""
        before, was_open = len(self.text), self.open
        text = was_open + piece
        self.open = text[open_escape(text) :]
        self.add(piece)

        def undo() -> None:
            del self.text[before:]
            self.open = was_open

        return undo if self.open or (not before and piece.strip() == "{}") else None


class Likeness:
    """Recognises events that differ from an earlier one in nothing but their text, which has no
    escapes that need a look."""

    __slots__ = ("after", "before", "left")

    def __init__(self) -> None:
        self.before = self.after = b""
        self.left = _MOST_UNLIKE
        """How many more events are compared with: in some streams no two are alike."""

    def text_in(self, data: bytes) -> bytes | None:
        """The text of such an event, as it is written; None of any other."""
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
        return data[start:end]

    def learn(self, data: bytes, member: bytes, text: str) -> None:
        """An exact event has `text` in `member`, and nothing else that its successors would not
        have."""
        if not self.left:
            return
        self.left -= 1
        sign = b'"%b":"' % member
        start = data.find(sign) + len(sign)
        end = data.find(b'"', start)
        is_found = start >= len(sign) and end >= 0 and data[start:end] == text.encode()
        self.before, self.after = (data[:start], data[end:]) if is_found else (b"", b"")

    def forget(self) -> None:
        """The next events may mean something else."""
        self.before = b""


_MOST_UNLIKE = 8


class Watch:
    """What is known of a stream that is passed through; see `base.Matcher`."""

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
        """False: thoughts are signed, or have places."""
        return False


def blank_after(before: int, piece: str | bytes) -> int:
    """The characters of white space with which arguments go on, after a further piece. A piece in
    JSON's escapes has two bytes for a line feed, which makes no difference to a limit."""
    if not piece:
        return before
    if isinstance(piece, bytes):
        return before + len(piece) if not piece.strip(b" \\nrt") else 0
    return before + len(piece) if piece.isspace() else 0


def has_lone_escape(arguments: str) -> bool:
    """Whether whole arguments have the escape of half of a character without its other half."""
    return whole_escapes(arguments) != arguments


def is_object(text: str) -> bool:
    """Whether the arguments of a call are one JSON object."""
    try:
        _object(text)
    except JsonError:
        return False
    return True


_object = decoder(dict[str, Raw])
_text = decoder(str)
