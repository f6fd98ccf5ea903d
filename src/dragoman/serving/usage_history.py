"""What rows of usage tell of limits. They are sums of hours, of keys and of teams."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from typing import Final, Protocol

from dragoman.accounts.store import StoreError
from dragoman.config.limits import Limit
from dragoman.config.windows import Rolling, span_of
from dragoman.keys.records import UsedInHour
from dragoman.limits.bound_limits import BoundLimit, Counts, Kind, bound_apart, window_of
from dragoman.limits.counters import PARTS
from dragoman.serving.limit_slices import LimitSlices
from dragoman.serving.past_use import HOUR_S, PastUse, past_use

_log = logging.getLogger("dragoman.limits")

_PATIENCE_S: Final = 1.0
"""Seconds for which a request waits for rows of usage in a database that several machines share: it
has what was used of a limit in another place, too."""


class UsedSince(Protocol):
    """What a key or a team has used since a time (Unix seconds), from rows of usage.

    Raises:
        StoreError: the store cannot be used.
    """

    def __call__(
        self, name: str, since: float, /, *, is_team: bool
    ) -> Awaitable[Sequence[UsedInHour]]: ...


class UsersSince(Protocol):
    """Names of the keys or the teams that have rows of usage since a time (Unix seconds).

    Raises:
        StoreError: the store cannot be used.
    """

    def __call__(self, since: float, /, *, is_team: bool) -> Awaitable[Collection[str]]: ...


class UsageHistory:
    """What keys and teams have used of their limits, as far as rows of usage tell.

    `used_since` reads these; None if nothing is stored. `users_since` tells at once who of many
    has used nothing. `slices` know whether a database that several machines share is away.
    """

    def __init__(
        self,
        used_since: UsedSince | None,
        users_since: UsersSince | None = None,
        slices: LimitSlices | None = None,
    ) -> None:
        self._used_since = used_since
        self._users_since = users_since
        self._slices = slices
        self.subscriptions: Collection[str] = ()
        """Names of upstreams whose accounts are paid by subscription."""

    @property
    def is_kept(self) -> bool:
        """Whether there are rows of usage."""
        return self._used_since is not None

    async def hours(self, limit: BoundLimit, since: float) -> list[tuple[float, int]]:
        """When hours ended, in Unix seconds, and what was used of a limit in each.

        Raises:
            StoreError: the store cannot be used.
            TimeoutError: a database that several machines share does not answer.
        """
        if self._slices is None:
            rows = await self._rows(limit, since)
        else:
            if self._slices.away_since is not None:
                raise TimeoutError
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    rows = await self._rows(limit, since)
            except TimeoutError:
                self._slices.note_silence()
                raise
        return [
            (row.hour + HOUR_S, limit.amount_of(self._counts(row)))
            for row in rows
            if limit.concerns((row.model,), (row.upstream,))
        ]

    async def _rows(self, limit: BoundLimit, since: float) -> Sequence[UsedInHour]:
        assert self._used_since is not None
        return await self._used_since(limit.owner, since, is_team=limit.is_team)

    async def bounds(self, limit: BoundLimit, now: float) -> tuple[int, int]:
        """What was used of a limit within its window, at least and at most. Of the hour in which
        that begins it may have a part; rows count requests when they are over, which may have begun
        before; and have the name of a model that was asked for, which may stand for another.

        Raises:
            StoreError: the store cannot be used.
        """
        assert limit.window is not None
        if isinstance(limit.window, Rolling):
            begin = now - limit.window.seconds
            first = begin - limit.window.seconds / PARTS
        else:
            begin = first = span_of(limit.window, now)[0]
        if limit.limit.since is not None:
            reset = limit.limit.since.timestamp()
            begin, first = max(begin, reset), max(first, reset)
        if limit.kind is Kind.REQUESTS and begin:
            begin += HOUR_S
        least = most = 0
        for row in await self._rows(limit, first - HOUR_S):
            if row.hour + HOUR_S <= first:
                continue
            if limit.limit.upstream not in (None, row.upstream):
                continue
            amount = limit.amount_of(self._counts(row))
            most += amount
            if row.hour >= begin and limit.concerns((row.model,), (row.upstream,)):
                least += amount
        return least, most

    async def past_use(
        self, name: str, limit: Limit, since: float, *, is_team: bool
    ) -> PastUse | None:
        """How a limit that a key or a team of this name need not have compares with what was used
        since a time (Unix seconds). None if rows of usage, which are sums of hours, cannot tell:
        of requests at one time, of a share, and of a window shorter than an hour.

        Raises:
            StoreError: the store cannot be used.
        """
        window = window_of(limit)
        if window is None or limit.share is not None or self._used_since is None:
            return None
        if isinstance(window, Rolling):
            if window.seconds < HOUR_S:
                return None
            begin = since - window.seconds
        else:
            begin = span_of(window, since)[0]
        if limit.since is not None:
            begin = max(begin, limit.since.timestamp())
        bound = bound_apart(limit, name, is_team=is_team)
        used: Counter[int] = Counter()
        for row in await self._used_since(name, begin, is_team=is_team):
            if row.hour >= begin and bound.concerns((row.model,), (row.upstream,)):
                used[row.hour] += bound.amount_of(self._counts(row))
        return past_use(window, limit.units, sorted(used.items()), since)

    async def users(self, since: float, is_team: bool) -> Collection[str] | None:
        """Who has rows of usage since a time: None if nothing tells."""
        if self._users_since is None or (self._slices is not None and self._slices.away_since):
            return None
        try:
            return await self._users_since(since, is_team=is_team)
        except StoreError as error:
            _log.error("what was used of limits is not known, so they begin at 0: %s", error)
            return ()

    def _counts(self, row: UsedInHour) -> Counts:
        """What a row of usage comes to of each kind."""
        fresh = row.input - row.cached
        return (
            row.requests,
            fresh,
            row.output,
            fresh + row.output,
            row.cost,
            0,
            row.input,
            row.input + row.output,
            row.cache_write,
            row.reasoning,
            0 if row.upstream in self.subscriptions else row.cost,
        )


def told_since(limit: BoundLimit, now: float) -> float | None:
    """From when on rows of usage count for a limit; None if they tell nothing of its window."""
    window = limit.window
    if window is None:
        return None
    if isinstance(window, Rolling):
        if window.seconds < HOUR_S:
            return None
        since = now - window.seconds - HOUR_S
    else:
        since = span_of(window, now)[0]
    if limit.limit.since is not None:
        since = max(since, limit.limit.since.timestamp())
    return since
