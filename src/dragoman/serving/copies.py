"""Upstream calls that an observer sees: for copies of bodies, and for the workbench."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from dragoman.canonical.masking import Mask
from dragoman.edge.record import Record
from dragoman.serving.context import RequestContext
from dragoman.upstream.client import Caller, UpstreamClient
from dragoman.upstream.request import UpstreamRequest
from dragoman.upstream.response import UpstreamResponse

_MAX_EVENT_BYTES = 1024 * 1024
"""Bytes of an event that are waited for; a larger one is passed on in pieces."""

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")


class UpstreamObserver(Protocol):
    """Sees the upstream calls of one request."""

    def on_request(self, mask: Mask, body: bytes) -> None:
        """An attempt is made with this body; `mask` hides the secrets of its account."""

    def on_answer(self, record: Record, status: int) -> None:
        """An upstream begins to answer it. `record` is that of the request."""

    def on_answer_data(self, data: bytes) -> None:
        """The upstream's answer goes on: a whole body, or an event of a stream."""


class ObservedClient(UpstreamClient):
    """Sends over the connections of another client. It has none of its own, and is never
    started."""

    def __init__(self, client: UpstreamClient, observer: UpstreamObserver) -> None:
        super().__init__()
        self._client = client
        self._observer = observer

    async def send(
        self,
        request: UpstreamRequest,
        silent_s: float = 0.0,
        on_silent: Callable[[], bool] | None = None,
        caller: Caller | None = None,
    ) -> UpstreamResponse:
        """Send a request; the observer sees it if it is an attempt."""
        if not isinstance(caller, RequestContext):
            return await self._client.send(request, silent_s, on_silent, caller)
        self._observer.on_request(caller.call.mask, request.body)
        answer = await self._client.send(request, silent_s, on_silent, caller)
        self._observer.on_answer(caller.record, answer.status)
        return _ObservedResponse(answer, self._observer)


class _ObservedResponse(UpstreamResponse):
    """The answer of another client, which is passed on event by event."""

    __slots__ = ("_answer", "_events", "_observer", "_rest")

    def __init__(self, answer: UpstreamResponse, observer: UpstreamObserver) -> None:
        super().__init__(answer._incoming)
        self._answer = answer  # its connection lasts as long as it
        self._observer = observer
        self._events: deque[bytes] = deque()
        self._rest = b""

    async def read(self, limit: int, reserve: Callable[[int], None] = lambda size: None) -> bytes:
        """The whole body, in one piece."""
        body = await self._answer.read(limit, reserve)
        self._observer.on_answer_data(body)
        return body

    def __anext__(self) -> Awaitable[bytes]:
        """The next event, or piece of one."""
        return self._next()

    async def _next(self) -> bytes:
        while not self._events:
            try:
                self._split(await anext(self._answer))
            except StopAsyncIteration:
                if not self._rest:
                    raise
                self._events.append(self._rest)
                self._rest = b""
        event = self._events.popleft()
        self._observer.on_answer_data(event)
        return event

    def _split(self, chunk: bytes) -> None:
        data, start = self._rest + chunk, 0
        for end in _BLANK_LINE.finditer(data):
            self._events.append(data[start : end.end()])
            start = end.end()
        self._rest = data[start:]
        if len(self._rest) > _MAX_EVENT_BYTES:
            self._events.append(self._rest)
            self._rest = b""

    async def pipe(self, sink: Callable[[bytes], bool], *, in_bulk: bool = False) -> bool:
        """Give the body to `sink`, event by event."""
        async for event in self:
            if not sink(event):
                return True
        return False
