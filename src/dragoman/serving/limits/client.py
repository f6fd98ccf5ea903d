"""The limits of all callers, as one worker asks their owner about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from typing import NamedTuple
from weakref import WeakValueDictionary

from dragoman.config.limits import Limit
from dragoman.keys.ring import Caller
from dragoman.limits.balances import Balance
from dragoman.limits.ledgers import Ledger, ledger_name
from dragoman.limits.messages import (
    Admit,
    Asked,
    Away,
    Claim,
    Decision,
    Define,
    Gone,
    Granted,
    Leave,
    Look,
    LookShared,
    Mark,
    Reached,
    Refused,
    Restore,
    Retire,
    Settle,
    Settled,
    SharedState,
    State,
    Unknown,
    Writing,
    Written,
)
from dragoman.limits.owner import reached, state_of
from dragoman.limits.rules import Admitted, Amounts, Expected, Reservation, Rule, Rules
from dragoman.link.messages import Handlers, LinkClosed, LinkError, Peer
from dragoman.serving.limits import questions
from dragoman.serving.limits.alerts import LimitAlerts
from dragoman.serving.limits.exchange import LedgerExchange
from dragoman.serving.limits.history import UsageHistory, stored_since

_AT_ONCE = 25
"""Keys whose limits are looked at before others have their turn."""

_MOST_COUNTING = 4096

MarkOf = Callable[[str], Awaitable[float]]
"""Reads the mark of the latest batch of a writer in the store, 0 if there is none.

Raises:
    StoreError: the store cannot be used.
