"""An upstream's answer, told to somebody else as it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman.edge.kept import KeptBodies
from dragoman.serving.context import RequestContext
from dragoman.upstream.client import Caller, UpstreamClient
from dragoman.upstream.request import UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

Note = Callable[[bytes], object]


class CopiedResponse(UpstreamResponse):
    """The answer of another client; `note` is called with what is read of it."""

    __slots__ = ("_answer", "_note")

    def __init__(self, answer: UpstreamResponse, note: Note) -> None:
        super().__init__(answer._incoming, answer.headers, answer._inflater)
        self._answer = answer  # while it is held, its connection is
        self._note = note

    async def read(self, limit: int, hold: Callable[[int], None] = lambda size: None) -> bytes:
        """The whole body, in one piece."""
        body = await self._answer.read(limit, hold)
        self._note(body)
        return body

    def __anext__(self) -> Awaitable[bytes]:
        """The next piece."""
        return self._next()

    async def _next(self) -> bytes:
        piece = await anext(self._answer)
        self._note(piece)
        return piece

    async def pipe(self, sink: Callable[[bytes], bool]) -> bool:
        """Give the body to `sink`, piece by piece."""
        async for piece in self:
            if not sink(piece):
                return True
        return False


class CopyingClient(UpstreamClient):
    """Sends over the connections of another client, and keeps what is said. It has none of its own,
    and is never started."""

    def __init__(self, client: UpstreamClient, kept: KeptBodies) -> None:
        super().__init__()
        self._over = client
        self._kept = kept

    async def send(
        self,
        request: UpstreamRequest,
        silent_s: float = 0.0,
        on_silent: Callable[[], bool] | None = None,
        caller: Caller | None = None,
    ) -> UpstreamResponse:
        """Send a request of an attempt."""
        kept = self._kept
        kept.begin(caller.call.mask if isinstance(caller, RequestContext) else None)
        kept.add("upstream_request", request.body)
        answer = await self._over.send(request, silent_s, on_silent, caller)
        return CopiedResponse(answer, lambda piece: kept.add("upstream_answer", piece))
