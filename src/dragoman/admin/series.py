"""The operation that shows the time series."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from dragoman.admin.call import Call
from dragoman.observability.metrics.series import MOST_POINTS, series
from dragoman.operations.inputs import InvalidInput, Time
from dragoman.operations.operation import Http, operation, operations_in
from dragoman.operations.usage import span_of
from dragoman.storage.series import SLOT_S, STEPS, STORED_S

_HOUR_S = 3600


class AskSeries(Struct, frozen=True, kw_only=True):
    """Which part of the time series, by default the last hour, in steps of so many seconds."""

    since: Time | None = msgspec.field(default=None, name="from")
    until: Time | None = msgspec.field(default=None, name="to")
    step: Annotated[int, Meta(ge=1, le=10**8)] | None = None
    upstream: str = ""


@operation("series.show", "viewer", Http("GET", "series"))
async def _series(call: Call, asked: AskSeries) -> dict[str, Any]:
    """Show requests, times, tokens and cost as a time series."""
    now = time.time()
    since, until = span_of(replace(asked, since=asked.since or now - _HOUR_S))
    until = min(until, now)
    if since > until:
        raise InvalidInput.of("from", "expected a time that is not later than `to`")
    least = least_step(since, until, now)
    step = asked.step or least
    if step % least or (until - since) / step > MOST_POINTS:
        message = f"expected a multiple of {least} seconds, and at most {MOST_POINTS} steps"
        raise InvalidInput.of("step", message)
    file = call.gateway.observed.series
    return await asyncio.to_thread(series, file, since, until, step, asked.upstream, now)


def least_step(since: float, until: float, now: float) -> int:
    """The shortest step in which a time can be shown: that in which its beginning is stored, and
    not more steps than are shown."""
    stored = next((step for step in STEPS if since >= now - STORED_S[step] - SLOT_S), STEPS[-1])
    return stored * max(1, math.ceil((until - since) / stored / MOST_POINTS))


OPERATIONS = operations_in(globals())
