"""How a body arrives: whether it comes fast enough, and how much comes that is none of it."""

from __future__ import annotations

from math import inf

from dragoman.http.limits import PROGRESS_S, Limits, seconds

_FRAMING = 4
"""Bytes of sizes, extensions and line ends that a byte of a body in chunks may take, over all."""


class Arrival:
    """Watches the body of one request at a time; `received` is always what came of it so far."""

    __slots__ = ("_framed", "_limits", "_mark", "_seen", "_silent", "_until")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._until = inf
        self._mark = 0
        """What was there when progress was looked at last."""
        self.begin()

    def begin(self) -> None:
        """The body of a request begins."""
        self._framed = 0
        """Bytes of a body in chunks, with their framing."""
        self._silent = 0
        """Of these, the last ones, which brought nothing of the body itself."""
        self._seen = 0

    def is_framed_well(self, size: int, received: int) -> bool:
        """Whether a body in chunks, of which a read has brought `size` bytes, is not mostly sizes,
        extensions or trailers; the parser holds a trailer until it is whole."""
        self._silent = 0 if received != self._seen else self._silent + size
        self._seen = received
        self._framed += size
        most = self._limits.head_bytes
        return self._silent <= most and self._framed <= most + _FRAMING * received

    def watch(self, received: int, now: float) -> float:
        """The body is waited for from `now` on. Returns when to look at its progress."""
        self._until = now + seconds(self._limits.body_s)
        self._mark = received
        return min(self._until, now + PROGRESS_S)

    def next_look(self, received: int, now: float) -> float | None:
        """When to look at its progress again; None if it comes too slowly, or its time is over."""
        if now >= self._until or received - self._mark < self._limits.rate * PROGRESS_S:
            return None
        self._mark = received
        return min(self._until, now + PROGRESS_S)
