"""A store's database in PostgreSQL, for any number of machines.

Each transaction is sent in a pipeline: a statement whose result is not read waits for nothing, so a
transaction takes as many round trips as it reads. No session state is used, so the connection may
be one of PgBouncer's.
"""

from __future__ import annotations

import random
import re
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import Loader
from psycopg.types.numeric import NumericBinaryLoader

from dragoman.accounts.store import CommitUnknown, NewerStore, StoreError
from dragoman.jsontext import JsonError
from dragoman.storage.postgres.link import Link, Url, cut, is_quiet, linked
from dragoman.storage.postgres.schema import POSTGRES, TYPES
from dragoman.storage.schema import TABLES, upgrade
from dragoman.storage.tables.database import adding, is_too_new, needs_upgrade, used_by_newer
from dragoman.storage.tables.table import Table

TABLES_LOCK = 0x647261676F6D616E
"""Number of the advisory lock under which tables are upgraded."""

_QUEUE_LOCK = TABLES_LOCK + 1
_STATEMENT_MS = 10_000
_LONGEST_S = 30.0
"""Seconds after which a transaction is given up if the server does not even reject it."""
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 3.0
_LONGEST_KEY = 220
"""Bytes of one text in a key: all of them have to fit into a third of an index page."""

_LONGEST_MESSAGE = 300
"""Characters of a message of the driver."""

_NUL = "\0"
"""A character that PostgreSQL cannot store in a text."""

_encode = msgspec.json.Encoder().encode
_TYPES = {int: TYPES["INTEGER"], float: TYPES["REAL"], str: TYPES["TEXT"]}
_BEGIN = "BEGIN"
_WRITE = "UPDATE clock SET version = version + 1 RETURNING version"
_BOUNDED = (
    f"SELECT set_config('statement_timeout', '{_STATEMENT_MS}', true),"
    f" set_config('idle_in_transaction_session_timeout', '{_STATEMENT_MS}', true)"
)
"""As SET LOCAL of both, in one statement."""
_LOCK = "SELECT version FROM clock FOR UPDATE"
_COLUMNS = """
SELECT asked.name, attname FROM unnest(%s::text[]) AS asked (name)
JOIN pg_attribute ON attrelid = to_regclass(asked.name) WHERE attnum > 0 AND NOT attisdropped
"""


