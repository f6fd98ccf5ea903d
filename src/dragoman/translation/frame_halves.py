"""Halves of characters in the events of a stream that is passed through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dragoman import jsontext
from dragoman.canonical.halves import MENDED
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.jsontext import JsonError, may_have_halves
from dragoman.protocols.base import PIECES, to_json
from dragoman.sse import Frame, encode


class _Piece(NamedTuple):
    """A text in an event, and the object that it is a member of."""

    holder: dict[str, Any]
    name: str

    @property
    def text(self) -> str:
        return str(self.holder[self.name])


class FrameHalves:
    """Joins halves that end one event and begin the next; others become U+FFFD and are reported.

    An event whose text ends with a first half waits for the next one.
    """

    __slots__ = ("_held", "_ledger", "waits")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: tuple[bytes, Any] | None = None
        """Name and value of the event that waits."""
        self.waits = False

    def concerns(self, frame: Frame) -> bool:
        """Whether `push` may change anything."""
        return self._held is not None or may_have_halves(frame.data)

    def push(self, frame: Frame) -> list[Frame]:
        """Take one event; return those that can be passed on."""
        value, changed = self._decoded(frame.data)
        passed = []
        if self._held is not None:
            changed = _joined(self._held[1], value) or changed
            passed = self.flush()
        if any(_is_first(piece.text[-1:]) for _, piece in _pieces(value)):
            self._held, self.waits = (frame.event, value), True
        elif self._mend(value) or changed:
            passed.append(_frame(frame.event, value))
        else:
            passed.append(frame)
        return passed

    def flush(self) -> list[Frame]:
        """The event that waits, if there is one."""
        held, self._held, self.waits = self._held, None, False
        if held is None:
            return []
        self._mend(held[1])
        return [_frame(*held)]

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

    def _mend(self, value: Any) -> bool:
        """Mend the texts of an event; whether that changed any."""
        changed = False
        for _, piece in _pieces(value):
            text = jsontext.mended(piece.text)
            if text != piece.text:
                if text.count("\ufffd") != piece.text.count("\ufffd"):
                    self._report()
                piece.holder[piece.name] = text
                changed = True
        return changed

    def _report(self) -> None:
        self._ledger.add("text", LossKind.REPAIRED, MENDED)


def _joined(before: Any, value: Any) -> bool:
    """Move second halves that begin texts of an event to the same texts of the one before."""
    following = dict(_pieces(value))
    moved = False
    for place, piece in _pieces(before):
        further = following.get(place)
        if further is not None and _is_first(piece.text[-1:]) and _is_second(further.text[:1]):
            piece.holder[piece.name] = piece.text + further.text[0]
            further.holder[further.name] = further.text[1:]
            moved = True
    return moved


_INDEXES = ("index", "output_index", "content_index", "summary_index", "item_id")


def _pieces(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], _Piece]]:
    """The texts of an event that pieces of an answer are, each with what tells where it belongs."""
    if isinstance(value, dict):
        here = (*place, *(_number(value.get(name)) for name in _INDEXES))
        for name, inner in value.items():
            if isinstance(inner, str):
                if name in PIECES and not inner.isascii():
                    yield (*here, name), _Piece(value, name)
            elif isinstance(inner, dict | list):
                yield from _pieces(inner, (*here, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _pieces(inner, (*place, number))


def _number(index: Any) -> int | None:
    return index if type(index) is int else None


def _is_first(character: str) -> bool:
    return "\ud800" <= character <= "\udbff"


def _is_second(character: str) -> bool:
    return "\udc00" <= character <= "\udfff"


def _frame(event: bytes, value: Any) -> Frame:
    data = to_json(value)
    return Frame(event, data, encode(data, event))
