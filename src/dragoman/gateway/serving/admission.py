"""Requests are held to the limits of keys and teams, exactly over the workers of a machine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, NoReturn, Protocol

from dragoman.accounts.store import StoreError
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.usage import Usage
from dragoman.config.limits import Limit
from dragoman.config.windows import Fixed, Rolling, span_of
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.errors import Headers
from dragoman.gateway.edge.incoming import IncomingRequest, while_connected
from dragoman.gateway.edge.record import Record
from dragoman.gateway.serving.limits_told import (
    CLAMPED_HEADER,
    queue_full,
    rate_lines,
    refused,
    soft_headers,
    unpriced,
)
from dragoman.gateway.serving.routing import Target
from dragoman.gateway.serving.turn_queue import TurnQueue
from dragoman.keys.admission import (
    Admitted,
    BoundLimit,
    BoundLimits,
    Counters,
    Crossing,
    Kind,
    Refusal,
    Reservation,
    Row,
    Wanted,
    admit,
    fitting_output,
    settle,
    window_of,
    written,
)
from dragoman.keys.counters import RESERVED, RESTORED, USED, WHEN, cells_of
from dragoman.keys.estimates import Estimates, text_and_files
from dragoman.keys.records import UsedInHour
from dragoman.keys.ring import KeyRing
from dragoman.prices.lookup import Prices
from dragoman.prices.rates import TIERS
from dragoman.protocols.base import to_json
from dragoman.translation import ClientRequest
from dragoman.translation.estimate import estimate_tokens
from dragoman.upstream.errors import UNSENT_CAUSES

_log = logging.getLogger("dragoman.limits")

_RECLAIM_S = 0.5
"""Seconds between two looks for workers that are gone."""

_LEARNT_ALL = 100
"""Requests of a worker that all are learned from; later, every fourth."""

_AUDIT_S = 300.0
"""Seconds between two comparisons of counters with rows of usage."""

_AUDIT_SOON_S = 1.0

_HOUR_S = 3600
_PLAIN = Usage()


class UsedSince(Protocol):
    """What keys have used together since a time (Unix seconds), from rows of usage.

    Raises:
        StoreError: the store cannot be used.
    """

    def __call__(
        self, names: Sequence[str], since: float, /
    ) -> Awaitable[Sequence[UsedInHour]]: ...


class LimitView(NamedTuple):
    """A limit, what is used of it and what is reserved; `resets_at` is when nothing of what is used
    counts any more, in Unix seconds, infinity for never."""

    bound: BoundLimit
    used: int
    reserved: int
    resets_at: float


class Admission:
    """Lets requests in and settles what they came to.

    `ring` tells which keys a team has. `open_counters` is called for the first limit: whoever sets
    none has no counters. `used_since` reads rows of usage; None if nothing is stored, and then what
    was used before the process began counts for nothing.
    """

    def __init__(
        self,
        ring: KeyRing,
        open_counters: Callable[[], Counters],
        used_since: UsedSince | None = None,
    ) -> None:
        self._ring = ring
        self._open_counters = open_counters
        self._used_since = used_since
        self._opened: Counters | None = None
        self._estimates = Estimates()
        self._settled = 0
        self._queues: dict[Row, TurnQueue[Reservation | Refusal]] = {}
        self._unwritten: list[Row] = []
        self._restoring = asyncio.Lock()
        self._audited: dict[Row, BoundLimit] = {}
        self.drift = 0
        """How much the last audit had to add or take away, in units of whatever it was."""
        self._task: asyncio.Task[None] | None = None
        self.on_crossing: Callable[[Crossing], None] = _log_crossing

    async def close(self) -> None:
        """Give up what is reserved."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._opened is not None:
            self._opened.close()

    @property
    def _counters(self) -> Counters:
        """The counters; those that were had by workers that are gone are given back from the time
        they are opened."""
        if self._opened is None:
            self._opened = self._open_counters()
            self._task = asyncio.create_task(self._look_after(self._opened))
        return self._opened

    async def admit(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        request: ClientRequest,
        target: Target,
        prices: Prices,
    ) -> ClientRequest:
        """Reserve for a request at all limits of its caller. Returns the request, with a lower
        output limit if it was clamped.

        Raises:
            DragomanError: a limit refuses it, or the model has no price; nothing is reserved.
            ClientGone: the client left while it waited for its turn.
        """
        bound = caller.bound
        if bound is None:
            bound = await self._bind(caller)
        if bound.has_models:
            bound = bound.concerning(record.model)
        wanted, size = _NO_TOKENS, 0
        if bound.needs_tokens:
            wanted, size = self._wanted(bound, caller, request, target, prices)
            if wanted.cost is None and bound.budget is not None:
                told = unpriced(bound.budget, record.model)
                self._refuse(incoming, record, bound.budget, told)
            if bound.clamps and wanted.output:
                fits = self._fitting(bound, wanted)
                if fits is not None:
                    request = _clamped(request, fits)
                    incoming.shared.append((CLAMPED_HEADER, b"%d" % fits))
                    wanted, size = self._wanted(bound, caller, request, target, prices)
        amounts = wanted.amounts()
        found = self._try(bound.all, amounts)
        if isinstance(found, Refusal):
            found = await self._waited(incoming, caller, record, bound.all, amounts, found)
        record.admitted = Admitted(caller.name, found, size, bound.budget is not None)
        if found.exceeded:
            record.exceeded = tuple([f"{one.name} {one.limit.mode}" for one in found.exceeded])
        for crossing in found.crossings:
            self.on_crossing(crossing)
        if bound.rates and caller.shows_amounts:
            incoming.lines += rate_lines(incoming.codec, bound.rates, found.at)
        if bound.soft:
            incoming.shared += soft_headers(bound.soft, found.at)
        return request

    def _fitting(self, bound: BoundLimits, wanted: Wanted) -> int | None:
        self._counters.lock()
        try:
            return fitting_output(bound.all, wanted, time.time())
        finally:
            self._counters.unlock()

    def settle(self, record: Record) -> None:
        """A request is over: what it reserved is given back, and what it used is counted. Harmless
        for one that has reserved nothing, or was settled before."""
        admitted, record.admitted = record.admitted, None
        if admitted is None:
            return
        counters = self._counters
        spent = spent_by(record)
        counters.lock()
        try:
            changed, crossings = settle(admitted.reservation, spent, time.time())
        finally:
            counters.unlock()
        if self._used_since is not None:
            self._unwritten += changed
        else:
            for row in changed:
                written(row, row.settled)
                row.settled = 0
        for crossing in crossings:
            self.on_crossing(crossing)
        self._settled += 1
        if record.usage is not None and (self._settled < _LEARNT_ALL or not self._settled & 3):
            self._learn(admitted, record, record.usage)
        if self._queues:
            self._serve_queues(admitted.reservation.limits)

    # What rows of usage tell

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

    # Limits

    async def views(self, caller: Caller) -> tuple[LimitView, ...]:
        """The limits of a caller, and what was used of them."""
        bound = caller.bound or await self._bind(caller)
        counters, now = self._counters, time.time()
        counters.lock()
        try:
            return tuple(
                LimitView(
                    one,
                    one.counter.used(now),
                    one.row.cells[RESERVED],
                    one.counter.resets_at(now),
                )
                for one in bound.all
            )
        finally:
            counters.unlock()

    def refuses_target(self, record: Record, target: Target, prices: Prices) -> bool:
        """Whether a fallback may not be asked, for it has no price and the caller has a budget."""
        admitted = record.admitted
        if admitted is None or not admitted.refuses_unpriced:
            return False
        return prices.charge(target.upstream.name, target.model, _PLAIN, time.time()).cost is None

    async def _bind(self, caller: Caller) -> BoundLimits:
        limits = tuple(
            chain(
                (self._bound_limit(one, caller.name) for one in caller.limits),
                (self._bound_limit(one, caller.team, True) for one in caller.team_limits),
            )
        )
        if not all(limit.row.is_restored for limit in limits):
            async with self._restoring:
                for limit in limits:
                    if not limit.row.is_restored:
                        await self._restore(limit)
        self._audited |= {limit.row: limit for limit in limits if _is_audited(limit)}
        bound = caller.bound = BoundLimits(limits)
        return bound

    def _bound_limit(self, limit: Limit, owner: str, is_team: bool = False) -> BoundLimit:
        kind = "team" if is_team else "key"
        name = "\n".join([kind, owner, *map(str, limit.counted_as)])
        row = self._counters.row(name, cells_of(window_of(limit)))
        return BoundLimit(limit, owner, row, is_team=is_team)

    async def _restore(self, limit: BoundLimit) -> None:
        """Count what was used before the counter was made, as far as rows of usage tell. These are
        sums of hours, so windows shorter than one begin empty."""
        used: Sequence[tuple[float, int]] = ()
        since = _restored_since(limit, time.time())
        if since is not None and self._used_since is not None:
            try:
                used = await self._read_used(limit, since)
            except StoreError as error:
                _log.error("what was used of a limit is not known, so it begins at 0: %s", error)
        self._counters.lock()
        try:
            if limit.row.is_restored:
                return
            now = time.time()
            for end, amount in used:
                limit.counter.add(min(end, now), amount)
            limit.row.cells[RESTORED] = 1
        finally:
            self._counters.unlock()

    async def _read_used(self, limit: BoundLimit, since: float) -> list[tuple[float, int]]:
        """When hours ended, and what was used in each."""
        assert self._used_since is not None
        names = self._ring.members(limit.owner) if limit.is_team else [limit.owner]
        rows = await self._used_since(names, since)
        return [
            (row.hour + _HOUR_S, _counted(row, limit.kind))
            for row in rows
            if limit.concerns(row.model)
        ]

    # Within

    def _wanted(
        self,
        bound: BoundLimits,
        caller: Caller,
        request: ClientRequest,
        target: Target,
        prices: Prices,
    ) -> tuple[Wanted, int]:
        """What a request may come to, and of how many bytes its prompt is."""
        upstream, model = target.upstream.name, target.model
        size, files = text_and_files(request.body)
        if size:
            prompt = self._estimates.input(upstream, model, size, files)
        else:
            prompt = estimate_tokens(request.read(_UNSEALED))
        output = _asked_output(request)
        if output is None:
            output = self._estimates.output(caller.name, model)
        most = target.capabilities.max_output_tokens
        if most is not None and output > most:
            output = most
        if files:
            size = 0
        if not bound.needs_cost:
            return Wanted(prompt, output), size
        written = prompt if b'"cache_control"' in request.body else None
        tier = _asked_tier(request) if "service_tier" in request.members else None
        now, plain = time.time(), 0
        if bound.clamps:
            without = Usage(input=prompt, cache_write=written, tier=tier)
            plain = prices.charge(upstream, model, without, now).cost or 0
        usage = Usage(input=prompt, output=output, cache_write=written, tier=tier)
        return Wanted(prompt, output, plain, prices.charge(upstream, model, usage, now).cost), size

    def _try(self, limits: Sequence[BoundLimit], amounts: Sequence[int]) -> Reservation | Refusal:
        counters, queues = self._counters, self._queues
        assert counters is not None
        if queues:
            # Whoever waits comes before whoever has just come.
            for limit in limits:
                queue = queues.get(limit.row)
                if queue is not None and queue.count:
                    return Refusal(limit, 1, time.time() + 1.0)
        counters.lock()
        try:
            return admit(limits, amounts, time.time())
        finally:
            counters.unlock()

    async def _waited(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        limits: Sequence[BoundLimit],
        amounts: Sequence[int],
        refusal: Refusal,
    ) -> Reservation:
        """What a request is given that waits for its turn, where that is to be.

        Raises:
            DragomanError: it is refused.
            ClientGone: the client left.
        """
        limit = refusal.limit
        counters = self._counters
        if limit.kind is Kind.CONCURRENT and limit.limit.queue_s and limit.amount:
            queue = self._queues.get(limit.row)
            if queue is None:
                queue = self._queues[limit.row] = TurnQueue(self._give_back)
            if queue.count >= limit.limit.queue_size:
                self._refuse(incoming, record, limit, queue_full(limit))

            def attempt() -> Reservation | Refusal | None:
                counters.lock()
                try:
                    found = admit(limits, amounts, time.time())
                finally:
                    counters.unlock()
                if isinstance(found, Refusal) and found.limit.row is limit.row:
                    return None
                return found

            given: list[Reservation | Refusal | None] = []

            async def wait() -> None:
                given.append(await queue.wait(caller.name, attempt, limit.limit.queue_s))

            try:
                await while_connected(incoming, wait())
            except BaseException:
                # It may have been cancelled in the same turn of the loop in which it was given.
                for one in given:
                    if one is not None:
                        self._give_back(one)
                raise
            finally:
                if not queue.count:
                    self._queues.pop(limit.row, None)
            found = given[0]
            if isinstance(found, Reservation):
                return found
            refusal = found or refusal
        counters.lock()
        try:
            told = refused(refusal, time.time(), shows_amounts=caller.shows_amounts)
        finally:
            counters.unlock()
        self._refuse(incoming, record, refusal.limit, told)

    def _refuse(
        self,
        incoming: IncomingRequest,
        record: Record,
        limit: BoundLimit,
        told: tuple[Exception, Headers],
    ) -> NoReturn:
        error, headers = told
        record.limit = limit.name
        incoming.shared += headers
        raise error

    def _give_back(self, given: Reservation | Refusal) -> None:
        """Nothing came of what was reserved."""
        if isinstance(given, Reservation):
            self._counters.lock()
            try:
                settle(given, _NOTHING, time.time())
            finally:
                self._counters.unlock()
            self._serve_queues(given.limits)

    def _serve_queues(self, limits: Iterable[BoundLimit]) -> None:
        for limit in limits:
            queue = self._queues.get(limit.row)
            if queue is not None:
                queue.serve()

    def _learn(self, admitted: Admitted, record: Record, usage: Usage) -> None:
        if record.error:
            return
        model = record.upstream_model
        if admitted.size and usage.input:
            self._estimates.learn_input(record.upstream, model, admitted.size, usage.input)
        self._estimates.learn_output(admitted.caller, model, usage.output)

    async def _look_after(self, counters: Counters) -> None:
        due = time.monotonic() + _AUDIT_S
        while True:
            await asyncio.sleep(_RECLAIM_S)
            if counters.reclaim_lost():
                for queue in list(self._queues.values()):
                    queue.serve()
                # What it had just written may have been taken back as if it had not.
                due = min(due, time.monotonic() + _AUDIT_SOON_S)
            if self._used_since is not None and time.monotonic() >= due:
                due = time.monotonic() + _AUDIT_S
                try:
                    done = await self.audit()
                except Exception as error:
                    done = isinstance(error, StoreError)
                    if not done:
                        _log.exception("limits could not be compared with rows of usage")
                if not done:
                    due = time.monotonic() + _AUDIT_SOON_S

    async def audit(self) -> bool:
        """Compare counters with rows of usage, and set right those that differ. Returns whether all
        were compared: what is being used while they are is left out.

        Raises:
            StoreError: the store cannot be used.
        """
        done, drift, now = True, 0, time.time()
        for row, limit in list(self._audited.items()):
            before = self._stand(limit, now)
            since = _restored_since(limit, now)
            assert since is not None
            told = sum(amount for _, amount in await self._read_used(limit, since))
            self._counters.lock()
            try:
                if before is None or self._look(limit, now) != before:
                    done = False
                    continue
                wrong = row.cells[USED] - told
                # Rows that are too old are dropped, so that what was ever used is more than they
                # tell.
                if not wrong or (limit.limit.window == "total" and wrong > 0):
                    continue
                row.cells[USED] = told
            finally:
                self._counters.unlock()
            drift += abs(wrong)
            _log.warning(
                "%s of %s was counted as %+d of what rows of usage tell, and is set right",
                limit.name,
                limit.owner,
                wrong,
            )
        self.drift = drift
        return done

    def _stand(self, limit: BoundLimit, now: float) -> tuple[int, int] | None:
        self._counters.lock()
        try:
            return self._look(limit, now)
        finally:
            self._counters.unlock()

    def _look(self, limit: BoundLimit, now: float) -> tuple[int, int] | None:
        """How a counter stands, with the lock held; None if something is used that is in no row."""
        if self._counters.unwritten(limit.row):
            return None
        used = limit.counter.used(now)
        return limit.row.cells[WHEN], used


