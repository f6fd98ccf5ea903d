"""The thread that builds the spans of finished requests and sends them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.config.settings import Conventions
from dragoman.observability.batch_thread import BatchThread
from dragoman.observability.traces.spans import Peer, TracedRequest, spans_of

if TYPE_CHECKING:
    from dragoman.observability.traces.otlp import Sender

_log = logging.getLogger("dragoman.gateway")

_MOST_WAITING = 8192
"""Requests that wait to be sent; further ones are dropped, and counted."""
_AT_ONCE = 128
"""Requests whose spans are sent together."""
_EVERY_S = 1.0


class SpanExporter:
    """Exports spans. It is started with `start`, in the process that serves."""

    def __init__(
        self,
        peers: Mapping[str, Peer],
        conventions: Conventions,
        count: Callable[[str, int], None],
    ) -> None:
        """
        Args:
            peers: where the upstreams are called.
            conventions: which names attributes have.
            count: called with a result and a number of requests: `sent` or `failed` from the
                thread, `dropped` from the event loop.
        """
        self._peers = peers
        self._conventions = conventions
        self._count = count
        self._sender: Sender
        self._thread = BatchThread[TracedRequest](
            "traces",
            self._take,
            self._end,
            most=_MOST_WAITING,
            at_once=_AT_ONCE,
            every_s=_EVERY_S,
        )

    @property
    def waiting(self) -> int:
        """How many requests wait to be sent."""
        return self._thread.size

    def start(self) -> None:
        """Start the thread.

        Raises:
            ImportError: OpenTelemetry's SDK is not installed.
        """
        from dragoman.observability.traces.otlp import Sender

        self._sender = Sender()
        self._thread.start()

    def add_peers(self, peers: Mapping[str, Peer]) -> None:
        """Add the upstreams of a new configuration. Those of the one before stay, for requests
        that are still in flight."""
        self._peers = {**self._peers, **peers}

    def add(self, finished: TracedRequest) -> None:
        """Queue a request's spans."""
        if not self._thread.add(finished):
            self._count("dropped", 1)

    def close(self) -> None:
        """Send what waits, within two seconds, and end the thread."""
        self._thread.close()

    def _take(self, batch: Sequence[TracedRequest]) -> None:
        if batch:
            self._send(self._sender, batch)

    def _end(self) -> None:
        self._sender.close()

    def _send(self, sender: Sender, batch: Sequence[TracedRequest]) -> None:
        spans = [
            span
            for finished in batch
            for span in spans_of(finished, self._peers, self._conventions)
        ]
        try:
            sent = sender.send(spans)
        except Exception as error:
            # Its message may quote what was to be sent.
            _log.warning("traces cannot be sent: %s", type(error).__name__)
            sent = False
        self._count("sent" if sent else "failed", len(batch))
