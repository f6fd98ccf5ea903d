"""What a request may come to, before an upstream is asked, and what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from msgspec.structs import replace

from dragoman.canonical.envelope import Sealer
from dragoman.canonical.usage import Usage
from dragoman.edge.record import Record
from dragoman.limits.estimates import Estimates
from dragoman.limits.rules import Admitted, Amounts, Counts, Expected, Kind, Rules
from dragoman.prices.lookup import MOST_COST, Charge, Prices
from dragoman.prices.rates import FAST, PRIORITY, TIERS, ULTRAFAST
from dragoman.serving.routing import Target
from dragoman.translation import ClientRequest
from dragoman.translation.estimate import estimate_tokens

_LONGEST_OUTPUT = 4096
"""Tokens of an answer that every model may give, for a model whose output limit is not known: some
refuse a higher limit."""

_LEAST_LIMIT = 16
"""The lowest output limit that every service takes."""

MOST_OUTPUT = 128 * 10**6
"""Tokens of output that are reserved at most, whatever a client asks for: as many answers as may be
asked for at once, of a million tokens."""

_DEAR_TIERS = (PRIORITY, FAST, ULTRAFAST)

_SEARCHES = 10
"""Web searches of a vendor that are reserved for where a request allows any."""

_NOTHING = (0,) * len(Kind)
_UNSEALED = Sealer()


class ExpectedUse:
    """What requests will probably use, learned from those that are over."""

    def __init__(self) -> None:
        self._estimates = Estimates()

    def output(self, caller: str, model: str) -> int:
        """Tokens that are reserved for an answer without an output limit."""
        return self._estimates.output(caller, model)

    def input(self, caller: str, upstream: str, model: str, size: int) -> int:
        """Tokens of a prompt of so many bytes."""
        return self._estimates.input(caller, upstream, model, size)

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
        members, passthrough, body = request.members, request.codec.passthrough, request.body
        if body:
            files, size = request.files(), len(body)
            prompt = self._estimates.input(caller, upstream, model, size - files.bytes)
            prompt += files.tokens
            if files.bytes:
                size = 0
        else:
            prompt, size = estimate_tokens(request.read(_UNSEALED)), 0
        if passthrough.continues in members:
            # Its bytes do not tell: the upstream has the rest.
            prompt, size = max(prompt, self._estimates.continued(caller, model)), 0
        output = asked_output(request)
        if output is None:
            output = self._estimates.output(caller, model)
        most = target.settings.capabilities.max_output_tokens
        if most is not None and output > most:
            output = most
        output = min(output * request.choices, MOST_OUTPUT)
        if not rules.needs_cost:
            return Expected(prompt, output), size
        quote = prices.quote(upstream, model, now)
        named = _named_besides(request, target)
        others = [(one.upstream.name, one.model) for one in target.fallbacks]
        others += [(upstream, one) for one in named]
        dear = quote.writes_cost_more
        for other in others:
            dear = dear or prices.quote(*other, now).writes_cost_more
        # To look for a word in a long body costs more than all else that is done here.
        written, for_an_hour = _asked_writes(request, target) if dear else (False, False)
        tiers, searches = _asked_tiers(request), None
        if request.codec.endpoint.searches(members):
            searches = _SEARCHES
        price = quote.usual
        if price is not None and not (others or tiers or searches or written):
            plain = price.request + prompt * price.input
            cost = plain + output * price.output
            if cost <= MOST_COST:
                return Expected(prompt, output, plain, cost, quote.billed), size
        usage = Usage(
            input=prompt,
            output=output,
            cache_write=prompt if written else None,
            cache_write_1h=prompt if for_an_hour else None,
            searches=searches,
        )
        usages = [replace(usage, tier=tier) for tier in (None, *tiers)]
        expected = priced(usages, target, prices, now, named, with_plain=rules.clamps)
        return expected, size

    def learn(self, admitted: Admitted, record: Record) -> None:
        """A request is over: what it came to is learned from."""
        usage = record.usage
        if usage is None or record.estimated or record.error:
            return
        caller, model = admitted.caller, record.upstream_model
        if admitted.size and usage.input:
            upstream = record.upstream
            self._estimates.learn_input(caller, upstream, model, admitted.size, usage.input)
        if admitted.continues:
            self._estimates.learn_continued(caller, model, usage.input)
        self._estimates.learn_output(caller, model, usage.output)


def priced(
    usages: Sequence[Usage],
    target: Target,
    prices: Prices,
    now: float,
    named: Sequence[str] = (),
    *,
    with_plain: bool,
) -> Expected:
    """What a request may come to that has one of these usages, at whichever of its target, its
    fallbacks and the models that it names is dearest at `now`: no price is known where one of those
    it names has none. The cost without output is only found where that is wanted."""
    first = target.upstream.name, target.model
    models = [first, *((one.upstream.name, one.model) for one in target.fallbacks)]
    charges = [
        (prices.charge(*model, usage, now), model, usage) for model in models for usage in usages
    ]
    of_named = [
        (prices.charge(first[0], model, usage, now), (first[0], model), usage)
        for model in named
        for usage in usages
    ]
    dearest, model, usage = max(charges + of_named, key=lambda one: one[0].cost or 0)
    cost, plain = dearest.cost, 0
    if charges[0][0].cost is None or any(one.cost is None for one, _, _ in of_named):
        cost = None
    if with_plain:
        plain = prices.charge(*model, replace(usage, output=0), now).cost or 0
    billed = any(one.billed for one, _, _ in charges)
    return Expected(usage.input, usage.output, plain, cost, billed, usage, tuple(named))


def unlimited(expected: Expected, target: Target, answers: int = 1) -> int:
    """The longest output of a request for so many answers that sets no output limit, of which as
    much is reserved as hardly any answer exceeds: where less is left, it is given a limit."""
    most = target.capabilities.max_output_tokens or _LONGEST_OUTPUT
    return max(expected.output, most * answers)


def asked_output(request: ClientRequest) -> int | None:
    """The output limit that a client gives; None if it gives none."""
    if not request.body:
        return request.read(_UNSEALED).max_output_tokens
    asked = request.codec.endpoint.limits(request.members)
    # Of 0 other protocols make no limit, and some have a least one.
    return max(asked, _LEAST_LIMIT) if asked else None


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


def _asked_tiers(request: ClientRequest) -> Sequence[str]:
    """The service tiers with prices of their own in which a request may be answered. A dear one has
    other names at other vendors."""
    tier = request.codec.endpoint.tier(request.members)
    if tier in _DEAR_TIERS:
        return _DEAR_TIERS
    return (tier,) if tier in TIERS else ()


def _asked_writes(request: ClientRequest, target: Target) -> tuple[bool, bool]:
    """Whether a request's prompt is written to a cache, and may be for an hour: its client asks for
    it, or the gateway will for an upstream of another protocol."""
    written, for_an_hour = request.codec.endpoint.cache_writes(request.body)
    for one in (target, *target.fallbacks):
        if one.upstream.codec is not request.codec:
            own, long = one.upstream.codec.endpoint.caches_unasked(one.settings.capabilities)
            written, for_an_hour = written or own, for_an_hour or long
    return written, for_an_hour


def _named_besides(request: ClientRequest, target: Target) -> Sequence[str]:
    """The models besides its own that a request names to an upstream of the same protocol: another
    one is not sent them."""
    if any(one.upstream.codec is request.codec for one in (target, *target.fallbacks)):
        return request.named_models()
    return ()