class PostgresDatabase:
    """The database of `url`: see `dragoman.storage.tables.database.Database`.

    With `serial`, writing transactions run one after another even if they make no version;
    `longest_s` is the time limit of a transaction, if not the default. After a failure it is
    connected to again: at once, and then after growing pauses, during which it counts as
    unavailable.
    """

    def __init__(self, url: Url, *, serial: bool = True, longest_s: float | None = None) -> None:
        self._url = url
        self._serial = serial
        self._longest_s = longest_s
        self.ahead_s = 0.0
        self.opened = 0
        self.replaced = False
        self._link: Link | None = None
        self._made: float | None = None
        self._open_transaction: PostgresConnection | None = None
        self._open_version: int | None = None
        self._delay_s = 0.0
        self._not_before = 0.0
        self._deadline: float | None = None
        self._commits = False
        self._upgrades, self._upgraded = False, ""
        self._watched: threading.Event | None = None
        self._watcher: threading.Thread | None = None

    def open(self) -> None:
        """See `Database.open`."""
        with self._failing():
            self._connected()

    def upgrade(self) -> str:
        """See `Database.upgrade`."""
        self._upgrades, self._upgraded = True, ""
        try:
            self.open()
        finally:
            self._upgrades = False
        return self._upgraded

    def close(self) -> None:
        """See `Database.close`."""
        if self._watched is not None and self._watcher is not None:
            # A process that forks afterwards must have one thread.
            self._watched.set()
            self._watcher.join()
            self._watched = self._watcher = None
        link, self._link = self._link, None
        if link is not None:
            with suppress(psycopg.Error):
                link.close()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """See `Database.deciding`."""
        with self._transaction() as connection:
            connection.execute(_LOCK)
            self._open_transaction, self._open_version = connection, None
            try:
                yield
            finally:
                self._open_transaction = None

    @contextmanager
    def writing(self) -> Iterator[tuple[PostgresConnection, int]]:
        """See `Database.writing`."""
        with self._transaction() as connection:
            if self._open_transaction is None or self._open_version is None:
                # The next writer waits here, so that versions appear in order.
                self._open_version = connection.execute(_WRITE).fetchone()[0]
            yield connection, self._open_version

    @contextmanager
    def writing_unversioned(self) -> Iterator[PostgresConnection]:
        """See `Database.writing_unversioned`."""
        with self._transaction() as connection:
            if self._serial and self._open_transaction is None:
                connection.execute(_LOCK)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        """See `Database.reading`."""
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str = _BEGIN) -> Iterator[PostgresConnection]:
        if self._open_transaction is not None:
            yield self._open_transaction
            return
        with self._failing():
            link = self._connected()
            done = False
            self._deadline = time.monotonic() + (self._longest_s or _LONGEST_S)
            try:
                with link.pipeline() as pipeline:
                    connection = PostgresConnection(link, pipeline)
                    connection.execute(begin)
                    # A process that stops in the middle does not block the others for longer.
                    connection.execute(_BOUNDED)
                    yield connection
                    self._commits = begin == _BEGIN
                    connection.execute("COMMIT")
                done = True
                self._commits = False
            finally:
                self._deadline = None
                if not done:
                    # What is not committed is rolled back by the server.
                    self._link = None
                    with suppress(psycopg.Error):
                        link.close()

    def _connected(self) -> Link:
        if self._link is not None:
            if is_quiet(self._link):
                return self._link
            # It was restarted, or closed the connection, while it was idle.
            self._link.close()
            self._link = None
        if time.monotonic() < self._not_before:
            raise StoreError("the database is unavailable, and is tried again in a moment")
        try:
            link = linked(self._url, "dragoman store")
        except psycopg.Error as error:
            self._delay_s = min(max(2 * self._delay_s, _FIRST_DELAY_S), _LONGEST_DELAY_S)
            # All instances lose it at once, and should not reconnect at once.
            self._not_before = time.monotonic() + random.uniform(0.5, 1) * self._delay_s
            if isinstance(error, psycopg.ProgrammingError):
                # The message may contain the password.
                raise StoreError("the URL of the database cannot be read") from None
            message = " ".join(str(error).split())[:_LONGEST_MESSAGE]
            raise StoreError(f"the database cannot be reached: {message}") from None
        self._delay_s = 0.0
        try:
            self._link = link
            self._watch()
            self._deadline = time.monotonic() + _LONGEST_S
            made = self._prepare(link)
            self.ahead_s = _ahead(link)
        except BaseException:
            self.close()
            raise
        finally:
            self._deadline = None
        link.adapters.register_loader("numeric", _Integers)
        if self.opened and made != self._made:
            self.replaced = True
        self._made = made
        self.opened += 1
        return link

    def _prepare(self, link: Link) -> float:
        """Create the tables, or upgrade them. Returns when they were created, in Unix seconds."""
        found = _tables(link)
        if found is None or found[0] < POSTGRES.version:
            with link.transaction():
                link.execute("SELECT pg_advisory_xact_lock(%s)", (TABLES_LOCK,))
                found = _tables(link)
                if found is None or found[0] < POSTGRES.version:
                    if found is not None:
                        self._check_upgrade(found[0])
                    for statement in upgrade(POSTGRES, _columns(link)):
                        link.execute(statement)  # type: ignore[arg-type, unused-ignore]
                    now = time.time()
                    link.execute("INSERT INTO migrations VALUES (%s, %s)", (POSTGRES.version, now))
                found = _tables(link)
        assert found is not None
        version, made = found
        if is_too_new(version, POSTGRES.version):
            raise NewerStore(f"the database {used_by_newer(version, POSTGRES.version)}")
        return made

    def _check_upgrade(self, version: int) -> None:
        """Whether tables of an older version may be upgraded."""
        if not self._upgrades:
            raise StoreError(f"the database {needs_upgrade(version, POSTGRES.version)}")
        self._upgraded = (
            f"the tables of the database were upgraded from version {version} to {POSTGRES.version}"
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn every failure into a `StoreError`, after which the database is connected to
        again."""
        try:
            yield
        except StoreError:
            raise
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if isinstance(error, psycopg.DataError | psycopg.IntegrityError) or state[:2] == "54":
                # The written data is at fault, not the database.
                raise
            # The message may contain values of rows.
            name = f"{type(error).__name__} {state}".strip()
            is_lost = isinstance(error, psycopg.OperationalError)
            kind = CommitUnknown if self._commits and is_lost else StoreError
            raise kind(f"the database cannot be used: {name}") from error
        except JsonError as error:
            raise StoreError(f"the database contains what no version wrote: {error}") from error
        finally:
            self._commits = False

    def _watch(self) -> None:
        if self._watched is None:
            self._watched = threading.Event()
            self._watcher = threading.Thread(
                target=_cut_if_late,
                args=(weakref.ref(self), self._watched),
                name="database",
                daemon=True,
            )
            self._watcher.start()

    def cut_if_late(self) -> None:
        """End a transaction whose server does not answer."""
        link, deadline = self._link, self._deadline
        if link is not None and deadline is not None and time.monotonic() > deadline:
            cut(link)


def _cut_if_late(found: weakref.ref[PostgresDatabase], closed: threading.Event) -> None:
    while not closed.wait(1.0):
        database = found()
        if database is None:
            return
        database.cut_if_late()
        del database


class PostgresConnection:
    """See `dragoman.storage.tables.database.Connection`."""

    def __init__(self, link: Link, pipeline: psycopg.Pipeline) -> None:
        self._link = link
        self._pipeline = pipeline

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> PostgresRows:
        """See `Connection.execute`."""
        text, numbered = _translated(statement)
        cursor = self._link.execute(text, _bound(values, numbered), binary=True)  # type: ignore[arg-type, unused-ignore]
        return PostgresRows(cursor, self._pipeline)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        """See `Connection.executemany`."""
        text, numbered = _translated(statement)
        bound = [_bound(row, numbered) for row in rows]
        if bound:
            with self._link.cursor() as cursor:
                cursor.executemany(text, bound)  # type: ignore[arg-type, unused-ignore]

    def insert(self, into: str, types: Sequence[type], rows: Sequence[Any], then: str = "") -> None:
        """See `Connection.insert`."""
        selected = _json_rows(tuple(_TYPES[kind] for kind in types), len(types))
        self.execute(f"INSERT INTO {into} {selected} {then}", (_json(rows),))

    def fill(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """See `Connection.fill`: an array for each column, since pipelines have no COPY."""
        arrays = ", ".join(f"?::{TYPES[column.kind]}[]" for column in table.columns)
        self.execute(
            f"INSERT INTO {table.name} ({', '.join(table.names)}) SELECT * FROM unnest({arrays})",
            [[_storable(value) for value in column] for column in zip(*rows, strict=True)],
        )

    def add(self, table: Table, rows: Sequence[Any]) -> None:
        """See `Connection.add`."""
        keyed = len(table.key)
        # A statement may change a row only once: rows with the same key are added up.
        selected = _json_rows(tuple(TYPES[column.kind] for column in table.columns), keyed)
        bounded = [[*map(_shortened, row[:keyed]), *row[keyed:]] for row in rows]
        self.execute(adding(table, selected), (_json(bounded),))

    def gathered(self, columns: Sequence[str], rows: str) -> str:
        """See `Connection.gathered`."""
        names = ", ".join(columns)
        return (
            f"SELECT coalesce(json_agg(json_build_array({names})), '[]')::text"
            f" FROM (SELECT {names} {rows}) AS gathered"
        )

    def moved(self) -> None:
        """See `Connection.moved`."""
        self.execute(
            "SELECT setval(pg_get_serial_sequence('audit', 'id'), max(id))"
            " FROM audit HAVING count(*) > 0"
        )

    def queue(self) -> None:
        """See `Connection.queue`."""
        self.execute("SELECT pg_advisory_xact_lock(?)", (_QUEUE_LOCK,))


class PostgresRows:
    """See `dragoman.storage.tables.database.Rows`."""

    def __init__(self, cursor: psycopg.Cursor[Any], pipeline: psycopg.Pipeline) -> None:
        self._cursor = cursor
        self._pipeline = pipeline

    @property
    def rowcount(self) -> int:
        """See `Rows.rowcount`."""
        if self._cursor.pgresult is None:
            self._pipeline.sync()
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        """See `Rows.fetchone`."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """See `Rows.fetchall`."""
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor.fetchall())


class _Integers(Loader):
    """Sums of whole numbers, which the server returns as decimals."""

    format = psycopg.pq.Format.BINARY

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self._load = NumericBinaryLoader(oid, context).load

    def load(self, data: Any) -> int:
        """The number."""
        return int(self._load(data))


def _columns(link: Link) -> dict[str, set[str]]:
    """The columns of each table."""
    found: dict[str, set[str]] = {}
    for table, column in link.execute(_COLUMNS, ([table.name for table in TABLES],)):
        found.setdefault(table, set()).add(column)
    return found


def _ahead(link: Link) -> float:
    """Seconds by which the server's clock is ahead, within half a round trip."""
    before = time.time()
    row = link.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    after = time.time()
    return 0.0 if row is None else row[0] - (before + after) / 2


def _tables(link: Link) -> tuple[int, float] | None:
    """The version of the tables, and when they were created; None if there are none."""
    # Reading pg_class makes the server take notice of tables that others have created meanwhile;
    # without it, to_regclass alone answers from a cache of its session.
    if (
        link.execute("SELECT 1 FROM pg_class WHERE oid = to_regclass('migrations')").fetchone()
        is None
    ):
        return None
    row = link.execute("SELECT max(number), min(applied) FROM migrations").fetchone()
    return None if row is None or row[0] is None else (row[0], row[1])


@lru_cache(maxsize=512)
def _translated(statement: str) -> tuple[str, bool]:
    """A statement with the placeholders of the driver, and whether they are numbered."""
    text = statement.replace("%", "%%")
    numbered = re.sub(r"\?(\d+)", r"%(\1)s", text)
    return numbered.replace("?", "%s"), numbered != text


def _bound(values: Sequence[Any], numbered: bool) -> Any:
    stored = [_storable(value) for value in values]
    return {str(place): value for place, value in enumerate(stored, 1)} if numbered else stored


def _storable(value: Any) -> Any:
    """A value that can be stored."""
    return value.replace(_NUL, "\ufffd") if isinstance(value, str) and _NUL in value else value


@lru_cache
def _json_rows(types: tuple[str, ...], keyed: int) -> str:
    """The SELECT for the rows of a JSON array of arrays with values of these types, where rows with
    the same first `keyed` values are added up."""
    values = [f"(given.row->>{place})::{one}" for place, one in enumerate(types)]
    rows = "FROM json_array_elements(?::json) AS given (row) WHERE true"
    if keyed == len(types):
        return f"SELECT {', '.join(values)} {rows}"
    sums = [f"sum({value})" for value in values[keyed:]]
    places = ", ".join(str(place + 1) for place in range(keyed))
    return f"SELECT {', '.join((*values[:keyed], *sums))} {rows} GROUP BY {places}"


def _json(rows: Sequence[Any]) -> str:
    return _encode(rows).decode().replace("\\u0000", "\\ufffd")


def _shortened(value: Any) -> Any:
    """A text within the length limit of a key."""
    if not isinstance(value, str) or len(value) * 4 <= _LONGEST_KEY:
        return value
    written = value.encode()
    return written[:_LONGEST_KEY].decode(errors="ignore")
