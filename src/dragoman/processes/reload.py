"""Reading a configuration anew, in all processes of a gateway or in none.

The process that watches the workers reads the file once, and has each worker make it ready
(`prepare`). Only if all can, all are told to serve it (`commit`); else to forget it (`drop`).
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from msgspec import Struct

from dragoman.config.changes import Changes
from dragoman.config.source import Snapshot, stamp
from dragoman.processes.helper import receive, send

_log = logging.getLogger("dragoman.gateway")

ANSWER_S = 15.0
"""Seconds in which a worker has to make a configuration ready, or to begin to serve it."""

WATCHED_EVERY_S = 1.0


MOST_TOLD = 50
"""Problems, and warnings, of a configuration that are told; the others are only counted."""


def shortened(told: tuple[str, ...]) -> tuple[str, ...]:
    """The first of them, and how many there are beyond."""
    more = len(told) - MOST_TOLD
    return (*told[:MOST_TOLD], f"and {more} more") if more > 0 else told


class Report(Struct, frozen=True, omit_defaults=True):
    """What a reload did. `configuration` is the number of the one that is served, counted from 1,
    and `digest` distinguishes it from others; with `problems` it is the one that was served
    before. `warnings` are of a configuration that can be used."""

    configuration: int
    digest: str = ""
    changes: Changes = Changes()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Pending(Struct, frozen=True, omit_defaults=True):
    """What a reload would do: `digest` is that of what the file says, `changes` what is different
    of that from what is served. With `problems` it would be refused."""

    digest: str = ""
    changes: Changes = Changes()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ReloadError(Exception):
    """A configuration cannot take the place of the one that is served, for these `problems`.
    `files` are those that it names, as far as they are known."""

    def __init__(self, problems: tuple[str, ...], files: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        self.files = files


@contextmanager
def failures_told() -> Iterator[None]:
    """Whatever goes wrong here with a configuration is a reason not to serve it, and no more.

    Raises:
        ReloadError: something went wrong; what nobody thought of is in the log.
    """
    try:
        yield
    except ReloadError:
        raise
    except Exception as error:
        _log.exception("a configuration could not be made ready")
        raise ReloadError((type(error).__name__,)) from None


def log_report(report: Report) -> None:
    """Tell of a reload in the log, in one line."""
    if report.problems:
        told = "; ".join(report.problems)
        _log.error("reload: nothing was changed, the configuration cannot be used: %s", told)
        return
    for warning in report.warnings:
        _log.warning("reload: %s", warning)
    _log.info("reload: configuration %d is served: %s", report.configuration, report.changes)


Seen = Mapping[str, tuple[int, int, int, int] | None]
"""What tells that a file is another than before, by its path; None of one that is not there."""


class Watch:
    """Sees that files changed, and have come to rest: a file may be written in several steps."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self._files = files
        self._known = self._last = stamp(files)
        self._next = time.monotonic() + WATCHED_EVERY_S

    def has_changed(self) -> bool:
        """Whether there is something new since the last time that there was. Looks once in
        `WATCHED_EVERY_S` at most."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + WATCHED_EVERY_S
        found = stamp(self._files)
        rests, self._last = found == self._last, found
        if not rests or found == self._known:
            return False
        self._known = found
        return True

    def miss(self) -> None:
        """What the files are is new, although nothing was seen to change."""
        self._known = (None,) * len(self._files)

    def seen(self) -> Seen:
        """What the files are now: to be given to `follow` when they were read after that."""
        return dict(zip(self._files, stamp(self._files), strict=True))

    def follow(self, files: tuple[str, ...], seen: Seen) -> None:
        """Watch these files from now on."""
        self._files, self._last = files, stamp(files)
        now = zip(files, self._last, strict=True)
        self._known = tuple(seen.get(file, found) for file, found in now)

    def add(self, files: Iterable[str]) -> None:
        """Watch these files, too: those of a configuration that is not served, or not yet. It may
        be usable once one of them is another."""
        more = tuple(file for file in dict.fromkeys(files) if file not in self._files)
        found = stamp(more)
        self._files += more
        self._known += found
        self._last += found


class WorkerLink:
    """A worker's end of the link to the process that watches it. `prepare` makes a configuration
    ready, or raises `ReloadError`; `adopt` serves what `prepare` gave."""

    def __init__(
        self,
        sock: socket.socket,
        prepare: Callable[[Snapshot, int], Awaitable[Any]],
        adopt: Callable[[Any], None],
    ) -> None:
        self._sock = sock
        self._prepare = prepare
        self._adopt = adopt
        self._attempt = 0
        """That in which a configuration is made ready; 0 in none."""
        self._ready: Any = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[int, asyncio.Future[Report]] = {}
        self._numbers = count(1)

    def start(self) -> None:
        """Hear what is told, in the running loop."""
        # The loop has it return at once; so the rest of a message that is not all there is awaited.
        self._sock.settimeout(ANSWER_S)
        asyncio.get_running_loop().add_reader(self._sock, self._hear)

    async def reload(self) -> Report:
        """Have the configuration read anew, by all workers.

        Raises:
            ReloadError: nobody is there to do it.
        """
        number = next(self._numbers)
        self._asked[number] = asked = asyncio.get_running_loop().create_future()
        try:
            send(self._sock, ("reload", number, None), b"")
            report: Report = await asked
        except OSError:
            raise ReloadError(("the gateway is ending",)) from None
        finally:
            del self._asked[number]
        return report

    def _hear(self) -> None:
        try:
            (told, number, value), _ = receive(self._sock)
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._sock)
            for one in tuple(self._asked):
                self._answer(one, Report(0, problems=("the gateway is ending",)))
            return
        if told == "prepare":
            self._attempt, self._ready = number, None
            task = asyncio.create_task(self._make_ready(number, *value))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif told == "commit" and self._attempt == number and self._ready is not None:
            self._adopt(self._ready)
            self._attempt, self._ready = 0, None
            self._tell("adopted", number, None)
        elif told == "drop":
            self._attempt, self._ready = 0, None
        elif told == "report":
            self._answer(number, value)

    async def _make_ready(self, attempt: int, snapshot: Snapshot, number: int) -> None:
        problems: tuple[str, ...] = ()
        try:
            with failures_told():
                ready = await self._prepare(snapshot, number)
            if self._attempt == attempt:  # It may have taken too long.
                self._ready = ready
        except ReloadError as error:
            problems = error.problems
        self._tell("prepared", attempt, problems)

    def _answer(self, number: int, report: Report) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(report)

    def _tell(self, told: str, number: int, value: object) -> None:
        try:
            send(self._sock, (told, number, value), b"")
        except OSError:
            return


class WorkerLinks:
    """The links to all workers, in the process that watches them. `asked` is who wants to be told
    the report of a reload: workers, and the number of what each asked."""

    def __init__(self, workers: int) -> None:
        self._ours: list[socket.socket | None] = [None] * workers
        self._theirs: socket.socket | None = None
        self.asked: set[tuple[int, int]] = set()

    def open(self, number: int) -> None:
        """A process is about to be started for worker `number`."""
        former = self._ours[number]
        if former is not None:
            former.close()
        self._ours[number], self._theirs = socket.socketpair()

    def opened(self) -> None:
        """In this process: it was started."""
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    def hold(self) -> socket.socket:
        """In the worker: its own end, and nothing of the others."""
        for one in self._ours:
            if one is not None:
                one.close()
        assert self._theirs is not None
        return self._theirs

    def hear(self) -> None:
        """Hear what workers want, without waiting."""
        self._gather({}, "", 0, 0.0)

    def tell(self, told: str, number: int, value: object = None) -> dict[int, object]:
        """Tell all workers that are there; the workers that could be told."""
        reached: dict[int, object] = {}
        for worker, sock in enumerate(self._ours):
            if sock is None:
                continue
            try:
                sock.settimeout(ANSWER_S)
                send(sock, (told, number, value), b"")
                reached[worker] = None
            except OSError:
                self._close(worker)
        return reached

    def ask(self, told: str, number: int, answer: str, value: object = None) -> dict[int, object]:
        """Tell all workers that are there, and wait for their answers: by worker, `NO_ANSWER` of
        one that gave none in time. Those that end meanwhile are left out."""
        waiting = dict.fromkeys(self.tell(told, number, value), NO_ANSWER)
        return self._gather(waiting, answer, number, ANSWER_S)

    def _gather(
        self, found: dict[int, object], answer: str, number: int, seconds: float
    ) -> dict[int, object]:
        missing = set(found)
        until = time.monotonic() + seconds
        while True:
            links = {sock: worker for worker, sock in enumerate(self._ours) if sock is not None}
            left = max(0.0, until - time.monotonic()) if missing else 0.0
            readable = select.select(list(links), [], [], left)[0]
            if not readable:
                return found
            for sock in readable:
                worker = links[sock]
                try:
                    sock.settimeout(ANSWER_S)
                    (told, about, value), _ = receive(sock)
                except (EOFError, OSError):
                    self._close(worker)
                    missing.discard(worker)
                    found.pop(worker, None)
                    continue
                if told == "reload":
                    self.asked.add((worker, about))
                elif told == answer and about == number and worker in missing:
                    missing.discard(worker)
                    found[worker] = value

    def report(self, asked: Iterable[tuple[int, int]], report: Report) -> None:
        """Tell those who asked."""
        for worker, number in asked:
            sock = self._ours[worker]
            if sock is not None:
                try:
                    send(sock, ("report", number, report), b"")
                except OSError:
                    self._close(worker)

    def _close(self, worker: int) -> None:
        sock, self._ours[worker] = self._ours[worker], None
        if sock is not None:
            sock.close()
        self.asked = {one for one in self.asked if one[0] != worker}


NO_ANSWER = object()
