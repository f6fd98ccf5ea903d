"""An account as the rotation sees it: its settings, whether it can be chosen, and the queues
in which it waits to be chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from msgspec import Struct

from dragoman.accounts.decide.states import AccountState, Rest

BUSY = "busy"
"""Why an account that has as many requests in flight as it may cannot be chosen."""


class MemberSettings(Struct, frozen=True):
    """The settings of an account that the choice depends on, as in `dragoman.config.Account`."""

    name: str
    models: tuple[str, ...] | None = None
    priority: int = 0
    weight: float = 1.0
    max_concurrent: int | None = None
    balance: float | None = None


class Choice(Struct, frozen=True):
    """The account chosen. `trial` is the model (empty: every model) for which the request is to
    show whether the account can be used again, None if it need not.
    """

    member: Member
    trial: str | None = None


class Member:
    """One account of a rotation. Changed by the rotation alone.

    `out` is why it serves no model now (empty: it may serve some) and `out_until` when that ends,
    `busy` whether its requests in flight are all it may have; it is `blocked` if either is true,
    and `reason` is why. `soft` is a rest for every model during which it is only avoided,
    `model_rests` are the rests for single models while it is not out.

    `used` is when it was last chosen, by any worker; `quota_used` is the share of its quota that is
    used, 0 where nothing is known; `passed` is its pass in an order by weight. `in_flight` are the
    requests of this worker, `in_flight_elsewhere` those of the others. `trials` are the models
    (empty: all) for which a request in flight is to show whether it can be used again, with that
    choice; `choice` is that of all other requests. `background` are requests of other workers that
    are no trial. `avoidance` is a rest that is not its own fault, such as its proxy's.
    `dropped_from` are the queues that it was dropped from because it was blocked or avoided;
    `removed` is whether it was withdrawn."""

    __slots__ = (
        "allow_list",
        "avoidance",
        "background",
        "balance",
        "blocked",
        "busy",
        "choice",
        "dropped_from",
        "in_flight",
        "in_flight_elsewhere",
        "model_rests",
        "name",
        "ordinal",
        "out",
        "out_until",
        "passed",
        "priority",
        "quota_used",
        "reason",
        "removed",
        "settings",
        "soft",
        "state",
        "trials",
        "used",
    )

    def __init__(self, settings: MemberSettings, ordinal: int) -> None:
        self.name = settings.name
        self.settings = settings
        self.priority = settings.priority
        self.ordinal = ordinal
        self.allow_list = 0
        self.state = AccountState(settings.name)
        self.out = ""
        self.out_until: float | None = None
        self.busy = False
        self.reason = ""
        self.blocked = False
        self.removed = False
        self.soft: Rest | None = None
        self.avoidance: Rest | None = None
        self.model_rests: dict[str, Rest] = {}
        self.choice = Choice(self)
        self.trials: dict[str, Choice] = {}
        self.in_flight = 0
        self.in_flight_elsewhere = 0
        self.background = 0
        self.balance = settings.balance
        self.quota_used = 0.0
        self.used = 0.0
        self.passed = 0.0
        self.dropped_from: dict[MemberQueue, None] = {}

    def __repr__(self) -> str:
        return f"Member({self.name})"


Entry = tuple[int, Any, int, Member]
"""Priority, key, ordinal, member. No two ordinals are equal, so members are never compared."""


class MemberQueue:
    """A queue of members by a key that changes while they wait.

    They are ordered by priority (if `ranked`), then by `key`, then by the order of definition. Each
    member has at most one entry that counts, which is in `current`; others are left in the heap
    until they come up. A key that has grown since the entry was made is corrected by `first`; one
    that has become smaller must be put in again at once, by `add`.
    """

    __slots__ = ("_entries", "_ranked", "current", "key")

    def __init__(self, key: Callable[[Member], Any], *, ranked: bool = True) -> None:
        self._ranked = ranked
        self._entries: list[Entry] = []
        self.current: dict[Member, Entry] = {}
        self.key = key

    def __len__(self) -> int:
        return len(self.current)

    def fill(self, members: list[Member]) -> None:
        """Put many members in at once, in linear time."""
        self.current = {member: self._entry(member) for member in members}
        self._entries = list(self.current.values())
        heapify(self._entries)

    def add(self, member: Member) -> None:
        """Put a member in where its key belongs now."""
        entry = self.current[member] = self._entry(member)
        heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self.current) + 64:
            self._entries = list(self.current.values())
            heapify(self._entries)

    def _entry(self, member: Member) -> Entry:
        rank = member.priority if self._ranked else 0
        return rank, self.key(member), member.ordinal, member

    def discard(self, member: Member) -> None:
        """Take a member out, if it is in."""
        self.current.pop(member, None)

    def first(self) -> Member | None:
        """The first member, its key corrected where another's could precede it; None if there is
        none."""
        entries, current = self._entries, self.current
        while entries:
            entry = entries[0]
            member = entry[3]
            if current.get(member) is not entry:
                heappop(entries)
                continue
            if len(entries) == 1 or (value := self.key(member)) == entry[1]:
                return member
            current[member] = entry = (entry[0], value, entry[2], member)
            heapreplace(entries, entry)
            if entries[0] is entry:
                return member
        return None

    def drop(self) -> None:
        """Take the member out that `first` has just returned."""
        del self.current[heappop(self._entries)[3]]

    def skip(self) -> Entry:
        """Pass over the member that `first` has just returned, until `restore` puts it back."""
        return heappop(self._entries)

    def restore(self, entry: Entry) -> None:
        """Put an entry back that `skip` returned."""
        heappush(self._entries, entry)
