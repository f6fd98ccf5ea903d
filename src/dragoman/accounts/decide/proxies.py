"""Which proxy of a set a call goes through, and which of them rest. Pure.

A proxy that failed rests for a time that grows with failures in a row, varies, and is forgotten
with the first success or a while without failure. Accounts are not blamed for their proxies.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from dragoman.accounts.decide.states import Rest

PROXY_FAILED = "its proxy failed"

_BASE, _LONGEST = 1.0, 120.0
_FORGET_ONE_AFTER = 300.0


def rest_after(before: Rest | None, now: float, spread: float) -> Rest:
    """The rest of a proxy that failed at `now`; `before` is its last one.

    `spread` in [0, 1) varies it by a quarter either way.
    """
    streak = 1
    if before is not None:
        calm = int(max(0.0, now - before.until) / _FORGET_ONE_AFTER)
        streak = max(0, before.streak - calm) + 1
    seconds = min(_BASE * 2.0 ** min(streak - 1, 16), _LONGEST) * (0.75 + 0.5 * spread)
    return Rest(now + seconds, PROXY_FAILED, True, streak, now)


def same_failure(rest: Rest | None, taken: float, now: float) -> bool:
    """Whether a call that began at `taken` failed before `rest` began, and so counts with it."""
    return rest is not None and rest.until > now and taken < rest.since


class ProxySet:
    """`count` proxies, by their index, taken in turn."""

    def __init__(self, count: int) -> None:
        self._turns = deque(range(count))
        self._rests: list[Rest | None] = [None] * count
        self._resting: list[tuple[float, int]] = []

    def choose(self, now: float) -> int:
        """The next proxy in turn that does not rest; if all rest, the first to end its rest."""
        resting, rests = self._resting, self._rests
        while resting:
            until, index = resting[0]
            rest = rests[index]
            if rest is None or rest.until != until:
                heappop(resting)
            elif until <= now:
                heappop(resting)
                self._turns.append(index)
            else:
                break
        if not self._turns:
            return resting[0][1]
        index = self._turns.popleft()
        self._turns.append(index)
        return index

    def failed(self, index: int, taken: float, now: float, spread: float) -> Rest | None:
        """A call that took the proxy at `taken` did not get through it. Returns the rest that this
        begins; None if that failure was known."""
        before = self._rests[index]
        if same_failure(before, taken, now):
            return None
        rest = self._rests[index] = rest_after(before, now, spread)
        if index in self._turns:
            self._turns.remove(index)
        if len(self._resting) > 2 * len(self._rests):
            self._resting = [
                (other.until, position)
                for position, other in enumerate(self._rests)
                if other is not None and position not in self._turns
            ]
            heapify(self._resting)
        else:
            heappush(self._resting, (rest.until, index))
        return rest

    def succeeded(self, index: int, taken: float) -> None:
        """A call that took the proxy at `taken` got through it."""
        rest = self._rests[index]
        if rest is not None and taken >= rest.since:
            self._rests[index] = None
            if index not in self._turns:
                self._turns.append(index)

    def rest(self, index: int) -> Rest | None:
        """The last rest of the proxy that no success has ended; it may be over."""
        return self._rests[index]


def shown(url: str) -> str:
    """Host and port of a proxy's URL, which is all that may be shown: there may be a password."""
    _, _, rest = url.partition("://")
    rest = (rest or url).rpartition("@")[2]
    for mark in "/?#":
        rest = rest.partition(mark)[0]
    return rest
