"""The process that keeps the workers running."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from dragoman.processes.backoff import BackOff
from dragoman.processes.reload import WorkerLinks
from dragoman.processes.table import WorkerTable
from dragoman.processes.take_over import Offer
from dragoman.processes.worker import SHOW_STACK, Lifeline, reset_signals

_log = logging.getLogger("dragoman.gateway")

_POLL_S = 0.1
_OVER_GRACE_S = 5.0
"""Seconds that workers have beyond those of their requests, to close what they hold."""

_MOST_FAILED_STARTS = 5
"""Workers that may end before any has served: then it is not one request that is at fault, but what
all have in common, and whoever started the gateway should see it."""

_STOP = (signal.SIGINT, signal.SIGTERM)
_HANDLED = (*_STOP, signal.SIGHUP, signal.SIGCHLD)


@dataclass(slots=True)
class _Worker:
    """What is known of one worker. Times are monotonic seconds."""

    number: int
    pid: int = 0
    """0 while there is none."""
    born: float = 0.0
    due: float = 0.0
    """When the next is to be started, if there is none."""
    back_off: BackOff = field(default_factory=BackOff)
    last_beat: float = 0.0
    silent_s: float = 0.0
    """For how long there was no sign of life, in time in which this process itself could run."""
    shown: bool = False
    """Whether its stack was logged since the last sign of life."""


class Reloads(Protocol):
    """Reads the configuration anew, for all workers; each has a link."""

    @property
    def links(self) -> WorkerLinks:
        """The links to the workers."""

    def ask(self) -> None:
        """Do it when there is time for it. Called from a handler of signals."""

    def work(self) -> None:
        """Do what there is to do."""


class Supervisor:
    """Forks the workers of `table`, each of which calls `work` with its number, and replaces those
    that end or give no sign of life for `stuck_after_s` seconds (0: however long).

    A worker that keeps ending is started at growing intervals; the others serve on. SIGINT and
    SIGTERM are passed on, and processes that are not gone `grace_s` seconds later, and a little,
    are killed; SIGHUP has `reloads` read the configuration anew. Workers stop by themselves when
    this process is gone. `on_serving` is called when all workers serve for the first time;
    `on_stop` before they are told to stop: it gives up here what they share, such as the sockets
    they listen on.
    """

    def __init__(
        self,
        table: WorkerTable,
        work: Callable[[int], None],
        *,
        grace_s: float,
        stuck_after_s: float,
        offer: Offer,
        on_serving: Callable[[], None],
        on_stop: Callable[[], None],
        reloads: Reloads | None = None,
    ) -> None:
        self._reloads = reloads
        self._table = table
        self._work = work
        self._grace_s = grace_s
        self._stuck_after_s = stuck_after_s
        self._offer = offer
        self._on_serving = on_serving
        self._on_stop = on_stop
        self._workers = [_Worker(number) for number in range(table.workers)]
        self._lifeline = Lifeline()
        self._stopping = False
        self._any_served = False
        self._all_served = False
        self._failed_starts = 0
        self._looked = time.monotonic()

    def run(self) -> None:
        """Serve until told to stop.

        Raises:
            SystemExit: no worker could begin to serve.
        """
        before = {number: signal.signal(number, self._on_signal) for number in _HANDLED}
        waking, woken = os.pipe()
        for end in (waking, woken):
            os.set_blocking(end, False)
        before_wakeup = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(waking, selectors.EVENT_READ)
        selector.register(self._offer, selectors.EVENT_READ)
        try:
            while not self._stopping:
                self._look_after()
                if not self._stopping:
                    selector.select(_POLL_S)
                    _drain(waking)
                    self._offer.work()
        finally:
            selector.close()
            self._offer.close()
            self._stop()
            self._lifeline.close()
            signal.set_wakeup_fd(before_wakeup)
            for end in (waking, woken):
                os.close(end)
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        """End as if told to by a signal."""
        self._stopping = True

    def _on_signal(self, number: int, frame: object) -> None:
        if number in _STOP:
            self._stopping = True
        elif number == signal.SIGHUP and self._reloads is not None:
            self._reloads.ask()

    def replace(self, number: int) -> None:
        """Have worker `number` end what it serves, and start another."""
        worker = self._workers[number]
        if worker.pid:
            _send(worker.pid, signal.SIGTERM)

    def _look_after(self) -> None:
        self._reap()
        now = time.monotonic()
        for worker in self._workers:
            if not worker.pid and now >= worker.due:
                self._fork(worker)
        self._watch(now)
        if self._reloads is not None:
            self._reloads.work()
        if not self._all_served:
            serving = self._table.count_serving()
            self._any_served = self._any_served or serving > 0
            if serving == self._table.workers:
                self._all_served = True
                self._on_serving()

    def _fork(self, worker: _Worker) -> None:
        """Start a worker. Signals wait meanwhile: one that comes between the fork and the worker's
        own handling must not be taken by a handler of this process, where nobody would see it."""
        self._table.started(worker.number)
        worker.born = time.monotonic()
        worker.silent_s, worker.shown = 0.0, False
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        if self._reloads is not None:
            self._reloads.links.open(worker.number)
        worker.pid = os.fork()
        if worker.pid:
            if self._reloads is not None:
                self._reloads.links.opened()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            reset_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._lifeline.hold(self._grace_s + _OVER_GRACE_S)
            self._offer.forget()
            self._work(worker.number)
            status = 0
        except KeyboardInterrupt:
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:
            _log.exception("worker %d cannot go on", worker.number)
        finally:
            # Never back into the code of the parent.
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        """Take note of the workers that ended."""
        for worker in self._workers:
            if not worker.pid:
                continue
            gone, status = os.waitpid(worker.pid, os.WNOHANG)
            if not gone:
                continue
            pid, worker.pid = worker.pid, 0
            if self._stopping:
                continue
            self._table.ended(worker.number)
            now = time.monotonic()
            wait_s = worker.back_off.ended(now - worker.born)
            worker.due = now + wait_s
            _log.error(
                "worker %d (process %d) ended with %s; another starts in %.1f s",
                worker.number,
                pid,
                _how_ended(status),
                wait_s,
            )
            if not self._any_served:
                self._failed_starts += 1
                if self._failed_starts >= _MOST_FAILED_STARTS:
                    _log.error("workers end before they serve")
                    raise SystemExit(1)

    def _watch(self, now: float) -> None:
        """See to workers that give no sign of life: their stack is logged when half of their time
        is over, and they are killed at its end."""
        # A time in which nothing was looked at, as when the machine stood still, says nothing.
        passed = min(now - self._looked, 5 * _POLL_S)
        self._looked = now
        if not self._stuck_after_s:
            return
        for worker in self._workers:
            beat = self._table.last_beat(worker.number)
            if not worker.pid or beat != worker.last_beat:
                worker.last_beat, worker.silent_s, worker.shown = beat, 0.0, False
                continue
            worker.silent_s += passed
            if worker.silent_s >= self._stuck_after_s:
                _log.error(
                    "worker %d (process %d) is stuck for %.0f s and is replaced",
                    worker.number,
                    worker.pid,
                    worker.silent_s,
                )
                worker.silent_s = 0.0
                _send(worker.pid, signal.SIGKILL)
            elif worker.silent_s >= self._stuck_after_s / 2 and not worker.shown:
                worker.shown = True
                _log.warning(
                    "worker %d (process %d) gives no sign of life; its stack follows",
                    worker.number,
                    worker.pid,
                )
                _send(worker.pid, SHOW_STACK)

    def _stop(self) -> None:
        self._stopping = True
        self._on_stop()
        self._tell(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s + _OVER_GRACE_S
        while any(worker.pid for worker in self._workers) and time.monotonic() < deadline:
            self._reap()
            time.sleep(_POLL_S / 2)
        self._tell(signal.SIGKILL)
        for worker in self._workers:
            if worker.pid:
                os.waitpid(worker.pid, 0)

    def _tell(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.pid:
                _send(worker.pid, number)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _how_ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _drain(pipe: int) -> None:
    try:
        while os.read(pipe, 4096):
            pass
    except BlockingIOError:
        return
