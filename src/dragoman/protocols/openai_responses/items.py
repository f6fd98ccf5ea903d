"""The output item that an event belongs to, and the content of each item passed on so far.

The service numbers items by `output_index` and names them. Others number every item 0, name none of
them, name all of them alike, or give an item another name in each event; so every identifier
counts, and the content of an item decides if they are ambiguous.

Equal content under one of these identifiers is a repetition. Anything else is a new item, or a
contradiction with which the answer fails: a different name at the end of a call, pieces of an item
missing in the whole output (`has_strays`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.loose import (
    CALLS,
    arguments_of,
    only_text,
    parts_of,
    reasoning_in,
    text_in,
    word,
)
from dragoman.protocols.remainders import rest_of, rest_of_arguments

_LOOKED_AT = 8
"""The most items of one id that are compared, to bound the work."""


class OpenBlock:
    """A block in progress: its index, its pieces passed on, the number of annotations, and whether
    token probabilities were passed on. `ended`: further content is of another block; `filled`: a
    part of it came complete, so no piece of that may follow."""

    __slots__ = ("cited", "closed", "ended", "filled", "index", "logged", "pieces")

    def __init__(self, index: int) -> None:
        self.index = index
        self.pieces: list[str] = []
        self.cited = 0
        self.logged = False
        self.ended = False
        self.filled = False
        self.closed = False

    def text(self) -> str:
        """The text passed on so far."""
        return joined_text(self.pieces)


class Part(Struct, eq=False):
    """A text or refusal part of a message; `at` is its `content_index`."""

    at: int
    refuses: bool
    block: OpenBlock


class Segment(Struct, eq=False):
    """A run of one part of readable reasoning; `at` is the part's index."""

    at: int
    pieces: list[str]
    ended: bool = False
    filled: bool = False
    closed: bool = False
    """Whether its part is over, not only its text."""

    def text(self) -> str:
        """The text passed on so far."""
        return joined_text(self.pieces)


class Item(Struct, eq=False):
    """An output item as passed on so far. `at` is its `output_index`, if it has one."""

    number: int
    kind: str
    at: int | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    head: JsonObject | None = None
    """The item as it was announced."""
    done: bool = False
    stray: bool = False
    """Whether it began with a piece under the id of another item."""
    phase: str | None = None
    parts: list[Part] = []
    block: OpenBlock | None = None
    """The one block of a call or of reasoning."""
    is_whole: bool = False
    """Whether a call's arguments are complete."""
    begun_empty: bool = False
    """Whether a `{}` came before all pieces of a call's arguments: a placeholder for later pieces,
    if there are any."""
    pending: list[str] = []
    """Arguments received before the call's name."""
    style: str | None = None
    segments: list[Segment] = []

    def fits(self, kind: object) -> bool:
        """Whether an item of type `kind` may be this item."""
        return self.kind == kind or (self.kind in CALLS and str(kind) in CALLS)

    def is_blank(self) -> bool:
        """Whether nothing was passed on of it."""
        return self.block is None and not self.parts and not self.pending

    def is_elsewhere(self, at: int | None) -> bool:
        """Whether it began with pieces at another index than `at`: the id may be another item's."""
        return self.head is None and None not in (at, self.at) and at != self.at

    def is_framed(self) -> bool:
        """Whether it was announced, or received whole."""
        return self.head is not None or self.done

    def is_same(self, value: JsonObject) -> bool:
        """Whether `value` is this call under other ids: name and arguments are the same."""
        return (
            self.kind == value.get("type")
            and self.kind in CALLS
            and self.name == word(value, "name")
            and self.arguments() == arguments_of(value, self.kind)
        )

    def arguments(self) -> str:
        """A call's arguments received so far."""
        return self.block.text() if self.block is not None else joined_text(self.pending)

    def length_at(self, at: int) -> int:
        """The length of the text in the parts of an index."""
        return sum(len(part.block.text()) for part in self.parts if part.at == at)

    def call_key(self) -> tuple[str | None, str]:
        """A call's name and arguments, to compare calls."""
        return self.name, self.arguments()

    def has_content(self) -> bool:
        """Whether a client was shown content of it other than white space."""
        if self.kind in CALLS:
            return not self.is_blank()
        blocks = [part.block for part in self.parts]
        return any(block.text().strip() for block in blocks) or any(
            segment.text().strip() for segment in self.segments
        )

    def may_be(self, value: JsonObject) -> bool:
        """Whether type, call id and name are compatible with `value` being this item."""
        return (
            self.fits(value.get("type"))
            and _alike(self.call_id, word(value, "call_id"))
            and _alike(self.name, word(value, "name"))
        )

    def is_named(self, value: JsonObject) -> bool:
        """Whether `value` is this message, which is identified by its id only."""
        return (
            self.kind == "message"
            and value.get("type") == "message"
            and "call_id" not in value
            and "name" not in value
            and self.call_id is None
            and self.name is None
        )

    def is_renamed(self, value: JsonObject) -> bool:
        """Whether `value` is this call under another call id: its own id, name and all that was
        passed on of it are the same."""
        return (
            self.kind in CALLS
            and self.id is not None
            and self.id == word(value, "id")
            and self.name == word(value, "name")
            and self.fits(value.get("type"))
            and not self.is_blank()
            and self.agrees(value)
        )

    def repeats(self, value: JsonObject) -> bool:
        """Whether `value` is this message with its single, finished text."""
        if len(self.parts) != 1:
            return False
        part = self.parts[0]
        is_over = part.block.closed and not part.refuses
        return is_over and only_text(value) == part.block.text()

    def agrees(self, value: JsonObject) -> bool:
        """Whether its content passed on is consistent with `value`."""
        if self.kind == "message":
            if self.repeats(value):
                return True
            texts = [text_in(part) for part in parts_of(value)]
            return all(
                any(rest_of(part.block.text(), text) is not None for text in texts)
                for part in self.parts
            )
        if self.kind in CALLS:
            return rest_of_arguments(self.arguments(), arguments_of(value, self.kind)) is not None
        if self.kind == "reasoning" and self.style is not None:
            whole = "".join(reasoning_in(value, self.style))
            so_far = "".join([segment.text() for segment in self.segments])
            return rest_of(so_far, whole) is not None
        return True


