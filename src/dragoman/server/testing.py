"""Running a gateway inside a test, on a port of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dragoman.config import Config, Loaded
from dragoman.edge.record import log_line
from dragoman.processes.listening import bind
from dragoman.server.app import Gateway
from dragoman.server.server import Server, build_app

_POLL_S = 0.002
_START_S = 10.0


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that serves on loopback. `app` is the gateway itself."""

    app: Gateway
    server: Server
    port: int

    @property
    def base_url(self) -> str:
        """The base URL as Anthropic's SDKs want it, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_base_url(self) -> str:
        """The base URL as OpenAI's SDKs want it, with `/v1`."""
        return f"{self.base_url}/v1"

    def stop(self) -> None:
        """Begin to shut down, as a signal would."""
        self.server.stop()


@contextmanager
def running_gateway(
    config: Config | Loaded, log: Callable[[bytes], None] | None = log_line, port: int = 0
) -> Iterator[RunningGateway]:
    """Serve a configuration in a thread while the context lasts, on a port, or any free one.
    `log` is given the line of each request, in that thread.

    Raises:
        TimeoutError: the server did not come up.
    """
    app = build_app(config.config if isinstance(config, Loaded) else config, log)
    server = Server(app)
    sock = bind("127.0.0.1", port)
    port = sock.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([sock],), name="gateway", daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise TimeoutError("the gateway did not start")
        time.sleep(_POLL_S)
    try:
        yield RunningGateway(app, server, port)
    finally:
        server.stop()
        thread.join(timeout=app.config.server.shutdown_grace_s + 10)
        sock.close()
