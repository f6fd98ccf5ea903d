"""The shell around the decisions: account states in this process, and leases.

A request takes a lease of an account, reports to it how the upstream answered, and gives it back on
every path. Decisions are made by the pure functions beside this module. `dragoman.accounts.sync`
writes what happened to a store in batches (`take_batch`), and applies what other workers decided
(`apply`). All calls come from the thread of one event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from weakref import ref

from msgspec import Struct

from dragoman.accounts.account_proxies import AccountProxies
from dragoman.accounts.affinity import MOST_PINS
from dragoman.accounts.decisions import apply, classify
from dragoman.accounts.holds import Holds
from dragoman.accounts.hosts import Hosts, dials_again
from dragoman.accounts.lease import Lease
from dragoman.accounts.members import Member, MemberSettings
from dragoman.accounts.proxies import shown
from dragoman.accounts.quota import Quotas
from dragoman.accounts.rotation import Choice
from dragoman.accounts.rules import RuleSet
from dragoman.accounts.shortage import AllBusy, NoAccount
from dragoman.accounts.silence import after_late_answer, rest_after_silence, trial
from dragoman.accounts.states import (
    AccountState,
    Decision,
    Enabled,
    Failed,
    KeyChanged,
    Outcome,
    Rest,
    Succeeded,
    Transition,
)
from dragoman.accounts.store import UNCOUNTED, Batch, Changes, Counts
from dragoman.accounts.symptoms import Symptom
from dragoman.accounts.upstream_pool import UpstreamPool
from dragoman.config import Account, Config
from dragoman.config.secret import fingerprint
from dragoman.failing import Verdict

__all__ = [
    "AccountPool",
    "AllBusy",
    "Lease",
    "LeaseRequest",
    "NoAccount",
    "account_tag",
]

_log = logging.getLogger("dragoman.accounts")

_MOST_TRANSITIONS = 50_000
"""Transitions that are kept for a store that cannot be reached, or is not there; the oldest are
dropped. So are pins, of which there are no more than are remembered for an upstream."""


_MOST_HEARD = 64
"""Accounts of which the headers of an answer are held unread."""

_LOOK_S = 0.01
"""Seconds between two looks whether other workers gave back what requests here wait for."""

_PROXY, _SILENCE = "proxy", "silence"
"""Causes for which an account is avoided that is not at fault, or not for sure."""


class LeaseRequest(Struct, frozen=True):
    """What a request needs an account for.

    `model` is the upstream's name of the model, empty for any; `pin` the digest of the
    conversation's key, empty for none; `account` the name of the account that is known to hold the
    conversation's reasoning, which goes before the one that is remembered for `pin`. `proven` says
    that accounts that were avoided and have not answered since are asked last: the request has
    waited long enough for one that hung.
    """

    upstream: str
    model: str = ""
    pin: bytes = b""
    account: str = ""
    proven: bool = False


class AccountPool:
    """All accounts of a configuration. `clock` is Unix time, in seconds; `spread` gives numbers in
    [0, 1) that keep rests from ending together.

    `on_transition` is called with every outcome that changed what is known of an account, after
    the change; `on_change` besides with what was known before and what is known then. `quotas` is
    what upstreams told of the accounts' quotas.

    Another configuration has another pool, which may take the place of this one: see `take_over`.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._pools = {one.name: UpstreamPool(one, clock, self._lend) for one in config.upstreams}
        self._accounts: dict[str, Account] = {}
        self._fingerprints: dict[str, str] = {}
        self._tagged: dict[str, str] = {}
        self._in_flight: dict[str, int] = {}
        self._leaving: dict[str, tuple[str, Member]] = {}
        self._elsewhere: set[str] = set()
        self._holds = Holds(self._hold)
        self._account_proxies = AccountProxies(partial(self._hold_for, _PROXY))
        self._hosts = Hosts()
        self._counts: Counts | None = None
        self._is_uncounted = False
        self._batch = Batch()
        self._lost: deque[Lease] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_transition: Callable[[Transition], None] | None = None
        self.on_change: Callable[[AccountState, AccountState], None] | None = None
        self.quotas = Quotas()
        self._successor: AccountPool | None = None
        self._kin: tuple[ref[AccountPool], ...] = ()
        self.define(config.accounts)

    # Leases

    def lease(self, wanted: LeaseRequest, tried: Collection[str] = ()) -> Lease:
        """Lend an account that is not in `tried`.

        Raises:
            AllBusy: all that could serve have as many requests in flight as they may.
            NoAccount: none is left.
        """
        pool = self._pools[wanted.upstream]
        now = self._clock()
        if self._lost:
            self._collect()
        if pool.wait_queue.waiters:
            pool.wait_queue.catch_up()
        lease = pool.choose(
            wanted.model, wanted.pin, tried, now, wanted.account, proven=wanted.proven
        )
        if lease is None:
            raise pool.shortage(wanted.model, tried, now)
        return lease

    async def acquire(
        self, wanted: LeaseRequest, tried: Collection[str] = (), most_s: float = inf
    ) -> Lease:
        """As `lease`, but wait while all accounts that could serve are busy, as long as the
        upstream's `queue_s`, and `most_s` seconds at most, behind at most `queue_size` others.

        Raises:
            AllBusy: the wait is over, or too many wait.
            NoAccount: none is left.
        """
        try:
            return self.lease(wanted, tried)
        except AllBusy:
            pool = self._pools[wanted.upstream]
            seconds = min(pool.upstream.queue_s, most_s)
            if len(pool.wait_queue.waiters) >= pool.upstream.queue_size or seconds <= 0:
                raise
        self._loop = asyncio.get_running_loop()
        if pool.counts is not None and not pool.looks:
            pool.looks = True
            self._loop.call_later(_LOOK_S, self._look, pool)
        return await pool.wait_queue.wait(wanted.model, wanted.pin, tried, seconds, wanted.account)

    def _look(self, pool: UpstreamPool) -> None:
        """As long as anybody waits, see whether other workers have given back."""
        pool.looks = bool(pool.wait_queue.waiters) and self._loop is not None
        if pool.looks:
            if pool.look():
                pool.wait_queue.serve()
            assert self._loop is not None
            self._loop.call_later(_LOOK_S, self._look, pool)

    def share(self, counts: Counts | None) -> None:
        """Hold `max_concurrent` to `counts` from now on, over all workers; None: to what is in
        flight here, and what the store tells of others."""
        former, self._counts = self._counts, counts
        if former is not None:
            former.close()
        self._is_uncounted = counts is None
        for pool in self._pools.values():
            pool.share(counts)

    def _lend(
        self, pool: UpstreamPool, choice: Choice, model: str, pin: bytes, now: float, moved: bool
    ) -> Lease:
        """The lease of an account that was chosen."""
        name = choice.member.name
        if choice.member.held is not None:
            self._try_silent(pool, name, now)
        self._in_flight[name] = self._in_flight.get(name, 0) + 1
        if self._kin:
            self._tell_kin(name)
        self._batch.used[name] = choice.member.used
        account = self._accounts[name]
        proxy = account.proxy or pool.upstream.proxy
        index = -1  # of no rotating set
        if account.proxy is None and pool.proxies is not None:
            index = pool.proxies.choose(now)
            proxy = pool.upstream.proxies[index]
        counted = pool.counts is not None and choice.member.settings.max_concurrent is not None
        return Lease(
            self, choice, account, model, pin, proxy, index, now, moved, pool.waits, counted
        )

    # Outcomes of leases

    def lease_ended(self, lease: Lease) -> None:
        """A lease was given back."""
        member, pool = lease.choice.member, self._pools[lease.account.upstream]
        self._one_less(member.name)
        if lease.counted and self._counts is not None:
            self._counts.give_back(member.name)
        pool.rotation.returned(lease.choice)
        if pool.wait_queue.waiters and not member.removed:
            pool.offer(member)
        if self._kin:
            self._tell_kin(member.name)

    def _one_less(self, name: str) -> None:
        left = self._in_flight[name] - 1
        if left:
            self._in_flight[name] = left
        else:
            del self._in_flight[name]
            self._leaving.pop(name, None)

    def lease_lost(self, lease: Lease) -> None:
        """A lease was forgotten. Called by the garbage collector, in any thread and at any time, so
        it is given back later."""
        self._lost.append(lease)
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:
                self._loop = None

    def lease_succeeded(self, lease: Lease, tokens: float) -> None:
        """The upstream answered the request of a lease well, and used `tokens`."""
        now = self._clock()
        member, pool = lease.choice.member, self._pools[lease.account.upstream]
        name = member.name
        if member.state.exhausted is not None or member.state.cooling:
            self._observe(name, Succeeded(), lease.model, now)
        if lease.choice.trial is not None:
            pool.rotation.end_trial(lease.choice)
            pool.offer(member)
        if lease.proxy_index >= 0 and pool.proxies is not None:
            pool.proxies.succeeded(lease.proxy_index, lease.taken)
        elif member.held is not None:
            url = lease.account.proxy
            if url is not None:
                self._account_proxies.succeeded(url.reveal(), lease.taken, now)
        if lease.pinned:
            self._pin(pool, lease, lease.pinned, now)
        if tokens and member.balance is not None:
            if not member.removed:
                pool.rotation.balance(name, member.balance - tokens)
            if self._successor is not None:
                self._successor.spent_before(name, tokens)
            self._batch.spent[name] = self._batch.spent.get(name, 0.0) + tokens

    def lease_failed(self, lease: Lease, symptom: Symptom) -> Decision:
        """The upstream failed to answer the request of a lease."""
        pool = self._pools[lease.account.upstream]
        if symptom.status and self._hosts:
            self._host_answered(lease)
        decision = classify(symptom, pool.rules.rules)
        key = fingerprint(lease.account.key)
        if key != self._fingerprints.get(lease.account.name, key):
            # It says nothing of the key that the account has by now.
            return decision
        outcome = Failed(decision, status=symptom.status, key=key, began=lease.taken)
        self._observe(lease.account.name, outcome, lease.model, self._clock())
        return decision

    def lease_began(self, lease: Lease, seconds: float, limit: float) -> None:
        """A good answer to the request of a lease began after so many seconds."""
        if lease.choice.member.held is not None:
            name, now = lease.account.name, self._clock()
            rest = self._holds.rest(name, _SILENCE)
            if rest is None:
                return
            if 0.0 < limit < seconds:
                self._hold_for(_SILENCE, name, after_late_answer(rest, now), now)
            elif lease.taken >= rest.since:
                self._hold_for(_SILENCE, name, None, now)

    def _host_answered(self, lease: Lease) -> None:
        pool = self._pools[lease.account.upstream]
        self._hosts.answered(pool.host(lease.proxy), lease.taken)

    def lease_silent(self, lease: Lease, *, ended: bool) -> bool:
        """The call of a lease has been silent for far too long."""
        pool, name, now = self._pools[lease.account.upstream], lease.account.name, self._clock()
        moves = pool.upstream.silent_calls == "move"
        if not lease.choice.member.removed:
            before = self._holds.rest(name, _SILENCE)
            limit = 0.0 if moves or ended else pool.upstream.timeouts.first_byte_s
            patience = limit - (now - lease.taken)
            rest = rest_after_silence(before, lease.taken, now, self._spread(), patience)
            if rest is not None:
                _log.warning("account %s: %s, avoided for %.0f s", name, rest.why, rest.until - now)
                self._hold_for(_SILENCE, name, rest, now)
        return moves

    def lease_unreached(self, lease: Lease, *, failed: int, timed_out: bool) -> bool:
        """The call of a lease did not get a connection to its host."""
        pool, now = self._pools[lease.account.upstream], self._clock()
        host = pool.host(lease.proxy)
        before = self._hosts.rest(host)
        rest = self._hosts.failed(host, lease.taken, now, self._spread())
        if rest is not None:
            _log.warning("%r cannot be reached: avoided for %.1f s", host, rest.until - now)
        was_known = before is not None and before.since <= lease.taken
        one_way = pool.only_host is not None
        return dials_again(failed, timed_out=timed_out, was_known=was_known, one_way=one_way)

    def lease_proxy_failed(self, lease: Lease) -> None:
        """The call of a lease did not get through its proxy."""
        if lease.proxy is None:
            return
        now, pool, url = self._clock(), self._pools[lease.account.upstream], lease.proxy.reveal()
        if lease.proxy_index >= 0 and pool.proxies is not None:
            rest = pool.proxies.failed(lease.proxy_index, lease.taken, now, self._spread())
        else:
            rest = self._account_proxies.failed(url, lease.taken, now, self._spread())
        if rest is not None:
            where = shown(url)
            _log.warning("proxy %s failed: avoided for %.1f s", where, rest.until - now)

    def pin(self, lease: Lease, digest: bytes) -> None:
        """A conversation is with the account of a lease."""
        self._pin(self._pools[lease.account.upstream], lease, digest, self._clock())

    def _pin(self, pool: UpstreamPool, lease: Lease, digest: bytes, now: float) -> None:
        if pool.upstream.affinity == "off" or lease.choice.member.removed:
            return
        name = lease.account.name
        if pool.affinity.pin(digest, name, now):
            pins = self._batch.pins
            pins[digest] = name, now
            if len(pins) > MOST_PINS:
                del pins[next(iter(pins))]

    def _collect(self) -> None:
        """Give lost leases back."""
        while self._lost:
            lease = self._lost.popleft()
            _log.error("a lease of account %s was never given back", lease.account.name)
            self.lease_ended(lease)

    # Outcomes

    def observe(self, transition: Transition) -> None:
        """Record what happened to an account, whoever observed or caused it. An account that is
        not in the pool is ignored."""
        account = self._accounts.get(transition.account)
        if account is None:
            return
        if self._successor is not None:
            self._observe_late(self._successor, account, transition)
            return
        pool = self._pools[account.upstream]
        before = pool.rotation.member(account.name).state
        after = apply(before, transition)
        if after == before:
            if _may_be_news(transition.outcome):
                self._tell(transition)
            return
        self._put(pool, account.name, after, self._clock())
        self._tell(transition)
        if self.on_transition is not None:
            self.on_transition(transition)
        if self.on_change is not None:
            self.on_change(before, after)

    def _tell(self, transition: Transition) -> None:
        transitions = self._batch.transitions
        transitions.append(transition)
        if len(transitions) > _MOST_TRANSITIONS:
            del transitions[: _MOST_TRANSITIONS // 10]

    def _observe(self, name: str, outcome: Outcome, model: str, now: float) -> None:
        self.observe(Transition(name, outcome, now, model, self._spread()))

    def _put(self, pool: UpstreamPool, name: str, state: AccountState, now: float) -> None:
        self._know(pool, name, state, now)
        if pool.wait_queue.waiters:
            pool.wait_queue.serve()

    def _know(self, pool: UpstreamPool, name: str, state: AccountState, now: float) -> None:
        if state.renewed > pool.rotation.member(name).state.renewed:
            self._hold_for(_SILENCE, name, None, now)
        pool.rotation.put(name, state, now)
        if pool.probes is not None:
            pool.probes.consider(state, now, self._spread())

    # Quotas

    def heard(self, lease: Lease, headers: Mapping[str, str]) -> None:
        """An answer to the request of a lease has these headers, which may tell of its quota."""
        lease.answered = True
        if self._hosts:
            self._host_answered(lease)
        heard = self.quotas.heard
        heard[lease.account.name] = lease.model, headers
        if len(heard) > _MOST_HEARD:
            self.settle_quotas()

    def settle_quotas(self) -> None:
        """Take over what answers have told of quotas since the last call."""
        if self._successor is not None:
            self._successor.settle_quotas()
            return
        for name, used in self.quotas.settle(self._clock()).items():
            self._set_quota(name, used)

    def _set_quota(self, name: str, used: float) -> None:
        pool = self._side_of(name)
        if pool is None:
            self.quotas.forget(name)
        else:
            pool.rotation.quota(name, used)

    # What there is

    def avoids(self, upstream: str) -> bool:
        """Whether other upstreams are asked before this one, because its host cannot be reached.
        Now and then the answer is False, and the request is the trial."""
        if not self._hosts:
            return False
        host = self._pools[upstream].only_host
        return host is not None and self._hosts.is_avoided(host, self._clock())

    def rules(self, upstream: str) -> RuleSet:
        """The rule set of the upstream, its own rows first."""
        return self._pools[upstream].rules

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

    def in_flight(self, name: str) -> int:
        """Requests in flight with the account, of this worker and of others."""
        count = self._in_flight.get(name, 0)
        if name not in self._accounts:
            return count
        return count + self._member(name).in_flight_elsewhere - self.beside(name)

    def others(self, wanted: LeaseRequest, tried: Collection[str]) -> int:
        """How many accounts that are not in `tried` could serve, now or when they are free."""
        return self._pools[wanted.upstream].others(wanted.model, tried)

    def has_choice(self, upstream: str) -> bool:
        """Whether the upstream has more than one account, so that it matters which is used."""
        return len(self._pools[upstream].rotation) > 1

    def size(self, upstream: str) -> int:
        """How many accounts the upstream has."""
        return len(self._pools[upstream].rotation)

    def left(self, upstream: str) -> int:
        """How many accounts of the upstream serve some model."""
        return self._pools[upstream].rotation.left(self._clock())

    def waiting(self, upstream: str) -> int:
        """Requests that wait for an account of the upstream."""
        return len(self._pools[upstream].wait_queue.waiters)

    def usable(self) -> bool:
        """Whether any account could be used."""
        now = self._clock()
        return any(pool.rotation.usable(now) for pool in self._pools.values())

    def enable(self, name: str) -> None:
        """Forget all that is held against the account."""
        self._observe(name, Enabled(), "", self._clock())

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
                self._forget_proxy(old)
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
        self._fingerprints[name] = fingerprint(account.key)
        self._tagged[account_tag(name)] = name
        rest: Rest | None = None
        if account.proxy is not None:
            rest = self._account_proxies.add(account.proxy.reveal(), name)
            pool.own_proxies += 1
        self._hold_for(_PROXY, name, rest, now)

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
                self._elsewhere.discard(name)
                pool.rotation.in_flight_elsewhere(name, 0)
            member = pool.rotation.withdraw(name)
            if name in self._in_flight:
                self._leaving[name] = account.upstream, member
            self._forget_proxy(account)
            self.quotas.forget(name)
            self._holds.forget(name)
            del self._fingerprints[name]
            self._tagged.pop(account_tag(name), None)
        for pool in touched.values():
            if pool.wait_queue.waiters:
                pool.wait_queue.serve()

    def _forget_proxy(self, account: Account) -> None:
        if account.proxy is not None:
            self._pools[account.upstream].own_proxies -= 1
            self._account_proxies.remove(account.proxy.reveal(), account.name)

    def _hold_for(self, cause: str, name: str, rest: Rest | None, now: float) -> None:
        self._holds.set(name, cause, rest, now)
        successor = self._successor
        if successor is not None and cause is _SILENCE and successor.has_same(self._accounts[name]):
            successor._hold_for(cause, name, rest, now)

    def _try_silent(self, pool: UpstreamPool, name: str, now: float) -> None:
        """The account is used again after a silence: by one call at first."""
        rest = self._holds.rest(name, _SILENCE)
        if rest is not None:
            tried = trial(rest, max(wait.limit for wait in pool.waits), now)
            if tried is not None:
                self._hold_for(_SILENCE, name, tried, now)

    def _hold(self, name: str, rest: Rest | None, now: float) -> None:
        self._pools[self._accounts[name].upstream].rotation.hold(name, rest, now)

    # Other workers

    def take_batch(self) -> Batch:
        """What happened since the last batch, and the requests in flight now."""
        if self._lost:
            self._collect()
        self.settle_quotas()
        batch = self._batch.take()
        batch.quotas |= self.quotas.take()
        batch.leases = dict(self._in_flight)
        if self._is_uncounted:
            batch.leases[UNCOUNTED] = 1
        return batch

    def restore(self, batch: Batch) -> None:
        """The exchange of `batch` failed: it is sent again with the next."""
        self._batch.prepend(batch)
        del self._batch.transitions[:-_MOST_TRANSITIONS]

    def apply(self, changes: Changes) -> None:
        """Take over what an exchange brought. States and balances are the store's, with what has
        happened here since the batch of that exchange was taken. Definitions are not looked at:
        they hold sealed secrets, and come through `define` and `withdraw`.
        """
        now = self._clock()
        touched = {
            pool.upstream.name: pool for pool in self._pools.values() if pool.wait_queue.waiters
        }
        pending: dict[str, list[Transition]] = {}
        if changes.states:
            for transition in self._batch.transitions:
                pending.setdefault(transition.account, []).append(transition)
        for name, state in changes.states.items():
            pool = self._side_of(name)
            if pool is not None:
                for transition in pending.get(name, ()):
                    state = apply(state, transition)
                self._know(pool, name, state, now)
        for pool in self._pools.values():
            pool.uncounted = changes.leases if UNCOUNTED in changes.leases else {}
        for name in self._elsewhere - changes.leases.keys():
            if (pool := self._side_of(name)) is not None:
                pool.told(name, 0)
        self._elsewhere = set(changes.leases)
        for name, count in changes.leases.items():
            if (pool := self._side_of(name)) is not None:
                pool.told(name, count)
        for name, at in changes.used.items():
            if (pool := self._side_of(name)) is not None:
                pool.rotation.used_elsewhere(name, at)
        for name, balance in changes.balances.items():
            if (pool := self._side_of(name)) is not None:
                pool.rotation.balance(name, balance - self._batch.spent.get(name, 0.0))
        for name, windows in changes.quotas.items():
            self._set_quota(name, self.quotas.learn(name, windows, now))
        for digest, (name, at) in changes.pins.items():
            if (pool := self._side_of(name)) is not None:
                pool.affinity.merge(digest, name, at)
        for pool in touched.values():
            pool.wait_queue.serve()

    def _side_of(self, name: str) -> UpstreamPool | None:
        account = self._accounts.get(name)
        return None if account is None else self._pools[account.upstream]

    # Pools of configurations that follow one another

    def take_over(self, former: AccountPool, accounts: Iterable[Account]) -> None:
        """Take the place of `former`, the pool of the configuration before, with these accounts,
        the last of the same name counting. This pool has none yet.

        It goes on from all that is known of the accounts that stay. The former one lends on what it
        had to requests that began with its configuration, until it is told to `retire`; what
        becomes of them is told to this one, and both count what is in flight together.
        """
        self._in_flight, self._batch = former._in_flight, former._batch
        self._hosts, self.quotas = former._hosts, former.quotas
        self._counts, self._is_uncounted = former._counts, former._is_uncounted
        self.on_transition, self.on_change = former.on_transition, former.on_change
        self._account_proxies.take_over(former._account_proxies)
        for name, pool in self._pools.items():
            pool.share(self._counts)
            pool.beside = self.beside
            if name in former._pools:
                pool.take_over(former._pools[name])
        self.define({account.name: account for account in accounts}.values())
        now = self._clock()
        for account in former.accounts():
            mine = self._accounts.get(account.name)
            if mine is None or mine.upstream != account.upstream:
                self.quotas.forget(account.name)
            else:
                self._carry(former, account, mine, now)
        self._elsewhere = former._elsewhere & self._accounts.keys()
        kin = [one for one in (*former._living(), former) if one is not self]
        self._kin = tuple(ref(one) for one in kin)
        for one in kin:
            one._kin += (ref(self),)
            one._successor = self
            for pool in one._pools.values():
                pool.beside = one.beside
        for name in self._in_flight:
            self._recount(name)

    def _carry(self, former: AccountPool, old: Account, new: Account, now: float) -> None:
        """Know of an account what `former` knows."""
        name, pool = new.name, self._pools[new.upstream]
        member = former._member(name)
        if member.state != AccountState(name):
            self._know(pool, name, member.state, now)
        pool.rotation.used_elsewhere(name, member.used)
        pool.rotation.quota(name, member.quota_used)
        if new.balance == old.balance:
            pool.rotation.balance(name, member.balance)
        if name in former._elsewhere:
            pool.rotation.in_flight_elsewhere(name, member.in_flight_elsewhere)
        key = self._fingerprints[name]
        if key == former._fingerprints[name]:
            rest = former._holds.rest(name, _SILENCE)
            if rest is not None:
                self._hold_for(_SILENCE, name, rest, now)
        elif member.state.key or member.state.refused_key:
            self.observe(Transition(name, KeyChanged(key), now))

    def retire(self) -> None:
        """No request of this pool's configuration will take an account any more."""
        for one in self._living():
            one._kin = tuple(other for other in one._kin if other() not in (None, self))
        self._kin, self._successor = (), None

    def has_same(self, account: Account) -> bool:
        """Whether the account is there with the same upstream and key."""
        mine = self._accounts.get(account.name)
        return mine is not None and (mine.upstream, mine.key) == (account.upstream, account.key)

    def spent_before(self, name: str, tokens: float) -> None:
        """A request of a configuration before used so many tokens of the account's balance."""
        pool = self._side_of(name)
        balance = None if pool is None else pool.rotation.member(name).balance
        if pool is not None and balance is not None:
            pool.rotation.balance(name, balance - tokens)

    def beside(self, name: str) -> int:
        """The requests of the account that are in flight with other configurations' pools."""
        if not self._kin or name not in self._accounts:
            return 0
        return self._in_flight.get(name, 0) - self._member(name).in_flight

    def _observe_late(
        self, successor: AccountPool, account: Account, transition: Transition
    ) -> None:
        """As `observe`, when another configuration has taken the place of this one."""
        pool = self._pools[account.upstream]
        state = apply(pool.rotation.member(account.name).state, transition)
        self._put(pool, account.name, state, self._clock())
        if successor.has_same(account):
            successor.observe(transition)

    def _living(self) -> list[AccountPool]:
        """The pools of other configurations whose requests may take accounts."""
        return [one for known in self._kin if (one := known()) is not None]

    def _tell_kin(self, name: str) -> None:
        for one in self._living():
            one._recount(name)

    def _recount(self, name: str) -> None:
        """Requests of other configurations have begun or ended with the account."""
        pool = self._side_of(name)
        if pool is None:
            return
        member = pool.rotation.member(name)
        if member.settings.max_concurrent is None:
            return
        before = member.in_flight_elsewhere
        pool.told(name, pool.uncounted.get(name, 0))
        if member.in_flight_elsewhere < before and pool.wait_queue.waiters:
            pool.offer(member)


def _may_be_news(outcome: Outcome) -> bool:
    """Whether an outcome that changed nothing here may change what the store knows: what took the
    account out before may have been forgotten there, by a person's word. Those that are out get no
    further requests, so there are never many."""
    if not isinstance(outcome, Failed):
        return False
    return outcome.decision.verdict in (Verdict.DISABLE, Verdict.EXHAUST)


def account_tag(name: str) -> str:
    """A short word that stands for an account where its name must not be shown."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]