class Items:
    """The items of one answer, in order of appearance."""

    __slots__ = ("_all", "_at", "_claimed", "_last", "_named", "_next")

    def __init__(self) -> None:
        self._all: list[Item] = []
        self._at: dict[int, Item] = {}
        """The latest item at each `output_index`."""
        self._named: dict[str, list[Item]] = {}
        """Items by their ids and call ids, the latest last."""
        self._last: Item | None = None
        """The item of events without any identifier."""
        self._claimed: set[int] = set()
        """Numbers of the items found in the whole output."""
        self._next: dict[str, int] = {}
        """The position of the first item of each type not found there yet."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self._all)

    def has_strays(self) -> bool:
        """Whether pieces came of a nonexistent item: it is missing in the whole output, which has
        others, or did not end, or neither began nor ended, while others did (for calls: one of the
        same name and arguments). The whole output may omit reasoning, if it omits all of it."""
        if len(self._claimed) == len(self._all):
            return False
        listed = {item.kind for item in self._all if item.number in self._claimed}
        kinds = {"message", *CALLS, *(listed & {"reasoning"})} if listed else set()
        over = () if listed else [item for item in self._all if item.done]
        ended = {item.call_key() if item.kind in CALLS else item.kind for item in over}
        framed = any(item.is_framed() for item in self._all)
        return any(
            item.stray
            or item.kind in kinds
            or (framed and not item.is_framed())
            or (
                not item.done
                and (item.kind if item.kind not in CALLS else item.call_key()) in ended
            )
            for item in self._all
            if item.number not in self._claimed and item.has_content()
        )

    def announced(self, at: int | None, value: JsonObject) -> Item:
        """The item that begins with the head `value`."""
        name = word(value, "id")
        known = self._find(at, name)
        if known is None and at is not None:
            known = self._at.get(at)
            if known is not None and known.head not in (None, value):
                known = None  # this one was announced already
        elif known is not None and known.is_elsewhere(at):
            known = None
        if known is None or known.done or not known.may_be(value) or not _alike(known.id, name):
            known = self._add(at, str(value.get("type")))
        known.head = value
        return self._learn(known, value)

    def touched(self, at: int | None, name: str | None, kind: str, *, more: bool) -> Item:
        """The item of type `kind` that an event belongs to; `more`: the event continues it, so it
        must not be over."""
        only = self._only(name)
        if only is not None and only.kind == kind and not only.done:
            self._last = only
            return only
        named = self._find(at, name)
        known = named if named is not None else self._at.get(at) if at is not None else self._last
        if known is None or not known.fits(kind):
            known = self._at.get(at) if at is not None else None
        if known is None or not known.fits(kind) or (more and known.done):
            known = self._add(at, kind)
            known.stray = named is not None
            if name is not None:
                known.id = name
                self._named.setdefault(name, []).append(known)
        self._last = known
        return known

    def finished(self, at: int | None, value: JsonObject) -> Item:
        """The item for the complete item `value`."""
        name = word(value, "id")
        only = self._only(name)
        if only is not None and not only.done and only.is_named(value):
            self._last = only
            return only
        named = self._find(at, name) or self._find(at, word(value, "call_id"))
        known = named or (self._at.get(at) if at is not None else self._last)
        if known is not None and not known.may_be(value) and not known.is_renamed(value):
            known = None
        if known is not None and (known.done or named is None) and not known.agrees(value):
            known = None
        if known is None:
            known = self._ended(at, value) or self._add(at, str(value.get("type")))
        return self._learn(known, value)

    def _ended(self, at: int | None, value: JsonObject) -> Item | None:
        """The open item that `value` completes under a different id: it has the same index, and
        content consistent with what was received.

        Raises:
            UpstreamError: it is a call with a different name, too.
        """
        name, place = (
            word(value, "name"),
            self._last if at is None else self._at.get(at, self._last),
        )
        for item in (*(self._find(at, word(value, key)) for key in ("id", "call_id")), place):
            if item is None or item.done or not item.fits(value.get("type")) or item.is_blank():
                continue
            if item.kind not in CALLS:
                if item.agrees(value):
                    return item
            elif rest_of_arguments(item.arguments(), arguments_of(value, item.kind)) == "":
                if not _alike(item.name, name):
                    raise UpstreamError.unreadable("a tool call ends under another name")
                return item
        return None

    def listed(self, position: int, value: JsonObject) -> Item:
        """The item at `position` in the whole output: one not found there yet, or a new one.
        Servers may renumber or rename items there."""
        if len(self._claimed) == len(self._all):
            # All items were found there: a whole answer without earlier pieces.
            return self._claim(self._add(None, str(value.get("type"))))
        only = self._only(word(value, "id"))
        if (
            only is not None
            and only.number not in self._claimed
            and only.is_named(value)
            and not only.is_blank()
            and only.agrees(value)
        ):
            self._last = only
            return self._claim(only)
        candidates = list(self._unclaimed(position, value))
        fitting = [item for item in candidates if item.may_be(value)]
        agreeing = [item for item in fitting if not item.is_blank() and item.agrees(value)]
        blank = [item for item in fitting if item.is_blank() and not item.done]
        name = word(value, "id")
        own = [item for item in fitting if name is not None and item.id == name]
        renamed = [item for item in candidates if item.is_renamed(value) or item.is_same(value)]
        found = next(iter([*agreeing, *blank, *own, *renamed]), None)
        if found is None:
            found = self._add(None, str(value.get("type")))
        return self._learn(self._claim(found), value)

    def _claim(self, item: Item) -> Item:
        self._claimed.add(item.number)
        return item

    def _unclaimed(self, position: int, value: JsonObject) -> Iterator[Item]:
        """The candidates for that position, the likeliest first."""
        claimed = self._claimed
        for name in (word(value, "call_id"), word(value, "id")):
            named = self._named.get(name or "", ())
            yield from islice((item for item in named if item.number not in claimed), _LOOKED_AT)
        if position < len(self._all) and position not in claimed:
            yield self._all[position]
        kind = str(value.get("type"))
        number = self._next.get(kind, 0)
        while number < len(self._all):
            item = self._all[number]
            if item.number not in claimed and item.fits(kind):
                yield item
                break
            number += 1
        self._next[kind] = number

    def _only(self, name: str | None) -> Item | None:
        """The item of an id, if there is one."""
        known = self._named.get(name) if name is not None else None
        return known[0] if known is not None and len(known) == 1 else None

    def _find(self, at: int | None, name: str | None) -> Item | None:
        """The latest item of an id: the one at `at`, if there are several."""
        known = self._named.get(name) if name is not None else None
        if known is None:
            return None
        if at is not None and len(known) > 1:
            return next((item for item in reversed(known) if item.at == at), known[-1])
        return known[-1]

    def _add(self, at: int | None, kind: str) -> Item:
        item = Item(len(self._all), kind, at)
        self._all.append(item)
        if at is not None:
            self._at[at] = item
        self._last = item
        return item

    def _learn(self, item: Item, value: JsonObject) -> Item:
        """Record the identifiers of `item` in `value`."""
        kind = value.get("type")
        if item.is_blank() and isinstance(kind, str):
            item.kind = kind
        own, call_id = word(value, "id"), word(value, "call_id")
        for name in (own, call_id):
            if name is not None:
                known = self._named.setdefault(name, [])
                if item not in known[-_LOOKED_AT:]:
                    known.append(item)
        item.id = item.id or own
        item.call_id = item.call_id or call_id
        item.name = item.name or word(value, "name")
        self._last = item
        return item


def joined_text(pieces: list[str]) -> str:
    """The text of the pieces, which are joined in place."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""


def _alike(known: str | None, given: str | None) -> bool:
    return known is None or given is None or known == given
