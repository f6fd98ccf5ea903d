"""The request log, in partitions apart from the store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from dragoman.storage.partitions import Partitions, reading

LOSS_SLOT_S = 600
"""Seconds over which losses are counted together."""

_WINDOW = 4000
"""Rows that are searched between two checks of the time limit."""
_DISORDER_S = 5.0
"""Seconds by which rows may be out of order: each worker writes its batch when it can."""
_MOST_LOSS_ROWS = 20_000
"""Rows of loss counts in one partition; further ones are counted under `OTHER`."""

OTHER = "(other)"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    upstream TEXT NOT NULL,
    accounts TEXT NOT NULL,
    client TEXT NOT NULL,
    error TEXT NOT NULL,
    status INTEGER NOT NULL,
    ms REAL NOT NULL,
    losses TEXT NOT NULL,
    notable INTEGER NOT NULL,
    row BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS requests_id ON requests (id);
CREATE TABLE IF NOT EXISTS dropped (
    first REAL NOT NULL,
    last REAL NOT NULL,
    count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS losses (
    slot INTEGER NOT NULL,
    client TEXT NOT NULL,
    pair TEXT NOT NULL,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    upstream TEXT NOT NULL,
    key TEXT NOT NULL,
    requests INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    first REAL NOT NULL,
    last REAL NOT NULL,
    example TEXT NOT NULL,
    PRIMARY KEY (slot, client, pair, path, kind, upstream, key)
) WITHOUT ROWID;
"""
_INSERT = f"INSERT INTO requests VALUES (NULL, {', '.join('?' * 13)})"
_COUNT = (
    "INSERT INTO losses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " requests = requests + excluded.requests, refused = refused + excluded.refused,"
    " last = max(last, excluded.last), example = excluded.example"
)


class Entry(Struct, frozen=True, gc=False):
    """A logged request: its searchable fields, and `row`, all of its data as JSON. `accounts` are
    those tried, `losses` the kinds of its losses; `notable` entries are shown first when there are
    too many."""

    at: float
    id: str
    key: str
    model: str
    upstream: str
    accounts: tuple[str, ...]
    client: str
    error: str
    status: int
    ms: float
    losses: tuple[str, ...]
    notable: bool
    row: bytes


class LossKey(Struct, frozen=True):
    """The key by which losses are counted. `path`, without indexes, is empty for the number of all
    requests, with losses or without."""

    slot: int
    client: str
    pair: str
    path: str
    kind: str
    upstream: str
    key: str


class LossCount(Struct):
    """Requests with a loss, and requests rejected for it; the first and last time, and the id of
    the last request."""

    requests: int
    refused: int
    first: float
    last: float
    example: str


class Dropped(Struct, frozen=True):
    """Requests between two times that were not logged."""

    first: float
    last: float
    count: int


class Filters(Struct, frozen=True, kw_only=True):
    """Search conditions; an empty one matches all. `error` is a kind, or `*` for any."""

    key: str = ""
    model: str = ""
    account: str = ""
    upstream: str = ""
    error: str = ""
    status: str = ""
    loss: str = ""
    client: str = ""
    min_ms: float = 0.0


class Found(Struct, frozen=True):
    """The result of a search, the latest first: `rows` as JSON, where to continue (None: at the
    end), the time back to which everything was searched, and requests that were not logged in that
    time."""

    rows: Sequence[bytes]
    next: str | None
    searched_to: float
    dropped: Sequence[Dropped]


