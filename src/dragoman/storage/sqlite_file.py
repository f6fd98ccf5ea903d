"""One SQLite file: made, opened, brought up to date, and opened again after a failure."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from dragoman.accounts.store import StoreError
from dragoman.jsontext import JsonError
from dragoman.storage.sqlite_schema import APPLICATION_ID, SQLITE, upgrade_file
from dragoman.storage.tables.database import adding, used_by_newer, version_of
from dragoman.storage.tables.table import Table

_encode = msgspec.json.Encoder().encode

_LOCK_POLL_S = 0.02
_PAGE_BYTES = 8192
"""Of a file that is made. Stored responses of 100 KB take a third less time than in pages of 4096
bytes, and the small rows of the pool no more."""

_WAL_KEPT_BYTES = 16 * 1024 * 1024

_EXPLAINED = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_BUSY: "another process has it locked",
    sqlite3.SQLITE_LOCKED: "another process has it locked",
    sqlite3.SQLITE_READONLY: "cannot be written to",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_PERM: "may not be opened",
    sqlite3.SQLITE_NOTADB: "is not a database",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk I/O error)",
}


class SqliteConnection(sqlite3.Connection):
    """See `dragoman.storage.tables.database.Connection`."""

    def insert(self, into: str, types: Sequence[type], rows: Sequence[Any], then: str = "") -> None:
        """See `Connection.insert`."""
        self.execute(f"INSERT INTO {into} {_told(len(types))} {then}", (_encode(rows).decode(),))

    def fill(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """See `Connection.fill`."""
        self.executemany(table.insertion, rows)

    def add(self, table: Table, rows: Sequence[Any]) -> None:
        """See `Connection.add`."""
        statement = adding(table, _told(len(table.columns)))
        self.execute(statement, (_encode(rows).decode(),))

    def queue(self) -> None:
        """See `Connection.queue`. There is one who writes at a time."""

    def moved(self) -> None:
        """See `Connection.moved`. SQLite does by itself."""

    def gathered(self, columns: Sequence[str], rows: str) -> str:
        """See `Connection.gathered`."""
        names = ", ".join(columns)
        return f"SELECT json_group_array(json_array({names})) FROM (SELECT {names} {rows})"


@lru_cache
def _told(columns: int) -> str:
    """What selects the rows of a JSON array of arrays with so many values."""
    values = ", ".join(f"json_extract(value, '$[{column}]')" for column in range(columns))
    return f"SELECT {values} FROM json_each(?) WHERE true"


class SqliteFile:
    """The file at `path`, which is made, for its owner alone, if it is not there.

    `lock_s` is how long to wait for other writers. What is deleted in one that `erases` is
    overwritten, not merely let go. `opened` counts how often it was opened, and
    `replaced` tells that it was not the same file the last time. One thread may use it at a time,
    whichever it is.
    """

    def __init__(
        self, path: str | os.PathLike[str], lock_s: float, *, erases: bool = False
    ) -> None:
        self.path = Path(path)
        self._erases = erases
        self.ahead_s = 0.0
        self.opened = 0
        self.replaced = False
        self._lock_s = lock_s
        self._connection: SqliteConnection | None = None
        self._identity: tuple[int, int] | None = None
        self._made = 0.0
        self._joined: SqliteConnection | None = None
        self._joined_version: int | None = None

    def open(self) -> None:
        """Open the file, and bring its tables up to date.

        Raises:
            StoreError: it cannot be opened, is not a store, or is one of a newer version.
        """
        with self._failing():
            self._connected()

    def close(self) -> None:
        """Close the file. Harmless when it was closed before."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """One transaction for all that is read and written inside: nobody else writes meanwhile,
        so what is written follows from what was read.

        Raises:
            StoreError: nothing of it was done.
        """
        with self._transaction("IMMEDIATE") as connection:
            self._joined, self._joined_version = connection, None
            try:
                yield
            finally:
                self._joined = None

    @contextmanager
    def writing(self) -> Iterator[tuple[SqliteConnection, int]]:
        """A transaction that writes what workers are told of, and the version that it makes.

        Raises:
            StoreError: nothing of it was done.
        """
        with self._transaction("IMMEDIATE") as connection:
            if self._joined is None or self._joined_version is None:
                connection.execute("UPDATE clock SET version = version + 1")
                self._joined_version = version_of(connection)
            yield connection, self._joined_version

    @contextmanager
    def writing_untold(self) -> Iterator[SqliteConnection]:
        """A transaction that changes nothing that workers are told of, and so makes no version.

        Raises:
            StoreError: nothing of it was done.
        """
        with self._transaction("IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """A transaction that sees one state of the store throughout.

        Raises:
            StoreError: it cannot be read.
        """
        with self._transaction("DEFERRED") as connection:
            yield connection

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[SqliteConnection]:
        if self._joined is not None:
            yield self._joined
            return
        with self._failing():
            connection = self._connected()
            connection.execute(f"BEGIN {kind}")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself after some errors.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise

    def _connected(self) -> SqliteConnection:
        if self._connection is not None:
            if self._found() != self._identity:
                # What is written to a file that was unlinked is gone when it is closed.
                raise StoreError(f"{self.path}: the file was removed or replaced")
            return self._connection
        self._make()
        connection = self._connection = sqlite3.connect(
            self.path,
            timeout=self._lock_s,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
        )
        self._prepare(connection)
        found, made = self._found(), _made_at(connection)
        if self.opened and (found, made) != (self._identity, self._made):
            self.replaced = True
        self._identity, self._made = found, made
        self.opened += 1
        return connection

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Make every failure a `StoreError`, after which the file is opened anew."""
        try:
            yield
        except StoreError:
            self.close()
            raise
        except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError):
            # It is what was to be written that is at fault, not the file.
            raise
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: {explained(error)}") from error
        except OSError as error:
            self.close()
            raise StoreError(f"{self.path}: {error.strerror}") from error
        except JsonError as error:
            self.close()
            raise StoreError(f"{self.path}: holds what no version wrote: {error}") from error

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _make(self) -> None:
        """Make the file if it is not there.

        It is opened here only then: closing another descriptor of an open SQLite file would give
        up the locks that this process has on it.
        """
        if self.path.exists():
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _prepare(self, connection: SqliteConnection) -> None:
        present = tables_version(connection, self.path)
        if not present:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        deadline = time.monotonic() + self._lock_s
        while True:
            # SQLite does not wait for whoever else is just changing the mode.
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOCK_POLL_S)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        connection.execute(f"PRAGMA secure_delete = {'ON' if self._erases else 'OFF'}")
        if present == SQLITE.version:
            return
        connection.execute("BEGIN IMMEDIATE")
        present = tables_version(connection, self.path)
        if present < SQLITE.version:
            for statement in upgrade_file(present, _columns(connection)):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migrations VALUES (?, ?)", (SQLITE.version, time.time())
            )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of each table."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
        " WHERE m.type = 'table'"
    ):
        found.setdefault(table, set()).add(column)
    return found


def tables_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the tables of a file; 0 if it is empty.

    Raises:
        StoreError: it is another program's, or of a newer version of this one.
    """
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables:
        return 0
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path}: is a database of another program")
    found: int = connection.execute("SELECT max(number) FROM migrations").fetchone()[0]
    if found > SQLITE.version:
        raise StoreError(f"{path}: {used_by_newer(found, SQLITE.version)}")
    return found


def _made_at(connection: SqliteConnection) -> float:
    """When the tables were made, in Unix seconds. It tells a file from one before it that had the
    same number on its disk."""
    at: float = connection.execute("SELECT min(applied) FROM migrations").fetchone()[0]
    return at


def explained(error: sqlite3.Error) -> str:
    """What a failure means to an operator."""
    code = getattr(error, "sqlite_errorcode", None)
    said = _EXPLAINED.get(code & 0xFF) if code is not None else None
    return said or str(error)
