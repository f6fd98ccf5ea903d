"""The thread that writes the request log."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dragoman.observability.batch_thread import BatchThread
from dragoman.observability.finished import FinishedRequest
from dragoman.observability.request_log.rows import count_losses, entry_of
from dragoman.storage.bodies import Body, BodyFiles
from dragoman.storage.request_log import (
    LOSS_SLOT_S,
    Dropped,
    LossCount,
    LossKey,
    RequestLogFiles,
)

_log = logging.getLogger("dragoman.gateway")

_MOST_WAITING = 8192
"""Requests that may wait to be written; further ones are dropped and counted."""
_MOST_BODY_BYTES = 32 * 1024 * 1024
"""Bytes of bodies that may wait to be written; those of further requests are not stored."""
_AT_ONCE = 64
"""Requests after which the thread releases the GIL."""
_REFUSALS_EACH_S = 10
"""Requests of one key, or of all callers without a key, refused for the same reason within a
second that are written; further ones are only counted. A client that repeats a refused request
cannot fill the log."""
_BAD = 400
_EVERY_S = 0.25
_SWEEP_S = 30.0
_LOG_AGAIN_S = 60.0
_MOST_PATHS = 500


class RequestLog:
    """The request log, written in a thread of its own. It is started with `start`, in the process
    that serves."""

    def __init__(
        self,
        files: RequestLogFiles,
        bodies: BodyFiles,
        protocols: Mapping[str, str],
        count: Callable[[str, int], None],
        took: Callable[[float], object],
    ) -> None:
        """
        Args:
            files: the files of requests.
            bodies: the files of stored bodies.
            protocols: the protocol of each upstream, by its name.
            count: called with a result and a number of requests: `written` or `failed` from the
                thread, `dropped` or `repeated` from the event loop.
            took: called in the thread with the seconds of each write.
        """
        self.files = files
        self.bodies = bodies
        self._body_bytes = 0
        """Bytes of bodies that wait."""
        self._protocols = protocols
        self._count = count
        self._took = took
        self._thread = BatchThread[FinishedRequest](
            "request log",
            self._take,
            self._end,
            most=_MOST_WAITING,
            at_once=_MOST_WAITING,
            every_s=_EVERY_S,
        )
        self._dropped: Dropped | None = None
        self._dropping = threading.Lock()
        """Guards `_dropped`, which the event loop and the thread change."""
        self._second = 0
        self._refusals: Counter[tuple[str, int, str]] = Counter()
        """Refusals within that second, by key, status and limit."""
        self._paths: set[str] = set()
        self._paths_of = 0
        self._swept_at = 0.0
        self._logged_at = 0.0

    @property
    def waiting(self) -> int:
        """How many requests wait to be written."""
        return self._thread.size

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add_protocols(self, protocols: Mapping[str, str]) -> None:
        """Add the upstreams of a new configuration. Those of the one before stay, for requests
        that are still in flight."""
        self._protocols = {**self._protocols, **protocols}

    def add(self, request: FinishedRequest) -> None:
        """Queue a request."""
        if request.status >= _BAD and not request.record.attempts and self._is_repeated(request):
            self._leave_out(request, "repeated")
            return
        kept = request.record.bodies
        if kept is not None and self._body_bytes + kept.size > _MOST_BODY_BYTES:
            kept = request.record.bodies = None
        if self._thread.add(request):
            if kept is not None:
                self._body_bytes += kept.size
        else:
            self._leave_out(request, "dropped")

    def _is_repeated(self, request: FinishedRequest) -> bool:
        """Whether enough requests refused like this one were written in this second."""
        second = int(request.at)
        if second != self._second:
            self._second, self._refusals = second, Counter()
        alike = request.record.caller, request.status, request.record.limit
        self._refusals[alike] += 1
        return self._refusals[alike] > _REFUSALS_EACH_S

    def _leave_out(self, request: FinishedRequest, why: str) -> None:
        with self._dropping:
            before = self._dropped
            first, count = (request.at, 0) if before is None else (before.first, before.count)
            self._dropped = Dropped(first, request.at, count + 1)
        self._count(why, 1)

    def close(self) -> None:
        """Write what waits, within two seconds, and end the thread."""
        self._thread.close()

    def _take(self, batch: Sequence[FinishedRequest]) -> None:
        with self._dropping:
            dropped, self._dropped = self._dropped, None
        if batch or dropped is not None:
            self._write(batch, dropped)
        now = time.monotonic()
        if now - self._swept_at >= _SWEEP_S:
            self._swept_at = now
            try:
                self.files.sweep()
                self.bodies.sweep()
            except OSError as error:
                self._log_failure(error)

    def _end(self) -> None:
        self.files.close()
        self.bodies.close()

    def _write(self, batch: Sequence[FinishedRequest], dropped: Dropped | None) -> None:
        entries, losses = [], dict[LossKey, LossCount]()
        slot = int(time.time()) // LOSS_SLOT_S
        if slot != self._paths_of:
            self._paths_of, self._paths = slot, set()
        try:
            for number, request in enumerate(batch, 1):
                entry = entry_of(request)
                entries.append(entry)
                protocol = self._protocols.get(entry.upstream, "")
                count_losses(request, entry.client, protocol, losses, self._paths, _MOST_PATHS)
                if number % _AT_ONCE == 0:
                    time.sleep(0)
            began = time.perf_counter()
            self.files.write(entries, losses, dropped)
            self._took(time.perf_counter() - began)
        except Exception as error:
            self._log_failure(error)
            self._count("failed", len(batch))
        else:
            self._count("written", len(batch))
        self._write_bodies(batch)

    def _write_bodies(self, batch: Sequence[FinishedRequest]) -> None:
        bodies: list[Body] = []
        for request in batch:
            kept, request.record.bodies = request.record.bodies, None
            if kept is not None:
                self._body_bytes -= kept.size
                bodies += [
                    Body(request.request_id, name, request.at, length, text)
                    for name, (text, length) in kept.bodies().items()
                ]
        if bodies:
            try:
                self.bodies.write(bodies)
            except Exception as error:
                self._log_failure(error)

    def _log_failure(self, error: Exception) -> None:
        """Log a failure, at most once a minute, without its message, which may quote a request."""
        now = time.monotonic()
        if now - self._logged_at >= _LOG_AGAIN_S or not self._logged_at:
            self._logged_at = now
            _log.warning("the log of requests cannot be written: %s", type(error).__name__)
