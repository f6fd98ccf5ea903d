"""The port of a database: what `dragoman.storage.tables` needs of SQLite and of PostgreSQL.

Statements are in the SQL that both support. Values are `?`, or `?1`, `?2` and so on, not both in
one statement. Where the databases differ, the connection writes the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dragoman.storage.tables.table import Table


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """The next row; None if there is none."""

    def fetchall(self) -> list[Any]:
        """The remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection within a transaction. A statement may be executed only when its result is
    read."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Execute one statement."""

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Execute one statement with each row of values."""

    def insert(self, into: str, types: Sequence[type], rows: Sequence[Any], then: str = "") -> None:
        """Insert rows, arrays of values of these types, `into` a table with its columns, in one
        step. `then` may be an ON CONFLICT clause."""

    def fill(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Insert many small rows, with a value for each column, in one step."""

    def add(self, table: Table, rows: Sequence[Any]) -> None:
        """Add sums, the last values of each row, to those of their keys, the first ones, in one
        step."""

    def queue(self) -> None:
        """Wait for other transactions that called this, so that they do not conflict."""

    def moved(self) -> None:
        """All rows were copied from another database: continue its numbering."""

    def gathered(self, columns: Sequence[str], rows: str) -> str:
        """The statement that returns rows as one JSON array of arrays; `rows` is everything after
        its columns."""


class Database(Protocol):
    """A database with all tables. One thread at a time may use it.

    `opened` counts how often it was connected to, and `replaced` says that it was another one the
    last time. Every method raises `StoreError` if it cannot be used, and has then done nothing.
    """

    opened: int
    replaced: bool

    @property
    def ahead_s(self) -> float:
        """Seconds by which the clock of the database is ahead of this machine's."""

    def open(self) -> None:
        """Connect to it. An empty one gets its tables; older ones are refused."""

    def upgrade(self) -> str:
        """Connect to it, and bring its tables up to date. Returns what was done, for operators;
        empty if nothing had to be."""

    def close(self) -> None:
        """Close the connection. Safe to call twice."""

    def deciding(self) -> AbstractContextManager[None]:
        """One transaction for all reads and writes inside; nobody else writes meanwhile, so what is
        written can depend on what was read."""

    def writing(self) -> AbstractContextManager[tuple[Connection, int]]:
        """A transaction that writes rows with a version, and that version."""

    def writing_unversioned(self) -> AbstractContextManager[Connection]:
        """A transaction that changes nothing that workers have to learn of, and so makes no
        version."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the store."""


def is_too_new(found: int, known: int) -> bool:
    """Whether this program, which knows tables of a version, must not use those it found. Within a
    hundred, versions only add to the tables, which are used as they are: instances of all of them
    serve while one after another is replaced. One that takes something away begins the next."""
    return found // 100 > known // 100


def used_by_newer(found: int, known: int) -> str:
    """The message for tables of a newer version."""
    return (
        f"has version {found} of the tables, and this dragoman knows {known}: "
        "a newer dragoman has used it, so start that version"
    )


def needs_upgrade(found: int, known: int) -> str:
    """The message for tables of an older version."""
    return (
        f"has version {found} of the tables, and this dragoman needs {known}: `dragoman serve` or "
        "`dragoman store prepare` upgrades them, after which an older gateway stores nothing"
    )


def version_of(connection: Connection) -> int:
    """The version of the last transaction that wrote."""
    version: int = connection.execute("SELECT version FROM clock").fetchone()[0]
    return version


def replacing(table: str, keys: str, columns: str, rest: str = "") -> str:
    """The statement that inserts a row, or replaces the one with the same `keys`. `columns` are the
    others; `rest` follows."""
    names = [name.strip() for name in columns.split(",")]
    places = ", ".join("?" for _ in (*keys.split(","), *names))
    changed = ", ".join(f"{name} = excluded.{name}" for name in names)
    return (
        f"INSERT INTO {table} ({keys}, {columns}) VALUES ({places})"
        f" ON CONFLICT ({keys}) DO UPDATE SET {changed}{rest}"
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
