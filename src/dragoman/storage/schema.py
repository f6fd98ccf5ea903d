"""The tables of a store, described once for SQLite and PostgreSQL.

`upgrade` compares the description with the tables that a database has, and adds what is missing. To
change the tables, add a table, an index, or a column with a default here, and raise
`Dialect.version` of both dialects. Nothing is renamed or removed: programs of former versions use
the same store during an upgrade (`is_too_new`).

Rows that workers learn of carry the `version` of the transaction that wrote them last, so that
"what changed since" is a range of an index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dragoman.storage.tables.table import Column, Table, make_table
from dragoman.storage.tables.usage import CHARGES, ERRORS, USAGE


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database writes the description."""

    version: int
    """The version of the tables, which a database records in the table `migrations`."""
    types: Mapping[str, str]
    """The type for each kind of column."""
    serial: str
    """The definition of a SERIAL column."""
    clustered: str
    """What follows the definition of a clustered table."""
    filled: str
    """What follows the definition of a table with a fill percentage, for `str.format`."""
    counted_bytes: tuple[str, ...]
    """Statements that make `responses_held` the sum of the bytes of all `responses`."""


def upgrade(dialect: Dialect, present: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The statements that bring a database up to date. `present` has the columns of its tables."""
    for table in TABLES:
        columns = present.get(table.name)
        if columns is None:
            yield _create(dialect, table)
            if table.name == "clock":
                yield "INSERT INTO clock VALUES (1, 0)"
            if table.name == "responses_held":
                yield from dialect.counted_bytes
        else:
            for column in table.columns:
                if column.name.strip('"') not in columns:
                    yield f"ALTER TABLE {table.name} ADD COLUMN {_definition(dialect, column)}"
        for suffix, over in table.indexes.items():
            yield f"CREATE INDEX IF NOT EXISTS {table.name}_{suffix} ON {table.name} {over}"


def _create(dialect: Dialect, table: Table) -> str:
    lines = [_definition(dialect, column) for column in table.columns]
    if not any(column.kind == "SERIAL" for column in table.columns):
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    options = dialect.clustered if table.is_clustered else ""
    if table.fill_percent < 100:
        options += dialect.filled.format(table.fill_percent)
    return f"CREATE TABLE {table.name} ({', '.join(lines)}){options}"


def _definition(dialect: Dialect, column: Column) -> str:
    if column.kind == "SERIAL":
        return f"{column.name} {dialect.serial}"
    return f"{column.name} {dialect.types[column.kind]} {column.rest}".rstrip()


_VERSION: Final = {"version": "(version)"}

TABLES: Final = (
    # When each version of the tables was made.
    make_table("migrations", "number INTEGER, applied REAL NOT NULL", "number", is_clustered=False),
    # One row: how many transactions have written what workers learn of.
    make_table(
        "clock", "id INTEGER CHECK (id = 1), version INTEGER NOT NULL", "id", is_clustered=False
    ),
    # Accounts of the store. `sealed` is encrypted; `models` is JSON, NULL for all models. `removed`
    # is when the account was removed, so that workers learn of it.
    make_table(
        "accounts",
        "name TEXT, version INTEGER NOT NULL, removed REAL, upstream TEXT NOT NULL,"
        " sealed BLOB NOT NULL, models TEXT, priority INTEGER NOT NULL, weight REAL NOT NULL,"
        " max_concurrent INTEGER, balance REAL",
        "name",
        _VERSION,
    ),
    # The states of accounts, also of those in the configuration file, as JSON. `entries` counts all
    # lines of history there ever were, from which the slot of the next one follows.
    make_table(
        "states",
        "account TEXT, version INTEGER NOT NULL, entries INTEGER NOT NULL, state TEXT NOT NULL",
        "account",
        _VERSION,
    ),
    # The last lines of each account's history, as a ring, so that an account that fails every few
    # seconds takes no more space than any other. `entry` is JSON.
    make_table(
        "history",
        "account TEXT NOT NULL, slot INTEGER NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL,"
        " entry TEXT NOT NULL",
        "account, slot",
        {"at": "(at)"},
    ),
    # Sums by the hour of what was used and charged, and of failed attempts.
    USAGE,
    CHARGES,
    ERRORS,
    # The last failed attempt of each account; `error` is JSON.
    make_table("last_errors", "account TEXT, at REAL NOT NULL, error TEXT NOT NULL", "account"),
    # Workers with requests in flight: when each reported last, and its leases as JSON.
    make_table(
        "workers", "name TEXT, seen REAL NOT NULL, leases TEXT NOT NULL", "name", fill_percent=50
    ),
    # When each account was chosen last.
    make_table(
        "used", "account TEXT, version INTEGER NOT NULL, at REAL NOT NULL", "account", _VERSION
    ),
    # Tokens left. `told` is the balance that a person or the configuration has set last: only
    # another one replaces what is left.
    make_table(
        "balances",
        "account TEXT, version INTEGER NOT NULL, told REAL NOT NULL, remaining REAL NOT NULL",
        "account",
        _VERSION,
    ),
    # Which account a conversation is with, since when: a log, of which the latest row of a digest
    # counts. Digests are random, so in their order a page would be written for each row.
    make_table(
        "pins",
        "version INTEGER NOT NULL, digest TEXT NOT NULL, account TEXT NOT NULL, at REAL NOT NULL",
        "version, digest",
    ),
    # What upstreams reported of each account's quota; `windows` is JSON.
    make_table(
        "quotas",
        "account TEXT, version INTEGER NOT NULL, windows TEXT NOT NULL",
        "account",
        _VERSION,
    ),
    # What one worker does for all, such as sending an alert, and until when no other does.
    make_table("claims", "name TEXT, until REAL NOT NULL", "name"),
    # Logins of accounts that are renewed by redeeming what the last renewal has left; `sealed` is
    # encrypted.
    make_table("credentials", "name TEXT, sealed BLOB NOT NULL", "name"),
    # Client keys and teams; `rules` is JSON. Removed ones stay: their names are not used again.
    make_table(
        "client_keys",
        "name TEXT, version INTEGER NOT NULL, created REAL NOT NULL, removed REAL,"
        " rules TEXT NOT NULL",
        "name",
        _VERSION,
    ),
    make_table(
        "teams",
        "name TEXT, version INTEGER NOT NULL, created REAL NOT NULL, removed REAL,"
        " rules TEXT NOT NULL",
        "name",
        _VERSION,
    ),
    # When limits of keys and teams of the configuration file were reset, by the name of the ledger
    # that each has without that.
    make_table(
        "limit_resets",
        "ledger TEXT, version INTEGER NOT NULL, at REAL NOT NULL",
        "ledger",
        _VERSION,
    ),
    # The secrets of keys: SHA-256 in hexadecimal, and their last characters.
    make_table(
        "client_secrets",
        "digest TEXT, client_key TEXT NOT NULL, ending TEXT NOT NULL, created REAL NOT NULL,"
        " revoked REAL, uses INTEGER NOT NULL, used REAL",
        "digest",
        {"key": "(client_key)"},
    ),
    # What people changed; `before` and `after` are JSON objects, NULL where there was nothing.
    make_table(
        "audit",
        "id SERIAL, at REAL NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL,"
        " address TEXT NOT NULL, action TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,"
        " before TEXT, after TEXT",
        "id",
        is_clustered=False,
    ),
    # Keys of the administration, by the SHA-256 of their secrets in hexadecimal.
    make_table(
        "admins",
        "name TEXT, role TEXT NOT NULL, digest TEXT NOT NULL, ending TEXT NOT NULL,"
        " created REAL NOT NULL, enabled BOOLEAN NOT NULL, note TEXT NOT NULL, used REAL",
        "name",
    ),
    # People who signed in; `identity` is JSON.
    make_table(
        "people",
        "id TEXT, version INTEGER NOT NULL, name TEXT NOT NULL, identity TEXT NOT NULL,"
        " created REAL NOT NULL, seen REAL NOT NULL, enabled BOOLEAN NOT NULL",
        "id",
        {**_VERSION, "name": "(name)"},
    ),
    # Their sessions; of refresh tokens the SHA-256 in hexadecimal. `sealed` is encrypted.
    make_table(
        "person_sessions",
        "id TEXT, version INTEGER NOT NULL, person TEXT NOT NULL, client TEXT NOT NULL,"
        " refresh TEXT NOT NULL, former TEXT NOT NULL, rotated REAL NOT NULL,"
        " signed_in REAL NOT NULL, renewed REAL NOT NULL, failing REAL, asking REAL NOT NULL,"
        " sealed BLOB NOT NULL, used REAL, ended REAL",
        "id",
        {**_VERSION, "person": "(person)"},
    ),
    # What sign-ins have begun: device codes, authorization codes, visits to the provider.
    make_table(
        "sign_ins",
        "id TEXT, alias TEXT NOT NULL, expires REAL NOT NULL, sealed BLOB NOT NULL",
        "id",
        {"alias": "(alias)", "expires": "(expires)"},
    ),
    # Keys that sign access tokens.
    make_table(
        "signing_keys",
        "id TEXT, version INTEGER NOT NULL, created REAL NOT NULL, sealed BLOB NOT NULL",
        "id",
        _VERSION,
    ),
    # Stored responses, one turn each; `response` is an object, `input` and `output` arrays of
    # items, as JSON. `deleted` ones are hidden, and stay while a later turn builds on them. `alive`
    # is when the worker of a background response reported last; `claimed` is when the answers of
    # its tools were taken, 0 if they were not. `request` is what an unfinished background response
    # answers, for the worker that takes it over, and `taken` how often one did.
    make_table(
        "responses",
        "id TEXT, owner TEXT NOT NULL, previous TEXT, created REAL NOT NULL, expires REAL NOT NULL,"
        " status TEXT NOT NULL, response BLOB NOT NULL, input BLOB NOT NULL, output BLOB NOT NULL,"
        " bytes INTEGER NOT NULL, background BOOLEAN NOT NULL, alive REAL NOT NULL,"
        " cancelled BOOLEAN NOT NULL DEFAULT FALSE, claimed INTEGER NOT NULL DEFAULT 0,"
        " deleted BOOLEAN NOT NULL DEFAULT FALSE, request BLOB, taken INTEGER NOT NULL DEFAULT 0",
        "id",
        {
            "previous": "(previous)",
            "expires": "(expires) WHERE NOT deleted",
            "created": "(created)",
            "owned": "(owner, created, bytes)",
            "hidden": "(deleted) WHERE deleted",
            "running": "(alive) WHERE background",
        },
        is_clustered=False,
    ),
    # Which responses have an item.
    make_table(
        "response_items",
        "owner TEXT NOT NULL, item TEXT NOT NULL, response TEXT NOT NULL",
        "owner, item, response",
        {"response": "(response)"},
    ),
    # The stream of a background response so far.
    make_table(
        "response_events",
        "response TEXT NOT NULL, sequence INTEGER NOT NULL, frame BLOB NOT NULL",
        "response, sequence",
    ),
    # Which account made what its own service stores, and for whom: responses and their items, of
    # which `kind` is empty, files, batches. `details` is a small JSON object; `due` is when it is
    # to be looked at, NULL if nothing of it is to be settled.
    make_table(
        "kept_elsewhere",
        "owner TEXT NOT NULL, name TEXT NOT NULL, account TEXT NOT NULL, expires REAL NOT NULL,"
        " kind TEXT NOT NULL DEFAULT '', created REAL NOT NULL DEFAULT 0,"
        " details TEXT NOT NULL DEFAULT '{}', due REAL",
        "owner, name",
        {
            "expires": "(expires)",
            "named": "(name) WHERE kind <> ''",
            "listed": "(owner, kind, created, name) WHERE kind <> ''",
            "due": "(due) WHERE due IS NOT NULL",
        },
    ),
    # The bytes of all responses; the sum of all rows counts.
    make_table(
        "responses_held",
        "id INTEGER, bytes INTEGER NOT NULL",
        "id",
        is_clustered=False,
        fill_percent=20,
    ),
)
"""All tables of a store but `limit_ledgers`, which `dragoman.storage.postgres.ledgers` makes."""
