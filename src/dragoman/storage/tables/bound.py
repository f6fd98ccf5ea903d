"""Bound ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from dragoman.storage.bound import MOST_DETAIL, BoundId, Page
from dragoman.storage.tables.database import Connection, Database

_LONGEST_ID = 2000
"""Bytes of the longest id that can be looked up: what an index of PostgreSQL can hold."""
_FIELDS = "name, owner, account, kind, created, expires, details, due"
_BIND = f"""
INSERT INTO kept_elsewhere ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (owner, name) DO UPDATE SET account = excluded.account,
        expires = excluded.expires, details = excluded.details
    WHERE kept_elsewhere.kind = '' OR kept_elsewhere.account = excluded.account
"""
_BIND_NEW = f"""
INSERT INTO kept_elsewhere ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (owner, name) DO NOTHING
"""
_TAKEN = "SELECT 1 FROM kept_elsewhere WHERE name = ? AND kind <> '' AND owner <> ?"


class BoundTable:
    """Implements `BoundIds` on a database. `clock` is Unix time."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def bind(self, ids: Sequence[BoundId]) -> list[str]:
        """See `BoundIds.bind`."""
        with self._database.writing_unversioned() as connection:
            return [one.name for one in ids if not _bind(connection, one)]

    def find(self, names: Collection[str], owners: Collection[str] | None) -> list[BoundId]:
        """See `BoundIds.find`."""
        known = [name for name in names if fits(name)]
        places = ", ".join("?" for _ in known) or "NULL"
        whose = "kind <> ''" if owners is None else f"owner IN ({', '.join('?' for _ in owners)})"
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_FIELDS} FROM kept_elsewhere"
                f" WHERE {whose} AND name IN ({places}) AND expires > ?",
                (*(owners or ()), *known, self._clock()),
            )
            return [_bound(row) for row in rows]

    def page(self, owner: str, kind: str, page: Page) -> list[BoundId] | None:
        """See `BoundIds.page`."""
        backwards = bool(page.before)
        rising = page.oldest_first is not backwards
        sign, order = (">", "ASC") if rising else ("<", "DESC")
        wanted = "owner = ? AND kind = ? AND expires > ?"
        values: list[Any] = [owner, kind, self._clock()]
        with self._database.reading() as connection:
            if end := page.before or page.after:
                row = _place(connection, owner, kind, end)
                if row is None:
                    return None
                wanted += f" AND (created, name) {sign} (?, ?)"
                values += row
            if page.holding:
                wanted += " AND details LIKE ? ESCAPE '\\'"
                values.append(f"%{_literal(page.holding)}%")
            rows = connection.execute(
                f"SELECT {_FIELDS} FROM kept_elsewhere WHERE {wanted}"
                f" ORDER BY created {order}, name {order} LIMIT ?",
                (*values, page.limit),
            ).fetchall()
        found = [_bound(row) for row in rows]
        return found[::-1] if backwards else found

    def newest(self, owner: str, accounts: Collection[str]) -> str | None:
        """See `BoundIds.newest`."""
        places = ", ".join("?" for _ in accounts)
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT account FROM kept_elsewhere WHERE owner = ? AND kind <> '' AND expires > ?"
                f" AND account IN ({places}) ORDER BY created DESC LIMIT 1",
                (owner, self._clock(), *accounts),
            ).fetchone()
        return None if row is None else str(row[0])

    def unbind(self, name: str, owner: str) -> None:
        """See `BoundIds.unbind`."""
        with self._database.writing_unversioned() as connection:
            connection.execute(
                "DELETE FROM kept_elsewhere WHERE owner = ? AND name = ?", (owner, name)
            )

    def take_due(self, now: float, again: float, most: int) -> list[BoundId]:
        """See `BoundIds.take_due`."""
        with self._database.writing_unversioned() as connection:
            rows = connection.execute(
                f"SELECT {_FIELDS} FROM kept_elsewhere WHERE due <= ? ORDER BY due LIMIT ?",
                (now, most),
            ).fetchall()
            return [one for one in map(_bound, rows) if _take(connection, one, again)]

    def postpone(self, name: str, owner: str, due: float) -> None:
        """See `BoundIds.postpone`."""
        with self._database.writing_unversioned() as connection:
            connection.execute(
                "UPDATE kept_elsewhere SET due = ?"
                " WHERE owner = ? AND name = ? AND due IS NOT NULL",
                (due, owner, name),
            )

    def is_due(self, name: str, owner: str) -> bool:
        """See `BoundIds.is_due`."""
        with self._database.reading() as connection:
            found = connection.execute(
                "SELECT 1 FROM kept_elsewhere WHERE owner = ? AND name = ? AND due IS NOT NULL",
                (owner, name),
            )
            return found.fetchone() is not None

    def settle(self, name: str, owner: str) -> bool:
        """See `BoundIds.settle`."""
        with self._database.writing_unversioned() as connection:
            return bool(
                connection.execute(
                    "UPDATE kept_elsewhere SET due = NULL"
                    " WHERE owner = ? AND name = ? AND due IS NOT NULL",
                    (owner, name),
                ).rowcount
            )


def _bind(connection: Connection, one: BoundId) -> bool:
    if not fits(one.name) or len(one.details) > MOST_DETAIL:
        return False
    if one.kind and connection.execute(_TAKEN, (one.name, one.owner)).fetchone() is not None:
        return False
    if one.is_only_named:
        connection.execute(_BIND_NEW, _row(one))
        return True
    return connection.execute(_BIND, _row(one)).rowcount > 0


def _take(connection: Connection, one: BoundId, again: float) -> bool:
    taken = connection.execute(
        "UPDATE kept_elsewhere SET due = ? WHERE owner = ? AND name = ? AND due = ?",
        (again, one.owner, one.name, one.due),
    )
    return taken.rowcount > 0


def sweep(connection: Connection, now: float, most: int) -> int:
    """Drop at most so many expired ids, of which nothing is to be settled. Returns how many were
    dropped."""
    return connection.execute(
        "DELETE FROM kept_elsewhere WHERE (owner, name) IN"
        " (SELECT owner, name FROM kept_elsewhere WHERE expires <= ? AND due IS NULL LIMIT ?)",
        (now, most),
    ).rowcount


def fits(name: str) -> bool:
    """Whether this id can be looked up: not all databases take NUL and halves of characters."""
    try:
        return "\0" not in name and len(name.encode()) <= _LONGEST_ID
    except UnicodeEncodeError:
        return False


def _place(connection: Connection, owner: str, kind: str, name: str) -> Sequence[Any] | None:
    """Where an id stands in a list."""
    if not fits(name):
        return None
    found: Sequence[Any] | None = connection.execute(
        "SELECT created, name FROM kept_elsewhere WHERE owner = ? AND name = ? AND kind = ?",
        (owner, name, kind),
    ).fetchone()
    return found


def _literal(text: str) -> str:
    """A text as a pattern that only matches itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _row(one: BoundId) -> Sequence[Any]:
    fields = one.name, one.owner, one.account, one.kind, one.created, one.expires, one.details
    return *fields, one.due


def _bound(row: Sequence[Any]) -> BoundId:
    name, owner, account, kind, created, expires, details, due = row
    return BoundId(
        name=name,
        owner=owner,
        account=account,
        kind=kind,
        created=created,
        expires=expires,
        details=details,
        due=due,
    )
