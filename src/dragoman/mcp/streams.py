"""The streams of notifications that clients have open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dragoman.canonical.errors import FaultKind
from dragoman.edge.errors import refusal
from dragoman.upstream.response import UpstreamResponse

MOST = 64
"""Streams that one client may have open at one worker."""
_POLL_S = 0.5


class Streams:
    """The open streams of one worker. They last until somebody ends them, so they are closed once
    `is_draining` returns True: clients open them anew, elsewhere."""

    def __init__(self, is_draining: Callable[[], bool]) -> None:
        self._is_draining = is_draining
        self._clients: Counter[str] = Counter()
        self._answers: set[UpstreamResponse] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def room_for(self, client: str) -> Iterator[None]:
        """Room for one more stream of a client.

        Raises:
            DragomanError: RATE_LIMITED: it has too many.
        """
        if self._clients[client] >= MOST:
            message = f"This client has {MOST} streams of MCP servers open. Close some of them."
            raise refusal(FaultKind.RATE_LIMITED, message)
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    @contextmanager
    def opened(self, answer: UpstreamResponse) -> Iterator[None]:
        """Close the answer of a server when the gateway drains."""
        self._answers.add(answer)
        if self._timer is None:
            self._watch()
        try:
            yield
        finally:
            self._answers.discard(answer)

    def was_drained(self, answer: UpstreamResponse) -> bool:
        """Whether an answer that broke off was closed here."""
        return answer in self._answers and self._is_draining()

    def _watch(self) -> None:
        self._timer = None
        if self._is_draining():
            for answer in list(self._answers):
                answer.close()
        elif self._answers:
            self._timer = asyncio.get_running_loop().call_later(_POLL_S, self._watch)
