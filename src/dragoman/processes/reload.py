"""Reading a configuration anew, in all processes of a gateway or in none.

The owner reads the file once, and has each worker make it ready (`PREPARE`). Only if all can, all
are asked to serve it (`COMMIT`); else to drop it (`DROP`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from dragoman.config import Config
from dragoman.config.changes import Changes
from dragoman.config.source import Snapshot, stamp
from dragoman.link.messages import LinkError, Notice, Peer, Question

_log = logging.getLogger("dragoman.gateway")

WATCHED_EVERY_S = 1.0


MOST_REPORTED = 50
"""Problems, and warnings, of a configuration that are reported; the others are only counted."""


def shortened(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The first of them, and how many there are beyond."""
    more = len(texts) - MOST_REPORTED
    return (*texts[:MOST_REPORTED], f"and {more} more") if more > 0 else texts


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


class ReloadRequest(Struct, frozen=True):
    """How the configuration is read again: `reload` does it for all workers, `pending` returns what
    that would change of the one that is served, and changes nothing."""

    reload: Callable[[], Awaitable[Report]]
    pending: Callable[[Config], Pending]


class ReloadError(Exception):
    """A configuration cannot take the place of the one that is served, for these `problems`.
    `files` are those that it names, as far as they are known."""

    def __init__(self, problems: tuple[str, ...], files: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        self.files = files


@contextmanager
def failures_reported() -> Iterator[None]:
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
    """Log a reload in one line."""
    if report.problems:
        problems = "; ".join(report.problems)
        _log.error("reload: nothing was changed, the configuration cannot be used: %s", problems)
        return
    for warning in report.warnings:
        _log.warning("reload: %s", warning)
    _log.info("reload: configuration %d is served: %s", report.configuration, report.changes)


Seen = Mapping[str, tuple[int, int, int, int] | None]
"""The state of each file by its path, another once it has changed; None: it does not exist."""


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


class ReloadAsked(Struct, frozen=True):
    """A worker asks for the configuration to be read anew, by all."""


class Prepare(Struct, frozen=True):
    """A worker is to make a configuration ready, which would be number `number`."""

    attempt: int
    snapshot: Snapshot
    number: int


class Prepared(Struct, frozen=True):
    """Why a configuration could not be made ready, if it could not."""

    problems: tuple[str, ...] = ()


class Commit(Struct, frozen=True):
    """A worker is to serve what it has made ready."""

    attempt: int


class Committed(Struct, frozen=True):
    """Whether it does."""

    is_served: bool


class Drop(Struct, frozen=True):
    """A worker is to forget what it has made ready."""

    attempt: int


RELOAD = Question("reload", ReloadAsked, Report)
PREPARE = Question("reload.prepare", Prepare, Prepared)
COMMIT = Question("reload.commit", Commit, Committed)
DROP = Notice("reload.drop", Drop)


class WorkerReload:
    """Has a worker serve the configuration that the owner sends. `prepare` makes it ready, or
    raises `ReloadError`; `adopt` serves what `prepare` returned."""

    def __init__(
        self,
        link: Peer,
        prepare: Callable[[Snapshot, int], Awaitable[Any]],
        adopt: Callable[[Any], None],
    ) -> None:
        self._link = link
        self._prepare = prepare
        self._adopt = adopt
        self._attempt = 0
        """That in which a configuration is made ready; 0 in none."""
        self._ready: Any = None
        link.handlers.answer(PREPARE, self._make_ready)
        link.handlers.answer(COMMIT, self._commit)
        link.handlers.receive(DROP, self._drop)

    async def reload(self) -> Report:
        """Have the configuration read anew, by all workers."""
        try:
            return await self._link.ask(RELOAD, ReloadAsked())
        except LinkError:
            return Report(0, problems=("the gateway is ending",))

    async def _make_ready(self, owner: Peer, asked: Prepare) -> Prepared:
        self._attempt, self._ready = asked.attempt, None
        try:
            with failures_reported():
                ready = await self._prepare(asked.snapshot, asked.number)
        except ReloadError as error:
            return Prepared(error.problems)
        if self._attempt == asked.attempt:  # It may have taken too long.
            self._ready = ready
        return Prepared()

    def _commit(self, owner: Peer, asked: Commit) -> Committed:
        if self._attempt != asked.attempt or self._ready is None:
            return Committed(is_served=False)
        self._adopt(self._ready)
        self._attempt, self._ready = 0, None
        return Committed(is_served=True)

    def _drop(self, owner: Peer, asked: Drop) -> None:
        self._attempt, self._ready = 0, None
