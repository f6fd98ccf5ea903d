"""Requests are held to the limits of keys and teams."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from dragoman.canonical.usage import Usage
from dragoman.edge.auth import Caller
from dragoman.edge.errors import Headers
from dragoman.edge.incoming import IncomingRequest, while_connected
from dragoman.edge.record import Record
from dragoman.limits.messages import Granted, Refused
from dragoman.limits.owner import is_short
from dragoman.limits.rules import Admitted, Expected, Reservation, Rule, Rules
from dragoman.link.messages import LinkClosed
from dragoman.prices.lookup import Prices
from dragoman.protocols.base import to_json
from dragoman.serving.limits.alerts import LimitAlerts
from dragoman.serving.limits.budget_use import refusal_for, used_up
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.responses import (
    CLAMPED_HEADER,
    away,
    is_held_back,
    queue_full,
    rate_lines,
    refused,
    soft_headers,
    uncountable,
    unpriced,
)
from dragoman.serving.limits.use import (
    ExpectedUse,
    amounts_spent,
    asked_output,
    unlimited,
)
from dragoman.serving.routing import Target
from dragoman.translation import ClientRequest

_LEARNED_ALL = 100
"""Requests of a worker that are all learned from; later, every eighth."""


class Admission:
    """Admits requests and settles what they came to. `alerts` reports limits that refuse."""

    def __init__(self, limits: Limits, alerts: LimitAlerts) -> None:
        self._limits = limits
        self._alerts = alerts
        self.expected = ExpectedUse()
        """What requests will probably use."""
        self._settled = 0

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
        try:
            rules = caller.bound or await self._limits.bind(caller)
            rules = _concerning(rules, incoming, record, target)
            expected, size, longest, answers = _NO_TOKENS, 0, 0, 1
            if rules.needs_tokens:
                now = time.time()
                expected, size = self.expected.of(rules, caller.name, request, target, prices, now)
                if expected.cost is None:
                    _check_priced(rules, expected, incoming, record)
                if rules.clamps and expected.output:
                    longest, answers = expected.output, request.choices
                    if asked_output(request) is None:
                        longest = unlimited(expected, target, answers)
            decision = await self._ask(incoming, rules, caller.name, expected, longest, answers)
        except LinkClosed:
            raise _away(incoming, caller) from None
        if isinstance(decision, Refused):
            raise self._refused(incoming, caller, record, rules, decision)
        # First: whatever fails from here on, it is given back when the request is over.
        granted = decision.granted
        continues = request.codec.passthrough.continues in request.members
        if granted.clamped:
            expected = expected.with_output(min(expected.output, granted.clamped * answers))
        record.admitted = Admitted(
            caller.name, rules, decision, expected, size, continues, caller.shows_amounts
        )
        if granted.clamped:
            request = _clamped(request, granted.clamped)
            _report_clamped(incoming, granted.clamped)
        _report_granted(incoming, caller, record, rules, granted)
        return request

    async def admit_expected(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        target: Target,
        expect: Callable[[Rules], tuple[Expected, int]],
        *,
        among: Callable[[Rules], Rules] | None = None,
    ) -> None:
        """Reserve, at all limits of its caller, for a request that is not one for an answer. What
        it may come to is what `expect` returns, and of how many bytes its prompt is, as for
        `ExpectedUse.of`. `among` picks the limits that count it, None for all.

        Raises:
            DragomanError, ClientGone: as `admit`.
        """
        try:
            rules = caller.bound or await self._limits.bind(caller)
            rules = _concerning(rules, incoming, record, target)
            if among is not None:
                rules = among(rules)
                if not rules.all:
                    return
            expected, size = _NO_TOKENS, 0
            if rules.needs_tokens:
                expected, size = expect(rules)
                if expected.cost is None:
                    _check_priced(rules, expected, incoming, record)
            decision = await self._ask(incoming, rules, caller.name, expected, 0, 1)
        except LinkClosed:
            raise _away(incoming, caller) from None
        if isinstance(decision, Refused):
            raise self._refused(incoming, caller, record, rules, decision)
        record.admitted = Admitted(
            caller.name, rules, decision, expected, size, False, caller.shows_amounts
        )
        _report_granted(incoming, caller, record, rules, decision.granted)

    async def admit_call(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Reserve, at the limits of its caller that count requests, for one that uses no tokens. It
        is of what its record has for a model.

        Raises:
            DragomanError, ClientGone: as `admit`.
        """
        if not caller.is_limited:
            return
        try:
            every = caller.bound or await self._limits.bind(caller)
            counting = [one for one in every.all if not one.counts_tokens]
            rules = Rules([one for one in counting if one.concerns((record.model,))])
            if (rule := rules.uncountable) is not None:
                raise _reported(incoming, record, rule, *uncountable(rule))
            decision = await self._ask(incoming, rules, caller.name, _NO_TOKENS, 0, 1)
        except LinkClosed:
            raise _away(incoming, caller) from None
        if isinstance(decision, Refused):
            raise self._refused(incoming, caller, record, rules, decision)
        record.admitted = Admitted(
            caller.name, rules, decision, _NO_TOKENS, 0, False, caller.shows_amounts
        )

    def _refused(
        self,
        incoming: IncomingRequest,
        caller: Caller,
        record: Record,
        rules: Rules,
        decision: Refused,
    ) -> Exception:
        """The error with which a decision refuses a request, to be raised from where it is made
        (see `_reported`)."""
        rule, now = rules.all[decision.place], time.time()
        if decision.queue_is_full:
            return _reported(incoming, record, rule, *queue_full(rule))
        if self._limits.away_since and is_held_back(rule, decision, now):
            record.limit = rule.name
            return _away(incoming, caller)
        self._alerts.refused(rule, decision.used, now)
        error, headers = refused(rule, decision, now, shows_amounts=caller.shows_amounts)
        if error.fault.limited == "budget" and not decision.amount > rule.amount(now) > 0:
            use = used_up(rule, decision, now)
            if shown := refusal_for(incoming, error.fault, use):
                error, headers = shown[0], headers + shown[1]
        return _reported(incoming, record, rule, error, headers)

    async def admit_more(self, record: Record) -> str:
        """Reserve for one more answer to a request that is under way, which goes on from more input
        by itself. Returns why a limit refuses it, in words for the client; empty if none does."""
        admitted = record.admitted
        if admitted is None:
            return ""
        now = time.time()
        try:
            decision = await self._limits.admit_more(admitted, now)
        except LinkClosed:
            return away()[0].fault.message
        if record.admitted is not admitted and isinstance(decision, Granted):
            # It is over meanwhile, and settled without this.
            last = admitted.more[-1]
            self._limits.settle(last, (0,) * len(last.rules.all))
        if not isinstance(decision, Refused):
            return ""
        counted = [one for one in admitted.rules.all if one.counts_tokens]
        rule = counted[decision.place]
        error, _ = refused(rule, decision, now, shows_amounts=admitted.shows_amounts)
        return error.fault.message

    async def adopt(self, caller: Caller, record: Record) -> None:
        """Have what was used counted at the limits of a caller that are lasting, though nothing was
        reserved for it here."""
        with suppress(LinkClosed):
            rules = caller.bound or await self._limits.bind(caller)
            if rules.is_partial:
                rules = rules.concerning((record.model, record.upstream_model))
            rules = lasting(rules)
            nothing = (0,) * len(rules.all)
            granted = Granted(time.time(), nothing, nothing, nothing)
            reservation = Reservation(rules, granted)
            record.admitted = Admitted(
                caller.name, rules, reservation, _NO_TOKENS, 0, True, caller.shows_amounts
            )

    def settle(self, record: Record, now: float) -> None:
        """A request is over at `now` (Unix seconds): what it reserved is given back, and what it
        used is counted. Harmless for one that has reserved nothing, or was settled before."""
        admitted, record.admitted = record.admitted, None
        if admitted is None:
            return
        for one in admitted.more:
            self._limits.settle(one, (0,) * len(one.rules.all))
        self._limits.settle(admitted.reservation, amounts_spent(admitted, record))
        self._settled += 1
        if self._settled < _LEARNED_ALL or not self._settled & 7:
            self.expected.learn(admitted, record)

    def refuses_target(self, record: Record, target: Target, prices: Prices) -> bool:
        """Whether a fallback may not be asked, for it has no price and the caller has a budget."""
        admitted = record.admitted
        if admitted is None or not admitted.rules.needs_cost:
            return False
        charge = prices.charge(target.upstream.name, target.model, Usage(), time.time())
        return charge.cost is None and admitted.rules.budget(billed=charge.billed) is not None

    def _ask(
        self,
        incoming: IncomingRequest,
        rules: Rules,
        caller: str,
        expected: Expected,
        longest: int,
        answers: int,
    ) -> Awaitable[Reservation | Refused]:
        """What the owner decides; a client that leaves while its request waits is noticed."""
        decide = partial(self._limits.admit, rules, caller, expected, longest, answers)
        return self._awaited(incoming, decide) if rules.may_wait else decide()

    async def _awaited(
        self, incoming: IncomingRequest, decide: Callable[[], Awaitable[Reservation | Refused]]
    ) -> Reservation | Refused:
        decided: list[Reservation | Refused] = []

        async def ask() -> None:
            decided.append(await decide())

        try:
            await while_connected(incoming, ask())
        except BaseException:
            # It may have been cancelled in the round of the loop in which it was decided.
            for one in decided:
                if isinstance(one, Reservation):
                    self._limits.settle(one, (0,) * len(one.rules.all))
            raise
        return decided[0]


