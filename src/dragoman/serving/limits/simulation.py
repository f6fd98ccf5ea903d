"""Whether a request would be admitted, and what decides: nothing is reserved, and no upstream is
asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dragoman.canonical.errors import DragomanError
from dragoman.canonical.usage import Usage
from dragoman.http.addresses import parse
from dragoman.keys.ring import Caller, Denial, KeyRing
from dragoman.limits.balances import HeldBy
from dragoman.limits.messages import Admit, Claim, SharedState, State
from dragoman.limits.owner import fitting_output
from dragoman.limits.rules import Rule
from dragoman.operations.inputs import FieldError, InvalidInput
from dragoman.prices.lookup import Prices
from dragoman.prices.rates import TIERS, dollars
from dragoman.serving.limits.client import Limits, LimitView
from dragoman.serving.limits.responses import amount_text, moment_text
from dragoman.serving.limits.use import priced, unlimited
from dragoman.serving.routing import Router, may_use, model_not_found

_MOST_TOKENS = 10**7


class LimitState(Struct, frozen=True):
    """The state of a limit: costs in US dollars, times as texts, None for never. `exhausted_at` is
    when nothing will be left, if use goes on as it does."""

    amount: int | str
    used: int | str
    reserved: int | str
    remaining: int | str
    resets_at: str | None
    exhausted_at: str | None


def state_of(view: LimitView) -> LimitState:
    """The state of a limit as it is shown."""
    kind, state = view.rule.kind, view.state
    return LimitState(
        amount=amount_text(kind, view.amount),
        used=amount_text(kind, state.used),
        reserved=amount_text(kind, state.reserved),
        remaining=amount_text(kind, view.remaining),
        resets_at=None if view.rule.window is None else moment_text(state.resets_at),
        exhausted_at=moment_text(state.exhausted_at),
    )


class SharedView(Struct, frozen=True):
    """A limit that machines share, as it is shown: what all have used as far as it is known here,
    what this machine may still reserve, and what the others hold. `holds` is what decides.
    `instances` are known, this one included."""

    owner: str
    name: str
    amount: int | str
    used: int | str
    here: int | str
    elsewhere: int | str
    instances: int
    holds: HeldBy


def shared_view(state: SharedState) -> SharedView:
    """A limit that machines share, as it is shown."""
    scope, owner, _ = state.name.split("\n", 2)
    rule = Rule(state.limit, owner, is_team=scope == "team")

    def text(amount: int) -> int | str:
        return amount_text(rule.kind, max(0, amount))

    return SharedView(
        owner=owner,
        name=rule.name,
        amount=text(state.amount),
        used=text(state.used),
        here=text(state.here),
        elsewhere=text(state.elsewhere),
        instances=state.machines,
        holds=state.held_by,
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
    """What a limit would decide: `asks` is what the request would count, `free_at` when it would be
    admitted if nothing else were until then."""

    owner: str
    limit: str
    mode: str
    asks: int | str
    remaining: int | str
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
    """Decides whether requests would be admitted. `expected_output` returns how much is reserved
    for an answer, by who asks and the model."""

    def __init__(
        self,
        keys: KeyRing,
        router: Router,
        prices: Prices,
        limits: Limits,
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
            expected = f"expected one of {', '.join(TIERS)}"
            raise InvalidInput((FieldError("tier", expected),))
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
        rules = self.limits.rules_of(caller)
        rules = rules.concerning((question.model, target.name, target.model))
        # Where the key has an output limit, requests that set none are given that.
        asked = caller.most_output if question.output_tokens is None else question.output_tokens
        output = asked
        if output is None:
            output = self._expected_output(caller.name, target.model)
        for most in (target.capabilities.max_output_tokens, caller.most_output):
            output = output if most is None else min(output, most)
        usage = Usage(input=question.input_tokens, output=output, tier=question.tier)
        expected = priced([usage], target, self._prices, time.time(), with_plain=True)
        longest = expected.output if asked is not None else unlimited(expected, target)
        states = await self.limits.judge(rules, expected)
        claims = rules.claims(expected, time.time())
        left = [state.left for state in states]
        output, clamped = fitting_output(Admit("", claims, expected.output, longest), left)
        if clamped:
            expected = expected.with_output(output)
            claims = rules.claims(expected, time.time())
        limits = tuple(map(_decided, rules.all, claims, states))
        refusing = [
            (state.free_at, rule)
            for rule, claim, state in zip(rules.all, claims, states, strict=True)
            if rule.enforced and claim.amount > state.left
        ]
        reason = None
        if expected.cost is None and rules.budget(billed=expected.billed):
            reason = "The model has no price, and there is a budget."
        elif refusing:
            _, rule = max(refusing, key=itemgetter(0))
            reason = f"{rule.name} refuses it."
        return Answer(
            admitted=reason is None,
            reason=reason,
            upstream=target.upstream.name,
            model=target.model,
            output_tokens=expected.output,
            clamped_to=clamped or None,
            cost_usd=None if expected.cost is None else dollars(expected.cost),
            limits=limits,
        )


def _decided(rule: Rule, claim: Claim, state: State) -> AskedLimit:
    admits = claim.amount <= state.left
    return AskedLimit(
        owner=rule.owner,
        limit=rule.name,
        mode=rule.limit.mode,
        asks=amount_text(rule.kind, claim.amount),
        remaining=amount_text(rule.kind, max(0, state.left)),
        admits=admits,
        free_at=None if admits else moment_text(state.free_at),
    )
