"""The process that keeps the workers running."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import uvloop

from dragoman.link.owner import Owner
from dragoman.processes.backoff import BackOff
from dragoman.processes.forks import Forks
from dragoman.processes.table import WorkerTable
from dragoman.processes.take_over import Offer
from dragoman.processes.worker import SHOW_STACK, Lifeline, reset_signals

_log = logging.getLogger("dragoman.gateway")

_POLL_S = 0.1
_KILLED_S = 0.01
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


class Supervised(Protocol):
    """What is supervised. All but `work` is called in the event loop of the supervisor."""

    def work(self, number: int, sock: socket.socket) -> None:
        """Be worker `number`, in a process of its own; `sock` is linked to the owner."""

    async def start(self) -> None:
        """Begin, before there is a worker."""

    def on_serving(self) -> None:
        """All workers serve, for the first time."""

    def on_hangup(self) -> None:
        """SIGHUP came."""

    async def on_stop(self) -> None:
        """The workers are asked to stop next: close here what they share, such as the sockets they
        listen on."""

    async def close(self) -> None:
        """The workers have ended."""


class Supervisor:
    """Forks the workers of `table` and replaces those that end, or give no sign of life for
    `stuck_after_s` seconds (0: however long). Each is linked to `owner`.

    A worker that keeps ending is started at growing intervals; the others serve on. SIGINT and
    SIGTERM are passed on, also an interrupt after the first signal, and processes that are not gone
    `grace_s` seconds later, and a little, are killed. Workers stop by themselves when this process
    is gone.

    All but the forks happens in an event loop, which stands still while a process is forked: so the
    child begins outside of it. `forks` prevents them while threads of this process work.
    """

    def __init__(
        self,
        table: WorkerTable,
        supervised: Supervised,
        *,
        grace_s: float,
        stuck_after_s: float,
        offer: Offer,
        owner: Owner,
        forks: Forks,
    ) -> None:
        self._table = table
        self._supervised = supervised
        self._grace_s = grace_s
        self._stuck_after_s = stuck_after_s
        self._offer = offer
        self._owner = owner
        self._forks = forks
        self._workers = [_Worker(number) for number in range(table.workers)]
        self._unaccepted: list[tuple[socket.socket, int]] = []
        self._lifeline = Lifeline()
        self._stopping = False
        self._hurries = False
        """Whether an interrupt after the first signal is to be passed on."""
        self._is_hung_up = False
        self._any_served = False
        self._all_served = False
        self._failed_starts = 0
        self._has_failed = False
        self._looked = time.monotonic()
        self._woken = asyncio.Event()

    def run(self) -> None:
        """Serve until asked to stop.

        Raises:
            SystemExit: no worker could begin to serve.
        """
        before = {number: signal.signal(number, self._on_signal) for number in _HANDLED}
        loop = uvloop.new_event_loop()
        loop.add_reader(self._offer.fileno(), self._offer.work)
        try:
            loop.run_until_complete(self._supervised.start())
            while not self._stopping:
                self._start_workers()
                loop.run_until_complete(self._supervise())
        finally:
            loop.remove_reader(self._offer.fileno())
            self._offer.close()
            loop.run_until_complete(self._stop())
            self._lifeline.close()
            loop.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._has_failed:
            raise SystemExit(1)

    def stop(self) -> None:
        """End as upon a signal."""
        self._stopping = True

    def _on_signal(self, number: int, frame: object) -> None:
        if number in _STOP:
            if self._stopping and number == signal.SIGINT:
                self._hurries = True
            self._stopping = True
        elif number == signal.SIGHUP:
            self._is_hung_up = True
        self._woken.set()

    def replace(self, number: int) -> None:
        """Have worker `number` end what it serves, and start another."""
        worker = self._workers[number]
        if worker.pid:
            _send(worker.pid, signal.SIGTERM)

    async def _supervise(self) -> None:
        """Supervise the workers until another is to be started, or all are to stop."""
        self._forks.forked()
        for sock, number in self._unaccepted:
            await self._owner.accept(sock, number)
        self._unaccepted.clear()
        while True:
            self._woken.clear()
            self._reap()
            now = time.monotonic()
            self._watch(now)
            self._check_serving()
            if self._is_hung_up:
                self._is_hung_up = False
                self._supervised.on_hangup()
            if self._stopping or (self._due(now) and self._forks.may_fork()):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._woken.wait()

    def _check_serving(self) -> None:
        if not self._all_served:
            serving = self._table.count_serving()
            self._any_served = self._any_served or serving > 0
            if serving == self._table.workers:
                self._all_served = True
                self._supervised.on_serving()

    def _due(self, now: float) -> list[_Worker]:
        """The workers that are to be started."""
        return [worker for worker in self._workers if not worker.pid and now >= worker.due]

    def _start_workers(self) -> None:
        for worker in self._due(time.monotonic()):
            self._fork(worker)

    def _fork(self, worker: _Worker) -> None:
        """Start a worker. Signals wait meanwhile: one that comes between the fork and the worker's
        own handling must not be taken by a handler of this process, where nobody would see it."""
        self._table.started(worker.number)
        worker.born = time.monotonic()
        worker.silent_s, worker.shown = 0.0, False
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        ours, theirs = socket.socketpair()
        worker.pid = os.fork()
        if worker.pid:
            theirs.close()
            self._unaccepted.append((ours, worker.number))
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return
        ours.close()
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            reset_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._lifeline.hold(self._grace_s + _OVER_GRACE_S)
            self._offer.forget()
            self._owner.forget()
            for sock, _ in self._unaccepted:
                sock.close()
            self._supervised.work(worker.number, theirs)
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
        """Record the workers that ended."""
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
                    self._has_failed = self._stopping = True

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

    async def _stop(self) -> None:
        self._stopping = True
        await self._supervised.on_stop()
        self._signal_all(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s + _OVER_GRACE_S
        while any(worker.pid for worker in self._workers) and time.monotonic() < deadline:
            self._reap()
            await asyncio.sleep(_POLL_S / 2)
            if self._hurries:
                # After the first signal has arrived: of two that wait, the lower one comes first.
                self._hurries = False
                self._signal_all(signal.SIGINT)
        self._signal_all(signal.SIGKILL)
        while any(worker.pid for worker in self._workers):
            self._reap()
            await asyncio.sleep(_KILLED_S)
        await self._supervised.close()

    def _signal_all(self, number: signal.Signals) -> None:
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
