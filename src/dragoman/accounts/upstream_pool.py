"""The accounts of one upstream: which of them is chosen and lent, through which proxy, and who
waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.accounts.decide.affinity import Affinity
from dragoman.accounts.decide.availability import Shortage
from dragoman.accounts.decide.hosts import Host
from dragoman.accounts.decide.members import Choice, Member
from dragoman.accounts.decide.ordering import ORDERS
from dragoman.accounts.decide.probing import ProbeSchedule
from dragoman.accounts.decide.proxies import ProxySet
from dragoman.accounts.decide.refusals import Refusals
from dragoman.accounts.decide.rotation import Rotation
from dragoman.accounts.decide.rules import table
from dragoman.accounts.decide.shortage import AllBusy, NoAccount, no_account
from dragoman.accounts.decide.states import Decision
from dragoman.accounts.decide.symptoms import Symptom
from dragoman.accounts.silence import UNKNOWN_LIMIT_S, UsualWait
from dragoman.accounts.slots import Slots
from dragoman.accounts.wait_queue import LeaseRequest, Waiter, WaitQueue
from dragoman.canonical.errors import FaultKind
from dragoman.config import Account, Secret, Upstream

_MOST_LOOKS = 64
"""Avoided accounts that one choice passes over."""


class Lacking(Struct, frozen=True):
    """The account that comes first, of whose `most` slots none is free here."""

    name: str
    most: int


class UpstreamPool:
    """All that belongs to one upstream. It serves the line of the requests that wait for it (see
    `dragoman.accounts.wait_queue.Supplier`).

    `clock` is Unix time, in seconds; `make_lease` makes the lease of an account that was chosen.
    """

    __slots__ = (
        "_asking",
        "_clock",
        "_make_lease",
        "_offered",
        "_refused",
        "_tasks",
        "affinity",
        "apart",
        "beside",
        "probes",
        "proxies",
        "refusals",
        "rotation",
        "rules",
        "slots",
        "upstream",
        "wait_queue",
        "waits",
        "ways",
    )

    def __init__(
        self, upstream: Upstream, clock: Callable[[], float], make_lease: LeaseMaker
    ) -> None:
        self._clock = clock
        self._make_lease = make_lease
        self.upstream = upstream
        self.rules = table(upstream.account_rules, upstream.rules)
        self.rotation = Rotation(order=ORDERS[upstream.selection]())
        self.affinity = Affinity(upstream.affinity_s, upstream.cached_s)
        self.refusals = Refusals()
        self.proxies = ProxySet(len(upstream.proxies)) if upstream.proxies else None
        self.probes = (
            None
            if upstream.probe is None
            else ProbeSchedule(upstream.probe.model, upstream.probe.every_s)
        )
        self.wait_queue: WaitQueue[Lease] = WaitQueue(self)
        self.waits = UsualWait(), UsualWait()
        """How long it commonly takes to begin whole answers, and streams."""
        self.slots: Slots | None = None
        """The slots of accounts with a `max_concurrent`; None: this worker has all of them."""
        self.apart: Mapping[str, int] = {}
        """The requests of accounts that another gateway on the same store has in flight, such as
        one that this one takes over from: its slots are not lent here."""
        self.beside: Callable[[str], int] = _nothing
        """The requests of an account that are in flight here with other configurations."""
        self._refused: set[str] = set()
        """Accounts of which the owner had no slot when it was asked last."""
        self._asking: set[str] = set()
        """Accounts of which a slot is asked for, for requests that wait."""
        self._offered = ""
        """The account that is being offered to those who wait."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.ways: Counter[Host] = Counter()
        """How many accounts are reached at each host, but for the `proxies` of the upstream."""

    def take_over(self, former: UpstreamPool) -> None:
        """Go on from what is known of the upstream of the same name in a configuration before."""
        before, upstream = former.upstream, self.upstream
        self.apart = former.apart
        self.affinity = former.affinity.lasting(upstream.affinity_s, upstream.cached_s)
        if upstream.proxies == before.proxies:
            self.proxies = former.proxies
        if upstream.base_url == before.base_url:
            self.waits = former.waits
            self.refusals = former.refusals

    def add_way(self, account: Account, change: int) -> None:
        """One account more, or less, is reached at its host."""
        host = self.host(account, account.proxy or self.upstream.proxy)
        self.ways[host] += change
        if not self.ways[host]:
            del self.ways[host]

    def host(self, account: Account, proxy: Secret | None) -> Host:
        """The host of an account as it is reached through `proxy`, None for none."""
        where = urlsplit(account.base_url(self.upstream))
        port = where.port or (443 if where.scheme == "https" else 80)
        return Host(where.hostname or "", port, "" if proxy is None else proxy.reveal())

    @property
    def only_host(self) -> Host | None:
        """The host through which all accounts are reached; None if they go several ways."""
        if self.proxies is not None or len(self.ways) != 1:
            return None
        return next(iter(self.ways))

    def choose(
        self,
        wanted: LeaseRequest,
        tried: Collection[str],
        now: float,
        lent: str = "",
        *,
        is_trial: bool = False,
    ) -> Lease | Lacking | None:
        """A lease of an account as `wanted` that is not in `tried`; None if there is none at `now`,
        and `Lacking` if there is none before a slot of an account was asked for. The account
        `lent`, of which a slot is free here, comes first. `is_trial`: also where the upstream has
        refused all accounts."""
        if self.refusals.rest is not None and not is_trial:
            return self._choose_trial(wanted, tried, now, lent)
        model, pinned, stays = wanted.model, "", True
        if wanted.pin and self.upstream.affinity != "off":
            pinned = account = wanted.account
            if not account or account in tried or not self.rotation.can_serve(account, model, now):
                found, is_warm = self.affinity.find(wanted.pin, now)
                pinned, stays = found or account, is_warm or account != "" or lent != ""
        choice = self.rotation.choose(model, tried, now, lent or pinned, stays=stays)
        if choice is not None and wanted.proven and choice.member.avoidance is not None:
            choice = self._choose_proven(choice, model, tried, now)
        if choice is None:
            return None
        member = choice.member
        most, has_slot = member.settings.max_concurrent, False
        if most is not None and self.slots is not None:
            most -= self.apart.get(member.name, 0)
            has_slot = self.slots.take(member.name, most)
            if not has_slot:
                self.rotation.returned(choice)
                return Lacking(member.name, most)
        moved = pinned != "" and (wanted.account or pinned) != member.name
        return self._make_lease(self, choice, wanted, now, moved, has_slot)

    def _choose_trial(
        self, wanted: LeaseRequest, tried: Collection[str], now: float, lent: str
    ) -> Lease | Lacking | None:
        """As `choose`, where the upstream has refused all accounts: one request at a time, when
        the rest is over, with an account that was not the trial before if there is one."""
        refusals = self.refusals
        if refusals.is_resting(now):
            return None
        found = self.choose(wanted, refusals.left_out(tried), now, lent, is_trial=True)
        if found is None:
            refusals.try_all()
            found = self.choose(wanted, tried, now, lent, is_trial=True)
        if isinstance(found, Lease):
            refusals.begin_trial(now)
            found.is_trial = True
        return found

    def _choose_proven(
        self, choice: Choice, model: str, tried: Collection[str], now: float
    ) -> Choice | None:
        """Another account in place of one that was avoided and has not answered since, if there
        is one."""
        found: Choice | None = choice
        passed_over = list(tried)
        for _ in range(_MOST_LOOKS):
            if found is None or found.member.avoidance is None:
                break
            passed_over.append(found.member.name)
            self.rotation.returned(found)
            found = self.rotation.choose(model, passed_over, now)
        return self.rotation.choose(model, tried, now) if found is None else found

    # Slots

    def share(self, slots: Slots | None) -> None:
        """Take a slot for each request of an account with a `max_concurrent` from now on."""
        self.slots = slots
        self._refused.clear()

    async def borrow(self, lacking: Lacking) -> bool:
        """Ask for a slot. Returns whether one is free here then."""
        name = lacking.name
        granted = self.slots is None or await self.slots.borrow(name, lacking.most)
        if name in self.rotation:
            if granted:
                self._refused.discard(name)
            else:
                self._refused.add(name)
            self.in_flight_elsewhere(name, 0)
        return granted

    def return_free(self, name: str) -> None:
        """Return slots of an account that no request here has taken."""
        if self.slots is not None:
            self.slots.return_free(name)

    def returned(self, member: Member, *, had_slot: bool) -> None:
        """A request of an account has ended: whoever waits for it gets it, and its slot."""
        if had_slot and self.slots is not None:
            self.slots.give_back(member.name)
            self._refused.discard(member.name)
        if self.wait_queue.waiters and not member.removed:
            self.offer(member)
        if had_slot:
            self.return_free(member.name)

    def has_room(self, name: str) -> None:
        """The owner may have a slot of an account that it had none of."""
        if name in self._refused:
            self._refused.discard(name)
            self.in_flight_elsewhere(name, 0)
            if self.wait_queue.waiters:
                self.offer(self.rotation.member(name))

    def in_flight_elsewhere(self, name: str, count: int) -> None:
        """Other workers are known to have so many requests in flight with an account. Of one with
        slots the owner knows better: it is busy if there was none, and else it is not."""
        member = self.rotation.member(name)
        most = member.settings.max_concurrent
        if self.slots is not None and most is not None:
            left, apart = most - member.in_flight, self.apart.get(name, 0)
            count = max(apart, left if name in self._refused else min(count, left - 1))
        self.rotation.in_flight_elsewhere(name, count + self.beside(name))

    def _ask_for_waiters(self, lacking: Lacking) -> None:
        """Ask for a slot for the requests that wait."""
        if lacking.name not in self._asking:
            self._asking.add(lacking.name)
            task = asyncio.get_running_loop().create_task(self._borrow_for_waiters(lacking))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _borrow_for_waiters(self, lacking: Lacking) -> None:
        try:
            granted = await self.borrow(lacking)
        finally:
            self._asking.discard(lacking.name)
        if granted and lacking.name in self.rotation:
            self.offer(self.rotation.member(lacking.name))
        else:
            self.wait_queue.serve()
        if granted:
            self.return_free(lacking.name)

    def others(self, model: str, tried: Collection[str]) -> int:
        """How many accounts that are not in `tried` could serve, now or when they are free."""
        shortage = self.rotation.shortage(model, tried)
        held = sum(count for _, count in shortage.reasons)
        return len(self.rotation) - held + shortage.busy

    def shortage(self, model: str, tried: Collection[str], now: float) -> NoAccount:
        """Why `choose` has just found no account."""
        shortage, refused_for = self.rotation.shortage(model, tried), None
        refusals = self.refusals
        if refusals.rest is not None and refusals.is_resting(now):
            size = len(self.rotation)
            shortage = Shortage(((refusals.rest.why, size),), refusals.rest.until, 0, size)
            refused_for = FaultKind.PAYMENT_REQUIRED if refusals.for_quota else FaultKind.FORBIDDEN
        return no_account(self.upstream.name, model, shortage, now, refused_for)

    def left(self, now: float) -> int:
        """How many accounts serve some model."""
        return 0 if self.refusals.is_resting(now) else self.rotation.left(now)

    def offer(self, member: Member) -> None:
        """An account may be free: whoever has waited longest for one like it gets it."""
        now = self._clock()

        def suits(waiter: Waiter[Lease]) -> bool:
            if member.name in waiter.tried:
                return False
            return self.rotation.can_serve(member.name, waiter.wanted.model, now)

        self._offered = member.name
        self.wait_queue.offer(suits, lambda: not member.blocked)
        self._offered = ""

    # The line of those who wait

    def lend(self, waiter: Waiter[Lease]) -> Lease | None:
        """A lease for the waiter, None if there is none for it now."""
        found = self.choose(waiter.wanted, waiter.tried, self._clock(), self._offered)
        if isinstance(found, Lacking):
            self._ask_for_waiters(found)
            return None
        return found

    def refusal(self, waiter: Waiter[Lease], *, final: bool) -> NoAccount | None:
        """The error for a waiter that is to wait no longer; None if it should, unless `final`."""
        if self._asking and not final:
            return None
        error = self.shortage(waiter.wanted.model, waiter.tried, self._clock())
        return None if isinstance(error, AllBusy) and not final else error

    def next_wake(self) -> float | None:
        """In how many seconds the next rest of an account ends; None: none does."""
        due = self.rotation.next_wake()
        return None if due is None else due - self._clock()


