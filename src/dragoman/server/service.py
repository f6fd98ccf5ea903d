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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import TextIO

import msgspec
import uvloop
from msgspec import Struct

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
from dragoman.link.messages import Handlers, Peer
from dragoman.link.peers import SocketPeer
from dragoman.observability.metrics.scrape import WorkerSlot
from dragoman.operations.configuration_log import record_start
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
from dragoman.processes.reload import ReloadRequest, Report, WorkerReload
from dragoman.processes.table import WorkerTable
from dragoman.processes.take_over import Offer, Predecessor, ask
from dragoman.processes.worker import Attendance, handled_signals, show_stacks
from dragoman.server.allocation import configure_allocator
from dragoman.server.owner_services import OwnerServices
from dragoman.server.reloading import Reload, ServedConfiguration, prepared_for
from dragoman.server.server import Prepared, Server, build_app, check_reach, server_tls
from dragoman.storage.opening import prepare

STUCK_AFTER_S = 30.0
"""After which a worker that does nothing at all, not even give a sign of life, is replaced by
another, if there are several; its stack is logged after half of them."""
_FILES = 65536
"""Open files that suffice for any number of requests that one process can serve."""

_log = logging.getLogger("dragoman")


def serve(
    config: Config,
    *,
    source: Source | None = None,
    announce: Callable[[str], None] | None = None,
    as_service: bool = True,
    warnings: Iterable[str] = (),
    takes_over: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; returns once requests in flight are over.

    A service takes over from one that runs on the same address with the same configuration file, or
    with another if it `takes_over`. It can be followed in the same way, and reads its configuration
    from `source` anew at SIGHUP, where there is one; what is no service dies with its terminal.
    `announce` is called with the base URL as soon as the socket is bound; `warnings` of the
    configuration are logged.

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
    for warning in warnings:
        _log.warning("%s", warning)
    kept = prepare(config)
    record_start(config)
    _raise_file_limit()
    # What a crash would write to a disk holds every key and prompt in memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tls = server_tls(config.server) is not None
    opened = _open(config, _path(source), as_service=as_service, takes_over=takes_over)
    sockets = opened.sockets
    url = url_of(sockets[0], "https" if tls else "http")
    _log.info("serving on %s: %s", url, summary(config, kept))
    if announce is not None:
        announce(url)
    run = _run_alone if config.server.workers == 1 else _run_workers
    try:
        hosts = [address_of(one)[0] for one in sockets if one.family != socket.AF_UNIX]
        run(ServedConfiguration(config, source, tuple(hosts)), opened, as_service)
    finally:
        for sock in sockets:
            sock.close()
        if config.server.unix_socket is not None:
            with suppress(OSError):
                os.unlink(config.server.unix_socket)


def _path(source: Source | None) -> str:
    """The path of a configuration file, empty without one."""
    return "" if source is None else os.path.realpath(source.path)


class _Opened(Struct, frozen=True):
    """The sockets to listen on. `is_sole`: no other process had them before;
    `predecessor` is the gateway that has them too, if there is one."""

    sockets: list[socket.socket]
    is_sole: bool = True
    predecessor: Predecessor | None = None


def _open(config: Config, path: str, *, as_service: bool, takes_over: bool) -> _Opened:
    """The sockets to listen on, for the configuration file at `path`.

    Raises:
        OSError: the address is taken or not there, or would let anyone in from other machines.
    """
    host, port, unix_path = config.server.host, config.server.port, config.server.unix_socket
    given = given_by_systemd()
    predecessor = None
    if unix_path is not None and not given:
        return _Opened([bind_unix(unix_path)])
    if as_service and (given or port):
        predecessor = ask(address_of(given[0]) if given else resolve(host, port))
    if predecessor is not None:
        if predecessor.config != path and predecessor.config and not takes_over:
            predecessor.leave()
            message = (
                f"address in use, by process {predecessor.pid}, which serves {predecessor.config}; "
                "--take-over takes its place"
            )
            raise OSError(errno.EADDRINUSE, message)
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


def _run_alone(served: ServedConfiguration, opened: _Opened, as_service: bool) -> None:
    """Serve in this process."""
    sockets, predecessor = opened.sockets, opened.predecessor

    async def main() -> None:
        loop = asyncio.get_running_loop()
        owned = OwnerServices(served, lambda number: None)
        with _worker(served, owned.owner.join(Handlers()), None) as server:
            offer = Offer(
                sockets,
                server.stop,
                partial(_answer_reload, owned.reload),
                owned.common.limits.look,
                _path(served.source),
            )
            told_to_stop = False

            def stop(number: signal.Signals) -> None:
                nonlocal told_to_stop
                is_first, told_to_stop = not told_to_stop, True
                if is_first and _turn_away_newcomers(opened, offer):
                    loop.call_later(HANDSHAKE_S, server.stop)
                    return
                if not is_first:
                    # Whoever has begun to connect is waited for no longer.
                    server.stop()
                server.on_signal(number)

            def on_started() -> None:
                if predecessor is not None:
                    owned.follow(predecessor)
                if as_service:
                    offer.open(address_of(sockets[0]))
                    loop.add_reader(offer.fileno(), offer.work)

            server.on_started = on_started
            await owned.start()
            with handled_signals(stop, owned.on_hangup if as_service else None):
                try:
                    await server.serve(sockets)
                finally:
                    await owned.close()
                    loop.remove_reader(offer.fileno())
                    offer.close()

    configure_allocator()
    uvloop.run(main())


def _answer_reload(reload: Reload, answer: Callable[[bytes], None]) -> None:
    """Reload for a command that waits for the report."""

    def done(task: asyncio.Task[Report]) -> None:
        if not task.cancelled():
            answer(msgspec.json.encode(task.result()))

    reload.begin().add_done_callback(done)


def _run_workers(served: ServedConfiguration, opened: _Opened, as_service: bool) -> None:
    """Serve in several processes, which this one watches."""
    from dragoman.processes.supervisor import Supervisor

    config = served.config
    table = WorkerTable(config.server.workers)
    folder = _shared_folder(config)
    owned = OwnerServices(served, lambda number: supervisor.replace(number))
    offer = Offer(
        opened.sockets,
        lambda: supervisor.stop(),
        partial(_answer_reload, owned.reload),
        owned.common.limits.look,
        _path(served.source),
    )
    supervisor = Supervisor(
        table,
        _Workers(
            owned,
            table,
            opened,
            offer,
            None if folder is None else folder.name,
            as_service=as_service,
        ),
        grace_s=config.server.shutdown_grace_s,
        stuck_after_s=STUCK_AFTER_S,
        offer=offer,
        owner=owned.owner,
        forks=owned.forks,
    )
    try:
        supervisor.run()
    finally:
        if folder is not None:
            folder.cleanup()


class _Workers:
    """Several processes that serve. Implements `dragoman.processes.supervisor.Supervised`."""

    def __init__(
        self,
        owned: OwnerServices,
        table: WorkerTable,
        opened: _Opened,
        offer: Offer,
        folder: str | None,
        *,
        as_service: bool,
    ) -> None:
        self._owned = owned
        self._table = table
        self._opened = opened
        self._offer = offer
        self._folder = folder
        self._as_service = as_service
        self._dealt = deal(opened.sockets, table.workers)

    def work(self, number: int, sock: socket.socket) -> None:
        """See `Supervised.work`."""
        configure_allocator()
        uvloop.run(self._serve(number, sock))

    async def _serve(self, number: int, sock: socket.socket) -> None:
        table, dealt, sockets = self._table, self._dealt, self._opened.sockets
        link = await SocketPeer.open(sock, Handlers(), number)
        common = self._owned.common
        before = common.board.of(number)
        slot = WorkerSlot(number, table.workers, table, common.name, before, self._folder)
        with _worker(self._owned.served, link, slot) as server:
            attendance = Attendance(table, number, dealt, server.listen)
            own = dealt[number]

            def stop(signal_: signal.Signals) -> None:
                attendance.close()
                for one in sockets:
                    if one not in own and one.fileno() >= 0:
                        # Its own worker may be gone already: whoever closes it last loses what
                        # waits in it.
                        server.http.accept_waiting(one)
                        one.close()
                server.on_signal(signal_)

            def on_started() -> None:
                table.configured(number, server.app.number)
                attendance.serving()

            server.on_started = on_started
            attendance.start()
            with handled_signals(stop, None):
                await server.serve(own)

    async def start(self) -> None:
        """See `Supervised.start`."""
        await self._owned.start()

    def on_serving(self) -> None:
        """See `Supervised.on_serving`."""
        if self._opened.predecessor is not None:
            self._owned.follow(self._opened.predecessor)
        if self._as_service:
            self._offer.open(address_of(self._opened.sockets[0]))

    def on_hangup(self) -> None:
        """See `Supervised.on_hangup`."""
        self._owned.on_hangup()

    async def on_stop(self) -> None:
        """See `Supervised.on_stop`."""
        if _turn_away_newcomers(self._opened, self._offer):
            await asyncio.sleep(HANDSHAKE_S)
        for sock in self._opened.sockets:
            sock.close()

    async def close(self) -> None:
        """See `Supervised.close`."""
        await self._owned.close()


def _shared_folder(config: Config) -> TemporaryDirectory[str] | None:
    """Where workers without a store share files."""
    if config.storage.path:
        return None
    try:
        return TemporaryDirectory(prefix="dragoman-")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        _log.error("no temporary folder: %s: each worker shows its own requests", reason)
        return None


@contextmanager
def _worker(served: ServedConfiguration, link: Peer, slot: WorkerSlot | None) -> Iterator[Server]:
    """The server of a worker, which reloads when the owner asks it to, and the log of its requests.
    To be used in the running event loop."""
    config = served.config
    wanted = logging.getLogger("dragoman.requests").isEnabledFor(logging.INFO)
    lines = LineWriter(
        sys.stderr.fileno(), line_form(config.server.log_format, sys.stderr.isatty())
    )

    def adopt(prepared: Prepared) -> None:
        server.adopt(prepared)
        if slot is not None:
            slot.table.configured(slot.number, server.app.number)

    reload = WorkerReload(
        link,
        lambda snapshot, number: prepared_for(server, snapshot, number),
        adopt,
    )
    try:
        request = None if served.source is None else ReloadRequest(reload.reload, served.pending)
        log = lines if wanted else None
        server = Server(build_app(config, log, slot, request, served.number, link))
        yield server
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
