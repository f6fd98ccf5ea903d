"""Stored responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec.structs import replace

from dragoman.jsontext import decoder
from dragoman.storage.bound import BoundIds
from dragoman.storage.responses import (
    FINISHED,
    Item,
    Items,
    LeftResponse,
    StoredEvent,
    StoredResponse,
    TooLarge,
    Turn,
)
from dragoman.storage.tables.bound import BoundTable, fits, sweep
from dragoman.storage.tables.database import Connection, Database

_SWEPT_AT_ONCE = 200
_DROPPED_AT_ONCE = 20
_SPARE = 200
"""Where room is made, this part of all is left free in addition."""
_ABANDONED_AFTER_S = 10.0
"""Seconds without a report after which the worker of a background response is considered dead."""
_TAKEN_WITHIN_S = 3600.0
"""Seconds after the last report in which another worker may take it over: no client waits
longer."""
_CLAIMED_S = 3600
"""Seconds after which a claim without an answer expires."""
_LONGEST_CONVERSATION = 10_000
"""Most turns of a conversation."""

_read_items = decoder(tuple[msgspec.Raw, ...])
_FIELDS = (
    "id, owner, created, expires, status, response, previous, input, output, background, taken"
)

_EVENT_BYTES = (
    "SELECT coalesce(sum(length(frame)), 0) FROM response_events WHERE response = excluded.id"
)
_RUNNING = "('queued', 'in_progress')"
_REQUEST_LEFT = f"CASE WHEN excluded.status IN {_RUNNING} THEN responses.request END"
_PUT = f"""
INSERT INTO responses ({_FIELDS}, bytes, alive)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, response = excluded.response,
        input = excluded.input, output = excluded.output, alive = excluded.alive,
        request = {_REQUEST_LEFT},
        bytes = excluded.bytes + ({_EVENT_BYTES}) + coalesce(length({_REQUEST_LEFT}), 0)
    WHERE responses.owner = excluded.owner AND NOT responses.deleted
        AND responses.taken <= excluded.taken AND responses.status IN {_RUNNING}
"""
_LEFT = f"background AND NOT deleted AND status IN {_RUNNING} AND alive < ?"
_TO_TAKE = "request IS NOT NULL AND taken = 0 AND NOT cancelled AND alive >= ?"
_LATER = "EXISTS (SELECT 1 FROM responses AS later WHERE later.previous = responses.id)"
_CONVERSATION = f"""
WITH RECURSIVE turns (id, previous, place) AS (
    SELECT id, previous, 0 FROM responses
        WHERE id = ?1 AND owner = ?2 AND NOT deleted AND expires > ?3
    UNION ALL
    SELECT before.id, before.previous, place + 1
        FROM responses AS before JOIN turns ON before.id = turns.previous
        WHERE before.owner = ?2 AND place < {_LONGEST_CONVERSATION}
)
SELECT turns.id, turns.previous, status, input, output
    FROM turns JOIN responses ON responses.id = turns.id ORDER BY place DESC
