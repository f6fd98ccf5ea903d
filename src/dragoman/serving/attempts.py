"""The attempts at a request: the next account, its time limit, and the error when none is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.decide.decisions import classify, fitting
from dragoman.accounts.decide.states import Decision
from dragoman.accounts.decide.symptoms import UNREACHABLE, Symptom
from dragoman.accounts.pool import AccountPool, Lacking, Lease, LeaseRequest, NoAccount
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.config import Upstream
from dragoman.edge.record import FailedAttempt, Record
from dragoman.serving.failures import (
    ALL_TRIED,
    HOST_DOWN,
    NONE_LEFT,
    OUT_OF_TIME,
    Failure,
    final_fault,
    more_informative,
    none_left,
)
from dragoman.serving.plan import Plan

E = TypeVar("E", bound=Exception)
T = TypeVar("T")

SILENT = "silent"
"""The kind of an attempt that failed since nothing came until its client left."""

_LONGEST_MODEL = 200
"""Characters of a model's name that are recorded of an attempt."""


class GaveUp(Struct, frozen=True):
    """Why no account of an upstream answered. `fault` is the error for the client; `failure` is the
    upstream's own refusal if the request itself is at fault and was not tried again.
    """

    fault: Fault
    failure: Failure | None = None


class Ruling(Struct, frozen=True):
    """The decision on a failure, as in `FailedAttempt`."""

    verdict: str = ""
    why: str = ""
    row: int = 0
    table: str = ""
    rest_s: float | None = None


_NO_RULING = Ruling()


