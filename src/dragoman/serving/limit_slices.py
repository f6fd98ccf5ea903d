"""Slices of limits, borrowed from the owner that several machines share.

A machine admits requests from what it was lent (`limits/slices.py`), so that none waits for the
database but those for which too little is left. The workers of a machine share its slices;
whichever of them has something to ask does so for all.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final, Literal

from msgspec import Struct

from dragoman.config.limits import Limit
from dragoman.config.windows import Rolling
from dragoman.limits.admission import Refusal, Reservation
from dragoman.limits.bound_limits import BoundLimit, window_of
from dragoman.limits.counters import RESERVED, Cells, cells_of
from dragoman.limits.ledgers import Away, Ledger, Ledgers, Lent, Report, lend
from dragoman.limits.rows import Counters, Row
from dragoman.limits.slices import (
    AWAY,
    ELSEWHERE,
    INSTANCES,
    PRESSED,
    REPORTED,
    SLICE_CELLS,
    SPARE,
    LentLimit,
    Slice,
)
from dragoman.serving.limits_told import amount_text

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
_RAREST_MS: Final = 4000.0
"""Milliseconds between two reports at most: a slice holds for `SLICE_S`."""
_PARTS: Final = 64
"""Reports within a rolling window: so late may what was used be free again."""

_SLOW_S: Final = 1.0
"""Seconds without an answer after which the owner counts as away."""
_HUNG_S: Final = 4.0
"""Seconds after which no answer is waited for any longer."""
_RETRY_LEAST_S, _RETRY_MOST_S = 0.25, 3.0
_QUIET_S: Final = 5.0
"""Seconds after which the owner is asked whether it is there, if there is nothing else to ask."""

_AT_ONCE: Final = 200

_NO_ANSWER: Final = "no answer"
_MACHINE: Final = "this machine"
"""The name of the row that has the machine's own name, and how many instances there are."""


class _Borrowed(Struct):
    """One limit of which slices are borrowed, the name of its row, and the seconds between two
    reports."""

    name: str
    limit: LentLimit
    every_s: float

    @property
    def slice(self) -> Slice:
        return self.limit.slice

    @property
    def row(self) -> Row:
        return self.limit.row


class SliceView(Struct, frozen=True):
    """A limit and this machine's slice of it: what all have used as far as it is known here, what
    this machine may still reserve, and what the others hold. `holds` is what decides: the slice,
    or what is set for the time that the owner is away. `instances` are known, this one included."""

    owner: str
    name: str
    amount: int | str | None
    used: int | str
    here: int | str
    elsewhere: int | str
    instances: int
    holds: Literal["slice", "closed", "share", "open", "counted"]


def _view(one: _Borrowed, now: float) -> SliceView:
    limit, found = one.limit, one.slice

    def told(amount: int) -> int | str:
        return amount_text(limit.kind, max(0, amount))

    here = min(limit.amount, limit.amount - found.used(now)) - limit.row.cells[RESERVED]
    return SliceView(
        owner=limit.owner,
        name=limit.name,
        amount=told(limit.amount) if limit.is_known else None,
        used=told(limit.used(now)),
        here=told(here),
        elsewhere=told(found.cells[ELSEWHERE]),
        instances=found.cells[INSTANCES],
        holds=found.decided_by(),
    )


class _Told(Struct):
    """What was reported of a limit, and what came of it."""

    borrowed: _Borrowed
    report: Report
    held: bool
    seed: Cells
    lent: Lent | None = None
    cells: Cells | None = None


