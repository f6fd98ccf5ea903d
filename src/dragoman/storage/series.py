"""Time series of all workers of a machine, in a small file: slots of ten seconds, which are added
up to slots of a minute and of an hour. The file outlives the processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise

import msgspec
from msgspec import Struct, field

from dragoman.storage.ownership import guard

SLOT_S = 10
STEPS = (SLOT_S, 60, 3600)
"""Seconds of each kind of slot."""

STORED_S = {10: 3600, 60: 24 * 3600, 3600: 31 * 24 * 3600}
"""Seconds for which each kind of slot is stored at least."""

_SLACK_S = 3600 + 120
_LOCK_S = 1.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS slots (
    step INTEGER NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (step, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (at REAL NOT NULL, text TEXT NOT NULL);
"""
_MOST_UPSTREAMS = 50
_REST = "(other)"


class Slot(Struct, array_like=True):
    """Counts of one upstream in one slot: requests by outcome, histograms of duration and of time
    to first content, tokens by kind, pico-dollars, requests without a price, and errors by whose
    fault they are and kind."""

    requests: list[int]
    duration: list[int]
    first: list[int]
    tokens: list[int]
    cost: int = 0
    unpriced: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def add(self, other: Slot) -> None:
        """Add the counts of `other`."""
        self.requests = _sum(self.requests, other.requests)
        self.duration = _sum(self.duration, other.duration)
        self.first = _sum(self.first, other.first)
        self.tokens = _sum(self.tokens, other.tokens)
        self.cost += other.cost
        self.unpriced += other.unpriced
        for kind, count in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + count


Slots = dict[str, Slot]
"""By upstream; the empty name is for requests that reached none."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Slots).decode


def merged(parts: Sequence[Mapping[str, Slot]]) -> Slots:
    """The sum of several."""
    total: Slots = {}
    for part in parts:
        for name, slot in part.items():
            if name in total:
                total[name].add(slot)
            else:
                total[name] = msgspec.structs.replace(slot, errors=dict(slot.errors))
    return total


class SeriesFile:
    """The file at `path`, which is created for its owner alone. Each call opens it; any thread may
    call, and any process may read what another writes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def write(self, at: int, slots: Slots) -> None:
        """Add the counts of the ten seconds from `at` (Unix seconds) to those of other gateways
        with the same file. Longer slots that have ended are added up, and expired slots are
        dropped.

        Raises:
            OSError: it cannot be written.
            sqlite3.Error: as above.
        """
        with closing(self._opened()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            present = connection.execute(
                "SELECT data FROM slots WHERE step = ? AND at = ?", (SLOT_S, at)
            ).fetchone()
            if present is not None:
                slots = merged([_decode(present[0]), slots])
            connection.execute(_PUT, (SLOT_S, at, _encode(_bounded(slots))))
            for fine, coarse in pairwise(STEPS):
                for begin in _whole(connection, fine, coarse, at):
                    self._add_up(connection, fine, coarse, begin)
            for step, stored_s in STORED_S.items():
                connection.execute(
                    "DELETE FROM slots WHERE step = ? AND at < ?", (step, at - stored_s - _SLACK_S)
                )
            connection.execute("DELETE FROM marks WHERE at < ?", (at - STORED_S[3600],))
            connection.execute("COMMIT")

    def mark(self, at: float, text: str) -> None:
        """Record an event that may explain what follows."""
        with closing(self._opened()) as connection:
            connection.execute("INSERT INTO marks VALUES (?, ?)", (at, text))

    def read(self, since: float, until: float, now: float) -> Iterator[tuple[int, Slots]]:
        """Slots that began between two times, the finest stored ones, in order. One is in memory at
        a time."""
        if not os.path.exists(self.path):
            return
        hours = -int(-(now - STORED_S[60]) // 3600) * 3600
        minutes = -int(-(now - STORED_S[10]) // 60) * 60
        with closing(self._opened()) as connection:
            for step, begin, end in (
                (3600, since, hours),
                (60, hours, minutes),
                (10, minutes, until + 1),
            ):
                rows = connection.execute(
                    "SELECT at, data FROM slots WHERE step = ? AND at >= ? AND at < ?"
                    " AND at <= ? ORDER BY at",
                    (step, max(begin, since), end, until),
                )
                for at, data in rows:
                    yield at, _decode(data)

    def marks(self, since: float, until: float) -> list[tuple[float, str]]:
        """Events recorded between two times."""
        if not os.path.exists(self.path):
            return []
        with closing(self._opened()) as connection:
            rows = connection.execute(
                "SELECT at, text FROM marks WHERE at >= ? AND at <= ? ORDER BY at DESC LIMIT 100",
                (since, until),
            )
            return rows.fetchall()

    def _add_up(self, connection: sqlite3.Connection, fine: int, coarse: int, at: int) -> None:
        parts = connection.execute(
            "SELECT data FROM slots WHERE step = ? AND at >= ? AND at < ?", (fine, at, at + coarse)
        ).fetchall()
        if parts:
            whole = merged([_decode(data) for (data,) in parts])
            connection.execute(_PUT, (coarse, at, _encode(_bounded(whole))))

    def _opened(self) -> sqlite3.Connection:
        guard(self.path)
        if not os.path.exists(self.path):
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self.path, timeout=_LOCK_S, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(_SCHEMA)
        return connection


def _whole(connection: sqlite3.Connection, fine: int, coarse: int, now: int) -> list[int]:
    """The beginnings of longer slots that have ended, and are not added up yet."""
    rows = connection.execute(
        "SELECT DISTINCT at / ?1 * ?1 FROM slots WHERE step = ?2 AND at >="
        " (SELECT ifnull(max(at) + ?1, 0) FROM slots WHERE step = ?1) AND at < ?3 / ?1 * ?1",
        (coarse, fine, now),
    )
    return [at for (at,) in rows]


_PUT = "INSERT OR REPLACE INTO slots VALUES (?, ?, ?)"


def _bounded(slots: Slots) -> Slots:
    """The upstreams with the most requests, and the sum of the others."""
    if len(slots) <= _MOST_UPSTREAMS:
        return slots
    ranked = sorted(slots, key=lambda name: -sum(slots[name].requests))
    largest = {name: slots[name] for name in ranked[:_MOST_UPSTREAMS]}
    rest = merged([{_REST: slots[name]} for name in ranked[_MOST_UPSTREAMS:]])
    return merged([largest, rest])


def _sum(mine: list[int], its: list[int]) -> list[int]:
    return [one + other for one, other in zip(mine, its, strict=True)]
