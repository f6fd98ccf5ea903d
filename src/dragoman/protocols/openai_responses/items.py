"""The output item that an event belongs to, and the content of each item passed on so far.

The service numbers items by `output_index` and names them. Others number every item 0, name none of
them, name all of them alike, or give an item another name in each event; so every identifier
counts, and the content of an item decides if they are ambiguous.

Equal content under one of these identifiers is a repetition. Anything else is a new item, or a
contradiction with which the answer fails: a different name at the end of a call, pieces of an item
missing in the whole output (`has_strays`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from msgspec import Struct

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.openai_responses.loose import CALLS, text_in
from dragoman.protocols.openai_responses.shapes import OutputItem
from dragoman.protocols.remainders import rest_of, rest_of_arguments

_LOOKED_AT = 8
"""The most items of one id that are compared, to bound the work."""


class OpenBlock(Struct, eq=False):
    """A block in progress: its index, its pieces passed on, the number of annotations, and whether
    token probabilities were passed on. `ended`: further content is of another block; `filled`: a
    part of it came complete, so no piece of that may follow."""

    index: int
    pieces: list[str] = []
    cited: int = 0
    logged: bool = False
    ended: bool = False
    filled: bool = False
    closed: bool = False

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
    head: OutputItem | None = None
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

    def fits(self, kind: str) -> bool:
        """Whether an item of type `kind` may be this item."""
        return self.kind == kind or (self.kind in CALLS and kind in CALLS)

    def is_blank(self) -> bool:
        """Whether nothing was passed on of it."""
        return self.block is None and not self.parts and not self.pending

    def is_elsewhere(self, at: int | None) -> bool:
        """Whether it began with pieces at another index than `at`: the id may be another item's."""
        return self.head is None and None not in (at, self.at) and at != self.at

    def is_framed(self) -> bool:
        """Whether it was announced, or received whole."""
        return self.head is not None or self.done

    def is_same(self, value: OutputItem) -> bool:
        """Whether `value` is this call under other ids: name and arguments are the same."""
        return (
            self.kind == value.type
            and self.kind in CALLS
            and self.name == value.name
            and self.arguments() == (value.payload or "")
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

    def may_be(self, value: OutputItem) -> bool:
        """Whether type, call id and name are compatible with `value` being this item."""
        return (
            self.fits(value.type)
            and _alike(self.call_id, value.call_id)
            and _alike(self.name, value.name)
        )

    def is_renamed(self, value: OutputItem) -> bool:
        """Whether `value` is this call under another call id: its own id, name and all that was
        passed on of it are the same."""
        return (
            self.kind in CALLS
            and bool(self.id)
            and self.id == value.id
            and self.name == value.name
            and self.fits(value.type)
            and not self.is_blank()
            and self.agrees(value)
        )

    def agrees(self, value: OutputItem) -> bool:
        """Whether its content passed on is consistent with `value`."""
        if self.kind == "message":
            texts = [text_in(part) for part in value.content or ()]
            return all(
                any(rest_of(part.block.text(), text) is not None for text in texts)
                for part in self.parts
            )
        if self.kind in CALLS:
            return rest_of_arguments(self.arguments(), value.payload or "") is not None
        if self.kind == "reasoning" and self.style is not None:
            whole = "".join(value.thoughts(self.style))
            so_far = "".join([segment.text() for segment in self.segments])
            return rest_of(so_far, whole) is not None
        return True


class Items(Struct, eq=False):
    """The items of one answer, in order of appearance."""

    _all: list[Item] = []
    _at: dict[int, Item] = {}
    """The latest item at each `output_index`."""
    _named: dict[str, list[Item]] = {}
    """Items by their ids and call ids, the latest last."""
    _last: Item | None = None
    """The item of events without any identifier."""
    _claimed: set[int] = set()
    """Numbers of the items found in the whole output."""
    _next: dict[str, int] = {}
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

    def announced(self, at: int | None, value: OutputItem) -> Item:
        """The item that begins with the head `value`."""
        name = value.id
        known = self._find(at, name)
        if known is None and at is not None:
            known = self._at.get(at)
            if known is not None and known.head not in (None, value):
                known = None  # this one was announced already
        elif known is not None and known.is_elsewhere(at):
            known = None
        if known is None or known.done or not known.may_be(value) or not _alike(known.id, name):
            known = self._add(at, value.type)
        known.head = value
        return self._learn(known, value)

    def touched(self, at: int | None, name: str | None, kind: str, *, more: bool) -> Item:
        """The item of type `kind` that an event belongs to; `more`: the event continues it, so it
        must not be over."""
        named = self._find(at, name)
        known = named if named is not None else self._at.get(at) if at is not None else self._last
        if known is None or not known.fits(kind):
            known = self._at.get(at) if at is not None else None
        if known is None or not known.fits(kind) or (more and known.done):
            known = self._add(at, kind)
            known.stray = named is not None
            if name:
                known.id = name
                self._named.setdefault(name, []).append(known)
        self._last = known
        return known

    def finished(self, at: int | None, value: OutputItem) -> Item:
        """The item for the complete item `value`."""
        named = self._find(at, value.id) or self._find(at, value.call_id)
        known = named or (self._at.get(at) if at is not None else self._last)
        if known is not None and not known.may_be(value) and not known.is_renamed(value):
            known = None
        if known is not None and (known.done or named is None) and not known.agrees(value):
            known = None
        if known is None:
            known = self._ended(at, value) or self._add(at, value.type)
        return self._learn(known, value)

    def _ended(self, at: int | None, value: OutputItem) -> Item | None:
        """The open item that `value` completes under a different id: it has the same index, and
        content consistent with what was received.

        Raises:
            UpstreamError: it is a call with a different name, too.
        """
        place = self._last if at is None else self._at.get(at, self._last)
        for item in (self._find(at, value.id), self._find(at, value.call_id), place):
            if item is None or item.done or not item.fits(value.type) or item.is_blank():
                continue
            if item.kind not in CALLS:
                if item.agrees(value):
                    return item
            elif rest_of_arguments(item.arguments(), value.payload or "") == "":
                if not _alike(item.name, value.name):
                    raise UpstreamError.unreadable("a tool call ends under another name")
                return item
        return None

    def listed(self, position: int, value: OutputItem) -> Item:
        """The item at `position` in the whole output: one not found there yet, or a new one.
        Servers may renumber or rename items there."""
        if len(self._claimed) == len(self._all):
            # All items were found there: a whole answer without earlier pieces.
            return self._claim(self._add(None, value.type))
        candidates = list(dict.fromkeys(self._unclaimed(position, value)))
        fitting = [item for item in candidates if item.may_be(value)]
        found = next(
            chain(
                (item for item in fitting if not item.is_blank() and item.agrees(value)),
                (item for item in fitting if item.is_blank() and not item.done),
                (item for item in fitting if value.id and item.id == value.id),
                (item for item in candidates if item.is_renamed(value) or item.is_same(value)),
            ),
            None,
        )
        if found is None:
            found = self._add(None, value.type)
        return self._learn(self._claim(found), value)

    def _claim(self, item: Item) -> Item:
        self._claimed.add(item.number)
        return item

    def _unclaimed(self, position: int, value: OutputItem) -> Iterator[Item]:
        """The candidates for that position, the likeliest first."""
        claimed = self._claimed
        for name in (value.call_id, value.id):
            named = self._named.get(name or "", ())
            yield from islice((item for item in named if item.number not in claimed), _LOOKED_AT)
        if position < len(self._all) and position not in claimed:
            yield self._all[position]
        kind = value.type
        number = self._next.get(kind, 0)
        while number < len(self._all):
            item = self._all[number]
            if item.number not in claimed and item.fits(kind):
                yield item
                break
            number += 1
        self._next[kind] = number

    def _find(self, at: int | None, name: str | None) -> Item | None:
        """The latest item of an id: the one at `at`, if there are several."""
        known = self._named.get(name) if name else None
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

    def _learn(self, item: Item, value: OutputItem) -> Item:
        """Record the identifiers of `item` in `value`."""
        if item.is_blank():
            item.kind = value.type
        for name in (value.id, value.call_id):
            if name:
                known = self._named.setdefault(name, [])
                if item not in known[-_LOOKED_AT:]:
                    known.append(item)
        item.id = item.id or value.id
        item.call_id = item.call_id or value.call_id
        item.name = item.name or value.name
        self._last = item
        return item


def joined_text(pieces: list[str]) -> str:
    """The text of the pieces, which are joined in place."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""


def _alike(known: str | None, given: str | None) -> bool:
    return not known or not given or known == given
