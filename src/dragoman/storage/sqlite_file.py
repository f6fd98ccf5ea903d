"""One SQLite file: created, opened, upgraded, and opened again after a failure."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.accounts.store import StoreError
from dragoman.jsontext import JsonError
from dragoman.storage.ownership import guard
from dragoman.storage.sqlite_care import backup
from dragoman.storage.sqlite_connection import SqliteConnection, explained, tables_version
from dragoman.storage.sqlite_schema import APPLICATION_ID, SQLITE, upgrade_file
from dragoman.storage.tables.database import needs_upgrade, version_of

_LOCK_POLL_S = 0.02
_PAGE_BYTES = 8192
"""Page size of a new file. Stored responses of 100 KB take a third less time than with pages of
4096 bytes, and the small rows of the pool no more."""

_WAL_KEPT_BYTES = 16 * 1024 * 1024


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
        self._upgrades, self._upgraded = False, ""
        self._open_transaction: SqliteConnection | None = None
        self._open_version: int | None = None

    def open(self) -> None:
        """See `Database.open`.

        Raises:
            StoreError: it cannot be opened, is not a store, or is one of another version.
        """
        with self._failing():
            self._connected()

    def upgrade(self) -> str:
        """See `Database.upgrade`. The former file is copied first.

        Raises:
            StoreError: as `open`; or it cannot be copied, and is as it was.
        """
        self._upgrades, self._upgraded = True, ""
        try:
            self.open()
        finally:
            self._upgrades = False
        return self._upgraded

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
            raise StoreError(f"{self.path}: {explained(error, self.path)}") from error
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
        """Create the file if it does not exist, and check whose it is.

        It is opened here only then: closing another descriptor of an open SQLite file would release
        the locks of this process.
        """
        for ending in ("", "-wal", "-shm"):
            guard(f"{self.path}{ending}")
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
        if present >= SQLITE.version:
            return
        connection.execute("BEGIN IMMEDIATE")
        present = tables_version(connection, self.path)
        if present < SQLITE.version:
            if present:
                self._copy(present)
            for statement in upgrade_file(present, _columns(connection)):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migrations VALUES (?, ?)", (SQLITE.version, time.time())
            )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")

    def _copy(self, version: int) -> None:
        """Copy the file, which has tables of an older version, before they are upgraded. Nobody
        else writes meanwhile."""
        if not self._upgrades:
            raise StoreError(f"{self.path}: {needs_upgrade(version, SQLITE.version)}")
        copy = f"{self.path}-version-{version}"
        backup(self.path, copy, replaces=True)
        self._upgraded = (
            f"the tables of {self.path} were upgraded from version {version} to {SQLITE.version}; "
            f"the former file is {copy}"
        )


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of each table."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
        " WHERE m.type = 'table'"
    ):
        found.setdefault(table, set()).add(column)
    return found


def _made_at(connection: SqliteConnection) -> float:
    """When the tables were created, in Unix seconds. It distinguishes a file from a former one with
    the same inode."""
    at: float = connection.execute("SELECT min(applied) FROM migrations").fetchone()[0]
    return at
