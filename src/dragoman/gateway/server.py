"""The HTTP server of one process, and the application of a configuration that it serves."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn

from dragoman.config import Config
from dragoman.config.checks import is_loopback
from dragoman.gateway.app import Gateway
from dragoman.gateway.edge.protocol import JoiningProtocol
from dragoman.gateway.edge.record import log_line
from dragoman.gateway.operation.scrape import Place
from dragoman.gateway.processes.reload import Reload
from dragoman.gateway.processes.worker import Acceptor

_KEEP_ALIVE_S = 75
"""Seconds for which an idle connection of a client is kept; longer than SDKs keep theirs, so that
it is they who close."""

_LAST_REQUESTS_S = 1.0
"""Seconds for which idle connections are kept when the gateway ends."""


def build_app(
    config: Config,
    log: Callable[[bytes], None] | None = log_line,
    place: Place | None = None,
) -> Gateway:
    """The ASGI application of a configuration. `log` is given the line of each request; `place` is
    this worker's among several.

    Raises:
        ValueError: it would let anyone in from other machines.
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


class Server(uvicorn.Server):
    """uvicorn with this gateway's settings. What is told by signals is told by calls here.

    `on_started` is called when requests can come. `reloads` are what SIGHUP reads anew.
    """

    def __init__(self, app: Gateway, on_started: Callable[[], object] = lambda: None) -> None:
        settings = app.config.server
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http=JoiningProtocol,
                ws="none",
                lifespan="on",
                interface="asgi3",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
            )
        )
        self._gateway = app
        self.on_started = on_started
        self.reloads: Sequence[Reload] = ()
        self.servers = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets=sockets)
        self.on_started()

    async def listen(self, sock: socket.socket) -> Acceptor:
        """Take connections from a further socket, until what is returned is closed."""
        protocol = self.config.http_protocol_class

        def connected() -> asyncio.Protocol:
            return protocol(  # type: ignore[call-arg]  # uvicorn's own way
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        loop = asyncio.get_running_loop()
        return await loop.create_server(connected, sock=sock.dup(), backlog=self.config.backlog)

    def stop(self) -> None:
        """Take no more connections, and end when requests in flight have, or their time is over."""
        self._gateway.draining = True
        self.should_exit = True
        self.close_listening()

    def close_listening(self) -> None:
        """Take no more connections; the sockets stay open."""
        for server in self.servers:
            server.close()

    def on_signal(self, number: int) -> None:
        """A signal to stop came. A second interrupt does not wait for requests in flight."""
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        self.stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening; then close connections, each when the answer on it is given.

        A client may be about to send on a connection that is idle, so these are kept for a moment:
        who asks is answered, and told that it was the last time (RFC 9112, 9.6).
        """
        self.close_listening()
        for sock in sockets or []:
            sock.close()
        until = time.monotonic() + _LAST_REQUESTS_S
        while (  # noqa: ASYNC110  # uvicorn tells of no connection that ends
            self.server_state.connections and time.monotonic() < until and not self.force_exit
        ):
            await asyncio.sleep(_LAST_REQUESTS_S / 20)
        await super().shutdown(sockets=sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield
