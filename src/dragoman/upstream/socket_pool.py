"""The WebSocket connections of a client, and the calls over them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from copy import copy
from functools import partial

from msgspec.structs import replace

from dragoman.http.clock import Clock
from dragoman.upstream.client_socket import HANDSHAKE_S, HandshakeFailed
from dragoman.upstream.errors import ConnectionReset
from dragoman.upstream.incoming import IncomingResponse
from dragoman.upstream.request import Prepared, SocketCall, SocketUse, UpstreamRequest
from dragoman.upstream.sockets import MessageTooLarge, Restart, SocketConnection

_AGE_S = 55 * 60.0
"""Seconds after which a connection is not used again: services end them after an hour."""
_IDLE_S = 300.0
_MAX_IDLE = 256
_MAX_CONTEXT_BYTES = 64 * 1024 * 1024
"""Bytes of conversations that idle connections may store for comparison."""
_UNSUPPORTED = frozenset({400, 404, 405, 426, 501})
"""Statuses of a service that does not offer WebSocket."""
_UNSUPPORTED_S = 3600.0
_FAILED_S = 300.0
"""How long a failed handshake is remembered per host."""
_MAX_HOSTS = 1024

Dial = Callable[[Callable[[], SocketConnection]], Awaitable[SocketConnection]]
Begin = Callable[[SocketConnection], IncomingResponse]


class SocketPool:
    """Connections by upstream, credentials, proxy and conversation; and the hosts whose handshake
    failed."""

    def __init__(self, clock: Clock, on_lost: Callable[[SocketConnection], None]) -> None:
        """
        Args:
            clock: of the running loop.
            on_lost: called with each connection that is gone.
        """
        self._clock = clock
        self._on_lost = on_lost
        self._idle: OrderedDict[SocketConnection, None] = OrderedDict()
        """The longest unused first."""
        self._failed: dict[Hashable, float] = {}
        """By host, until when no handshake is tried."""

    async def send(
        self,
        use: SocketUse,
        request: UpstreamRequest,
        handshake: Prepared,
        dial: Dial,
        begin: Begin,
    ) -> IncomingResponse | None:
        """Make a call; None if it has to be posted. `begin` makes what takes the answer.

        Raises:
            CallError: no answer.
        """
        call = None if handshake.forwarded else use.call(request.body)
        if call is None or (not use.always and self._has_failed(handshake)):
            return None
        key = (handshake.key, handshake.lines, use.conversation)
        connection, message = self._take(key, call)
        is_reused = connection is not None
        for _ in range(2):
            if connection is None:
                connection = await self._open(key, request, handshake, dial)
            if connection is None:
                return None
            incoming = begin(connection)
            message = message or call.message(None) or b""
            connection.begin(call, message, use.reserve, request.timeouts.idle)
            use.on_begin(call, partial(connection.send_more, incoming))
            try:
                error = await incoming.head
            except asyncio.CancelledError:
                incoming.close()
                raise
            if error is None:
                return incoming
            if isinstance(error, MessageTooLarge):
                return None
            is_stale = isinstance(error, ConnectionReset) and is_reused and not incoming.received
            if not is_stale and not isinstance(error, Restart):
                raise copy(error)
            connection, message, is_reused = None, None, False
        return None

    async def _open(
        self, key: Hashable, request: UpstreamRequest, handshake: Prepared, dial: Dial
    ) -> SocketConnection | None:
        made = partial(SocketConnection, self._clock, key, self._put, self._lose)
        connection = await dial(made)
        try:
            await connection.open(handshake.lines, request.timeouts.connect or HANDSHAKE_S)
        except HandshakeFailed as failure:
            # An account that is refused (401) learns more from POST.
            if failure.status != 401:
                seconds = _UNSUPPORTED_S if failure.status in _UNSUPPORTED else _FAILED_S
                self._failed[handshake.key] = self._clock.loop.time() + seconds
                if len(self._failed) > _MAX_HOSTS:
                    del self._failed[next(iter(self._failed))]
            return None
        return connection if connection.is_open else None

    def _has_failed(self, handshake: Prepared) -> bool:
        return self._failed.get(handshake.key, 0.0) > self._clock.loop.time()

    def _take(
        self, key: Hashable, call: SocketCall
    ) -> tuple[SocketConnection | None, bytes | None]:
        """An idle connection; with the message that continues its context, if one has that."""
        usable = [one for one in reversed(self._idle) if one.key == key and self._is_usable(one)]
        for connection in usable:
            if connection.context is not None:
                message = call.message(connection.context)
                if message is not None:
                    self._remove(connection)
                    return connection, message
        if usable:
            self._remove(usable[0])
        return (usable[0] if usable else None), None

    def _is_usable(self, connection: SocketConnection) -> bool:
        return connection.is_open and self._clock.loop.time() < connection.opened_at + _AGE_S

    def _put(self, connection: SocketConnection) -> None:
        if not self._is_usable(connection):
            connection.abort()
            return
        self._idle[connection] = None
        connection.expiry = self._clock.after(_IDLE_S, connection.abort)
        while len(self._idle) > _MAX_IDLE or (
            len(self._idle) > 1 and sum(map(_context_bytes, self._idle)) > _MAX_CONTEXT_BYTES
        ):
            oldest = next(iter(self._idle))
            self._remove(oldest)
            oldest.abort()

    def _remove(self, connection: SocketConnection) -> None:
        if connection in self._idle:
            del self._idle[connection]
            if connection.expiry is not None:
                connection.expiry.cancel()

    def _lose(self, connection: SocketConnection) -> None:
        self._remove(connection)
        self._on_lost(connection)


def _context_bytes(connection: SocketConnection) -> int:
    return 0 if connection.context is None else connection.context.size


_NOT_SENT = ("accept", "content-type", "idempotency-key", "traceparent")
"""Headers of a single request."""


def handshake_of(request: UpstreamRequest) -> UpstreamRequest:
    """The handshake for a connection, with the credentials of the request."""
    headers = tuple(one for one in request.headers if one[0].lower() not in _NOT_SENT)
    return replace(request, method="GET", headers=headers, body=b"", socket=None, ready=None)
