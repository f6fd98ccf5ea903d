"""Accounts, their states and history, and what else workers share.

Each write is one short transaction that increments the version in `clock` and stamps it on the rows
it changes. An exchange with nothing to write and nothing to return costs one small read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import msgspec

from dragoman.accounts.decide.decisions import apply, entry_of
from dragoman.accounts.decide.quota import Windows, merged
from dragoman.accounts.decide.states import AccountState, Entry, Transition
from dragoman.accounts.store import (
    HISTORY_KEPT,
    LOST_AFTER_S,
    MOST_PINS,
    REMOVED_KEPT_S,
    SWEPT_AT_ONCE,
    Attempts,
    Batch,
    Changes,
    ChargeCount,
    ChargeKey,
    Definition,
    ErrorKey,
    LastError,
    Reprice,
    Sums,
    UsageCount,
    UsageKey,
    gateway_of,
)
from dragoman.audit import Actor, Change, Line
from dragoman.jsontext import decoder
from dragoman.storage.retention import USUAL, Retention
from dragoman.storage.tables.admins import AdminTable
from dragoman.storage.tables.audit import AuditTable, sweep_audit
from dragoman.storage.tables.database import (
    Connection,
    Database,
    Rows,
    replacing,
    version_of,
)
from dragoman.storage.tables.keys import KeyTables, add_uses, asked_keys, asked_resets, asked_teams
from dragoman.storage.tables.people import (
    PeopleTables,
    add_session_uses,
    asked_people,
    sweep_people,
)
from dragoman.storage.tables.usage import UsageTables, add_usage

_DAY_S = 24 * 3600.0
_WRITTEN_BY = "told by "
"""Prefix of the claim that names a worker's last written batch."""
_HEARTBEAT_S = 1.0
"""Seconds after which a worker with unchanged leases reports that it is alive."""

_DEFINED = (
    "name, upstream, sealed, models, priority, weight, max_concurrent, balance"  # as `Definition`
)


# Whatever there is many of goes in and comes out as one JSON value: SQLite then does all of it in
# one step, during which the event loop's thread can run, rather than in one step for each row.
_SET_USED = (
    "ON CONFLICT (account) DO UPDATE SET version = excluded.version, at = excluded.at"
    " WHERE used.at < excluded.at"
)
_SPEND = "UPDATE balances SET version = ?2, remaining = remaining - ?3 WHERE account = ?1"
_USED = "FROM used WHERE version > ? AND version < ?"
_PINS = "FROM pins WHERE version > ? AND version < ? AND at > ? ORDER BY version DESC LIMIT ?"
_SET_BALANCE = (
    "INSERT INTO balances (account, version, told, remaining) VALUES (?1, ?2, ?3, ?3)"
    " ON CONFLICT (account) DO UPDATE SET version = ?2, told = ?3, remaining = ?3"
    " WHERE balances.told <> ?3"
)
_SET_CLAIM = replacing("claims", "name", "until")
_SET_WORKER = replacing("workers", "name", "seen, leases")
_SET_STATE = replacing("states", "account", "version, entries, state")
_SET_HISTORY = replacing("history", "account, slot", "number, at, entry")
_SET_QUOTA = replacing("quotas", "account", "version, windows")
_DEFINE = replacing(
    "accounts", "name", _DEFINED.removeprefix("name, ") + ", version", ", removed = NULL"
)

_encode = msgspec.json.Encoder().encode
_read_state = decoder(AccountState)
_read_entry = decoder(Entry)
_read_windows = decoder(Windows)
_read_leases = decoder(dict[str, int])
_read_used = decoder(list[tuple[str, float]])
_read_pins = decoder(list[tuple[str, str, float]])
_read_models = decoder(tuple[str, ...])


class PoolOptions(TypedDict, total=False):
    """Retention and the clock."""

    retention: Retention
    clock: Callable[[], float]


