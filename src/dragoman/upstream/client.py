"""The one way to call an upstream."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from copy import copy
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from msgspec.structs import replace

from dragoman.http.clock import Clock
from dragoman.http.turns import Turns
from dragoman.upstream.connection import MISDIRECTED, READ_BUFFER, Connection
from dragoman.upstream.connection_pool import ConnectionPool
from dragoman.upstream.dial import dial
from dragoman.upstream.errors import (
    ConnectFailed,
    ConnectionReset,
    ConnectTimeout,
    ProxyFailed,
    TotalTimeout,
)
from dragoman.upstream.incoming import IncomingResponse
from dragoman.upstream.request import (
    Prepared,
    SocketUse,
    Timeouts,
    TlsSettings,
    UpstreamRequest,
    prepared,
    render_head,
)
from dragoman.upstream.response import UpstreamResponse

if TYPE_CHECKING:
    from dragoman.upstream.client_socket import ClientSocket
    from dragoman.upstream.relayed_socket import RelayedSocket
    from dragoman.upstream.socket_pool import SocketPool
    from dragoman.upstream.sockets import SocketConnection

C = TypeVar("C", "Connection", "SocketConnection", "RelayedSocket")


class Caller(Protocol):
    """The caller of `send`. `is_called` is set when an upstream may have received the request."""

    is_called: bool


class UpstreamClient:
    """Sends requests over pooled HTTP/1.1 connections, and over WebSocket connections where a
    request allows it.

    Belongs to one event loop. Connections are pooled by scheme, host, port and proxy. Redirects
    are not followed, cookies are not stored, and no environment variable is read except by the TLS
    library (`SSL_CERT_FILE`, `SSL_CERT_DIR`).

        async with UpstreamClient() as client:
            response = await client.send(UpstreamRequest(method="GET", url=url))
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        max_idle: int = 512,
        idle_expiry: float = 30.0,
        max_age: float = 300.0,
    ) -> None:
        """
        Args:
            tls: context for proxies and upstreams without settings of their own; None trusts
                the system's.
            max_idle: idle connections stored per origin and proxy.
            idle_expiry: seconds after which an idle connection is closed.
            max_age: seconds after which a connection carries no further request.
        """
        self._tls = {} if tls is None else {TlsSettings(): tls}
        self._max_idle = max_idle
        self._idle_expiry = idle_expiry
        self._max_age = max_age
        self._connections: set[Connection | ClientSocket] = set()
        self._drained: asyncio.Event | None = None
        self._started = False

    async def start(self) -> None:
        """Make ready for `send`; must be awaited in the loop that the client is for."""
        self._loop = asyncio.get_running_loop()
        self.clock = Clock(self._loop)
        self._pool = ConnectionPool(
            self._loop,
            max_idle=self._max_idle,
            expiry=self._idle_expiry,
            max_age=self._max_age,
        )
        self._sockets: SocketPool | None = None
        self._tls_lock = asyncio.Lock()
        self._buffer = memoryview(bytearray(READ_BUFFER))
        self._turns = Turns(self._loop)
        self._drained = None
        self._started = True

    async def aclose(self) -> None:
        """Close every connection; running calls end in `ConnectionReset` or `Truncated`."""
        if not self._started:
            return
        self._started = False
        self._pool.clear()
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            # Sockets are closed in the loop's next turns; none must be left after this.
            self._drained = asyncio.Event()
            await self._drained.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(
        self,
        request: UpstreamRequest,
        silent_s: float = 0.0,
        on_silent: Callable[[], bool] | None = None,
        caller: Caller | None = None,
    ) -> UpstreamResponse:
        """Send a request and wait for the head of its answer.

        `silent_s` seconds after it was sent completely (0: never) `on_silent` is called if there is
        no head yet: True ends the call. If the upstream read nothing of the rest of a request for
        as long, the call ends in any case: nobody can have read all of it. `caller.is_called` is
        set when there is a connection for the request.

        A pooled connection may have been closed by the upstream just as the request went out. If
        not a single byte came back, or 421, the request is sent once more on a fresh connection
        (RFC 9112, 9.3.1; RFC 9110, 15.5.20), unless it may be sent only `once`. Cancelling closes
        the connection at once.

        Raises:
            CallError: no answer; the class is the reason.
            ValueError: method, URL, proxy or headers cannot be used.
            RuntimeError: the client is not started, or closed.
        """
        if not self._started:
            raise RuntimeError("the upstream client is not started, or closed")
        call, timeouts = request.ready or prepared(request), request.timeouts
        total_at = self._loop.time() + timeouts.total if timeouts.total else inf
        if request.socket is not None:
            answer = await self._send_by_socket(
                request.socket, request, total_at, silent_s, on_silent, caller
            )
            if answer is not None:
                return UpstreamResponse(answer)
        head = render_head(request, call.lines)
        if request.source is not None:
            incoming = await self._upload(request, call, head, total_at, caller)
            return UpstreamResponse(incoming, forwarded=call.forwarded)

        pooled = None if request.once else self._pool.take(call.key)
        while True:
            connection = pooled or await self._open(call, timeouts, total_at)
            if caller is not None:
                caller.is_called = True
            incoming = connection.expect(timeouts, total_at, silent_s, on_silent)
            connection.begin(head, request.body)
            try:
                error = await incoming.head
            except asyncio.CancelledError:
                incoming.close()
                raise
            if error is None and (pooled is None or incoming.status != MISDIRECTED):
                return UpstreamResponse(incoming, forwarded=call.forwarded)
            is_stale = isinstance(error, ConnectionReset) and not incoming.received
            if error is not None and (pooled is None or not is_stale):
                raise copy(error)
            incoming.close()
            pooled = None

    async def _upload(
        self,
        request: UpstreamRequest,
        call: Prepared,
        head: bytes,
        total_at: float,
        caller: Caller | None,
    ) -> IncomingResponse:
        """Send a request whose body comes from a source. No idle connection is taken: it may be
        closed just then, and the body cannot be sent twice."""
        from dragoman.upstream.uploads import Upload

        assert request.source is not None
        timeouts = request.timeouts
        connection = await self._open(call, timeouts, total_at)
        # Its limit begins when all was sent; before, nobody can have received the request.
        sending = replace(timeouts, first_byte=0.0)
        incoming = connection.expect(sending, total_at)

        def sent() -> None:
            incoming.on_sent(timeouts.first_byte)
            if caller is not None:
                caller.is_called = True

        connection.begin(head, b"")
        await Upload(connection, incoming, request.source, timeouts.idle, sent).answered()
        if caller is not None and 200 <= incoming.status < 300:
            caller.is_called = True
        return incoming

    async def _send_by_socket(
        self,
        use: SocketUse,
        request: UpstreamRequest,
        total_at: float,
        silent_s: float,
        on_silent: Callable[[], bool] | None,
        caller: Caller | None,
    ) -> IncomingResponse | None:
        # Imported with the first call of its kind: WebSocket takes 4 MB.
        from dragoman.upstream.socket_pool import SocketPool, handshake_of

        if self._sockets is None:
            self._sockets = SocketPool(self.clock, self._lost)
        handshake = prepared(handshake_of(request))
        limits = replace(request.timeouts, idle=request.timeouts.socket_idle)

        def begin(connection: SocketConnection) -> IncomingResponse:
            if caller is not None:
                caller.is_called = True
            return connection.expect(limits, total_at, silent_s, on_silent)

        return await self._sockets.send(
            use,
            request,
            handshake,
            lambda make: self._dial(handshake, request.timeouts, total_at, make),
            begin,
        )

    async def open_socket(self, request: UpstreamRequest) -> RelayedSocket:
        """Open a WebSocket connection whose messages are passed on. `request` is its handshake.

        Raises:
            CallError: there is no connection.
            HandshakeFailed: the upstream refused the handshake, or did not answer it in time.
        """
        from dragoman.upstream.client_socket import HANDSHAKE_S
        from dragoman.upstream.relayed_socket import RelayedSocket

        call, limits = prepared(request), request.timeouts
        if call.forwarded:
            raise ProxyFailed("a proxy that forwards requests carries no WebSocket to http:// URLs")
        socket = await self._dial(call, limits, inf, lambda: RelayedSocket(self.clock, self._lost))
        await socket.open(render_head(request, call.lines)[:-2], limits.connect or HANDSHAKE_S)
        return socket

    async def _dial(
        self, call: Prepared, limits: Timeouts, total_at: float, make: Callable[[], C]
    ) -> C:
        deadline = min(total_at, self._loop.time() + (limits.connect or inf))
        try:
            at = None if deadline == inf else deadline
            connection = await dial(call, self._context, make, at)
        except TimeoutError:
            if deadline == total_at:
                raise TotalTimeout(f"the call took longer than {limits.total:g} s") from None
            raise ConnectTimeout(f"no connection within {limits.connect:g} s") from None
        if not connection.is_open:
            raise ConnectFailed("the upstream accepted the connection and closed it")
        if not self._started:
            connection.abort()
            raise ConnectFailed("the client was closed")
        self._connections.add(connection)
        return connection

    async def _open(self, call: Prepared, limits: Timeouts, total_at: float) -> Connection:
        parts = self._loop, self._buffer, self._turns, call.key, self._pool.put, self._lost
        return await self._dial(call, limits, total_at, partial(Connection, *parts))

    def _lost(self, connection: Connection | ClientSocket) -> None:
        self._connections.discard(connection)
        if isinstance(connection, Connection):
            self._pool.forget(connection)
        if self._drained is not None and not self._connections:
            self._drained.set()

    async def _context(self, tls: TlsSettings) -> ssl.SSLContext:
        if tls not in self._tls:
            async with self._tls_lock:
                if tls not in self._tls:
                    # Reading the authorities takes tens of milliseconds: not in the loop.
                    self._tls[tls] = await asyncio.to_thread(tls_context, tls)
        return self._tls[tls]


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """The context for TLS with an upstream.

    Raises:
        OSError: a file is not what it should be, as PEM.
    """
    context = ssl.create_default_context(cadata=tls.authorities or None)
    if tls.certificate:
        # Never asks for a password, at whatever terminal there is.
        context.load_cert_chain(tls.certificate, password="")
    context.set_alpn_protocols(["http/1.1"])
    return context
