"""The port of a database: what `dragoman.storage.tables` asks of SQLite and of PostgreSQL.

Statements are those that both know. Values stand for `?`, or for `?1`, `?2` and so on, not both in
one statement. Where the two differ, a connection writes the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dragoman.storage.tables.table import Table


class Rows(Protocol):
    """What a statement returned."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""

    def fetchone(self) -> Any:
        """The next row; None if there is none."""

    def fetchall(self) -> list[Any]:
        """The rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection within a transaction. A statement may be done only when something is read."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Do one statement."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Do one statement with each row of values."""

    def insert(self, into: str, types: Sequence[type], rows: Sequence[Any], then: str = "") -> None:
        """Insert rows, arrays of values of these types, `into` a table with its columns, in one
        step. What of `then` follows may be an ON CONFLICT clause."""

    def fill(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Insert many small rows, with a value for each column, in one step."""

    def add(self, table: Table, rows: Sequence[Any]) -> None:
        """Add sums, the last values of each row, to those of their keys, the first ones, in one
        step."""

    def queue(self) -> None:
        """Wait for others who asked for the same in their transactions, so that none of them meets
        another in the middle."""

    def moved(self) -> None:
        """All rows came from another database: go on numbering where it ended."""

    def gathered(self, columns: Sequence[str], rows: str) -> str:
        """The statement that returns rows as one JSON array of arrays; `rows` is all of it that
        follows the columns."""


class Database(Protocol):
    """A database in which all tables are. One thread may use it at a time, whichever it is.

    `opened` counts how often it was connected to, and `replaced` tells that it was not the same the
    last time. Every method raises `StoreError` when it cannot be used, and has then done nothing.
    """

    opened: int
    replaced: bool

    @property
    def ahead_s(self) -> float:
        """Seconds by which the clock that all who use it go by is ahead of this machine's."""

    def open(self) -> None:
        """Connect to it, and bring its tables up to date."""

    def close(self) -> None:
        """Close the connection. Harmless when it was closed before."""

    def deciding(self) -> AbstractContextManager[None]:
        """One transaction for all that is read and written inside: nobody else writes meanwhile,
        so what is written follows from what was read."""

    def writing(self) -> AbstractContextManager[tuple[Connection, int]]:
        """A transaction that writes what workers are told of, and the version that it makes."""

    def writing_untold(self) -> AbstractContextManager[Connection]:
        """A transaction that changes nothing that workers are told of, and so makes no version."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the store throughout."""


def used_by_newer(found: int, known: int) -> str:
    """What is told of tables of a version that nothing here knows."""
    return (
        f"has version {found} of the tables, and this dragoman knows {known}: "
        "a newer dragoman has used it"
    )


def version_of(connection: Connection) -> int:
    """The version of the last transaction that wrote."""
    version: int = connection.execute("SELECT version FROM clock").fetchone()[0]
    return version


def replacing(table: str, keys: str, columns: str, rest: str = "") -> str:
    """The statement that inserts a row, or replaces the one of the same `keys`. Columns that are
    not keys are `columns`; `rest` follows."""
    names = [name.strip() for name in columns.split(",")]
    places = ", ".join("?" for _ in (*keys.split(","), *names))
    told = ", ".join(f"{name} = excluded.{name}" for name in names)
    return (
        f"INSERT INTO {table} ({keys}, {columns}) VALUES ({places})"
        f" ON CONFLICT ({keys}) DO UPDATE SET {told}{rest}"
    )


def adding(table: Table, rows: str) -> str:
    """The statement that adds the sums that `rows` selects to those of their keys."""
    sums = ", ".join(
        f"{name} = {table.name}.{name} + excluded.{name}" for name in table.names[len(table.key) :]
    )
    return (
        f"INSERT INTO {table.name} ({', '.join(table.names)}) {rows}"
        f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {sums}"
    )
