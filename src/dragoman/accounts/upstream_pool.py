"""The accounts of one upstream: which of them is chosen, through which proxy, and who waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from urllib.parse import urlsplit

from dragoman.accounts.decide.affinity import Affinity
from dragoman.accounts.decide.hosts import Host
from dragoman.accounts.decide.members import Member
from dragoman.accounts.decide.ordering import ORDERS
from dragoman.accounts.decide.probing import ProbeSchedule
from dragoman.accounts.decide.proxies import ProxySet
from dragoman.accounts.decide.refusals import Refusals
from dragoman.accounts.decide.rotation import Choice, Rotation
from dragoman.accounts.decide.rules import table
from dragoman.accounts.decide.shortage import AllBusy, NoAccount, no_account
from dragoman.accounts.lease import Lease
from dragoman.accounts.silence import UsualWait
from dragoman.accounts.store import Counts, LentCounts
from dragoman.accounts.wait_queue import Waiter, WaitQueue
from dragoman.config import Secret, Upstream

_MOST_LOOKS = 64
"""Accounts that were full that one choice looks at."""

_IN_TURN = 4
"""Of them, accounts of which nobody has told that a request has ended."""


class UpstreamPool:
    """All that belongs to one upstream. It serves the line of the requests that wait for it (see
    `dragoman.accounts.wait_queue.Supplier`).

    `clock` is Unix time, in seconds; `make_lease` makes the lease of an account that was chosen.
    """

    __slots__ = (
        "_clock",
        "_doubtful",
        "_full",
        "_make_lease",
        "_returned",
        "affinity",
        "beside",
        "counts",
        "lent",
        "looks",
        "own_proxies",
        "probes",
        "proxies",
        "refusals",
        "rotation",
        "rules",
        "short",
        "uncounted",
        "upstream",
        "wait_queue",
        "waits",
    )

    def __init__(
        self, upstream: Upstream, clock: Callable[[], float], make_lease: LeaseMaker
    ) -> None:
        self._clock = clock
        self._make_lease = make_lease
        self.upstream = upstream
        self.rules = table(upstream.account_rules, upstream.rules)
        self.rotation = Rotation(order=ORDERS[upstream.selection]())
        self.affinity = Affinity(upstream.affinity_s)
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
        self.counts: Counts | None = None
        """Counts `max_concurrent` over all workers; None: this one is alone, as far as is known."""
        self.uncounted: Mapping[str, int] = {}
        """What was told of the requests of all other workers, where one of them does not count."""
        self.beside: Callable[[str], int] = _nothing
        """The requests of an account that are in flight here with other configurations."""
        self.lent: LentCounts | None = None
        """The same where it is only a part that other machines leave to this one."""
        self.short = ""
        """The account that lacked what others may have when `choose` returned None for it."""
        self._returned: Callable[[], Collection[str] | None] = tuple
        self._full: dict[str, None] = {}
        """Accounts that were last seen to have as many requests in flight as they may, most of them
        of other workers."""
        self._doubtful: dict[str, None] = {}
        """Of these, the ones that may have room again."""
        self.looks = False
        """Whether somebody looks at them now and then."""
        self.own_proxies = 0
        """Accounts that have a proxy of their own."""

    def take_over(self, former: UpstreamPool) -> None:
        """Go on from what is known of the upstream of the same name in a configuration before."""
        before, upstream = former.upstream, self.upstream
        self.affinity = former.affinity.lasting(upstream.affinity_s)
        if upstream.proxies == before.proxies:
            self.proxies = former.proxies
        if upstream.base_url == before.base_url:
            self.waits = former.waits
            self.refusals = former.refusals

    def host(self, proxy: Secret | None) -> Host:
        """The host of the upstream as it is reached through `proxy`, None for none."""
        where = urlsplit(self.upstream.base_url)
        port = where.port or (443 if where.scheme == "https" else 80)
        return Host(where.hostname or "", port, "" if proxy is None else proxy.reveal())

    @property
    def only_host(self) -> Host | None:
        """The host through which all accounts are reached; None if they go several ways."""
        if self.proxies is not None or self.own_proxies:
            return None
        return self.host(self.upstream.proxy)

    def choose(
        self,
        model: str,
        pin: bytes,
        tried: Collection[str],
        now: float,
        account: str = "",
        *,
        proven: bool = False,
        borrowed: Collection[str] | None = None,
    ) -> Lease | None:
        """A lease of an account for `model` that is not in `tried`; None if there is none at
        `now`. `pin` is the digest of the conversation's key, empty for none; `account` goes before
        the account that is remembered for it, if it can serve. Where `proven`, accounts that were
        avoided and have not answered since come last. Where other machines may have what the
        account that comes first lacks here, it is not passed over unless it is one of those
        `borrowed`: None is returned, and `short` names it. With None as `borrowed` it is."""
        self.short = ""
        pinned = ""
        if pin and self.upstream.affinity != "off":
            pinned = account
            if not account or account in tried or not self.rotation.can_serve(account, model, now):
                pinned = self.affinity.account(pin, now) or account
        choice = self._choose(model, tried, now, pinned, borrowed)
        if proven and choice is not None and choice.member.avoidance is not None:
            choice = self._choose_proven(choice, model, tried, now)
        if choice is None:
            return None
        moved = bool(pinned) and (account or pinned) != choice.member.name
        return self._make_lease(self, choice, model, pin, now, moved)

    def _choose_proven(
        self, choice: Choice | None, model: str, tried: Collection[str], now: float
    ) -> Choice | None:
        """Another account in place of one that was avoided and has not answered since, if there
        is one."""
        passed_over = list(tried)
        for _ in range(_MOST_LOOKS):
            if choice is None or choice.member.avoidance is None:
                break
            passed_over.append(choice.member.name)
            self._put_back(choice)
            choice = self._choose(model, passed_over, now, "")
        return self._choose(model, tried, now, "") if choice is None else choice

    def _put_back(self, choice: Choice) -> None:
        """Undo a choice that no lease was made of."""
        if self.counts is not None and choice.member.settings.max_concurrent is not None:
            self.counts.give_back(choice.member.name)
        self.rotation.returned(choice)

    def share(self, counts: Counts | None) -> None:
        """Hold `max_concurrent` to `counts` from now on; None: to what is in flight here, and what
        was told of others."""
        self.counts = counts
        self.lent = counts if isinstance(counts, LentCounts) else None
        self._returned = tuple if counts is None else counts.returns()
        self._full.clear()
        self._doubtful.clear()

    def _choose(
        self,
        model: str,
        tried: Collection[str],
        now: float,
        pinned: str,
        borrowed: Collection[str] | None = None,
    ) -> Choice | None:
        """The account for a request, counted in over all workers."""
        counts = self.counts
        if counts is None:
            return self.rotation.choose(model, tried, now, pinned)
        if pinned in self._full:
            self._has_room(pinned)
        looked = False
        while True:
            choice = self.rotation.choose(model, tried, now, pinned)
            if choice is None:
                if looked or not self.look():
                    return None
                looked = True
                continue
            member = choice.member
            most = member.settings.max_concurrent
            if most is None or counts.take(member.name, most):
                return choice
            self.rotation.returned(choice)
            if self.lent is None:
                self.told(member.name, 0)
                continue
            if (
                borrowed is not None
                and member.name not in borrowed
                and self.lent.lacks(member.name)
            ):
                self.short = member.name
                return None
            self._full[member.name] = None
            self.rotation.in_flight_elsewhere(member.name, most)

    def told(self, name: str, count: int) -> None:
        """Other workers have told of so many requests that they have in flight with an account. If
        they count them, their count goes before that."""
        member = self.rotation.member(name)
        most = member.settings.max_concurrent
        counts = self.counts
        if counts is not None and most is not None:
            count = max(counts.elsewhere(name), self.uncounted.get(name, 0))
        count += self.beside(name)
        if counts is not None and most is not None and member.in_flight + count >= most:
            self._full[name] = None
        self.rotation.in_flight_elsewhere(name, count)

    def look(self) -> bool:
        """Look at accounts that were full of which other workers have ended a request since, and at
        a few others in turn. Returns whether one has room again."""
        if not self._full:
            return False
        returned = self._returned()
        for name in self._full if returned is None else returned:
            if name in self._full:
                self._doubtful[name] = None
        some = list(islice(self._doubtful, _MOST_LOOKS))
        for name in list(islice(self._full, _IN_TURN)):
            # It is the turn of the others next.
            del self._full[name]
            self._full[name] = None
            some.append(name)
        if self.lent is not None and self.wait_queue.waiters:
            self.lent.want(some)
        return bool([name for name in some if self._has_room(name)])

    def _has_room(self, name: str) -> bool:
        """Look at what other workers have in flight with an account that was full. Returns whether
        it has room again."""
        self._doubtful.pop(name, None)
        if name not in self.rotation or self.counts is None:
            self._full.pop(name, None)
            return False
        member = self.rotation.member(name)
        most = member.settings.max_concurrent
        elsewhere = max(self.counts.elsewhere(name), self.uncounted.get(name, 0))
        elsewhere += self.beside(name)
        if elsewhere != member.in_flight_elsewhere:
            self.rotation.in_flight_elsewhere(name, elsewhere)
        if most is not None and member.in_flight + elsewhere >= most:
            return False
        self._full.pop(name, None)
        return True

    def others(self, model: str, tried: Collection[str]) -> int:
        """How many accounts that are not in `tried` could serve, now or when they are free."""
        shortage = self.rotation.shortage(model, tried)
        held = sum(count for _, count in shortage.reasons)
        return len(self.rotation) - held + shortage.busy

    def shortage(self, model: str, tried: Collection[str], now: float) -> NoAccount:
        """Why `choose` has just found no account."""
        return no_account(self.upstream.name, model, self.rotation.shortage(model, tried), now)

    def offer(self, member: Member) -> None:
        """An account may be free: whoever has waited longest for one like it gets it."""
        now = self._clock()

        def suits(waiter: Waiter[Lease]) -> bool:
            if member.name in waiter.tried:
                return False
            return self.rotation.can_serve(member.name, waiter.model, now)

        self.wait_queue.offer(suits, lambda: not member.blocked)

    # The line of those who wait

    def lend(self, waiter: Waiter[Lease]) -> Lease | None:
        """A lease for the waiter, None if there is none for it now."""
        return self.choose(waiter.model, waiter.pin, waiter.tried, self._clock(), waiter.account)

    def refusal(self, waiter: Waiter[Lease], *, final: bool) -> NoAccount | None:
        """The error for a waiter that is to wait no longer; None if it should, unless `final`."""
        error = self.shortage(waiter.model, waiter.tried, self._clock())
        return None if isinstance(error, AllBusy) and not final else error

    def next_wake(self) -> float | None:
        """In how many seconds the next rest of an account ends; None: none does."""
        due = self.rotation.next_wake()
        return None if due is None else due - self._clock()


LeaseMaker = Callable[[UpstreamPool, Choice, str, bytes, float, bool], Lease]
"""The upstream, the account chosen, the model, the digest of the conversation's key, the time, and
whether the conversation was with another account before."""


def _nothing(name: str) -> int:
    return 0