class Attempts:
    """The attempts at one request, at one upstream after another.

        attempts.start(plan)
        while (lease := await attempts.next()) is not None:
            try:
                return await attempts.within(lease, ask(lease))
            except Failure as failure:
                attempts.failed(lease, failure)
            finally:
                lease.give_back()
        attempts.gave_up  # why

    The time limit is shared by all upstreams, accounts are counted for each. No account of an
    upstream is asked twice. `made` counts the attempts.

    An attempt may take as long as the limits of the call allow if there is time for another
    afterwards. Else it is ended after half of the time that is left, unless an answer has `begun`,
    so that an account that hangs never uses up the time while others are left.

    A first attempt needs none of this (see `Exchange`): `begin_after` takes over when it failed.
    """

    __slots__ = (
        "_explains",
        "_failure",
        "_following",
        "_host_down",
        "_hung",
        "_in_vain",
        "_observes",
        "_plan",
        "_pool",
        "_record",
        "_remaining",
        "_started",
        "_tried",
        "_unconnected",
        "_unreached",
        "_wanted",
        "gave_up",
        "limit",
        "made",
    )

    def __init__(
        self, pool: AccountPool, record: Record, *, explains: bool = False, observes: bool = True
    ) -> None:
        """`explains`: record the accounts among which the first one of an upstream was chosen.
        `observes`: failures count for the states of accounts, proxies and hosts."""
        self._explains = explains
        self._observes = observes
        self._pool = pool
        self._record = record
        self._started = record.sent_at or time.perf_counter()
        self.limit: asyncio.Timeout | None = None
        self._in_vain = False
        self._hung = False
        self.made = 0

    def in_time(self, upstream: Upstream) -> bool:
        """Whether one more account of the upstream may be tried."""
        return self._seconds_left(upstream) > 0

    def start(
        self,
        plan: Plan,
        wanted: LeaseRequest | None = None,
        only: str = "",
        following: Sequence[Plan] = (),
    ) -> None:
        """Go on with the accounts of the plan's upstream. `wanted` is as that of the plan, with its
        conversation; `only` is the name of the one account that may be asked, empty for any;
        `following` are the plans that are left if none of these answers."""
        self._plan = plan
        self._following = following
        self._wanted = replace(wanted or plan.wanted, proven=self._hung)
        self._tried = self._other_accounts(plan.upstream, only) if only else []
        self._unreached: list[str] = []
        self._unconnected = 0
        self._host_down = False
        self._remaining = plan.upstream.attempts
        self._failure: Failure | None = None
        self.gave_up: GaveUp | None = None

    def ask_others(self) -> None:
        """The one account that might be asked has failed: let the others be asked, too."""
        self._tried = self._tried[-1:]

    def begin_after(self, lease: Lease) -> None:
        """The first attempt, with this lease, was made without asking `next`."""
        self._remaining -= 1
        self.made = 1
        self._tried.append(lease.account.name)

    async def next(self, lacking: Lacking | None = None) -> Lease | None:
        """A lease of the next account, to be given back by the caller. None if nothing more can be
        tried; `gave_up` gives the reason. `lacking` is what the pool has just found for a first
        attempt."""
        if self.gave_up is not None:
            return None
        if self._host_down:
            self.give_up(HOST_DOWN)
            return None
        if not self._remaining:
            self.give_up(ALL_TRIED)
            return None
        if self._tried and self._seconds_left(self._plan.upstream) <= 0:
            self.give_up(OUT_OF_TIME)
            return None
        lease: Lease | Lacking | None = lacking
        if lease is None and not self._unreached:
            lease = self._pool.lend(self._wanted, self._tried)
        if not isinstance(lease, Lease):
            try:
                lease = await self._queue(lease)
            except NoAccount as shortage:
                self.give_up(NONE_LEFT, without_traceback(shortage))
                return None
        self._remaining -= 1
        self.made += 1
        if self._explains and not self._tried:
            self._record.alternatives = self._pool.alternatives(lease)
        self._tried.append(lease.account.name)
        record = self._record
        record.account, record.attempts, record.moved = lease.account.name, self.made, lease.moved
        return lease

    def patience(self) -> float:
        """The seconds after which the attempt that was begun last is to end, unless an answer has
        begun: infinity if the limits of the call are enough, or nothing else could be tried."""
        longest = self._plan.target.longest_silence_s
        plans = (self._plan, *self._following)
        lefts = [self._seconds_left(plan.upstream) for plan in plans]
        if min(lefts) > longest:
            return inf
        if not (self._remaining and self._pool.others(self._wanted, self._tried)):
            del lefts[0]
        left = min((left for left in lefts if left > 0), default=inf)
        return inf if left > longest else left / 2

    def within(self, lease: Lease, attempt: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The attempt with this lease, ended when its time is over (see `patience`).

        Raises:
            Failure: when awaited: it was ended. Or as `attempt`.
        """
        if self.made == 1 and not self._plan.is_bounded:
            return attempt
        seconds = self.patience()
        return attempt if seconds == inf else self._within(seconds, lease, attempt)

    async def _within(self, seconds: float, lease: Lease, attempt: Coroutine[Any, Any, T]) -> T:
        self.limit = limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await attempt
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._late(lease, seconds) from None
        finally:
            self.limit = None

    def _late(self, lease: Lease, seconds: float) -> Failure:
        message = (
            f"The upstream {self._plan.upstream.name} did not answer in time: nothing of an "
            f"answer came within {seconds:.3g} s, and others can still be asked."
        )
        return Failure(
            Fault(FaultKind.UPSTREAM_TIMEOUT, message, code="timeout"),
            UNREACHABLE,
            cause="first_byte_timeout",
            unanswered=not lease.answered,
            silent=lease.is_late(seconds, stream=self._record.stream),
        )

    def begun(self) -> None:
        """An answer has begun: the attempt is not ended any more by its `limit`, if it has one."""
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(None)

    def failed(self, lease: Lease, failure: Failure) -> None:
        """The attempt with this lease failed. The pool decides whether another account is asked. A
        call that did not get through its proxy counts against the proxy."""
        without_traceback(failure)
        kind = failure.cause or failure.fault.kind
        if failure.by_model:
            note_failure(self._record, self._plan, lease, kind, failure.status)
            self._failed_by_model(failure)
            return
        if self._observes:
            decision = self._observe(lease, failure)
        else:
            rules = self._pool.rules(self._plan.upstream.name).rules
            decision = classify(failure.symptom, rules)
        ruling = self._ruling(failure.symptom, decision)
        note_failure(self._record, self._plan, lease, kind, failure.status, ruling)
        if decision.tries_next:
            self._failure = more_informative(self._failure, failure)
        else:
            self.gave_up = GaveUp(failure.fault, failure)

    def returned(self, lease: Lease, failure: Failure) -> None:
        """The attempt with this lease failed, which says nothing of its account: the client is
        sent the refusal."""
        without_traceback(failure)
        note_failure(self._record, self._plan, lease, failure.fault.kind, failure.status)
        self.gave_up = GaveUp(failure.fault, failure)

    def _observe(self, lease: Lease, failure: Failure) -> Decision:
        """Report a failure to the pool, which decides."""
        upstream = self._plan.upstream
        if failure.unanswered:
            lease.proxy_failed()
            if failure.at_proxy and _has_other_proxy(upstream, lease):
                self._unreached.append(lease.account.name)
        if failure.silent:
            lease.fell_silent(ended=True)
            self._hung = True
            self._wanted = replace(self._wanted, proven=True)
        if failure.unreached:
            self._host_unreached(lease, failure)
        return lease.failed(failure.symptom)

    def _ruling(self, symptom: Symptom, decision: Decision) -> Ruling:
        """What was decided upon a failure, and after which row of the rules."""
        upstream = self._plan.upstream
        rules = self._pool.rules(upstream.name).rules
        fitted = fitting(symptom, rules)
        row = 0 if fitted is None else rules.index(fitted) + 1
        own = len(upstream.rules)
        is_own = 0 < row <= own
        return Ruling(
            str(decision.verdict),
            decision.why,
            row if is_own else max(0, row - own),
            "own" if is_own else upstream.account_rules if row else "",
            None if decision.rest is None else round(decision.rest, 3),
        )

    def _host_unreached(self, lease: Lease, failure: Failure) -> None:
        """There was no connection, and another account of the upstream may do no better."""
        self._unconnected += 1
        timed_out = failure.unreached == "timed out"
        if not lease.unreached(failed=self._unconnected, timed_out=timed_out, cause=failure.cause):
            self._host_down = True

    def _failed_by_model(self, failure: Failure) -> None:
        """The answer was paid for and is of no use. It is asked for once more, by all upstreams
        together, of whichever account comes next: no account is at fault, nor is this one."""
        if self._in_vain:
            self.gave_up = GaveUp(failure.fault, failure)
            return
        self._in_vain = True
        self._tried.pop()
        self._failure = more_informative(self._failure, failure)

    def give_up(self, ending: str, shortage: NoAccount | None = None) -> None:
        """Try nothing more, for the reason `ending`, one of `serving.failures`."""
        rules = self._pool.rules(self._plan.upstream.name)
        if self._failure is not None:
            name = self._plan.upstream.name
            made = self._plan.upstream.attempts - self._remaining
            ending = f"{ending}, {made} of {self._pool.size(name)} tried"
            fault = final_fault(rules, self._failure, ending, shortage)
        else:
            assert shortage is not None
            fault = none_left(rules, shortage)
        self.gave_up = GaveUp(fault)

    def _seconds_left(self, upstream: Upstream) -> float:
        """The seconds within which one more account may be tried: any number for the first."""
        limit = upstream.attempts_within_s
        if not limit or not self.made:
            return inf
        return limit - (time.perf_counter() - self._started)

    def _other_accounts(self, upstream: Upstream, only: str) -> list[str]:
        return [
            account.name
            for account in self._pool.accounts()
            if account.upstream == upstream.name and account.name != only
        ]

    async def _queue(self, lacking: Lacking | None) -> Lease:
        """A lease that may have to be waited for.

        Raises:
            NoAccount: there is none.
        """
        left = self._seconds_left(self._plan.upstream)
        if self._following:
            left /= 2  # for those that could answer while the accounts of this one are busy
        asked = time.perf_counter()
        try:
            if self._unreached:
                return await self._acquire_again(left)
            return await self._pool.acquire(self._wanted, self._tried, left, lacking)
        finally:
            self._record.queue_s += time.perf_counter() - asked

    async def _acquire_again(self, most_s: float) -> Lease:
        """A lease of an account that was not tried; if there is none, of one that never saw the
        request because its proxy could not be used: its next call takes another proxy."""
        with suppress(NoAccount):
            return await self._pool.acquire(self._wanted, self._tried, most_s)
        reached = [name for name in self._tried if name not in self._unreached]
        self._unreached.clear()
        return await self._pool.acquire(self._wanted, reached, most_s)


def note_failure(
    record: Record,
    plan: Plan,
    lease: Lease,
    kind: str,
    status: int,
    ruling: Ruling = _NO_RULING,
) -> None:
    """Record that the attempt with this lease failed, for a cause or kind of fault, with the status
    of the answer, or 0."""
    now = time.time()
    attempt = FailedAttempt(
        upstream=lease.account.upstream,
        account=lease.account.name,
        model=lease.wanted.model[:_LONGEST_MODEL],
        kind=kind,
        status=status,
        at=round(now, 3),
        ms=round(max(0.0, now - lease.taken) * 1000, 1),
        verdict=ruling.verdict,
        why=ruling.why,
        row=ruling.row,
        table=ruling.table,
        rest_s=ruling.rest_s,
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
    )
    record.failed = (*record.failed, attempt)
    record.accounts = len(plan.accounts.rotation.members)


def note_abandoned(record: Record, plan: Plan, lease: Lease) -> None:
    """The request ended during the attempt with this lease, since its client left. If nothing of an
    answer had come for far too long, the account has failed."""
    seconds = time.time() - lease.taken
    if not lease.has_begun and lease.is_late(seconds, stream=record.stream):
        note_failure(record, plan, lease, SILENT, 0)
        lease.fell_silent(ended=True)


def _has_other_proxy(upstream: Upstream, lease: Lease) -> bool:
    """Whether the account's next call would take another proxy."""
    return lease.account.proxy is None and len(upstream.proxies) > 1


def without_traceback(error: E) -> E:
    """An error to store, without its traceback and context: their frames refer to the whole request
    and to each other."""
    error.__context__ = None
    return error.with_traceback(None)
