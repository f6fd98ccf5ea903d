"""What the owner of a machine knows of one limit: what was used, what requests have reserved, and
so what is left. Pure: times are given.

`Balance` is that of a machine that has the limit for itself. `Slice` stands in its place where
several machines share the limit: what is left here is what is left of the slice that this machine
was lent (`dragoman.limits.ledgers`), and may be more once it borrows again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from math import inf
from typing import Final, Literal

from dragoman.config.limits import Limit
from dragoman.config.windows import Fixed, Window, knows_zone, parse_window
from dragoman.limits.counters import Counter, CounterState
from dragoman.limits.ledgers import SLICE_S, Loan, Report

SOON_S: Final = 1.0
"""Seconds after which to come again when only requests under way stand in the way."""

KEPT_S: Final = 300.0
"""Seconds for which a machine keeps what it was lent ahead of need, after it had need last: so
long it can go on while the owner is away."""

_MUCH: Final = 1 << 61

HeldBy = Literal["slice", "closed", "share", "open", "counted"]
"""What decides of a shared limit: the slice, or what is set for the time that the owner of all
machines is away; what is not enforced is only counted."""


def window_of(limit: Limit) -> Window | None:
    """The window of a limit; None for requests at one time. In UTC where this machine does not know
    its zone: such a limit is shown, and refuses all requests if it is enforced."""
    if limit.window is None:
        return None
    return parse_window(limit.window, limit.zone if knows_zone(limit.zone) else "UTC", limit.anchor)


class Balance:
    """The balance of a limit that this machine has for itself.

    `amount` and `enforced` are as the latest request had them. `reserved` is what requests have
    under way that is not counted as used, `elsewhere` what others hold. `is_restored`: the counter
    has what was used before it was made. `counts_at_once`: requests count as used from the moment
    they are admitted.
    """

    __slots__ = (
        "amount",
        "counter",
        "counts_at_once",
        "elsewhere",
        "enforced",
        "is_restored",
        "limit",
        "name",
        "number",
        "reserved",
        "window",
    )

    def __init__(self, number: int, name: str, limit: Limit) -> None:
        self.number = number
        self.name = name
        self.limit = limit
        self.window = window_of(limit)
        self.counter = Counter(Fixed(None) if self.window is None else self.window)
        self.amount = limit.units
        self.enforced = limit.mode == "enforce"
        self.reserved = self.elsewhere = 0
        self.is_restored = self.window is None
        self.counts_at_once = limit.kind == "requests"

    def used(self, now: float) -> int:
        """How much was used within the window, as far as it is known here."""
        return self.counter.advance(now)

    def left(self, now: float) -> int:
        """How much may be reserved at once."""
        return self.room(self.used(now), now)

    def room(self, used: int, now: float) -> int:
        """The same where so much was used within the window."""
        return self.amount - used - self.reserved

    def left_of_all(self, now: float) -> int:
        """How much is neither used nor reserved by anybody, as far as it is known here."""
        return self.amount - self.used(now) - self.elsewhere - self.reserved

    def use(self, now: float, amount: int) -> int:
        """Count `amount` as used. Returns what was used before."""
        return self.counter.add(now, amount)

    def take_back(self, at: float, amount: int) -> None:
        """What was counted as used at `at` was not used after all."""
        self.counter.take_back(at, amount)

    def take_back_oldest(self, at: float, amount: int) -> None:
        """What was counted as used at `at` or later was not used after all."""
        self.counter.take_back_oldest(at, amount)

    def free_at(self, now: float, amount: int) -> float:
        """When `amount` may be reserved, if nothing else is until then; infinity for never."""
        if amount > self.amount:
            return inf
        missing = amount - (self.amount - self.counter.advance(now))
        return now + SOON_S if missing <= 0 else self.counter.free_at(now, missing)

    def resets_at(self, now: float) -> float:
        """When nothing of what is used counts any more; infinity for never."""
        return self.counter.resets_at(now)

    def exhausted_at(self, now: float) -> float:
        """When nothing will be left, if use goes on as it does; infinity if the window begins anew
        before, or nothing is known."""
        if self.window is None:
            return inf
        left = self.amount - self.used(now)
        since = 0.0 if self.limit.since is None else self.limit.since.timestamp()
        return self._runs_out_at(now, left, since) if left > 0 else now

    def is_idle(self, now: float) -> bool:
        """Whether nothing would be lost if it were dropped."""
        return not self.reserved and not self.counter.advance(now)

    def _runs_out_at(self, now: float, left: int, since: float) -> float:
        return self.counter.runs_out_at(now, left, since)


class Slice(Balance):
    """The balance of a limit of which this machine is lent slices.

    `ceiling` is up to where it may use and reserve, `spent` what it has used since it began, and
    `acknowledged` what of that is known to the owner of all machines. `until` is the monotonic time
    up to which the slice holds; `reported_at` when it was last reported, and `report_number` under
    which number. The others hold `elsewhere`, of which they do not need `spare`; `machines` are
    known, `share` is what this one may keep and not need, and `is_pressed` tells that others lack
    what is held here. `needed_at` is when it was needed last. The owner's clock is `offset` seconds
    ahead. `is_away`: it cannot be reached. `is_retired`: the limit is in force no more. `machine`
    is this machine's name in the ledger: one for each slice, since it reports sums since it was
    made.
    """

    __slots__ = (
        "_monotonic",
        "acknowledged",
        "ceiling",
        "is_away",
        "is_pressed",
        "is_retired",
        "machine",
        "machines",
        "needed_at",
        "offset",
        "report_number",
        "reported_at",
        "share",
        "spare",
        "spent",
        "spent_alone",
        "until",
    )

    def __init__(
        self,
        number: int,
        name: str,
        limit: Limit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(number, name, limit)
        self._monotonic = monotonic
        self.ceiling = self.spent = self.acknowledged = 0
        self.spare = self.share = self.machines = self.report_number = 0
        self.until = self.offset = 0.0
        self.reported_at = -inf
        self.machine = secrets.token_hex(8)
        self.needed_at = monotonic()
        self.is_away = self.is_pressed = self.is_retired = False
        self.spent_alone = Counter(self.counter.window)
        """What was used here while the owner is away."""

    @property
    def holds(self) -> bool:
        """Whether the slice may be used."""
        return self._monotonic() < self.until

    @property
    def lent(self) -> int:
        """What is lent to this machine, reserved or not."""
        return self.ceiling - self.spent if self.holds else 0

    @property
    def held_by(self) -> HeldBy:
        """What decides here."""
        if not self.enforced:
            return "counted"
        if self.is_away and (self.limit.when_away != "closed" or not self.holds):
            return self.limit.when_away
        return "slice"

    def used(self, now: float) -> int:
        """See `Balance.used`: by all machines."""
        return self.counter.advance(now + self.offset)

    def room(self, used: int, now: float) -> int:
        """See `Balance.room`: of the slice."""
        if not self.enforced:
            return self.amount - used - self.reserved
        left = self.lent
        if self.is_away and self.limit.when_away == "open":
            # Of requests at one time each machine has as many by itself.
            return _MUCH if self.window is not None else self.amount - self.reserved
        if self.is_away and self.limit.when_away == "share":
            left = max(left, self._share_alone(now))
        return left - self.reserved

    def use(self, now: float, amount: int) -> int:
        """See `Balance.use`."""
        self.spent += amount
        if self.is_away:
            self.spent_alone.add(now + self.offset, amount)
        return self.counter.add(now + self.offset, amount)

    def take_back(self, at: float, amount: int) -> None:
        """See `Balance.take_back`. What the owner may know of stays used: what others were lent
        since rests on it."""
        if at > self.reported_at:
            self.spent -= amount
            self.counter.take_back(at + self.offset, amount)

    def take_back_oldest(self, at: float, amount: int) -> None:
        """See `Balance.take_back_oldest`: it stays used, as with `take_back`."""

    def free_at(self, now: float, amount: int) -> float:
        """See `Balance.free_at`."""
        if amount > self.amount:
            return inf
        missing = amount - (self.amount - self.used(now))
        if missing <= 0:
            return now + SOON_S
        return self.counter.free_at(now + self.offset, missing) - self.offset

    def resets_at(self, now: float) -> float:
        """See `Balance.resets_at`."""
        return self.counter.resets_at(now + self.offset) - self.offset

    def is_idle(self, now: float) -> bool:
        """See `Balance.is_idle`: once all is reported, the owner has it."""
        return not self.needs_report and not self.reserved

    @property
    def needs_report(self) -> bool:
        """Whether nothing was lent so far, something was used that is not reported, or is held.
        Whether the owner is back is found out by reporting."""
        if self.is_away or self.spent != self.acknowledged or not self.report_number:
            return True
        return self.enforced and (self.ceiling > self.spent or self.reserved > 0)

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was used than was lent, which the owner has to know before it lends that to
        others."""
        return self.enforced and not self.is_away and self.spent > self.ceiling

    def report(self, now: float, wanted: int = 0, least: int = 0) -> Report:
        """What is reported to the owner. What is not needed is given up first, so that nothing can
        be admitted with it while the owner lends it to others."""
        needed = self.spent + self.reserved
        ahead = wanted > 0 or self.spent != self.acknowledged or self.reserved > 0
        if ahead:
            self.needed_at = self._monotonic()
        elif self.window is not None:
            ahead = self._monotonic() - self.needed_at < KEPT_S
        ahead = ahead and self.enforced and not self.is_retired
        keep = max(wanted, self.share) if ahead and not self.is_pressed else wanted
        self.ceiling = min(self.ceiling, needed + keep) if self.holds else needed
        self.report_number += 1
        self.reported_at = now + 0.001
        return Report(
            machine=self.machine,
            number=self.report_number,
            amount=self.amount,
            spent=self.spent,
            acknowledged=self.acknowledged,
            reserved=self.reserved,
            ceiling=self.ceiling,
            wanted=wanted,
            least=least,
            ahead=ahead,
        )

    def take(self, loan: Loan, sent_at: float, held: bool, owners: float, now: float) -> None:
        """Take what is lent for a report that was made at `sent_at` of the monotonic clock, when
        the slice held or not; `owners` is the owner's time."""
        lapsed = held and not self.holds
        # Where the slice ran out on the way, the owner may have lent what was left of it to others.
        self.ceiling = self.spent + self.reserved if lapsed else loan.ceiling
        self.acknowledged = loan.spent
        self.until = sent_at + SLICE_S
        self.elsewhere, self.machines = loan.elsewhere, loan.machines
        self.spare, self.share = loan.spare, loan.share
        self.is_away, self.is_pressed = False, loan.pressed
        self.offset = owners - now
        self.counter.take(loan.counter)
        if self.window is not None and (more := self.spent - loan.spent) > 0:
            self.counter.add(owners, more)
        self.spent_alone.take(CounterState())

    def set_away(self, machines: int) -> None:
        """The owner cannot be reached. Of a limit of which nothing was ever heard so much is known:
        how many `machines` there are, as reported with other limits, 0 if that is not known."""
        self.is_away = True
        self.machines = self.machines or machines

    def _share_alone(self, now: float) -> int:
        """What a machine may use by itself: its part of what was not used when the owner was last
        heard, and of what has become free since."""
        others = max(0, self.machines - 1)
        unused = self.amount - self.used(now) - self.elsewhere
        return (unused - others * self.spent_alone.advance(now + self.offset)) // (others + 1)

    def _runs_out_at(self, now: float, left: int, since: float) -> float:
        return self.counter.runs_out_at(now + self.offset, left, since) - self.offset
