"""The store in one SQLite file, for any number of processes on one machine."""

from __future__ import annotations

import os
from typing import Unpack

from dragoman.storage.sqlite_file import SqliteFile
from dragoman.storage.tables.pool import PoolOptions, PoolTables
from dragoman.storage.tables.responses import ResponseOptions, ResponseTables


class SqliteStore(PoolTables):
    """The store in the file at `path`, which is created if it does not exist. `lock_s` is how long
    to wait for other writers; all else is as in `PoolTables`."""

    def __init__(
        self, path: str | os.PathLike[str], *, lock_s: float = 5.0, **options: Unpack[PoolOptions]
    ) -> None:
        super().__init__(SqliteFile(path, lock_s), **options)


class SqliteResponses(ResponseTables):
    """Stored responses in the file at `path`, which may be that of a store. Deleted data is
    overwritten. All else is as in `ResponseTables`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lock_s: float = 1.0,
        **options: Unpack[ResponseOptions],
    ) -> None:
        super().__init__(SqliteFile(path, lock_s, erases=True), **options)