class RequestLogFiles(Partitions):
    """Logged requests, and counts of their losses."""

    _schema = _SCHEMA

    def _ended(self, path: Path) -> float:
        connection = reading(path, "losses")
        if connection is None:
            return 0.0
        with closing(connection):
            return _at(connection, _last(connection)) or 0.0

    def write(
        self,
        entries: Sequence[Entry],
        losses: Mapping[LossKey, LossCount],
        dropped: Dropped | None = None,
    ) -> None:
        """Write all of it, or nothing.

        Raises:
            OSError: it cannot be written.
            sqlite3.Error: as above.
        """
        connection = self.connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, map(_values, entries))
            if dropped is not None:
                row = (dropped.first, dropped.last, dropped.count)
                connection.execute("INSERT INTO dropped VALUES (?, ?, ?)", row)
            if losses:
                room = _MOST_LOSS_ROWS - _count(connection, "losses")
                for key, count in losses.items():
                    connection.execute(_COUNT, _loss_row(key, count, is_full=room <= 0))
            connection.execute("COMMIT")
        except BaseException:
            self.close()
            raise

    def search(
        self,
        filters: Filters,
        since: float,
        until: float,
        after: str | None,
        limit: int,
        seconds: float,
    ) -> Found:
        """Search requests that ended between two times, the latest first, for at most `seconds`.
        `after` is where to continue: `next` of the result before.

        Raises:
            ValueError: `after` is not valid.
        """
        ends = time.monotonic() + seconds
        where, values = _where(filters)
        begin, number = _place(after)
        rows: list[bytes] = []
        searched_to, has_looked = until, False
        for path in reversed(self.partitions()):
            if after is not None and path.stem > begin:
                continue
            connection = reading(path, "losses")
            if connection is None:
                continue
            with closing(connection):
                at = number if path.stem == begin else _number_at(connection, until + _DISORDER_S)
                while at > 0 and len(rows) < limit and (time.monotonic() < ends or not has_looked):
                    has_looked = True
                    window = connection.execute(
                        f"SELECT number, row FROM requests WHERE number > ? AND number <= ? {where}"
                        " AND at >= ? AND at <= ? ORDER BY number DESC LIMIT ?",
                        (at - _WINDOW, at, *values, since, until, limit - len(rows)),
                    ).fetchall()
                    rows += [row for _, row in window]
                    at = window[-1][0] - 1 if len(rows) >= limit else at - _WINDOW
                    time_there = _at(connection, max(at, 1))
                    searched_to = min(searched_to, time_there or searched_to)
                    if time_there is not None and time_there < since - _DISORDER_S:
                        return Found(rows, None, since, self._dropped(since, until))
                if len(rows) >= limit or (has_looked and time.monotonic() >= ends):
                    place = f"{path.stem}:{max(at, 0)}"
                    return Found(rows, place, searched_to, self._dropped(searched_to, until))
        return Found(rows, None, since, self._dropped(since, until))

    def find(self, request_id: str) -> bytes | None:
        """The data of a request, None if it is not logged."""
        for path in reversed(self.partitions()):
            connection = reading(path, "losses")
            if connection is None:
                continue
            with closing(connection):
                found = connection.execute(
                    "SELECT row FROM requests WHERE id = ? ORDER BY number DESC LIMIT 1",
                    (request_id,),
                ).fetchone()
            if found is not None:
                row: bytes = found[0]
                return row
        return None

    def tail(self, filters: Filters, after: str, limit: int) -> tuple[list[bytes], int, str]:
        """Matching requests written after a position, empty for the end: at most `limit`, notable
        ones first and then the latest; their number; and the next position."""
        files = self.partitions()
        if not files:
            return [], 0, "0:0"
        begin, number = _place(after or None)
        where, values = _where(filters)
        rows: list[tuple[float, bytes]] = []
        seen, path, end = 0, files[-1], 0
        for path in files[-2:]:
            if not after and path is not files[-1]:
                continue
            if after and path.stem < begin:
                continue
            connection = reading(path, "losses")
            if connection is None:
                continue
            with closing(connection):
                end = _last(connection)
                start = end if not after else number if path.stem == begin else 0
                bounds = (start, end, *values)
                condition = f"FROM requests WHERE number > ? AND number <= ? {where}"
                seen += connection.execute(f"SELECT count(*) {condition}", bounds).fetchone()[0]
                rows += connection.execute(
                    f"SELECT at, row {condition} ORDER BY notable DESC, number DESC LIMIT ?",
                    (*bounds, limit),
                ).fetchall()
        rows = sorted(rows[:limit], reverse=True)
        return [row for _, row in rows], seen, f"{path.stem}:{end}"

    def losses(self, since: float, until: float) -> Iterator[tuple[LossKey, LossCount]]:
        """Loss counts between two times, and the numbers of requests."""
        for path in self.partitions():
            connection = reading(path, "losses")
            if connection is None:
                continue
            with closing(connection):
                rows = connection.execute(
                    "SELECT * FROM losses WHERE slot > ? AND slot <= ?",
                    (since - LOSS_SLOT_S, until),
                )
                for slot, client, pair, path_lost, kind, upstream, key, *count in rows:
                    yield (
                        LossKey(slot, client, pair, path_lost, kind, upstream, key),
                        LossCount(*count),
                    )

    def _dropped(self, since: float, until: float) -> list[Dropped]:
        found: list[Dropped] = []
        for path in self.partitions():
            connection = reading(path, "losses")
            if connection is None:
                continue
            with closing(connection):
                rows = connection.execute(
                    "SELECT first, last, count FROM dropped WHERE last >= ? AND first <= ?"
                    " ORDER BY first DESC LIMIT 100",
                    (since, until),
                )
                found += [Dropped(*row) for row in rows]
        return found[:100]


