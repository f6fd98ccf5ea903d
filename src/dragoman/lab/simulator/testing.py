"""Running the simulator inside a test, on a port of its own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.server import Simulator, create_app
from dragoman.lab.simulator.serving import SimulatorServer, bind

_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class RunningSimulator:
    """A simulator that serves on loopback.

    ``app`` is the simulator itself: set ``app.scenarios`` and ``app.keys.behaviours`` there.
    """

    app: Simulator
    port: int

    @property
    def base_url(self) -> str:
        """The base URL as Anthropic's SDKs want it, without ``/v1``."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_base_url(self) -> str:
        """The base URL as OpenAI's SDKs want it, with ``/v1``."""
        return f"{self.base_url}/v1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """The recorded requests, oldest first."""
        return list(self.app.requests)

    @property
    def last(self) -> RecordedRequest:
        """The newest recorded request.

        Raises:
            IndexError: there is none.
        """
        return self.requests[-1]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until a condition is true: the server records requests in its own thread.

        Raises:
            TimeoutError: it was not true in time.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the simulator did not come to the expected state")
            time.sleep(_POLL_SECONDS)


@contextmanager
def running_simulator(app: Simulator | None = None) -> Iterator[RunningSimulator]:
    """Serve a simulator in a thread while the context lasts."""
    simulator = create_app() if app is None else app
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    server = SimulatorServer(simulator, [sock])
    thread = threading.Thread(target=server.run_here, name="simulator", daemon=True)
    thread.start()
    running = RunningSimulator(simulator, port)
    running.wait_for(lambda: server.started or not thread.is_alive())
    try:
        yield running
    finally:
        server.stop()
        thread.join(timeout=10)
        sock.close()
