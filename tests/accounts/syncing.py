"""Waiting for what one worker stores and another reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SYNC_S = 0.05


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.005)
