"""Whether a request would be admitted, and what decides: nothing is reserved, and nobody asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dragoman.canonical.errors import DragomanError
from dragoman.canonical.usage import Usage
from dragoman.http.addresses import parse
from dragoman.keys.ring import Caller, Denial, KeyRing
from dragoman.limits.admission import Verdict
from dragoman.operations.inputs import FieldError, InvalidInput
from dragoman.prices.lookup import Prices
from dragoman.prices.rates import TIERS, dollars
from dragoman.serving.limit_counters import LimitCounters, LimitView
from dragoman.serving.limits_told import amount_text, known_text, moment_text
from dragoman.serving.request_use import priced, unlimited, upstreams_of
from dragoman.serving.routing import Router, may_use, model_not_found

_MOST_TOKENS = 10**7


class LimitState(Struct, frozen=True):
    """How a limit stands: costs in US dollars, times as texts, None for never or unknown.
    `amount` and `remaining` are None where a share is not known yet. `exhausted_at` is when nothing
    will be left, if use goes on as it does."""

    amount: int | str | None
    used: int | str
    reserved: int | str
    remaining: int | str | None
    resets_at: str | None
    exhausted_at: str | None


def state_of(view: LimitView) -> LimitState:
    """How a limit stands."""
    kind = view.bound.kind
    return LimitState(
        amount=known_text(kind, view.amount),
        used=amount_text(kind, view.used),
        reserved=amount_text(kind, view.reserved),
        remaining=known_text(kind, view.remaining),
        resets_at=None if view.bound.window is None else moment_text(view.resets_at),
        exhausted_at=moment_text(view.exhausted_at),
    )


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """A request that might be made. Without `output_tokens` as many are taken as are reserved for a
    request that sets no output limit; `tier` is the service tier, `address` from where it comes."""

    model: Annotated[str, Meta(min_length=1, max_length=200)]
    input_tokens: Annotated[int, Meta(ge=0, le=_MOST_TOKENS)] = 0
    output_tokens: Annotated[int, Meta(ge=0, le=_MOST_TOKENS)] | None = None
    tier: str | None = None
    address: str | None = None


class AskedLimit(Struct, frozen=True):
    """What a limit would say: `asks` is what the request would count, `free_at` when it would be
    admitted if nothing else were until then."""

    owner: str
    limit: str
    mode: str
    asks: int | str
    remaining: int | str | None
    admits: bool
    free_at: str | None


class Answer(Struct, frozen=True):
    """Whether a request would be admitted, else why not. `clamped_to` is the output limit that it
    would be given, None if it is left as it is; `cost_usd` what is reserved, None without a price.
    """

    admitted: bool
    reason: str | None = None
    upstream: str | None = None
    model: str | None = None
    output_tokens: int | None = None
    clamped_to: int | None = None
    cost_usd: str | None = None
    limits: tuple[AskedLimit, ...] = ()


class SimulatedAdmission:
    """Tells how limits stand, and whether requests would be admitted. `expected_output` tells how
    much is reserved for an answer by who asks and the model."""

    def __init__(
        self,
        keys: KeyRing,
        router: Router,
        prices: Prices,
        limits: LimitCounters,
        expected_output: Callable[[str, str], int],
    ) -> None:
        self._keys = keys
        self._router = router
        self._prices = prices
        self.limits = limits
        self._expected_output = expected_output

    async def ask(self, key: str, fields: Mapping[str, Any]) -> Answer:
        """Whether a request with the key of this name would be admitted.

        Raises:
            InvalidInput: a field is wrong.
        """
        try:
            question = msgspec.convert(fields, Question)
        except msgspec.ValidationError as error:
            raise InvalidInput((FieldError("request", str(error)),)) from None
        if question.tier is not None and question.tier not in TIERS:
            told = f"expected one of {', '.join(TIERS)}"
            raise InvalidInput((FieldError("tier", told),))
        caller = self._keys.caller(key)
        if caller is None:
            return Answer(False, "The key cannot be used.")
        address = None
        if question.address is not None:
            address = parse(question.address)
            if address is None:
                raise InvalidInput((FieldError("address", "expected an IP address"),))
        for denial in caller.denials(time.time(), address):
            if denial is not Denial.ELSEWHERE or address is not None:
                return Answer(False, f"The API key {denial.value}.")
        try:
            return await self._judge(caller, question)
        except DragomanError as error:
            return Answer(False, error.fault.message)

    async def _judge(self, caller: Caller, question: Question) -> Answer:
        target = self._router.resolve(question.model)
        if not may_use(caller, question.model, target):
            raise model_not_found(question.model)
        bound = caller.bound or await self.limits.bind(caller)
        bound = bound.concerning((question.model, target.name, target.model), upstreams_of(target))
        # Where the key has an output limit, requests that set none are given that.
        asked = caller.most_output if question.output_tokens is None else question.output_tokens
        output = asked
        if output is None:
            output = self._expected_output(caller.name, target.model)
        for most in (target.capabilities.max_output_tokens, caller.most_output):
            output = output if most is None else min(output, most)
        usage = Usage(input=question.input_tokens, output=output, tier=question.tier)
        wanted = priced(usage, target, self._prices, time.time(), with_plain=True)
        longest = wanted if asked is not None else unlimited(wanted, target)
        fits = self.limits.fitting(bound, longest)
        if fits is not None:
            wanted = wanted.with_output(min(wanted.output, fits))
        verdicts = self.limits.judge(bound, wanted)
        refusing = [one for one in verdicts if one.limit.enforced and not one.admits]
        reason = None
        if wanted.cost is None and bound.budget(target.upstream.name, billed=wanted.billed):
            reason = "The model has no price, and there is a budget."
        elif refusing:
            reason = f"{max(refusing, key=lambda one: one.free_at).limit.name} refuses it."
        return Answer(
            admitted=reason is None,
            reason=reason,
            upstream=target.upstream.name,
            model=target.model,
            output_tokens=wanted.output,
            clamped_to=fits,
            cost_usd=None if wanted.cost is None else dollars(wanted.cost),
            limits=tuple([_told(one) for one in verdicts]),
        )


def _told(verdict: Verdict) -> AskedLimit:
    limit = verdict.limit
    left = max(0, verdict.left) if limit.is_known else None
    return AskedLimit(
        owner=limit.owner,
        limit=limit.name,
        mode=limit.limit.mode,
        asks=amount_text(limit.kind, verdict.amount),
        remaining=known_text(limit.kind, left),
        admits=verdict.admits,
        free_at=None if verdict.admits else moment_text(verdict.free_at),
    )
