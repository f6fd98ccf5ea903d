"""The shell around the decisions: account states in this process, and leases.

A request takes a lease of an account, reports to it how the upstream answered, and gives it back on
every path. Decisions are made by the pure functions beside this module. `dragoman.accounts.sync`
writes what happened to a store in batches (`take_batch`), and applies what other workers decided
(`apply`). All calls come from the thread of one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf, nextafter

from msgspec import Struct

from dragoman.accounts.decide.affinity import MOST_PINS
from dragoman.accounts.decide.availability import OTHER_MODELS
from dragoman.accounts.decide.decisions import CLOCK_SLACK_S, apply, classify, without_ahead
from dragoman.accounts.decide.explain import change_of
from dragoman.accounts.decide.members import BUSY, Choice
from dragoman.accounts.decide.refusals import ALL_REFUSED, counts
from dragoman.accounts.decide.shortage import AllBusy, NoAccount
from dragoman.accounts.decide.states import (
    AccountState,
    Decision,
    Enabled,
    Failed,
    Outcome,
    Succeeded,
    Transition,
)
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.roster import account_tag
from dragoman.accounts.slots import Slots
from dragoman.accounts.store import Batch, Changes
from dragoman.accounts.succession import SuccessiveRoster
from dragoman.accounts.upstream_pool import Lacking, Lease, UpstreamPool
from dragoman.accounts.wait_queue import LeaseRequest
from dragoman.config import Account, Config
from dragoman.failing import Verdict

__all__ = [
    "AccountPool",
    "AllBusy",
    "Lacking",
    "Lease",
    "LeaseRequest",
    "NoAccount",
    "account_tag",
]

_log = logging.getLogger("dragoman.accounts")

_MOST_TRANSITIONS = 50_000
"""Transitions that are kept for a store that cannot be reached, or is not there; the oldest are
dropped. So are pins, of which there are no more than are remembered for an upstream."""

_MOST_RECEIVED = 64
"""Accounts of which the headers of an answer are held unread."""

_AT_ONCE = 64
"""Accounts of which slots are asked for before others have their turn."""


class Alternatives(Struct, frozen=True, gc=False):
    """What an account was chosen from: how many serve the model, how many of these could not be
    chosen for each reason, and by what order of those that could."""

    serving: int
    left_out: tuple[tuple[str, int], ...]
    selection: str


class AccountPool(SuccessiveRoster):
    """All accounts of a configuration. `clock` is Unix time, in seconds; `spread` gives numbers in
    [0, 1) that keep rests from ending together.

    `on_transition` is called with every outcome that changed what is known of an account, after
    the change; `on_change` besides with what was known before and what is known then.

    Another configuration has another pool, which may take the place of this one: see `take_over`.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(config.upstreams, clock, spread, self._lend)
        self._slots: Slots | None = None
        self._batch = Batch()
        self._lost: deque[Lease] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._latest = clock()
        self.on_transition: Callable[[Transition], None] | None = None
        self.on_change: Callable[[AccountState, AccountState], None] | None = None
        self.define(config.accounts)

    # Leases

    def lease(self, wanted: LeaseRequest, tried: Collection[str] = ()) -> Lease:
        """Lend an account that is not in `tried`, without asking anybody.

        Raises:
            AllBusy: all that could serve have as many requests in flight as they may.
            NoAccount: none is left.
        """
        lease = self.lend(wanted, tried)
        if not isinstance(lease, Lease):
            raise self._pools[wanted.upstream].shortage(wanted.model, tried, self._clock())
        return lease

    def lend(
        self, wanted: LeaseRequest, tried: Collection[str] = (), lent: str = ""
    ) -> Lease | Lacking | None:
        """Lend an account that is not in `tried`; None if there is none now, and `Lacking` if none
        before `acquire` has asked for a slot of it. The account `lent`, of which a slot is free
        here, comes first."""
        if self._lost:
            self._collect()
        pool = self._pools[wanted.upstream]
        if pool.wait_queue.waiters:
            pool.wait_queue.catch_up()
        return pool.choose(wanted, tried, self._clock(), lent)

    def alternatives(self, lease: Lease) -> Alternatives:
        """Among how many accounts a lease was just chosen, and why others were left out."""
        pool, member = lease.accounts, lease.choice.member
        counts = Counter(dict(pool.rotation.shortage(lease.wanted.model).reasons))
        if member.busy:
            counts[BUSY] -= 1  # by this lease
        of_other_models = counts.pop(OTHER_MODELS, 0)
        left_out = tuple((why, count) for why, count in counts.items() if count > 0)
        serving = len(pool.rotation) - of_other_models
        return Alternatives(serving, left_out, pool.upstream.selection)

    async def acquire(
        self,
        wanted: LeaseRequest,
        tried: Collection[str] = (),
        most_s: float = inf,
        lacking: Lacking | None = None,
    ) -> Lease:
        """As `lease`, but wait while all accounts that could serve are busy, as long as the
        upstream's `queue_s`, and `most_s` seconds at most, behind at most `queue_size` others.
        `lacking` is what `lend` has just found.

        Raises:
            AllBusy: the wait is over, or too many wait.
            NoAccount: none is left.
        """
        pool = self._pools[wanted.upstream]
        lease = await self._borrow(pool, wanted, tried, lacking or self.lend(wanted, tried))
        if lease is not None:
            return lease
        shortage = pool.shortage(wanted.model, tried, self._clock())
        seconds = min(pool.upstream.queue_s, most_s)
        is_full = len(pool.wait_queue.waiters) >= pool.upstream.queue_size
        if not isinstance(shortage, AllBusy) or is_full or seconds <= 0:
            raise shortage
        self._loop = asyncio.get_running_loop()
        return await pool.wait_queue.wait(wanted, tried, seconds)

    async def _borrow(
        self,
        pool: UpstreamPool,
        wanted: LeaseRequest,
        tried: Collection[str],
        found: Lease | Lacking | None,
    ) -> Lease | None:
        """A lease, if need be with a slot that the owner is asked for."""
        lent = ""
        asked = 0
        while isinstance(found, Lacking):
            if lent:
                # First: whoever is cancelled below keeps no slot.
                pool.return_free(lent)
                lent = ""
            asked += 1
            if asked % _AT_ONCE == 0:
                await asyncio.sleep(0)
            lent = found.name if await pool.borrow(found) else ""
            found = self.lend(wanted, tried, lent)
        if lent and (found is None or found.account.name != lent):
            pool.return_free(lent)
        return found

    def share(self, slots: Slots | None) -> None:
        """Take slots of accounts with a `max_concurrent` from now on; None: hold it to what is in
        flight here, and what the store has of others."""
        self._slots = slots
        for pool in self._pools.values():
            pool.share(slots)

    def has_room(self, name: str) -> None:
        """The owner may have a slot of an account that it had none of."""
        for one in (self, *self._living()):
            pool = one._side_of(name)
            if pool is not None:
                pool.has_room(name)

    def _lend(
        self,
        pool: UpstreamPool,
        choice: Choice,
        wanted: LeaseRequest,
        now: float,
        moved: bool,
        has_slot: bool,
    ) -> Lease:
        """The lease of an account that was chosen."""
        member = choice.member
        name = member.name
        if member.avoidance is not None:
            self._avoidance.used_again(name, pool, now)
        self._in_flight[name] = self._in_flight.get(name, 0) + 1
        if self._kin:
            self._tell_kin(name)
        self._batch.used[name] = member.used
        account = self._accounts[name]
        proxy, index = account.proxy or pool.upstream.proxy, -1
        if pool.proxies is not None and account.proxy is None:
            index = pool.proxies.choose(now)
            proxy = pool.upstream.proxies[index]
        return Lease(self, pool, choice, account, wanted, now, moved, has_slot, proxy, index)

    # Outcomes of leases

    def lease_ended(self, lease: Lease) -> None:
        """A lease was given back."""
        member, pool = lease.choice.member, lease.accounts
        self._one_less(member.name)
        pool.rotation.returned(lease.choice)
        if lease.has_slot or pool.wait_queue.waiters:
            pool.returned(member, had_slot=lease.has_slot)
        if self._kin:
            self._tell_kin(member.name)

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
        choice, pool = lease.choice, lease.accounts
        member = choice.member
        if pool.refusals.noted:
            self._accepted(lease)
        state = member.state
        if state.exhausted is not None or state.cooling:
            self._observe(member.name, Succeeded(), lease.wanted.model, self._clock())
        if choice.trial is not None:
            pool.rotation.end_trial(choice)
            pool.offer(member)
        if lease.proxy_index >= 0 or member.avoidance is not None:
            self._avoidance.proxy_worked(lease, self._clock())
        if lease.wanted.pin:
            self.pin(lease, lease.wanted.pin)
        if tokens and member.balance is not None:
            name = member.name
            if not member.removed:
                pool.rotation.balance(name, member.balance - tokens)
            if self._successor is not None:
                self._successor.spent_before(name, tokens)
            self._batch.spent[name] = self._batch.spent.get(name, 0.0) + tokens

    def _accepted(self, lease: Lease) -> None:
        """An upstream that had refused accounts answered the request of a lease well."""
        if lease.accounts.refusals.succeeded(lease.account.name, lease.taken):
            _log.warning("upstream %s accepts accounts again", lease.account.upstream)

    def lease_failed(self, lease: Lease, symptom: Symptom) -> Decision:
        """The upstream failed to answer the request of a lease."""
        pool = lease.accounts
        if symptom.status and self._avoidance.hosts.rests:
            self._avoidance.host_answered(lease)
        decision = classify(symptom, pool.rules.rules)
        key = lease.account.fingerprint
        if key != self._fingerprints.get(lease.account.name, key):
            # It says nothing of the key that the account has by now.
            return decision
        name, now = lease.account.name, self._clock()
        if counts(decision) and pool.upstream.account_rules != "sop":
            decision = self._refused(pool, name, decision, lease.taken, now)
        outcome = Failed(decision, status=symptom.status, key=key, began=lease.taken)
        self._observe(name, outcome, lease.wanted.model, now)
        return decision

    def _refused(
        self, pool: UpstreamPool, name: str, decision: Decision, taken: float, now: float
    ) -> Decision:
        """The decision on an account that was refused, perhaps as all others of its upstream."""
        refusals = pool.refusals
        if refusals.rest is not None:
            refusals.refused_again(name, taken, now, self._spread())
            return Decision(Verdict.TRY_NEXT, ALL_REFUSED)
        alike = refusals.refused(name, decision, now)
        others = [other for other in alike if other != name and other in pool.rotation]
        if not others:
            return decision
        is_out = bool(pool.rotation.member(name).out)
        if len(alike) >= pool.upstream.attempts or pool.rotation.left(now) <= (not is_out):
            rest = refusals.begin_rest(now, self._spread())
            seconds = rest.until - now
            _log.error("upstream %s: %s: rests for %.1f s", pool.upstream.name, rest.why, seconds)
            decision = Decision(Verdict.TRY_NEXT, ALL_REFUSED)
            self._restore(pool, others, decision, now)
        elif decision.verdict is Verdict.DISABLE:
            decision = Decision(Verdict.COOL, ALL_REFUSED, every_model=True)
            self._restore(pool, others, decision, now)
        return decision

    def _restore(
        self, pool: UpstreamPool, names: Iterable[str], decision: Decision, now: float
    ) -> None:
        """Enable accounts that a failure of their upstream took out; those that were disabled rest
        by `decision`, unless the upstream itself does."""
        cools = decision.verdict is Verdict.COOL
        for name in names:
            state = pool.rotation.member(name).state
            is_out = state.disabled or (not cools and (state.exhausted or state.cooling))
            if is_out and not state.by_hand:
                self._observe(name, Enabled(source="traffic"), "", now)
                if cools:
                    self._observe(name, Failed(decision, began=nextafter(now, inf)), "", now)

    def lease_began(self, lease: Lease, seconds: float, limit: float) -> None:
        """A good answer began after so many seconds, of an account that is held to be avoided, or
        of a trial."""
        self._accepted(lease)
        self._avoidance.began(lease, seconds, limit, self._clock())

    def lease_silent(self, lease: Lease, *, ended: bool) -> bool:
        """The call of a lease has been silent for far too long."""
        return self._avoidance.fell_silent(lease, self._clock(), ended=ended)

    def lease_unreached(self, lease: Lease, *, failed: int, timed_out: bool, cause: str) -> bool:
        """The call of a lease did not get a connection to its host."""
        return self._avoidance.unreached(
            lease, self._clock(), failed=failed, timed_out=timed_out, cause=cause
        )

    def lease_proxy_failed(self, lease: Lease) -> None:
        """The call of a lease did not get through its proxy."""
        self._avoidance.proxy_failed(lease, self._clock())

    def pin(self, lease: Lease, digest: bytes) -> None:
        """A conversation is with the account of a lease."""
        pool, name, now = lease.accounts, lease.account.name, self._clock()
        if pool.upstream.affinity == "off" or lease.choice.member.removed:
            return
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
        log_change(before, after, transition.model, transition.at)
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

    def heard(self, lease: Lease, headers: Mapping[str, str]) -> None:
        """An answer to the request of a lease has these headers, which may tell of its quota."""
        lease.answered = True
        if self._avoidance.hosts.rests:
            self._avoidance.host_answered(lease)
        received = self.quotas.received
        received[lease.account.name] = lease.wanted.model, headers
        if len(received) > _MOST_RECEIVED:
            self.settle_quotas()

    def avoids(self, upstream: str) -> bool:
        """Whether other upstreams are asked before this one, because its host cannot be reached.
        Now and then the answer is False, and the request is the trial."""
        hosts = self._avoidance.hosts
        host = self._pools[upstream].only_host if hosts.rests else None
        return host is not None and hosts.is_avoided(host, self._clock())

    def enable(self, name: str) -> None:
        """Forget all that is held against the account."""
        self._observe(name, Enabled(), "", self._clock())

    # Other workers

    def take_batch(self) -> Batch:
        """What happened since the last batch, and the requests in flight now."""
        if self._lost:
            self._collect()
        now = self._clock()
        if now < self._latest - CLOCK_SLACK_S:
            _log.warning("the clock was set back by %.0f s", self._latest - now)
        self._latest = now
        self.settle_quotas()
        batch = self._batch.take()
        batch.quotas |= self.quotas.take()
        batch.leases = dict(self._in_flight)
        return batch

    def _without_ahead(self, state: AccountState, now: float) -> AccountState:
        """The state without rests of a clock that was ahead."""
        healed = without_ahead(state, now)
        if healed is not state:
            _log.warning("account %s: a rest of a clock that was ahead is over", state.name)
        return healed

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
        refused: list[tuple[UpstreamPool, str]] = []
        if changes.states:
            for transition in self._batch.transitions:
                pending.setdefault(transition.account, []).append(transition)
        for name, state in changes.states.items():
            pool = self._side_of(name)
            if pool is not None:
                for transition in pending.get(name, ()):
                    state = apply(state, transition)
                state = self._without_ahead(state, now)
                is_new = state.disabled and not pool.rotation.member(name).state.disabled
                self._know(pool, name, state, now)
                if is_new and not state.by_hand and pool.refusals.is_counting():
                    refused.append((pool, name))
        self._apply_leases(changes.leases, changes.apart)
        for name, at in changes.used.items():
            if (pool := self._side_of(name)) is not None:
                pool.rotation.used_elsewhere(name, min(at, now))
        for name, balance in changes.balances.items():
            if (pool := self._side_of(name)) is not None:
                pool.rotation.balance(name, balance - self._batch.spent.get(name, 0.0))
        for name, windows in changes.quotas.items():
            self._set_quota(name, self.quotas.learn(name, windows, now))
        for digest, (name, at) in changes.pins.items():
            if (pool := self._side_of(name)) is not None:
                pool.affinity.merge(digest, name, at)
        for pool, name in refused:
            # Workers share the accounts that an upstream refuses.
            decision = Decision(Verdict.DISABLE, pool.rotation.member(name).state.disabled)
            decision = self._refused(pool, name, decision, now, now)
            if decision.verdict is not Verdict.DISABLE:
                self._restore(pool, [name], decision, now)
        for pool in touched.values():
            pool.wait_queue.serve()

    def forget_others(self) -> None:
        """Nothing was heard of other workers for so long that they count as lost."""
        self._apply_leases({}, {})
        for pool in self._pools.values():
            pool.wait_queue.serve()

    def _apply_leases(self, leases: Mapping[str, int], apart: Mapping[str, int]) -> None:
        """Other workers have so many requests in flight with accounts, of which those `apart` are
        of other gateways."""
        for each in self._pools.values():
            each.apart = apart
        gone = dict.fromkeys(self._elsewhere.keys() - leases.keys(), 0)
        self._elsewhere = dict(leases)
        for name, count in (gone | self._elsewhere).items():
            if (pool := self._side_of(name)) is not None:
                pool.in_flight_elsewhere(name, count)

    # Another configuration

    def take_over(self, former: AccountPool, accounts: Iterable[Account]) -> None:
        """Take the place of `former`, the pool of the configuration before, with these accounts,
        the last of the same name counting. This pool has none yet.

        It goes on from all that is known of the accounts that stay. The former one lends on what it
        had to requests that began with its configuration, until `retire` is called; what
        becomes of them is reported to this one, and both count what is in flight together.
        """
        self._batch = former._batch
        self._slots = former._slots
        self.on_transition, self.on_change = former.on_transition, former.on_change
        for pool in self._pools.values():
            pool.share(self._slots)
        self._follow(former, accounts)


def log_change(before: AccountState, after: AccountState, model: str, now: float) -> None:
    """Log what has become of an account: as a warning, if it is out or back."""
    change = change_of(before, after, model, now)
    if change is not None:
        what, is_warning = change
        level = logging.WARNING if is_warning else logging.INFO
        _log.log(level, "account %s%s: %s", after.name, f" ({model})" if model else "", what)


def _may_be_news(outcome: Outcome) -> bool:
    """Whether an outcome that changed nothing here may change what the store knows: what took the
    account out before may have been forgotten there, by a person's word. Those that are out get no
    further requests, so there are never many."""
    if not isinstance(outcome, Failed):
        return False
    return outcome.decision.verdict in (Verdict.DISABLE, Verdict.EXHAUST)
