"""Trying one account after another until one answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman.accounts.decisions import MAX_ATTEMPTS
from dragoman.accounts.pool import Lease, NoAccount, Pool, Wanted
from dragoman.canonical.errors import Fault
from dragoman.gateway.failures import ALL_TRIED, NONE_LEFT, Failure, final_fault, more_telling
from dragoman.gateway.record import Record
from dragoman.gateway.routing import Target

T = TypeVar("T")


class GaveUp(Exception):
    """No account could answer. `fault` is what the client is told; `failure` is the upstream's own
    refusal when the request itself is at fault, and was not tried again.
    """

    def __init__(self, fault: Fault, failure: Failure | None = None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.failure = failure


async def on_some_account(
    pool: Pool, target: Target, record: Record, attempt: Callable[[Lease], Awaitable[T]]
) -> T:
    """Run `attempt` with a lease, and again with another one after each failure.

    No account is used twice, and no more than `MAX_ATTEMPTS` are. Only a `Failure` is tried again;
    the pool decides whether.

    Raises:
        GaveUp: nothing more can be tried.
    """
    upstream = target.upstream.name
    wanted = Wanted(upstream, target.model)
    tried: list[str] = []
    last: Failure | None = None
    ending, back_in = ALL_TRIED, None
    while len(tried) < MAX_ATTEMPTS:
        try:
            lease = await pool.acquire(wanted, tried)
        except NoAccount as none:
            if last is None:
                raise GaveUp(none.fault) from None
            ending, back_in = NONE_LEFT, none.fault.retry_after
            break
        with lease:
            tried.append(lease.account.name)
            record.account, record.attempts = lease.account.name, len(tried)
            try:
                return await attempt(lease)
            except Failure as failure:
                if not lease.failed(failure.symptom).tries_next:
                    raise GaveUp(failure.fault, failure) from None
                last = more_telling(last, failure)
    assert last is not None
    raise GaveUp(final_fault(pool.rules(upstream), last, ending, back_in))
