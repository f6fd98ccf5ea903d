"""Encrypted request and answer bodies, for keys with `keep_bodies`, in partitions of their own."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.partitions import Partitions, reading

_SCHEMA = """
CREATE TABLE IF NOT EXISTS bodies (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    length INTEGER NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (id, name)
) WITHOUT ROWID;
"""


class Body(Struct, frozen=True):
    """One body of a request: the request's id, the name of the body, when the request ended (Unix
    seconds), the length of the body, and the stored part of it."""

    id: str
    name: str
    at: float
    length: int
    text: bytes


class BodyFiles(Partitions):
    """Bodies, compressed and encrypted by `cipher`. A body older than `days` is not returned, even
    while its file still exists."""

    _schema = _SCHEMA

    def __init__(
        self,
        directory: str | os.PathLike[str],
        days: float,
        most_bytes: int,
        cipher: AesGcmCipher,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(directory, days, most_bytes, clock)
        self._cipher = cipher

    def write(self, bodies: Sequence[Body]) -> None:
        """Store bodies, all or none.

        Raises:
            SealError: there is no key to encrypt them with.
            OSError: they cannot be written.
            sqlite3.Error: as above.
        """
        rows = [
            (one.id, one.name, one.at, one.length, self._cipher.seal_body(_packed(one), _name(one)))
            for one in bodies
        ]
        connection = self.connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO bodies VALUES (?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")
        except BaseException:
            self.close()
            raise

    def lengths(self, request_id: str) -> dict[str, int]:
        """The lengths of the stored bodies of a request, by name."""
        for connection in self._readings():
            with closing(connection):
                found = connection.execute(
                    "SELECT name, length FROM bodies WHERE id = ? AND at >= ?",
                    (request_id, self._oldest()),
                ).fetchall()
            if found:
                return dict(found)
        return {}

    def find(self, request_id: str, name: str) -> Body | None:
        """A body, None if it is not stored.

        Raises:
            SealError: it cannot be decrypted.
        """
        for connection in self._readings():
            with closing(connection):
                found = connection.execute(
                    "SELECT at, length, sealed FROM bodies WHERE id = ? AND name = ? AND at >= ?",
                    (request_id, name, self._oldest()),
                ).fetchone()
            if found is not None:
                at, length, sealed = found
                packed = self._cipher.open_body(sealed, f"{request_id}\0{name}")
                return Body(request_id, name, at, length, zlib.decompress(packed))
        return None

    def _readings(self) -> list[sqlite3.Connection]:
        """Connections to all partitions, the latest first."""
        found = (reading(path, "bodies") for path in reversed(self.partitions()))
        return [connection for connection in found if connection is not None]

    def _oldest(self) -> float:
        return self._clock() - self._age_s

    def _ended(self, path: Path) -> float:
        connection = reading(path, "bodies")
        if connection is None:
            return 0.0
        with closing(connection):
            latest: float | None = connection.execute("SELECT max(at) FROM bodies").fetchone()[0]
        return latest or 0.0


def _packed(body: Body) -> bytes:
    return zlib.compress(body.text, 1)


def _name(body: Body) -> str:
    return f"{body.id}\0{body.name}"
