"""Ledgers of limits in PostgreSQL: a row for each limit is its owner.

One transaction locks the rows, has it decided what is lent, and writes them: two round trips for
all limits that an instance asks about at once. Nothing of a session is relied on, so that a
connection may be one of PgBouncer's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg

from dragoman.limits.ledgers import Away, Decide, Ledger, read_ledger, write_ledger
from dragoman.storage.postgres.link import Link, Url, cut, linked

TABLE = """
CREATE TABLE IF NOT EXISTS limit_ledgers (
    name text PRIMARY KEY,
    state bytea NOT NULL DEFAULT '',
    written timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50)
"""

_MAKE = """
INSERT INTO limit_ledgers (name) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING
"""
# The time is read for each row after it is locked, so the latest is later than any write before.
_READ = """
WITH locked AS (
    SELECT name, state FROM limit_ledgers WHERE name = ANY(%s) ORDER BY name FOR UPDATE
)
SELECT name, state, extract(epoch FROM clock_timestamp())::float8 FROM locked
"""
_LOOK = """
SELECT name, state FROM limit_ledgers WHERE name = ANY(%s)
"""
_WRITE = """
UPDATE limit_ledgers SET state = given.state, written = now()
FROM unnest(%s::text[], %s::bytea[]) AS given (name, state)
WHERE limit_ledgers.name = given.name
"""


_TABLES_LOCK = 0x6C696D6974
"""Number of the advisory lock under which the table is made."""


def connecting(url: Url) -> Callable[[], Link]:
    """What connects to the database of `url`, and makes the table if it is not there."""
    is_made = False

    def connect() -> Link:
        nonlocal is_made
        connection = linked(url, "dragoman limits")
        try:
            if not is_made:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLES_LOCK,))
                    connection.execute(TABLE)
                is_made = True
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


class PostgresLedgers:
    """See `dragoman.limits.ledgers.Ledgers`. `connect` makes a connection, which is kept."""

    def __init__(self, connect: Callable[[], Link]) -> None:
        self._connect = connect
        self._connection: Link | None = None

    def exchange(self, names: Sequence[str], decide: Decide) -> None:
        """See `Ledgers.exchange`."""
        with self._used():
            self._exchange(sorted(names), decide)

    def read(self, names: Sequence[str]) -> Mapping[str, Ledger]:
        """See `Ledgers.read`."""
        with self._used():
            rows = self._connected().execute(_LOOK, (list(names),)).fetchall()
            return {name: read_ledger(bytes(state)) for name, state in rows}

    def abort(self) -> None:
        """See `Ledgers.abort`."""
        if self._connection is not None:
            cut(self._connection)

    def close(self) -> None:
        """See `Ledgers.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        """The connection is used inside; it is closed if that fails."""
        done = False
        try:
            yield
            done = True
        except psycopg.Error as error:
            raise Away(f"the database cannot be used: {type(error).__name__}") from error
        finally:
            if not done:
                self.close()

    def _connected(self) -> Link:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _exchange(self, names: list[str], decide: Decide) -> None:
        connection = self._connected()
        while not self._decided(connection, names, decide):
            # By itself: who waits for a row that another makes must hold none.
            connection.execute(_MAKE, (names,))

    def _decided(self, connection: Link, names: list[str], decide: Decide) -> bool:
        """Whether all rows were there, and something was decided."""
        with connection.pipeline():
            connection.execute("BEGIN")
            # Whoever stops in the middle keeps the others waiting no longer.
            connection.execute("SET LOCAL statement_timeout = 2000")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 3000")
            rows = connection.execute(_READ, (names,)).fetchall()
            if len(rows) < len(names):
                connection.execute("ROLLBACK")
                return False
            ledgers = {name: read_ledger(bytes(state)) for name, state, _ in rows}
            decide(ledgers, max((now for _, _, now in rows), default=0.0))
            stored = [write_ledger(one) for one in ledgers.values()]
            connection.execute(_WRITE, (list(ledgers), stored))
            connection.execute("COMMIT")
        return True
