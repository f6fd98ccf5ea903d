"""An account as the rotation sees it: what it is set up for, where it stands, and the queues in
which it waits to be chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from msgspec import Struct

from dragoman.accounts.states import AccountState, Rest

BUSY = "busy"
"""Why an account that has as many requests in flight as it may cannot be chosen."""


class Terms(Struct, frozen=True):
    """What an account is set up for: see `dragoman.config.Account`, whose names these are."""

    name: str
    models: tuple[str, ...] | None = None
    priority: int = 0
    weight: float = 1.0
    max_concurrent: int | None = None
    balance: float | None = None


class Member:
    """One account of a rotation. Changed by the rotation alone.

    `out` is why it serves no model now (empty: it may serve some) and `out_until` when that ends,
    `busy` whether its requests in flight are all it may have; it is `barred` if either holds, and
    `label` is why. `soft` is a rest for every model for which it is only avoided, `apart` what
    keeps it from single models while it is not out.

    `used` is when it was last chosen, here or elsewhere; `passed` is its place in an order by
    weight. `trials` are the models (empty: all) for which a request in flight is to show whether it
    can be used again, with that choice; `background` are requests elsewhere that are no trial.
    `held` is a rest that is not its own fault, such as its proxy's. `missing` are the lanes that
    let it drop because it was barred or avoided; `gone` is whether it was withdrawn.
    """

    __slots__ = (
        "apart",
        "audience",
        "background",
        "balance",
        "barred",
        "busy",
        "elsewhere",
        "gone",
        "held",
        "in_flight",
        "label",
        "missing",
        "name",
        "ordinal",
        "out",
        "out_until",
        "passed",
        "priority",
        "soft",
        "state",
        "terms",
        "trials",
        "used",
    )

    def __init__(self, terms: Terms, ordinal: int) -> None:
        self.name = terms.name
        self.terms = terms
        self.priority = terms.priority
        self.ordinal = ordinal
        self.audience = 0
        self.state = AccountState(terms.name)
        self.out = ""
        self.out_until: float | None = None
        self.busy = False
        self.label = ""
        self.barred = False
        self.gone = False
        self.soft: Rest | None = None
        self.held: Rest | None = None
        self.apart: dict[str, Rest] = {}
        self.trials: dict[str, object] = {}
        self.in_flight = 0
        self.elsewhere = 0
        self.background = 0
        self.balance = terms.balance
        self.used = 0.0
        self.passed = 0.0
        self.missing: dict[Lane, None] = {}

    def __repr__(self) -> str:
        return f"Member({self.name})"


Entry = tuple[int, Any, int, Member]
"""Priority, key, ordinal, member. No two ordinals are equal, so members are never compared."""


class Lane:
    """A queue of members by a key that changes while they wait.

    They are ordered by priority (if `ranked`), then by `key`, then by the order of definition. Each
    member has at most one entry that counts, which is in `inside`; others are left in the heap
    until they come up. A key that has grown since the entry was made is corrected by `first`; one
    that has become smaller must be put in again at once, by `add`.
    """

    __slots__ = ("_entries", "_ranked", "inside", "key")

    def __init__(self, key: Callable[[Member], Any], *, ranked: bool = True) -> None:
        self._ranked = ranked
        self._entries: list[Entry] = []
        self.inside: dict[Member, Entry] = {}
        self.key = key

    def __len__(self) -> int:
        return len(self.inside)

    def fill(self, members: list[Member]) -> None:
        """Put many members in at once, in linear time."""
        self.inside = {member: self._entry(member) for member in members}
        self._entries = list(self.inside.values())
        heapify(self._entries)

    def add(self, member: Member) -> None:
        """Put a member in where its key belongs now."""
        entry = self.inside[member] = self._entry(member)
        heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self.inside) + 64:
            self._entries = list(self.inside.values())
            heapify(self._entries)

    def _entry(self, member: Member) -> Entry:
        rank = member.priority if self._ranked else 0
        return rank, self.key(member), member.ordinal, member

    def discard(self, member: Member) -> None:
        """Take a member out, if it is in."""
        self.inside.pop(member, None)

    def first(self) -> Member | None:
        """The first member, its key corrected; None if there is none."""
        entries, inside, key = self._entries, self.inside, self.key
        while entries:
            entry = entries[0]
            member = entry[3]
            if inside.get(member) is not entry:
                heappop(entries)
                continue
            current = key(member)
            if current == entry[1]:
                return member
            inside[member] = entry = (entry[0], current, entry[2], member)
            heapreplace(entries, entry)
        return None

    def drop(self) -> None:
        """Take the member out that `first` has just returned."""
        del self.inside[heappop(self._entries)[3]]

    def set_aside(self) -> Entry:
        """Pass over the member that `first` has just returned, until its entry is put `back`."""
        return heappop(self._entries)

    def back(self, entry: Entry) -> None:
        """End what `set_aside` began."""
        heappush(self._entries, entry)
