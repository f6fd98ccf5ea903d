"""Workers of one machine, which ask one owner for what they are lent."""

from __future__ import annotations

import asyncio
import time

import pytest

from dragoman.config.limits import Limit
from dragoman.limits.admission import Refusal, Reservation, admit
from dragoman.limits.counters import cells_of
from dragoman.serving import limit_slices
from dragoman.serving.limit_slices import LimitSlices
from dragoman.storage.shared_limits import PrivateLimits
from tests.gateway.test_account_slots import Owner


def test_a_worker_asks_again_once_another_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner was away for both; one finds it back while the other does not look yet."""
    limit = Limit(kind="concurrent", amount=100, when_away="share")

    async def run() -> None:
        owner, counters = Owner(), PrivateLimits()
        row = counters.row("limit", cells_of(None))
        soon = LimitSlices(owner)
        monkeypatch.setattr(limit_slices, "_RETRY_LEAST_S", 600.0)
        late = LimitSlices(owner)
        bound = [one.bound(counters, limit, "k", row, "limit") for one in (soon, late)]
        owner.is_away = True
        soon.note_silence()
        late.note_silence()

        def attempt() -> Reservation | Refusal:
            return admit(bound[1:], [1], time.time())

        try:
            await asyncio.sleep(0)  # Both wait until they look again.
            owner.is_away = False
            back = asyncio.Event()
            soon.on_lent = back.set
            async with asyncio.timeout(10):
                await back.wait()
            refusal = attempt()
            assert isinstance(refusal, Refusal)
            assert isinstance(await late.borrow(bound[1:], [1], refusal, attempt), Reservation)
        finally:
            await soon.close()
            await late.close()

    asyncio.run(run())