def _reported(
    incoming: IncomingRequest, record: Record, rule: Rule, error: Exception, headers: Headers
) -> Exception:
    """The error with which a limit refuses a request, once it is recorded and its headers are set.

    To be raised from where it is made: a frame that has both the error and a part in its traceback
    lives until the collector finds it, and whoever is refused comes again a thousand times.
    """
    record.limit = rule.name
    incoming.shared += headers
    return error


_NO_TOKENS = Expected(0, 0)


def lasting(rules: Rules) -> Rules:
    """The limits of tokens and costs in windows that last for hours."""
    return Rules([one for one in rules.all if one.counts_tokens and not is_short(one.window)])


def _concerning(rules: Rules, incoming: IncomingRequest, record: Record, target: Target) -> Rules:
    """The limits that hold for a request.

    Raises:
        DragomanError: one of them cannot be counted.
    """
    if rules.is_partial:
        # Whatever it is called: no other name of a model leads past its limit.
        rules = rules.concerning((record.model, target.name, target.model))
    if rules.uncountable is not None:
        raise _reported(incoming, record, rules.uncountable, *uncountable(rules.uncountable))
    return rules


def _check_priced(
    rules: Rules, expected: Expected, incoming: IncomingRequest, record: Record
) -> None:
    """
    Raises:
        DragomanError: a limit refuses what has no price.
    """
    budget = rules.budget(billed=expected.billed)
    if budget is not None:
        raise _reported(incoming, record, budget, *unpriced(budget, record.model))


