"""What keys and teams have used of their limits, as far as rows of usage tell. These are sums of
hours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Sequence
from typing import Final, Protocol

from dragoman.accounts.store import StoreError
from dragoman.config.windows import Rolling, span_of
from dragoman.edge.log_format import timestamp
from dragoman.keys.records import UsedInHour
from dragoman.limits.rules import Counts, Rule

_log = logging.getLogger("dragoman.limits")

_PATIENCE_S: Final = 1.0
"""Seconds for which rows of usage are waited for where a database that several machines share has
what was used, too."""

_HOUR_S: Final = 3600

_MANY_ROWS: Final = 500
"""Rows of usage that are added up in the event loop at most."""


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
    """Reads rows of usage. `used_since` and `users_since` are None if nothing is stored. Where
    limits are shared by several machines, nothing is waited for long."""

    def __init__(
        self,
        used_since: UsedSince | None = None,
        users_since: UsersSince | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self._used_since = used_since
        self._users_since = users_since
        self._patience_s = _PATIENCE_S if is_shared else None
        self.subscriptions: Collection[str] = ()
        """Names of upstreams whose accounts are paid by subscription."""

    @property
    def is_stored(self) -> bool:
        """Whether there are rows of usage."""
        return self._used_since is not None

    async def used(self, rule: Rule, now: float) -> tuple[tuple[float, int], ...]:
        """When hours ended, in Unix seconds, and what was used of a limit in each; of a window of
        the calendar the sum, at `now`. Windows shorter than an hour begin empty, and so do those of
        which nothing is known, which is logged."""
        since = stored_since(rule, now)
        if since is None or self._used_since is None:
            return ()
        try:
            async with asyncio.timeout(self._patience_s):
                rows = await self._used_since(rule.owner, since, is_team=rule.is_team)
        except (StoreError, TimeoutError) as error:
            reason = str(error) or "no answer"
            _log.error("what was used of a limit is not known, so it begins at 0: %s", reason)
            return ()
        if len(rows) > _MANY_ROWS:
            return await asyncio.to_thread(self._sums, rule, rows, now)
        return self._sums(rule, rows, now)

    def _sums(
        self, rule: Rule, rows: Sequence[UsedInHour], now: float
    ) -> tuple[tuple[float, int], ...]:
        used: dict[float, int] = {}
        ahead = [row for row in rows if row.hour > now]
        if ahead:
            whose = "team" if rule.is_team else "key"
            _log.warning(
                "usage of the %s %s is of a clock ahead, up to %s: it does not count for limits",
                whose,
                rule.owner,
                timestamp(max(row.hour for row in ahead)),
            )
            rows = [row for row in rows if row.hour <= now]
        for row in rows:
            if rule.concerns((row.model,)):
                at = row.hour + _HOUR_S if isinstance(rule.window, Rolling) else now
                used[at] = used.get(at, 0) + rule.amount_of(self._counts(row))
        return tuple(used.items())

    async def users(self, since: float, *, is_team: bool) -> Collection[str] | None:
        """Who has rows of usage since a time: None if nothing tells."""
        if self._users_since is None:
            return None
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._users_since(since, is_team=is_team)
        except (StoreError, TimeoutError):
            return None

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


def stored_since(rule: Rule, now: float) -> float | None:
    """From when on rows of usage count for a limit; None if they tell nothing of its window."""
    window = rule.window
    if window is None:
        return None
    if isinstance(window, Rolling):
        if window.seconds < _HOUR_S:
            return None
        since = now - window.seconds - _HOUR_S
    else:
        since = span_of(window, now)[0]
    if rule.limit.since is not None:
        since = max(since, rule.limit.since.timestamp())
    return since
