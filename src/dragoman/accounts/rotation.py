"""Who is next: the accounts of one upstream, least recently used first.

`Rotation.choose` costs O(log n) amortised, however many accounts rest: accounts that cannot be used
wait in heaps ordered by when they can, apart from those that are ready.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable
from heapq import heappop, heappush

from msgspec import Struct

from dragoman.accounts.decisions import observe, standing
from dragoman.accounts.states import FOREVER, AccountState, Decision, Failed, Succeeded

_MAX_LANES = 256
"""Models for which an order is kept; the order of others is built again when asked for."""


class Shortage(Struct, frozen=True):
    """Why no account is left: reasons with the number of accounts, and the soonest return of one
    of them in seconds of the clock (None: none will return by itself).
    """

    reasons: tuple[tuple[str, int], ...]
    soonest: float | None


class _Lane:
    """The accounts that serve one model, each in exactly one place.

    `ready` is ordered by use, `avoided` (soft rests) and `resting` by when the rest ends; `off`
    are disabled. Entries of `ready` may be out of date, as an account is used for other models
    too; they are corrected when they come up.
    """

    __slots__ = ("avoided", "off", "ready", "resting", "why")

    def __init__(self, ready: list[tuple[int, str]]) -> None:
        self.ready = ready
        self.avoided: list[tuple[float, str]] = []
        self.resting: list[tuple[float, str, str]] = []
        self.off: dict[str, str] = {}
        self.why: Counter[str] = Counter()


class Rotation:
    """The accounts of one upstream and the order of their use.

    `serves(name, model)` tells whether an account may be used for a model at all.
    """

    __slots__ = ("_lanes", "_serves", "_states", "_turn", "_used")

    def __init__(
        self, names: Iterable[str], serves: Callable[[str, str], bool] = lambda name, model: True
    ) -> None:
        self._states = {name: AccountState(name) for name in names}
        self._used = {name: turn for turn, name in enumerate(self._states)}
        self._turn = len(self._used)
        self._serves = serves
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def state(self, name: str) -> AccountState:
        """What is known of the account."""
        return self._states[name]

    def choose(self, model: str, tried: Container[str], now: float) -> str | None:
        """The least recently used account that may serve `model` and is not in `tried`, marked as
        used; None if there is none.

        Accounts that are merely to be avoided come last, the one whose rest ends first before the
        others.
        """
        lane = self._lane(model)
        self._wake(lane, now)
        name = self._take_ready(lane, model, tried, now)
        if name is None:
            name = self._take_avoided(lane, model, tried, now)
        if name is not None:
            self._turn += 1
            self._used[name] = self._turn
        return name

    def observe(self, name: str, decision: Decision, model: str, now: float) -> None:
        """Take note of a failure of the account."""
        self._states[name] = observe(self._states[name], Failed(decision), model, now)

    def succeeded(self, name: str, model: str, now: float) -> None:
        """Take note of a good answer of the account."""
        self._states[name] = observe(self._states[name], Succeeded(), model, now)

    def enable(self, name: str) -> None:
        """Forget all that is held against the account."""
        self._states[name] = AccountState(name)
        self._lanes.clear()

    def usable(self, now: float) -> bool:
        """Whether any account could be used for some model."""
        return any(
            not state.disabled and (state.exhausted is None or state.exhausted.until <= now)
            for state in self._states.values()
        )

    def shortage(self, model: str) -> Shortage:
        """Why `choose` has just found no account for `model`."""
        lane = self._lane(model)
        reasons = lane.why.copy()
        # Whoever is merely avoided was chosen, and so tried: there are few.
        for _, name in lane.avoided:
            rest = self._states[name].cooling.get(model)
            if rest is not None:
                reasons[rest.why] += 1
        soonest = lane.resting[0][0] if lane.resting else None
        return Shortage(tuple(sorted(reasons.items())), soonest)

    def _lane(self, model: str) -> _Lane:
        lane = self._lanes.get(model)
        if lane is None:
            ready = sorted(
                (used, name) for name, used in self._used.items() if self._serves(name, model)
            )
            lane = self._lanes[model] = _Lane(ready)
            if len(self._lanes) > _MAX_LANES:
                self._lanes.popitem(last=False)
        return lane

    def _wake(self, lane: _Lane, now: float) -> None:
        while lane.resting and lane.resting[0][0] <= now:
            _, name, why = heappop(lane.resting)
            lane.why[why] -= 1
            if not lane.why[why]:
                del lane.why[why]
            heappush(lane.ready, (self._used[name], name))
        while lane.avoided and lane.avoided[0][0] <= now:
            _, name = heappop(lane.avoided)
            heappush(lane.ready, (self._used[name], name))

    def _take_ready(self, lane: _Lane, model: str, tried: Container[str], now: float) -> str | None:
        passed_over: list[tuple[int, str]] = []
        chosen = None
        while lane.ready and chosen is None:
            used, name = heappop(lane.ready)
            if used != self._used[name]:
                heappush(lane.ready, (self._used[name], name))
                continue
            rest = standing(self._states[name], model, now)
            if rest is None:
                if name not in tried:
                    chosen = name
                passed_over.append((used, name))
            elif rest.soft:
                heappush(lane.avoided, (rest.until, name))
            elif rest.until == FOREVER:
                lane.off[name] = rest.why
                lane.why[rest.why] += 1
            else:
                heappush(lane.resting, (rest.until, name, rest.why))
                lane.why[rest.why] += 1
        for entry in passed_over:
            heappush(lane.ready, entry)
        return chosen

    def _take_avoided(
        self, lane: _Lane, model: str, tried: Container[str], now: float
    ) -> str | None:
        passed_over: list[tuple[float, str]] = []
        chosen = None
        while lane.avoided and chosen is None:
            entry = until, name = heappop(lane.avoided)
            rest = standing(self._states[name], model, now)
            if rest is None or not rest.soft:
                heappush(lane.ready, (self._used[name], name))
                if rest is None and name not in tried:
                    chosen = name
                continue
            if rest.until != until:
                heappush(lane.avoided, (rest.until, name))
                continue
            if name not in tried:
                chosen = name
            passed_over.append(entry)
        for entry in passed_over:
            heappush(lane.avoided, entry)
        return chosen