class PoolTables:
    """Implements `Store` on a database.

    Rows older than `retention` are dropped by `sweep`. `clock` is Unix time. The database is
    connected to by `open`, or on first use, and again after a failure. One thread at a time may use
    a store; a process that forks must not use what its parent opened. `instance` is the same for
    workers that count requests in flight together, empty if all users of the database do.
    """

    def __init__(
        self,
        database: Database,
        *,
        retention: Retention = USUAL,
        clock: Callable[[], float] = time.time,
        instance: str = "",
    ) -> None:
        hours_s, days_s = retention.hours_days * _DAY_S, retention.days * _DAY_S
        self._database = database
        self._usage = UsageTables(database, hours_s, days_s)
        self._audit = AuditTable(database)
        self._client_keys = KeyTables(database)
        self._admins = AdminTable(database)
        self._people = PeopleTables(database)
        self._audit_s = days_s
        self._history_s = retention.history_days * _DAY_S
        self._pins_s = retention.pins_s
        self._clock = clock
        self._instance = instance
        self._opened = 0
        self._written_leases: dict[str, tuple[Mapping[str, int], float]] = {}
        self._workers: list[tuple[str, float, dict[str, int]]] = []
        self._workers_at = -1
        self._mark = 0.0
        self._written_mark = 0.0

    @property
    def client_keys(self) -> KeyTables:
        """See `Store.client_keys`."""
        return self._client_keys

    @property
    def admins(self) -> AdminTable:
        """See `Store.admins`."""
        return self._admins

    @property
    def people(self) -> PeopleTables:
        """See `Store.people`."""
        return self._people

    def record(self, actor: Actor, changes: Iterable[Change]) -> None:
        """See `AuditLog.record`."""
        self._audit.record(actor, changes)

    def audit(
        self,
        limit: int,
        *,
        before: int | None = None,
        since: float = 0.0,
        only: Mapping[str, str] = {},
    ) -> Sequence[Line]:
        """See `AuditLog.audit`."""
        return self._audit.audit(limit, before=before, since=since, only=only)

    def usage(self, since: float, until: float) -> dict[UsageKey, UsageCount]:
        """See `Store.usage`."""
        return self._usage.usage(since, until)

    def charges(self, since: float, until: float) -> dict[ChargeKey, ChargeCount]:
        """See `Store.charges`."""
        return self._usage.charges(since, until)

    def sums(
        self, since: float, until: float, by: Sequence[str] = (), only: Mapping[str, str] = {}
    ) -> dict[tuple[str, ...], Sums]:
        """See `Store.sums`."""
        return self._usage.sums(since, until, by, only)

    def attempts(self, since: float, until: float) -> dict[str, Attempts]:
        """See `Store.attempts`."""
        return self._usage.attempts(since, until)

    def errors(self, since: float, until: float) -> dict[ErrorKey, int]:
        """See `Store.errors`."""
        return self._usage.errors(since, until)

    def last_errors(self) -> dict[str, LastError]:
        """See `Store.last_errors`."""
        return self._usage.last_errors()

    def reprice(self, since: float, until: float, reprice: Reprice) -> int:
        """See `Store.reprice`."""
        return self._usage.reprice(since, until, reprice)

    def open(self) -> None:
        """Connect to the database.

        Raises:
            StoreError: it cannot be used, is not a store, or is one of another version.
        """
        self._database.open()

    def upgrade(self) -> str:
        """See `Store.upgrade`."""
        return self._database.upgrade()

    def close(self) -> None:
        """See `Store.close`."""
        self._database.close()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """See `Store.deciding`."""
        with self._database.deciding():
            yield

    def exchange(self, worker: str, batch: Batch, since: int) -> Changes:
        """See `Store.exchange`."""
        worker = f"{self._instance}{worker}"
        self._database.open()
        now = self._clock() + self._database.ahead_s
        if self._opened != self._database.opened:
            self._opened = self._database.opened
            self._written_leases.clear()
            self._workers_at = -1
        if self._has_news(worker, batch, now):
            with self._database.writing() as (connection, version):
                self._write(connection, version, worker, batch, now)
                changes = self._changes(connection, worker, version, since, now, batch)
            self._written_mark = self._mark
            if batch.leases:
                self._written_leases[worker] = (dict(batch.leases), now)
            else:
                self._written_leases.pop(worker, None)
        else:
            with self._database.reading() as connection:
                changes = self._changes(
                    connection, worker, version_of(connection), since, now, None
                )
        self._database.replaced = False
        return changes

    @property
    def mark(self) -> float:
        """See `Store.mark`."""
        return self._written_mark

    def mark_of(self, worker: str) -> float:
        """See `Store.mark_of`."""
        with self._database.reading() as connection:
            name = f"{_WRITTEN_BY}{self._instance}{worker}"
            row = connection.execute("SELECT until FROM claims WHERE name = ?", (name,)).fetchone()
        return 0.0 if row is None else float(row[0])

    def was_written(self, worker: str) -> bool:
        """See `Store.was_written`."""
        if self.mark_of(worker) != self._mark:
            return False
        self._written_mark = self._mark
        return True

    def define(self, definitions: Iterable[Definition]) -> None:
        """See `Store.define`."""
        now = self._clock()
        with self._database.writing() as (connection, version):
            removed = _names(connection, "removed IS NOT NULL")
            for one in definitions:
                if one.name in removed:
                    # A worker may have reported a request that ended after the removal.
                    _forget(connection, one.name)
                    # A worker that has not learned of the removal would keep the former account's
                    # state, and may still report requests of it.
                    blank = AccountState(one.name, renewed=now)
                    connection.execute(_SET_STATE, (one.name, version, 0, _json(blank)))
                _define(connection, version, one)

    def remove(self, names: Iterable[str]) -> int:
        """See `Store.remove`."""
        now = self._clock()
        with self._database.writing() as (connection, version):
            found = _names(connection, "removed IS NULL") & set(names)
            for name in found:
                connection.execute(
                    "UPDATE accounts SET version = ?, removed = ?, sealed = ? WHERE name = ?",
                    (version, now, b"", name),
                )
                _forget(connection, name)
        return len(found)

    def definitions(self) -> list[Definition]:
        """See `Store.definitions`."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_DEFINED} FROM accounts WHERE removed IS NULL ORDER BY name"
            )
            return [_definition(row) for row in rows]

    def states(self) -> dict[str, AccountState]:
        """See `Store.states`."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT account, state FROM states ORDER BY account")
            return {name: _read_state(state) for name, state in rows}

    def apply(self, transitions: Iterable[Transition]) -> None:
        """See `Store.apply`."""
        with self._database.writing() as (connection, version):
            _apply(connection, version, transitions)

    def history(self, account: str, limit: int = 100) -> list[Entry]:
        """See `Store.history`."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT entry FROM history WHERE account = ? ORDER BY number DESC LIMIT ?",
                (account, limit),
            )
            return [_read_entry(entry) for (entry,) in rows]

    def claim(self, claims: Mapping[str, float], now: float) -> set[str]:
        """See `Store.claim`."""
        claimed = set()
        with self._database.writing_unversioned() as connection:
            ahead_s = self._database.ahead_s
            for name, until in claims.items():
                done = connection.execute(
                    "INSERT INTO claims (name, until) VALUES (?1, ?2) ON CONFLICT (name)"
                    " DO UPDATE SET until = ?2 WHERE claims.until <= ?3"
                    # Of a clock that was far ahead.
                    " OR claims.until > ?2 + 86400",
                    (name, until + ahead_s, now + ahead_s),
                )
                if done.rowcount:
                    claimed.add(name)
        return claimed

    def release(self, claims: Iterable[str]) -> None:
        """See `Store.release`."""
        with self._database.writing_unversioned() as connection:
            connection.executemany(
                "DELETE FROM claims WHERE name = ?", [(name,) for name in claims]
            )

    def credential(self, name: str) -> bytes | None:
        """See `Store.credential`."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT sealed FROM credentials WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def swap_credential(self, name: str, before: bytes | None, after: bytes) -> bool:
        """See `Store.swap_credential`."""
        with self._database.writing_unversioned() as connection:
            if before is None:
                done = connection.execute(
                    "INSERT INTO credentials (name, sealed) VALUES (?, ?)"
                    " ON CONFLICT (name) DO NOTHING",
                    (name, after),
                )
            else:
                done = connection.execute(
                    "UPDATE credentials SET sealed = ? WHERE name = ? AND sealed = ?",
                    (after, name, before),
                )
            return done.rowcount > 0

    def sweep(self, now: float) -> int:
        """See `Store.sweep`."""
        with self._database.writing_unversioned() as connection:
            gone = connection.execute(
                "SELECT name FROM accounts WHERE removed < ? LIMIT ?",
                (now - REMOVED_KEPT_S, SWEPT_AT_ONCE),
            ).fetchall()
            for (name,) in gone:
                connection.execute("DELETE FROM accounts WHERE name = ?", (name,))
                _forget(connection, name)
            counts = [len(gone)]
            for statement, age in (
                (_SWEEP_HISTORY, self._history_s),
                (_SWEEP_PINS, self._pins_s),
                (_SWEEP_CLAIMS, 0.0),
            ):
                done = connection.execute(statement, (now - age, SWEPT_AT_ONCE))
                counts.append(done.rowcount)
            counts.append(self._usage.sweep(connection, now))
            counts.append(sweep_people(connection, now, SWEPT_AT_ONCE))
            counts.append(sweep_audit(connection, now - self._audit_s))
        return max(counts)

    def _has_news(self, worker: str, batch: Batch, now: float) -> bool:
        if batch.transitions or batch.usage or batch.charges or batch.used or batch.pins:
            return True
        if batch.errors or batch.last_errors or batch.quotas:
            return True
        if batch.spent or batch.balances or batch.key_uses:
            return True
        known, at = self._written_leases.get(worker, ({}, 0.0))
        if batch.leases != known:
            return True
        return bool(known) and not 0 <= now - at < _HEARTBEAT_S

    def _write(
        self,
        connection: Connection,
        version: int,
        worker: str,
        batch: Batch,
        now: float,
    ) -> None:
        _apply(connection, version, batch.transitions)
        add_usage(connection, batch)
        _merge_quotas(connection, version, batch.quotas, now)
        if batch.used:
            used = [(name, version, at) for name, at in batch.used.items()]
            connection.insert("used (account, version, at)", (str, int, float), used, _SET_USED)
        if batch.pins:
            pins = [(version, digest.hex(), *pin) for digest, pin in batch.pins.items()]
            connection.insert("pins (version, digest, account, at)", (int, str, str, float), pins)
        for name, balance in batch.balances.items():
            connection.execute(_SET_BALANCE, (name, version, balance))
        for name, tokens in batch.spent.items():
            connection.execute(_SPEND, (name, version, tokens))
        if batch.key_uses:
            add_uses(connection, batch.key_uses)
            add_session_uses(connection, batch.key_uses)
        # Every batch of the worker has another mark.
        self._mark = max(now + _DAY_S, math.nextafter(self._mark, math.inf))
        connection.execute(_SET_CLAIM, (f"{_WRITTEN_BY}{worker}", self._mark))
        if batch.leases:
            connection.execute(_SET_WORKER, (worker, now, _json(batch.leases)))
        else:
            connection.execute("DELETE FROM workers WHERE name = ?", (worker,))
        connection.execute("DELETE FROM workers WHERE abs(? - seen) > ?", (now, LOST_AFTER_S))

    def _changes(
        self,
        connection: Connection,
        worker: str,
        version: int,
        since: int,
        now: float,
        own: Batch | None,
    ) -> Changes:
        workers = None
        if version != self._workers_at:
            workers = connection.execute("SELECT name, seen, leases FROM workers")
        # Only this worker has written since then, and it knows what it wrote.
        alone = 0 < since == version - 1 and own is not None and not _comes_back(own)
        if (since == version or alone) and not self._database.replaced:
            leases, apart = self._leases(worker, version, now, workers)
            return Changes(version=version, leases=leases, apart=apart)
        after = 0 if self._database.replaced or since > version else since

        def changed(columns: str, table: str, and_so: str = "") -> Rows:
            # `columns` and `table` are this module's own.
            statement = f"SELECT {columns} FROM {table} WHERE version > ? {and_so}"
            return connection.execute(statement, (after,))

        # Rows of `used` and `pins` with this version are the batch's own.
        before = version + 1 if own is None else version
        # All are requested before any is read, so that they share a round trip.
        used = connection.execute(connection.gathered(("account", "at"), _USED), (after, before))
        pins = connection.execute(
            connection.gathered(("digest", "account", "at"), _PINS),
            (after, before, now - self._pins_s, MOST_PINS),
        )
        states = changed("account, state", "states")
        defined = changed(_DEFINED, "accounts", "AND removed IS NULL")
        removed = changed("name", "accounts", "AND removed IS NOT NULL")
        balances = changed("account, remaining", "balances")
        quotas = changed("account, windows", "quotas")
        client_keys, teams = asked_keys(connection, after), asked_teams(connection, after)
        limit_resets = asked_resets(connection, after)
        people = asked_people(connection, after)
        leases, apart = self._leases(worker, version, now, workers)
        return Changes(
            version=version,
            whole=not after,
            states={name: _read_state(state) for name, state in states},
            definitions=tuple(_definition(row) for row in defined),
            removed=tuple(name for (name,) in removed),
            leases=leases,
            apart=apart,
            used=dict(_read_used(used.fetchone()[0])),
            balances=dict(balances),
            pins=_latest(_read_pins(pins.fetchone()[0]), {} if own is None else own.pins),
            quotas={name: _read_windows(windows) for name, windows in quotas},
            client_keys=client_keys(),
            teams=teams(),
            limit_resets=limit_resets(),
            people=people(),
        )

    def _leases(
        self, worker: str, version: int, now: float, workers: Rows | None
    ) -> tuple[dict[str, int], dict[str, int]]:
        """The leases of other living workers at a version, and of these those of other gateways on
        this file, with `workers` as the rows; None: the version of the last call."""
        if workers is not None:
            self._workers = [(name, seen, _read_leases(leases)) for name, seen, leases in workers]
            self._workers_at = version
        leases: dict[str, int] = {}
        apart: dict[str, int] = {}
        gateway = gateway_of(worker)
        for name, seen, counts in self._workers:
            if name != worker and abs(now - seen) <= LOST_AFTER_S:
                for account, count in counts.items():
                    leases[account] = leases.get(account, 0) + count
                    # Several machines lend one another slots in the database.
                    if not self._instance and gateway_of(name) != gateway:
                        apart[account] = apart.get(account, 0) + count
        return leases, apart


