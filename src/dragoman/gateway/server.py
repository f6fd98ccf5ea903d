"""The process that serves: socket, HTTP server, log, and its end."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

import uvloop

from dragoman.config import Config
from dragoman.config import Server as Settings
from dragoman.config.checks import is_loopback
from dragoman.gateway.allocation import settle
from dragoman.gateway.app import Gateway
from dragoman.gateway.edge.lines import LineWriter, Outlet
from dragoman.gateway.edge.record import log_line
from dragoman.gateway.edge.refusals import refuse
from dragoman.gateway.operation.metrics import Board
from dragoman.gateway.operation.scrape import Place
from dragoman.gateway.workers import Workers
from dragoman.http import Limits
from dragoman.http import Server as HTTPServer
from dragoman.http.addresses import is_here
from dragoman.storage.opening import prepare

_FILES = 65536
"""Open files that suffice for any number of requests that one process can serve."""


def build_app(
    config: Config,
    log: Callable[[bytes], None] | None = log_line,
    place: Place | None = None,
) -> Gateway:
    """The application of a configuration. `log` is given the line of each request; `place` is
    this worker's among several.

    Raises:
        ValueError: it would let anyone in from other machines.
    """
    if not config.clients and not is_loopback(config.server.host):
        raise ValueError(
            f"without client keys the gateway listens on loopback only, not on {config.server.host}"
        )
    return Gateway(config, log, place)


def serve(config: Config, *, announce: Callable[[str], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; returns once requests in flight are over.

    `announce` is told the base URL as soon as the socket is bound.

    Raises:
        OSError: the address is taken or not there.
        ValueError: as `build_app`; or there is no key, or a wrong one, for the accounts in the
            store.
        StoreError: the store cannot be used.
    """
    build_app(config)
    configure_log(config.server.log_level)
    prepare(config)
    _raise_file_limit()
    plug = bind(config.server.host, config.server.port)
    host, port = plug.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    logging.getLogger("dragoman").info("serving on %s", url)
    if announce is not None:
        announce(url)
    try:
        if config.server.workers == 1:
            _run(config, plug)
        else:
            count = config.server.workers
            board = Board(count)
            Workers(
                count,
                lambda number: _run(config, plug, Place(board, number, count)),
                grace_s=config.server.shutdown_grace_s,
                on_stop=plug.close,
            ).run()
    finally:
        plug.close()


def _run(config: Config, plug: socket.socket, place: Place | None = None) -> None:
    """Serve in this process."""
    settle()
    wanted = logging.getLogger("dragoman.requests").isEnabledFor(logging.INFO)
    lines = LineWriter(sys.stderr.fileno())
    try:
        Server(build_app(config, lines if wanted else None, place)).run([plug])
    finally:
        lines.flush()


class Server:
    """Serves an application on sockets, from `run` to `stop`. `on_started` is called when requests
    can come.

    The process that runs it tells it of signals: here `run` does so for SIGINT and SIGTERM where it
    is the main thread's.
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
        self._on_started = on_started
        self._sockets: Sequence[socket.socket] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until `stop` is called, and requests in flight are over."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.serve(sockets))

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """As `run`, in the running loop."""
        loop = self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
        try:
            for number in numbers:
                loop.add_signal_handler(number, self._on_signal, number)
        except (RuntimeError, ValueError):
            # Not the main thread: whoever runs this calls `stop`.
            numbers = ()
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
            for number in numbers:
                loop.remove_signal_handler(number)

    def _begin(self) -> None:
        self.started = True
        self._on_started()

    def stop(self) -> None:
        """Take no more connections, and end when requests in flight have, or their time is over.
        May be called from any thread."""
        self.app.draining = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self.http.close_listening()
        for sock in self._sockets:
            sock.close()

    def _on_signal(self, number: int) -> None:
        """A second interrupt does not wait for requests in flight."""
        if self._draining is not None and number == signal.SIGINT:
            self.http.hurry()
        self.stop()


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


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket; port 0 takes a free one.

    Raises:
        OSError: the address is taken or not there.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    plug = socket.socket(family, kind, protocol)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        plug.bind(address)
    except OSError:
        plug.close()
        raise
    return plug


def _raise_file_limit() -> None:
    """Allow as many open files as this process may have: a stream needs two, and the usual limit
    of 1024 is meant for programs that cannot handle more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            logging.getLogger("dragoman").warning("no more than %d files can be open", soft)


class _Handler(logging.StreamHandler[TextIO]):
    """Lets go what standard error does not take at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._outlet = Outlet(stream.fileno())

    def emit(self, record: logging.LogRecord) -> None:
        if self._outlet.is_ready():
            super().emit(record)


def configure_log(level: str) -> None:
    """Log to standard error, from `level` (debug, info, warning, error) on."""
    handler = _Handler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("dragoman")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level.upper())
