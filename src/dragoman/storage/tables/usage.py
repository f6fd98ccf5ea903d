"""Usage and charges: sums by the hour, older ones by the day, and the oldest in one sum, so that
the total is never reduced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from dragoman.accounts.store import (
    SWEPT_AT_ONCE,
    Attempts,
    Batch,
    ChargeCount,
    ChargeKey,
    ErrorKey,
    LastError,
    Reprice,
    Sums,
    UsageCount,
    UsageKey,
)
from dragoman.accounts.usage import OTHER
from dragoman.jsontext import decoder
from dragoman.storage.tables.database import Connection, Database, Rows, adding
from dragoman.storage.tables.table import Table, make_table

_DAY_S = 86400
_LATE_S = 7 * _DAY_S
"""Seconds for which a worker may delay a report that it could not write."""


_KINDS = {int: "INTEGER", float: "REAL", str: "TEXT"}


def _sums_table(
    name: str, keys: type[Struct], sums: Mapping[str, type], fill_percent: int = 100
) -> Table:
    """A table in which sums are added up by the fields of `keys`."""
    columns = {**_fields(keys), **sums}
    written = ", ".join(f"{field} {_KINDS[kind]} NOT NULL" for field, kind in columns.items())
    return make_table(name, written, ", ".join(_fields(keys)), fill_percent=fill_percent)


def _fields(struct: type[Struct]) -> dict[str, type]:
    """Columns with the names of fields; in quotes what PostgreSQL reserves."""
    types = get_type_hints(struct)
    return {'"user"' if name == "user" else name: types[name] for name in struct.__struct_fields__}


USAGE = _sums_table("usage", UsageKey, _fields(UsageCount), 70)
CHARGES = _sums_table("charges", ChargeKey, _fields(ChargeCount), 70)
ERRORS = _sums_table("errors", ErrorKey, {"number": int})
SUMS = (USAGE, CHARGES, ERRORS)
"""The tables in which sums are added up, by the hour."""

_KEYED, _COUNTED = USAGE.key, USAGE.names[len(USAGE.key) :]
_CHARGE_KEYED, _CHARGE_COUNTED = CHARGES.key, CHARGES.names[len(CHARGES.key) :]

_PART = 10**9
_USAGE_SUMS = ", ".join(f"sum({name})" for name in _COUNTED) + " FROM usage"
_CHARGE_SUMS = ", ".join(
    f"sum({name}{part})"
    for name in _CHARGE_COUNTED
    for part in ((f" / {_PART}", f" % {_PART}") if name == "cost" else ("",))
)
_CHARGE_SUMS += " FROM charges"
"""Sums of columns. The sum of all costs may exceed a 64-bit integer, at nine million dollars:
thousandths of a dollar and their remainders are summed apart."""

_PLACES = {
    **{name.strip('"'): name for name in (*_KEYED[1:], "hour")},
    "key": "client",
    "tag": "tags",
    "day": f"hour / {_DAY_S} * {_DAY_S}",
}
"""The expression of each dimension."""

_encode = msgspec.json.Encoder().encode
_read_error = decoder(LastError)


def _fold(table: Table, into: Mapping[str, str], too_old: str) -> tuple[str, str]:
    """The statements that add the first rows that match `too_old` to the rows they become, whose
    columns are the expressions in `into`, and then delete them. Both select the same rows: the new
    rows do not match."""
    name, keyed = table.name, len(table.key)
    columns = ", ".join(table.key)
    picked = (
        f"({columns}) IN (SELECT {columns} FROM {name} WHERE {too_old} ORDER BY {columns} LIMIT ?)"
    )
    made = ", ".join(into.get(key, key) for key in table.key)
    sums = ", ".join(f"sum({column})" for column in table.names[keyed:])
    places = ", ".join(str(place + 1) for place in range(keyed))
    rows = f"SELECT {made}, {sums} FROM {name} WHERE {picked} GROUP BY {places}"
    return adding(table, rows), f"DELETE FROM {name} WHERE {picked}"


_DELETE_CHARGES = "DELETE FROM charges WHERE " + " AND ".join(
    f"{name} = ?" for name in _CHARGE_KEYED
)
_ATTEMPTS = (
    "SELECT account, sum(attempts), sum(failed), sum(retries)"
    " FROM usage WHERE hour >= ? AND hour < ? GROUP BY account"
)
_COSTS = (
    f"SELECT account, sum(cost / {_PART}), sum(cost % {_PART}), sum(unpriced)"
    " FROM charges WHERE hour >= ? AND hour < ? GROUP BY account"
)
_SET_LAST_ERROR = (
    "INSERT INTO last_errors (account, at, error) VALUES (?1, ?2, ?3)"
    " ON CONFLICT (account) DO UPDATE SET at = ?2, error = ?3 WHERE last_errors.at < ?2"
)
_SWEEP_ERRORS = """DELETE FROM errors WHERE (hour, account, kind) IN
    (SELECT hour, account, kind FROM errors WHERE hour < ? ORDER BY hour LIMIT ?)"""

_TO_DAY = {"hour": f"hour / {_DAY_S} * {_DAY_S}"}
_HOURS = f"hour >= ? AND hour < ? AND hour % {_DAY_S} <> 0"
_TO_ALL_TIME = {
    "hour": "0",
    # Rows without an account are of requests that reached none.
    "account": f"CASE WHEN account = '' THEN '' ELSE '{OTHER}' END",
    "route": "''",
    '"user"': "''",
    "tags": "''",
}
_CHARGE_TO_ALL_TIME = {**_TO_ALL_TIME, "priced_as": f"'{OTHER}'", "tier": "''", "above": "0"}
_CHARGE_TO_ALL_TIME["prices"] = "''"
_DAYS = "hour > ? AND hour < ?"
_BY_DAY = (
    _fold(USAGE, _TO_DAY, _HOURS),
    _fold(CHARGES, _TO_DAY, _HOURS),
)
_FOR_ALL_TIME = (
    _fold(USAGE, _TO_ALL_TIME, _DAYS),
    _fold(CHARGES, _CHARGE_TO_ALL_TIME, _DAYS),
)


class UsageTables:
    """Implements the usage of `Store` on a database that is opened elsewhere. Rows are stored by
    the hour for `hours_s` seconds, and by the day for `days_s`."""

    def __init__(self, database: Database, hours_s: float, days_s: float) -> None:
        self._database = database
        self._hours_s = hours_s
        self._days_s = days_s
        self._added_up = 0.0
        """Time before which all rows are sums of days."""

    def usage(self, since: float, until: float) -> dict[UsageKey, UsageCount]:
        """See `Store.usage`."""
        keyed = len(_KEYED)
        with self._database.reading() as connection:
            rows = _rows(connection, "usage", (*_KEYED, *_COUNTED), since, until)
            return {UsageKey(*row[:keyed]): UsageCount(*row[keyed:]) for row in rows}

    def charges(self, since: float, until: float) -> dict[ChargeKey, ChargeCount]:
        """See `Store.charges`."""
        with self._database.reading() as connection:
            return _charges(connection, since, until)

    def sums(
        self, since: float, until: float, by: Sequence[str] = (), only: Mapping[str, str] = {}
    ) -> dict[tuple[str, ...], Sums]:
        """See `Store.sums`."""
        found: dict[tuple[str, ...], Sums] = {}
        with self._database.reading() as connection:
            for row in _grouped(connection, _USAGE_SUMS, (since, until), by, only):
                for group in _groups(row, by, only):
                    found.setdefault(group, Sums()).usage.add(UsageCount(*row[len(by) :]))
            for row in _grouped(connection, _CHARGE_SUMS, (since, until), by, only):
                *counts, cost, rest = row[len(by) :]
                counts.append(cost * _PART + rest)
                charged = ChargeCount(*counts)
                for group in _groups(row, by, only):
                    found.setdefault(group, Sums()).charged.add(charged)
        return dict(sorted(found.items()))

    def attempts(self, since: float, until: float) -> dict[str, Attempts]:
        """See `Store.attempts`."""
        hours = (ceil(since), ceil(until))
        with self._database.reading() as connection:
            costs = {
                account: (cost * _PART + rest, unpriced)
                for account, cost, rest, unpriced in connection.execute(_COSTS, hours)
            }
            return {
                account: Attempts(*counts, *costs.get(account, ()))
                for account, *counts in connection.execute(_ATTEMPTS, hours)
            }

    def errors(self, since: float, until: float) -> dict[ErrorKey, int]:
        """See `Store.errors`."""
        columns = ("hour", "account", "kind", "number")
        with self._database.reading() as connection:
            rows = _rows(connection, "errors", columns, since, until)
            return {ErrorKey(hour, account, kind): number for hour, account, kind, number in rows}

    def last_errors(self) -> dict[str, LastError]:
        """See `Store.last_errors`."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT account, error FROM last_errors")
            return {account: _read_error(error) for account, error in rows}

    def reprice(self, since: float, until: float, reprice: Reprice) -> int:
        """See `Store.reprice`."""
        with self._database.writing_unversioned() as connection:
            old: list[tuple[Any, ...]] = []
            new: list[tuple[ChargeKey, ChargeCount]] = []
            for key, count in _charges(connection, since, until).items():
                other = reprice(key, count)
                if other is not None and other != (key, count):
                    old.append(astuple(key))
                    new.append(other)
            connection.executemany(_DELETE_CHARGES, old)
            _add_charges(connection, new)
        return len(new)

    def sweep(self, connection: Connection, now: float) -> int:
        """Add up rows that are too old. Returns the number of rows of the kind with the most."""
        day, gone = ((now - age) // _DAY_S * _DAY_S for age in (self._hours_s, self._days_s))
        by_day = _done(connection, _BY_DAY, self._added_up, day)
        if by_day < SWEPT_AT_ONCE:
            self._added_up = day - _LATE_S
        swept = connection.execute(
            _SWEEP_ERRORS, (ceil(now - self._days_s), SWEPT_AT_ONCE)
        ).rowcount
        return max(by_day, _done(connection, _FOR_ALL_TIME, 0.0, gone), swept)


def _done(
    connection: Connection,
    folds: Iterable[tuple[str, str]],
    since: float,
    before: float,
) -> int:
    """Add up the rows of a time. Returns the number of rows of the table with the most."""
    bounds = (ceil(since), ceil(before), SWEPT_AT_ONCE)
    counts = []
    for add, delete in folds:
        connection.execute(add, bounds)
        counts.append(connection.execute(delete, bounds).rowcount)
    return max(counts)


def add_usage(connection: Connection, batch: Batch) -> None:
    """Add the counts of a worker."""
    if batch.usage:
        rows = _flat(batch.usage.items())
        connection.add(USAGE, rows)
    if batch.charges:
        _add_charges(connection, batch.charges.items())
    if batch.errors:
        errors = [(*astuple(key), number) for key, number in batch.errors.items()]
        connection.add(ERRORS, errors)
    for name, error in batch.last_errors.items():
        connection.execute(_SET_LAST_ERROR, (name, error.at, _json(error)))


def _add_charges(connection: Connection, charges: Iterable[tuple[ChargeKey, ChargeCount]]) -> None:
    connection.add(CHARGES, _flat(charges))


def _rows(
    connection: Connection, table: str, columns: Iterable[str], since: float, until: float
) -> Rows:
    """Rows of the hours that begin in [since, until)."""
    statement = f"SELECT {', '.join(columns)} FROM {table} WHERE hour >= ? AND hour < ?"
    return connection.execute(statement, (ceil(since), ceil(until)))


def _charges(connection: Connection, since: float, until: float) -> dict[ChargeKey, ChargeCount]:
    keyed = len(_CHARGE_KEYED)
    rows = _rows(connection, "charges", (*_CHARGE_KEYED, *_CHARGE_COUNTED), since, until)
    return {ChargeKey(*row[:keyed]): ChargeCount(*row[keyed:]) for row in rows}


def _grouped(
    connection: Connection,
    columns: str,
    hours: tuple[float, float],
    by: Sequence[str],
    only: Mapping[str, str],
) -> Rows:
    """Sums by the dimensions `by`, with one row for each combination of tags, of rows that match
    `only`; a tag matches if it is among several."""
    places = [_PLACES[name] for name in by]
    where = ["hour >= ?", "hour < ?"]
    values: list[float | str] = [*map(ceil, hours)]
    for name, value in only.items():
        if name == "tag":
            where.append("replace(',' || tags || ',', ?, '') <> ',' || tags || ','")
            values.append(f",{value},")
        else:
            where.append(f"CAST({_PLACES[name]} AS TEXT) = ?")
            values.append(value)
    statement = f"SELECT {', '.join((*places, columns))} WHERE {' AND '.join(where)}"
    # Without a group there is a row of nothing even where nothing is.
    statement += f" GROUP BY {', '.join(places)}" if places else " HAVING count(*) > 0"
    return connection.execute(statement, values)


def _groups(
    row: Sequence[Any], by: Sequence[str], only: Mapping[str, str]
) -> Iterable[tuple[str, ...]]:
    """The groups that a row counts for: one for each of its tags."""
    group = tuple(str(value) for value in row[: len(by)])
    if "tag" not in by:
        return (group,)
    place = by.index("tag")
    tags = [only["tag"]] if "tag" in only else group[place].split(",")
    return [(*group[:place], tag, *group[place + 1 :]) for tag in tags]


def _flat(counts: Iterable[tuple[Struct, Struct]]) -> list[tuple[Any, ...]]:
    """Keys and their sums as the values of rows."""
    return [(*astuple(key), *astuple(count)) for key, count in counts]


def _json(value: object) -> str:
    return _encode(value).decode()
