"""Counters are compared with rows of usage: what cannot be is set right, and told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dragoman.config.limits import Limit
from dragoman.edge.auth import Caller
from dragoman.keys.records import UsedInHour
from dragoman.limits.admission import Reservation
from dragoman.limits.bound_limits import BoundLimit
from dragoman.serving.limit_counters import LimitCounters
from dragoman.storage.shared_limits import PrivateLimits

HOUR = 3600


def limit(kind: str, amount: int | str, window: str, **fields: Any) -> Limit:
    return Limit(kind=kind, amount=amount, window=window, **fields)  # type: ignore[arg-type]


def row(
    hours_ago: int, tokens: int, model: str = "m", requests: int = 1, upstream: str = "u"
) -> UsedInHour:
    hour = int(time.time()) // HOUR * HOUR - hours_ago * HOUR
    return UsedInHour(hour, model, upstream, requests, tokens, 0, 0, 0, 0, tokens * 10**9)


ago = partial(partial, row)
"""A row that is made when it is asked for: tests are collected in another hour than they run in."""


class Rows:
    """Rows of usage by owner, and what was asked of them."""

    def __init__(self, rows: Sequence[UsedInHour]) -> None:
        self.rows = list(rows)
        self.asked: list[tuple[str, bool]] = []

    async def __call__(self, name: str, since: float, /, *, is_team: bool) -> list[UsedInHour]:
        self.asked.append((name, is_team))
        return [one for one in self.rows if one.hour >= since]


async def bound(
    one: Limit, rows: Rows, *, is_team: bool = False
) -> tuple[LimitCounters, BoundLimit]:
    """A limit whose counter is made from these rows."""
    counters = LimitCounters(PrivateLimits, rows)
    counters.history.subscriptions = {"sub"}
    fields: dict[str, Any] = {"team": "t", "team_limits": (one,)} if is_team else {"limits": (one,)}
    found = await counters.bind(Caller("k", **fields))
    return counters, found.all[0]


ROLLING = limit("tokens", 1000, "5h")
TOTAL = limit("tokens", 1000, "total")
RESET = limit("tokens", 1000, "total", since=datetime.now(UTC) - timedelta(hours=3))
SOME = limit("tokens", 1000, "total", models=["gpt-*"])
COST = limit("cost", "10", "total")
BILLED = limit("cost", "10", "total", subscriptions="ignore")
SHARE = Limit(kind="cost", share="50%", upstream="sub", window="5h")
REQUESTS = limit("requests", 1000, "5h")


@pytest.mark.parametrize(
    ("one", "rows", "counted", "right"),
    [
        # Of the hour in which a rolling window begins any part may lie in it.
        (ROLLING, [ago(1, 30), ago(5, 50)], 30, 30),
        (ROLLING, [ago(1, 30), ago(5, 50)], 80, 80),
        (ROLLING, [ago(1, 30), ago(5, 50)], 81, 80),
        (ROLLING, [ago(1, 30), ago(5, 50)], 10, 30),
        (ROLLING, [ago(9, 70)], 5, 0),
        (limit("tokens", 1000, "30m"), [ago(0, 30), ago(9, 99)], 131, 30),
        (TOTAL, [ago(1, 30), ago(5, 50)], 79, 80),
        # What was priced anew may cost less.
        (TOTAL, [ago(1, 30)], 80, 30),
        # Rows are added up by the day, and do not tell any more what came after a reset.
        (RESET, [ago(1, 30), ago(9, 99)], 80, 80),
        (RESET, [ago(1, 30), ago(9, 99)], 20, 30),
        # Whoever asks by another name counts for a limit of some models, too.
        (SOME, [ago(1, 30, "gpt-5"), ago(1, 50, "mine")], 30, 30),
        (SOME, [ago(1, 30, "gpt-5"), ago(1, 50, "mine")], 80, 80),
        (SOME, [ago(1, 30, "gpt-5"), ago(1, 50, "mine")], 20, 30),
        (COST, [ago(1, 30)], 29 * 10**9, 30 * 10**9),
        (COST, [ago(1, 30), ago(1, 50, upstream="sub")], 29 * 10**9, 80 * 10**9),
        (BILLED, [ago(1, 30), ago(1, 50, upstream="sub")], 29 * 10**9, 30 * 10**9),
        # Of what went elsewhere nothing counts.
        (SHARE, [ago(1, 30), ago(1, 50, upstream="sub")], 60 * 10**9, 50 * 10**9),
        # A request may have begun before the window did.
        (REQUESTS, [ago(1, 30, requests=3), ago(4, 30, requests=5)], 2, 3),
        (REQUESTS, [ago(1, 30, requests=3), ago(4, 30, requests=5)], 4, 4),
        (REQUESTS, [ago(1, 30, requests=3), ago(4, 30, requests=5)], 9, 8),
        (limit("requests", 1000, "total"), [ago(1, 30, requests=3)], 2, 3),
    ],
)
@pytest.mark.parametrize("is_team", [False, True])
async def test_what_rows_cannot_tell_is_set_right(
    one: Limit, rows: list[Callable[[], UsedInHour]], counted: int, right: int, is_team: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    told = Rows([])
    counters, found = await bound(one, told, is_team=is_team)
    found.counter.add(time.time(), counted)
    told.rows += [made() for made in rows]  # of the hour in which they are asked for
    assert await counters.audit.compare(counters.shared)
    assert found.counter.used(time.time()) == right
    wrong = abs(counted - right)
    assert counters.audit.drift == wrong / found.amount
    levels = [line.levelno for line in caplog.records]
    alarming = logging.ERROR if wrong > found.amount / 100 else logging.WARNING
    assert levels == ([alarming] if wrong else [])
    assert await counters.audit.compare(counters.shared)
    assert counters.audit.drift == 0
    assert set(told.asked) == {("t" if is_team else "k", is_team)}
    await counters.close()


async def test_a_limit_that_is_there_again_knows_what_was_used_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While it is not there, it counts nothing, and is not said to be wrong."""
    rows = Rows([row(0, 30)])
    counters = LimitCounters(PrivateLimits, rows)
    caller = Caller("k", limits=(TOTAL,))
    assert (await counters.bind(caller)).all[0].used(time.time()) == 30
    # It is removed, as one is whose use is reset: that is counted anew, apart.
    caller = Caller("k", limits=())
    await counters.bind(caller)
    rows.rows.append(row(0, 50))
    rows.asked.clear()
    assert await counters.audit.compare(counters.shared)
    assert (rows.asked, counters.audit.drift) == ([], 0)
    caller = Caller("k", limits=(TOTAL,))
    (again,) = (await counters.bind(caller)).all
    deadline = time.monotonic() + 10
    while again.used(time.time()) != 80:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert (counters.audit.drift, caplog.records) == (0, [])
    await counters.close()