class LimitSlices:
    """The slices of one worker. `on_lent` is called when something was lent. `exchanges` and
    `failures` count those with the owner, and those that failed."""

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers
        self._borrowed: dict[str, _Borrowed] = {}
        self._by_row: dict[Row, _Borrowed] = {}
        self._active: set[str] = set()
        self._look_at_all = 0.0
        self._wanted: dict[str, list[int]] = {}
        self._waiting: Counter[str] = Counter()
        self._counters: Counters | None = None
        self._machine: Cells = memoryview(bytes(8 * SLICE_CELLS)).cast("q")
        self._instance = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-limits")
        self._asked = asyncio.Event()
        self._is_back = asyncio.Event()
        self._answered: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._retry_s = _RETRY_LEAST_S
        self._heard = time.monotonic()
        self.away_since: float | None = None
        self.exchanges = 0
        self.failures = 0
        self.on_lent: Callable[[], object] = lambda: None

    async def close(self) -> None:
        """Give back what this machine holds and does not use."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            if self.away_since is None and self._counters is not None:
                self._waiting.clear()
                self._wanted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_SLOW_S):
                        await self._exchange(self._busy(), gives_back=True)
        self._thread.submit(self._ledgers.close)
        self._thread.shutdown(wait=False)

    def bound(
        self,
        counters: Counters,
        limit: Limit,
        owner: str,
        row: Row,
        name: str,
        is_team: bool = False,
    ) -> LentLimit:
        """A limit that counts in slices; `name` is that of its row."""
        if self._counters is None:
            self._counters = counters
            self._machine = counters.row(_MACHINE, SLICE_CELLS).cells
            self._instance = _identity(counters, self._machine)
            self._task = asyncio.create_task(self._run())
        window = window_of(limit)
        found = LentLimit(
            limit,
            owner,
            row,
            self.row_of_slice(counters, name).cells,
            counters.row(f"{name}\nown", cells_of(window)).cells,
            is_team=is_team,
        )
        every = _SLOTS_S if window is None else _MOST_S
        if isinstance(window, Rolling):
            every = min(_MOST_S, max(_LEAST_S, window.seconds / _PARTS))
        # As the database can write it.
        name = name.encode(errors="backslashreplace").decode().replace("\0", "\\0")
        one = _Borrowed(name, found, every)
        self._borrowed[name] = self._by_row[row] = one
        if self.away_since is not None:
            counters.lock()
            try:
                one.slice.note_away(self._machine[INSTANCES])
            finally:
                counters.unlock()
        return found

    def row_of_slice(self, counters: Counters, name: str) -> Row:
        """Where this machine's slice is of the limit whose row has this name."""
        return counters.row(f"{name}\nslice", SLICE_CELLS)

    async def borrow(
        self,
        limits: Sequence[BoundLimit],
        amounts: Sequence[int],
        refusal: Refusal,
        attempt: Callable[[], Reservation | Refusal],
    ) -> Reservation | Refusal:
        """Ask for what is missing, and try again; the last refusal if it cannot be had."""
        found: Reservation | Refusal = refusal
        give_up = time.monotonic() + _MOST_WAIT_S
        if self.away_since is not None and self._is_heard_by_another(limits):
            self._note_back()
        while self.away_since is None and isinstance(found, Refusal):
            lacking = self._lacking(limits, amounts)
            if lacking is None:
                return found
            if not lacking:
                return attempt()
            for name, amount in lacking:
                self._wanted.setdefault(name, []).append(amount)
            if not await self.answer():
                # Another worker may ask for all, and it is not said whether it is answered.
                self.note_silence()
                return attempt()
            found = attempt()
            if isinstance(found, Refusal):
                if time.monotonic() >= give_up or self._lacking(limits, amounts) is None:
                    break
                await asyncio.sleep(_ASK_AGAIN_S)
        return found

    def views(self) -> list[SliceView]:
        """The limits that this worker has asked about, and this machine's slices of them."""
        counters, now = self._counters, time.time()
        if counters is None:
            return []
        counters.lock()
        try:
            return [_view(one, now) for one in self._borrowed.values()]
        finally:
            counters.unlock()

    @contextmanager
    def waiting(self, row: Row) -> Iterator[None]:
        """One request more waits for its turn at a limit of requests at one time, inside."""
        name = self._by_row[row].name
        self._waiting[name] += 1
        self._asked.set()
        try:
            yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]

    def _lacking(
        self, limits: Sequence[BoundLimit], amounts: Sequence[int]
    ) -> list[tuple[str, int]] | None:
        """What is missing of which limits; None if it is known not to be there."""
        assert self._counters is not None
        now, lacking = time.time(), []
        self._counters.lock()
        try:
            for limit, amount in zip(limits, amounts, strict=True):
                one = self._by_row.get(limit.row)
                left = limit.amount - limit.counter.used(now) - limit.row.cells[RESERVED]
                if one is None or not limit.enforced or amount <= left:
                    continue
                known = one.slice.cells
                fresh_s = _SAME_SLOTS_S if limit.window is None else _SAME_ANSWER_S
                is_fresh = abs(now * 1000 - known[REPORTED]) < fresh_s * 1000
                there = one.slice.may_be_had(now) + known[SPARE] >= amount
                if amount > limit.amount or (is_fresh and not there):
                    return None
                # Another worker may have found the owner away: then there is nobody to ask.
                if not known[AWAY]:
                    lacking.append((one.name, amount))
        finally:
            self._counters.unlock()
        return lacking

    def _is_heard_by_another(self, limits: Sequence[BoundLimit]) -> bool:
        """Whether another worker was lent something of these limits since this one found the owner
        away: what it was not lent then is there to be asked for."""
        known = [self._by_row[limit.row] for limit in limits if limit.row in self._by_row]
        return any(not one.slice.cells[AWAY] for one in known)

    def may_be_lent(self, limit: LentLimit) -> bool:
        """Whether this machine has nothing left of a limit, and the owner may have."""
        return self.away_since is None and bool(self._lacking((limit,), (1,)))

    def want(self, limit: LentLimit) -> None:
        """Have the next exchange ask for one more of a limit. It begins at once."""
        self._wanted.setdefault(self._by_row[limit.row].name, [1])
        self._asked.set()

    async def answer(self) -> bool:
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
            away = self.away_since is not None  # then nobody waits for an answer
            seconds = self._retry_s * random.uniform(0.5, 1.0) if away else _LEAST_S
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await (self._is_back if away else self._asked).wait()
            self._asked.clear()
            answered, self._answered = self._answered, None
            try:
                await self._exchange(self._due())
            except Exception:
                _log.exception("limits could not be shared with other machines")
                await asyncio.sleep(_RETRY_LEAST_S)
            finally:
                if answered is not None and not answered.done():
                    answered.set_result(None)

    def _busy(self) -> list[_Borrowed]:
        """What there is something to report of. Only who asked for a limit looks at it each time;
        at all others now and then, since a worker that asked may be gone."""
        now = time.monotonic()
        if now >= self._look_at_all:
            self._look_at_all = now + _MOST_S
            self._active |= self._borrowed.keys()
        busy = [one for name in self._active if not (one := self._borrowed[name]).slice.is_idle()]
        self._active = {one.name for one in busy}
        return busy

    def _due(self) -> list[_Borrowed]:
        """What is to be reported now."""
        now = time.time() * 1000
        asked = self._wanted.keys() | self._waiting.keys()
        busy = self._busy()
        rarer = 1000 * max(1.0, len(busy) / _OFTEN)
        return [self._borrowed[name] for name in asked] + [
            one
            for one in busy
            if one.name not in asked
            and (
                one.slice.is_overdrawn()
                or abs(now - one.slice.cells[REPORTED]) >= min(one.every_s * rarer, _RAREST_MS)
            )
        ]

    async def _exchange(self, due: list[_Borrowed], *, gives_back: bool = False) -> None:
        if not due and self.away_since is None and time.monotonic() < self._heard + _QUIET_S:
            return
        counters = self._counters
        assert counters is not None
        # Another worker asks: it may be gone by the next look, and then tells nobody.
        while not counters.try_exchange():  # noqa: ASYNC110
            await asyncio.sleep(0.003)
        try:
            for start in range(0, max(1, len(due)), _AT_ONCE):
                await self._exchange_some(counters, due[start : start + _AT_ONCE], gives_back)
        finally:
            counters.end_exchange()
        self.on_lent()

    async def _exchange_some(
        self, counters: Counters, due: Sequence[_Borrowed], gives_back: bool
    ) -> None:
        self._active |= {one.name for one in due}
        told = self._reports(counters, due, gives_back)
        began, owners = time.monotonic(), 0.0

        def decide(ledgers: Mapping[str, Ledger], now: float) -> None:
            nonlocal owners
            owners = now
            for name, one in told.items():
                ledger = ledgers[name]
                one.lent = lend(ledger, one.report, one.borrowed.slice.window, now, one.seed)
                one.cells = memoryview(ledger.cells).cast("q")

        loop = asyncio.get_running_loop()
        slow = loop.call_later(_SLOW_S, self._note_away, _NO_ANSWER)
        hung = loop.call_later(_HUNG_S, self._ledgers.abort)
        try:
            await loop.run_in_executor(
                self._thread, lambda: self._ledgers.exchange(sorted(told), decide)
            )
        except Away as error:
            self._note_away(str(error))
            self._retry_s = min(2 * self._retry_s, _RETRY_MOST_S)
            return
        finally:
            slow.cancel()
            hung.cancel()
        self._note_back()
        self._heard = time.monotonic()
        self.exchanges += 1
        counters.lock()
        try:
            now = time.time()
            for one in told.values():
                if one.lent is not None and one.cells is not None:
                    one.borrowed.slice.take(one.lent, one.cells, began, one.held, owners, now)
                    self._machine[INSTANCES] = one.lent.instances
        finally:
            counters.unlock()

    def _reports(
        self, counters: Counters, due: Iterable[_Borrowed], gives_back: bool
    ) -> dict[str, _Told]:
        told: dict[str, _Told] = {}
        now = time.time()
        counters.lock()
        try:
            for one in due:
                wanted = self._wanted.pop(one.name, [])
                waiting = self._waiting.get(one.name, 0)
                total = sum(wanted) + waiting
                least = 1 if waiting else min(wanted, default=0)
                if gives_back:
                    one.slice.cells[PRESSED] = 1
                report, held = one.slice.report(self._instance, now, total, least)
                seed = memoryview(bytes(one.row.cells)).cast("q")
                told[one.name] = _Told(one, report, held, seed)
        finally:
            counters.unlock()
        return told

    def note_silence(self) -> None:
        """The database did not answer in time: it counts as away until it does."""
        if self.away_since is None and self._counters is not None:
            self._note_away(_NO_ANSWER)

    def _note_away(self, reason: str) -> None:
        if self.away_since is None:
            self.away_since = time.time()
            self._is_back.clear()
            self.failures += 1
            _log.error("limits go on with what this machine was lent: %s", reason)
        counters = self._counters
        assert counters is not None
        counters.lock()
        try:
            for one in self._borrowed.values():
                one.slice.note_away(self._machine[INSTANCES])
        finally:
            counters.unlock()

    def _note_back(self) -> None:
        if self.away_since is not None:
            _log.warning("limits are shared again, after %.1f s", time.time() - self.away_since)
        self.away_since, self._retry_s = None, _RETRY_LEAST_S
        self._is_back.set()


def _identity(counters: Counters, cells: Cells) -> str:
    """The name of this machine, the same in all of its workers, and new if its counters are."""
    counters.lock()
    try:
        if not cells[0]:
            cells[0] = secrets.randbits(62) | 1
        return f"{cells[0]:x}"
    finally:
        counters.unlock()