def _values(entry: Entry) -> tuple[object, ...]:
    return (
        entry.at,
        entry.id,
        entry.key,
        entry.model,
        entry.upstream,
        _listed(entry.accounts),
        entry.client,
        entry.error,
        entry.status,
        entry.ms,
        _listed(entry.losses),
        entry.notable,
        entry.row,
    )


def _listed(names: Sequence[str]) -> str:
    """Names between line breaks, so that a whole name can be searched."""
    return f"\n{chr(10).join(names)}\n" if names else ""


def _loss_row(key: LossKey, count: LossCount, *, is_full: bool) -> tuple[object, ...]:
    path, upstream, client_key = key.path, key.upstream, key.key
    if is_full:
        path, upstream, client_key = path and OTHER, OTHER, OTHER
    return (
        key.slot,
        key.client,
        key.pair,
        path,
        key.kind,
        upstream,
        client_key,
        count.requests,
        count.refused,
        count.first,
        count.last,
        count.example,
    )


def _count(connection: sqlite3.Connection, table: str) -> int:
    number: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number


def _where(filters: Filters) -> tuple[str, list[object]]:
    """The condition in SQL, starting with AND, and its values."""
    conditions: list[str] = []
    values: list[object] = []
    for name in ("key", "model", "upstream", "client"):
        if wanted := getattr(filters, name):
            conditions.append(f"AND {name} = ?")
            values.append(wanted)
    for name, wanted in (("accounts", filters.account), ("losses", filters.loss)):
        if wanted:
            conditions.append(f"AND instr({name}, ?)")
            values.append(f"\n{wanted}\n")
    if filters.error == "*":
        conditions.append("AND error <> ''")
    elif filters.error:
        conditions.append("AND error = ?")
        values.append(filters.error)
    if filters.status:
        first = int(filters.status.replace("x", "0"))
        last = int(filters.status.replace("x", "9"))
        conditions.append("AND status BETWEEN ? AND ?")
        values += [first, last]
    if filters.min_ms:
        conditions.append("AND ms >= ?")
        values.append(filters.min_ms)
    return " ".join(conditions), values


def _place(after: str | None) -> tuple[str, int]:
    if after is None:
        return "", 0
    begin, _, number = after.partition(":")
    if not (begin.isdecimal() and number.isdecimal() and len(after) < 40 and after.isascii()):
        raise ValueError("no such place")
    return begin, int(number)


def _number_at(connection: sqlite3.Connection, at: float) -> int:
    """The number of roughly the last row at a time: rows are nearly ordered by time."""
    low, high = 0, _last(connection)
    while low < high:
        middle = (low + high + 1) // 2
        found = _at(connection, middle)
        if found is not None and found <= at:
            low = middle
        else:
            high = middle - 1
    return low


def _last(connection: sqlite3.Connection) -> int:
    """The highest number."""
    number: int = connection.execute("SELECT ifnull(max(number), 0) FROM requests").fetchone()[0]
    return number


def _at(connection: sqlite3.Connection, number: int) -> float | None:
    found = connection.execute("SELECT at FROM requests WHERE number = ?", (number,)).fetchone()
    return None if found is None else found[0]
