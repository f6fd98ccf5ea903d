"""Trying one account after another until one answers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import TypeVar

from dragoman.accounts.pool import AccountPool, Lease, LeaseRequest, NoAccount
from dragoman.canonical.errors import Fault
from dragoman.config import Upstream
from dragoman.gateway.edge.record import Record
from dragoman.gateway.serving.failures import (
    ALL_TRIED,
    NONE_LEFT,
    OUT_OF_TIME,
    Failure,
    final_fault,
    more_telling,
    none_left,
)
from dragoman.gateway.serving.routing import Target

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


class GaveUp(Exception):
    """No account could answer. `fault` is what the client is told; `failure` is the upstream's own
    refusal when the request itself is at fault, and was not tried again.
    """

    def __init__(self, fault: Fault, failure: Failure | None = None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.failure = failure


class Attempts:
    """The attempts at one request, over all upstreams that it is tried at.

    Time is shared by all of them, the number of accounts is counted for each.
    """

    __slots__ = ("_pool", "_record", "_started", "made")

    def __init__(self, pool: AccountPool, record: Record) -> None:
        self._pool = pool
        self._record = record
        self._started = time.monotonic()
        self.made = 0

    def in_time(self, upstream: Upstream) -> bool:
        """Whether one more account of the upstream may be tried."""
        return self._left(upstream) > 0

    def _left(self, upstream: Upstream) -> float:
        """The seconds within which one more account may be tried: any number for the first."""
        limit = upstream.attempts_within_s
        if not limit or not self.made:
            return inf
        return limit - (time.monotonic() - self._started)

    async def at(
        self,
        target: Target,
        attempt: Callable[[Lease], Awaitable[T]],
        pin: bytes = b"",
        only: str = "",
    ) -> T:
        """Run `attempt` with a lease of the target's upstream, and again with another account's
        after each failure. `pin` is the digest of the conversation, `only` the name of the one
        account that may be asked, empty for any.

        No account is used twice. Only a `Failure` is tried again; the pool decides whether. A
        call that did not get through its proxy is held against the proxy.

        Raises:
            GaveUp: nothing more can be tried.
        """
        upstream, pool = target.upstream, self._pool
        wanted = LeaseRequest(upstream.name, target.model, pin)
        tried = self._others_than(only, upstream) if only else []
        unasked: list[str] = []
        last: Failure | None = None
        ending, none = ALL_TRIED, None
        for _ in range(upstream.attempts):
            left = self._left(upstream)
            if tried and left <= 0:
                ending = OUT_OF_TIME
                break
            try:
                lease = await (
                    self._lease(wanted, tried, unasked, left)
                    if unasked
                    else pool.acquire(wanted, tried, left)
                )
            except NoAccount as found:
                if last is None:
                    raise GaveUp(none_left(found)) from None
                ending, none = NONE_LEFT, without_traceback(found)
                break
            name = lease.account.name
            self.made += 1
            tried.append(name)
            self._record.account, self._record.attempts = name, self.made
            try:
                return await attempt(lease)
            except Failure as failure:
                if failure.unanswered:
                    lease.proxy_failed()
                    if failure.at_proxy and _others(upstream, lease):
                        unasked.append(name)
                if not lease.failed(failure.symptom).tries_next:
                    raise GaveUp(failure.fault, failure) from None
                last = more_telling(last, without_traceback(failure))
            finally:
                lease.give_back()
        assert last is not None
        raise GaveUp(final_fault(pool.rules(upstream.name), last, ending, none))

    def _others_than(self, only: str, upstream: Upstream) -> list[str]:
        return [
            account.name
            for account in self._pool.accounts()
            if account.upstream == upstream.name and account.name != only
        ]

    async def _lease(
        self, wanted: LeaseRequest, tried: list[str], unasked: list[str], most_s: float
    ) -> Lease:
        """A lease of an account that was not tried; if there is none, of one that never saw the
        request, since the proxy that was in turn could not be used. Another is in turn now."""
        with suppress(NoAccount):
            return await self._pool.acquire(wanted, tried, most_s)
        again = [name for name in tried if name not in unasked]
        unasked.clear()
        return await self._pool.acquire(wanted, again, most_s)


def _others(upstream: Upstream, lease: Lease) -> bool:
    """Whether the account's next call would take another proxy."""
    return lease.account.proxy is None and len(upstream.proxies) > 1


def without_traceback(error: E) -> E:
    """An error to keep, without where it came from: the frames hold all of the request, and each
    other."""
    error.__context__ = None
    return error.with_traceback(None)
