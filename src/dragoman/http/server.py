"""A server: listening sockets, accepted connections, and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf

from dragoman.http.addresses import counted, is_here
from dragoman.http.connection import Connection
from dragoman.http.context import GRACE_S, Application, Context
from dragoman.http.head import STATUS_LINES
from dragoman.http.limits import Budget, Limits, connections_for, files_to_share
from dragoman.http.problems import Problem, Refuse, refuse_plainly
from dragoman.http.request import Link

_log = logging.getLogger("dragoman.http")

BACKLOG = 2048
_BURST = 4
"""Connections accepted in one turn of the loop: few, so that several processes on one socket get
their share, and requests do not wait."""

_SHORTAGE_S = 0.2
"""Seconds after which accepting is tried again when the system has no files left."""

_LONGEST_S = 3600.0
"""Of the waits that cannot be without a limit."""

_CANCEL_S = 2.0
"""Seconds that cancelled applications have to end their answers."""

_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""TCP keepalive: a client that is gone without closing is noticed after two minutes."""


class Listener:
    """A socket that connections are accepted from, until `close`. It stays the caller's."""

    __slots__ = ("_unlisten", "sock")

    def __init__(self, sock: socket.socket, unlisten: Callable[[Listener], None]) -> None:
        self.sock = sock
        self._unlisten: Callable[[Listener], None] | None = unlisten

    def close(self) -> None:
        """Accept no more from it."""
        unlisten, self._unlisten = self._unlisten, None
        if unlisten is not None:
            unlisten(self)


