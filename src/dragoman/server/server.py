"""The HTTP server of one process: the gateway's settings, its start and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence

import uvloop
from msgspec import Struct
from msgspec.structs import replace

from dragoman.config import Config, Upstream
from dragoman.config import Server as Settings
from dragoman.config.changes import usable_now
from dragoman.config.checks import Fault, is_loopback
from dragoman.config.files import FileText, read_bytes
from dragoman.edge.record import log_line
from dragoman.edge.refusals import refuse
from dragoman.http import Limits
from dragoman.http import Server as HTTPServer
from dragoman.http.addresses import is_here
from dragoman.http.server import Listener
from dragoman.link.messages import Peer
from dragoman.observability.metrics.scrape import WorkerSlot
from dragoman.prices.loading import price_faults
from dragoman.processes.reload import ReloadError, ReloadRequest
from dragoman.server.app import Gateway, Serving
from dragoman.serving.upstream_requests import tls_settings
from dragoman.upstream.client import tls_context


def build_app(
    config: Config,
    log: Callable[[bytes], None] | None = log_line,
    slot: WorkerSlot | None = None,
    reload: ReloadRequest | None = None,
    number: int = 1,
    link: Peer | None = None,
) -> Gateway:
    """The gateway as an application, for a server or for tests.

    Raises:
        ValueError: without client keys it listens on loopback only, so that nobody on the network
            can spend the accounts.
    """
    if config.server.unix_socket is None:
        check_reach(config, config.server.host)
    return Gateway(config, log, slot, reload, number, link)


def check_reach(config: Config, host: str) -> None:
    """Make sure that only who may can reach `host`, an address to listen on.

    Raises:
        ValueError: it would let anyone in from other machines.
    """
    kept_out = bool(config.clients) or config.server.require_key
    if not kept_out and not is_loopback(host):
        raise ValueError(f"without client keys the gateway listens on loopback only, not on {host}")


class Server:
    """Serves an application on sockets, from `serve` or `run` to `stop`. Instead of signals it
    has methods: `on_signal`; and `prepare` and `adopt`, for another configuration.

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
            tls=server_tls(settings),
            exempt=lambda address: is_here(address) or app.proxies.believes(address),
        )
        self.started = False
        self.on_started = on_started
        self._sockets: Sequence[socket.socket] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._hurries = False

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """As `serve`, in a loop of its own."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.serve(sockets))

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until `stop` is called, and requests in flight are over or their time is."""
        loop = self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        await self.app.start()
        try:
            if self.app.draining:
                return  # It was to stop before it was ready to serve.
            loop.call_soon(self._begin)
            await self.http.serve(sockets)
            # The second interrupt may have come before the first was obeyed.
            grace_s = 0.0 if self._hurries else self.app.config.server.shutdown_grace_s
            until = loop.time() + grace_s
            await self.http.drain(grace_s)
            if not self._hurries:
                self._finishing = loop.create_task(self.app.finish(until - loop.time()))
                await asyncio.wait((self._finishing,))
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
            self._hurries = True
            self.http.hurry()
            if self._finishing is not None:
                self._finishing.cancel()
        self.stop()

    def _begin(self) -> None:
        self.started = True
        self.on_started()

    def _close(self) -> None:
        self.close_listening()
        for sock in self._sockets:
            sock.close()

    def prepare(self, config: Config, number: int) -> Prepared:
        """Make ready to serve another configuration, of which what needs a restart stays as it is.
        Nothing is changed; any thread may call it.

        Raises:
            ReloadError: it cannot be used.
        """
        wanted = usable_now(self.app.config, config)
        try:
            return Prepared(self.app.prepare(wanted, number), server_tls(wanted.server))
        except (OSError, ValueError) as error:
            # They were checked: a file has changed since.
            raise ReloadError((str(error),)) from None

    def adopt(self, prepared: Prepared) -> None:
        """Serve what was prepared, from the next request on."""
        self.app.adopt(prepared.serving)
        self.http.change(limits_of(self.app.config.server), prepared.tls)


class Prepared(Struct, frozen=True):
    """A configuration that is ready to be served."""

    serving: Serving
    tls: ssl.SSLContext | None


def file_faults(config: Config) -> Iterator[Fault]:
    """What keeps the files that a configuration names from being used, each with the key at fault:
    the table of prices, the authorities of upstreams, the certificate and its key."""
    yield from price_faults(config)
    for index, upstream in enumerate(config.upstreams):
        for name in ("ca_file", "client_certificate"):
            pem: FileText | None = getattr(upstream, name)
            if pem is not None and (problem := _no_certificates(upstream, name, pem)):
                yield ("upstreams", index, name), f"{pem.path}: {problem}"
    server = config.server
    if server.spool_dir is not None and not os.access(server.spool_dir, os.W_OK | os.X_OK):
        yield (
            ("server", "spool_dir"),
            f"no directory in which files can be made: {server.spool_dir}",
        )
    unreadable = False
    for name in ("tls_certificate", "tls_key"):
        file: str | None = getattr(server, name)
        if file is not None and (reason := _unreadable(file)):
            unreadable = True
            yield ("server", name), f"cannot read {file}: {reason}"
    if not unreadable:
        try:
            server_tls(server)
        except OSError as error:
            problem = "no certificate and key that belong together, as PEM"
            yield ("server", "tls_certificate"), f"{server.tls_certificate}: {problem}: {error}"


def _no_certificates(upstream: Upstream, name: str, file: FileText) -> str:
    """Why the file of a setting cannot be used; empty if it can."""
    if file.problem or not file.text.strip():
        return file.problem or "is empty"
    alone = replace(upstream, ca_file=None, client_certificate=None)
    try:
        tls_context(tls_settings(replace(alone, **{name: file})))
    except OSError:
        own = "no certificate and key that belong together, as PEM"
        return "no certificates, as PEM" if name == "ca_file" else own
    return ""


def _unreadable(file: str) -> str | None:
    try:
        read_bytes(file)
    except OSError as error:
        return error.strerror
    return None


def server_tls(settings: Settings) -> ssl.SSLContext | None:
    """The context for TLS with clients, None if there is none.

    Raises:
        OSError: the certificate or its key cannot be read, or do not belong together.
    """
    if settings.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    # Never asks for a password, at whatever terminal there is.
    context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
    return context


def limits_of(settings: Settings) -> Limits:
    """What clients may take, as the settings have it."""
    return Limits(
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        idle_s=settings.idle_timeout_s,
        send_s=settings.send_timeout_s,
        connections=settings.max_connections,
        address_connections=settings.max_connections_per_address,
        memory_bytes=settings.memory_limit_bytes,
    )
