"""Stores as released versions of the program made them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from dragoman.storage.sqlite_schema import APPLICATION_ID

_HERE = Path(__file__).parent


def _versions(name: str) -> list[list[str]]:
    """The statements of each version; a comment ends those of the one before."""
    versions: list[list[str]] = []
    for line in (_HERE / name).read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith("--"):
            versions.append([])
        else:
            versions[-1].append(line)
    return versions


SQLITE_VERSIONS = _versions("former_sqlite.sql")
POSTGRES_VERSIONS = _versions("former_postgres.sql")


def make_sqlite(path: Path, version: int) -> None:
    """Make an empty store of a version."""
    with closing(sqlite3.connect(path)) as made, made:
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for number, statements in enumerate(SQLITE_VERSIONS[:version], 1):
            for statement in statements:
                made.execute(statement)
            made.execute("INSERT INTO migrations VALUES (?, 0)", (number,))


def make_postgres(url: str, version: int) -> None:
    """Make an empty store of a version."""
    with psycopg.connect(url) as made:
        for number, statements in enumerate(POSTGRES_VERSIONS[:version], 1):
            for statement in statements:
                made.execute(statement)  # type: ignore[arg-type, unused-ignore]
            made.execute("INSERT INTO migrations VALUES (%s, 0)", (number,))
