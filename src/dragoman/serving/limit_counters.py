"""The counters of limits: found for each caller, made from rows of usage, and shown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Sequence,
)
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain
from math import inf
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from dragoman.accounts.store import StoreError
from dragoman.config.access_rules import AccessRules
from dragoman.config.limits import Limit
from dragoman.edge.auth import Caller
from dragoman.limits.admission import Verdict, Wanted, fitting_output, judge
from dragoman.limits.bound_limits import BoundLimit, BoundLimits, Kind, bound_apart, window_of
from dragoman.limits.counters import RESERVED, RESTORED, cells_of
from dragoman.limits.crossings import Crossing, reached
from dragoman.limits.rows import OWN_RESERVED, Counters, Row
from dragoman.serving.limit_audit import LimitAudit
from dragoman.serving.limit_reservations import LimitReservations
from dragoman.serving.limit_slices import LimitSlices
from dragoman.serving.pool_shares import Pools
from dragoman.serving.usage_history import (
    UsageHistory,
    UsedSince,
    UsersSince,
    told_since,
)

_log = logging.getLogger("dragoman.limits")

_RECLAIM_S = 0.5
"""Seconds between two looks for workers that are gone."""

_AT_ONCE = 25
"""Keys whose limits are looked at before others have their turn."""

_COUNTED_AT_ONCE = 500
"""The same, where it is only asked whether there are counters."""


class LimitView(NamedTuple):
    """A limit, what is used of it and what is reserved; `resets_at` is when nothing of what is used
    counts any more, in Unix seconds, infinity for never, and `exhausted_at` when nothing will be
    left, if use goes on as it does; infinity if it begins anew before, or nothing is known."""

    bound: BoundLimit
    used: int
    reserved: int
    resets_at: float
    exhausted_at: float

    @property
    def amount(self) -> int | None:
        """How much may be used, with what is granted; None of a share of what is not known."""
        return self.bound.amount if self.bound.is_known else None

    @property
    def granted(self) -> int:
        """What of it is granted for a time."""
        return self.bound.amount - self.bound.limit.units_of(self.bound.pool)

    @property
    def remaining(self) -> int | None:
        """What is left; None if that is not known."""
        most = self.amount
        return None if most is None else max(0, most - self.used - self.reserved)


def _view(counters: Counters, one: BoundLimit, now: float) -> LimitView:
    used, reserved = one.used(now), one.row.cells[RESERVED] - counters.ahead(one.row)
    exhausted_at = inf
    if one.window is not None and one.is_known:
        since = 0.0 if one.limit.since is None else one.limit.since.timestamp()
        left = one.amount - used
        exhausted_at = one.counter.runs_out_at(now, left, since) if left > 0 else now
    return LimitView(one, used, reserved, one.counter.resets_at(now), exhausted_at)


def _name_of(limit: Limit, owner: str, is_team: bool) -> str:
    """The name of a limit's counter."""
    return "\n".join(["team" if is_team else "key", owner, *map(str, limit.counted_as)])


class _Closed:
    """Stands where no counters are open."""

    def close(self) -> None:
        """There is nothing to give up."""


_CLOSED: Any = _Closed()


