"""Stored responses in the SQLite file of the pool's store."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence

import msgspec

from dragoman.storage.responses import (
    FINISHED,
    Item,
    ResponseStatus,
    StoredEvent,
    StoredResponse,
    TooLarge,
    Turn,
)
from dragoman.storage.sqlite_file import SqliteFile

_SWEPT_AT_ONCE = 200
_ABANDONED_AFTER_S = 10.0
"""Seconds without a sign of life after which a background response has nobody who runs it."""
_LONGEST_CONVERSATION = 10_000
"""Turns that are walked back at most."""

_items_json = msgspec.json.Encoder()
_read_items = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode
_FIELDS = "id, owner, created, expires, status, response, previous, input, output, background"

_LATER = "EXISTS (SELECT 1 FROM responses AS later WHERE later.previous = responses.id)"
_CONVERSATION = f"""
WITH RECURSIVE turns (id, previous, input, output, place) AS (
    SELECT id, previous, input, output, 0 FROM responses
        WHERE id = ?1 AND owner = ?2 AND NOT deleted AND expires > ?3
    UNION ALL
    SELECT before.id, before.previous, before.input, before.output, place + 1
        FROM responses AS before JOIN turns ON before.id = turns.previous
        WHERE before.owner = ?2 AND place < {_LONGEST_CONVERSATION}
)
SELECT id, previous, input, output FROM turns ORDER BY place DESC
"""


class SqliteResponses:
    """Stored responses in the file at `path`.

    `most_bytes` is the room for all, `largest_bytes` that for one. When there is no more room the
    oldest that nothing builds on are dropped. `clock` is Unix time. One thread may use it at a
    time; a process that forks must not use what its parent opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        most_bytes: int = 1024 * 1024 * 1024,
        largest_bytes: int = 64 * 1024 * 1024,
        lock_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = SqliteFile(path, lock_s)
        self._most = most_bytes
        self._largest = largest_bytes
        self._clock = clock

    def close(self) -> None:
        """See `ResponseStore.close`."""
        self._file.close()

    def put(self, stored: StoredResponse) -> None:
        """See `ResponseStore.put`."""
        given, made = _written(stored.input), _written(stored.output)
        size = len(stored.response) + len(given) + len(made)
        if size > self._largest:
            raise TooLarge(f"the response has {size} bytes, and {self._largest} may be kept")
        with self._file.writing(stamped=False) as (connection, _):
            self._make_room(connection, stored.id, size)
            # What was finished, cancelled or deleted meanwhile stays so.
            connection.execute(
                f"INSERT INTO responses ({_FIELDS}, bytes, alive)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET status = excluded.status,"
                " response = excluded.response, input = excluded.input,"
                " output = excluded.output, bytes = excluded.bytes, alive = excluded.alive"
                " WHERE responses.owner = excluded.owner AND NOT responses.deleted"
                " AND responses.status IN ('queued', 'in_progress')",
                (
                    stored.id,
                    stored.owner,
                    stored.created,
                    stored.expires,
                    stored.status,
                    stored.response,
                    stored.previous,
                    given,
                    made,
                    stored.background,
                    size,
                    self._clock(),
                ),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO response_items (owner, item, response) VALUES (?, ?, ?)",
                [
                    (stored.owner, item.id, stored.id)
                    for item in (*stored.input, *stored.output)
                    if item.id
                ],
            )

    def get(self, response: str, owner: str) -> StoredResponse | None:
        """See `ResponseStore.get`."""
        with self._file.reading() as connection:
            return self._get(connection, response, owner)

    def conversation(self, response: str, owner: str) -> list[Turn] | None:
        """See `ResponseStore.conversation`."""
        with self._file.reading() as connection:
            rows = connection.execute(_CONVERSATION, (response, owner, self._clock())).fetchall()
        if not rows or rows[0][1] is not None:
            return None
        return [Turn(turn, _items(given), _items(made)) for turn, _, given, made in rows]

    def item(self, item: str, owner: str) -> Item | None:
        """See `ResponseStore.item`."""
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT input, output FROM response_items"
                " JOIN responses ON responses.id = response_items.response"
                " WHERE response_items.owner = ? AND item = ? AND NOT deleted AND expires > ?",
                (owner, item, self._clock()),
            ).fetchone()
        if row is None:
            return None
        return next((one for one in (*_items(row[0]), *_items(row[1])) if one.id == item), None)

    def delete(self, response: str, owner: str) -> bool:
        """See `ResponseStore.delete`."""
        with self._file.writing(stamped=False) as (connection, _):
            if self._get(connection, response, owner) is None:
                return False
            connection.execute(
                "UPDATE responses SET deleted = 1, response = x'' WHERE id = ?", (response,)
            )
            connection.execute("DELETE FROM response_events WHERE response = ?", (response,))
            self._drop_useless(connection)
        return True

    def append(self, response: str, events: Sequence[StoredEvent]) -> bool:
        """See `ResponseStore.append`."""
        with self._file.writing(stamped=False) as (connection, _):
            goes_on = connection.execute(
                "UPDATE responses SET alive = ? WHERE id = ? AND NOT deleted AND NOT cancelled",
                (self._clock(), response),
            ).rowcount
            if goes_on:
                connection.executemany(
                    "INSERT OR IGNORE INTO response_events (response, sequence, frame)"
                    " VALUES (?, ?, ?)",
                    [(response, event.sequence, event.frame) for event in events],
                )
                size = sum(len(event.frame) for event in events)
                connection.execute(
                    "UPDATE responses SET bytes = bytes + ? WHERE id = ?", (size, response)
                )
        return bool(goes_on)

    def events(self, response: str, owner: str, after: int, limit: int) -> list[StoredEvent]:
        """See `ResponseStore.events`."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT sequence, frame FROM response_events"
                " JOIN responses ON responses.id = response_events.response"
                " WHERE responses.id = ? AND owner = ? AND NOT deleted AND sequence > ?"
                " ORDER BY sequence LIMIT ?",
                (response, owner, after, limit),
            )
            return [StoredEvent(sequence, frame) for sequence, frame in rows]

    def cancel(self, response: str, owner: str) -> StoredResponse | None:
        """See `ResponseStore.cancel`."""
        with self._file.writing(stamped=False) as (connection, _):
            found = self._get(connection, response, owner)
            if found is not None and found.status not in FINISHED:
                connection.execute("UPDATE responses SET cancelled = 1 WHERE id = ?", (response,))
        return found

    def claim(self, response: str, owner: str, claimed: bool) -> bool:
        """See `ResponseStore.claim`."""
        with self._file.writing(stamped=False) as (connection, _):
            changed = connection.execute(
                "UPDATE responses SET claimed = ?1"
                " WHERE id = ?2 AND owner = ?3 AND claimed <> ?1 AND NOT deleted",
                (claimed, response, owner),
            ).rowcount
        return bool(changed)

    def abandoned(self, now: float) -> list[StoredResponse]:
        """See `ResponseStore.abandoned`."""
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT {_FIELDS} FROM responses WHERE background AND NOT deleted"
                " AND status IN ('queued', 'in_progress') AND alive < ? LIMIT ?",
                (now - _ABANDONED_AFTER_S, _SWEPT_AT_ONCE),
            )
            return [_response(row) for row in rows]

    def sweep(self, now: float) -> int:
        """See `ResponseStore.sweep`."""
        with self._file.writing(stamped=False) as (connection, _):
            connection.execute(
                "UPDATE responses SET deleted = 1, response = x'' WHERE id IN"
                " (SELECT id FROM responses WHERE expires <= ? AND NOT deleted LIMIT ?)",
                (now, _SWEPT_AT_ONCE),
            )
            return self._drop_useless(connection)

    def _get(
        self, connection: sqlite3.Connection, response: str, owner: str
    ) -> StoredResponse | None:
        row = connection.execute(
            f"SELECT {_FIELDS} FROM responses"
            " WHERE id = ? AND owner = ? AND NOT deleted AND expires > ?",
            (response, owner, self._clock()),
        ).fetchone()
        return None if row is None else _response(row)

    def _make_room(self, connection: sqlite3.Connection, response: str, size: int) -> None:
        """Drop the oldest that nothing builds on until `size` bytes fit.

        Raises:
            TooLarge: they do not.
        """
        held = _held(connection)
        while held + size > self._most:
            oldest = connection.execute(
                f"SELECT id FROM responses WHERE NOT {_LATER} AND id <> ?"
                " AND status NOT IN ('queued', 'in_progress') ORDER BY created LIMIT ?",
                (response, _SWEPT_AT_ONCE),
            ).fetchall()
            if not oldest:
                raise TooLarge(f"no room is left for responses: {held} bytes are kept")
            for (one,) in oldest:
                _drop(connection, one)
                held = _held(connection)
                if held + size <= self._most:
                    break

    def _drop_useless(self, connection: sqlite3.Connection) -> int:
        """Drop turns that are hidden and that no other turn builds on. Whoever still runs one has
        to find that it is."""
        useless = connection.execute(
            f"SELECT id FROM responses WHERE deleted AND NOT {_LATER}"
            " AND NOT (status IN ('queued', 'in_progress') AND alive >= ?) LIMIT ?",
            (self._clock() - _ABANDONED_AFTER_S, _SWEPT_AT_ONCE),
        ).fetchall()
        for (one,) in useless:
            _drop(connection, one)
        return len(useless)


def _drop(connection: sqlite3.Connection, response: str) -> None:
    connection.execute("DELETE FROM response_items WHERE response = ?", (response,))
    connection.execute("DELETE FROM response_events WHERE response = ?", (response,))
    connection.execute("DELETE FROM responses WHERE id = ?", (response,))


def _held(connection: sqlite3.Connection) -> int:
    held: int = connection.execute("SELECT bytes FROM responses_held").fetchone()[0]
    return held


def _written(items: Sequence[Item]) -> bytes:
    return b"[" + b",".join([item.body for item in items]) + b"]"


class _Named(msgspec.Struct):
    id: str = ""


_read_name = msgspec.json.Decoder(_Named).decode


def _items(body: bytes) -> tuple[Item, ...]:
    return tuple(Item(_read_name(raw).id, bytes(raw)) for raw in _read_items(body))


def _response(
    row: tuple[str, str, float, float, ResponseStatus, bytes, str | None, bytes, bytes, int],
) -> StoredResponse:
    name, owner, created, expires, status, response, previous, given, made, background = row
    return StoredResponse(
        id=name,
        owner=owner,
        created=created,
        expires=expires,
        status=status,
        response=response,
        previous=previous,
        input=_items(given),
        output=_items(made),
        background=bool(background),
    )
