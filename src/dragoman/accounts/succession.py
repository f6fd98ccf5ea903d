"""Rosters of successive configurations: one that was replaced still ends the leases it made, and
reports their outcomes to its successor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from weakref import ref

from dragoman.accounts.decide.decisions import apply
from dragoman.accounts.decide.states import AccountState, KeyChanged, Rest, Transition
from dragoman.accounts.roster import Roster
from dragoman.accounts.upstream_pool import LeaseMaker
from dragoman.config import Account, Upstream


class SuccessiveRoster(Roster):
    """A roster that may take the place of another, and be followed in turn."""

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        clock: Callable[[], float],
        spread: Callable[[], float],
        make_lease: LeaseMaker,
    ) -> None:
        super().__init__(upstreams, clock, spread, make_lease)
        self._successor: SuccessiveRoster | None = None
        self._kin: tuple[ref[SuccessiveRoster], ...] = ()

    @abstractmethod
    def observe(self, transition: Transition) -> None:
        """Record what happened to an account."""

    def _follow(self, former: SuccessiveRoster, accounts: Iterable[Account]) -> None:
        """Take the place of `former` with these accounts, the last of the same name counting. This
        one has none yet. It goes on from all that is known of the accounts that stay."""
        self._in_flight, self.quotas = former._in_flight, former.quotas
        self._avoidance.take_over(former._avoidance)
        for name, pool in self._pools.items():
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
        self._elsewhere = {
            name: count for name, count in former._elsewhere.items() if name in self._accounts
        }
        kin = [one for one in (*former._living(), former) if one is not self]
        self._kin = tuple(ref(one) for one in kin)
        for one in kin:
            one._kin += (ref(self),)
            one._successor = self
            one._avoidance.on_silence = one._tell_silence
            for pool in one._pools.values():
                pool.beside = one.beside
        for name in self._in_flight:
            self._recount(name)

    def _carry(self, former: SuccessiveRoster, old: Account, new: Account, now: float) -> None:
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
            rest = former._avoidance.silence(name)
            if rest is not None:
                self._avoidance.set_silence(name, rest, now)
        elif member.state.key or member.state.refused_key:
            self.observe(Transition(name, KeyChanged(key), now))

    def retire(self) -> None:
        """No request of this pool's configuration will take an account any more."""
        for one in self._living():
            one._kin = tuple(other for other in one._kin if other() not in (None, self))
        self._kin, self._successor = (), None
        self._avoidance.on_silence = None

    def has_same(self, account: Account) -> bool:
        """Whether the account is there with the same upstream and key."""
        mine = self._accounts.get(account.name)
        if mine is None or mine.upstream != account.upstream:
            return False
        return mine.fingerprint == account.fingerprint

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

    def in_flight(self, name: str) -> int:
        """Requests in flight with the account, of this worker and of others."""
        count = self._in_flight.get(name, 0)
        if name not in self._accounts:
            return count
        known = self._member(name).in_flight_elsewhere - self.beside(name)
        return count + max(known, self._elsewhere.get(name, 0))

    def settle_quotas(self) -> None:
        if self._successor is not None:
            self._successor.settle_quotas()
        else:
            super().settle_quotas()

    def _tell_silence(self, name: str, rest: Rest | None, now: float) -> None:
        successor = self._successor
        if successor is not None and successor.has_same(self._accounts[name]):
            successor._avoidance.set_silence(name, rest, now)

    def _observe_late(
        self, successor: SuccessiveRoster, account: Account, transition: Transition
    ) -> None:
        """As `observe`, when another configuration has taken the place of this one."""
        pool = self._pools[account.upstream]
        state = apply(pool.rotation.member(account.name).state, transition)
        self._put(pool, account.name, state, self._clock())
        if successor.has_same(account):
            successor.observe(transition)

    def _living(self) -> list[SuccessiveRoster]:
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
        pool.in_flight_elsewhere(name, self._elsewhere.get(name, 0))
        if member.in_flight_elsewhere < before and pool.wait_queue.waiters:
            pool.offer(member)
