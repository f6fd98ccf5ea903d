"""Token counts in one convention: totals include cached and reasoning tokens."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True):
    """What one answer cost, in tokens.

    `input` includes `cached` (read from a prompt cache) and `cache_write` (written to one);
    `output` includes `reasoning`. `searches` counts the vendor's own web searches, only on routes
    that map them. None: the upstream did not report it.
    """

    input: int = 0
    output: int = 0
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    searches: int | None = None

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output
