"""The process that serves: socket, HTTP server, log, and its end."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

import uvicorn
import uvloop

from dragoman.config import Config
from dragoman.config.checks import is_loopback
from dragoman.gateway.allocation import settle
from dragoman.gateway.app import Gateway
from dragoman.gateway.edge.lines import LineWriter, Outlet
from dragoman.gateway.edge.protocol import JoiningProtocol
from dragoman.gateway.edge.record import log_line
from dragoman.gateway.operation.metrics import Board
from dragoman.gateway.operation.scrape import Place
from dragoman.gateway.processes.listening import (
    address_of,
    bind,
    deal,
    given_by_systemd,
    resolve,
    url_of,
)
from dragoman.gateway.processes.reload import Reload, reload_all
from dragoman.gateway.processes.supervisor import Supervisor
from dragoman.gateway.processes.table import WorkerTable
from dragoman.gateway.processes.take_over import Offer, Predecessor, ask
from dragoman.gateway.processes.worker import Acceptor, Attendance, handled_signals, show_stacks
from dragoman.storage.opening import prepare

_FILES = 65536
"""Open files that suffice for any number of requests that one process can serve."""

_KEEP_ALIVE_S = 75
"""Seconds for which an idle connection of a client is kept; longer than SDKs keep theirs, so that
it is they who close."""

_LAST_REQUESTS_S = 1.0
"""Seconds for which idle connections are kept when the gateway ends."""

_log = logging.getLogger("dragoman")


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
    _check_reach(config, config.server.host)
    return Gateway(config, log, place)


def _check_reach(config: Config, host: str) -> None:
    if not config.clients and not is_loopback(host):
        raise ValueError(f"without client keys the gateway listens on loopback only, not on {host}")


def serve(
    config: Config, *, announce: Callable[[str], None] | None = None, as_service: bool = True
) -> None:
    """Serve until SIGINT or SIGTERM; returns once requests in flight are over.

    A service takes over from one that runs on the same address, can be followed in the same way,
    and reloads at SIGHUP; what is none dies with its terminal. `announce` is told the base URL as
    soon as the socket is bound.

    Raises:
        OSError: the address is taken or not there.
        ValueError: as `build_app`; or there is no key, or a wrong one, for the accounts in the
            store.
        StoreError: the store cannot be used.
    """
    if as_service:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    build_app(config)
    configure_log(config.server.log_level)
    prepare(config)
    _raise_file_limit()
    predecessor, sockets = _open(config, as_service)
    url = url_of(sockets[0])
    _log.info("serving on %s", url)
    if announce is not None:
        announce(url)
    run = _run_alone if config.server.workers == 1 else _run_workers
    try:
        run(config, sockets, predecessor, as_service)
    finally:
        for sock in sockets:
            sock.close()


def _open(config: Config, as_service: bool) -> tuple[Predecessor | None, list[socket.socket]]:
    """The sockets to listen on, and the gateway that has them too, if there is one.

    Raises:
        OSError: the address is taken or not there, or would let anyone in from other machines.
    """
    host, port = config.server.host, config.server.port
    given = given_by_systemd()
    predecessor = None
    if as_service and (given or port):
        predecessor = ask(address_of(given[0]) if given else resolve(host, port))
    if predecessor is not None:
        _log.info("process %d serves there already; taking over", predecessor.pid)
        for sock in given:
            sock.close()
    sockets = predecessor.sockets if predecessor is not None else given or [bind(host, port)]
    for sock in sockets:
        if sock.family != socket.AF_UNIX:
            try:
                _check_reach(config, address_of(sock)[0])
            except ValueError as error:
                raise OSError(errno.EACCES, str(error)) from None
    return predecessor, sockets


def _run_alone(
    config: Config, sockets: list[socket.socket], predecessor: Predecessor | None, as_service: bool
) -> None:
    """Serve in this process."""
    if as_service:
        show_stacks()

    async def main(server: Server) -> None:
        loop = asyncio.get_running_loop()
        offer = Offer(sockets, server.stop)

        def on_started() -> None:
            if predecessor is not None:
                predecessor.stop()
            if as_service:
                offer.open(address_of(sockets[0]))
                loop.add_reader(offer.fileno(), offer.work)

        server.on_started = on_started
        with handled_signals(
            server.on_signal, partial(reload_all, server.reloads) if as_service else None
        ):
            try:
                await server.serve(sockets)
            finally:
                loop.remove_reader(offer.fileno())
                offer.close()

    _run_server(config, None, main)


def _run_workers(
    config: Config, sockets: list[socket.socket], predecessor: Predecessor | None, as_service: bool
) -> None:
    """Serve in several processes, which this one watches."""
    count = config.server.workers
    dealt = deal(sockets, count)
    board, table = Board(count), WorkerTable(count)

    def work(number: int) -> None:
        show_stacks()

        async def main(server: Server) -> None:
            attendance = Attendance(table, number, dealt, server.listen)
            own = dealt[number]

            def stop(signal_number: signal.Signals | None = None) -> None:
                attendance.close()
                for sock in sockets:
                    if sock not in own:
                        sock.close()
                server.on_signal(signal_number or signal.SIGTERM)

            server.on_started = attendance.serving
            attendance.start()
            with handled_signals(stop, partial(reload_all, server.reloads) if as_service else None):
                await server.serve(own)

        _run_server(config, Place(board, number, count, table), main)

    def on_serving() -> None:
        if predecessor is not None:
            predecessor.stop()
        if as_service:
            offer.open(address_of(sockets[0]))

    def on_stop() -> None:
        for sock in sockets:
            sock.close()

    offer = Offer(sockets, lambda: supervisor.stop())
    supervisor = Supervisor(
        table,
        work,
        grace_s=config.server.shutdown_grace_s,
        stuck_after_s=config.server.stuck_after_s,
        offer=offer,
        on_serving=on_serving,
        on_stop=on_stop,
    )
    supervisor.run()


def _run_server(
    config: Config, place: Place | None, main: Callable[[Server], Coroutine[Any, Any, None]]
) -> None:
    """Run `main` in a loop of its own, with the log of requests that it needs."""
    settle()
    wanted = logging.getLogger("dragoman.requests").isEnabledFor(logging.INFO)
    lines = LineWriter(sys.stderr.fileno())
    try:
        server = Server(build_app(config, lines if wanted else None, place))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main(server))
    finally:
        lines.flush()


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