async def test_what_is_in_no_row_yet_is_left_alone() -> None:
    """Even while more is used all the time, what is wrong is found, at the second look."""
    rows = Rows([])
    counters, found = await bound(limit("tokens", 10_000, "total"), rows)

    def use(tokens: int) -> None:
        reserved = counters.reservations.admit([found], [tokens], time.time())
        assert isinstance(reserved, Reservation)
        counters.reservations.settle(reserved, [tokens], time.time())
        counters.reservations.publish([found])

    use(100)
    assert await counters.audit.compare(counters.shared)
    assert found.counter.used(time.time()) == 100
    # Written, and this process has not noted it yet: not wrong.
    taken = counters.reservations.take_unwritten()
    rows.rows.append(row(0, 100))
    assert not await counters.audit.compare(counters.shared)
    use(7)
    counters.reservations.note_written(taken)
    assert await counters.audit.compare(counters.shared)
    assert found.counter.used(time.time()) == 107
    # Lost from the counter: right after two looks, though there is something under way.
    found.counter.take_back_latest(50)
    assert not await counters.audit.compare(counters.shared)
    use(1)
    assert await counters.audit.compare(counters.shared)
    assert found.counter.used(time.time()) == 108
    await asyncio.sleep(0)
    await counters.close()


async def test_a_worker_that_was_lost_is_reason_to_compare_whoever_saw_it() -> None:
    class Losing(PrivateLimits):
        lost = 0

        @property
        def losses(self) -> int:
            return self.lost

    shared = Losing()
    counters = LimitCounters(lambda: shared, Rows([row(0, 500)]))
    (limit,) = (await counters.bind(Caller("k", limits=(TOTAL,)))).all
    limit.counter.take_back_latest(100)
    assert limit.used(time.time()) == 400
    shared.lost = 1
    deadline = time.monotonic() + 10
    while limit.used(time.time()) != 500:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await counters.close()


async def test_what_others_have_left_is_given_back_while_counters_are_compared() -> None:
    """That may take long, of many limits or with a store that is busy."""

    class Watched(PrivateLimits):
        lost = 0
        looks = 0

        @property
        def losses(self) -> int:
            return self.lost

        def reclaim_lost(self) -> int:
            self.looks += 1
            return 0

    class Busy(Rows):
        async def __call__(self, name: str, since: float, /, *, is_team: bool) -> list[UsedInHour]:
            found = await super().__call__(name, since, is_team=is_team)
            if len(self.asked) > 1:
                await asyncio.Event().wait()
            return found

    shared, rows = Watched(), Busy([row(0, 500)])
    counters = LimitCounters(lambda: shared, rows)
    found = await counters.bind(Caller("k", limits=(TOTAL,)))
    shared.lost = 1
    deadline = time.monotonic() + 20
    while len(rows.asked) < 2 or shared.looks < 5:
        assert time.monotonic() < deadline
        if len(rows.asked) < 2:
            shared.looks = 0
        await asyncio.sleep(0.05)
    assert found.all
    await counters.close()
