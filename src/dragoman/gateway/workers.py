"""Several processes on one socket, and the process that keeps them running."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable

_log = logging.getLogger("dragoman.gateway")

_SHORT_LIFE_S = 2.0
_MOST_SHORT_LIVES = 5
_POLL_S = 0.1


class Workers:
    """Forks `count` processes that each call `work` with a number below `count`, and replaces those
    that die: no two that live have the same number.

    SIGINT and SIGTERM are passed on; processes that are not gone `grace_s` seconds later, and a
    little, are killed. If new processes keep dying at once, all stop. They stop by themselves when
    this process is gone. `on_stop` is called before they are told to stop: it gives up here what
    they share, such as the socket they listen on.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[int], None],
        *,
        grace_s: float,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._count = count
        self._work = work
        self._grace_s = grace_s
        self._on_stop = on_stop
        self._born: dict[int, tuple[float, int]] = {}
        self._lifeline: tuple[int, int]
        self._stopping = False

    def run(self) -> None:
        """Serve until told to stop.

        Raises:
            SystemExit: the processes cannot be kept running.
        """
        before = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        short_lives = 0
        self._lifeline = os.pipe()
        try:
            while not self._stopping:
                while len(self._born) < self._count and not self._stopping:
                    self._fork()
                short_lives = self._short_lives(short_lives)
                if short_lives > _MOST_SHORT_LIVES:
                    _log.error("workers keep dying as soon as they are started")
                    raise SystemExit(1)
                time.sleep(_POLL_S)
        finally:
            self._stop()
            for end in self._lifeline:
                os.close(end)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _fork(self) -> None:
        taken = {number for _, number in self._born.values()}
        free = next(number for number in range(self._count) if number not in taken)
        pid = os.fork()
        if pid:
            self._born[pid] = time.monotonic(), free
            return
        status = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            self._hold_on()
            self._work(free)
            status = 0
        except KeyboardInterrupt:
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # Never back into the code of the parent.
            os._exit(status)

    def _hold_on(self) -> None:
        """In a worker: stop when the parent is gone, however it went. The parent alone holds the
        pipe's other end, and never writes."""
        reading, writing = self._lifeline
        os.close(writing)

        def wait() -> None:
            os.read(reading, 1)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, daemon=True).start()

    def _short_lives(self, before: int) -> int:
        """Reap the dead. Returns how many in a row, `before` included, died as soon as born."""
        for pid in list(self._born):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if not gone:
                continue
            lived = time.monotonic() - self._born.pop(pid)[0]
            if self._stopping:
                continue
            _log.error("worker %d ended with status %d", pid, os.waitstatus_to_exitcode(status))
            before = before + 1 if lived < _SHORT_LIFE_S else 1
        return before

    def _stop(self) -> None:
        self._stopping = True
        self._on_stop()
        self._tell(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s + 5.0
        while self._born and time.monotonic() < deadline:
            self._short_lives(0)
            time.sleep(_POLL_S / 2)
        self._tell(signal.SIGKILL)
        for pid in self._born:
            os.waitpid(pid, 0)

    def _tell(self, number: signal.Signals) -> None:
        for pid in self._born:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
