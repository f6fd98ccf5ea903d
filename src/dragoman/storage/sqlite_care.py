"""Maintenance of a store's file: checking it, copying it, and giving back its unused space."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman.accounts.store import StoreError
from dragoman.storage.sqlite_connection import SqliteConnection, explained, tables_version
from dragoman.storage.sqlite_schema import SQLITE
from dragoman.storage.tables.database import Connection

_LOCK_S = 10.0


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a check. `unused` of the `bytes` are free pages; `tables` is the version of the
    tables, and `newest` the one of this program; without `faults` the store is intact."""

    bytes: int
    unused: int
    tables: int
    newest: int
    faults: tuple[str, ...]


def check(path: str | os.PathLike[str]) -> Health:
    """Read all of the store at `path`, without changing or upgrading it.

    Raises:
        StoreError: it does not exist, is not a store, or cannot be read at all.
    """
    with _opened(Path(path), "ro") as connection:
        # One state throughout, even if another process writes meanwhile.
        connection.execute("BEGIN")
        tables = tables_version(connection, Path(path))
        pages, unused, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        faults = [] if found == ["ok"] else found
        if not faults and tables >= SQLITE.version:
            faults.extend(wrong_sums(connection))
        return Health(pages * size, unused * size, tables, SQLITE.version, tuple(faults))


def backup(
    path: str | os.PathLike[str], to: str | os.PathLike[str], *, replaces: bool = False
) -> int:
    """Copy the present state of the store at `path` to a new file `to` for its owner alone, which
    appears when it is complete, and may replace a former one if it `replaces`. Returns its bytes.

    Raises:
        StoreError: `to` exists, or the store cannot be copied or is damaged.
    """
    source, target = Path(path), Path(to)
    with _opened(source, "ro") as connection:
        tables_version(connection, source)
        if not replaces and os.path.lexists(target):
            raise StoreError(f"{target}: is there already")
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        except OSError as error:
            raise StoreError(f"{target}: {error.strerror}") from error
        partial = Path(name)
        try:
            _copy(connection, partial)
            os.fsync(handle)
            partial.rename(target)
            return target.stat().st_size
        except sqlite3.Error as error:
            raise StoreError(f"{target}: {explained(error, target)}") from error
        except OSError as error:
            raise StoreError(f"{target}: {error.strerror}") from error
        finally:
            os.close(handle)
            partial.unlink(missing_ok=True)


def vacuum(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Give the unused pages of the store at `path` back to the file system. Returns its bytes
    before and after. Nobody else can write meanwhile.

    Raises:
        StoreError: it does not exist, is not a store, or is locked for too long.
    """
    file = Path(path)
    with _opened(file, "rw") as connection:
        tables_version(connection, file)
        before = file.stat().st_size
        connection.execute("VACUUM")
        # The file itself shrinks when what was written is moved into it.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, file.stat().st_size


def _copy(connection: sqlite3.Connection, to: Path) -> None:
    with closing(sqlite3.connect(to, isolation_level=None)) as copy:
        connection.backup(copy)
        # So that the one file is all there is of it.
        copy.execute("PRAGMA journal_mode = DELETE")
        if copy.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("the store is damaged")


def wrong_sums(connection: Connection) -> Iterator[str]:
    """Sums in a store that differ from the rows they are of."""
    counted = connection.execute("SELECT sum(bytes) FROM responses_held").fetchone()[0]
    found = connection.execute("SELECT coalesce(sum(bytes), 0) FROM responses").fetchone()[0]
    if counted != found:
        yield f"stored responses have {found} bytes, and {counted} are counted"


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[SqliteConnection]:
    """A connection to an existing store, which is neither created nor upgraded."""
    if not path.is_file():
        raise StoreError(f"{path}: there is no store")
    try:
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_LOCK_S, isolation_level=None, factory=SqliteConnection
        )
        with closing(connection):
            yield connection
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {explained(error, path)}") from error