"""


class LimitView(NamedTuple):
    """A limit, how much there is of it with what is granted, and its state."""

    rule: Rule
    amount: int
    state: State

    @property
    def granted(self) -> int:
        """What of the amount is granted for a time."""
        return self.amount - self.rule.limit.units

    @property
    def remaining(self) -> int:
        """What is left."""
        return max(0, self.amount - self.state.used - self.state.reserved)


class Limits:
    """Asks the owner of limits, which is `owner`. `history` reads rows of usage. `alerts`
    reports limits that fill up. `exchange` reports to the ledgers of limits that several machines
    share."""

    def __init__(
        self,
        owner: Peer,
        history: UsageHistory,
        alerts: LimitAlerts,
        mark_of: MarkOf | None = None,
        exchange: LedgerExchange | None = None,
    ) -> None:
        self.history = history
        self.away_since = 0.0
        """Since when the database that several machines share is away (Unix seconds); 0 if it is
        not."""
        self.reserved_cost = 0
        """Pico-dollars that requests of this worker have reserved, at each of their limits."""
        self._owner = owner
        self._alerts = alerts
        self._mark_of = mark_of
        self._exchange = exchange
        self._rules: WeakValueDictionary[str, Rule] = WeakValueDictionary()
        self._counting: dict[str, Rules] = {}
        self._by_number: WeakValueDictionary[int, Rule] = WeakValueDictionary()

    def register(self, handlers: Handlers) -> None:
        """Have messages of the owner handled here."""
        if (exchange := self._exchange) is not None:
            handlers.answer(questions.EXCHANGE, lambda _, message: exchange.exchange(message))
        handlers.receive(questions.REACHED, self._reached)
        handlers.receive(questions.AWAY, self._away)
        handlers.answer(questions.GONE, self._gone)

    async def close(self) -> None:
        """End: what the machine was lent is given back, if this is its last worker."""
        with suppress(LinkError):
            await self._owner.ask(questions.LEAVE, Leave())
        if self._exchange is not None:
            self._exchange.close()

    async def bind(self, caller: Caller) -> Rules:
        """The limits of a caller, which it keeps.

        Raises:
            LinkClosed: the owner is gone.
        """
        rules = self._rules_of(caller.name, caller.limits, caller.team, caller.team_limits)
        await self._define([one for one in rules if not one.number])
        caller.bound = bound = Rules(rules)
        for view in await self._views(rules):
            if view.rule.window is not None and view.amount:
                share = reached(view.state.used, view.amount)
                if share:
                    self._alerts.found(view.rule, share)
        return bound

    def retire(self, former: Rules, caller: Caller | None) -> None:
        """Limits of a caller have changed: those that are in force no more are to be restored if
        they are again."""
        rules: Iterable[Rule] = ()
        if caller is not None:
            rules = self._rules_of(caller.name, caller.limits, caller.team, caller.team_limits)
        ledgers = {one.ledger for one in rules}
        team = None if caller is None else caller.team
        gone = [
            one.number
            for one in former.all
            if one.number
            and one.ledger not in ledgers
            # Those of a team that the caller has left are in force for others.
            and (not one.is_team or one.owner == team)
        ]
        if gone:
            self._owner.report(questions.RETIRE, Retire(tuple(gone)))

    async def admit(
        self, rules: Rules, caller: str, expected: Expected, longest: int, answers: int
    ) -> Reservation | Refused:
        """Reserve for a request that may come to `expected` at all of these limits. `longest` is
        the longest output that it may have, of `answers` answers together.

        Raises:
            LinkClosed: the owner is gone.
        """
        while True:
            claims = rules.claims(expected, time.time())
            message = Admit(caller, claims, expected.output, longest, answers)
            decision = await self._ask(message)
            if isinstance(decision, Granted):
                return self._reserved(rules, decision)
            if isinstance(decision, Refused):
                return decision
            await self._define(rules.all)

    def _reserved(self, rules: Rules, granted: Granted) -> Reservation:
        cost = sum(map(granted.amounts.__getitem__, rules.costs))
        self.reserved_cost += cost
        return Reservation(rules, granted, cost)

    async def count(self, limit: Limit, owner: str) -> bool:
        """Count one request at a limit of requests that no key has by its rules. `owner` is who it
        is counted for, a name that no key can have. Returns whether it is within the limit."""
        rules = self._counting.get(owner)
        if rules is None:
            if len(self._counting) >= _MOST_COUNTING:
                self._counting.clear()
            rules = self._counting[owner] = Rules([self._rule(limit, owner, is_team=False)])
        try:
            reserved = await self.admit(rules, owner, Expected(0, 0), 0, 1)
        except LinkClosed:
            return False
        if isinstance(reserved, Reservation):
            self.settle(reserved, reserved.granted.amounts)
        return isinstance(reserved, Reservation)

    async def admit_more(self, admitted: Admitted, now: float) -> Granted | Refused | None:
        """Ask to admit one more answer to a request that is under way, as long as the first may be:
        it is given more input. None if it has no limits that count this.

        Raises:
            LinkClosed: the owner is gone.
        """
        first = admitted.reservation
        pairs = [
            (rule, amount)
            for rule, amount in zip(first.rules.all, first.granted.amounts, strict=True)
            if rule.counts_tokens
        ]
        claims = [
            Claim(rule.number, amount, rule.amount(now), rule.enforced) for rule, amount in pairs
        ]
        decision = await self._ask(Admit(admitted.caller, tuple(claims))) if claims else None
        if isinstance(decision, Granted):
            reserved = self._reserved(Rules([rule for rule, _ in pairs]), decision)
            admitted.more = (*admitted.more, reserved)
        return None if isinstance(decision, Unknown) else decision

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        """A request is over and came to `spent`: to be called exactly once for each reservation."""
        granted = reservation.granted
        settled = tuple(map(Settled, reservation.rules.numbers(), granted.amounts, spent))
        self.reserved_cost -= reservation.cost
        message = Settle(granted.at, settled, self.history.is_stored)
        self._owner.report(questions.SETTLE, message)

    async def judge(self, rules: Rules, expected: Expected) -> Sequence[State]:
        """The states of limits, and when a request that may come to `expected` would be admitted;
        nothing is reserved."""
        amounts = [claim.amount for claim in rules.claims(expected, time.time())]
        return await self._states(rules.all, amounts)

    def rules_of(self, caller: Caller) -> Rules:
        """The limits of a caller, of which the owner may not know yet."""
        return caller.bound or Rules(
            self._rules_of(caller.name, caller.limits, caller.team, caller.team_limits)
        )

    async def views(self, caller: Caller) -> tuple[LimitView, ...]:
        """The limits of a caller, and their states."""
        return await self._views(self.rules_of(caller).all)

    async def views_of(
        self, name: str, limits: Iterable[Limit], *, is_team: bool
    ) -> tuple[LimitView, ...]:
        """The same for limits of a key or a team of this name."""
        owners = [(name, tuple(limits))]
        (views,) = [views async for _, views in self.views_of_all(owners, is_team=is_team)]
        return views

    async def views_of_all(
        self, owners: Sequence[tuple[str, Sequence[Limit]]], *, is_team: bool
    ) -> AsyncIterator[tuple[int, tuple[LimitView, ...]]]:
        """The same for each of several keys or teams, by their names and limits, with the place of
        each; others have their turn now and then."""
        users: Collection[str] | None = None
        users_begin = inf
        for start in range(0, len(owners), _AT_ONCE):
            some = [
                [self._rule(limit, owner, is_team) for limit in limits]
                for owner, limits in owners[start : start + _AT_ONCE]
            ]
            rules = list(chain.from_iterable(some))
            states = dict(zip(rules, await self._known_states(rules), strict=True))
            now = time.time()
            unknown = [one for one in rules if states[one] is None]
            begins = [begin for one in unknown if (begin := stored_since(one, now)) is not None]
            if len(owners) > 1 and begins and min(begins) < users_begin:
                users_begin = min(begins)
                users = await self.history.users(users_begin, is_team=is_team)
            for place, group in enumerate(some, start):
                views = []
                for one in group:
                    state = states[one]
                    if state is None:
                        has_used = users is None or one.owner in users
                        state = await self._stored_state(one, 0, has_used=has_used)
                    views.append(LimitView(one, one.amount(now), state))
                yield place, tuple(views)
            await asyncio.sleep(0)

    async def counted(
        self, owners: Sequence[tuple[str, Sequence[Limit]]], *, is_team: bool
    ) -> list[int]:
        """The places of those of several keys or teams that may have used something of a limit: of
        all others nothing was used of late."""
        found: list[int] = []
        begin, now = inf, time.time()
        unknown: list[int] = []
        for place, (owner, limits) in enumerate(owners):
            rules = [self._rule(limit, owner, is_team) for limit in limits]
            if any(await self._known_states(rules)):
                found.append(place)
            else:
                begins = [since for one in rules if (since := stored_since(one, now)) is not None]
                if begins:
                    unknown.append(place)
                    begin = min(begin, *begins)
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
        users = await self.history.users(begin, is_team=is_team) if unknown else ()
        found += [place for place in unknown if users is not None and owners[place][0] in users]
        return sorted(found)

    async def shared(self) -> tuple[SharedState, ...]:
        """The limits that this machine shares with others.

        Raises:
            LinkClosed: the owner is gone.
        """
        return (await self._owner.ask(questions.LOOK_SHARED, LookShared())).limits

    # Between what is settled and rows of usage

    def writing(self, writer: str, mark: float) -> None:
        """What was settled so far is about to be written to rows of usage by `writer`, whose latest
        batch has this mark."""
        self._owner.report(questions.WRITING, Writing(writer, mark))

    def written(self, *, done: bool) -> None:
        """It is written; or is not, and is to be written later."""
        self._owner.report(questions.WRITTEN, Written(done))

    # What the owner sends

    def _reached(self, owner: Peer, message: Reached) -> None:
        rule = self._by_number.get(message.number)
        if rule is not None:
            self._alerts.reached(rule, message.percent)

    def _away(self, owner: Peer, message: Away) -> None:
        self.away_since = message.since

    async def _gone(self, owner: Peer, message: Gone) -> Mark:
        assert self._mark_of is not None, "whoever writes has a store"
        return Mark(await self._mark_of(message.writer))

    # Asking

    def _ask(self, message: Admit) -> Awaitable[Decision]:
        def give_back(decision: Decision) -> None:
            """Nothing comes of what a request was granted, which has left meanwhile."""
            if isinstance(decision, Granted):
                pairs = zip(message.claims, decision.amounts, strict=True)
                settled = tuple([Settled(claim.number, amount, 0) for claim, amount in pairs])
                settle = Settle(decision.at, settled, is_stored=False)
                self._owner.report(questions.SETTLE, settle)

        return self._owner.ask(questions.ADMIT, message, give_back)

    async def _define(self, rules: Sequence[Rule]) -> None:
        """Have the owner know limits, and what was used of those that are new to it."""
        if not rules:
            return
        message = Define(tuple([(one.ledger, one.limit) for one in rules]))
        defined = await self._owner.ask(questions.DEFINE, message)
        for rule, number in zip(rules, defined.numbers, strict=True):
            if number in defined.empty:
                used = await self.history.used(rule, time.time())
                self._owner.report(questions.RESTORE, Restore(number, used))
        # Not before: a request that is asked about meanwhile would find them empty.
        for rule, number in zip(rules, defined.numbers, strict=True):
            rule.number = number
            self._by_number[number] = rule

    async def _known_states(
        self, rules: Sequence[Rule], amounts: Sequence[int] | None = None
    ) -> Sequence[State | None]:
        """The states of limits, None of those that the owner does not count."""
        if not rules:
            return ()
        now = time.time()
        asked = [
            Asked(one.ledger, one.amount(now), amount)
            for one, amount in zip(rules, amounts or [0] * len(rules), strict=True)
        ]
        states: Sequence[State | None] = [None] * len(rules)
        with suppress(LinkClosed):
            states = (await self._owner.ask(questions.LOOK, Look(tuple(asked)))).states
        if self._exchange is None or self.away_since:
            return states
        # What this machine does not count, others may, and while it holds nothing of a limit it
        # hears nothing of what they use: the ledgers tell.
        names = [ledger_name(one.ledger) for one in rules]
        ledgers = await self._exchange.read(names)
        return [
            _latest(state, _state_in(ledgers.get(name), rule, one, now))
            for state, name, rule, one in zip(states, names, rules, asked, strict=True)
        ]

    async def _states(self, rules: Sequence[Rule], amounts: Sequence[int]) -> list[State]:
        known = await self._known_states(rules, amounts)
        return [
            state or await self._stored_state(rule, amount)
            for rule, amount, state in zip(rules, amounts, known, strict=True)
        ]

    async def _stored_state(self, rule: Rule, amount: int, *, has_used: bool = True) -> State:
        """The state of a limit that the owner does not count, by rows of usage."""
        now = time.time()
        balance = Balance(0, rule.ledger, rule.limit)
        balance.amount = rule.amount(now)
        if has_used:
            balance.counter.restore(await self.history.used(rule, now), now)
        return state_of(balance, amount, now)

    async def _views(self, rules: Sequence[Rule]) -> tuple[LimitView, ...]:
        now = time.time()
        states = await self._states(rules, [0] * len(rules))
        pairs = zip(rules, states, strict=True)
        return tuple([LimitView(rule, rule.amount(now), state) for rule, state in pairs])

    def _rules_of(
        self, name: str, limits: Iterable[Limit], team: str, team_limits: Iterable[Limit]
    ) -> list[Rule]:
        own = [self._rule(limit, name, is_team=False) for limit in limits]
        return own + [self._rule(limit, team, is_team=True) for limit in team_limits]

    def _rule(self, limit: Limit, owner: str, is_team: bool) -> Rule:
        rule = Rule(limit, owner, is_team=is_team)
        known = self._rules.get(rule.ledger)
        if known is not None and known.limit == limit:
            return known
        if known is not None:
            rule.number, rule.reported_until = known.number, known.reported_until
            if rule.number:
                self._by_number[rule.number] = rule
        self._rules[rule.ledger] = rule
        return rule


def _latest(here: State | None, stored: State | None) -> State | None:
    """Of the states of a limit here and by its ledger, the one that knows of more use."""
    if here is None or (stored is not None and stored.used > here.used):
        return stored
    return here


def _state_in(ledger: Ledger | None, rule: Rule, asked: Asked, now: float) -> State | None:
    """The state of a limit that machines share, by its ledger; None if that has nothing."""
    if ledger is None or ledger.counter is None:
        return None
    balance = Balance(0, rule.ledger, rule.limit)
    balance.amount = asked.most
    balance.counter.take(ledger.counter)
    balance.reserved = sum(one.reserved for one in ledger.holdings.values())
    return state_of(balance, asked.amount, now)