class Lender(Protocol):
    """What lends accounts, and is called with the outcome of each lease."""

    def lease_lost(self, lease: Lease) -> None:
        """A lease is gone, and was not given back."""

    def lease_ended(self, lease: Lease) -> None:
        """A lease was given back."""

    def lease_succeeded(self, lease: Lease, tokens: float) -> None:
        """The upstream answered well."""

    def lease_failed(self, lease: Lease, symptom: Symptom) -> Decision:
        """The upstream failed: what to do about it."""

    def lease_began(self, lease: Lease, seconds: float, limit: float) -> None:
        """A good answer began after so many seconds; more than `limit` (0: unknown) are far too
        many."""

    def lease_silent(self, lease: Lease, *, ended: bool) -> bool:
        """The call has been silent for far too long. Whether it is to end, if it has not."""

    def lease_unreached(self, lease: Lease, *, failed: int, timed_out: bool, cause: str) -> bool:
        """The call did not get a connection. Whether the host is tried once more."""

    def lease_proxy_failed(self, lease: Lease) -> None:
        """A call did not get through its proxy."""

    def pin(self, lease: Lease, digest: bytes) -> None:
        """The account is remembered for a digest of the conversation."""


class Lease(Struct, eq=False):
    """One account, lent to one request. A context manager: leaving it gives the account back.

    `account` is the account, one of `accounts`, lent at the time `taken` as `wanted`; `moved` says
    that the conversation was with another account before, whose reasoning this one may not be able
    to use. `has_slot` is whether it has a slot of the account, which the owner lends. `proxy` is
    the URL of the proxy to call through, None for none, and `proxy_index` its place in a rotating
    set, -1 if it is of none. `is_trial`: it shows whether an upstream that refused all accounts
    still does. `answered` becomes true with the head of an answer, `has_begun` with the beginning
    of a good one.
    """

    _pool: Lender
    accounts: UpstreamPool
    choice: Choice
    account: Account
    wanted: LeaseRequest
    taken: float
    moved: bool
    has_slot: bool
    proxy: Secret | None
    proxy_index: int
    answered: bool = False
    has_begun: bool = False
    is_trial: bool = False
    _given_back: bool = False

    def __repr__(self) -> str:
        return f"Lease({self.account.name})"

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_back()

    def __del__(self) -> None:
        if not self._given_back:
            self._given_back = True
            self._pool.lease_lost(self)

    def give_back(self) -> None:
        """End the lease. Harmless when it has ended."""
        if not self._given_back:
            self._given_back = True
            self._pool.lease_ended(self)

    def succeeded(self, tokens: float = 0.0) -> None:
        """The upstream answered well, and used `tokens` of the account's balance. May be called
        again, with tokens that were not known before.
        """
        self._pool.lease_succeeded(self, tokens)

    def failed(self, symptom: Symptom) -> Decision:
        """The upstream failed with `symptom`: what to do about it."""
        return self._pool.lease_failed(self, symptom)

    def began(self, seconds: float, *, stream: bool) -> None:
        """A good answer, whole or a stream, began so many seconds after it was asked for."""
        self.has_begun = True
        wait = self.accounts.waits[stream]
        if self.choice.member.avoidance is not None or self.is_trial:
            self._pool.lease_began(self, seconds, wait.limit)
        wait.heard(seconds)

    def is_late(self, seconds: float, *, stream: bool) -> bool:
        """Whether an answer, whole or a stream, that has not begun after so many seconds is far too
        late."""
        return seconds >= (self.accounts.waits[stream].limit or UNKNOWN_LIMIT_S)

    def fell_silent(self, *, ended: bool = False) -> bool:
        """The call says nothing for far longer than is usual: the account is avoided for a while.
        `ended`: the call was ended. Returns whether it is to end, although it may be at work."""
        return self._pool.lease_silent(self, ended=ended)

    def unreached(self, *, failed: int, timed_out: bool, cause: str = "") -> bool:
        """The call got no connection, the `failed`-th of its request, for a cause that is
        logged. Returns whether the host is tried once more."""
        return self._pool.lease_unreached(self, failed=failed, timed_out=timed_out, cause=cause)

    def proxy_failed(self) -> None:
        """The call did not get through `proxy`: the account is not to blame."""
        self._pool.lease_proxy_failed(self)

    def pin(self, digest: bytes) -> None:
        """Remember the account for one more digest of the conversation, such as that of the
        answer's id."""
        self._pool.pin(self, digest)


LeaseMaker = Callable[[UpstreamPool, Choice, LeaseRequest, float, bool, bool], Lease]
"""The accounts of the upstream, that which was chosen, for what, when, whether the conversation was
with another account before, and whether a slot was taken."""


def _nothing(name: str) -> int:
    return 0
