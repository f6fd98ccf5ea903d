"""What a process that serves does for those around it: signs of life, signals, its parent's end,
and the connections of a worker that is gone."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from dragoman.processes.table import BEAT_S, WorkerTable

SHOW_STACK = signal.SIGUSR1
"""Has a worker write the Python stacks of its threads to standard error: files, lines and names of
functions, and no value of any variable. It works while the event loop does not run."""


class Acceptor(Protocol):
    """Takes connections from one socket until it is closed."""

    def close(self) -> None:
        """Take no more. The socket itself stays open."""


Listen = Callable[[socket.socket], Awaitable[Acceptor]]
"""Begins to take connections from a socket."""


class Lifeline:
    """A pipe whose one end only the parent holds, and never writes to: when it closes, the parent
    is gone, however it went."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def hold(self, patience_s: float) -> None:
        """In a worker: end when the parent is gone, `patience_s` seconds later at the latest."""
        os.close(self._writing)

        def wait() -> None:
            os.read(self._reading, 1)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(patience_s)
            os._exit(1)

        threading.Thread(target=wait, name="lifeline", daemon=True).start()

    def close(self) -> None:
        """In the parent: be gone."""
        os.close(self._reading)
        os.close(self._writing)


def reset_signals() -> None:
    """In a worker: nothing of the parent's handling; until it serves, a reload is nothing to it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def show_stacks() -> None:
    """Write the stacks when asked to by `SHOW_STACK`, and when the process crashes."""
    try:
        file = sys.stderr.fileno()
    except (OSError, ValueError):
        return
    faulthandler.enable(file)
    faulthandler.register(SHOW_STACK, file)


@contextmanager
def handled_signals(
    stop: Callable[[signal.Signals], None], reload: Callable[[], None] | None
) -> Iterator[None]:
    """SIGINT and SIGTERM call `stop`, and SIGHUP `reload`, in the running loop; without `reload`
    SIGHUP is left alone."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if reload is not None:
            loop.remove_signal_handler(signal.SIGHUP)
            # What is left of the end is not to be cut short by it either.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


class Attendance:
    """One worker among others: gives signs of life, and takes the connections of those that give
    none, which wait in sockets of their own. `sockets` are those of each worker."""

    def __init__(
        self,
        table: WorkerTable,
        number: int,
        sockets: Sequence[Sequence[socket.socket]],
        listen: Listen,
    ) -> None:
        self._table = table
        self._number = number
        self._sockets = sockets
        self._listen = listen
        self._taken: dict[int, list[Acceptor]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Give signs of life from now on, in the running loop."""
        self._task = asyncio.create_task(self._run())

    def serving(self) -> None:
        """This worker takes connections."""
        self._table.serving(self._number)

    def close(self) -> None:
        """Take no connections of others any more; signs of life go on."""
        self._sockets = ()
        for number in list(self._taken):
            self._give_back(number)

    async def _run(self) -> None:
        while True:
            self._table.beat(self._number)
            await self._stand_in()
            await asyncio.sleep(BEAT_S)

    async def _stand_in(self) -> None:
        own = self._table.is_serving(self._number) and len(self._sockets) > 0
        orphans = self._table.orphans(self._number) if own else set()
        for number in self._taken.keys() - orphans:
            self._give_back(number)
        for number in orphans - self._taken.keys():
            taken = self._taken[number] = []
            for sock in set(self._sockets[number]).difference(self._sockets[self._number]):
                try:
                    taken.append(await self._listen(sock))
                except OSError:  # Too many open files, for one: tried again in a moment.
                    self._give_back(number)
                    break
                if number not in self._taken:  # Closed meanwhile.
                    taken.pop().close()
                    break

    def _give_back(self, number: int) -> None:
        for acceptor in self._taken.pop(number, ()):
            acceptor.close()
