"""How much is tried.

DRAGOMAN_FUZZ_REQUESTS, DRAGOMAN_FUZZ_ANSWERS and DRAGOMAN_FUZZ_STREAMS set other numbers.
"""

from __future__ import annotations

import os


def _count(name: str, usual: int) -> int:
    return int(os.environ.get(name) or usual)


REQUESTS = _count("DRAGOMAN_FUZZ_REQUESTS", 6_000)
"""Damaged requests, each translated to all other protocols."""

ANSWERS = _count("DRAGOMAN_FUZZ_ANSWERS", 2_000)
"""Damaged answers, and as many damaged streams, each translated to every protocol."""

STREAMS = _count("DRAGOMAN_FUZZ_STREAMS", 1_500)
"""Real streams with damaged indexes, ids, names, terminators and order, each for two other
protocols."""
