"""The service: its sockets, its processes, its log, and its end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import msgspec
import uvloop
from msgspec import Struct

from dragoman.admin.configuration import ReloadRequest
from dragoman.config import Config, LogFormat
from dragoman.config.source import Source
from dragoman.config.summary import summary
from dragoman.edge.lines import LineWriter, Outlet
from dragoman.edge.log_format import (
    JsonFormatter,
    TextFormatter,
    is_coloured,
    is_text,
    line_form,
)
from dragoman.observability.metrics.board import Board
from dragoman.observability.metrics.scrape import WorkerSlot
from dragoman.operations.configuration import note_start
from dragoman.processes.listening import (
    HANDSHAKE_S,
    address_of,
    bind,
    bind_unix,
    close_to_newcomers,
    deal,
    given_by_systemd,
    resolve,
    url_of,
)
from dragoman.processes.reload import Report, WorkerLink
from dragoman.processes.supervisor import Supervisor
from dragoman.processes.table import WorkerTable
from dragoman.processes.take_over import Offer, Predecessor, ask
from dragoman.processes.worker import Attendance, handled_signals, show_stacks
from dragoman.server.allocation import configure_allocator
from dragoman.server.reloading import Held, OwnReload, WorkersReload, prepared_for
from dragoman.server.server import Prepared, Server, build_app, check_reach, server_tls
from dragoman.storage.opening import prepare

_FILES = 65536
"""Open files that suffice for any number of requests that one process can serve."""

_log = logging.getLogger("dragoman")


def serve(
    config: Config,
    *,
    source: Source | None = None,
    announce: Callable[[str], None] | None = None,
    as_service: bool = True,
) -> None:
    """Serve until SIGINT or SIGTERM; returns once requests in flight are over.

    A service takes over from one that runs on the same address, can be followed in the same way,
    and reads its configuration from `source` anew at SIGHUP, where there is one; what is none dies
    with its terminal. `announce` is told the base URL as soon as the socket is bound.

    Raises:
        OSError: the address is taken or not there.
        ValueError: as `build_app`; or there is no key, or a wrong one, for the accounts in the
            store.
        StoreError: the store cannot be used.
    """
    if as_service:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        show_stacks()
    build_app(config)
    configure_log(config.server.log_level, config.server.log_format)
    kept = prepare(config)
    note_start(config)
    _raise_file_limit()
    tls = server_tls(config.server) is not None
    opened = _open(config, as_service)
    sockets = opened.sockets
    url = url_of(sockets[0], "https" if tls else "http")
    _log.info("serving on %s: %s", url, summary(config, kept))
    if announce is not None:
        announce(url)
    run = _run_alone if config.server.workers == 1 else _run_workers
    try:
        hosts = [address_of(one)[0] for one in sockets if one.family != socket.AF_UNIX]
        run(Held(config, source, tuple(hosts)), opened, as_service)
    finally:
        for sock in sockets:
            sock.close()
        if config.server.unix_socket is not None:
            with suppress(OSError):
                os.unlink(config.server.unix_socket)


class _Opened(Struct, frozen=True):
    """The sockets to listen on. `is_sole` tells that nobody had them before this process, and
    `predecessor` is the gateway that has them too, if there is one."""

    sockets: list[socket.socket]
    is_sole: bool = True
    predecessor: Predecessor | None = None


def _open(config: Config, as_service: bool) -> _Opened:
    """The sockets to listen on.

    Raises:
        OSError: the address is taken or not there, or would let anyone in from other machines.
    """
    host, port, path = config.server.host, config.server.port, config.server.unix_socket
    given = given_by_systemd()
    predecessor = None
    if path is not None and not given:
        return _Opened([bind_unix(path)])
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
                check_reach(config, address_of(sock)[0])
            except ValueError as error:
                raise OSError(errno.EACCES, str(error)) from None
    return _Opened(sockets, predecessor is None and not given, predecessor)


def _turn_away_newcomers(opened: _Opened, offer: Offer) -> bool:
    """Let no further client begin to connect, unless there is or may be another gateway that takes
    them. Returns whether those that have begun are to be waited for."""
    if not opened.is_sole or offer.given:
        return False
    close_to_newcomers(opened.sockets)
    return True


def _run_alone(held: Held, opened: _Opened, as_service: bool) -> None:
    """Serve in this process."""
    reloads = OwnReload(held)
    sockets, predecessor = opened.sockets, opened.predecessor

    async def main(server: Server) -> None:
        loop = asyncio.get_running_loop()
        offer = Offer(sockets, server.stop, partial(_reload_for, reloads))
        reloads.server = server
        told_to_stop = False

        def stop(number: signal.Signals) -> None:
            nonlocal told_to_stop
            is_first, told_to_stop = not told_to_stop, True
            if is_first and _turn_away_newcomers(opened, offer):
                loop.call_later(HANDSHAKE_S, server.on_signal, number)
            else:
                server.on_signal(number)

        def on_started() -> None:
            if predecessor is not None:
                predecessor.stop()
            reloads.start()
            if as_service:
                offer.open(address_of(sockets[0]))
                loop.add_reader(offer.fileno(), offer.work)

        server.on_started = on_started
        with handled_signals(stop, reloads.ask if as_service else None):
            try:
                await server.serve(sockets)
            finally:
                reloads.close()
                loop.remove_reader(offer.fileno())
                offer.close()

    _run_server(held, None, main, reloads.reload)


def _reload_for(reloads: OwnReload | WorkersReload, answer: Callable[[bytes], None]) -> None:
    reloads.begin_for(lambda report: answer(msgspec.json.encode(report)))


def _run_workers(held: Held, opened: _Opened, as_service: bool) -> None:
    """Serve in several processes, which this one watches."""
    config = held.config
    sockets, predecessor = opened.sockets, opened.predecessor
    count = config.server.workers
    dealt = deal(sockets, count)
    board, table = Board(count), WorkerTable(count)
    counts = _directory_for_counts(config)

    def work(number: int) -> None:
        link = WorkerLink(
            reloads.links.hold(),
            lambda snapshot, configuration: prepared_for(running[0], snapshot, configuration),
            lambda prepared: adopt(prepared),
        )
        running: list[Server] = []

        def adopt(prepared: Prepared) -> None:
            running[0].adopt(prepared)
            table.configured(number, running[0].app.number)

        async def main(server: Server) -> None:
            running.append(server)
            attendance = Attendance(table, number, dealt, server.listen)
            own = dealt[number]

            def stop(number: signal.Signals) -> None:
                attendance.close()
                for sock in sockets:
                    if sock not in own:
                        # Its own worker may be gone already: whoever closes it last loses what
                        # waits in it.
                        server.http.accept_waiting(sock)
                        sock.close()
                server.on_signal(number)

            def on_started() -> None:
                table.configured(number, server.app.number)
                attendance.serving()
                link.start()

            server.on_started = on_started
            attendance.start()
            with handled_signals(stop, None):
                await server.serve(own)

        shared = None if counts is None else f"{counts.name}/counts"
        slot = WorkerSlot(board, number, count, table, shared)
        _run_server(held, slot, main, link.reload)

    def on_serving() -> None:
        if predecessor is not None:
            predecessor.stop()
        if as_service:
            offer.open(address_of(sockets[0]))

    def on_stop() -> None:
        if _turn_away_newcomers(opened, offer):
            time.sleep(HANDSHAKE_S)
        for sock in sockets:
            sock.close()

    reloads = WorkersReload(held, count, lambda number: supervisor.replace(number))
    offer = Offer(sockets, lambda: supervisor.stop(), partial(_reload_for, reloads))
    supervisor = Supervisor(
        table,
        work,
        grace_s=config.server.shutdown_grace_s,
        stuck_after_s=config.server.stuck_after_s,
        offer=offer,
        on_serving=on_serving,
        on_stop=on_stop,
        reloads=reloads,
    )
    try:
        supervisor.run()
    finally:
        if counts is not None:
            counts.cleanup()


def _directory_for_counts(config: Config) -> TemporaryDirectory[str] | None:
    """Where workers without a store count requests in flight together."""
    if config.storage.path:
        return None
    try:
        return TemporaryDirectory(prefix="dragoman-")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _log.error("no temporary file: %s: workers may exceed max_concurrent in a burst", reason)
        return None


def _run_server(
    held: Held,
    slot: WorkerSlot | None,
    main: Callable[[Server], Coroutine[Any, Any, None]],
    reload: Callable[[], Awaitable[Report]],
) -> None:
    """Run `main` in a loop of its own, with the log of requests that it needs. `reload` reads the
    configuration anew."""
    config = held.config
    configure_allocator()
    wanted = logging.getLogger("dragoman.requests").isEnabledFor(logging.INFO)
    lines = LineWriter(
        sys.stderr.fileno(), line_form(config.server.log_format, sys.stderr.isatty())
    )
    try:
        reads_anew = None if held.source is None else ReloadRequest(reload, held.pending)
        server = Server(build_app(config, lines if wanted else None, slot, reads_anew, held.number))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main(server))
    finally:
        lines.flush()


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


def configure_log(level: str, form: LogFormat) -> None:
    """Log to standard error, from `level` (debug, info, warning, error) on. What libraries warn of
    has the same form."""
    handler = _Handler(sys.stderr)
    terminal = sys.stderr.isatty()
    handler.setFormatter(
        TextFormatter(colours=is_coloured(terminal)) if is_text(form, terminal) else JsonFormatter()
    )
    logging.getLogger().handlers[:] = [handler]
    logger = logging.getLogger("dragoman")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level.upper())
