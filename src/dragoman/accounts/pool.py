"""The shell around the decisions: account states in this process, and leases.

A request takes a lease of an account, tells it how the upstream answered, and gives it back on
every path. What is decided is decided by the pure functions beside this module, so that states
may move to a store of their own without a rule changing place.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Container
from types import TracebackType

from dragoman.accounts.decisions import Symptom, classify
from dragoman.accounts.rotation import Rotation
from dragoman.accounts.rules import RULE_SETS, RuleSet
from dragoman.accounts.states import AccountState, Decision
from dragoman.canonical.errors import DragomanError, Fault, FaultKind
from dragoman.config import Account, Config, matches


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


class Lease:
    """One account, lent to one request. A context manager: leaving it gives the account back."""

    __slots__ = ("_model", "_pool", "account")

    def __init__(self, pool: Pool, account: Account, model: str) -> None:
        self._pool = pool
        self._model = model
        self.account = account

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.give_back(self.account)

    def succeeded(self) -> None:
        """The upstream answered well."""
        self._pool.succeeded(self.account, self._model)

    def failed(self, symptom: Symptom) -> Decision:
        """The upstream failed with `symptom`: what to do about it."""
        return self._pool.failed(self.account, self._model, symptom)


class Pool:
    """All accounts of a configuration. `clock` is monotonic, in seconds."""

    def __init__(self, config: Config, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._accounts = {account.name: account for account in config.accounts}
        self._tags = {name: account_tag(name) for name in self._accounts}
        self._in_flight = dict.fromkeys(self._accounts, 0)
        self._clock = clock
        self._rules = {entry.name: RULE_SETS[entry.account_rules] for entry in config.upstreams}
        self._rotations = {
            upstream.name: Rotation(
                (entry.name for entry in config.accounts if entry.upstream == upstream.name),
                self._serves,
            )
            for upstream in config.upstreams
        }

    def lease(self, upstream: str, model: str, tried: Container[str] = ()) -> Lease:
        """Lend the least recently used account of `upstream` that may serve `model` (the
        upstream's name of it; empty for any) and is not in `tried`.

        Raises:
            NoAccount: none is left.
        """
        rotation = self._rotations[upstream]
        now = self._clock()
        name = rotation.choose(model, tried, now)
        if name is None:
            shortage = rotation.shortage(model)
            wait = None if shortage.soonest is None else max(0.0, shortage.soonest - now)
            raise NoAccount.because(model, shortage.reasons, wait)
        self._in_flight[name] += 1
        return Lease(self, self._accounts[name], model)

    def give_back(self, account: Account) -> None:
        """End a lease."""
        self._in_flight[account.name] -= 1

    def succeeded(self, account: Account, model: str) -> None:
        """Take note that the account was answered well."""
        self._rotations[account.upstream].succeeded(account.name, model, self._clock())

    def failed(self, account: Account, model: str, symptom: Symptom) -> Decision:
        """Decide upon a failure by the upstream's rules and take note of it."""
        decision = classify(symptom, self._rules[account.upstream].rules)
        self._rotations[account.upstream].observe(account.name, decision, model, self._clock())
        return decision

    def rules(self, upstream: str) -> RuleSet:
        """The rule set of the upstream."""
        return self._rules[upstream]

    def enable(self, name: str) -> None:
        """Forget all that is held against the account."""
        self._rotations[self._accounts[name].upstream].enable(name)

    def state(self, name: str) -> AccountState:
        """What is known of the account."""
        return self._rotations[self._accounts[name].upstream].state(name)

    def in_flight(self, name: str) -> int:
        """Leases of the account that were not given back yet."""
        return self._in_flight[name]

    def tag(self, name: str) -> str:
        """What stands for the account where clients can see it."""
        return self._tags[name]

    def usable(self) -> bool:
        """Whether any account could be used."""
        now = self._clock()
        return any(rotation.usable(now) for rotation in self._rotations.values())

    def _serves(self, name: str, model: str) -> bool:
        patterns = self._accounts[name].models
        return patterns is None or not model or any(matches(pattern, model) for pattern in patterns)


def account_tag(name: str) -> str:
    """A short word that stands for an account without telling its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]
