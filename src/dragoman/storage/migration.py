"""Moving a store from one database to another, whichever they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dragoman.accounts.store import StoreError
from dragoman.storage.schema import MIGRATIONS
from dragoman.storage.tables.database import Connection, Database
from dragoman.storage.tables.responses import fits
from dragoman.storage.tables.usage import KEYS_AND_SUMS

_NOT_MOVED = frozenset({"migrations", "clock", "responses_held", "workers"})
"""What the target has of its own, or counts itself; workers tell of themselves."""

_AT_ONCE = 1000
_LARGE_AT_ONCE = 50
"""Rows of the tables whose rows may be large."""
_LARGE = frozenset({"responses", "response_events"})
_FLAGS = frozenset({"background", "cancelled", "deleted", "enabled"})
"""Columns that are numbers in SQLite, and truth values elsewhere."""


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table that is moved: its columns and those of its key, quoted."""

    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]


def move(
    source: Database, target: Database, on_copied: Callable[[int], object] = lambda rows: None
) -> Mapping[str, int]:
    """Copy all of `source`, as it is at one moment, to `target`, in one transaction there. Returns
    the rows of each table; `on_copied` is told of them as they are copied.

    Raises:
        StoreError: one of them cannot be used, or the target is not empty; nothing was copied.
    """
    source.open()
    target.open()
    copied: dict[str, int] = {}
    with source.reading() as origin, target.writing_untold() as copy:
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
        # Who had exchanged with the source is told everything by the target.
        copy.execute("UPDATE clock SET version = ?", (version + 1,))
        copy.moved()
    return copied


def moved_tables() -> list[MovedTable]:
    """The tables that are moved, as those in SQLite have them."""
    with closing(sqlite3.connect(":memory:")) as made:
        for migration in MIGRATIONS:
            for statement in migration:
                made.execute(statement)
        names = made.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        found = []
        for (name,) in names:
            if name in _NOT_MOVED:
                continue
            columns = made.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
            keys = sorted((place, column) for column, place in columns if place)
            found.append(
                MovedTable(
                    name,
                    tuple(f'"{column}"' for column, _ in columns),
                    tuple(f'"{column}"' for _, column in keys),
                )
            )
        return found


def _rows(connection: Connection, table: MovedTable) -> Iterator[list[Any]]:
    """All rows in the order of their keys, some at a time."""
    most = _LARGE_AT_ONCE if table.name in _LARGE else _AT_ONCE
    keys = ", ".join(table.keys)
    places = [table.columns.index(key) for key in table.keys]
    where, last = "", ()
    while True:
        rows = connection.execute(
            f"SELECT {', '.join(table.columns)} FROM {table.name} {where} ORDER BY {keys} LIMIT ?",
            (*last, most),
        ).fetchall()
        if rows:
            yield rows
        if len(rows) < most:
            return
        where = f"WHERE ({keys}) > ({', '.join('?' for _ in places)})"
        last = tuple(rows[-1][place] for place in places)


def _write(connection: Connection, table: MovedTable, rows: Sequence[Any]) -> None:
    if table.name in KEYS_AND_SUMS:
        keys, sums = KEYS_AND_SUMS[table.name]
        places = [table.columns.index(_quoted(name)) for name, _ in (*keys, *sums)]
        connection.add(table.name, keys, sums, [[row[place] for place in places] for row in rows])
        return
    if table.name == "response_items":
        place = table.columns.index('"item"')
        rows = [row for row in rows if fits(row[place])]
    flags = [place for place, name in enumerate(table.columns) if name.strip('"') in _FLAGS]
    if flags:
        rows = [
            [bool(value) if place in flags else value for place, value in enumerate(row)]
            for row in rows
        ]
    if table.name not in _LARGE:
        connection.fill(table.name, table.columns, rows)
        return
    columns = ", ".join(table.columns)
    values = ", ".join("?" for _ in table.columns)
    connection.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({values})", rows)


def _quoted(name: str) -> str:
    return name if name.startswith('"') else f'"{name}"'
