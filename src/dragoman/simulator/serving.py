"""The HTTP server under the simulator: uvicorn's, with access to the connection itself."""

import socket

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.simulator.connection import Connection

CONNECTION = "dragoman.simulator.connection"
"""The key in an ASGI scope's ``state`` under which a request finds its connection."""

_KEEP_ALIVE_SECONDS = 75


class SimulatorProtocol(HttpToolsProtocol):
    """Gives each request its ``Connection`` and notifies it when the client disconnects."""

    _connection: Connection | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._connection = Connection(self.transport, self.loop)
        self.scope["state"][CONNECTION] = self._connection

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._connection is not None:
            self._connection.on_lost()


class SimulatorServer(uvicorn.Server):
    """A server for the simulator's application on sockets that are already bound."""

    def __init__(self, app: object, sockets: list[socket.socket]) -> None:
        config = uvicorn.Config(
            app,  # type: ignore[arg-type]  # uvicorn's own ASGI types are closed typed dicts
            http=SimulatorProtocol,
            ws="none",
            loop="uvloop",
            lifespan="off",
            interface="asgi3",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._sockets = sockets

    def run_here(self) -> None:
        """Serve in this thread until ``should_exit`` is set."""
        self.run(sockets=self._sockets)


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
