"""When a worker that ended is started again."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S = 0.1
MOST_S = 10.0
HEALTHY_S = 30.0
"""Seconds after which a worker that ends is not held to have failed again."""


@dataclass(slots=True)
class BackOff:
    """How long one worker's place stays empty: not at all after a long life, then doubling from
    `FIRST_S` to `MOST_S` seconds."""

    failures: int = 0
    """Lives in a row that were shorter than `HEALTHY_S`."""

    def ended(self, lived_s: float) -> float:
        """A worker ended after `lived_s` seconds. Returns the seconds to wait for the next."""
        if lived_s >= HEALTHY_S:
            self.failures = 0
            return 0.0
        self.failures += 1
        return float(min(MOST_S, FIRST_S * 2 ** min(self.failures - 1, 30)))