class Server:
    """Serves one application on any number of listening sockets, in one event loop.

        server = Server(app, limits=Limits())
        await server.serve(sockets)     # until `close_listening` is called
        await server.drain(30.0)        # requests under way are finished, at most so long

    `serve` does not look at signals: whoever runs the process calls `close_listening`, from the
    loop's own thread. The sockets stay the caller's, who closes them: until then the system lets
    clients connect, and nobody answers them.
    """

    def __init__(
        self,
        app: Application,
        *,
        refuse: Refuse = refuse_plainly,
        limits: Limits | None = None,
        budget: Budget | None = None,
        tls: ssl.SSLContext | None = None,
        exempt: Callable[[str], bool] = is_here,
    ) -> None:
        """
        Args:
            app: answers requests.
            refuse: renders the answers to what never becomes a request.
            limits: of the server.
            budget: memory for bodies and answers; None for one of the limits' size.
            tls: the context for TLS, None to speak without.
            exempt: whether an address may have any number of connections.
        """
        self.limits = limits or Limits()
        self.budget = budget or Budget(self.limits.memory_bytes)
        self._app = app
        self._refuse = refuse
        self._tls = tls
        self._exempt = exempt
        self._most = connections_for(self.limits, files_to_share())
        self._connections: set[Connection] = set()
        self._listeners: list[Listener] = []
        self._accepting = False
        self._opening: set[asyncio.Task[None]] = set()
        self._by_address: Counter[str] = Counter()
        self._counted: dict[Connection, str] = {}
        self._closed: asyncio.Event | None = None
        self._empty: asyncio.Event | None = None
        self._until = 0.0
        self._ticker: asyncio.TimerHandle | None = None
        self._context: Context | None = None

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    @property
    def requests(self) -> int:
        """Requests whose application has not returned."""
        return len(self._context.requests) if self._context is not None else 0

    def change(self, limits: Limits, tls: ssl.SSLContext | None) -> None:
        """Use other limits from now on, and another TLS context for new connections."""
        self.limits, self._tls = limits, tls
        self.budget.limit = limits.memory_bytes
        self._most = connections_for(limits, files_to_share())
        context = self._context
        if context is not None:
            context.limits = limits
            if len(self._connections) < self._most:
                self._accept_on(context)

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections and serve them, until `close_listening` is called."""
        self.start()
        for sock in sockets:
            self.listen(sock)
        assert self._closed is not None
        await self._closed.wait()

    def start(self) -> None:
        """Make ready for `listen`, in the running loop."""
        self._context = Context(self._app, self._refuse, self.limits, self.budget, self._forget)
        self._closed = asyncio.Event()
        self._tick()

    def listen(self, sock: socket.socket) -> Listener:
        """Accept connections from a bound socket, until what is returned is closed."""
        context = self._context
        assert context is not None
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            _keep_alive(sock)
        sock.listen(BACKLOG)
        listener = Listener(sock, self._unlisten)
        self._listeners.append(listener)
        if self._accepting:
            context.loop.add_reader(sock, self._accept, sock)
        else:
            self._accept_on(context)
        return listener

    def accept_waiting(self, sock: socket.socket) -> None:
        """Accept all that wait at a listening socket, which is to be closed: who is connected may
        have asked already, and would be reset with it."""
        if self._context is not None and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.setblocking(False)
            self._accept(sock, BACKLOG)

    def close_listening(self) -> None:
        """Accept no more connections; open ones go on. `serve` returns."""
        for listener in list(self._listeners):
            if self._accepting:
                self.accept_waiting(listener.sock)
            listener.close()
        if self._closed is not None:
            self._closed.set()

    def _unlisten(self, listener: Listener) -> None:
        context = self._context
        assert context is not None
        if self._accepting:
            context.loop.remove_reader(listener.sock)
        self._listeners.remove(listener)
        if not self._listeners:
            self._accepting = False

    async def drain(self, grace_s: float) -> None:
        """End every connection with its next answer, and those that are idle once none of them was
        used for a second. After `grace_s` seconds applications are cancelled, and what is left
        shortly after that is aborted. Nothing is left after this."""
        context = self._context
        if context is None:
            return
        self.close_listening()
        context.closing = True
        self._until = context.loop.time() + grace_s
        await self._retire_idle(context)
        if not await self._emptied(lambda: self._until):
            for task in list(context.requests.values()):
                task.cancel()
            for connection in list(self._connections):
                connection.cancel()
            until = context.loop.time() + _CANCEL_S
            await self._emptied(lambda: until)
            for connection in list(self._connections):
                connection.abort()
            await self._emptied(lambda: until + _CANCEL_S)
        if self._ticker is not None:
            self._ticker.cancel()
        for opening in list(self._opening):
            opening.cancel()

    async def _retire_idle(self, context: Context) -> None:
        """End the connections that are idle, once none of them was used for a second: a proxy uses
        one after the other, and a request that is sent as its connection is closed fails."""
        began = context.loop.time()
        idle = self._idle_since(began)
        in_use = True
        while in_use:
            if await self._emptied(lambda: self._until, GRACE_S):
                return
            left = self._idle_since(began)
            in_use = len(left) < len(idle) and context.loop.time() < self._until
            for connection in list(self._connections):
                if connection.waits_since <= began and not (in_use and connection in left):
                    connection.retire()
            idle = left

    def _idle_since(self, began: float) -> set[Connection]:
        """The connections that wait for a request since a loop time."""
        return {
            connection
            for connection in self._connections
            if connection.state in ("idle", "head") and connection.waits_since <= began
        }

    def hurry(self) -> None:
        """End the grace period of a running `drain`."""
        self._until = 0.0
        if self._empty is not None:
            self._empty.set()

    async def _emptied(self, until: Callable[[], float], within_s: float = inf) -> bool:
        """Wait until there is no connection and no request; False at loop time `until`, or after
        `within_s` seconds."""
        context = self._context
        assert context is not None
        latest = context.loop.time() + within_s
        while self._connections or context.requests:
            left = min(until(), latest) - context.loop.time()
            if left <= 0:
                return False
            # The end of an application whose connection is gone is not signalled.
            self._empty = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left if self._connections else min(left, 0.05)):
                    await self._empty.wait()
        return True

    # Connections

    def _accept_on(self, context: Context) -> None:
        if not self._accepting and self._listeners:
            self._accepting = True
            context.closing = False
            for listener in self._listeners:
                context.loop.add_reader(listener.sock, self._accept, listener.sock)

    def _accept_off(self, context: Context) -> None:
        if self._accepting:
            self._accepting = False
            for listener in self._listeners:
                context.loop.remove_reader(listener.sock)

    def _accept(self, sock: socket.socket, most: int = _BURST) -> None:
        context = self._context
        assert context is not None
        for _ in range(most):
            if len(self._connections) >= self._most:
                self._make_room(context)
                return
            try:
                accepted, peer = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError as error:
                _log.warning("no connection can be accepted: %s", error.strerror)
                self._accept_off(context)
                context.loop.call_later(_SHORTAGE_S, self._accept_on, context)
                return
            self._admit(context, accepted, peer[0] if isinstance(peer, tuple) else "")

    def _admit(self, context: Context, sock: socket.socket, address: str) -> None:
        sock.setblocking(False)
        most = self.limits.address_connections
        if most and not self._exempt(address):
            key = counted(address)
            if self._by_address[key] >= most:
                self._turn_away(context, sock)
                return
            self._by_address[key] += 1
            connection = Connection(context, address)
            self._counted[connection] = key
        else:
            connection = Connection(context, address)
        self._connections.add(connection)
        task = context.loop.create_task(self._open(context, sock, connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, context: Context, sock: socket.socket, connection: Connection) -> None:
        tls = self._tls
        limits = self.limits
        timeouts = (
            {}
            if tls is None
            else {
                "ssl_handshake_timeout": min(limits.head_s or inf, _LONGEST_S),
                "ssl_shutdown_timeout": limits.linger_s or 1.0,
            }
        )
        try:
            await context.loop.connect_accepted_socket(
                lambda: connection, sock, ssl=tls, **timeouts
            )
        except (OSError, TimeoutError):
            # The client did not speak TLS, or left.
            sock.close()
            self._forget(connection)

    def _turn_away(self, context: Context, sock: socket.socket) -> None:
        """Tell a client that it has too many connections, as far as that can be had at once."""
        if self._tls is None:
            status, lines, body = self._refuse(Problem.CONNECTIONS, "", {})
            rest = b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
            with contextlib.suppress(OSError):
                sock.send(STATUS_LINES[status] + context.date + lines + rest)
        sock.close()

    def _forget(self, connection: Link) -> None:
        """A connection is gone."""
        context = self._context
        assert context is not None
        if not isinstance(connection, Connection) or connection not in self._connections:
            return
        self._connections.remove(connection)
        key = self._counted.pop(connection, None)
        if key is not None:
            self._by_address[key] -= 1
            if not self._by_address[key]:
                del self._by_address[key]
        if len(self._connections) < self._most:
            self._accept_on(context)
        if self._empty is not None and not self._connections:
            self._empty.set()

    def _make_room(self, context: Context) -> None:
        """There are as many connections as may be, and somebody waits. None is accepted until
        there is room: those that wait longest without a request give way, a few at a time, and
        others are closed with their answer."""
        self._accept_off(context)
        context.closing = True
        before = context.loop.time() - GRACE_S
        waiting = sorted(self._idle_since(before), key=lambda connection: connection.waits_since)
        for connection in waiting[: max(1, self._most // 32)]:
            connection.retire()

    # Time

    def _tick(self) -> None:
        """Check all deadlines. Limits are exact to within a quarter of the shortest, a second at
        most: a timer for each connection would cost more than most of what it guards."""
        context = self._context
        assert context is not None
        now = context.loop.time()
        context.set_date()
        for connection in list(self._connections):
            if connection.deadline <= now:
                connection.on_deadline(now)
            if connection.sending.deadline <= now:
                connection.sending.on_deadline()
        if len(self._connections) >= self._most and not self._accepting and self._listeners:
            self._make_room(context)
        self._ticker = context.loop.call_later(self._period, self._tick)

    @property
    def _period(self) -> float:
        limits = self.limits
        times = (limits.head_s, limits.body_s, limits.idle_s, limits.send_s, limits.linger_s)
        return min([limit / 4 for limit in times if limit] + [1.0])


def _keep_alive(sock: socket.socket) -> None:
    """Those that are accepted inherit it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
