"""Requests are held to the limits of keys and teams, exactly over the workers of a machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import add

from msgspec.structs import replace

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.usage import Usage
from dragoman.config.windows import Rolling
from dragoman.gateway.edge.auth import Caller
from dragoman.gateway.edge.errors import Headers
from dragoman.gateway.edge.incoming import IncomingRequest, while_connected
from dragoman.gateway.edge.record import Record
from dragoman.gateway.serving.limit_counters import LimitCounters
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
    LEAST_OUTPUT,
    Admitted,
    Refusal,
    Reservation,
    Wanted,
)
from dragoman.keys.bound_limits import Amounts, BoundLimit, BoundLimits, Counts, Kind
from dragoman.keys.crossings import Crossing
from dragoman.keys.estimates import Estimates, text_and_files
from dragoman.keys.rows import Row
from dragoman.prices.lookup import Charge, Prices
from dragoman.prices.rates import TIERS
from dragoman.protocols.base import to_json
from dragoman.protocols.limits import whole
from dragoman.translation import ClientRequest
from dragoman.translation.estimate import estimate_tokens

_log = logging.getLogger("dragoman.limits")

_LEARNT_ALL = 100
"""Requests of a worker that all are learned from; later, every fourth."""

_HOUR_S = 3600
_PLAIN = Usage()

_LONGEST_OUTPUT = 4096
"""Tokens of an answer that every model may give, for one whose output limit is not known: to a
higher limit some say no."""

_MOST_OUTPUT = 10**7
"""Tokens of output that are reserved at most, whatever a client asks for."""

_CACHE_MARK = b'"cache_control"'
_AN_HOUR = b'"1h"'
_MARK_BYTES = 80
"""Where a prompt is to be written to a cache, for how long, and how long such a mark is."""

_MOST_CHOICES = 128
"""Answers to one request, at most (create_chat_completion, `n`)."""


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
        self._estimates = Estimates()
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
        wanted, size = _NO_TOKENS, 0
        if bound.needs_tokens:
            wanted, size = self._wanted(bound, caller, request, target, prices)
            if wanted.cost is None:
                budget = bound.budget(target.upstream.name, billed=wanted.billed)
                if budget is not None:
                    raise _told(incoming, record, budget, *unpriced(budget, record.model))
            if bound.clamps and wanted.output:
                choices = _choices(request)
                longest = wanted
                if _asked_output(request) is None:
                    longest = unlimited(wanted, target, choices)
                fits = self._limits.fitting(bound, longest)
                if fits is not None and fits // choices >= LEAST_OUTPUT:
                    each = fits // choices
                    request = _clamped(request, each)
                    _tell_clamped(incoming, each)
                    wanted = wanted.with_output(min(wanted.output, each * choices))
        amounts = bound.most(wanted.counts())
        found = self._try(bound.all, amounts)
        if isinstance(found, Refusal) and self._limits.slices is not None:
            attempt = partial(self._try, bound.all, amounts)
            found = await self._limits.slices.borrow(bound.all, amounts, found, attempt)
        if isinstance(found, Refusal):
            begun = time.monotonic()
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
            incoming.lines += rate_lines(incoming.codec, bound, found.at)
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
        if (
            record.usage is not None
            and not record.estimated
            and (self._settled < _LEARNT_ALL or not self._settled & 3)
        ):
            self._learn(admitted, record, record.usage)
        if self._queues:
            self._serve_queues(admitted.reservation.limits)

    def refuses_target(self, record: Record, target: Target, prices: Prices) -> bool:
        """Whether a fallback may not be asked, for it has no price and the caller has a budget."""
        admitted = record.admitted
        if admitted is None or not admitted.limits.needs_cost:
            return False
        upstream = target.upstream.name
        charge = prices.charge(upstream, target.model, _PLAIN, time.time())
        budget = admitted.limits.budget(upstream, billed=charge.billed)
        return charge.cost is None and budget is not None

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
        output *= _choices(request)
        if output > _MOST_OUTPUT:
            output = _MOST_OUTPUT
        if files or request.codec.passthrough.continues in request.members:
            # Its bytes do not tell: of files they are no text, and the upstream has the rest.
            size = 0
        if not bound.needs_cost:
            return Wanted(prompt, output), size
        now = time.time()
        dear = prices.writes_cost_more(upstream, model, now)
        for one in target.fallbacks:
            dear = dear or prices.writes_cost_more(one.upstream.name, one.model, now)
        # To look for a word in a long body costs more than all else that is done here.
        written, for_an_hour = _asked_writes(request.body) if dear else (False, False)
        tier = _asked_tier(request) if "service_tier" in request.members else None
        usage = Usage(
            input=prompt,
            output=output,
            cache_write=prompt if written else None,
            cache_write_1h=prompt if for_an_hour else None,
            tier=tier,
        )
        return priced(usage, target, prices, with_plain=bound.clamps), size

    def expected_output(self, caller: str, model: str) -> int:
        """Tokens that are reserved for an answer without an output limit."""
        return self._estimates.output(caller, model)

    def _try(self, limits: Sequence[BoundLimit], amounts: Sequence[int]) -> Reservation | Refusal:
        queues = self._queues
        if queues:
            # Whoever waits comes before whoever has just come.
            for limit in limits:
                queue = queues.get(limit.row)
                if queue is not None and queue.count:
                    if queue.limit is not limit:
                        # It was changed since they came: they wait no longer than it says now.
                        queue.limit = limit
                        queue.serve()
                        if not queue.count:
                            continue
                    soon = time.time() + 1.0
                    return Refusal(limit, 1, limit.left(soon), soon, soon)
        return self._reservations.admit(limits, amounts, time.time())

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

    def _learn(self, admitted: Admitted, record: Record, usage: Usage) -> None:
        if record.error:
            return
        model = record.upstream_model
        if admitted.size and usage.input:
            self._estimates.learn_input(record.upstream, model, admitted.size, usage.input)
        self._estimates.learn_output(admitted.caller, model, usage.output)


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
_NOTHING = (0,) * len(Kind)
_UNSEALED = Sealer()


def _asked_writes(body: bytes) -> tuple[bool, bool]:
    """Whether a request asks to write its prompt to a cache, and to have it kept for an hour. Marks
    for an hour come before others in a prompt, so in a body, however its members are ordered, it is
    the first mark or the last."""
    first = body.find(_CACHE_MARK)
    if first < 0:
        return False, False
    places = first, body.rfind(_CACHE_MARK)
    return True, any(body.find(_AN_HOUR, at, at + _MARK_BYTES) >= 0 for at in places)


def priced(usage: Usage, target: Target, prices: Prices, *, with_plain: bool) -> Wanted:
    """What a request may come to that uses so much, at whichever of its target and the fallbacks
    that is dearest; the cost without output is only found where that is wanted."""
    upstream, model, now = target.upstream.name, target.model, time.time()
    charge = prices.charge(upstream, model, usage, now)
    cost, billed = charge.cost, charge.billed
    for one in target.fallbacks:
        other = prices.charge(one.upstream.name, one.model, usage, now)
        billed = billed or other.billed
        if cost is not None and (other.cost or 0) > cost:
            upstream, model, cost = one.upstream.name, one.model, other.cost
    plain = 0
    if with_plain:
        without = replace(usage, output=0)
        plain = prices.charge(upstream, model, without, now).cost or 0
    return Wanted(usage.input, usage.output, plain, cost, billed)


def unlimited(wanted: Wanted, target: Target, choices: int = 1) -> Wanted:
    """What a request may come to that sets no output limit, of which as much is reserved as hardly
    any answer exceeds: where less is left, it is given a limit."""
    most = target.capabilities.max_output_tokens or _LONGEST_OUTPUT
    return wanted.with_output(max(wanted.output, most * choices))


def amounts_spent(admitted: Admitted, record: Record) -> Amounts:
    """What a request came to at each of its limits, by what is told of it."""
    spent = admitted.limits.amounts(spent_by(record))
    if admitted.limits.has_shares:
        spent = [
            amount if (upstream := one.limit.upstream) is None else _cost_at(record, upstream)
            for one, amount in zip(admitted.limits.all, spent, strict=True)
        ]
    return spent


def spent_by(record: Record) -> Counts:
    """What a request came to, by what is told of it: it counts as a request where an upstream was
    reached. Answers that were paid for and of no use are in it, as they are in usage."""
    if record.usage is None:
        spent: Counts = (int(record.is_reached), *_NOTHING[1:])
    else:
        spent = _spent(record.usage, record.charge)
    for one in record.in_vain:
        if one.usage is not None:
            more = _spent(one.usage, one.charge)[1:]
            spent = (spent[0], *map(add, spent[1:], more))
    return spent


def upstreams_of(target: Target) -> tuple[str, ...]:
    """The upstreams that a request for a target may go to."""
    return target.upstream.name, *[one.upstream.name for one in target.fallbacks]


def _cost_at(record: Record, upstream: str) -> int:
    """What a request came to at one upstream."""
    answers = [(one.upstream, one.usage, one.charge) for one in record.in_vain]
    answers.append((record.upstream, record.usage, record.charge))
    return sum(
        charge.cost or 0
        for name, usage, charge in answers
        if name == upstream and usage is not None and charge is not None
    )


def _spent(usage: Usage, charge: Charge | None) -> Counts:
    cost = billed = 0
    if charge is not None and charge.cost:
        cost = charge.cost
        billed = cost if charge.billed else 0
    given, output = usage.input, usage.output
    fresh = given - (usage.cached or 0)
    total, written, thought = given + output, usage.cache_write or 0, usage.reasoning or 0
    return 1, fresh, output, fresh + output, cost, 0, given, total, written, thought, billed


def _asked_output(request: ClientRequest) -> int | None:
    """The output limit that a client gives; None if it gives none."""
    members = request.members
    for name in request.codec.endpoint.output_limits:
        raw = members.get(name)
        if raw is not None:
            value = whole(raw)
            if value is not None and value >= 0:
                return value
    if not request.body:
        return request.read(_UNSEALED).max_output_tokens
    return None


def _choices(request: ClientRequest) -> int:
    """How many answers a client asks for at once."""
    name = request.codec.endpoint.choices
    if name not in request.members:
        return 1
    asked = whole(request.members[name])
    return max(1, min(asked or 1, _MOST_CHOICES))


def _asked_tier(request: ClientRequest) -> str | None:
    """The service tier that a client asks for, if it has a price of its own."""
    tier = request.member("service_tier")
    return tier if tier in TIERS else None


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
