"""Copying a store from one database to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dragoman.accounts.store import StoreError
from dragoman.storage.schema import TABLES
from dragoman.storage.tables.bound import fits
from dragoman.storage.tables.database import Connection, Database
from dragoman.storage.tables.table import Table
from dragoman.storage.tables.usage import SUMS

_NOT_MOVED = frozenset({"migrations", "clock", "responses_held", "workers"})
"""Tables that the target fills itself, and workers, which report to it again."""

_AT_ONCE = 1000
_LARGE_AT_ONCE = 50
"""Rows copied at once of the tables with large rows."""
_LARGE = frozenset({"responses", "response_events"})


def move(
    source: Database, target: Database, on_copied: Callable[[int], object] = lambda rows: None
) -> Mapping[str, int]:
    """Copy the present state of `source` to `target`, in one transaction. Returns the number of
    rows of each table; `on_copied` is called with the number of rows as they are copied.

    Raises:
        StoreError: one of them cannot be used, or the target is not empty; nothing was copied.
    """
    copied: dict[str, int] = {}
    with source.reading() as origin, target.writing_unversioned() as copy:
        tables = moved_tables()
        for table in tables:
            if copy.execute(f"SELECT 1 FROM {table.name} LIMIT 1").fetchone() is not None:
                raise StoreError(f"the target is not empty: it has rows in {table.name}")
        for table in tables:
            copied[table.name] = 0
            for rows in _rows(origin, table):
                _write(copy, table, rows)
                copied[table.name] += len(rows)
                on_copied(len(rows))
        version = origin.execute("SELECT version FROM clock").fetchone()[0]
        # Workers that exchanged with the source get everything from the target.
        copy.execute("UPDATE clock SET version = ?", (version + 1,))
        copy.moved()
    return copied


def moved_tables() -> tuple[Table, ...]:
    """The tables that are copied."""
    return tuple(table for table in TABLES if table.name not in _NOT_MOVED)


def _rows(connection: Connection, table: Table) -> Iterator[list[Any]]:
    """All rows in the order of their keys, in pieces."""
    most = _LARGE_AT_ONCE if table.name in _LARGE else _AT_ONCE
    keys = ", ".join(table.key)
    places = [table.names.index(key) for key in table.key]
    where, last = "", ()
    while True:
        rows = connection.execute(
            f"SELECT {', '.join(table.names)} FROM {table.name} {where} ORDER BY {keys} LIMIT ?",
            (*last, most),
        ).fetchall()
        if rows:
            yield rows
        if len(rows) < most:
            return
        where = f"WHERE ({keys}) > ({', '.join('?' for _ in places)})"
        last = tuple(rows[-1][place] for place in places)


def _write(connection: Connection, table: Table, rows: Sequence[Any]) -> None:
    if table in SUMS:
        connection.add(table, rows)
        return
    if table.name == "response_items":
        place = table.names.index("item")
        rows = [row for row in rows if fits(row[place])]
    flags = [place for place, column in enumerate(table.columns) if column.kind == "BOOLEAN"]
    if flags:
        # SQLite has numbers for them.
        rows = [
            [bool(value) if place in flags else value for place, value in enumerate(row)]
            for row in rows
        ]
    if table.name in _LARGE:
        connection.executemany(table.insertion, rows)
    else:
        connection.fill(table, rows)