_SWEEP_HISTORY = """DELETE FROM history WHERE (account, slot) IN
    (SELECT account, slot FROM history WHERE at < ? ORDER BY at LIMIT ?)"""
_SWEEP_CLAIMS = """DELETE FROM claims WHERE name IN
    (SELECT name FROM claims WHERE until < ? LIMIT ?)"""
# The oldest version is that of the pin that was written first.
_SWEEP_PINS = """DELETE FROM pins WHERE at < ?1 AND (version, digest) IN
    (SELECT version, digest FROM pins ORDER BY version LIMIT ?2)"""


def _comes_back(batch: Batch) -> bool:
    """Whether a batch is returned to the worker that sent it: the store combines what happened to
    accounts with other reports. All else a worker knows already."""
    return bool(
        batch.transitions or batch.quotas or batch.balances or batch.spent or batch.key_uses
    )


def _names(connection: Connection, where: str) -> set[str]:
    """The accounts that match a condition of this module."""
    return {name for (name,) in connection.execute(f"SELECT name FROM accounts WHERE {where}")}


def _define(connection: Connection, version: int, one: Definition) -> None:
    models = None if one.models is None else _json(one.models)
    connection.execute(
        _DEFINE,
        (
            one.name,
            one.upstream,
            one.sealed,
            models,
            one.priority,
            one.weight,
            one.max_concurrent,
            one.balance,
            version,
        ),
    )
    if one.balance is not None:
        connection.execute(_SET_BALANCE, (one.name, version, one.balance))


