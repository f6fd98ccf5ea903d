"""The configuration of a gateway as it is, and what becomes of it when its file is read anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from dragoman.accounts.store import StoreError
from dragoman.config import Config, ConfigError
from dragoman.config.changes import Changes, changes, usable_now
from dragoman.config.checks import errors
from dragoman.config.source import Snapshot, Source
from dragoman.operations.configuration import note_reload
from dragoman.processes.reload import (
    NO_ANSWER,
    Pending,
    ReloadError,
    Report,
    Seen,
    Watch,
    WorkerLinks,
    failures_told,
    log_report,
    shortened,
)
from dragoman.server.server import Prepared, Server, check_reach, file_faults

_log = logging.getLogger("dragoman.gateway")


class Next(Struct, frozen=True):
    """A configuration that can take the place of the one that is served. `read` is what its file
    says, `config` the same with what needs a restart as it was."""

    number: int
    snapshot: Snapshot
    read: Config
    config: Config
    changes: Changes
    warnings: tuple[str, ...]


class Held:
    """The configuration that a gateway serves: what a worker that is started is given. `source` is
    where it came from, None if that can not be read again; `hosts` are the addresses that it is
    reached by."""

    def __init__(self, config: Config, source: Source | None, hosts: tuple[str, ...] = ()) -> None:
        self.config = config
        self._hosts = hosts
        self.number = 1
        self.source = source
        self._digest = ""
        self._seen: Seen | None = None
        self._watch: Watch | None = None
        if source is not None:
            self._watch = watch = Watch((source.path,))
            if config.server.watch_config:
                seen = watch.seen()
                try:
                    snapshot, loaded = source.read()
                except ConfigError:
                    watch.miss()
                else:
                    watch.follow(snapshot.files(config), seen)
                    # It may have changed while the gateway made ready to serve.
                    if loaded.config != config:
                        watch.miss()

    @property
    def has_changed(self) -> bool:
        """Whether files that are watched say something else."""
        if self._watch is None or not self.config.server.watch_config:
            return False
        return self._watch.has_changed()

    def read(self) -> Next:
        """Read the file anew, and check all that it says. Nothing is changed.

        Raises:
            ReloadError: it cannot be used.
        """
        if self._watch is None:
            return self._read(self.config)
        self._seen = self._watch.seen()
        try:
            other = self._read(self.config)
        except ReloadError as error:
            self._watch.add(error.files)
            raise
        # It may yet be refused, such as by a worker.
        self._watch.add(other.snapshot.files(other.read))
        return other

    def pending(self, served: Config) -> Pending:
        """What reading the file anew would change of what is served. Nothing is changed."""
        try:
            with failures_told():
                other = self._read(served)
        except ReloadError as error:
            return Pending(problems=shortened(error.problems))
        return Pending(other.snapshot.digest, other.changes, warnings=other.warnings)

    def _read(self, before: Config) -> Next:
        if self.source is None:
            raise ReloadError(("the configuration came from no file",))
        try:
            snapshot, loaded = self.source.read()
        except ConfigError as error:
            problems = tuple(one.located(error.file) for one in error.problems)
            raise ReloadError(problems, error.files) from None
        if not snapshot.text.strip():
            raise ReloadError((f"{self.source.path}: the file is empty",))
        served = usable_now(before, loaded.config)
        faults = tuple(errors(served)) or tuple(file_faults(served))
        if faults:
            problems = tuple(one.located(self.source.path) for one in loaded.problems(faults))
            raise ReloadError(problems, snapshot.files(loaded.config))
        try:
            for host in self._hosts:
                check_reach(served, host)
        except ValueError as error:
            raise ReloadError((str(error),)) from None
        return Next(
            self.number + 1,
            snapshot,
            loaded.config,
            served,
            changes(before, loaded.config),
            shortened(tuple(one.located(self.source.path) for one in loaded.warnings)),
        )

    def serve(self, other: Next) -> Report:
        """The other is what is served from now on."""
        if self._watch is not None and self._seen is not None:
            self._watch.follow(other.snapshot.files(other.config), self._seen)
        self.config, self.number = other.config, other.number
        self._digest = other.snapshot.digest
        return Report(self.number, self._digest, other.changes, warnings=other.warnings)

    def refuse(self, problems: tuple[str, ...]) -> Report:
        """What is served stays."""
        return Report(self.number, self._digest, problems=shortened(problems))


class OwnReload:
    """Reloads a gateway of one process."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Report]] = set()
        self._watching: asyncio.Task[None] | None = None
        self.server: Server | None = None

    def start(self) -> None:
        """Watch the file from now on, where that is wanted, in the running loop. Called again with
        each configuration."""
        if self._watching is None and self._held.config.server.watch_config:
            self._watching = asyncio.create_task(self._watch())

    def ask(self) -> None:
        """Reload, in a task of its own."""
        self._begin()

    def begin_for(self, answer: Callable[[Report], None]) -> None:
        """The same, and tell somebody of it."""
        self._begin().add_done_callback(
            lambda done: None if done.cancelled() else answer(done.result())
        )

    def _begin(self) -> asyncio.Task[Report]:
        task = asyncio.create_task(self.reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Reload no more."""
        for task in (*self._tasks, *([] if self._watching is None else [self._watching])):
            task.cancel()

    async def reload(self) -> Report:
        """Read the file anew, and serve what it says, whole or not at all."""
        server, held = self.server, self._held
        assert server is not None
        async with self._lock:
            try:
                with failures_told():
                    other = await asyncio.to_thread(held.read)
                    prepared = await asyncio.to_thread(server.prepare, other.read, other.number)
            except ReloadError as error:
                report = held.refuse(error.problems)
            else:
                server.adopt(prepared)
                report = held.serve(other)
                self.start()
                await asyncio.to_thread(_note, other)
            log_report(report)
            return report

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._held.has_changed:
                await self.reload()


_LOOK_S = 0.25


class WorkersReload:
    """Reloads a gateway of several workers, in the process that watches them. `replace` ends a
    worker, for another to be started in its place."""

    def __init__(self, held: Held, workers: int, replace: Callable[[int], None]) -> None:
        self._held = held
        self._replace = replace
        self.links = WorkerLinks(workers)
        self._answers: list[Callable[[Report], None]] = []
        self._is_asked = False
        self._attempts = 0

    def ask(self) -> None:
        """Reload when there is time for it. May be called from a handler of signals."""
        self._is_asked = True

    def begin_for(self, answer: Callable[[Report], None]) -> None:
        """The same, and tell somebody of it."""
        self._answers.append(answer)
        self._is_asked = True

    def work(self) -> None:
        """Reload, if anybody asked for it or the file changed."""
        self.links.hear()
        if not (self._is_asked or self.links.asked or self._held.has_changed):
            return
        # Who asks while the file is read may have changed it since, and has it read once more.
        self._is_asked = False
        answers, self._answers = self._answers, []
        asked, self.links.asked = self.links.asked, set()
        report = self._reload()
        log_report(report)
        for answer in answers:
            answer(report)
        self.links.report(asked, report)

    def _reload(self) -> Report:
        held, links = self._held, self.links
        try:
            with failures_told():
                other = held.read()
        except ReloadError as error:
            return held.refuse(error.problems)
        self._attempts = attempt = self._attempts + 1
        prepared = links.ask("prepare", attempt, "prepared", (other.snapshot, other.number))
        problems: dict[str, None] = {}
        for worker, told in prepared.items():
            if told is NO_ANSWER:
                problems[f"worker {worker} does not answer"] = None
            elif isinstance(told, tuple):
                problems |= dict.fromkeys(told)
        if problems:
            links.tell("drop", attempt)
            return held.refuse(tuple(problems))
        # From here on there is no way back: a worker that is started serves it too.
        report = held.serve(other)
        adopted = links.ask("commit", attempt, "adopted")
        for worker in prepared:
            if adopted.get(worker) is NO_ANSWER:
                _log.error("worker %d does not take the configuration, and is replaced", worker)
                self._replace(worker)
        _note(other)
        return report


def _note(served: Next) -> None:
    """Write down what is different. That it cannot be written down undoes nothing."""
    if not served.changes:
        return
    try:
        note_reload(served.config, served.changes)
    except StoreError as error:
        _log.warning("reload: could not be written down: %s", error)


async def prepared_for(server: Server, snapshot: Snapshot, number: int) -> Prepared:
    """In a worker: what it is to serve, ready.

    Raises:
        ReloadError: it cannot be used.
    """

    def make() -> Prepared:
        try:
            return server.prepare(snapshot.parse().config, number)
        except ConfigError as error:
            raise ReloadError(tuple(one.located(error.file) for one in error.problems)) from None

    return await asyncio.to_thread(make)
