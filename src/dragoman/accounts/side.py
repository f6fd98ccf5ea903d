"""What a pool keeps of one upstream, and how accounts are called where they must not be named."""

from __future__ import annotations

import hashlib
from typing import Protocol

from dragoman.accounts.affinity import Affinity
from dragoman.accounts.lease import Lease
from dragoman.accounts.ordering import ORDERS
from dragoman.accounts.probing import ProbePlan
from dragoman.accounts.proxies import ProxySet
from dragoman.accounts.rotation import Rotation
from dragoman.accounts.rules import RULE_SETS, RuleSet
from dragoman.accounts.waiting import Waiter, WaitingLine
from dragoman.config import Account, Upstream
from dragoman.config.secret import fingerprint


class Staff(Protocol):
    """Who serves the waiting lines of all upstreams."""

    def lend_to(self, side: Side, waiter: Waiter[Lease]) -> Lease | None:
        """A lease for the waiter, None if there is none for it now."""

    def refusal_of(self, side: Side, waiter: Waiter[Lease], final: bool) -> Exception | None:
        """The error for a waiter that is to wait no longer."""

    def wake_in(self, side: Side) -> float | None:
        """In how many seconds the next rest of an account ends."""


class Window:
    """Where the waiting line of one upstream is served: see `dragoman.accounts.waiting.Counter`."""

    __slots__ = ("_pool", "_side")

    def __init__(self, pool: Staff, side: Side) -> None:
        self._pool = pool
        self._side = side

    def lend(self, waiter: Waiter[Lease]) -> Lease | None:
        """A lease for the waiter, None if there is none for it now."""
        return self._pool.lend_to(self._side, waiter)

    def refusal(self, waiter: Waiter[Lease], *, final: bool) -> Exception | None:
        """The error for a waiter that is to wait no longer."""
        return self._pool.refusal_of(self._side, waiter, final)

    def next_wake(self) -> float | None:
        """In how many seconds the next rest of an account ends."""
        return self._pool.wake_in(self._side)


class Side:
    """All that belongs to one upstream."""

    __slots__ = ("affinity", "line", "probes", "proxies", "rotation", "rules", "upstream")

    def __init__(self, pool: Staff, upstream: Upstream) -> None:
        shipped = RULE_SETS[upstream.account_rules]
        own = RuleSet(upstream.rules + shipped.rules, shipped.final)
        self.upstream = upstream
        self.rules = own if upstream.rules else shipped
        self.rotation = Rotation(order=ORDERS[upstream.selection]())
        self.affinity = Affinity(upstream.affinity_s)
        self.proxies = ProxySet(len(upstream.proxies)) if upstream.proxies else None
        self.probes = (
            None
            if upstream.probe is None
            else ProbePlan(upstream.probe.model, upstream.probe.every_s)
        )
        self.line: WaitingLine[Lease] = WaitingLine(Window(pool, self))


def account_tag(name: str) -> str:
    """A short word that stands for an account without telling its name."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def key_print(account: Account) -> str:
    """What tells one key of an account from another without telling the key; empty for none."""
    return fingerprint(account.key)
