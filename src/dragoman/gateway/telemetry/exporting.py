"""The thread that makes spans of requests that have ended, and sends them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.config.settings import Conventions
from dragoman.gateway.telemetry.spans import Finished, Place, spans_of

if TYPE_CHECKING:
    from dragoman.gateway.telemetry.otlp import Sender

_log = logging.getLogger("dragoman.gateway")

_MOST_WAITING = 8192
"""Requests that wait to be sent; further ones are dropped, and counted."""
_AT_ONCE = 16
"""Requests whose spans are sent at once. Encoding them holds Python's lock for one or two
milliseconds."""
_EVERY_S = 1.0
_LAST_S = 2.0
"""Seconds that the thread is given for the rest when the gateway stops."""


class Exporting:
    """Sends spans. It is started with `start`, in the process that serves."""

    def __init__(
        self,
        places: Mapping[str, Place],
        conventions: Conventions,
        count: Callable[[str, int], None],
    ) -> None:
        """
        Args:
            places: where the upstreams are called.
            conventions: which names attributes have.
            count: is called with what became of how many requests: `sent` or `failed` from the
                thread, `dropped` from where they are added.
        """
        self._places = places
        self._conventions = conventions
        self._count = count
        self._waiting: deque[Finished] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread.

        Raises:
            ImportError: OpenTelemetry's SDK is not installed.
        """
        from dragoman.gateway.telemetry.otlp import Sender

        self._thread = threading.Thread(
            target=self._run, args=(Sender(),), name="traces", daemon=True
        )
        self._thread.start()

    def know(self, places: Mapping[str, Place]) -> None:
        """Upstreams of another configuration are called there. Requests of the one before, which
        may still be under way, go on being told of as before."""
        self._places = {**self._places, **places}

    def add(self, finished: Finished) -> None:
        """Send a request's spans, later."""
        if len(self._waiting) >= _MOST_WAITING:
            self._count("dropped", 1)
            return
        self._waiting.append(finished)
        if len(self._waiting) == _AT_ONCE:
            self._wake.set()

    def close(self) -> None:
        """Send what waits, if it is taken within two seconds, and end the thread."""
        if self._thread is None:
            return
        self._closing = True
        self._wake.set()
        self._thread.join(_LAST_S)

    def _run(self, sender: Sender) -> None:
        while True:
            if len(self._waiting) < _AT_ONCE and not self._closing:
                self._wake.wait(_EVERY_S)
            self._wake.clear()
            count = min(len(self._waiting), _AT_ONCE)
            if count:
                self._send(sender, [self._waiting.popleft() for _ in range(count)])
            elif self._closing:
                sender.close()
                return

    def _send(self, sender: Sender, batch: Sequence[Finished]) -> None:
        spans = [
            span
            for finished in batch
            for span in spans_of(finished, self._places, self._conventions)
        ]
        try:
            sent = sender.send(spans)
        except Exception as error:
            # Its message may quote what was to be sent.
            _log.warning("traces cannot be sent: %s", type(error).__name__)
            sent = False
        self._count("sent" if sent else "failed", len(batch))
