"""The orders in which accounts are chosen. Pure.

An order gives each account a key, the smallest of which is chosen. Keys may grow while an account
waits, and the queue need not be updated then.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from dragoman.accounts.decide.members import Member


class Order:
    """One way to choose. `key` gives the sort key of an account; keys of one order compare with
    each other. `improves` says that giving a lease back makes a key smaller, `counts` that each
    choice is reported to the order."""

    improves = False
    counts = False
    key: Callable[[Member], Any]

    def chosen(self, member: Member) -> None:
        """The account was chosen."""

    def joined(self, member: Member) -> None:
        """The account is new, or was out and may be chosen again."""


class LeastRecentlyUsed(Order):
    """Who was used longest ago, here or by another worker."""

    key = attrgetter("used")


class HighestBalance(Order):
    """Who has most tokens left; of equals, who was used longest ago.

    An account of which no balance is known counts as one that has none left.
    """

    def key(self, member: Member) -> tuple[float, float]:
        """What is left, the most first, and when it was used."""
        return -(member.balance or 0.0), member.used


class RoundRobin(Order):
    """Each in the order of definition, round after round, within its priority.

    Who cannot be chosen when its turn comes is passed over until the next round.
    """

    counts = True

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    def key(self, member: Member) -> int:
        """The round in which its turn comes."""
        round_, ordinal = self._last.get(member.priority, (0, -1))
        return round_ if member.ordinal > ordinal else round_ + 1

    def chosen(self, member: Member) -> None:
        """It is the next one's turn."""
        self._last[member.priority] = (self.key(member), member.ordinal)


class Weighted(Order):
    """In proportion to weights, evenly spread (stride scheduling), within each priority.

    Waldspurger and Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource
    Management", 1995. Who was out takes up the pass of the others, and claims nothing for the time
    it was away.
    """

    counts = True
    key = attrgetter("passed")

    def __init__(self) -> None:
        self._reached: dict[int, float] = {}

    def chosen(self, member: Member) -> None:
        """Its next turn is the later, the less it weighs."""
        self._reached[member.priority] = max(self._reached.get(member.priority, 0.0), member.passed)
        member.passed += 1.0 / member.settings.weight

    def joined(self, member: Member) -> None:
        """Start where the others are."""
        member.passed = max(member.passed, self._reached.get(member.priority, 0.0))


class LeastInFlight(Order):
    """Who has fewest requests in flight, over all workers; of equals, who was used longest ago."""

    improves = True

    def key(self, member: Member) -> tuple[int, float]:
        """Requests in flight, and when it was used."""
        return member.in_flight + member.in_flight_elsewhere, member.used


class MostQuotaLeft(Order):
    """Who has most left of the fullest of its quota windows, in steps of 2 %; of equals, who was
    used longest ago, so that they share the load between two reports.

    An account of which nothing is known counts as one that has everything left: its first answer
    reports it.
    """

    def key(self, member: Member) -> tuple[int, float]:
        """What is used, and when it was used."""
        return int(member.quota_used * 50), member.used


ORDERS: dict[str, type[Order]] = {
    "least_recently_used": LeastRecentlyUsed,
    "highest_balance": HighestBalance,
    "round_robin": RoundRobin,
    "weighted": Weighted,
    "least_in_flight": LeastInFlight,
    "most_quota_left": MostQuotaLeft,
}
"""Every order by its name in the configuration (`selection` of an upstream)."""