def _apply(connection: Connection, version: int, transitions: Iterable[Transition]) -> None:
    """Apply transitions to the states in the store, in order."""
    transitions = list(transitions)
    # All are requested before any is read.
    asked = {
        name: connection.execute("SELECT state, entries FROM states WHERE account = ?", (name,))
        for name in dict.fromkeys(transition.account for transition in transitions)
    }
    states: dict[str, tuple[AccountState, int]] = {}
    for name, rows in asked.items():
        row = rows.fetchone()
        states[name] = (AccountState(name), 0) if row is None else (_read_state(row[0]), row[1])
    for transition in transitions:
        name = transition.account
        before, entries = states[name]
        after = apply(before, transition)
        entry = entry_of(before, after, transition)
        if entry is not None:
            connection.execute(
                _SET_HISTORY,
                (
                    name,
                    entries % HISTORY_KEPT,
                    entries,
                    entry.at,
                    _json(entry),
                ),
            )
            entries += 1
        states[name] = after, entries
    # A state without a change here is returned as well: it changed for the worker.
    connection.executemany(
        _SET_STATE,
        [(name, version, entries, _json(state)) for name, (state, entries) in states.items()],
    )


def _merge_quotas(
    connection: Connection, version: int, reported: Mapping[str, Windows], now: float
) -> None:
    """Merge a worker's quota windows with those of others."""
    asked = {
        account: connection.execute("SELECT windows FROM quotas WHERE account = ?", (account,))
        for account in reported
    }
    for account, windows in reported.items():
        row = asked[account].fetchone()
        known = () if row is None else _read_windows(row[0])
        connection.execute(_SET_QUOTA, (account, version, _json(merged(known, windows, now))))


def _latest(
    lines: Iterable[tuple[str, str, float]], own: Mapping[bytes, tuple[str, float]]
) -> dict[bytes, tuple[str, float]]:
    """The pins in `lines` of the log, the last first, except those that `own` ones replace."""
    pins: dict[bytes, tuple[str, float]] = {}
    for text, account, at in lines:
        digest = bytes.fromhex(text)
        known = pins.get(digest) or own.get(digest)
        if known is None or known[1] < at:
            pins[digest] = account, at
    return pins


def _json(value: object) -> str:
    return _encode(value).decode()


def _forget(connection: Connection, name: str) -> None:
    for table in ("states", "history", "used", "balances", "last_errors", "quotas"):
        connection.execute(f"DELETE FROM {table} WHERE account = ?", (name,))


def _definition(row: Sequence[Any]) -> Definition:
    """A row of `_DEFINED`."""
    name, upstream, sealed, models, priority, weight, most, balance = row
    return Definition(
        name=name,
        upstream=upstream,
        sealed=sealed,
        models=None if models is None else _read_models(models),
        priority=priority,
        weight=weight,
        max_concurrent=most,
        balance=balance,
    )
