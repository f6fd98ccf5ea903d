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
from dragoman.link.messages import LinkClosed, LinkError, Peer
from dragoman.link.owner import Owner
from dragoman.operations.configuration_log import record_reload
from dragoman.processes.forks import Forks
from dragoman.processes.reload import (
    COMMIT,
    DROP,
    PREPARE,
    RELOAD,
    Commit,
    Drop,
    Pending,
    Prepare,
    ReloadError,
    Report,
    Seen,
    Watch,
    failures_reported,
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


class ServedConfiguration:
    """The configuration that a gateway serves, and that it passes to a worker which it starts.
    `source` is where it came from, None if that cannot be read again; `hosts` are the addresses
    that it is reached by."""

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
            with failures_reported():
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


class Reload:
    """Has all workers of `owner` serve what the file says, or none. `replace` ends the worker of a
    number, for another to be started in its place."""

    def __init__(
        self,
        served: ServedConfiguration,
        owner: Owner,
        forks: Forks,
        replace: Callable[[int], None],
    ) -> None:
        self._served = served
        self._owner = owner
        self._forks = forks
        self._replace = replace
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[Report] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._attempts = 0
        owner.handlers.answer(RELOAD, lambda peer, asked: asyncio.shield(self.begin()))

    async def start(self) -> None:
        """Watch the file from now on, where that is wanted."""
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Reload no more."""
        for task in (self._next, self._watching):
            if task is not None:
                task.cancel()

    def begin(self) -> asyncio.Task[Report]:
        """Reload. Who asks while a file is read may have changed it since: it is read once more,
        for all who asked meanwhile."""
        if self._next is None:
            self._next = asyncio.create_task(self._reload())
        return self._next

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._served.has_changed:
                await asyncio.shield(self.begin())

    async def _reload(self) -> Report:
        # A worker that is started serves what was served when it was forked.
        async with self._lock, self._forks.prevented():
            self._next = None
            report = await self._replaced()
            log_report(report)
            return report

    async def _replaced(self) -> Report:
        served = self._served
        try:
            with failures_reported():
                other = await asyncio.to_thread(served.read)
        except ReloadError as error:
            return served.refuse(error.problems)
        self._attempts += 1
        workers = list(self._owner.peers)
        found = await asyncio.gather(*(self._prepared(peer, other) for peer in workers))
        if problems := tuple(dict.fromkeys(one for some in found for one in some)):
            for peer in workers:
                peer.report(DROP, Drop(self._attempts))
            return served.refuse(problems)
        # From here on there is no way back: a worker that is started serves it too.
        report = served.serve(other)
        await asyncio.gather(*(self._commit(peer) for peer in workers))
        await asyncio.to_thread(_record, other)
        return report

    async def _prepared(self, worker: Peer, other: Next) -> tuple[str, ...]:
        """Why a worker cannot serve a configuration. One that has ended can."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                asked = Prepare(self._attempts, other.snapshot, other.number)
                return (await worker.ask(PREPARE, asked)).problems
        except LinkClosed:
            return ()
        except (LinkError, TimeoutError):
            return (f"worker {worker.number} does not answer",)

    async def _commit(self, worker: Peer) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                if (await worker.ask(COMMIT, Commit(self._attempts))).is_served:
                    return
        except LinkClosed:
            return
        except (LinkError, TimeoutError):
            pass
        _log.error("worker %d does not take the configuration, and is replaced", worker.number)
        self._replace(worker.number)


_ANSWER_S = 15.0
"""Seconds in which a worker has to make a configuration ready, or to begin to serve it."""

_LOOK_S = 0.25


def _record(served: Next) -> None:
    """Write down what is different. That it cannot be written down undoes nothing."""
    if not served.changes:
        return
    try:
        record_reload(served.config, served.changes)
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
