"""Time series below `/admin`."""

from __future__ import annotations

import asyncio
import math
import time

from dragoman.admin.calls import AdminRoute, Call, Reply, bad, number, only, times
from dragoman.observability.metrics.series import MOST_POINTS, series
from dragoman.storage.series import KEPT_S, SLOT_S, STEPS, SeriesFile

_HOUR_S = 3600


class SeriesRoutes:
    """What serves `/admin/series`."""

    def __init__(self, file: SeriesFile) -> None:
        self._file = file

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [AdminRoute("series", {"GET": self._series})]

    async def _series(self, call: Call) -> Reply:
        query = call.query
        only(query, "from", "to", "step", "upstream")
        now = time.time()
        if "from" not in query:
            query = {**query, "from": str(now - _HOUR_S)}
        since, until = times(query, "from", "to")
        until = min(until, now)
        if since > until:
            bad("It must not be later than `to`.", "from")
        least = least_step(since, until, now)
        step = number(query, "step", least, 10**8)
        if step % least or (until - since) / step > MOST_POINTS:
            bad(f"Expected a multiple of {least} seconds, and at most {MOST_POINTS} steps.", "step")
        upstream = query.get("upstream", "")
        return 200, await asyncio.to_thread(series, self._file, since, until, step, upstream, now)


def least_step(since: float, until: float, now: float) -> int:
    """The shortest step in which a time can be told: what is kept of its beginning, and no more
    steps than are told."""
    kept = next((step for step in STEPS if since >= now - KEPT_S[step] - SLOT_S), STEPS[-1])
    return kept * max(1, math.ceil((until - since) / kept / MOST_POINTS))
