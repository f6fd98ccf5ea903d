"""Slices of limits, borrowed from the database that several machines share.

Requests are admitted from what this machine was lent, so that only those wait for the database for
which too little is left. What is used and what is needed is reported a few times a second, for many
limits in one exchange.

The owner of limits has no connection to the database: a worker makes the exchange for it. If that
ends in the middle, a report or its answer is lost, which changes nothing that the next one does not
repeat.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from msgspec import Struct

from dragoman.config.limits import Limit
from dragoman.config.windows import Rolling
from dragoman.limits.balances import Balance, Slice
from dragoman.limits.counters import CounterState
from dragoman.limits.ledgers import Report, ledger_name
from dragoman.limits.messages import Exchange, Exchanged, Refused
from dragoman.link.messages import LinkError, Peer
from dragoman.serving.limits import questions

_log = logging.getLogger("dragoman.limits")

_MOST_WAIT_S: Final = 0.6
"""Seconds for which a request waits for what others hold and do not need."""

_ASK_AGAIN_S: Final = 0.03
_SAME_ANSWER_S, _SAME_SLOTS_S = 0.25, 0.05
"""Seconds for which the owner is not asked again for what it does not have: what a window frees is
known here, a slot that another gives back is not."""

_LEAST_S, _MOST_S, _SLOTS_S = 0.1, 1.0, 0.25
"""Seconds between two reports at least and at most, and those of requests at one time."""
_OFTEN: Final = 100
"""Limits in use that are reported so often; of more, each is more rarely."""
_RAREST_S: Final = 4.0
"""Seconds between two reports at most: a slice holds for `SLICE_S`."""
_PARTS: Final = 64
"""Reports within a rolling window: so late may what was used be free again."""

_SLOW_S: Final = 1.0
"""Seconds without an answer after which the database counts as away."""
_HUNG_S: Final = 4.5
"""Seconds after which no answer is waited for any longer."""
_RETRY_LEAST_S, _RETRY_MOST_S = 0.25, 3.0
_QUIET_S: Final = 5.0
"""Seconds after which the database is asked for nothing, to know whether it is there."""
_AT_ONCE: Final = 200

_NO_ANSWER: Final = "no answer"

T = TypeVar("T")


class _Sent(Struct):
    """What was reported of a limit, and what came of it."""

    slice: Slice
    report: Report
    held: bool
    seed: CounterState


class Borrowing:
    """What this machine borrows. `peers` are its workers. `on_lent` is called when something was
    lent, `on_away` with since when the database is away (Unix seconds), 0 once it is back."""

    def __init__(self, peers: Callable[[], Collection[Peer]]) -> None:
        self._peers = peers
        self._failed = 0
        """Exchanges that failed: the next one is made by another worker."""
        self._slices: dict[str, Slice] = {}
        self._in_use: set[str] = set()
        self._look_at_all = 0.0
        self._wanted: dict[str, list[int]] = {}
        self._waiting: Counter[str] = Counter()
        self._machines = 0
        self._asked = asyncio.Event()
        self._answered: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._exchanging = asyncio.Lock()
        self._retry_s = _RETRY_LEAST_S
        self._heard = time.monotonic()
        self.away_since: float | None = None
        """Since when the database does not answer (Unix seconds); None if it does."""
        self.on_lent: Callable[[], object] = lambda: None
        self.on_away: Callable[[float], object] = lambda since: None

    async def close(self) -> None:
        """Borrow nothing more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def give_back(self) -> None:
        """Give back what this machine holds and does not use. Another worker may borrow later."""
        if self.away_since is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SLOW_S), self._exchanging:
                    self._wanted.clear()
                    for one in self._slices.values():
                        one.is_pressed = True
                    await self._exchange(self._busy())

    def make_slice(self, number: int, name: str, limit: Limit) -> Slice:
        """The balance of a limit that counts in slices."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        name = ledger_name(name)
        found = self._slices[name] = Slice(number, name, limit)
        self._in_use.add(name)
        if self.away_since is not None:
            found.set_away(self._machines)
        return found

    def forget(self, slices: Iterable[Slice]) -> None:
        """These slices were dropped."""
        for one in slices:
            if self._slices.get(one.name) is one:
                del self._slices[one.name]
                self._in_use.discard(one.name)

    async def borrow(
        self,
        amounts: Sequence[tuple[Balance, int]],
        refused: Refused,
        attempt: Callable[[], T],
    ) -> Refused | T:
        """Ask for what is missing, and try again; the last refusal if it cannot be had."""
        found: Refused | T = refused
        give_up = time.monotonic() + _MOST_WAIT_S
        while isinstance(found, Refused):
            if self.away_since is not None:
                slices = [one for one, _ in amounts if isinstance(one, Slice) and not one.is_away]
                return attempt() if self._mark_away(slices, failed=False) else found
            lacking = self._lacking(amounts)
            if lacking is None:
                return found
            if not lacking:
                return attempt()
            for name, amount in lacking:
                self._wanted.setdefault(name, []).append(amount)
            if not await self._answer():
                self._set_away(_NO_ANSWER, failed=False)
                return attempt()
            found = attempt()
            if isinstance(found, Refused):
                if time.monotonic() >= give_up or self._lacking(amounts) is None:
                    break
                await asyncio.sleep(_ASK_AGAIN_S)
        return found

    @contextmanager
    def waiting(self, balance: Balance) -> Iterator[None]:
        """One request more waits for its turn at a limit of requests at one time, inside."""
        name = balance.name
        self._waiting[name] += 1
        self._asked.set()
        try:
            yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]

    def _lacking(self, amounts: Sequence[tuple[Balance, int]]) -> list[tuple[str, int]] | None:
        """What is missing of which limits; None if it is known not to be there."""
        now, lacking = time.time(), []
        for one, amount in amounts:
            if not isinstance(one, Slice) or not one.enforced or amount <= one.left(now):
                continue
            fresh_s = _SAME_SLOTS_S if one.window is None else _SAME_ANSWER_S
            is_fresh = abs(now - one.reported_at) < fresh_s
            if amount > one.amount or (is_fresh and one.left_of_all(now) + one.spare < amount):
                return None
            lacking.append((one.name, amount))
        return lacking

    async def _answer(self) -> bool:
        """Wait for an exchange that begins after this; False if there is none in time."""
        if self._answered is None:
            self._answered = asyncio.get_running_loop().create_future()
        self._asked.set()
        try:
            async with asyncio.timeout(_SLOW_S):
                await asyncio.shield(self._answered)
        except TimeoutError:
            return False
        return self.away_since is None

    async def _run(self) -> None:
        while True:
            if self.away_since is not None:
                # Nobody waits for an answer.
                await asyncio.sleep(self._retry_s * random.uniform(0.5, 1.0))
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LEAST_S):
                        await self._asked.wait()
            self._asked.clear()
            answered, self._answered = self._answered, None
            try:
                async with self._exchanging:
                    await self._exchange(self._due())
            except Exception:
                _log.exception("limits could not be shared with other machines")
                await asyncio.sleep(_RETRY_LEAST_S)
            finally:
                if answered is not None and not answered.done():
                    answered.set_result(None)

    def _busy(self) -> list[Slice]:
        """The slices of which there is something to report: of those that were in use at the last
        look, and of all of them now and then."""
        now = time.monotonic()
        if now >= self._look_at_all:
            self._look_at_all = now + _MOST_S
            self._in_use |= self._slices.keys()
        busy = [one for name in self._in_use if (one := self._slices[name]).needs_report]
        self._in_use = {one.name for one in busy}
        return busy

    def _due(self) -> list[Slice]:
        """What is to be reported now."""
        now = time.time()
        asked = self._wanted.keys() | self._waiting.keys()
        busy = self._busy()
        rarer = max(1.0, len(busy) / _OFTEN)
        return [self._slices[name] for name in asked if name in self._slices] + [
            one
            for one in busy
            if one.name not in asked
            and (
                one.is_overdrawn
                or abs(now - one.reported_at) >= min(_every_s(one) * rarer, _RAREST_S)
            )
        ]

    async def _exchange(self, due: Sequence[Slice]) -> None:
        if not self._peers():
            return
        if not due and self.away_since is None and time.monotonic() < self._heard + _QUIET_S:
            return
        for start in range(0, max(1, len(due)), _AT_ONCE):
            await self._exchange_some(due[start : start + _AT_ONCE])
        self.on_lent()

    async def _exchange_some(self, due: Sequence[Slice]) -> None:
        self._in_use |= {one.name for one in due}
        sent = [self._report(one) for one in due]
        began = time.monotonic()
        reports = [(one.slice.name, one.slice.limit, one.report, one.seed) for one in sent]
        slow = asyncio.get_running_loop().call_later(_SLOW_S, self._set_away, _NO_ANSWER, False)
        try:
            answer = await self._ask(Exchange(tuple(reports)))
        finally:
            slow.cancel()
        if answer.away:
            self._set_away(answer.away)
            self._retry_s = min(2 * self._retry_s, _RETRY_MOST_S)
            return
        if self.away_since is not None:
            _log.warning("limits are shared again, after %.1f s", time.time() - self.away_since)
            self.on_away(0.0)
        self.away_since, self._retry_s = None, _RETRY_LEAST_S
        self._heard = time.monotonic()
        now = time.time()
        for one, loan in zip(sent, answer.loans, strict=True):
            if loan is not None:
                one.slice.take(loan, began, one.held, answer.now, now)
                self._machines = loan.machines

    async def _ask(self, message: Exchange) -> Exchanged:
        """Have a worker make an exchange."""
        peers = list(self._peers())
        if not peers:
            return Exchanged(away="no worker serves")
        peer = peers[self._failed % len(peers)]
        try:
            async with asyncio.timeout(_HUNG_S):
                answer = await peer.ask(questions.EXCHANGE, message)
        except (LinkError, TimeoutError):
            answer = Exchanged(away=_NO_ANSWER)
        if answer.away:
            self._failed += 1
        return answer

    def _report(self, one: Slice) -> _Sent:
        wanted = self._wanted.pop(one.name, [])
        waiting = self._waiting.get(one.name, 0)
        least = 1 if waiting else min(wanted, default=0)
        held = one.holds
        report = one.report(time.time(), sum(wanted) + waiting, least)
        return _Sent(one, report, held, one.counter.state())

    def _set_away(self, reason: str, failed: bool = True) -> None:
        """The database did not answer: it counts as away until it does."""
        if self.away_since is None:
            self.away_since = time.time()
            _log.error("limits go on with what this machine was lent: %s", reason)
            self.on_away(self.away_since)
        self._mark_away(self._slices.values(), failed)

    def _mark_away(self, slices: Iterable[Slice], failed: bool) -> bool:
        """Let the slices go on without the database; False if none does. As long as an exchange is
        only slow and has not `failed`, what was lent of requests at one time is all there is: they
        come back by themselves, and nobody would take too many back. A machine that has nothing of
        them, since it has just started or had no request when it reported, has no other way."""
        alone = [one for one in slices if failed or one.window is not None or not one.lent]
        for one in alone:
            one.set_away(self._machines)
        return bool(alone)


def _every_s(one: Slice) -> float:
    """Seconds between two reports."""
    if one.window is None:
        return _SLOTS_S
    if isinstance(one.window, Rolling):
        return min(_MOST_S, max(_LEAST_S, one.window.seconds / _PARTS))
    return _MOST_S
