"""The common parts of all protocols' matchers.

A matcher checks a stream that is passed through. As long as events conform exactly to the protocol,
their bytes pass unchanged, and the matcher records them for a reader: texts without the JSON around
their pieces, other events as received. The first event that is not exact ends the matching; then
the record is read, and reader and writer take over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.canonical.errors import Fault
from dragoman.canonical.escapes import open_escape, whole_escapes
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError, decoder, members
from dragoman.protocols.base import to_json
from dragoman.protocols.reading import REFUSED
from dragoman.sse import Frame, escape

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
        return Frame(event, b"%b%b%b" % (self.head, bytes(self.text), self.tail))


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


class Likeness(Struct, frozen=True):
    """What an event is like that differs from an earlier one only in its text: its name, and its
    data `before` and `after` the text, which is the next of a `run`. `head` is what is passed on
    before the text. If it is `padded`, what follows is random padding, and the end."""

    event: bytes
    before: bytes
    after: bytes
    around: int
    """The length of these two."""
    padded: bool
    run: Run
    head: bytes


_MOST_UNLIKE = 8
_PADDING = b'"obfuscation":"'
"""What comes before the padding with which OpenAI hides the lengths of texts."""


class Watch:
    """The state of a stream that is passed through; see `base.Matcher`."""

    __slots__ = (
        "_left",
        "_like",
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
        self._like: Likeness | None = None
        self._left = _MOST_UNLIKE
        """Remaining attempts to learn from an event: in some streams no two are alike."""
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

    def more(self, frame: Frame) -> bytes | None:
        """See `base.Matcher`. A text with escapes that need decoding is not passed here."""
        like, data = self._like, frame.data
        if like is None or frame.event != like.event:
            return None
        text, after, rest = data.removeprefix(like.before).partition(like.after)
        size = len(text)
        if size + len(rest) + like.around != len(data):
            return None
        if rest and not (like.padded and rest.endswith(b'"}') and rest[:-2].isalnum()):
            return None
        try:
            decoded = _decode_text(b'"' + text + b'"')
        except REFUSED:
            return None
        # Else it has no escapes.
        if len(decoded) != size and (text.find(b"\\u") >= 0 or text.endswith(b"\\")):
            return None
        run = like.run
        run.text += text
        self.text_bytes += size
        if type(run) is Arguments:
            self.blank = blank_after(self.blank, text)
        return like.head + (text if text.isascii() else escape(text)) + after + rest + b"\n\n"

    def learn(self, frame: Frame, passed: bytes, member: bytes, text: str, run: Run) -> None:
        """Learn from an exact event that has `text`, the last of a run, in `member`, and nothing
        else specific to it; `passed` are the bytes passed on."""
        if not self._left:
            return
        self._left -= 1
        before, sign, rest = frame.data.partition(b'"%b":"' % member)
        after = rest.removeprefix(text.encode())
        if after.startswith(b'"') and after != rest and passed.endswith(rest + b"\n\n"):
            before += sign
            after, padding, _ = after.partition(_PADDING)
            after += padding
            around, head = len(before) + len(after), passed[: -len(rest) - 2]
            self._like = Likeness(frame.event, before, after, around, bool(padding), run, head)

    def forget(self) -> None:
        """See `base.Matcher`."""
        self._like = None

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
    start, end = (0, 0) if found is None else found.span(2)
    # The match may be inside another member, or of a name that comes again.
    if not start or body.find(b"{", 1, start) >= 0 or body.find(b'"model"', end) >= 0:
        return to_json({**members(body), "model": model})
    return body[:start] + to_json(model) + body[end:]


def is_object(text: str) -> bool:
    """Whether the arguments of a call are one JSON object."""
    try:
        _object(text)
    except JsonError:
        return False
    return True


_object = decoder(dict[str, Raw])
_text = decoder(str)
_decode_text = msgspec.json.Decoder(str).decode