"""


class ResponseOptions(TypedDict, total=False):
    """The size limits of responses, and the clock."""

    most_bytes: int
    largest_bytes: int
    clock: Callable[[], float]


class ResponseTables:
    """Implements `ResponseStore` on a database.

    `most_bytes` is the limit of all responses, `largest_bytes` that of one. When the limit is
    reached, the oldest that no other builds on are dropped, of whoever stores most. `clock` is Unix
    time. One thread at a time may use it; a process that forks must not use what its parent opened.
    """

    def __init__(
        self,
        database: Database,
        *,
        most_bytes: int = 1024 * 1024 * 1024,
        largest_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._most = most_bytes
        self._largest = largest_bytes
        self._clock = clock
        self.bound: BoundIds = BoundTable(database, clock)

    def close(self) -> None:
        """See `ResponseStore.close`."""
        self._database.close()

    def put(self, stored: StoredResponse, events: Sequence[StoredEvent] = ()) -> None:
        """See `ResponseStore.put`."""
        (too_large,) = self.put_all([(stored, events)])
        if too_large is not None:
            raise too_large

    def put_all(
        self, some: Sequence[tuple[StoredResponse, Sequence[StoredEvent]]]
    ) -> list[TooLarge | None]:
        """See `ResponseStore.put_all`."""
        sizes = [_size(stored) for stored, _ in some]
        found: list[TooLarge | None] = []
        items: list[tuple[str, str, str]] = []
        with self._database.writing_unversioned() as connection:
            # Usually there is room for all, which one query shows.
            roomy = _stored_bytes(connection) + sum(sizes) <= self._most
            for (stored, events), size in zip(some, sizes, strict=True):
                try:
                    if size > self._largest:
                        most = self._largest
                        raise TooLarge(f"the response has {size} bytes, and {most} may be stored")
                    if not roomy:
                        self._make_room(connection, stored, size)
                except TooLarge as error:
                    found.append(error)
                    continue
                found.append(None)
                # A response that was finished, cancelled or deleted stays so.
                if not self._write(connection, stored, size):
                    continue
                name, owner = stored.id, stored.owner
                items += [(owner, item, name) for item in _lookup_ids(stored)]
                if events:
                    _add_events(connection, name, events)
            if items:
                connection.executemany(
                    "INSERT INTO response_items (owner, item, response) VALUES (?, ?, ?)"
                    " ON CONFLICT DO NOTHING",
                    items,
                )
        return found

    def _write(self, connection: Connection, stored: StoredResponse, size: int) -> bool:
        """Write a response, unless the one of that id is final. Returns whether it was written."""
        written = connection.execute(
            _PUT,
            (
                stored.id,
                stored.owner,
                stored.created,
                stored.expires,
                stored.status,
                stored.response,
                stored.previous,
                stored.input.body,
                stored.output.body,
                stored.background,
                stored.taken,
                size,
                self._clock() + self._database.ahead_s,
            ),
        )
        return written.rowcount > 0

    def get(self, response: str, owner: str) -> StoredResponse | None:
        """See `ResponseStore.get`."""
        with self._database.reading() as connection:
            return self._get(connection, response, owner)

    def conversation(self, response: str, owner: str) -> list[Turn] | None:
        """See `ResponseStore.conversation`."""
        with self._database.reading() as connection:
            rows = connection.execute(_CONVERSATION, (response, owner, self._clock())).fetchall()
        if not rows or rows[0][1] is not None:
            return None
        return [
            Turn(turn, status, _bodies(given), _bodies(made))
            for turn, _, status, given, made in rows
        ]

    def item(self, item: str, owner: str) -> Item | None:
        """See `ResponseStore.item`."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT input, output FROM response_items"
                " JOIN responses ON responses.id = response_items.response"
                " WHERE response_items.owner = ? AND item = ? AND NOT deleted AND expires > ?"
                " ORDER BY created DESC LIMIT 1",
                (owner, item, self._clock()),
            ).fetchone()
        if row is None:
            return None
        bodies = (*_bodies(row[0]), *_bodies(row[1]))
        return next((Item(item, body) for body in bodies if _read_name(body).id == item), None)

    def delete(self, response: str, owner: str) -> bool:
        """See `ResponseStore.delete`."""
        with self._database.writing_unversioned() as connection:
            connection.queue()
            if self._get(connection, response, owner) is None:
                return False
            connection.execute(
                "UPDATE responses SET deleted = TRUE, response = ? WHERE id = ?", (b"", response)
            )
            connection.execute("DELETE FROM response_events WHERE response = ?", (response,))
            self._drop_useless(connection)
        return True

    def keep_request(self, response: str, request: bytes) -> None:
        """See `ResponseStore.keep_request`."""
        with self._database.writing_unversioned() as connection:
            connection.execute(
                f"UPDATE responses SET request = ?, bytes = bytes + ?"
                f" WHERE id = ? AND status IN {_RUNNING}",
                (request, len(request), response),
            )

    def append(self, response: str, events: Sequence[StoredEvent], taken: int = 0) -> bool:
        """See `ResponseStore.append`."""
        with self._database.writing_unversioned() as connection:
            goes_on = connection.execute(
                "UPDATE responses SET alive = ?"
                " WHERE id = ? AND NOT deleted AND NOT cancelled AND taken = ?",
                (self._clock() + self._database.ahead_s, response, taken),
            ).rowcount
            if goes_on and events:
                _add_events(connection, response, events)
        return bool(goes_on)

    def events(self, response: str, owner: str, after: int, limit: int) -> list[StoredEvent]:
        """See `ResponseStore.events`."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT sequence, frame FROM response_events"
                " JOIN responses ON responses.id = response_events.response"
                " WHERE responses.id = ? AND owner = ? AND NOT deleted AND sequence > ?"
                " ORDER BY sequence LIMIT ?",
                (response, owner, after, limit),
            )
            return [StoredEvent(sequence, frame) for sequence, frame in rows]

    def last_event(self, response: str, owner: str) -> StoredEvent | None:
        """See `ResponseStore.last_event`."""
        with self._database.reading() as connection:
            return _last_event(connection, response, owner)

    def cancel(self, response: str, owner: str) -> StoredResponse | None:
        """See `ResponseStore.cancel`."""
        with self._database.writing_unversioned() as connection:
            found = self._get(connection, response, owner)
            if found is not None and found.status not in FINISHED:
                connection.execute(
                    "UPDATE responses SET cancelled = TRUE WHERE id = ?", (response,)
                )
        return found

    def claim(self, response: str, owner: str, claimed: bool) -> bool:
        """See `ResponseStore.claim`."""
        with self._database.writing_unversioned() as connection:
            now = int(self._clock())
            # The claiming worker may have been killed before it answered.
            free = f"(claimed = 0 OR claimed < {now - _CLAIMED_S} AND NOT {_LATER})"
            changed = connection.execute(
                "UPDATE responses SET claimed = ?"
                " WHERE id = ? AND owner = ? AND NOT deleted"
                f" AND {free if claimed else 'claimed <> 0'}",
                (now if claimed else 0, response, owner),
            ).rowcount
        return bool(changed)

    def leave(self, stored: StoredResponse) -> bool:
        """See `ResponseStore.leave`."""
        now = self._clock() + self._database.ahead_s
        with self._database.writing_unversioned() as connection:
            left = connection.execute(
                f"UPDATE responses SET alive = ? WHERE id = ? AND NOT deleted"
                f" AND status IN {_RUNNING} AND {_TO_TAKE}",
                (now - _ABANDONED_AFTER_S, stored.id, now - _TAKEN_WITHIN_S),
            ).rowcount
        return bool(left)

    def take_over(self, now: float, most: int) -> list[LeftResponse]:
        """See `ResponseStore.take_over`."""
        now += self._database.ahead_s
        when = (now - _ABANDONED_AFTER_S, now - _TAKEN_WITHIN_S)
        found = []
        with self._database.writing_unversioned() as connection:
            rows = connection.execute(
                f"SELECT request, {_FIELDS} FROM responses WHERE {_LEFT} AND {_TO_TAKE}"
                " ORDER BY created, id LIMIT ?",
                (*when, most),
            ).fetchall()
            for request, *row in rows:
                stored = _response(row)
                taken = connection.execute(
                    f"UPDATE responses SET taken = 1, alive = ? WHERE id = ?"
                    f" AND {_LEFT} AND {_TO_TAKE}",
                    (now, stored.id, *when),
                ).rowcount
                if taken:
                    last = _last_event(connection, stored.id, stored.owner)
                    number = -1 if last is None else last.sequence
                    found.append(LeftResponse(replace(stored, taken=1), request, number))
        return found

    def abandoned(self, now: float) -> list[StoredResponse]:
        """See `ResponseStore.abandoned`."""
        now += self._database.ahead_s
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_FIELDS} FROM responses WHERE {_LEFT} AND NOT ({_TO_TAKE}) LIMIT ?",
                (now - _ABANDONED_AFTER_S, now - _TAKEN_WITHIN_S, _SWEPT_AT_ONCE),
            )
            return [_response(row) for row in rows]

    def sweep(self, now: float) -> int:
        """See `ResponseStore.sweep`."""
        with self._database.writing_unversioned() as connection:
            connection.queue()
            hidden = connection.execute(
                "UPDATE responses SET deleted = TRUE, response = ? WHERE id IN"
                " (SELECT id FROM responses WHERE expires <= ? AND NOT deleted LIMIT ?)",
                (b"", now, _SWEPT_AT_ONCE),
            ).rowcount
            forgotten = sweep(connection, now, _SWEPT_AT_ONCE)
            dropped = self._drop_useless(connection)
            over = self._drop_oldest(connection, "", None, 0)
            return max(hidden, forgotten, dropped, over)

    def _get(self, connection: Connection, response: str, owner: str) -> StoredResponse | None:
        row = connection.execute(
            f"SELECT {_FIELDS} FROM responses"
            " WHERE id = ? AND owner = ? AND NOT deleted AND expires > ?",
            (response, owner, self._clock()),
        ).fetchone()
        return None if row is None else _response(row)

    def _make_room(self, connection: Connection, stored: StoredResponse, size: int) -> None:
        """Drop the oldest responses that no other builds on, of whoever stores most, until `size`
        bytes fit and some more, a bounded number at once: the rest is swept.

        Raises:
            TooLarge: there is not enough to drop; nothing was.
        """
        connection.queue()
        connection.execute("SAVEPOINT room")
        try:
            self._drop_for(connection, stored, size)
        except TooLarge:
            connection.execute("ROLLBACK TO room")
            raise
        finally:
            connection.execute("RELEASE room")

    def _drop_for(self, connection: Connection, stored: StoredResponse, size: int) -> None:
        row = connection.execute(
            "SELECT bytes FROM responses WHERE id = ?", (stored.id,)
        ).fetchone()
        more = size if row is None else size - row[0]
        # Who stores most is not to be asked for each response that is stored when all is full.
        spare = self._most // _SPARE
        dropped = self._drop_oldest(connection, stored.id, stored.previous, more + spare)
        if more > 0 and dropped < _SWEPT_AT_ONCE and _stored_bytes(connection) + more > self._most:
            raise TooLarge(
                f"no room is left for responses: {_stored_bytes(connection)} bytes are stored"
            )

    def _drop_oldest(
        self, connection: Connection, response: str, previous: str | None, more: int
    ) -> int:
        """Drop the oldest responses of whoever stores most until `more` bytes fit, except this one
        and the one it builds on. Returns how many were dropped, a bounded number."""
        dropped = 0
        while dropped < _SWEPT_AT_ONCE and _stored_bytes(connection) + more > self._most:
            oldest = self._oldest(connection, response, previous)
            if not oldest:
                break
            for (one,) in oldest:
                _drop(connection, one)
                dropped += 1
                if _stored_bytes(connection) + more <= self._most:
                    break
        return dropped

    def _oldest(
        self, connection: Connection, response: str, previous: str | None
    ) -> Sequence[tuple[str]]:
        """The oldest responses that may be dropped, of the owner who stores most and has any."""
        owners = connection.execute(
            "SELECT owner FROM responses GROUP BY owner ORDER BY sum(bytes) DESC"
        ).fetchall()
        for (owner,) in owners:
            found = connection.execute(
                f"SELECT id FROM responses WHERE owner = ? AND NOT {_LATER}"
                " AND id <> ? AND id <> coalesce(?, '')"
                " AND status NOT IN ('queued', 'in_progress') ORDER BY created LIMIT ?",
                (owner, response, previous, _DROPPED_AT_ONCE),
            ).fetchall()
            if found:
                return found
        return []

    def _drop_useless(self, connection: Connection) -> int:
        """Drop deleted turns that no other turn builds on, and then those these built on. A turn
        that still runs stays, so that its worker finds it deleted."""
        dropped = 0
        while dropped < _SWEPT_AT_ONCE:
            useless = connection.execute(
                f"SELECT id FROM responses WHERE deleted AND NOT {_LATER}"
                " AND NOT (status IN ('queued', 'in_progress') AND alive >= ?) LIMIT ?",
                (
                    self._clock() + self._database.ahead_s - _ABANDONED_AFTER_S,
                    _SWEPT_AT_ONCE - dropped,
                ),
            ).fetchall()
            if not useless:
                break
            for (one,) in useless:
                dropped += _drop_hidden(connection, one, _SWEPT_AT_ONCE - dropped)
        return dropped


_HIDDEN_BEFORE = """
SELECT previous FROM responses WHERE id = ? AND EXISTS (
    SELECT 1 FROM responses AS before
        WHERE before.id = responses.previous AND before.deleted
        AND before.status NOT IN ('queued', 'in_progress')
        AND NOT EXISTS (SELECT 1 FROM responses AS other
            WHERE other.previous = before.id AND other.id <> responses.id)
)
"""


def _drop_hidden(connection: Connection, response: str, most: int) -> int:
    """Drop a turn, and deleted ones before it that only it builds on: up to `most` of them. Returns
    how many were dropped."""
    dropped = 0
    following: str | None = response
    while following is not None and dropped < most:
        before = connection.execute(_HIDDEN_BEFORE, (following,)).fetchone()
        _drop(connection, following)
        dropped += 1
        following = None if before is None else before[0]
    return dropped


def _add_events(connection: Connection, response: str, events: Sequence[StoredEvent]) -> None:
    connection.executemany(
        "INSERT INTO response_events (response, sequence, frame) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [(response, event.sequence, event.frame) for event in events],
    )
    size = sum(len(event.frame) for event in events)
    connection.execute("UPDATE responses SET bytes = bytes + ? WHERE id = ?", (size, response))


def _last_event(connection: Connection, response: str, owner: str) -> StoredEvent | None:
    row = connection.execute(
        "SELECT sequence, frame FROM response_events"
        " JOIN responses ON responses.id = response_events.response"
        " WHERE responses.id = ? AND owner = ? AND NOT deleted"
        " ORDER BY sequence DESC LIMIT 1",
        (response, owner),
    ).fetchone()
    return None if row is None else StoredEvent(*row)


def _drop(connection: Connection, response: str) -> None:
    connection.execute("DELETE FROM response_items WHERE response = ?", (response,))
    connection.execute("DELETE FROM response_events WHERE response = ?", (response,))
    connection.execute("DELETE FROM responses WHERE id = ?", (response,))


def _stored_bytes(connection: Connection) -> int:
    stored: int = connection.execute("SELECT sum(bytes) FROM responses_held").fetchone()[0]
    return stored


def _lookup_ids(stored: StoredResponse) -> Iterable[str]:
    return filter(fits, (*stored.input.ids, *stored.output.ids))


def _size(stored: StoredResponse) -> int:
    return len(stored.response) + len(stored.input.body) + len(stored.output.body)


class _Named(msgspec.Struct):
    id: Any = None


_read_name = decoder(_Named)
_read_names = decoder(list[_Named])


def _bodies(body: bytes) -> tuple[bytes, ...]:
    return tuple([bytes(raw) for raw in _read_items(body)])


def _items(body: bytes) -> Items:
    names = [one.id for one in _read_names(body)]
    return Items(body, tuple([name for name in names if isinstance(name, str) and name]))


def _response(row: Sequence[Any]) -> StoredResponse:
    """A response from `_FIELDS` of its row."""
    name, owner, created, expires, status, response, previous, given, made, background, taken = row
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
        taken=taken,
    )
