"""Connections to a store's SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from dragoman.accounts.store import NewerStore, StoreError
from dragoman.storage.ownership import reason_against
from dragoman.storage.sqlite_schema import APPLICATION_ID, SQLITE
from dragoman.storage.tables.database import adding, is_too_new, used_by_newer
from dragoman.storage.tables.table import Table

_encode = msgspec.json.Encoder().encode

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
    if is_too_new(found, SQLITE.version):
        raise NewerStore(f"{path}: {used_by_newer(found, SQLITE.version)}")
    return found


_NOT_OPENED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def explained(error: sqlite3.Error, path: Path) -> str:
    """The meaning of a failure with the file at `path` for an operator."""
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF
    message = _EXPLAINED.get(code) or str(error)
    return message + reason_against(path) if code in _NOT_OPENED else message
