"""A queue of accounts by a key that changes while they wait. Pure."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from dragoman.accounts.members import Member

Entry = tuple[int, Any, int, Member]
"""Priority, key, ordinal, member. No two ordinals are equal, so members are never compared."""


class Lane:
    """Members by priority (if `ranked`), then `key`, then the order of their definition.

    Each member has at most one entry that counts, which is in `inside`; others are left in the heap
    until they come up. A key that has grown since the entry was made may be corrected then
    (`correct`); one that has become smaller must be told at once, by `add`.
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
