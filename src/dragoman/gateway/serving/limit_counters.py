"""The counters of limits: found for each caller, made from rows of usage, compared with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain
from math import inf
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from dragoman.accounts.store import StoreError
from dragoman.config.access_rules import AccessRules
from dragoman.config.limits import Limit
from dragoman.config.windows import Rolling, span_of
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.serving.limit_slices import LimitSlices
from dragoman.gateway.serving.past_use import HOUR_S, PastUse, past_use
from dragoman.gateway.serving.pool_shares import Pools
from dragoman.keys.admission import (
    OWN_RESERVED,
    BoundLimit,
    BoundLimits,
    Counters,
    Counts,
    Crossing,
    Kind,
    Row,
    Verdict,
    Wanted,
    fitting_output,
    judge,
    reached,
    window_of,
    written,
)
from dragoman.keys.counters import PARTS, RESERVED, RESTORED, WHEN, cells_of
from dragoman.keys.records import UsedInHour

_log = logging.getLogger("dragoman.limits")

_RECLAIM_S = 0.5
"""Seconds between two looks for workers that are gone."""

_AUDIT_S = 300.0
"""Seconds between two comparisons of counters with rows of usage."""

_AUDIT_SOON_S = 1.0
"""Seconds to the next one where the last could not compare all, or a worker is gone."""

_ALARMING = 0.01
"""The share of a limit by which its counter may be wrong before that is an error."""

_PATIENCE_S = 1.0
"""Seconds for which a request waits for rows of usage in a database that several machines share: it
has what was used of a limit in another place, too."""

_HOUR_S = 3600


class UsedSince(Protocol):
    """What a key or a team has used since a time (Unix seconds), from rows of usage.

    Raises:
        StoreError: the store cannot be used.
    """

    def __call__(
        self, name: str, since: float, /, *, is_team: bool
    ) -> Awaitable[Sequence[UsedInHour]]: ...


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


def _view(one: BoundLimit, now: float) -> LimitView:
    used, reserved = one.used(now), one.row.cells[RESERVED]
    exhausted_at = inf
    if one.window is not None and one.is_known:
        since = 0.0 if one.limit.since is None else one.limit.since.timestamp()
        left = one.amount - used
        exhausted_at = one.counter.runs_out_at(now, left, since) if left > 0 else now
    return LimitView(one, used, reserved, one.counter.resets_at(now), exhausted_at)


class _Stand(NamedTuple):
    """How a counter stands: its cell `WHEN`, what it has that is in rows of usage, and whether
    there is more."""

    when: int
    used: int
    unwritten: bool


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
    other processes learn is known.
    """

    def __init__(
        self,
        open_counters: Callable[[], Counters],
        used_since: UsedSince | None = None,
        slices: LimitSlices | None = None,
        pools: Pools | None = None,
    ) -> None:
        self.pools = pools or Pools()
        """What shares of an upstream's accounts are of."""
        self.slices = slices
        """What borrows limits that several machines share; None if this one has them for itself."""
        self._open_counters = open_counters
        self._used_since = used_since
        self.shared: Counters = _CLOSED
        """Where they are, once a caller with limits was bound."""
        self._unwritten: list[Row] = []
        self._restoring = asyncio.Lock()
        # Of limits that are in force, or that a request under way has reserved for. Of others rows
        # of usage tell what their counters do not.
        self._audited: WeakValueDictionary[Row, BoundLimit] = WeakValueDictionary()
        self._resumed: WeakValueDictionary[Row, BoundLimit] = WeakValueDictionary()
        self._doubted: WeakKeyDictionary[BoundLimit, int] = WeakKeyDictionary()
        self._changing: WeakValueDictionary[str, BoundLimit] = WeakValueDictionary()
        self._bound: WeakValueDictionary[str, BoundLimit] = WeakValueDictionary()
        self.subscriptions: Collection[str] = ()
        """Names of upstreams whose accounts are paid by subscription."""
        self.drift = 0.0
        """By how much the last comparison with rows of usage found a counter wrong, at most, as a
        share of its limit."""
        self._tasks: list[asyncio.Task[None]] = []
        self.on_freed: Callable[[], object] = lambda: None
        self.on_reached: Callable[[Crossing], object] = lambda crossing: None

    async def close(self) -> None:
        """Give up what is reserved."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.pools.close()
        if self.slices is not None:
            await self.slices.close()
        self.shared.close()

    def _open(self) -> Counters:
        """From now on, what workers had that are gone is given back."""
        if self.shared is _CLOSED:
            self.shared = self._open_counters()
            self._tasks.append(asyncio.create_task(self._look_after(self.shared)))
            if self._used_since is not None:
                self._tasks.append(asyncio.create_task(self._keep_right(self.shared)))
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
        return sum(one.own[OWN_RESERVED] for one in self._bound.values() if one.kind is Kind.COST)

    async def views(self, caller: Caller) -> tuple[LimitView, ...]:
        """The limits of a caller, and what was used of them."""
        return self._views((caller.bound or await self.bind(caller)).all)

    async def views_of(
        self, name: str, limits: Iterable[Limit], *, is_team: bool
    ) -> tuple[LimitView, ...]:
        """The same for limits of a key or a team of this name."""
        bound = tuple([self._bound_limit(one, name, is_team) for one in limits])
        if not bound:
            return ()
        await self._restore_all(bound)
        return self._views(bound)

    async def past_use(
        self, name: str, limit: Limit, since: float, *, is_team: bool
    ) -> PastUse | None:
        """How a limit that a key or a team of this name need not have compares with what was used
        since a time (Unix seconds). None if rows of usage, which are sums of hours, cannot tell:
        of requests at one time, of a share, and of a window shorter than an hour.

        Raises:
            StoreError: the store cannot be used.
        """
        window = window_of(limit)
        if window is None or limit.share is not None or self._used_since is None:
            return None
        if isinstance(window, Rolling):
            if window.seconds < HOUR_S:
                return None
            begin = since - window.seconds
        else:
            begin = span_of(window, since)[0]
        if limit.since is not None:
            begin = max(begin, limit.since.timestamp())
        cells = memoryview(bytearray(8 * cells_of(window))).cast("q")
        bound = BoundLimit(limit, name, Row(cells, cells), is_team=is_team)
        used: Counter[int] = Counter()
        for row in await self._used_since(name, begin, is_team=is_team):
            if row.hour >= begin and bound.concerns((row.model,), (row.upstream,)):
                used[row.hour] += bound.amount_of(self._counts(row))
        return past_use(window, limit.units, sorted(used.items()), since)

    def _views(self, limits: Sequence[BoundLimit]) -> tuple[LimitView, ...]:
        now = time.time()
        self.shared.lock()
        try:
            return tuple([_view(one, now) for one in limits])
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

    def note_settled(self, rows: Sequence[Row]) -> None:
        """Something was settled in these rows."""
        if self._used_since is not None:
            self._unwritten += rows
            return
        for row in rows:
            written(row, row.settled)
            row.settled = 0

    def take_unwritten(self) -> Mapping[Row, int]:
        """What was settled since the last call, and goes into rows of usage."""
        rows, self._unwritten = self._unwritten, []
        taken: dict[Row, int] = {}
        for row in rows:
            if row.settled:
                taken[row] = row.settled
                row.settled = 0
        return taken

    def note_written(self, taken: Mapping[Row, int]) -> None:
        """What was taken is in rows of usage."""
        for row, amount in taken.items():
            written(row, amount)

    def restore_unwritten(self, taken: Mapping[Row, int]) -> None:
        """What was taken could not be written."""
        for row, amount in taken.items():
            row.settled += amount
        self._unwritten += taken

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
                if limit.window is not None:
                    if limit.row.is_restored and limit.row not in self._audited:
                        self._resumed[limit.row] = limit
                    self._audited[limit.row] = limit
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

    def _bound_limit(self, limit: Limit, owner: str, is_team: bool = False) -> BoundLimit:
        kind = "team" if is_team else "key"
        name = "\n".join([kind, owner, *map(str, limit.counted_as)])
        known = self._bound.get(name)
        if known is not None and known.limit == limit:
            return known
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
        since = _restored_since(limit, time.time())
        if since is not None and self._used_since is not None:
            try:
                used = await self._read_used(limit, since)
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

    async def _read_used(self, limit: BoundLimit, since: float) -> list[tuple[float, int]]:
        """When hours ended, and what was used in each.

        Raises:
            StoreError: the store cannot be used.
            TimeoutError: a database that several machines share does not answer.
        """
        if self.slices is None:
            rows = await self._rows(limit, since)
        else:
            if self.slices.away_since is not None:
                raise TimeoutError
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    rows = await self._rows(limit, since)
            except TimeoutError:
                self.slices.note_silence()
                raise
        return [
            (row.hour + _HOUR_S, limit.amount_of(self._counts(row)))
            for row in rows
            if limit.concerns((row.model,), (row.upstream,))
        ]

    async def _rows(self, limit: BoundLimit, since: float) -> Sequence[UsedInHour]:
        assert self._used_since is not None
        return await self._used_since(limit.owner, since, is_team=limit.is_team)

    async def _look_after(self, counters: Counters) -> None:
        while True:
            await asyncio.sleep(_RECLAIM_S)
            self._note_time()
            if counters.reclaim_lost():
                self.on_freed()

    async def _keep_right(self, counters: Counters) -> None:
        """Compare counters with rows of usage now and then. Apart from what else is looked after:
        of many limits it takes a while."""
        due, losses = time.monotonic() + _AUDIT_S, 0
        while True:
            await asyncio.sleep(_RECLAIM_S)
            known, losses = losses, counters.losses
            if losses != known:
                # What one that is gone had just written may have been taken back as if it had not:
                # by another worker, too, or the one in its place.
                due = min(due, time.monotonic() + _AUDIT_SOON_S)
            try:
                if self._resumed:
                    await self._catch_up()
                if time.monotonic() >= due:
                    due = time.monotonic() + _AUDIT_S
                    if not await self.audit():
                        due = time.monotonic() + _AUDIT_SOON_S
            except StoreError:
                pass
            except Exception:
                _log.exception("limits could not be compared with rows of usage")
                due = time.monotonic() + _AUDIT_SOON_S

    async def audit(self) -> bool:
        """Compare counters with rows of usage, and set right those that differ. Returns whether all
        were compared: what is written to rows meanwhile is left out.

        Raises:
            StoreError: the store cannot be used.
        """
        drift, done = 0.0, True
        async for limit, wrong in self._set_right(self._audited):
            if wrong is None:
                done = False
                continue
            share = abs(wrong) / max(limit.amount, 1)
            drift = max(drift, share)
            _log.log(
                logging.ERROR if share > _ALARMING else logging.WARNING,
                "%s of %s was counted as %+d of what rows of usage tell, and is set right",
                limit.name,
                limit.owner,
                wrong,
            )
        self.drift = drift
        return done

    async def _catch_up(self) -> None:
        """Set counters right that were there before the process came to know of their limits: those
        may have been removed, and what was used until they were there again is in rows alone.

        Raises:
            StoreError: the store cannot be used.
        """
        resumed, self._resumed = self._resumed, WeakValueDictionary()
        async for limit, wrong in self._set_right(resumed):
            if wrong is None:
                self._resumed[limit.row] = limit

    async def _set_right(
        self, limits: Mapping[Row, BoundLimit]
    ) -> AsyncIterator[tuple[BoundLimit, int | None]]:
        """Compare counters with rows of usage, and set right those that differ. Yields those, and
        by how much they did; None if that cannot be told yet.

        Raises:
            StoreError: the store cannot be used.
        """
        now = time.time()
        for limit in list(limits.values()):
            before = self._look(limit, now)
            least, most = await self._told(limit, now)
            doubted = self._doubted.pop(limit, None)
            self.shared.lock()
            try:
                stand = self._stand(limit, now)
                wrong = stand.used - min(max(stand.used, least), most)
                if stand == before and (not wrong or (wrong > 0 and _is_old(limit))):
                    continue
                told: int | None = wrong
                if stand != before or (stand.unwritten and doubted != wrong):
                    # Rows may have it already of which the counter does not know that yet.
                    told = None
                elif wrong > 0:
                    limit.counter.take_back_latest(wrong)
                else:
                    limit.counter.add(now, -wrong)
            finally:
                self.shared.unlock()
            if told is None:
                self._doubted[limit] = wrong
            yield limit, told

    async def _told(self, limit: BoundLimit, now: float) -> tuple[int, int]:
        """What was used of a limit by rows of usage, at least and at most. They are sums of hours,
        of which a window may have a part; count requests when they are over, which may have begun
        before; and have the name of a model that was asked for, which may stand for another."""
        assert limit.window is not None
        if isinstance(limit.window, Rolling):
            begin = now - limit.window.seconds
            first = begin - limit.window.seconds / PARTS
        else:
            begin = first = span_of(limit.window, now)[0]
        if limit.limit.since is not None:
            reset = limit.limit.since.timestamp()
            begin, first = max(begin, reset), max(first, reset)
        if limit.kind is Kind.REQUESTS and begin:
            begin += _HOUR_S
        least = most = 0
        for row in await self._rows(limit, first - _HOUR_S):
            if row.hour + _HOUR_S <= first:
                continue
            if limit.limit.upstream not in (None, row.upstream):
                continue
            amount = limit.amount_of(self._counts(row))
            most += amount
            if row.hour >= begin and limit.concerns((row.model,), (row.upstream,)):
                least += amount
        return least, most

    def _counts(self, row: UsedInHour) -> Counts:
        """What a row of usage comes to of each kind."""
        fresh = row.input - row.cached
        return (
            row.requests,
            fresh,
            row.output,
            fresh + row.output,
            row.cost,
            0,
            row.input,
            row.input + row.output,
            row.cache_write,
            row.reasoning,
            0 if row.upstream in self.subscriptions else row.cost,
        )

    def _look(self, limit: BoundLimit, now: float) -> _Stand:
        self.shared.lock()
        try:
            return self._stand(limit, now)
        finally:
            self.shared.unlock()

    def _stand(self, limit: BoundLimit, now: float) -> _Stand:
        """How a counter stands, with the lock held."""
        unwritten = self.shared.unwritten(limit.row)
        used = limit.counter.used(now) - unwritten
        return _Stand(limit.row.cells[WHEN], used, unwritten != 0)


def _is_old(limit: BoundLimit) -> bool:
    """Whether rows may tell less than what was used of a limit: when it was reset they were sums of
    hours, which are added up by the day, and then for all time."""
    return limit.limit.window == "total" and limit.limit.since is not None


def _restored_since(limit: BoundLimit, now: float) -> float | None:
    """From when on rows of usage count for a limit; None if they tell nothing of its window."""
    window = limit.window
    if window is None:
        return None
    if isinstance(window, Rolling):
        if window.seconds < _HOUR_S:
            return None
        since = now - window.seconds - _HOUR_S
    else:
        since = span_of(window, now)[0]
    if limit.limit.since is not None:
        since = max(since, limit.limit.since.timestamp())
    return since
