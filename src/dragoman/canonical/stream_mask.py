"""Masking of secrets in a stream of events, also where a secret is split over several."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from dragoman.canonical.masking import HIDDEN, Mask
from dragoman.canonical.secrets import LET_THROUGH, Secrets

_MOST_WAITING = 64
"""Events that may wait for the rest of a secret, besides `_OF_A_PIECE` for each piece."""

_OF_A_PIECE = 8
"""A secret may come byte by byte with events between that have no part of it: six for an escaped
character of a call's arguments."""

_LARGEST = 64 * 1024
"""Bytes of the largest event in which the pieces of a text are looked for."""

_DEEPEST = 32
"""Objects within each other that are looked into."""

_Words: TypeAlias = tuple[bytes, ...]
_Numbers: TypeAlias = tuple[tuple[bytes, bytes], ...]


class _Text(NamedTuple):
    """A text of which an event has a piece: the types of the event and of the objects in it on
    the way to the piece, the names of the members on that way, and the indexes in those objects, by
    their names."""

    types: _Words
    path: _Words
    indexes: _Numbers


class _Waiting:
    """An event that waits, and its masked spans: start, end and replacement."""

    __slots__ = ("changes", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.changes: list[tuple[int, int, bytes]] = []

    def written(self) -> bytes:
        """The event with its spans masked."""
        pieces: list[bytes] = []
        at = 0
        for start, end, instead in sorted(self.changes):
            pieces += (self.data[at:start], instead)
            at = end
        return b"".join([*pieces, self.data[at:]])


class _Piece(NamedTuple):
    """A piece of a text: its event and the span in it."""

    event: _Waiting
    start: int
    end: int


class _Begun(NamedTuple):
    """The end of a text that may be the beginning of a secret. `fresh`: nothing else of the text is
    known, and its last characters before may have been let through."""

    pieces: list[_Piece]
    fresh: bool


class StreamMask:
    """Hides the secrets of an account in the bytes of a stream.

    An event in which a text ends with the beginning of a secret waits for what that text goes on
    with, and all events after it wait too. That nothing of a secret is in an event is nearly always
    found by one search.
    """

    __slots__ = ("_begun", "_ended", "_mask", "_sign", "_waiting")

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._sign = mask.secrets.sign
        self._waiting: list[_Waiting] = []
        self._begun: dict[_Text, _Begun] = {}
        self._ended: dict[tuple[_Words, _Words], _Begun] = {}
        """Ends of texts that are over, by their kinds and paths: clients show the next text of such
        a kind behind it."""

    @property
    def waits(self) -> bool:
        """Whether events wait."""
        return bool(self._waiting)

    def push(self, data: bytes) -> bytes:
        """Take whole events; return those that may go on."""
        if not self._waiting and (
            # `in` takes twice as long: it fails first to take the character for a number.
            (self._sign(data) is None and data.find(b"%") < 0 and data.find(b"\\") < 0)
            or not self._doubtful(data)
        ):
            return data
        events = data.split(b"\n\n")
        return b"".join([self._take(event + b"\n\n") for event in events if event])

    def _doubtful(self, data: bytes) -> bool:
        """Whether there may be anything of a secret in events before which there was nothing."""
        marked = b"%" in data or b"\\\\" in data or b"\\u00" in data
        return (marked or self._sign(data) is not None) and self._mask.secrets.may_begin(data)

    def flush(self) -> bytes:
        """The events that wait, for what they wait for does not come."""
        self._forget()
        return self._released()

    def _forget(self) -> None:
        self._begun.clear()
        self._ended.clear()

    def _take(self, event: bytes) -> bytes:
        event = self._mask.secrets_in(event)
        secrets = self._mask.secrets
        if not self._waiting and not secrets.may_begin(event):
            return event
        queued = _Waiting(event)
        self._waiting.append(queued)
        if len(event) <= _LARGEST:
            texts, over = _texts(event)
            for text, start, end in texts:
                self._read(secrets, text, _Piece(queued, start, end))
            if over is not None:
                self._end(over)
        waiting = (*self._begun.values(), *self._ended.values())
        pieces = max((len(begun.pieces) for begun in waiting), default=0)
        if len(self._waiting) > _MOST_WAITING + _OF_A_PIECE * pieces:
            self._forget()
        return self._released()

    def _read(self, secrets: Secrets, text: _Text, piece: _Piece) -> None:
        """Read a piece of a text, with what the text may have begun before."""
        begun = self._begun.pop(text, None) or self._ended.pop(text[:2], None)
        pieces, fresh = (begun.pieces, begun.fresh) if begun is not None else ([], True)
        pieces = [*pieces, piece]
        joined = b"".join([one.event.data[one.start : one.end] for one in pieces])
        while (found := secrets.find(joined, fresh=fresh)) is not None:
            start, end = found
            instead = HIDDEN.encode()
            for queued, first, last in _between(pieces, start, end):
                queued.changes.append((first, last, instead))
                instead = b""
            pieces = _between(pieces, end, len(joined))
            joined, fresh = joined[end:], False
        cut = secrets.cut_at(joined, fresh=fresh)
        if cut < len(joined):
            rest = _between(pieces, cut, len(joined))
            self._begun[text] = _Begun(rest, fresh and cut == 0)

    def _end(self, over: _Numbers) -> None:
        """The texts of what has these indexes are over."""
        for text in [text for text in self._begun if set(over) <= set(text.indexes)]:
            begun = self._begun.pop(text)
            if sum(piece.end - piece.start for piece in begun.pieces) > LET_THROUGH:
                self._ended[text[:2]] = begun

    def _released(self) -> bytes:
        """The events before the first one that a secret may begin in."""
        waiting = (*self._begun.values(), *self._ended.values())
        needed = {id(piece.event) for begun in waiting for piece in begun.pieces}
        queue = self._waiting
        count = next((at for at, one in enumerate(queue) if id(one) in needed), len(queue))
        released = b"".join([one.written() for one in queue[:count]])
        del queue[:count]
        return released


def _between(pieces: list[_Piece], start: int, end: int) -> list[_Piece]:
    """The part from `start` to `end` of the text that the pieces make."""
    found, at = [], 0
    for event, first, last in pieces:
        here = first + max(0, start - at), first + min(last - first, end - at)
        if here[0] < here[1]:
            found.append(_Piece(event, *here))
        at += last - first
    return found


_Marks: TypeAlias = tuple[list[bytes], list[tuple[bytes, bytes]]]
"""The type of an object, and the indexes in it."""

_TOKEN = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*:)?|[{}]|-?\d+')


