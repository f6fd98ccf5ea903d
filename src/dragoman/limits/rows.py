"""What one process has of a counter, and where counters are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from dragoman.limits.counters import RESERVED, RESTORED, Cells, Counter

OWN_RESERVED, OWN_UNWRITTEN, OWN_AHEAD = range(3)
"""Cells of one process for one counter: what it has reserved, what it has counted as used that is
in no row of usage yet, and what it has reserved ahead of need, when it last did. All are void when
the process is gone."""
OWN_CELLS: Final = 3


class Row:
    """A counter's cells, those of this process for it, and what it has used since rows of usage
    were last written, as far as it is settled.

    What this process has taken ahead (see `dragoman.limits.allowances`) holds until `until`: of
    `size`, which counts as of `since`, `room` is left, and `used` is used and not in the cells.
    What it has reserved there is always what its requests have under way, `room` and `used`.
    `taken` is what was used and reserved by all then, with `size`. `asked_at` is when it last had
    to look at the cells, and `requests` for how many requests more it takes then, if for many.
    """

    __slots__ = (
        "asked_at",
        "cells",
        "own",
        "requests",
        "room",
        "settled",
        "since",
        "size",
        "taken",
        "until",
        "used",
    )

    def __init__(self, cells: Cells, own: Cells) -> None:
        self.cells = cells
        self.own = own
        self.settled = 0
        self.room = self.used = self.size = self.taken = self.requests = 0
        self.since = self.until = self.asked_at = 0.0

    def note_settled(self, amount: int, unwritten: list[Row]) -> None:
        """So much that was used is settled, and goes into rows of usage. `unwritten` is given this
        row if nothing of it was to be written before."""
        if not self.settled:
            unwritten.append(self)
        self.settled += amount

    @property
    def is_restored(self) -> bool:
        """Whether the counter has what was used before it was made."""
        return bool(self.cells[RESTORED])


def private_row(size: int) -> Row:
    """A counter of `size` cells in memory of this process."""
    memory = memoryview(bytearray(8 * (size + OWN_CELLS))).cast("q")
    return Row(memory[:size], memory[size:])


class Counters(Protocol):
    """Where counters are: in memory that the processes of a machine share, or in that of one.
    Instances on several machines can each have their own over a part of each limit that is lent to
    them: what is counted is in the cells, whoever filled them."""

    def row(self, name: str, cells: int) -> Row:
        """The counter of this name, which has so many cells; made if there is none. Not to be
        called while locked."""

    def known(self, name: str) -> Row | None:
        """The counter of this name; None if there is none, and none is made. Not to be called while
        locked."""

    @property
    def lock(self) -> Callable[[], object]:
        """Keeps all others from the cells, for a moment."""

    @property
    def unlock(self) -> Callable[[], object]:
        """Lets others go on."""

    def reclaim_lost(self) -> int:
        """Give back what processes have reserved that are gone. Returns how many these were. Not to
        be called while locked."""

    @property
    def losses(self) -> int:
        """How often something was given back that a process had which is gone, by whomever."""

    def ahead(self, row: Row) -> int:
        """What all processes have reserved ahead of need, as far as they have told. To be called
        while locked."""

    def unwritten(self, row: Row) -> int:
        """What all processes have counted as used that is in no row of usage yet. To be called
        while locked."""

    def counts_all(self, row: Row) -> bool:
        """Whether all processes of this machine count there: there was room for it."""

    def try_exchange(self) -> bool:
        """Be the process that asks the owner of limits for all of this machine, until
        `end_exchange`; False if another is."""

    def end_exchange(self) -> None:
        """Let others ask the owner."""

    def close(self) -> None:
        """Give up what this process has reserved. Harmless if it was done before."""


def written(row: Row, amount: int) -> None:
    """So much of what this process has used is in rows of usage."""
    row.own[OWN_UNWRITTEN] -= amount


def reclaim(counter: Counter, row: Row, reserved_by_others: int) -> None:
    """Give back what a process that is gone had reserved, and what no row of usage will tell of.
    `row` has the cells of that process as its own; what all others have reserved is given, since
    it may have been killed between two steps."""
    row.cells[RESERVED] = reserved_by_others
    counter.take_back_latest(row.own[OWN_UNWRITTEN])
    row.own[OWN_RESERVED] = row.own[OWN_UNWRITTEN] = row.own[OWN_AHEAD] = 0
