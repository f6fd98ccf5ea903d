"""One SQLite file: created, opened, upgraded, and opened again after a failure."""

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
"""Page size of a new file. Stored responses of 100 KB take a third less time than with pages of
4096 bytes, and the small rows of the pool no more."""

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
        self.execute(
            f"INSERT INTO {into} {_json_rows(len(types))} {then}", (_encode(rows).decode(),)
        )

    def fill(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """See `Connection.fill`."""
        self.executemany(table.insertion, rows)

    def add(self, table: Table, rows: Sequence[Any]) -> None:
        """See `Connection.add`."""
        statement = adding(table, _json_rows(len(table.columns)))
        self.execute(statement, (_encode(rows).decode(),))

    def queue(self) -> None:
        """See `Connection.queue`. SQLite has one writer at a time."""

    def moved(self) -> None:
        """See `Connection.moved`. SQLite numbers rows after the highest one by itself."""

    def gathered(self, columns: Sequence[str], rows: str) -> str:
        """See `Connection.gathered`."""
        names = ", ".join(columns)
        return f"SELECT json_group_array(json_array({names})) FROM (SELECT {names} {rows})"


@lru_cache
def _json_rows(columns: int) -> str:
    """The SELECT for the rows of a JSON array of arrays with so many values."""
    values = ", ".join(f"json_extract(value, '$[{column}]')" for column in range(columns))
    return f"SELECT {values} FROM json_each(?) WHERE true"


class SqliteFile:
    """The file at `path`, which is created for its owner alone if it does not exist.

    `lock_s` is how long to wait for other writers. With `erases`, deleted data is overwritten.
    `opened` counts how often it was opened, and `replaced` says that it was another file the last
    time. One thread at a time may use it.
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
        self._open_transaction: SqliteConnection | None = None
        self._open_version: int | None = None

    def open(self) -> None:
        """Open the file, and upgrade its tables.

        Raises:
            StoreError: it cannot be opened, is not a store, or is one of a newer version.
        """
        with self._failing():
            self._connected()

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """See `Database.deciding`.

        Raises:
            StoreError: nothing of it was done.
        """
        with self._transaction("IMMEDIATE") as connection:
            self._open_transaction, self._open_version = connection, None
            try:
                yield
            finally:
                self._open_transaction = None

    @contextmanager
    def writing(self) -> Iterator[tuple[SqliteConnection, int]]:
        """See `Database.writing`.

        Raises:
            StoreError: nothing of it was done.
        """
        with self._transaction("IMMEDIATE") as connection:
            if self._open_transaction is None or self._open_version is None:
                connection.execute("UPDATE clock SET version = version + 1")
                self._open_version = version_of(connection)
            yield connection, self._open_version

    @contextmanager
    def writing_unversioned(self) -> Iterator[SqliteConnection]:
        """See `Database.writing_unversioned`.

        Raises:
            StoreError: nothing of it was done.
        """
        with self._transaction("IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """See `Database.reading`.

        Raises:
            StoreError: it cannot be read.
        """
        with self._transaction("DEFERRED") as connection:
            yield connection

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[SqliteConnection]:
        if self._open_transaction is not None:
            yield self._open_transaction
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
                # Data written to an unlinked file is lost when it is closed.
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
        """Turn every failure into a `StoreError`, after which the file is opened again."""
        try:
            yield
        except StoreError:
            self.close()
            raise
        except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError):
            # The written data is at fault, not the file.
            raise
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: {explained(error)}") from error
        except OSError as error:
            self.close()
            raise StoreError(f"{self.path}: {error.strerror}") from error
        except JsonError as error:
            self.close()
            raise StoreError(f"{self.path}: contains what no version wrote: {error}") from error

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _make(self) -> None:
        """Create the file if it does not exist.

        It is opened here only then: closing another descriptor of an open SQLite file would release
        the locks of this process.
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
            # SQLite does not wait for another process that changes the mode.
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
    """When the tables were created, in Unix seconds. It distinguishes a file from a former one with
    the same inode."""
    at: float = connection.execute("SELECT min(applied) FROM migrations").fetchone()[0]
    return at


def explained(error: sqlite3.Error) -> str:
    """The meaning of a failure for an operator."""
    code = getattr(error, "sqlite_errorcode", None)
    message = _EXPLAINED.get(code & 0xFF) if code is not None else None
    return message or str(error)
