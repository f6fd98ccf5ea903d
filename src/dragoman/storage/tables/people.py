"""People who sign in, their sessions, and what a sign-in has begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from dragoman.jsontext import decoder
from dragoman.keys.people import (
    IDLE_S,
    Identity,
    Pending,
    PeopleChanges,
    SigningKey,
    StoredPerson,
    StoredSession,
)
from dragoman.keys.records import Uses
from dragoman.storage.tables.audit import AuditTable
from dragoman.storage.tables.database import Connection, replacing

_ENDED_KEPT_S = 24 * 3600.0
"""Seconds for which an ended session is kept, for workers to hear of it."""

_PERSON = "name, identity, created, seen, enabled"
_SESSION = (
    "person, client, refresh, former, rotated, signed_in, renewed, failing, asking, sealed, used,"
    " ended"
)
_PENDING = "alias, expires, sealed"
_KEY = "created, sealed"
_SAVE_PERSON = replacing("people", "id", f"version, {_PERSON}")
_SAVE_SESSION = replacing("person_sessions", "id", f"version, {_SESSION}")
_SAVE_PENDING = replacing("sign_ins", "id", _PENDING)
_SAVE_KEY = replacing("signing_keys", "id", f"version, {_KEY}")
_USE = "UPDATE person_sessions SET used = CASE WHEN used > ?2 THEN used ELSE ?2 END WHERE id = ?1"
_SWEEP_SESSIONS = """DELETE FROM person_sessions WHERE id IN (SELECT id FROM person_sessions
    WHERE ended < ? OR rotated < ? LIMIT ?)"""
_SWEEP_PENDING = """DELETE FROM sign_ins WHERE id IN (SELECT id FROM sign_ins
    WHERE expires < ? LIMIT ?)"""

_encode = msgspec.json.Encoder().encode
_read_identity = decoder(Identity)


class PeopleTables(AuditTable):
    """Implements `PeopleStore` on a database that is opened elsewhere."""

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """See `PeopleStore.deciding`."""
        with self._database.deciding():
            yield

    def people(self) -> Sequence[StoredPerson]:
        """See `PeopleStore.people`."""
        return self._people("1 = 1 ORDER BY name")

    def person(self, id: str) -> StoredPerson | None:
        """See `PeopleStore.person`."""
        return next(iter(self._people("id = ?", id)), None)

    def person_named(self, name: str) -> StoredPerson | None:
        """See `PeopleStore.person_named`."""
        return next(iter(self._people("name = ?", name)), None)

    def save_person(self, person: StoredPerson) -> None:
        """See `PeopleStore.save_person`."""
        identity = _encode(person.identity).decode()
        with self._database.writing() as (connection, version):
            row = (person.name, identity, person.created, person.seen, person.enabled)
            connection.execute(_SAVE_PERSON, (person.id, version, *row))

    def sessions(self, person: str | None = None) -> Sequence[StoredSession]:
        """See `PeopleStore.sessions`."""
        if person is None:
            return self._sessions("ended IS NULL ORDER BY signed_in")
        return self._sessions("ended IS NULL AND person = ? ORDER BY signed_in", person)

    def session(self, id: str) -> StoredSession | None:
        """See `PeopleStore.session`."""
        return next(iter(self._sessions("id = ?", id)), None)

    def save_session(self, session: StoredSession) -> None:
        """See `PeopleStore.save_session`."""
        row = [getattr(session, name.strip()) for name in _SESSION.split(",")]
        with self._database.writing() as (connection, version):
            connection.execute(_SAVE_SESSION, (session.id, version, *row))

    def pending(self, id: str = "", alias: str = "") -> Pending | None:
        """See `PeopleStore.pending`."""
        column, value = ("id", id) if id else ("alias", alias)
        with self._database.reading() as connection:
            row = connection.execute(
                f"SELECT id, {_PENDING} FROM sign_ins WHERE {column} = ?", (value,)
            ).fetchone()
        if row is None:
            return None
        found, other, expires, sealed = row
        return Pending(id=found, alias=other, expires=expires, sealed=bytes(sealed))

    def save_pending(self, pending: Pending) -> None:
        """See `PeopleStore.save_pending`."""
        with self._database.writing_unversioned() as connection:
            row = (pending.id, pending.alias, pending.expires, pending.sealed)
            connection.execute(_SAVE_PENDING, row)

    def drop_pending(self, id: str) -> None:
        """See `PeopleStore.drop_pending`."""
        with self._database.writing_unversioned() as connection:
            connection.execute("DELETE FROM sign_ins WHERE id = ?", (id,))

    def count_pending(self) -> int:
        """See `PeopleStore.count_pending`."""
        with self._database.reading() as connection:
            count: int = connection.execute("SELECT count(*) FROM sign_ins").fetchone()[0]
        return count

    def signing_keys(self) -> Sequence[SigningKey]:
        """See `PeopleStore.signing_keys`."""
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT id, {_KEY} FROM signing_keys ORDER BY created")
            return [_signing_key(row) for row in rows]

    def save_signing_key(self, key: SigningKey) -> None:
        """See `PeopleStore.save_signing_key`."""
        with self._database.writing() as (connection, version):
            connection.execute(_SAVE_KEY, (key.id, version, key.created, key.sealed))

    def _people(self, where: str, *values: object) -> list[StoredPerson]:
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT id, {_PERSON} FROM people WHERE {where}", values)
            return [_person(row) for row in rows]

    def _sessions(self, where: str, *values: object) -> list[StoredSession]:
        with self._database.reading() as connection:
            statement = f"SELECT id, {_SESSION} FROM person_sessions WHERE {where}"
            return [_session(row) for row in connection.execute(statement, values)]


def add_session_uses(connection: Connection, uses: Uses) -> None:
    """Note when sessions were used. `uses` has those of keys as well."""
    connection.executemany(_USE, [(digest.hex(), at) for digest, (_, at) in uses.items()])


def asked_people(connection: Connection, version: int) -> Callable[[], PeopleChanges]:
    """Request what changed after a version; the result reads it."""
    people, sessions, keys = (
        connection.execute(f"SELECT id, {columns} FROM {table} WHERE version > ?", (version,))
        for columns, table in (
            (_PERSON, "people"),
            (_SESSION, "person_sessions"),
            (_KEY, "signing_keys"),
        )
    )
    return lambda: PeopleChanges(
        people=tuple(map(_person, people)),
        sessions=tuple(map(_session, sessions)),
        signing_keys=tuple(map(_signing_key, keys)),
    )


def sweep_people(connection: Connection, now: float, most: int) -> int:
    """Drop at most so many sessions that ended, and so many sign-ins that nobody ended. Returns the
    larger number."""
    sessions = connection.execute(_SWEEP_SESSIONS, (now - _ENDED_KEPT_S, now - IDLE_S, most))
    pending = connection.execute(_SWEEP_PENDING, (now, most))
    return max(sessions.rowcount, pending.rowcount)


def _person(row: Sequence[Any]) -> StoredPerson:
    id, name, identity, created, seen, enabled = row
    return StoredPerson(
        id=id,
        name=name,
        identity=_read_identity(identity),
        created=created,
        seen=seen,
        enabled=bool(enabled),
    )


def _session(row: Sequence[Any]) -> StoredSession:
    names = ["id", *(name.strip() for name in _SESSION.split(","))]
    values = dict(zip(names, row, strict=True))
    return StoredSession(**{**values, "sealed": bytes(values["sealed"])})


def _signing_key(row: Sequence[Any]) -> SigningKey:
    id, created, sealed = row
    return SigningKey(id=id, created=created, sealed=bytes(sealed))
