"""How much is tried: all of it where CI is set, a part of it on every run.

DRAGOMAN_FUZZ_REQUESTS, DRAGOMAN_FUZZ_ANSWERS and DRAGOMAN_FUZZ_STREAMS set other numbers.
"""

from __future__ import annotations

import os


def _count(name: str, whole: int, part: int) -> int:
    return int(os.environ.get(name) or (whole if os.environ.get("CI") else part))


REQUESTS = _count("DRAGOMAN_FUZZ_REQUESTS", 20_000, 10_000)
"""Damaged requests, each translated to both other protocols."""

ANSWERS = _count("DRAGOMAN_FUZZ_ANSWERS", 6_000, 5_000)
"""Damaged answers, and as many damaged streams, each translated to every protocol."""

STREAMS = _count("DRAGOMAN_FUZZ_STREAMS", 3_000, 2_000)
"""Real streams with damaged indexes, ids, names, terminators and order, each for both other
protocols."""
