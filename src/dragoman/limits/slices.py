"""What a machine has been lent of a limit, as its processes count in it. Pure: cells and times are
given, and whoever calls holds their lock.

The counter stands where that of a limit which one machine counts alone does. What is left of it is
what is left of the slice: `admit` and `settle` are the same. See `dragoman.limits.ledgers` for whom
it is borrowed from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Final, Literal

from dragoman.config.limits import Limit, WhenAway
from dragoman.config.windows import Window
from dragoman.limits.bound_limits import BoundLimit
from dragoman.limits.counters import RESERVED, RESTORED, USED, WHEN, Cells, Counter, counter_of
from dragoman.limits.ledgers import SLICE_S, Lent, Report
from dragoman.limits.rows import Row

(
    CEILING,
    SPENT,
    ACKNOWLEDGED,
    UNTIL,
    REPORTED,
    NUMBER,
    ELSEWHERE,
    INSTANCES,
    OFFSET,
    AWAY,
    PRESSED,
    SPARE,
    SHARE,
) = range(13)
"""Cells of a slice: up to where this machine may use and reserve; what it has used, and what of
that the owner knows; until when the slice holds (milliseconds of the monotonic clock); when it was
last reported (milliseconds of this machine's clock), and under which number; what others hold, and
how many instances there are; how far the owner's clock is ahead (milliseconds); whether the owner
is away; whether others lack what is held here; what others hold and do not need; and what this
machine may keep and not need."""
SLICE_CELLS: Final = 13

_MUCH: Final = 1 << 61
_SOON_S: Final = 1.0


class Slice:
    """The counter of a limit of which this machine is lent slices; see `Counter`.

    `whole` are the cells of what all instances have used, as far as it is known here, in the time
    of the owner; `own` those of what this machine has used since the owner last knew.
    """

    __slots__ = (
        "_counter",
        "_monotonic",
        "_own_counter",
        "_when_away",
        "amount",
        "cells",
        "enforced",
        "fresh_until",
        "own",
        "whole",
        "window",
    )

    def __init__(
        self,
        window: Window | None,
        amount: int,
        whole: Cells,
        cells: Cells,
        own: Cells,
        *,
        enforced: bool = True,
        when_away: WhenAway = "closed",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fresh_until = -inf
        """The cell `USED` never tells what may not be used: `used` is to be asked."""
        self.window = window
        self.amount = amount
        self.whole = whole
        self.cells = cells
        self.own = own
        self.enforced = enforced
        self._counter: Counter = counter_of(window, whole)
        self._own_counter: Counter = counter_of(window, own)
        self._when_away = when_away
        self._monotonic = monotonic

    # What `admit` and `settle` ask

    def used(self, now: float) -> int:
        """What of the limit may not be used here: all but what is left of the slice."""
        cells = self.cells
        if not self.enforced:
            return self._counter.used(self._owners(now))
        left = cells[CEILING] - cells[SPENT] if self.holds() else 0
        if cells[AWAY] and self._when_away != "closed":
            if self._when_away == "open":
                return -_MUCH
            left = max(left, self._share(now))
        return self.amount - left

    def add(self, now: float, amount: int) -> int:
        """See `Counter.add`."""
        self.cells[SPENT] += amount
        then = self._owners(now)
        used = self._counter.add(then, amount)
        if self.cells[AWAY]:
            self._own_counter.add(then, amount)
        return used

    def counts_from(self, now: float) -> float:
        """See `Counter.counts_from`."""
        return now

    def add_late(self, at: float, amount: int) -> int:
        """See `Counter.add_late`."""
        return self.add(at, amount)

    def take_back(self, at: float, amount: int) -> None:
        """See `Counter.take_back`. What the owner may have been told of stays used: what others
        were lent since rests on it."""
        if at * 1000 > self.cells[REPORTED]:
            self.cells[SPENT] -= amount
            self._counter.take_back(self._owners(at), amount)

    def take_back_latest(self, amount: int) -> None:
        """See `Counter.take_back_latest`: it stays used, as with `take_back`."""

    def frees_at(self, now: float, amount: int) -> float:
        """See `Counter.frees_at`."""
        then = self._owners(now)
        missing = amount - (self.used(now) - self._counter.used(then))
        if missing <= 0:
            return now + _SOON_S
        return self._here(self._counter.frees_at(then, missing))

    def resets_at(self, now: float) -> float:
        """See `Counter.resets_at`."""
        return self._here(self._counter.resets_at(self._owners(now)))

    def counts_until(self, now: float) -> float:
        """See `Counter.counts_until`."""
        return self._here(self._counter.counts_until(self._owners(now)))

    def runs_out_at(self, now: float, left: int, since: float = 0.0) -> float:
        """See `Counter.runs_out_at`."""
        return self._here(self._counter.runs_out_at(self._owners(now), left, since))

    # What is borrowed

    def holds(self) -> bool:
        """Whether the slice may be used."""
        return int(self._monotonic() * 1000) < self.cells[UNTIL]

    def decided_by(self) -> Literal["slice", "closed", "share", "open", "counted"]:
        """What decides here: the slice, or what is set for the time that the owner is away; what is
        not enforced is only counted."""
        if not self.enforced:
            return "counted"
        if self.cells[AWAY] and (self._when_away != "closed" or not self.holds()):
            return self._when_away
        return "slice"

    def used_by_all(self, now: float) -> int:
        """What all instances have used, as far as it is known here."""
        return self._counter.used(self._owners(now))

    def may_be_had(self, now: float) -> int:
        """What is not used and held by no other, as far as it is known here."""
        return self.amount - self.used_by_all(now) - self.cells[ELSEWHERE] - self.whole[RESERVED]

    def is_idle(self) -> bool:
        """Whether there is nothing to report: nothing was used, and nothing is held. Whether the
        owner is away is found out by reporting."""
        cells = self.cells
        if cells[AWAY] or cells[SPENT] != cells[ACKNOWLEDGED]:
            return False
        return not self.enforced or (cells[CEILING] <= cells[SPENT] and not self.whole[RESERVED])

    def is_overdrawn(self) -> bool:
        """Whether more was used than was lent, which the owner has to know before it lends that to
        others."""
        cells = self.cells
        return self.enforced and not cells[AWAY] and cells[SPENT] > cells[CEILING]

    def report(
        self, instance: str, now: float, wanted: int = 0, least: int = 0
    ) -> tuple[Report, bool]:
        """What is told to the owner, and whether the slice held when it was. What is not needed is
        given up first, so that nobody can be admitted with it while the owner lends it elsewhere.
        """
        cells, reserved = self.cells, self.whole[RESERVED]
        held = self.holds()
        needed = cells[SPENT] + reserved
        ahead = wanted > 0 or (cells[SPENT] != cells[ACKNOWLEDGED]) or reserved > 0
        kept = wanted
        if ahead and self.enforced and not cells[PRESSED]:
            kept = max(wanted, cells[SHARE])
        cells[CEILING] = min(cells[CEILING], needed + kept) if held else needed
        cells[NUMBER] += 1
        cells[REPORTED] = int(now * 1000) + 1
        told = Report(
            instance=instance,
            number=cells[NUMBER],
            amount=self.amount,
            spent=cells[SPENT],
            acknowledged=cells[ACKNOWLEDGED],
            reserved=reserved,
            ceiling=cells[CEILING],
            wanted=wanted,
            least=least,
            ahead=ahead and self.enforced,
        )
        return told, held

    def take(
        self, lent: Lent, ledger: Cells, told_at: float, held: bool, owners: float, now: float
    ) -> None:
        """Take what is lent. The report was made at `told_at` of the monotonic clock, when the
        slice was `held` or not; `ledger` are the cells of the owner, whose time is `owners`."""
        cells = self.cells
        lapsed = held and not self.holds()
        # Where the slice ran out on the way, the owner may have lent what was left of it to others.
        cells[CEILING] = cells[SPENT] + self.whole[RESERVED] if lapsed else lent.ceiling
        cells[ACKNOWLEDGED] = lent.spent
        cells[UNTIL] = int((told_at + SLICE_S) * 1000)
        cells[ELSEWHERE], cells[INSTANCES] = lent.elsewhere, lent.instances
        cells[OFFSET] = int((owners - now) * 1000)
        cells[AWAY], cells[PRESSED] = 0, lent.pressed
        cells[SPARE], cells[SHARE] = lent.spare, lent.share
        self.whole[WHEN], self.whole[USED] = ledger[WHEN], ledger[USED]
        self.whole[RESTORED + 1 :] = ledger[RESTORED + 1 :]
        if self.window is not None and (more := cells[SPENT] - lent.spent) > 0:
            self._counter.add(owners, more)
        if self.own[USED]:
            self._own_counter.take_back_latest(_MUCH)

    def note_away(self, instances: int) -> None:
        """The owner cannot be reached. Of a limit that nothing was ever heard of so much is known:
        how many `instances` there are, as told with other limits, 0 if that is not known."""
        cells = self.cells
        cells[AWAY] = 1
        cells[INSTANCES] = cells[INSTANCES] or instances

    def _share(self, now: float) -> int:
        """What an instance may use by itself: its part of what was not used when the owner was
        last heard, and of what has come back since."""
        cells, then = self.cells, self._owners(now)
        others = max(0, cells[INSTANCES] - 1)
        unused = self.amount - self._counter.used(then) - cells[ELSEWHERE]
        return (unused - others * self._own_counter.used(then)) // (others + 1)

    def _owners(self, now: float) -> float:
        return now + self.cells[OFFSET] / 1000

    def _here(self, then: float) -> float:
        """A time of the owner's, by this machine's clock."""
        return then - self.cells[OFFSET] / 1000


class LentLimit(BoundLimit):
    """A limit of which this machine is lent slices."""

    __slots__ = ("slice",)

    def __init__(
        self, limit: Limit, owner: str, row: Row, cells: Cells, own: Cells, *, is_team: bool = False
    ) -> None:
        super().__init__(limit, owner, row, is_team=is_team)
        self.counter = self.slice = Slice(
            self.window,
            self.amount,
            row.cells,
            cells,
            own,
            enforced=self.enforced and self.is_known,
            when_away=limit.when_away,
        )

    def note_time(self, now: float) -> None:
        """See `BoundLimit.note_time`."""
        super().note_time(now)
        self.slice.amount = self.amount
        # Of what is not known nothing is lent: whoever knows it would lack that.
        self.slice.enforced = self.enforced and self.is_known

    def used(self, now: float) -> int:
        """See `BoundLimit.used`."""
        return self.slice.used_by_all(now)

    def left_here(self) -> int:
        """What this machine holds and has not reserved."""
        cells = self.slice.cells
        held = cells[CEILING] - cells[SPENT] if self.slice.holds() else 0
        return held - self.cells[RESERVED]

    def left(self, now: float) -> int:
        """See `BoundLimit.left`: what may be borrowed, too."""
        return self.slice.may_be_had(now)

    def left_of_all(self, now: float) -> int:
        """See `BoundLimit.left_of_all`: the machine has nothing ahead of others."""
        return self.slice.may_be_had(now)
