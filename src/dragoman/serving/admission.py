"""Requests are held to the limits of keys and teams, exactly over the workers of a machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from dragoman.canonical.usage import Usage
from dragoman.config.windows import Rolling
from dragoman.edge.auth import Caller
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.limits.admission import (
    LEAST_OUTPUT,
    Admitted,
    Refusal,
    Reservation,
    Wanted,
)
from dragoman.limits.bound_limits import Amounts, BoundLimit, Kind
from dragoman.limits.crossings import Crossing
from dragoman.limits.rows import Row
from dragoman.prices.lookup import Prices
from dragoman.protocols.base import to_json
from dragoman.protocols.limits import whole
from dragoman.serving.limit_counters import LimitCounters
from dragoman.serving.limits_told import (
    CLAMPED_HEADER,
    queue_full,
    rate_lines,
    refused,
    soft_headers,
    unpriced,
)
from dragoman.serving.request_use import (
    ExpectedUse,
    amounts_spent,
    asked_output,
    choices,
    unlimited,
    upstreams_of,
)
from dragoman.serving.routing import Target
from dragoman.serving.turn_queue import TurnQueue
from dragoman.translation import ClientRequest

_log = logging.getLogger("dragoman.limits")

_LEARNT_ALL = 100
"""Requests of a worker that all are learned from; later, every eighth."""


class _LimitQueue(TurnQueue[Reservation | Refusal]):
    """The requests that wait for a limit, as it is known from whoever came last."""

    def __init__(
        self, give_back: Callable[[Reservation | Refusal], None], limit: BoundLimit
    ) -> None:
        super().__init__(give_back)
        self.limit = limit


class Admission:
    """Lets requests in and settles what they came to, by the limits in `counters`."""

    def __init__(self, counters: LimitCounters) -> None:
        self._limits = counters
        self.expected = ExpectedUse()
        """What requests will probably use."""
        self._settled = 0
        self._queues: dict[Row, _LimitQueue] = {}
        self.on_crossing: Callable[[Crossing], None] = log_crossing
        self.on_refused: Callable[[BoundLimit], object] = lambda limit: None
        self._reservations = counters.reservations
        counters.on_freed = self._serve_all_queues
        counters.reservations.on_crossing = lambda crossing: self.on_crossing(crossing)

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
            bound = await self._limits.bind(caller)
        if bound.is_partial:
            # Whatever it is called: no other name of a model leads past its limit.
            names = record.model, target.name, target.model
            bound = bound.concerning(names, upstreams_of(target) if bound.has_shares else ())
        now = time.time()
        wanted, size = _NO_TOKENS, 0
        if bound.needs_tokens:
            wanted, size = self.expected.of(bound, caller.name, request, target, prices, now)
            if wanted.cost is None:
                budget = bound.budget(target.upstream.name, billed=wanted.billed)
                if budget is not None:
                    raise _told(incoming, record, budget, *unpriced(budget, record.model))
            if bound.clamps and wanted.output:
                answers = choices(request)
                longest = wanted
                if asked_output(request) is None:
                    longest = unlimited(wanted, target, answers)
                fits = self._limits.fitting(bound, longest)
                if fits is not None and fits // answers >= LEAST_OUTPUT:
                    each = fits // answers
                    request = _clamped(request, each)
                    _tell_clamped(incoming, each)
                    wanted = wanted.with_output(min(wanted.output, each * answers))
        amounts = bound.most(wanted.counts())
        attempt = self._reservations.admit if not self._queues else self._try
        found = attempt(bound.all, amounts, now)
        if isinstance(found, Refusal):
            begun = time.monotonic()
            if self._limits.slices is not None:
                found = await self._limits.slices.borrow(
                    bound.all, amounts, found, lambda: self._try(bound.all, amounts, time.time())
                )
            while isinstance(found, Refusal):
                found = await self._waited(
                    incoming, caller, record, bound.all, amounts, found, begun
                )
        record.admitted = Admitted(caller.name, bound, found, size, caller.shows_amounts)
        if found.exceeded:
            record.exceeded = tuple([f"{one.name} {one.limit.mode}" for one in found.exceeded])
        for crossing in found.crossings:
            self.on_crossing(crossing)
        if bound.rates and caller.shows_amounts:
            codec = incoming.codec
            told = bound.told.get(codec.name) or rate_lines(codec, bound)
            incoming.lines += told(found.at)
        if bound.soft:
            incoming.shared += soft_headers(bound.soft, found.at)
        return request

    def admit_more(self, record: Record) -> str:
        """Reserve for one more answer to a request that is under way, as long as the first may be:
        it is given more input, and the upstream goes on from that by itself. Returns why a limit
        refuses it, as it is told to the client; empty if none does."""
        admitted = record.admitted
        if admitted is None:
            return ""
        first = admitted.reservation
        pairs = [
            (limit, amount)
            for limit, amount in zip(first.limits, first.amounts, strict=True)
            if limit.kind not in (Kind.REQUESTS, Kind.CONCURRENT)
        ]
        now = time.time()
        found = self._reservations.admit(
            [one for one, _ in pairs], [some for _, some in pairs], now
        )
        if isinstance(found, Refusal):
            error, _ = refused(found, now, shows_amounts=admitted.shows_amounts)
            return error.fault.message
        admitted.more = (*admitted.more, found)
        return ""

    def settle(self, record: Record, now: float) -> None:
        """A request is over at `now` (Unix seconds): what it reserved is given back, and what it
        used is counted. Harmless for one that has reserved nothing, or was settled before."""
        admitted, record.admitted = record.admitted, None
        if admitted is None:
            return
        for one in admitted.more:
            self._reservations.settle(one, (0,) * len(one.limits), now)
        spent = amounts_spent(admitted, record)
        for crossing in self._reservations.settle(admitted.reservation, spent, now):
            self.on_crossing(crossing)
        self._settled += 1
        if self._settled < _LEARNT_ALL or not self._settled & 7:
            self.expected.learn(admitted, record)
        if self._queues:
            self._serve_queues(admitted.reservation.limits)

    def refuses_target(self, record: Record, target: Target, prices: Prices) -> bool:
        """Whether a fallback may not be asked, for it has no price and the caller has a budget."""
        admitted = record.admitted
        if admitted is None or not admitted.limits.needs_cost:
            return False
        upstream = target.upstream.name
        charge = prices.charge(upstream, target.model, Usage(), time.time())
        budget = admitted.limits.budget(upstream, billed=charge.billed)
        return charge.cost is None and budget is not None

    def _try(
        self, limits: Sequence[BoundLimit], amounts: Amounts, now: float
    ) -> Reservation | Refusal:
        """Reserve, unless others wait: whoever waits comes before whoever has just come."""
        for limit in limits:
            queue = self._queues.get(limit.row)
            if queue is not None and queue.count:
                if queue.limit is not limit:
                    # It was changed since they came: they wait no longer than it says now.
                    queue.limit = limit
                    queue.serve()
                    if not queue.count:
                        continue
                soon = now + 1.0
                return Refusal(limit, 1, limit.left(soon), soon, soon)
        return self._reservations.admit(limits, amounts, now)

    async def _waited(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        limits: Sequence[BoundLimit],
        amounts: Sequence[int],
        refusal: Refusal,
        begun: float,
    ) -> Reservation | Refusal:
        """What a request that waits since `begun` (monotonic seconds) is given when it is its turn
        at the limit that refused it, if that has a queue: also the refusal of another limit.

        Raises:
            DragomanError: it is refused.
            ClientGone: the client left.
        """
        limit = refusal.limit
        if limit.kind is Kind.CONCURRENT and limit.limit.queue_s and limit.amount:
            # At several limits one after the other, but at each no longer than it says in all.
            seconds = limit.limit.queue_s - (time.monotonic() - begun)
            queue = self._queues.get(limit.row)
            if queue is None:
                queue = self._queues[limit.row] = _LimitQueue(self._give_back, limit)
            if not queue.has_room(caller.name, limit.limit.queue_size):
                raise _told(incoming, record, limit, *queue_full(limit))

            def attempt() -> Reservation | Refusal | None:
                held_to = [queue.limit if one.row is limit.row else one for one in limits]
                found = self._reservations.admit(held_to, amounts, time.time())
                if isinstance(found, Refusal) and found.limit.row is limit.row:
                    return None
                return found

            given: list[Reservation | Refusal | None] = []

            async def wait() -> None:
                with self._limits.waiting(limit.row):
                    given.append(await queue.wait(caller.name, attempt, seconds))

            try:
                await while_connected(incoming, wait())
            except BaseException:
                # It may have been cancelled in the same turn of the loop in which it was given.
                for one in given:
                    if one is not None:
                        self._give_back(one)
                raise
            finally:
                if not queue.count and self._queues.get(limit.row) is queue:
                    del self._queues[limit.row]
            found = given[0]
            if found is not None:
                return found
            # It was refused a while ago.
            free_at = queue.limit.free_at(time.time(), refusal.amount)
            refusal = replace(refusal, limit=queue.limit, free_at=free_at)
        now = time.time()
        self._note_refused(refusal.limit, now)
        raise _told(
            incoming,
            record,
            refusal.limit,
            *refused(refusal, now, shows_amounts=caller.shows_amounts),
        )

    def _note_refused(self, limit: BoundLimit, now: float) -> None:
        """A limit refuses a request: that is told once in its window."""
        if limit.window is not None and now >= limit.refusal_told:
            limit.refusal_told = limit.counter.counts_until(now)
            self.on_refused(limit)

    def _give_back(self, given: Reservation | Refusal) -> None:
        """Nothing came of what was reserved."""
        if isinstance(given, Reservation):
            self._reservations.settle(given, (0,) * len(given.limits), time.time())
            self._serve_queues(given.limits)

    def _serve_queues(self, limits: Iterable[BoundLimit]) -> None:
        for limit in limits:
            queue = self._queues.get(limit.row)
            if queue is not None:
                queue.serve()

    def _serve_all_queues(self) -> None:
        for queue in list(self._queues.values()):
            queue.serve()


def _told(
    incoming: IncomingRequest, record: Record, limit: BoundLimit, error: Exception, headers: Headers
) -> Exception:
    """The error with which a limit refuses a request, once it is noted and its headers are told.

    To be raised from where it is made: a frame that has both the error and a part in its traceback
    lives until the collector finds it, and whoever is refused comes again a thousand times.
    """
    record.limit = limit.name
    incoming.shared += headers
    return error


_NO_TOKENS = Wanted(0, 0)
_HOUR_S = 3600


def capped(incoming: IncomingRequest, request: ClientRequest, most: int) -> ClientRequest:
    """The request with an output limit of at most so many tokens; the client is told of it where
    that is not its own."""
    members = request.members
    names = [name for name in request.codec.endpoint.output_limits if name in members]
    asked = [whole(members[name]) for name in names]
    if asked and all(one is not None and 0 <= one <= most for one in asked):
        return request
    _tell_clamped(incoming, most)
    return _clamped(request, most)


def _tell_clamped(incoming: IncomingRequest, most: int) -> None:
    """Tell the client once, though a request may be lowered twice."""
    kept = [header for header in incoming.shared if header[0] != CLAMPED_HEADER]
    incoming.shared = [*kept, (CLAMPED_HEADER, b"%d" % most)]


def _clamped(request: ClientRequest, most: int) -> ClientRequest:
    """The request with a lower output limit."""
    names = request.codec.endpoint.output_limits
    if not request.body or not names:
        return request
    given = [name for name in names if name in request.members] or names[:1]
    body = to_json({**request.members, **dict.fromkeys(given, most)})
    clamped = request.with_body(body, request.shown)
    clamped.is_large, clamped.is_lowered = request.is_large, True
    return clamped


def log_crossing(crossing: Crossing) -> None:
    """Log that a share of a limit was reached, if that is told."""
    limit = crossing.limit
    if is_told(limit):
        _log.warning("%d %% of %s of %s are used", crossing.percent, limit.name, limit.owner)


def is_told(limit: BoundLimit) -> bool:
    """Whether people want to hear of a limit: rolling windows of less than an hour are full again
    and again."""
    window = limit.window
    return not isinstance(window, Rolling) or window.seconds >= _HOUR_S
