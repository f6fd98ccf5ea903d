"""The shell around the decisions: account states in this process, and leases.

A request takes a lease of an account, tells it how the upstream answered, and gives it back on
every path. What is decided is decided by the pure functions beside this module, so that states
may move to a store of their own without a rule changing place.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Container, Iterable
from types import TracebackType

from msgspec import Struct

from dragoman.accounts.decisions import classify
from dragoman.accounts.rotation import Rotation
from dragoman.accounts.rules import RULE_SETS, RuleSet
from dragoman.accounts.states import (
    AccountState,
    Decision,
    Disabled,
    Enabled,
    Failed,
    KeyChanged,
    Outcome,
    Succeeded,
    Transition,
)
from dragoman.accounts.symptoms import Symptom
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config import Account, Config, Secret, Upstream, matches
from dragoman.failing import Verdict
from dragoman.storage.base import Batch, Changes


class NoAccount(DragomanError):
    """No account is left for a request. The message tells the reasons, `retry_after` when one of
    the resting accounts will be back, in seconds.
    """

    @classmethod
    def because(
        cls, model: str, reasons: tuple[tuple[str, int], ...], retry_after: float | None
    ) -> NoAccount:
        """An error that lists each reason with the number of accounts it holds for."""
        told = "; ".join(f"{why}: {count}" for why, count in reasons)
        message = f"No active accounts available for {model}"
        return cls(
            Fault(
                FaultKind.NO_ACCOUNT,
                f"{message} ({told})" if told else message,
                code="no_account_available",
                retry_after=retry_after,
            )
        )


class AllBusy(NoAccount):
    """Every account that could serve has as many requests in flight as it may: one of them will be
    free again."""


class Wanted(Struct, frozen=True):
    """What a request needs an account for.

    `model` is the upstream's name of the model, empty for any; `pin` the digest of the
    conversation's key, empty for none.
    """

    upstream: str
    model: str = ""
    pin: bytes = b""


class Lease:
    """One account, lent to one request. A context manager: leaving it gives the account back.

    `tag` stands for the account where clients can see it; `proxy` is the URL of the proxy to call
    through, None for none; `moved` tells that the conversation was with another account before.
    """

    __slots__ = ("_model", "_pool", "account", "moved", "proxy", "tag")

    def __init__(self, pool: Pool, account: Account, model: str, proxy: Secret | None) -> None:
        self._pool = pool
        self._model = model
        self.account = account
        self.tag = account_tag(account.name)
        self.proxy = proxy
        self.moved = False

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """End the lease."""
        self._pool._give_back(self.account)

    def succeeded(self, tokens: float = 0.0) -> None:
        """The upstream answered well, and used `tokens` of the account's balance."""
        self._pool._tell(self.account.name, Succeeded(), self._model)

    def failed(self, symptom: Symptom) -> Decision:
        """The upstream failed with `symptom`: what to do about it."""
        return self._pool._failed(self.account, self._model, symptom)

    def proxy_failed(self) -> None:
        """The call failed on its way to the upstream."""

    def pin(self, digest: bytes) -> None:
        """Remember the account for the conversation of this digest."""


