"""The thread that writes down requests that have ended."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dragoman.observability.batch_thread import BatchThread
from dragoman.observability.request_log.rows import Ended, count_losses, entry_of
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
"""Requests that wait to be written; further ones are dropped, and counted."""
_MOST_HELD = 32 * 1024 * 1024
"""Bytes of bodies that wait to be written; those of further requests are not kept."""
_AT_ONCE = 64
"""Requests between which the thread lets others have Python's lock."""
_REFUSALS_EACH_S = 10
"""Requests of one key in a second that were refused alike, and of all without a key, that are
written down; further ones are counted. A client that asks again and again, or a stranger, does not
fill the log, nor take the time of others."""
_BAD = 400
_EVERY_S = 0.25
_SWEEP_S = 30.0
_TOLD_S = 60.0
_MOST_PATHS = 500


class RequestLog:
    """Writes down requests, in a thread of its own. It is started with `start`, in the process that
    serves."""

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
            files: where they are written.
            bodies: where the bodies are that are kept.
            protocols: what each upstream speaks, by its name.
            count: is called with what became of how many requests: `written` or `failed` from the
                thread, `dropped` or `repeated` from where they are added.
            took: is called in the thread with the seconds of each writing.
        """
        self.files = files
        self.bodies = bodies
        self._held = 0
        """Bytes of bodies that wait."""
        self._protocols = protocols
        self._count = count
        self._took = took
        self._thread = BatchThread[Ended](
            "request log",
            self._take,
            self._end,
            most=_MOST_WAITING,
            at_once=_MOST_WAITING,
            every_s=_EVERY_S,
        )
        self._dropped: Dropped | None = None
        self._dropping = threading.Lock()
        """For who reads and writes `_dropped`: requests are left out while the thread writes."""
        self._second = 0
        self._refusals: Counter[tuple[str, int, str]] = Counter()
        """How often each key was refused by what within that second."""
        self._paths: set[str] = set()
        self._paths_of = 0
        self._swept_at = 0.0
        self._told_at = 0.0

    @property
    def waiting(self) -> int:
        """How many requests wait to be written down."""
        return self._thread.size

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def know(self, protocols: Mapping[str, str]) -> None:
        """Upstreams of another configuration speak these. Requests of the one before may still be
        under way."""
        self._protocols = {**self._protocols, **protocols}

    def add(self, ended: Ended) -> None:
        """Write a request down, later."""
        if ended.status >= _BAD and not ended.record.attempts and self._is_repeated(ended):
            self._leave_out(ended, "repeated")
            return
        kept = ended.record.kept
        if kept is not None and self._held + kept.size > _MOST_HELD:
            kept = ended.record.kept = None
        if self._thread.add(ended):
            if kept is not None:
                self._held += kept.size
        else:
            self._leave_out(ended, "dropped")

    def _is_repeated(self, ended: Ended) -> bool:
        """Whether enough are written down that were refused like this one, for which no upstream
        was asked."""
        second = int(ended.at)
        if second != self._second:
            self._second, self._refusals = second, Counter()
        alike = ended.record.caller, ended.status, ended.record.limit
        self._refusals[alike] += 1
        return self._refusals[alike] > _REFUSALS_EACH_S

    def _leave_out(self, ended: Ended, why: str) -> None:
        with self._dropping:
            before = self._dropped
            first, count = (ended.at, 0) if before is None else (before.first, before.count)
            self._dropped = Dropped(first, ended.at, count + 1)
        self._count(why, 1)

    def close(self) -> None:
        """Write down what waits, if that takes no longer than two seconds, and end the thread."""
        self._thread.close()

    def _take(self, batch: Sequence[Ended]) -> None:
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
                self._tell(error)

    def _end(self) -> None:
        self.files.close()
        self.bodies.close()

    def _write(self, batch: Sequence[Ended], dropped: Dropped | None) -> None:
        entries, losses = [], dict[LossKey, LossCount]()
        slot = int(time.time()) // LOSS_SLOT_S
        if slot != self._paths_of:
            self._paths_of, self._paths = slot, set()
        try:
            for number, ended in enumerate(batch, 1):
                entries.append(entry_of(ended))
                protocol = self._protocols.get(ended.record.upstream, "")
                count_losses(ended, protocol, losses, self._paths, _MOST_PATHS)
                if number % _AT_ONCE == 0:
                    time.sleep(0)
            began = time.perf_counter()
            self.files.write(entries, losses, dropped)
            self._took(time.perf_counter() - began)
        except Exception as error:
            self._tell(error)
            self._count("failed", len(batch))
        else:
            self._count("written", len(batch))
        self._write_bodies(batch)

    def _write_bodies(self, batch: Sequence[Ended]) -> None:
        bodies: list[Body] = []
        for ended in batch:
            kept, ended.record.kept = ended.record.kept, None
            if kept is not None:
                self._held -= kept.size
                bodies += [
                    Body(ended.request_id, name, ended.at, length, text)
                    for name, (text, length) in kept.bodies().items()
                ]
        if bodies:
            try:
                self.bodies.write(bodies)
            except Exception as error:
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Log a failure, at most once a minute. What it says may quote what was to be written."""
        now = time.monotonic()
        if now - self._told_at >= _TOLD_S or not self._told_at:
            self._told_at = now
            _log.warning("the log of requests cannot be written: %s", type(error).__name__)
