"""Accounts that are avoided without being at fault, or not for sure: their host or their proxy
cannot be reached, or they are silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dragoman.accounts.decide.account_proxies import AccountProxies
from dragoman.accounts.decide.avoidance_causes import AvoidanceCauses
from dragoman.accounts.decide.hosts import Hosts, dials_again
from dragoman.accounts.decide.proxies import shown
from dragoman.accounts.decide.states import Rest
from dragoman.accounts.silence import after_late_answer, rest_after_silence, trial
from dragoman.accounts.upstream_pool import Lease, UpstreamPool
from dragoman.config import Account

_log = logging.getLogger("dragoman.accounts")

_PROXY, _SILENCE, _CREDENTIAL = "proxy", "silence", "credential"
"""Causes of rests of accounts."""


class Avoidance:
    """The accounts and hosts to avoid, and until when, from the outcomes of leases. `spread` gives
    numbers in [0, 1) that keep rests from ending together; `avoid` is called with the rest of an
    account (None: it has none) whenever it changes. `on_silence`, if set, is called with each
    change of a rest after a silence.
    """

    __slots__ = ("_causes", "_proxies", "_spread", "hosts", "on_silence")

    def __init__(
        self, avoid: Callable[[str, Rest | None, float], None], spread: Callable[[], float]
    ) -> None:
        self._spread = spread
        self._causes = AvoidanceCauses(avoid)
        self._proxies = AccountProxies(self._set_proxy_rest)
        self.hosts = Hosts()
        self.on_silence: Callable[[str, Rest | None, float], None] | None = None

    def take_over(self, former: Avoidance) -> None:
        """Copy what `former` knows of proxies, before any account is added, and share its hosts."""
        self.hosts = former.hosts
        self._proxies.take_over(former._proxies)

    # Accounts that come and go

    def add(self, account: Account, now: float) -> None:
        """Add an account."""
        rest: Rest | None = None
        if account.proxy is not None:
            rest = self._proxies.add(account.proxy.reveal(), account.name)
        self._set_proxy_rest(account.name, rest, now)

    def remove_proxy(self, account: Account) -> None:
        """Record that the account no longer uses its proxy."""
        if account.proxy is not None:
            self._proxies.remove(account.proxy.reveal(), account.name)

    def forget(self, name: str) -> None:
        """Drop what is known of an account that was removed."""
        self._causes.forget(name)

    def prepare(self, name: str, rest: Rest | None, now: float) -> None:
        """Set the account's rest until it has its first credential, or end it (None)."""
        self._causes.set(name, _CREDENTIAL, rest, now)

    # Proxies and hosts

    def _set_proxy_rest(self, name: str, rest: Rest | None, now: float) -> None:
        self._causes.set(name, _PROXY, rest, now)

    def proxy_worked(self, lease: Lease, now: float) -> None:
        """Record that the call of a lease was answered, through its proxy if it has one."""
        proxies = lease.accounts.proxies
        if lease.proxy_index >= 0 and proxies is not None:
            proxies.succeeded(lease.proxy_index, lease.taken)
        elif lease.choice.member.avoidance is not None:
            url = lease.account.proxy
            if url is not None:
                self._proxies.succeeded(url.reveal(), lease.taken, now)

    def proxy_failed(self, lease: Lease, now: float) -> None:
        """Record that the call of a lease could not connect through its proxy."""
        if lease.proxy is None:
            return
        url, proxies = lease.proxy.reveal(), lease.accounts.proxies
        if lease.proxy_index >= 0 and proxies is not None:
            rest = proxies.failed(lease.proxy_index, lease.taken, now, self._spread())
        else:
            rest = self._proxies.failed(url, lease.taken, now, self._spread())
        if rest is not None:
            where = shown(url)
            _log.warning("proxy %s failed: avoided for %.1f s", where, rest.until - now)

    def host_answered(self, lease: Lease) -> None:
        """Record that the call of a lease got an answer, good or bad."""
        self.hosts.answered(lease.accounts.host(lease.account, lease.proxy), lease.taken)

    def unreached(
        self, lease: Lease, now: float, *, failed: int, timed_out: bool, cause: str
    ) -> bool:
        """See `Lease.unreached`."""
        host = lease.accounts.host(lease.account, lease.proxy)
        before = self.hosts.rest(host)
        rest = self.hosts.failed(host, lease.taken, now, self._spread())
        if rest is not None:
            why = f" ({cause.replace('_', ' ')})" if cause else ""
            _log.warning("%s cannot be reached%s: avoided for %.1f s", host, why, rest.until - now)
        was_known = before is not None and before.since <= lease.taken
        one_way = lease.accounts.only_host is not None
        return dials_again(failed, timed_out=timed_out, was_known=was_known, one_way=one_way)

    # Silence

    def silence(self, name: str) -> Rest | None:
        """The account's rest after a silence; it may be over."""
        return self._causes.rest(name, _SILENCE)

    def set_silence(self, name: str, rest: Rest | None, now: float) -> None:
        """Set the account's rest after a silence, or end it (None)."""
        self._causes.set(name, _SILENCE, rest, now)
        if self.on_silence is not None:
            self.on_silence(name, rest, now)

    def fell_silent(self, lease: Lease, now: float, *, ended: bool) -> bool:
        """See `Lease.fell_silent`."""
        name, upstream = lease.account.name, lease.accounts.upstream
        moves = upstream.silent_calls == "move"
        if not lease.choice.member.removed:
            limit = 0.0 if moves or ended else upstream.timeouts.first_byte_s
            patience = limit - (now - lease.taken)
            before = self.silence(name)
            rest = rest_after_silence(before, lease.taken, now, self._spread(), patience)
            if rest is not None:
                _log.warning("account %s: %s, avoided for %.0f s", name, rest.why, rest.until - now)
                self.set_silence(name, rest, now)
        return moves

    def began(self, lease: Lease, seconds: float, limit: float, now: float) -> None:
        """Record that a good answer to a lease's request began after `seconds`; more than `limit`
        (0: unknown) are far too many."""
        name = lease.account.name
        rest = self.silence(name)
        if rest is None:
            return
        if 0.0 < limit < seconds:
            self.set_silence(name, after_late_answer(rest, now), now)
        elif lease.taken >= rest.since:
            self.set_silence(name, None, now)

    def used_again(self, name: str, pool: UpstreamPool, now: float) -> None:
        """Record that an avoided account is used: after a silence by one call at first."""
        rest = self.silence(name)
        if rest is not None:
            tried = trial(rest, max(wait.limit for wait in pool.waits), now)
            if tried is not None:
                self.set_silence(name, tried, now)
