"""Closes a slot of the time series every ten seconds, from the counts of all workers."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from itertools import groupby, pairwise
from typing import get_args

from msgspec import Struct

from dragoman.edge.record import AtFault
from dragoman.observability.metrics.counts import LATENCIES, Counts, Outcomes
from dragoman.prices.rates import dollars
from dragoman.storage.series import SLOT_S, SeriesFile, Slot, Slots

_log = logging.getLogger("dragoman.gateway")

OUTCOMES = ("answered", "client", "limited", "failed", "left")
"""As in `dragoman.observability.metrics.outcomes.outcome_of`."""

MOST_POINTS = 400
_PERCENTS = (50, 95, 99)


class SeriesKeeper:
    """Writes slots, in the first worker. `counts` are those of all workers, `number` that of the
    configuration that is served."""

    def __init__(
        self, file: SeriesFile, counts: Callable[[], Awaitable[Counts]], number: Callable[[], int]
    ) -> None:
        self.file = file
        self._counts = counts
        self._number = number
        self._task: asyncio.Task[None] | None = None
        self._is_logged = False

    def start(self) -> None:
        """Begin, in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End. What was counted since the last slot is in none."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        before, number = slots_of(await self._counts()), self._number()
        while True:
            now = time.time()
            at = int(now) // SLOT_S * SLOT_S
            await asyncio.sleep(at + SLOT_S - now)
            after = slots_of(await self._counts())
            try:
                await asyncio.to_thread(self.file.write, at, _difference(before, after))
                if self._number() != number:
                    number = self._number()
                    await asyncio.to_thread(self.file.mark, time.time(), "reload")
            except (OSError, sqlite3.Error) as error:
                if not self._is_logged:
                    _log.warning("the time series cannot be written: %s", type(error).__name__)
                self._is_logged = True
            before = after


def slots_of(counts: Counts) -> Slots:
    """The counts since the beginning, by upstream."""
    found: Slots = {}
    for upstream, one in counts.outcomes.items():
        found[upstream] = Slot(
            list(one.requests),
            list(one.duration),
            list(one.first),
            list(one.tokens),
            one.cost,
            one.unpriced,
        )
    for key, count in counts.errors.items():
        upstream, _, kind = key.partition(" ")
        if upstream in found:
            found[upstream].errors[kind] = count
    return found


def _difference(before: Slots, after: Slots) -> Slots:
    found: Slots = {}
    for name, now in after.items():
        was = before.get(name) or _nothing()
        slot = Slot(
            _less(now.requests, was.requests),
            _less(now.duration, was.duration),
            _less(now.first, was.first),
            _less(now.tokens, was.tokens),
            max(0, now.cost - was.cost),
            max(0, now.unpriced - was.unpriced),
            {
                kind: count - was.errors.get(kind, 0)
                for kind, count in now.errors.items()
                if count > was.errors.get(kind, 0)
            },
        )
        if any(slot.requests) or any(slot.tokens):
            found[name] = slot
    return found


def _nothing() -> Slot:
    empty = Outcomes()
    return Slot(empty.requests, empty.duration, empty.first, empty.tokens)


def _less(now: list[int], was: list[int]) -> list[int]:
    # Counts of a worker that died without a trace are gone from the sum.
    return [max(0, one - other) for one, other in zip(now, was, strict=True)]


class _Point(Struct):
    """What is shown of one step: `Slot`, with percentiles in place of buckets."""

    requests: list[int]
    tokens: list[int]
    first_s: list[float | None]
    duration_s: list[float | None]
    cost: int
    unpriced: int


class Percentiles(Struct):
    """Seconds, None where there was no request."""

    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


def series(
    file: SeriesFile, since: float, until: float, step: int, upstream: str, now: float
) -> dict[str, object]:
    """What was counted between two times, in steps of so many seconds: lists of equal length, with
    None where nothing was kept, such as while the gateway did not run."""
    begin = int(since) // step * step
    number = max(1, -int(-(until - begin) // step))
    points: list[_Point | None] = [None] * number
    errors: dict[str, dict[str, int]] = {one: {} for one in get_args(AtFault) if one}
    # A step at a time: an hour of buckets is some megabytes, and a page asks every few seconds.
    for place, several in groupby(
        file.read(begin, until, now), lambda slot: (slot[0] - begin) // step
    ):
        total = _nothing()
        for _, slots in several:
            for name, slot in slots.items():
                if not upstream or name == upstream:
                    total.add(slot)
        if 0 <= place < number:
            points[place] = _point(total)
            for key, count in total.errors.items():
                at_fault, _, kind = key.partition(" ")
                if at_fault in errors:
                    errors[at_fault][kind] = errors[at_fault].get(kind, 0) + count
    return {
        "from": begin,
        "step_s": step,
        "requests": {
            name: [None if one is None else one.requests[at] for one in points]
            for at, name in enumerate(OUTCOMES)
        },
        "first_token_s": _percentiles([None if one is None else one.first_s for one in points]),
        "duration_s": _percentiles([None if one is None else one.duration_s for one in points]),
        "tokens": {
            "cached": [None if one is None else one.tokens[1] for one in points],
            "input": [None if one is None else one.tokens[0] - one.tokens[1] for one in points],
            "output": [None if one is None else one.tokens[3] for one in points],
        },
        "cost_usd": [None if one is None else dollars(one.cost) for one in points],
        "unpriced": [None if one is None else one.unpriced for one in points],
        "errors": errors,
        "marks": [{"at": at, "text": text} for at, text in file.marks(since, until)],
    }


def _point(total: Slot) -> _Point:
    return _Point(
        total.requests,
        total.tokens,
        [percentile(total.first, percent) for percent in _PERCENTS],
        [percentile(total.duration, percent) for percent in _PERCENTS],
        total.cost,
        total.unpriced,
    )


def _percentiles(points: list[list[float | None] | None]) -> Percentiles:
    return Percentiles(
        *([None if one is None else one[at] for one in points] for at in range(len(_PERCENTS)))
    )


def percentile(buckets: list[int], percent: float) -> float | None:
    """The value below which so many of a hundred are, interpolated within its bucket; of the last,
    which has no end, its beginning. None if there are none."""
    total = sum(buckets)
    if not total:
        return None
    wanted = total * percent / 100
    below = 0
    for count, (low, high) in zip(buckets, pairwise((0.0, *LATENCIES)), strict=False):
        if below + count >= wanted and count:
            return round(low + (high - low) * (wanted - below) / count, 4)
        below += count
    return LATENCIES[-1]
