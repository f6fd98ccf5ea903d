"""What an upstream says and what the client is sent for it, noted beside each other as it happens.

Nothing of a usual request knows of this: one that is watched is served with a client of its own,
which hands on the upstream's answer event by event.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from dragoman.canonical.masking import Mask
from dragoman.http import BodyRefused, Problem
from dragoman.serving.context import RequestContext
from dragoman.serving.copies import CopiedResponse
from dragoman.upstream.client import Caller, UpstreamClient
from dragoman.upstream.request import UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

_LONGEST = 1024 * 1024
"""Bytes of an event that are waited for; of a larger one, pieces are handed on."""

MOST_FRAMES = 2000
MOST_BYTES = 4 * 1024 * 1024
"""Frames, and bytes of them, that are told; what follows is only counted."""


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


Told = Attempt | FromUpstream | ToClient | Begun


class Tap:
    """What is noted of one request. `queue` has it in order, and None at the end; `left_out` is how
    many frames were only counted."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Told | None] = asyncio.Queue()
        self.left_out = 0
        self._began = time.perf_counter()
        self._frames = self._bytes = self._number = 0

    def milliseconds(self) -> float:
        """Since the beginning."""
        return round((time.perf_counter() - self._began) * 1000, 2)

    def attempt(self, context: RequestContext, status: int, body: bytes) -> None:
        """An upstream answers."""
        record, mask = context.record, context.call.mask
        assert mask is not None  # the account that is asked has one
        self._add(
            Attempt(
                self.milliseconds(),
                record.attempts,
                context.target.upstream.name,
                record.account,
                status,
                _text(mask.secrets_in(body)),
            ),
            len(body),
        )

    def upstream(self, data: bytes) -> None:
        """An upstream's event."""
        self._number += 1
        frame = FromUpstream(self.milliseconds(), self._number, len(data), _text(data))
        self._add(frame, len(data))

    def begun(self, status: int, lines: bytes) -> None:
        """The client's answer begins, with the lines of these headers."""
        pairs = (line.partition(b":") for line in lines.split(b"\r\n") if line)
        headers = {name.decode("latin-1"): _text(value.strip()) for name, _, value in pairs}
        self._add(Begun(self.milliseconds(), status, headers, self._number), len(lines))

    def client(self, data: bytes) -> None:
        """The client is sent something."""
        if data:
            frame = ToClient(self.milliseconds(), self._number, len(data), _text(data))
            self._add(frame, len(data))

    def _add(self, frame: Told, size: int) -> None:
        self._frames += 1
        self._bytes += size
        if self._frames > MOST_FRAMES or self._bytes > MOST_BYTES:
            self.left_out += 1
        else:
            self.queue.put_nowait(frame)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class WatchedClient(UpstreamClient):
    """Sends over the connections of another client, and notes what is answered. It has none of its
    own, and is never started."""

    def __init__(self, client: UpstreamClient, tap: Tap) -> None:
        super().__init__()
        self._over = client
        self._tap = tap

    async def send(
        self,
        request: UpstreamRequest,
        silent_s: float = 0.0,
        on_silent: Callable[[], bool] | None = None,
        caller: Caller | None = None,
    ) -> UpstreamResponse:
        """Send a request, and note the answer if it belongs to what is watched."""
        body = request.body
        answer = await self._over.send(request, silent_s, on_silent, caller)
        if not isinstance(caller, RequestContext):
            return answer
        self._tap.attempt(caller, answer.status, body)
        assert caller.call.mask is not None
        return _WatchedResponse(answer, self._tap, caller.call.mask)


class _WatchedResponse(CopiedResponse):
    """An answer that is handed on event by event."""

    __slots__ = ("_ready", "_rest")

    def __init__(self, answer: UpstreamResponse, tap: Tap, mask: Mask) -> None:
        super().__init__(answer, lambda event: tap.upstream(mask.secrets_in(event)))
        self._ready: deque[bytes] = deque()
        self._rest = b""

    async def _next(self) -> bytes:
        while not self._ready:
            try:
                self._split(await anext(self._answer))
            except StopAsyncIteration:
                if not self._rest:
                    raise
                self._ready.append(self._rest)
                self._rest = b""
        event = self._ready.popleft()
        self._note(event)
        return event

    def _split(self, chunk: bytes) -> None:
        """Make the events ready that a chunk completes; the rest waits for its end."""
        *events, self._rest = _events(self._rest + chunk)
        self._ready.extend(events)
        if len(self._rest) > _LONGEST:
            self._ready.append(self._rest)
            self._rest = b""


def _events(data: bytes) -> list[bytes]:
    """Events of a stream with their blank lines, and what follows the last."""
    found, start = [], 0
    for end in _ENDS.finditer(data):
        found.append(data[start : end.end()])
        start = end.end()
    return [*found, data[start:]]


_ENDS = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
"""The blank line that ends an event."""


class WatchedRequest:
    """The request of somebody at the workbench, in the place of one of HTTP: as
    `edge.incoming.Asked`."""

    def __init__(self, path: str, headers: dict[bytes, bytes], body: bytes, tap: Tap) -> None:
        self.method = "POST"
        self.path = path
        self.query = b""
        self.headers = headers
        self.address = ""
        self.gone = False
        self.on_gone: Callable[[], object] | None = None
        self._body = body
        self._tap = tap

    async def body(self, limit: int) -> bytes:
        """The body.

        Raises:
            BodyRefused: it is larger than `limit` bytes.
        """
        body, self._body = self._body, b""
        if len(body) > limit:
            raise BodyRefused(Problem.BODY_TOO_LARGE)
        return body

    def hold(self, size: int) -> bool:
        """Nothing is counted: few are watched at a time."""
        return True

    def leave(self) -> None:
        """Nobody watches any more."""
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()

    def respond(self, status: int, lines: bytes = b"", body: bytes = b"") -> None:
        """Note a whole answer."""
        self._tap.begun(status, lines)
        self._tap.client(body)

    def start(self, status: int, lines: bytes = b"") -> None:
        """Note the beginning of an answer."""
        self._tap.begun(status, lines)

    def put(self, data: bytes) -> bool:
        """Note a piece of it."""
        self._tap.client(data)
        return True

    async def write(self, data: bytes) -> None:
        """Note a piece of it."""
        self._tap.client(data)

    def end(self, data: bytes = b"") -> None:
        """Note the last piece of it."""
        self._tap.client(data)
