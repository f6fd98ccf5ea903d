"""The tables of a store in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from dragoman.storage.schema import Dialect, upgrade

APPLICATION_ID: Final = 0x44524147
"""Marks this program's files among SQLite files ("DRAG"); offset 68 of the file."""

SQLITE: Final = Dialect(
    version=16,
    types={
        **{kind: kind for kind in ("INTEGER", "REAL", "TEXT", "BLOB")},
        "BOOLEAN": "INTEGER",
    },
    serial="INTEGER PRIMARY KEY AUTOINCREMENT",
    clustered=" WITHOUT ROWID",
    filled="",
    counted_bytes=(
        "INSERT INTO responses_held VALUES (1, 0)",
        "CREATE TRIGGER responses_added AFTER INSERT ON responses BEGIN"
        " UPDATE responses_held SET bytes = bytes + new.bytes; END",
        "CREATE TRIGGER responses_changed AFTER UPDATE OF bytes ON responses BEGIN"
        " UPDATE responses_held SET bytes = bytes + new.bytes - old.bytes; END",
        "CREATE TRIGGER responses_dropped AFTER DELETE ON responses BEGIN"
        " UPDATE responses_held SET bytes = bytes - old.bytes; END",
    ),
)

_PINS_AS_LOG = 3
_WITH_ATTEMPTS = 4
_WITH_CHARGES = 6
_BY_TEAM_AND_USER = 8
"""Versions whose tables could not be reached by additions alone."""


def upgrade_file(version: int, present: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The statements that bring a file of that version up to date; 0: an empty one."""
    present = dict(present)
    if 0 < version < _PINS_AS_LOG:
        yield "DROP TABLE pins"
        del present["pins"]
    former = _former_sums(version)
    for table in former:
        yield f"ALTER TABLE {table} RENAME TO {table}_before"
        del present[table]
    yield from upgrade(SQLITE, present)
    for table, columns in former.items():
        yield f"INSERT INTO {table} SELECT {columns} FROM {table}_before"
        yield f"DROP TABLE {table}_before"


def _former_sums(version: int) -> dict[str, str]:
    """The tables whose key had fewer columns, and the expressions that fill the present ones. What
    was not counted is unknown, and so empty or 0."""
    if not 0 < version < _BY_TEAM_AND_USER:
        return {}
    attempts = "attempts, failed, retries"
    if version < _WITH_ATTEMPTS:
        attempts = ", ".join(
            (
                "CASE WHEN account = '' THEN 0 ELSE requests END",
                "CASE WHEN account = '' THEN 0 ELSE errors END",
                "0",
            )
        )
    found = {
        "usage": "hour, account, client, model, route, '', '', '', '', requests, errors, unmetered,"
        f" input, cached, cache_write, output, reasoning, milliseconds, {attempts}, 0"
    }
    if version >= _WITH_CHARGES:
        found["charges"] = (
            "hour, account, client, model, route, upstream, priced_as, tier, above, prices, '', '',"
            " '', requests, unpriced, input, cached, cache_write, cache_write_1h, output,"
            " reasoning, searches, cost"
        )
    return found
