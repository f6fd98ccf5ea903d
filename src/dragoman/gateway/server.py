"""The process that serves: socket, HTTP server, log, and its end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
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
from dragoman.http.server import Listener
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
    settings = config.server
    if not config.clients and settings.unix_socket is None and not is_loopback(settings.host):
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
    settings = config.server
    if settings.tls_certificate is not None:
        _tls(settings)
    if settings.unix_socket is not None:
        plug = bind_unix(settings.unix_socket)
        url = f"unix:{settings.unix_socket}"
    else:
        plug = bind(settings.host, settings.port)
        host, port = plug.getsockname()[:2]
        scheme = "http" if settings.tls_certificate is None else "https"
        url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
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
        if settings.unix_socket is not None:
            with suppress(OSError):
                os.unlink(settings.unix_socket)


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
    """Serves an application on sockets, from `serve` or `run` to `stop`. What is told by signals is
    told by calls here: `on_signal`, and `reloads`, which read anew what can be, each whole or not
    at all, and say what it was.

    `on_started` is called when requests can come.
    """

    def __init__(self, app: Gateway, on_started: Callable[[], object] = lambda: None) -> None:
        """
        Raises:
            OSError: the certificate cannot be used.
        """
        settings = app.config.server
        self.app = app
        self.http = HTTPServer(
            app,
            refuse=refuse,
            limits=limits_of(settings),
            tls=None if settings.tls_certificate is None else partial(_tls, settings),
            exempt=lambda address: is_here(address) or app.proxies.believes(address),
        )
        self.started = False
        self.on_started = on_started
        self.reloads: tuple[Callable[[], str], ...] = ()
        if settings.tls_certificate is not None:
            self.reloads = (self._reload_certificate,)
        self._sockets: Sequence[socket.socket] = ()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """As `serve`, in a loop of its own; SIGINT and SIGTERM stop it, where signals can be
        handled in this thread."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
            try:
                for number in numbers:
                    loop.add_signal_handler(number, self.on_signal, number)
            except (RuntimeError, ValueError):
                numbers = ()
            try:
                await self.serve(sockets)
            finally:
                for number in numbers:
                    loop.remove_signal_handler(number)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until `stop` is called, and requests in flight are over or their time is."""
        loop = self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        await self.app.start()
        try:
            loop.call_soon(self._begin)
            await self.http.serve(sockets)
            await self.http.drain(self.app.config.server.shutdown_grace_s)
        finally:
            await self.app.close()

    async def listen(self, sock: socket.socket) -> Listener:
        """Take connections from a further socket, until what is returned is closed."""
        return self.http.listen(sock)

    def stop(self) -> None:
        """Take no more connections, and end when requests in flight have, or their time is over.
        May be called from any thread."""
        self.app.draining = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    def close_listening(self) -> None:
        """Take no more connections; the sockets stay open. `serve` goes on to its end."""
        self.http.close_listening()

    def on_signal(self, number: int) -> None:
        """A signal to stop came. A second interrupt does not wait for requests in flight."""
        if self.app.draining and number == signal.SIGINT:
            self.http.hurry()
        self.stop()

    def _begin(self) -> None:
        self.started = True
        self.on_started()

    def _close(self) -> None:
        self.close_listening()
        for sock in self._sockets:
            sock.close()

    def _reload_certificate(self) -> str:
        self.http.reload_tls()
        return "the certificate"


def _tls(settings: Settings) -> ssl.SSLContext:
    """The context for TLS with clients.

    Raises:
        OSError: the certificate or its key cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    assert settings.tls_certificate is not None
    context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    return context


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


def bind_unix(path: str) -> socket.socket:
    """A bound Unix socket. One that nobody listens on any more, which a server left that was
    killed, is replaced.

    Raises:
        OSError: the path is taken, or its directory is not there.
    """
    plug = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        plug.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except OSError:
        pass
    else:
        plug.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
    plug.close()
    plug = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        plug.bind(path)
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