class LimitCounters:
    """The counters of the limits of all callers.

    `open_counters` is called for the first limit: whoever sets
    none has no counters. `used_since` reads rows of usage; None if nothing is stored, and then what
    was used before the process began counts for nothing. `on_freed` is called when what workers had
    that are gone was given back, `on_reached` with what was reached of limits that are looked at
    for the first time, as they are. `pools` learns what shares of accounts are of; without it, what
    other processes learn is known. `users_since` tells at
    once who of many has used nothing.
    """

    def __init__(
        self,
        open_counters: Callable[[], Counters],
        used_since: UsedSince | None = None,
        slices: LimitSlices | None = None,
        pools: Pools | None = None,
        users_since: UsersSince | None = None,
    ) -> None:
        self.pools = pools or Pools()
        """What shares of an upstream's accounts are of."""
        self.slices = slices
        """What borrows limits that several machines share; None if this one has them for itself."""
        self._open_counters = open_counters
        self.history = UsageHistory(used_since, users_since, slices)
        """What rows of usage tell of limits."""
        self.audit = LimitAudit(self.history)
        """What compares the counters with them."""
        self.reservations = LimitReservations(_CLOSED, is_kept=self.history.is_kept)
        """What requests reserve and use."""
        self._restoring = asyncio.Lock()
        self._changing: WeakValueDictionary[str, BoundLimit] = WeakValueDictionary()
        self._bound: WeakValueDictionary[str, BoundLimit] = WeakValueDictionary()
        self._tasks: list[asyncio.Task[None]] = []
        self.on_freed: Callable[[], object] = lambda: None
        self.on_reached: Callable[[Crossing], object] = lambda crossing: None

    @property
    def shared(self) -> Counters:
        """Where they are, once a caller with limits was bound."""
        return self.reservations.counters

    async def close(self) -> None:
        """Give up what is reserved."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.reservations.close()
        await self.pools.close()
        if self.slices is not None:
            await self.slices.close()
        self.shared.close()

    def _open(self) -> Counters:
        """From now on, what workers had that are gone is given back."""
        if self.shared is _CLOSED:
            self.reservations.counters = self._open_counters()
            self._tasks.append(asyncio.create_task(self._look_after(self.shared)))
            if self.history.is_kept:
                self._tasks.append(asyncio.create_task(self.audit.run(self.shared)))
            if self.slices is not None:
                self.slices.on_lent = lambda: self.on_freed()
        return self.shared

    def expect(self, rules: Iterable[AccessRules]) -> None:
        """Learn what shares are of before anybody comes who is held to one."""
        for limit in chain.from_iterable(one.limits for one in rules):
            if limit.upstream is not None and limit.window is not None:
                self.pools.bound(self._open(), limit.upstream, limit.window)

    def reserved_cost(self) -> int:
        """Pico-dollars that requests of this worker have reserved, at each of their limits."""
        costs = (one for one in self._bound.values() if one.kind is Kind.COST)
        return sum(one.own[OWN_RESERVED] - one.row.room - one.row.used for one in costs)

    async def views(self, caller: Caller) -> tuple[LimitView, ...]:
        """The limits of a caller, and what was used of them."""
        return self._views((caller.bound or await self.bind(caller)).all)

    async def views_of(
        self, name: str, limits: Iterable[Limit], *, is_team: bool
    ) -> tuple[LimitView, ...]:
        """The same for limits of a key or a team of this name."""
        owners = [(name, tuple(limits))]
        (views,) = [views async for _, views in self.views_of_all(owners, is_team=is_team)]
        return views

    async def counted(
        self, owners: Sequence[tuple[str, Sequence[Limit]]], *, is_team: bool
    ) -> list[int]:
        """The places of those of several keys or teams of which a limit has a counter: of all
        others nothing was counted of late."""
        found: list[int] = []
        for place, (owner, limits) in enumerate(owners):
            if any(self._open().known(_name_of(one, owner, is_team)) for one in limits):
                found.append(place)
            if place % _COUNTED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def views_of_all(
        self, owners: Sequence[tuple[str, Sequence[Limit]]], *, is_team: bool
    ) -> AsyncIterator[tuple[int, tuple[LimitView, ...]]]:
        """The same for each of several keys or teams, by their names and limits, with the place of
        each; others have their turn now and then.

        Where nothing was counted no counter is made: there is room for so many, and who only looks
        must not take it from those who are to be counted. Where something was, as rows of usage
        tell, one is, so that these are read once."""
        users: Collection[str] | None = None
        users_begin = inf
        for start in range(0, len(owners), _AT_ONCE):
            looked: list[list[BoundLimit]] = []
            uncounted: set[BoundLimit] = set()
            for owner, limits in owners[start : start + _AT_ONCE]:
                looked.append([])
                for limit in limits:
                    one = self._counted(limit, owner, is_team)
                    if one is None:
                        one = self._uncounted(limit, owner, is_team)
                        uncounted.add(one)
                    looked[-1].append(one)
            now = time.time()
            begins = {one: told_since(one, now) for one in uncounted}
            first = min((begin for begin in begins.values() if begin is not None), default=inf)
            if len(owners) > 1 and first < users_begin:
                users, users_begin = await self.history.users(first, is_team), first
            for number, some in enumerate(looked, start):
                for place, one in enumerate(some):
                    if one not in uncounted:
                        await self._restore_all((one,))
                    elif begins[one] is not None and (users is None or one.owner in users):
                        await self._restore(one)
                        if one.used(now):
                            some[place] = one = self._bound_limit(one.limit, one.owner, is_team)
                            await self._restore_all((one,))
                yield number, self._views(some)
            await asyncio.sleep(0)

    def _views(self, limits: Sequence[BoundLimit]) -> tuple[LimitView, ...]:
        if not limits:
            return ()
        self.reservations.publish(limits)
        now = time.time()
        self.shared.lock()
        try:
            return tuple([_view(self.shared, one, now) for one in limits])
        finally:
            self.shared.unlock()

    def fitting(self, bound: BoundLimits, wanted: Wanted) -> int | None:
        """The output limit that a request would be given, None if it is left as it is."""
        if not bound.all:
            return None
        self.shared.lock()
        try:
            return fitting_output(bound.all, wanted, time.time())
        finally:
            self.shared.unlock()

    def judge(self, bound: BoundLimits, wanted: Wanted) -> tuple[Verdict, ...]:
        """What each limit would say of a request; nothing is reserved."""
        if not bound.all:
            return ()
        self.shared.lock()
        try:
            return judge(bound.all, bound.most(wanted.counts()), time.time())
        finally:
            self.shared.unlock()

    def waiting(self, row: Row) -> AbstractContextManager[None]:
        """A request waits for its turn at a limit, inside."""
        return nullcontext() if self.slices is None else self.slices.waiting(row)

    async def bind(self, caller: Caller) -> BoundLimits:
        """The limits of a caller with their counters; the caller keeps them."""
        limits = tuple(
            chain(
                (self._bound_limit(one, caller.name) for one in caller.limits),
                (self._bound_limit(one, caller.team, True) for one in caller.team_limits),
            )
        )
        if self.slices is None:
            for limit in limits:
                self.audit.watch(limit)
        await self._restore_all(limits)
        bound = caller.bound = BoundLimits(limits)
        self._tell_reached(limits)
        return bound

    def _tell_reached(self, limits: Sequence[BoundLimit]) -> None:
        counted = [one for one in limits if one.window is not None and one.amount]
        if not counted:
            return
        now = time.time()
        self.shared.lock()
        try:
            found = [Crossing(one, share) for one in counted if (share := reached(one, now))]
        finally:
            self.shared.unlock()
        for crossing in found:
            self.on_reached(crossing)

    async def _restore_all(self, limits: Sequence[BoundLimit]) -> None:
        if not all(limit.row.is_restored for limit in limits):
            async with self._restoring:
                for limit in limits:
                    if not limit.row.is_restored:
                        await self._restore(limit)

    def _counted(self, limit: Limit, owner: str, is_team: bool) -> BoundLimit | None:
        """A limit with its counter; None if it has none yet."""
        known = self._open().known(_name_of(limit, owner, is_team))
        return None if known is None else self._bound_limit(limit, owner, is_team)

    def _uncounted(self, limit: Limit, owner: str, is_team: bool) -> BoundLimit:
        """A limit with a counter that nobody else has."""
        bound = bound_apart(limit, owner, is_team=is_team)
        if limit.upstream is not None and limit.window is not None:
            bound.pool_cells = self.pools.bound(self._open(), limit.upstream, limit.window)
        bound.note_time(time.time())
        return bound

    def _bound_limit(self, limit: Limit, owner: str, is_team: bool = False) -> BoundLimit:
        name = _name_of(limit, owner, is_team)
        known = self._bound.get(name)
        if known is not None and known.limit == limit:
            return known
        if known is not None:
            # What was taken ahead was taken by what the limit said.
            self.reservations.publish((known,))
        row = self._open().row(name, cells_of(window_of(limit)))
        bound: BoundLimit
        if self.slices is not None:
            bound = self.slices.bound(self.shared, limit, owner, row, name, is_team)
        else:
            bound = BoundLimit(limit, owner, row, is_team=is_team)
        if limit.upstream is not None and limit.window is not None:
            bound.pool_cells = self.pools.bound(self.shared, limit.upstream, limit.window)
        if bound.pool_cells is not None or limit.granted_ends > time.time():
            bound.note_time(time.time())
            self._changing[name] = bound
        else:
            self._changing.pop(name, None)
        self._bound[name] = bound
        return bound

    def _note_time(self) -> None:
        """What was granted for a time that is over holds no longer, and what is learned of pools
        changes the shares of them."""
        now = time.time()
        for name, bound in list(self._changing.items()):
            bound.note_time(now)
            if bound.pool_cells is None and now >= bound.limit.granted_ends:
                del self._changing[name]

    async def _restore(self, limit: BoundLimit) -> None:
        """Count what was used before the counter was made, as far as rows of usage tell. These are
        sums of hours, so windows shorter than one begin empty."""
        used: Sequence[tuple[float, int]] = ()
        since = told_since(limit, time.time())
        if since is not None and self.history.is_kept:
            try:
                used = await self.history.hours(limit, since)
            except (StoreError, TimeoutError) as error:
                reason = str(error) or "no answer"
                _log.error("what was used of a limit is not known, so it begins at 0: %s", reason)
        self.shared.lock()
        try:
            if limit.row.is_restored:
                return
            now = time.time()
            for end, amount in used:
                limit.counter.add(min(end, now), amount)
            limit.row.cells[RESTORED] = 1
        finally:
            self.shared.unlock()

    async def _look_after(self, counters: Counters) -> None:
        while True:
            await asyncio.sleep(_RECLAIM_S)
            self._note_time()
            if counters.reclaim_lost():
                self.on_freed()
