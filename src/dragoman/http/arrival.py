"""The progress of a request body: whether it comes fast enough, and how much of it is framing."""

from __future__ import annotations

from math import inf

from dragoman.http.limits import PROGRESS_S, Limits

_FRAMING = 4
"""Bytes of sizes, extensions and line ends that a byte of a body in chunks may take, over all."""


class Arrival:
    """Watches the body of one request at a time; `received` is always the size of what came so
    far."""

    __slots__ = ("_framed", "_limits", "_mark", "_seen", "_silent", "_until", "is_dense")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._until = inf
        self._mark = 0
        """Bytes received at the last check."""
        self.begin()

    def begin(self) -> None:
        """The body of a request begins."""
        self._framed = 0
        """Bytes of a body in chunks, with their framing."""
        self._silent = 0
        """The last of these, which contained nothing of the body itself."""
        self._seen = 0
        self.is_dense = False
        """Whether the last read was of chunks that are mostly body."""

    def is_framed_well(self, size: int, received: int) -> bool:
        """Whether a chunked body, of which a read brought `size` bytes, is not mostly chunk sizes,
        extensions or trailers. The parser buffers a trailer until it is complete."""
        self.is_dense = size < 2 * (received - self._seen)
        self._silent = 0 if received != self._seen else self._silent + size
        self._seen = received
        self._framed += size
        most = self._limits.head_bytes
        return self._silent <= most and self._framed <= most + _FRAMING * received

    def start_waiting(self, received: int, now: float) -> float:
        """Wait for the body from `now` on. Returns when to check its progress."""
        self._until = now + (self._limits.body_s or inf)
        self._mark = received
        return min(self._until, now + PROGRESS_S)

    def next_check(self, received: int, now: float) -> float | None:
        """When to check its progress again; None if it comes too slowly, or its time is over."""
        if now >= self._until or received - self._mark < self._limits.rate * PROGRESS_S:
            return None
        self._mark = received
        return min(self._until, now + PROGRESS_S)
