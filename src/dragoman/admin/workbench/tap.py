"""What an upstream answers and what the client is sent for it, recorded in order."""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct

from dragoman.canonical.masking import Mask
from dragoman.edge.record import Record

MOST_FRAMES = 2000
MOST_BYTES = 4 * 1024 * 1024
"""Frames, and bytes of them, that are sent; what follows is only counted."""


class Frame(Struct, frozen=True, tag_field="event"):
    """Something of a watched request, so many milliseconds after it began."""

    at_ms: float


class Attempt(Frame, frozen=True, tag="attempt"):
    """An upstream has begun to answer, with one of its accounts."""

    number: int
    upstream: str
    account: str
    status: int
    body: str
    """What it was sent."""


class FromUpstream(Frame, frozen=True, tag="upstream"):
    """An event of the upstream, or a piece of an answer that has none. The first is number 1."""

    number: int
    bytes: int
    raw: str


class ToClient(Frame, frozen=True, tag="client"):
    """What the client is sent. `caused_by` is the number of the upstream's event that was read
    last, 0 for none."""

    caused_by: int
    bytes: int
    raw: str


class Begun(Frame, frozen=True, tag="begun"):
    """The client's answer begins."""

    status: int
    headers: dict[str, str]
    caused_by: int


AnyFrame = Attempt | FromUpstream | ToClient | Begun


class Tap:
    """The record of one request: an observer of its answer and of its upstream calls. `queue` has
    the frames in order, and None at the end; `left_out` is how many were only counted."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[AnyFrame | None] = asyncio.Queue()
        self.left_out = 0
        self._began = time.perf_counter()
        self._frames = self._bytes = self._number = 0
        self._body = b""
        """What the upstream was sent last."""
        self._mask = Mask()

    def milliseconds(self) -> float:
        """Since the beginning."""
        return round((time.perf_counter() - self._began) * 1000, 2)

    def on_request(self, mask: Mask, body: bytes) -> None:
        """An attempt is made with this body."""
        self._mask, self._body = mask, body

    def on_answer(self, record: Record, status: int) -> None:
        """An upstream begins to answer it."""
        attempt = Attempt(
            self.milliseconds(),
            record.attempts,
            record.upstream,
            record.account,
            status,
            _text(self._mask.secrets_in(self._body)),
        )
        self._add(attempt, len(self._body))

    def on_answer_data(self, data: bytes) -> None:
        """An event of the upstream, or a whole body."""
        data = self._mask.secrets_in(data)
        self._number += 1
        frame = FromUpstream(self.milliseconds(), self._number, len(data), _text(data))
        self._add(frame, len(data))

    def on_start(self, status: int, lines: bytes) -> None:
        """The client's answer begins, with these header lines."""
        pairs = (line.partition(b":") for line in lines.split(b"\r\n") if line)
        headers = {name.decode("latin-1"): _text(value.strip()) for name, _, value in pairs}
        self._add(Begun(self.milliseconds(), status, headers, self._number), len(lines))

    def on_data(self, data: bytes) -> None:
        """The client is sent this."""
        if data:
            frame = ToClient(self.milliseconds(), self._number, len(data), _text(data))
            self._add(frame, len(data))

    def _add(self, frame: AnyFrame, size: int) -> None:
        self._frames += 1
        self._bytes += size
        if self._frames > MOST_FRAMES or self._bytes > MOST_BYTES:
            self.left_out += 1
        else:
            self.queue.put_nowait(frame)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
