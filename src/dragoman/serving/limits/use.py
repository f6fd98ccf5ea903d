"""What a request may come to, before an upstream is asked, and what it came to."""

from __future__ import annotations

from operator import add

from msgspec.structs import replace

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.usage import Usage
from dragoman.edge.record import Record
from dragoman.limits.estimates import Estimates
from dragoman.limits.rules import Admitted, Amounts, Counts, Expected, Kind, Rules
from dragoman.prices.lookup import MOST_COST, Charge, Prices
from dragoman.prices.rates import TIERS
from dragoman.protocols.limits import whole
from dragoman.serving.routing import Target
from dragoman.translation import ClientRequest
from dragoman.translation.estimate import estimate_tokens

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

_NOTHING = (0,) * len(Kind)
_UNSEALED = Sealer()


class ExpectedUse:
    """What requests will probably use, learned from those that are over."""

    def __init__(self) -> None:
        self._estimates = Estimates()

    def output(self, caller: str, model: str) -> int:
        """Tokens that are reserved for an answer without an output limit."""
        return self._estimates.output(caller, model)

    def of(
        self,
        rules: Rules,
        caller: str,
        request: ClientRequest,
        target: Target,
        prices: Prices,
        now: float,
    ) -> tuple[Expected, int]:
        """What a request of `caller` may come to at `now`, and of how many bytes its prompt is: 0
        where these do not tell how many tokens it has."""
        upstream, model = target.upstream.name, target.model
        members, codec, body = request.members, request.codec, request.body
        if body:
            prompt, size = self._estimates.input(upstream, model, body)
        else:
            prompt, size = estimate_tokens(request.read(_UNSEALED)), 0
        output = asked_output(request)
        if output is None:
            output = self._estimates.output(caller, model)
        most = target.settings.capabilities.max_output_tokens
        if most is not None and output > most:
            output = most
        if codec.endpoint.choices in members:
            output *= choices(request)
        if output > _MOST_OUTPUT:
            output = _MOST_OUTPUT
        if codec.passthrough.continues in members:
            # Its bytes do not tell: the upstream has the rest.
            size = 0
        if not rules.needs_cost:
            return Expected(prompt, output), size
        quote, fallbacks = prices.quote(upstream, model, now), target.fallbacks
        dear = quote.writes_cost_more
        for one in fallbacks:
            dear = dear or prices.quote(one.upstream.name, one.model, now).writes_cost_more
        # To look for a word in a long body costs more than all else that is done here.
        written, for_an_hour = _asked_writes(body) if dear else (False, False)
        tier = _asked_tier(request) if "service_tier" in members else None
        if not fallbacks:
            price = quote.usual
            if price is None or tier is not None:
                _, price = quote.priced(tier, prompt)
            if price is not None:
                each = price.written(for_an_hour=for_an_hour) if written else price.input
                plain = price.request + prompt * each
                cost = plain + output * price.output
                if cost <= MOST_COST:
                    return Expected(prompt, output, plain, cost, quote.billed), size
        usage = Usage(
            input=prompt,
            output=output,
            cache_write=prompt if written else None,
            cache_write_1h=prompt if for_an_hour else None,
            tier=tier,
        )
        return priced(usage, target, prices, now, with_plain=rules.clamps), size

    def learn(self, admitted: Admitted, record: Record) -> None:
        """A request is over: what it came to is learned from."""
        usage = record.usage
        if usage is None or record.estimated or record.error:
            return
        model = record.upstream_model
        if admitted.size and usage.input:
            self._estimates.learn_input(record.upstream, model, admitted.size, usage.input)
        self._estimates.learn_output(admitted.caller, model, usage.output)


def priced(
    usage: Usage, target: Target, prices: Prices, now: float, *, with_plain: bool
) -> Expected:
    """What a request may come to that uses so much, at whichever of its target and the fallbacks
    that is dearest at `now`; the cost without output is only found where that is wanted."""
    upstream, model = target.upstream.name, target.model
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
    return Expected(usage.input, usage.output, plain, cost, billed)


def unlimited(expected: Expected, target: Target, answers: int = 1) -> int:
    """The longest output of a request for so many answers that sets no output limit, of which as
    much is reserved as hardly any answer exceeds: where less is left, it is given a limit."""
    most = target.capabilities.max_output_tokens or _LONGEST_OUTPUT
    return max(expected.output, most * answers)


def asked_output(request: ClientRequest) -> int | None:
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


def choices(request: ClientRequest) -> int:
    """How many answers a client asks for at once."""
    asked = whole(request.members.get(request.codec.endpoint.choices))
    return max(1, min(asked or 1, _MOST_CHOICES))


def amounts_spent(admitted: Admitted, record: Record) -> Amounts:
    """What a request came to at each of its limits, by what is recorded of it."""
    return admitted.rules.amounts(spent_by(record))


def spent_by(record: Record) -> Counts:
    """What a request came to, by its record: it counts as a request where an upstream was
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


def _spent(usage: Usage, charge: Charge | None) -> Counts:
    cost = billed = 0
    if charge is not None and charge.cost:
        cost = charge.cost
        billed = cost if charge.billed else 0
    given, output = usage.input, usage.output
    fresh = given - (usage.cached or 0)
    total, written, thought = given + output, usage.cache_write or 0, usage.reasoning or 0
    return 1, fresh, output, fresh + output, cost, 0, given, total, written, thought, billed


def _asked_tier(request: ClientRequest) -> str | None:
    """The service tier that a client asks for, if it has a price of its own."""
    tier = request.member("service_tier")
    return tier if tier in TIERS else None


def _asked_writes(body: bytes) -> tuple[bool, bool]:
    """Whether a request asks to write its prompt to a cache, and to store it for an hour. Marks
    for an hour come before others in a prompt, so in a body, however its members are ordered, it is
    the first mark or the last."""
    first = body.find(_CACHE_MARK)
    if first < 0:
        return False, False
    places = first, body.rfind(_CACHE_MARK)
    return True, any(body.find(_AN_HOUR, at, at + _MARK_BYTES) >= 0 for at in places)
