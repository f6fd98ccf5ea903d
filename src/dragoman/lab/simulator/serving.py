"""The HTTP server under the simulator, in a thread or a process of its own."""

import asyncio
import contextlib
import signal
import socket

import uvloop

from dragoman.http import Limits, Server
from dragoman.http.context import Application

_LIMITS = Limits(send_s=0.0)
"""A client that reads slowly is waited for: that, too, is tried on the simulator."""

_GRACE_SECONDS = 1.0


class SimulatorServer:
    """A server for the simulator's application on sockets that are already bound."""

    def __init__(self, app: Application, sockets: list[socket.socket]) -> None:
        self._app = app
        self._sockets = sockets
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.started = False

    def run_here(self) -> None:
        """Serve in this thread until `stop` is called or it is interrupted."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """Stop serving; from any thread."""
        if self._loop is not None and self._server is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._server.close_listening)

    async def _serve(self) -> None:
        server = self._server = Server(self._app, limits=_LIMITS)
        loop = self._loop = asyncio.get_running_loop()
        # In another thread than the main one the caller calls `stop`.
        with contextlib.suppress(RuntimeError, ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, server.close_listening)
        loop.call_soon(self._begin)
        await server.serve(self._sockets)
        for sock in self._sockets:
            sock.close()
        await server.drain(_GRACE_SECONDS)

    def _begin(self) -> None:
        self.started = True


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket; port 0 takes a free one.

    Raises:
        OSError: the address is taken or not there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