def _is_audited(limit: BoundLimit) -> bool:
    """Whether rows of usage tell exactly what a counter must be: those of the calendar's whole
    hours, by key and by what is in rows. Keys change their teams, and rows count requests that
    reached no upstream."""
    if limit.is_team or limit.kind in (Kind.REQUESTS, Kind.CONCURRENT):
        return False
    if not isinstance(limit.window, Fixed) or limit.limit.since is not None:
        return False
    return span_of(limit.window, time.time())[0] % _HOUR_S == 0


_NO_TOKENS = Wanted(0, 0)
_NOTHING = (0,) * len(Kind)
_UNSEALED = Sealer()


def spent_by(record: Record) -> Sequence[int]:
    """What a request came to, by what is told of it: it counts as a request where an upstream was
    reached."""
    usage, charge = record.usage, record.charge
    if usage is None:
        unreached = sum(one.kind in UNSENT_CAUSES for one in record.failed)
        return (int(record.attempts > unreached), *_NOTHING[1:])
    cost = 0 if charge is None else charge.cost or 0
    given, output = usage.input, usage.output
    fresh = given - min(usage.cached, given) if usage.cached else given
    return 1, fresh, output, fresh + output, cost, 0, given, given + output


def _counted(row: UsedInHour, kind: Kind) -> int:
    """What a row of usage comes to for a limit."""
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
    )[kind]


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


def _asked_output(request: ClientRequest) -> int | None:
    """The output limit that a client gives; None if it gives none."""
    for name in request.codec.endpoint.output_limits:
        if name in request.members:
            value = request.member(name)
            if type(value) is int and value >= 0:
                return value
    if not request.body:
        return request.read(_UNSEALED).max_output_tokens
    return None


def _asked_tier(request: ClientRequest) -> str | None:
    """The service tier that a client asks for, if it has a price of its own."""
    tier = request.member("service_tier")
    return tier if tier in TIERS else None


def _clamped(request: ClientRequest, most: int) -> ClientRequest:
    """The request with a lower output limit."""
    names = request.codec.endpoint.output_limits
    if not request.body or not names:
        return request
    given = [name for name in names if name in request.members] or names[:1]
    body = to_json({**request.members, **dict.fromkeys(given, most)})
    clamped = request.with_body(body, request.shown)
    clamped.is_large = request.is_large
    return clamped


def _log_crossing(crossing: Crossing) -> None:
    limit = crossing.limit
    if isinstance(limit.window, Rolling) and limit.window.seconds < _HOUR_S:
        return
    _log.warning("%d %% of %s of %s are used", crossing.percent, limit.name, limit.owner)
