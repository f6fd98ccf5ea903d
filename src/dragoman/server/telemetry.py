"""Telemetry of agents (OTLP over HTTP): taken from whoever may call, and passed on as it is."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct

from dragoman.canonical.errors import FaultKind
from dragoman.config import Telemetry
from dragoman.edge.auth import Caller
from dragoman.edge.errors import refusal
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.observability.metrics.outcomes import TELEMETRY as PATHS
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError
from dragoman.upstream.request import Timeouts, UpstreamRequest

__all__ = ["PATHS", "TelemetryEndpoint", "TelemetryForwarder"]

_log = logging.getLogger("dragoman.gateway")

MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one export."""
MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all exports that wait in a worker; further ones are dropped."""
_OVERHEAD_BYTES = 1024
"""Bytes that an export takes beside its body and its headers."""
_AT_ONCE = 4
_TIMEOUT_S = 10.0
_LAST_S = 2.0
"""Seconds in which waiting exports are sent when the gateway stops."""
_ANSWER_BYTES = 64 * 1024
_PASSED = (b"content-type", b"content-encoding")
_PROTOBUF = b"application/x-protobuf"

Result = Literal["sent", "failed", "dropped"]


class Export(Struct, frozen=True):
    """What an agent sent, and where it goes."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, about."""
        return len(self.body) + _OVERHEAD_BYTES + sum(len(value) for _, value in self.headers)


class TelemetryForwarder:
    """Sends exports to collectors, a few at once, each one time. `count` is called with the result
    of each."""

    def __init__(self, client: UpstreamClient, count: Callable[[Result], None]) -> None:
        self._client = client
        self._count = count
        self._waiting: deque[Export] = deque()
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_failing = False

    def offer(self, export: Export) -> None:
        """Queue an export; it is dropped if too much waits."""
        if self._bytes + export.size > MOST_WAITING_BYTES:
            self._count("dropped")
            return
        self._bytes += export.size
        self._waiting.append(export)
        if len(self._tasks) < _AT_ONCE:
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Send what waits, within a short time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_S)
        for task in self._tasks:
            task.cancel()
        while self._waiting:
            self._waiting.popleft()
            self._count("dropped")

    async def _run(self) -> None:
        while self._waiting:
            export = self._waiting.popleft()
            problem = "dropped"
            try:
                problem = await self._send(export)
            finally:
                self._bytes -= export.size
                self._count("failed" if problem else "sent")
            if problem and not self._is_failing:
                _log.warning("the collector takes no telemetry of agents: %s", problem)
            self._is_failing = bool(problem)

    async def _send(self, export: Export) -> str:
        """Send an export. Returns why it was not accepted, empty if it was."""
        request = UpstreamRequest(
            method="POST",
            url=export.url,
            authorisation=export.headers,  # clients choose them
            body=export.body,
            timeouts=Timeouts(total=_TIMEOUT_S),
        )
        try:
            async with await self._client.send(request) as answer:
                with suppress(CallError):
                    await answer.read(_ANSWER_BYTES)
                return "" if 200 <= answer.status < 300 else f"status {answer.status}"
        except CallError as error:
            return error.cause
        except (ValueError, RuntimeError) as error:
            # Their text may quote the URL, which may contain a token.
            return type(error).__name__


class TelemetryEndpoint:
    """The handler of `PATHS` in one configuration."""

    def __init__(self, settings: Telemetry, forwarder: TelemetryForwarder) -> None:
        secret = settings.forward_to
        self._base = None if secret is None else secret.reveal().rstrip("/")
        self._forwarder = forwarder

    async def serve(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """Take an export. It is answered before it is passed on, whatever becomes of it.

        Raises:
            DragomanError: it is too large, or of another content type.
            ClientGone: the client left.
        """
        media = incoming.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media not in (b"application/json", _PROTOBUF):
            message = "Telemetry must be application/json or application/x-protobuf."
            raise refusal(FaultKind.UNSUPPORTED_MEDIA_TYPE, message)
        body = await incoming.body(MOST_BYTES, as_received=True)
        if self._base is not None:
            headers = tuple(
                (name.decode(), incoming.headers[name].decode("latin-1"))
                for name in _PASSED
                if name in incoming.headers
            )
            self._forwarder.offer(Export(self._base + incoming.path, headers, body))
        if media == _PROTOBUF:
            incoming.reply(200, b"", [(b"content-type", _PROTOBUF)])
        else:
            incoming.reply(200, b"{}")
