"""Requests are held to the limits of the accounts they are sent with, before an upstream refuses
them: an account without anything left rests as after a refusal, and another is tried."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from dragoman.accounts.decide.symptoms import symptom_of_answer
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.config import Account
from dragoman.edge.auth import Caller
from dragoman.edge.record import Record
from dragoman.keys.records import ACCOUNT
from dragoman.limits.rules import Expected, Reservation, Rules
from dragoman.link.messages import LinkClosed
from dragoman.serving.failures import Failure
from dragoman.serving.limits.client import Limits
from dragoman.serving.limits.use import ExpectedUse, spent_by
from dragoman.serving.plan import Plan
from dragoman.translation import ClientRequest

_LONGEST_S = 24 * 3600.0
"""Seconds that an account rests at most for a limit of which nothing will be free again."""


class Reserved:
    """What a request has reserved of an account's limits."""

    __slots__ = ("_limits", "_reservation")

    def __init__(self, limits: Limits, reservation: Reservation) -> None:
        self._limits = limits
        self._reservation = reservation

    def settle(self, record: Record) -> None:
        """The request is over: what it has used is counted."""
        spent = self._reservation.rules.amounts(spent_by(record))
        self._limits.settle(self._reservation, spent)


class AccountLimits:
    """The limits of `accounts`; `expected` is what requests will probably use."""

    def __init__(self, limits: Limits, expected: ExpectedUse, accounts: Iterable[Account]) -> None:
        self._limits = limits
        self._expected = expected
        self._owners = {
            one.name: Caller(ACCOUNT + one.name, limits=one.limits)
            for one in accounts
            if one.limits
        }

    async def reserve(self, request: ClientRequest, plan: Plan, name: str) -> Reserved | None:
        """Reserve for a request that is about to be sent with the account of that name; None if
        that has no limits, or they are not known.

        Raises:
            Failure: too little is left.
        """

        def expect(rules: Rules, owner: str, now: float) -> Expected:
            return self._expected.of(rules, owner, request, plan.target, plan.prices, now)[0]

        return await self.reserve_expected(plan, name, expect)

    async def reserve_expected(
        self, plan: Plan, name: str, expect: Callable[[Rules, str, float], Expected]
    ) -> Reserved | None:
        """As `reserve`, for a request of which `expect` returns what it may come to, from the
        limits, the name of their owner and the time.

        Raises:
            Failure: too little is left.
        """
        owner = self._owners.get(name)
        if owner is None:
            return None
        now = time.time()
        try:
            rules = owner.bound or await self._limits.bind(owner)
            rules = rules.concerning((plan.target.model,))
            expected = expect(rules, owner.name, now)
            decision = await self._limits.admit(rules, owner.name, expected, 0, 1)
        except LinkClosed:
            return None
        if isinstance(decision, Reservation):
            return Reserved(self._limits, decision)
        rule = rules.all[decision.place]
        wait = min(max(1.0, decision.free_at - now), _LONGEST_S)
        window = f" for {rule.limit.window}" if rule.limit.window else ""
        problem = f"The limit of {rule.limit.kind}{window} of the upstream's account is used up."
        fault = Fault(FaultKind.RATE_LIMITED, problem, code="rate_limit_exceeded", retry_after=wait)
        headers = {"retry-after": str(math.ceil(wait))}
        raise Failure(fault, symptom_of_answer(429, headers, None, now), 429)
