"""The HTTP server of one process: the gateway's settings, its start and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence

import uvloop

from dragoman.config import Config
from dragoman.config import Server as Settings
from dragoman.config.checks import is_loopback
from dragoman.gateway.app import Gateway
from dragoman.gateway.edge.record import log_line
from dragoman.gateway.edge.refusals import refuse
from dragoman.gateway.operation.scrape import Place
from dragoman.gateway.processes.reload import Reload
from dragoman.http import Limits
from dragoman.http import Server as HTTPServer
from dragoman.http.addresses import is_here
from dragoman.http.server import Listener


def build_app(
    config: Config,
    log: Callable[[bytes], None] | None = log_line,
    place: Place | None = None,
) -> Gateway:
    """The gateway as an application, for a server or for tests.

    Raises:
        ValueError: without client keys it listens on loopback only, so that nobody on the network
            can spend the accounts.
    """
    check_reach(config, config.server.host)
    return Gateway(config, log, place)


def check_reach(config: Config, host: str) -> None:
    """Make sure that only who may can reach `host`, an address to listen on.

    Raises:
        ValueError: it would let anyone in from other machines.
    """
    if not config.clients and not is_loopback(host):
        raise ValueError(f"without client keys the gateway listens on loopback only, not on {host}")


class Server:
    """Serves an application on sockets, from `serve` to `stop`.

    `on_started` is called when requests can come. `reloads` are what SIGHUP reads anew.

    Signals are handled by the process, which calls `on_signal`.
    """

    def __init__(self, app: Gateway, on_started: Callable[[], object] = lambda: None) -> None:
        self.app = app
        self.http = HTTPServer(
            app,
            refuse=refuse,
            limits=limits_of(app.config.server),
            exempt=lambda address: is_here(address) or app.proxies.believes(address),
        )
        self.started = False
        self.on_started = on_started
        self.reloads: Sequence[Reload] = ()
        self._sockets: Sequence[socket.socket] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """As `serve`, in a loop of its own."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.serve(sockets))

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until `stop` is called, and requests in flight are over."""
        loop = self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        await self.app.start()
        try:
            loop.call_soon(self._begin)
            await self.http.serve(sockets)
            self._draining = loop.create_task(
                self.http.drain(self.app.config.server.shutdown_grace_s)
            )
            await self._draining
        finally:
            await self.app.close()

    async def listen(self, sock: socket.socket) -> Listener:
        """Take connections from a further socket, until what is returned is closed."""
        return self.http.listen_also(sock)

    def stop(self) -> None:
        """Take no more connections, and end when requests in flight have, or their time is over.
        May be called from any thread."""
        self.app.draining = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    def on_signal(self, number: int) -> None:
        """A signal to stop came. A second interrupt does not wait for requests in flight."""
        if self._draining is not None and number == signal.SIGINT:
            self.http.hurry()
        self.stop()

    def _begin(self) -> None:
        self.started = True
        self.on_started()

    def _close(self) -> None:
        self.http.close_listening()
        for sock in self._sockets:
            sock.close()


def limits_of(settings: Settings) -> Limits:
    """What clients may take, as the settings have it."""
    return Limits(
        head_bytes=settings.head_limit_bytes,
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        rate=settings.least_rate_bytes,
        idle_s=settings.idle_timeout_s,
        send_s=settings.send_timeout_s,
        send_bytes=settings.send_buffer_bytes,
        linger_s=settings.linger_s,
        linger_bytes=settings.linger_bytes,
        connections=settings.max_connections,
        address_connections=settings.max_connections_per_address,
        reserved_files=settings.files_kept_back,
        memory_bytes=settings.memory_limit_bytes,
    )