def _away(incoming: IncomingRequest, caller: Caller) -> Exception:
    """The error for a request whose limits cannot be counted now. A program that shows budgets does
    not ask again and again for a client that has one."""
    error, headers = away()
    if any(one.kind == "cost" for one in (*caller.limits, *caller.team_limits)):
        error, headers = refusal_for(incoming, error.fault, None) or (error, headers)
    incoming.shared += headers
    return error


def _report_granted(
    incoming: IncomingRequest, caller: Caller, record: Record, rules: Rules, decision: Granted
) -> None:
    """Record the limits that a request exceeds, and what is left for the client's headers."""
    if decision.exceeded:
        exceeded = [rules.all[place] for place in decision.exceeded]
        record.exceeded = tuple([f"{one.name} {one.limit.mode}" for one in exceeded])
    if rules.rates and caller.shows_amounts:
        codec = incoming.codec
        lines = rules.rate_lines.get(codec.name) or rate_lines(codec, rules)
        incoming.lines += lines(decision)
    if rules.soft:
        incoming.shared += soft_headers(rules, decision)


def capped(incoming: IncomingRequest, request: ClientRequest, most: int) -> ClientRequest:
    """The request with an output limit of at most so many tokens; a header says so where
    that is not its own."""
    clamped = _clamped(request, most)
    if clamped is not request:
        _report_clamped(incoming, most)
    return clamped


def _report_clamped(incoming: IncomingRequest, most: int) -> None:
    """Tell the client once, though a request may be lowered twice."""
    others = [header for header in incoming.shared if header[0] != CLAMPED_HEADER]
    incoming.shared = [*others, (CLAMPED_HEADER, b"%d" % most)]


def _clamped(request: ClientRequest, most: int) -> ClientRequest:
    """The request with an output limit of at most so many tokens; the same if it has that."""
    limited = request.codec.endpoint.limited(request.members, most)
    if not request.body or limited is request.members:
        return request
    clamped = request.with_body(to_json(limited), request.shown)
    clamped.is_large, clamped.is_lowered = request.is_large, True
    return clamped
