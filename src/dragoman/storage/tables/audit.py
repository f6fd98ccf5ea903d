"""The log of changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.accounts.store import SWEPT_AT_ONCE
from dragoman.audit import Actor, Change, Fields, Line
from dragoman.jsontext import decoder
from dragoman.storage.tables.database import Connection, Database

MOST_LINES = 100_000
"""Changes that are stored at most."""

_MOST_BYTES = 64 * 1024
_TOO_LONG: Fields = {"(too long)": True}
"""Stands for values that are too long to be stored."""

_COLUMNS = "id, at, who, origin, address, action, kind, name, before, after"
_FILTERS = ("who", "kind", "name", "action")
_INSERT = (
    "INSERT INTO audit (at, who, origin, address, action, kind, name, before, after)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SWEEP = """DELETE FROM audit WHERE id IN (
    SELECT id FROM audit WHERE at < ? OR id <= (SELECT max(id) FROM audit) - ?
    ORDER BY id LIMIT ?)"""

_encode = msgspec.json.Encoder().encode
_read = decoder(dict)


class AuditTable:
    """Implements `AuditLog` on a database that is opened elsewhere."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, actor: Actor, changes: Iterable[Change]) -> None:
        """See `AuditLog.record`."""
        now = time.time()
        who = (now, actor.who, actor.origin, actor.address)
        rows = [
            (*who, one.action, one.kind, one.name, _written(one.before), _written(one.after))
            for one in changes
        ]
        if rows:
            with self._database.writing_unversioned() as connection:
                connection.executemany(_INSERT, rows)

    def audit(
        self,
        limit: int,
        *,
        before: int | None = None,
        since: float = 0.0,
        only: Mapping[str, str] = {},
    ) -> Sequence[Line]:
        """See `AuditLog.audit`."""
        where, values = ["at >= ?"], [since]
        if before is not None:
            where.append("id < ?")
            values.append(before)
        where += [f"{name} = ?" for name in _FILTERS if name in only]
        statement = f"SELECT {_COLUMNS} FROM audit WHERE {' AND '.join(where)}"
        bounds = (*values, *(only[name] for name in _FILTERS if name in only), limit)
        with self._database.reading() as connection:
            rows = connection.execute(f"{statement} ORDER BY id DESC LIMIT ?", bounds)
            return tuple(_line(row) for row in rows)


def sweep_audit(connection: Connection, before: float) -> int:
    """Drop lines before a time, and beyond `MOST_LINES`. Returns how many."""
    return connection.execute(_SWEEP, (before, MOST_LINES, SWEPT_AT_ONCE)).rowcount


def _written(fields: Fields | None) -> str | None:
    if fields is None:
        return None
    text = _encode(fields)
    return (text if len(text) <= _MOST_BYTES else _encode(_TOO_LONG)).decode()


def _line(row: Sequence[Any]) -> Line:
    """A row of `_COLUMNS`."""
    fields = dict(zip(Line.__struct_fields__, row, strict=True))
    for name in ("before", "after"):
        fields[name] = None if fields[name] is None else _read(fields[name])
    return Line(**fields)