def _texts(event: bytes) -> tuple[list[tuple[_Text, int, int]], _Numbers | None]:
    """The texts in an event that are not empty, with where each stands; and, if the event ends
    something, its indexes."""
    path: list[bytes] = []
    """The names that lead to the object that is read, and the name of the member."""
    within: list[_Marks] = []
    """The marks of that object, and of those it is within."""
    found: list[tuple[_Words, list[_Marks], int, int]] = []
    whole: _Marks = ([], [])
    for token in _TOKEN.finditer(event, max(0, event.find(b"{"))):
        text, names = token.groups()
        if text is None:
            mark = token[0]
            if mark == b"{":
                if len(within) == _DEEPEST:
                    break
                within.append(([], []))
                whole = within[0]
                path.append(b"")
            elif not within:
                break
            elif mark == b"}":
                within.pop()
                path.pop()
            elif path[-1].endswith(b"index"):
                within[-1][1].append((path[-1], mark))
        elif not within:
            break
        elif names:
            path[-1] = text
        elif text:
            if path[-1] == b"type":
                within[-1][0].append(text)
            found.append((tuple(path), list(within), *token.span(1)))
    types, indexes = whole
    over = tuple(indexes) if types and types[0].endswith(_ENDS) else None
    return [(_text(names, marks), start, end) for names, marks, start, end in found], over


def _text(path: _Words, marks: list[_Marks]) -> _Text:
    types = tuple(kind for kinds, _ in marks for kind in kinds)
    return _Text(types, path, tuple(number for _, numbers in marks for number in numbers))


_ENDS = (b"done", b"stop")
"""How the types of events end after which a text does not go on."""
