"""The accounts of a configuration: which there are, what is known of each, and how many requests
each has in flight.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from dragoman.accounts.avoidance import Avoidance
from dragoman.accounts.decide.members import Member, MemberSettings
from dragoman.accounts.decide.quota import Quotas
from dragoman.accounts.decide.rules import RuleSet
from dragoman.accounts.decide.states import AccountState, Rest
from dragoman.accounts.upstream_pool import LeaseMaker, UpstreamPool
from dragoman.accounts.wait_queue import LeaseRequest
from dragoman.config import Account, Upstream

_log = logging.getLogger("dragoman.accounts")


class Roster:
    """Accounts by name, beside the pools of their upstreams. `clock`, `spread` and `make_lease`
    are as in `dragoman.accounts.pool.AccountPool` and `UpstreamPool`. `quotas` is what upstreams
    reported of the accounts' quotas.
    """

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        clock: Callable[[], float],
        spread: Callable[[], float],
        make_lease: LeaseMaker,
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._pools = {one.name: UpstreamPool(one, clock, make_lease) for one in upstreams}
        self._accounts: dict[str, Account] = {}
        self._fingerprints: dict[str, str] = {}
        self._tagged: dict[str, str] = {}
        self._in_flight: dict[str, int] = {}
        self._leaving: dict[str, tuple[str, Member]] = {}
        self._elsewhere: dict[str, int] = {}
        """Requests that other workers have in flight, by account, as the store reported."""
        self._avoidance = Avoidance(self._avoid, spread)
        self.quotas = Quotas()

    # What there is

    def rules(self, upstream: str) -> RuleSet:
        """The rule set of the upstream, its own rows first."""
        return self._pools[upstream].rules

    def accounts_of(self, upstream: str) -> UpstreamPool:
        """The accounts of the upstream."""
        return self._pools[upstream]

    def upstreams(self) -> list[str]:
        """The names of all upstreams."""
        return list(self._pools)

    def accounts(self) -> list[Account]:
        """All accounts that are there now."""
        return list(self._accounts.values())

    def account(self, name: str) -> Account:
        """The account of that name.

        Raises:
            KeyError: there is none.
        """
        return self._accounts[name]

    def tagged(self, tag: str) -> str:
        """The name of the account with this `account_tag`, empty if there is none."""
        return self._tagged.get(tag, "")

    def state(self, name: str) -> AccountState:
        """What is known of the account.

        Raises:
            KeyError: there is none of that name.
        """
        return self._member(name).state

    def balance(self, name: str) -> float | None:
        """Tokens that are left to the account, None if nobody counts.

        Raises:
            KeyError: there is none of that name.
        """
        return self._member(name).balance

    def others(self, wanted: LeaseRequest, tried: Collection[str]) -> int:
        """How many accounts that are not in `tried` could serve, now or when they are free."""
        return self._pools[wanted.upstream].others(wanted.model, tried)

    def size(self, upstream: str) -> int:
        """How many accounts the upstream has."""
        return len(self._pools[upstream].rotation)

    def resting(self, upstream: str) -> Rest | None:
        """The rest of an upstream that refuses all accounts alike, None if it does not."""
        return self._pools[upstream].refusals.rest

    def left(self, upstream: str) -> int:
        """How many accounts of the upstream serve some model."""
        return self._pools[upstream].left(self._clock())

    def waiting(self, upstream: str) -> int:
        """Requests that wait for an account of the upstream."""
        return len(self._pools[upstream].wait_queue.waiters)

    def usable(self) -> bool:
        """Whether any account could be used."""
        now = self._clock()
        return any(
            pool.rotation.usable(now) and not pool.refusals.is_resting(now)
            for pool in self._pools.values()
        )

    def due_for_probe(self, now: float) -> list[str]:
        """Accounts that are out, and whose turn it is to be tried by a probe. Each is named once
        in about the `every_s` of its upstream's probe."""
        due: list[str] = []
        for pool in self._pools.values():
            if pool.probes is not None:
                due += pool.probes.due(self._state_or_none, now, self._spread)
        return due

    @contextmanager
    def probing(self, name: str) -> Iterator[None]:
        """Hold an account for a probe: it has one request more in flight, for all workers to see.
        It is held whatever its state: that is what a probe is for."""
        self._in_flight[name] = self._in_flight.get(name, 0) + 1
        try:
            yield
        finally:
            self._one_less(name)

    def _state_or_none(self, name: str) -> AccountState | None:
        return self._member(name).state if name in self._accounts else None

    def _member(self, name: str) -> Member:
        return self._pools[self._accounts[name].upstream].rotation.member(name)

    # Accounts that come and go

    def define(self, accounts: Iterable[Account]) -> None:
        """Add accounts, or replace those of the same name: what is known of them remains, and
        requests in flight go on. Accounts of upstreams that do not exist are left out."""
        now = self._clock()
        touched: dict[str, UpstreamPool] = {}
        for account in accounts:
            pool = self._pools.get(account.upstream)
            if pool is None:
                _log.warning("account %s: no upstream %s", account.name, account.upstream)
                continue
            self._define(pool, account, now)
            touched[account.upstream] = pool
        for pool in touched.values():
            if pool.wait_queue.waiters:
                pool.wait_queue.serve()

    def _define(self, pool: UpstreamPool, account: Account, now: float) -> None:
        name = account.name
        old = self._accounts.get(name)
        if old is not None:
            if old.upstream != account.upstream:
                self.withdraw([name])
            else:
                self._forget_way(pool, old)
        settings = MemberSettings(
            name,
            account.models,
            account.priority,
            account.weight,
            account.max_concurrent,
            account.balance,
        )
        upstream, former = self._leaving.pop(name, ("", None))
        pool.rotation.define(settings, now, former if upstream == account.upstream else None)
        self._accounts[name] = account
        print_of_key = account.fingerprint
        if self._fingerprints.get(name) != print_of_key:
            pool.refusals.forget(name)
        self._fingerprints[name] = print_of_key
        self._tagged[account_tag(name)] = name
        pool.add_way(account, 1)
        self._avoidance.add(account, now)

    def withdraw(self, names: Iterable[str]) -> None:
        """Remove accounts; those that are not there are passed over. Requests in flight end as
        usual."""
        touched: dict[str, UpstreamPool] = {}
        for name in names:
            account = self._accounts.pop(name, None)
            if account is None:
                continue
            pool = touched[account.upstream] = self._pools[account.upstream]
            if name in self._elsewhere:
                # Should it come back, the next exchange brings their number.
                del self._elsewhere[name]
                pool.rotation.in_flight_elsewhere(name, 0)
            member = pool.rotation.withdraw(name)
            if name in self._in_flight:
                self._leaving[name] = account.upstream, member
            self._forget_way(pool, account)
            self.quotas.forget(name)
            self._avoidance.forget(name)
            pool.refusals.forget(name)
            del self._fingerprints[name]
            self._tagged.pop(account_tag(name), None)
        for pool in touched.values():
            if pool.wait_queue.waiters:
                pool.wait_queue.serve()

    def _forget_way(self, pool: UpstreamPool, account: Account) -> None:
        pool.add_way(account, -1)
        self._avoidance.remove_proxy(account)

    # What becomes known of them

    def prepare(self, name: str, rest: Rest | None) -> None:
        """Choose an account after the others until it has its first credential, or no longer
        (None)."""
        self._avoidance.prepare(name, rest, self._clock())

    def _avoid(self, name: str, rest: Rest | None, now: float) -> None:
        self._pools[self._accounts[name].upstream].rotation.avoid(name, rest, now)

    def _put(self, pool: UpstreamPool, name: str, state: AccountState, now: float) -> None:
        self._know(pool, name, state, now)
        if pool.wait_queue.waiters:
            pool.wait_queue.serve()

    def _know(self, pool: UpstreamPool, name: str, state: AccountState, now: float) -> None:
        if state.renewed > pool.rotation.member(name).state.renewed:
            self._avoidance.set_silence(name, None, now)
        pool.rotation.put(name, state, now)
        if pool.probes is not None:
            pool.probes.consider(state, now, self._spread())

    def settle_quotas(self) -> None:
        """Apply the quotas that answers have reported since the last call."""
        for name, used in self.quotas.settle(self._clock()).items():
            self._set_quota(name, used)

    def _set_quota(self, name: str, used: float) -> None:
        pool = self._side_of(name)
        if pool is None:
            self.quotas.forget(name)
        else:
            pool.rotation.quota(name, used)

    def _one_less(self, name: str) -> None:
        left = self._in_flight[name] - 1
        if left:
            self._in_flight[name] = left
        else:
            del self._in_flight[name]
            self._leaving.pop(name, None)

    def _side_of(self, name: str) -> UpstreamPool | None:
        account = self._accounts.get(name)
        return None if account is None else self._pools[account.upstream]


def account_tag(name: str) -> str:
    """A short word that stands for an account where its name must not be shown."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]
