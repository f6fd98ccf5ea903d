"""Work on a large body beside the event loop, so that other requests need not wait for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_LARGE = 512 * 1024
"""Bytes of a body from which on it is worked on beside the loop."""

_MIXED = 32 * 1024
_OBJECTS = 500
"""A body that is not small may be large in what it holds: an object costs ten microseconds, however
short it is."""

_STRIDES = (61, 67)
"""Every so many bytes one is looked at, for counting in all would cost a tenth of what the work
costs. Both are primes: objects that neither meets are at least 4,087 bytes apart, so they are few;
those that only one of them meets count half.
"""

_SWITCH_S = 0.001
"""Seconds for which the thread keeps the loop from running, at most: those of Python's own five are
noticed."""

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="beside")
"""One: several would not be faster, and keep the loop from running for longer."""


def is_large(body: bytes) -> bool:
    """Whether reading `body` as JSON, or translating it, keeps others waiting: such work is to be
    done `beside` the loop."""
    size = len(body)
    return size > _MIXED and (size > _LARGE or _objects(body) > _OBJECTS)


def _objects(body: bytes) -> int:
    """About how many objects JSON text holds."""
    return sum([body[::stride].count(b"{") * stride for stride in _STRIDES]) // len(_STRIDES)


async def beside(work: Callable[[], T]) -> T:
    """What `work` returns, done in a thread. Who is cancelled meanwhile does not wait for it."""
    sys.setswitchinterval(_SWITCH_S)
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
