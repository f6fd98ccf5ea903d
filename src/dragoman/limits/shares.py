"""What the accounts of an upstream have in a window, learned from what they tell. Pure.

Vendors tell which share of an account's window is used, never of how much. What answers cost is
known here. While the share of an account went from 10 to 30 percent, so much was spent: five times
that is what it has. The beginning of a window that nobody saw here, before the gateway ran or
elsewhere, is in neither. What is used elsewhere meanwhile is in the share alone, so that less is
taken to be there: what is left for the gateway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from dragoman.limits.counters import Cells

POOL, UNTIL, LEARNER, LOOKED = range(4)
"""Cells of what is known of a pool: what its accounts have in a window (pico-dollars), and until
when that counts (milliseconds); which process learns, and when it last looked (milliseconds)."""
POOL_CELLS: Final = 4

LEAST: Final = 0.02
"""The share of a window by which its use must have grown before anything is learned from it: shares
are told in whole percent, so what is learned from this is up to a half off."""

LEAST_AGAIN: Final = 0.1
"""The same where something is known already."""

_HOUR_S: Final = 3600
_SAME_RESET: Final = 0.05
"""The part of a window by which two times of its reset may differ."""
_SAME_SHARE: Final = 0.01
"""By how much less may be told of one window by answers that were under way at the same time."""
_MOST: Final = 10**18
"""What a pool is believed to have at most."""

Spent = Mapping[str, Mapping[int, int]]
"""What was spent (pico-dollars) with each account in each hour, by its beginning (Unix seconds)."""


def known_pool(cells: Cells, now: float) -> int | None:
    """What a pool has; None if that is not known at `now`."""
    return cells[POOL] if now * 1000 < cells[UNTIL] else None


class ToldWindow(Struct, frozen=True):
    """An account's window, as its upstream told it at `told_at`: the share of it that is used, and
    when it begins anew, None if nobody said."""

    used: float
    resets_at: float | None
    told_at: float


class _Seen(Struct, frozen=True):
    """An account's window when it was first seen: the share that was used, when it begins anew, and
    what had been spent of the hour that it was in then."""

    used: float
    resets_at: float | None
    hour: int
    spent: int


class PoolLearner:
    """What is learned of the accounts of one upstream, of their window of so many `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: dict[str, _Seen] = {}
        self._each: dict[str, float] = {}

    def since(self, now: float) -> int:
        """From which hour on it has to be known what was spent."""
        return min((one.hour for one in self._seen.values()), default=_hour(now))

    def learn(
        self,
        accounts: Collection[str],
        windows: Mapping[str, ToldWindow],
        spent: Spent,
        now: float,
        *,
        is_known: bool,
    ) -> tuple[int, float] | None:
        """What all `accounts` have, and until when that counts; None if nothing new was learned.
        `windows` are those whose use is known at `now`. Of an account of which nothing was learned
        it is taken that it has what others have on average."""
        for gone in self._seen.keys() - set(accounts):
            del self._seen[gone]
            self._each.pop(gone, None)
        least = LEAST_AGAIN if is_known else LEAST
        told = 0.0
        for name in accounts:
            window = windows.get(name)
            if window is None:
                continue
            seen = self._seen.get(name)
            if seen is None or self._is_another(seen, window):
                hour = _hour(now)
                first = _Seen(window.used, window.resets_at, hour, _sum(spent, name, hour))
                self._seen[name] = first
                continue
            grown = window.used - seen.used
            cost = _sum(spent, name, seen.hour) - seen.spent
            # A share that grew at no cost tells of use elsewhere, or of models without a price.
            if cost > 0 and grown >= least:
                self._each[name] = cost / grown
                told = max(told, window.told_at)
        if not told:
            return None
        mean = sum(self._each.values()) / len(self._each)
        # Four digits: more of them would tell nothing.
        amount = int(float(f"{mean * len(accounts):.3e}"))
        return min(_MOST, amount), told + self._seconds

    def _is_another(self, seen: _Seen, window: ToldWindow) -> bool:
        """Whether a window has begun anew since it was first seen."""
        if window.used < seen.used - _SAME_SHARE:
            return True
        if seen.resets_at is None or window.resets_at is None:
            return False
        return abs(window.resets_at - seen.resets_at) > _SAME_RESET * self._seconds


def _hour(now: float) -> int:
    return int(now // _HOUR_S) * _HOUR_S


def _sum(spent: Spent, account: str, since: int) -> int:
    return sum(cost for hour, cost in spent.get(account, {}).items() if hour >= since)