class Pool:
    """All accounts of a configuration. `clock` is Unix time, in seconds; `spread` gives numbers in
    [0, 1) that keep rests from ending together.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._accounts = {account.name: account for account in config.accounts}
        self._in_flight = dict.fromkeys(self._accounts, 0)
        self._clock = clock
        self._spread = spread
        self._upstreams = {entry.name: entry for entry in config.upstreams}
        self._rules = {entry.name: _rules_of(entry) for entry in config.upstreams}
        self._batch = Batch()
        self.on_transition: Callable[[Transition], None] | None = None
        self._rotations = {
            upstream.name: Rotation(
                (entry.name for entry in config.accounts if entry.upstream == upstream.name),
                self._serves,
            )
            for upstream in config.upstreams
        }

    def lease(self, wanted: Wanted, tried: Container[str] = ()) -> Lease:
        """Lend an account that is not in `tried`.

        Raises:
            NoAccount: none is left.
        """
        rotation = self._rotations[wanted.upstream]
        now = self._clock()
        name = rotation.choose(wanted.model, tried, now)
        if name is None:
            shortage = rotation.shortage(wanted.model)
            wait = None if shortage.soonest is None else max(0.0, shortage.soonest - now)
            raise NoAccount.because(wanted.model, shortage.reasons, wait)
        self._in_flight[name] += 1
        self._batch.used[name] = now
        account = self._accounts[name]
        proxy = account.proxy or self._upstreams[wanted.upstream].proxy
        return Lease(self, account, wanted.model, proxy)

    async def acquire(self, wanted: Wanted, tried: Container[str] = ()) -> Lease:
        """As `lease`, but waits while all accounts that could serve are busy.

        Raises:
            NoAccount: none is left.
        """
        return self.lease(wanted, tried)

    def _give_back(self, account: Account) -> None:
        self._in_flight[account.name] -= 1

    def _failed(self, account: Account, model: str, symptom: Symptom) -> Decision:
        decision = classify(symptom, self._rules[account.upstream].rules)
        self._tell(account.name, Failed(decision, status=symptom.status), model)
        return decision

    def _tell(self, name: str, outcome: Outcome, model: str) -> None:
        self.observe(Transition(name, outcome, self._clock(), model, self._spread()))

    def observe(self, transition: Transition) -> None:
        """Take note of what happened to an account, whoever saw or did it."""
        name, outcome = transition.account, transition.outcome
        rotation = self._rotations[self._accounts[name].upstream]
        before = rotation.state(name)
        match outcome:
            case Succeeded():
                rotation.succeeded(name, transition.model, transition.at)
            case Failed():
                rotation.observe(name, outcome.decision, transition.model, transition.at)
            case Enabled() | KeyChanged():
                rotation.enable(name)
            case Disabled():
                decision = Decision(Verdict.DISABLE, outcome.why)
                rotation.observe(name, decision, transition.model, transition.at)
        if rotation.state(name) != before:
            self._batch.transitions.append(transition)
            if self.on_transition is not None:
                self.on_transition(transition)

    def rules(self, upstream: str) -> RuleSet:
        """The rule set of the upstream, its own rows first."""
        return self._rules[upstream]

    def enable(self, name: str) -> None:
        """Forget all that is held against the account."""
        self._tell(name, Enabled(), "")

    def state(self, name: str) -> AccountState:
        """What is known of the account."""
        return self._rotations[self._accounts[name].upstream].state(name)

    def tag(self, name: str) -> str:
        """What stands for the account where clients can see it."""
        return account_tag(name)

    def in_flight(self, name: str) -> int:
        """Leases of the account that were not given back yet, of this worker and of others."""
        return self._in_flight[name]

    def usable(self) -> bool:
        """Whether any account could be used."""
        now = self._clock()
        return any(rotation.usable(now) for rotation in self._rotations.values())

    def define(self, accounts: Iterable[Account]) -> None:
        """Add accounts, or replace those of the same name."""

    def withdraw(self, names: Iterable[str]) -> None:
        """Remove accounts. Requests in flight end as usual."""

    def take_batch(self) -> Batch:
        """What there is to tell since the last batch."""
        batch, self._batch = self._batch, Batch()
        batch.leases = {name: count for name, count in self._in_flight.items() if count}
        return batch

    def restore(self, batch: Batch) -> None:
        """The exchange failed: `batch` is told again with the next."""
        self._batch.transitions[:0] = batch.transitions
        self._batch.used = {**batch.used, **self._batch.used}

    def apply(self, changes: Changes) -> None:
        """Take over what was decided elsewhere."""

    def due_for_probe(self, now: float) -> list[str]:
        """Accounts that are out and should be tried by a probe."""
        return []

    def _serves(self, name: str, model: str) -> bool:
        patterns = self._accounts[name].models
        return patterns is None or not model or any(matches(pattern, model) for pattern in patterns)


def _rules_of(upstream: Upstream) -> RuleSet:
    shipped = RULE_SETS[upstream.account_rules]
    return RuleSet(upstream.rules + shipped.rules, shipped.final) if upstream.rules else shipped


def account_tag(name: str) -> str:
    """A short word that stands for an account without telling its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]
