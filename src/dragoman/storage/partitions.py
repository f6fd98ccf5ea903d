"""Files that are written one after another, and deleted oldest first.

A directory of partitions, which are SQLite files: the last one is written until it is old or large
enough. Rows are never deleted; when they are too old or too many, the oldest file is deleted. All
workers of a machine write in batches; losing the last of them in a power failure is accepted, so no
write waits for the disk.
"""

from __future__ import annotations

import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from dragoman.storage.ownership import guard

PARTITIONS = 8
"""Number of files over which the age and size limits are divided."""

_DAY_S = 24 * 3600.0
LOCK_S = 1.0


class Partitions(ABC):
    """The partitions in `directory`, which is created for its owner alone. Files older than `days`,
    or beyond `most_bytes` in total, are deleted.

    Several processes and threads may use a directory, each with an object of its own.
    """

    _schema: ClassVar[str]

    def __init__(
        self,
        directory: str | os.PathLike[str],
        days: float,
        most_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = Path(directory)
        self._age_s = days * _DAY_S
        self._most_bytes = most_bytes
        self._clock = clock
        self._written: tuple[Path, sqlite3.Connection] | None = None

    def close(self) -> None:
        """Close the file that is written to. Safe to call twice."""
        if self._written is not None:
            written, self._written = self._written, None
            with suppress(sqlite3.Error):
                written[1].close()

    def sweep(self) -> None:
        """Delete the oldest partitions that are too old or too many, and remains of deleted
        ones."""
        files = self.partitions()
        total, now = 0, self._clock()
        for place, path in enumerate(reversed(files)):
            total += _size(path)
            is_old = _began(path) < now - self._age_s and self._ended(path) < now - self._age_s
            if place and (is_old or total > self._most_bytes):
                for ending in ("", "-wal", "-shm"):
                    with suppress(OSError):
                        os.unlink(f"{path}{ending}")

    @abstractmethod
    def _ended(self, path: Path) -> float:
        """The time of the last row of a partition, 0 if it has none or cannot be read."""

    def partitions(self) -> list[Path]:
        """All partitions, the oldest first."""
        try:
            return sorted(path for path in self.directory.iterdir() if path.suffix == ".db")
        except FileNotFoundError:
            return []

    def connection(self) -> sqlite3.Connection:
        """A connection to the partition that is written to."""
        files, now = self.partitions(), self._clock()
        latest = files[-1] if files else None
        if latest is None or self._is_full(latest, now):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            latest = self.directory / f"{int(now * 1000):015d}.db"
        if self._written is not None:
            if self._written[0] == latest:
                return self._written[1]
            self.close()
        guard(self.directory)
        with suppress(FileExistsError):
            os.close(os.open(latest, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            latest, timeout=LOCK_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(self._schema)
        self._written = latest, connection
        return connection

    def _is_full(self, path: Path, now: float) -> bool:
        is_old = not 0 <= now - _began(path) < self._age_s / PARTITIONS
        return is_old or _size(path) > self._most_bytes / PARTITIONS


def _began(path: Path) -> float:
    """When a partition was created, in Unix seconds."""
    return int(path.stem) / 1000 if path.stem.isdecimal() else 0.0


def _size(path: Path) -> int:
    total = 0
    for ending in ("", "-wal"):
        with suppress(OSError):
            total += os.stat(f"{path}{ending}").st_size
    return total


def reading(path: Path, table: str) -> sqlite3.Connection | None:
    """A read connection to a partition that has a table; None if it was deleted or cannot be
    read."""
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCK_S, isolation_level=None
        )
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
    except sqlite3.Error:
        return None
    return connection
