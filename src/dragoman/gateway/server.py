"""The process that serves: socket, HTTP server, log, and its end."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import TextIO

import uvicorn

from dragoman.config import Config
from dragoman.config.checks import is_loopback
from dragoman.gateway.allocation import settle
from dragoman.gateway.app import Gateway
from dragoman.gateway.edge.lines import LineWriter, Outlet
from dragoman.gateway.edge.protocol import JoiningProtocol
from dragoman.gateway.edge.record import log_line
from dragoman.gateway.operation.metrics import Board
from dragoman.gateway.operation.scrape import WorkerSlot
from dragoman.gateway.workers import Workers
from dragoman.storage.opening import prepare

_FILES = 65536
"""Open files that suffice for any number of requests that one process can serve."""

_KEEP_ALIVE_S = 75
"""Seconds for which an idle connection of a client is kept; longer than SDKs keep theirs, so that
it is they who close."""


def build_app(
    config: Config,
    log: Callable[[bytes], None] | None = log_line,
    slot: WorkerSlot | None = None,
) -> Gateway:
    """The ASGI application of a configuration. `log` is given the line of each request; `slot` is
    this worker's among several.

    Raises:
        ValueError: it would let anyone in from other machines.
    """
    if not config.clients and not is_loopback(config.server.host):
        raise ValueError(
            f"without client keys the gateway listens on loopback only, not on {config.server.host}"
        )
    return Gateway(config, log, slot)


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
                lambda number: _run(config, plug, WorkerSlot(board, number, count)),
                grace_s=config.server.shutdown_grace_s,
                on_stop=plug.close,
            ).run()
    finally:
        plug.close()


def _run(config: Config, plug: socket.socket, slot: WorkerSlot | None = None) -> None:
    """Serve in this process."""
    settle()
    wanted = logging.getLogger("dragoman.requests").isEnabledFor(logging.INFO)
    lines = LineWriter(sys.stderr.fileno())
    try:
        Server(build_app(config, lines if wanted else None, slot)).run(sockets=[plug])
    finally:
        lines.flush()


class Server(uvicorn.Server):
    """uvicorn with this gateway's settings; tells the application when it is going down.

    `on_started` is called when requests can come.
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
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets=sockets)
        self._on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop came. A second interrupt does not wait for requests in flight.

        Unlike uvicorn's own this does not have the signal raised again at the end: the process
        would die of it before its log is written.
        """
        self._gateway.draining = True
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


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
