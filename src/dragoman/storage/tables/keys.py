"""Client keys and teams.

Rows have the version of the transaction that wrote them last, like all rows that workers learn of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman.config import AccessRules, KeyRules
from dragoman.config.windows import knows_zone
from dragoman.jsontext import decoder, strict
from dragoman.keys.records import (
    ACCOUNT,
    MOST_SECRETS,
    StoredKey,
    StoredSecret,
    StoredTeam,
    UsedInHour,
    Uses,
)
from dragoman.storage.tables.audit import AuditTable
from dragoman.storage.tables.database import Connection, replacing

_log = logging.getLogger("dragoman.accounts")

R = TypeVar("R", bound=AccessRules)


class _Membership(Struct, frozen=True):
    """The team in the rules of a key."""

    team: str | None = None


_read_rules = decoder(KeyRules)
_read_membership = decoder(_Membership)
_read_team_rules = decoder(AccessRules)
_encode = msgspec.json.Encoder().encode

_SECRETS = "SELECT client_key, digest, ending, created, revoked, uses, used FROM client_secrets"
_SAVE_KEY = (
    "INSERT INTO client_keys (name, version, created, removed, rules) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE"
    " SET version = excluded.version, removed = excluded.removed, rules = excluded.rules"
    " WHERE client_keys.removed IS NULL"
)
# A secret that was to end stays so: the earlier of both ends counts.
_SAVE_SECRET = (
    "INSERT INTO client_secrets (digest, client_key, ending, created, revoked, uses, used)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET revoked ="
    " CASE WHEN client_secrets.revoked IS NULL OR excluded.revoked < client_secrets.revoked"
    " THEN excluded.revoked ELSE client_secrets.revoked END"
)
_SAVE_TEAM = replacing("teams", "name", "version, created, removed, rules")
_SAVE_RESET = replacing("limit_resets", "ledger", "version, at")
_PRUNE = (
    "DELETE FROM client_secrets WHERE client_key = ?1 AND digest NOT IN"
    " (SELECT digest FROM client_secrets WHERE client_key = ?1 ORDER BY created DESC LIMIT ?2)"
)
_USE = (
    "UPDATE client_secrets SET uses = uses + ?2,"
    " used = CASE WHEN used > ?3 THEN used ELSE ?3 END WHERE digest = ?1"
)


# Costs are in rows of their own, under the same hours, models, upstreams and routes.
_USED = """
    SELECT hour, model, upstream, sum(requests), sum(input), sum(cached), sum(cache_write),
        sum(output), sum(reasoning), sum(cost), route FROM (
        SELECT hour, model, upstream, route,
            CASE WHEN account = '' THEN 0 ELSE requests END AS requests, input,
            cached, cache_write, output, reasoning, 0 AS cost FROM usage
            WHERE hour >= ?2 AND client = ?1
        UNION ALL
        SELECT hour, model, upstream, route, 0, 0, 0, 0, 0, 0, cost FROM charges
            WHERE hour >= ?2 AND client = ?1
    ) AS both_tables GROUP BY hour, model, upstream, route ORDER BY hour
"""
_USERS = (
    "SELECT client FROM usage WHERE hour >= ?1 UNION SELECT client FROM charges WHERE hour >= ?1"
)
_TEAM_USERS = _USERS.replace("client", "team")
_USED_BY_TEAM = _USED.replace("client = ?1", "team = ?1")
_USED_OF_ACCOUNT = _USED.replace("client = ?1", "account = ?1")


class KeyTables(AuditTable):
    """Implements `KeyStore` on a database that is opened elsewhere."""

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """See `KeyStore.deciding`."""
        with self._database.deciding():
            yield

    def all_keys(self) -> Sequence[StoredKey]:
        """See `KeyStore.all_keys`."""
        with self._database.reading() as connection:
            return asked_keys(connection, 0)()

    def key_teams(self) -> Mapping[str, str | None]:
        """See `KeyStore.key_teams`."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT name, rules FROM client_keys WHERE removed IS NULL")
            return {name: _read_membership(rules).team for name, rules in rows}

    def key(self, name: str) -> StoredKey | None:
        """See `KeyStore.key`."""
        with self._database.reading() as connection:
            found = _asked_keys(connection, "name = ?", name)()
        return found[0] if found else None

    def all_teams(self) -> Sequence[StoredTeam]:
        """See `KeyStore.all_teams`."""
        with self._database.reading() as connection:
            return asked_teams(connection, 0)()

    def add(self, key: StoredKey) -> bool:
        """See `KeyStore.add`."""
        with self._database.writing() as (connection, version):
            known = connection.execute(
                "SELECT 1 FROM client_keys WHERE name = ?", (key.name,)
            ).fetchone()
            if known is None:
                _save(connection, version, key)
        return known is None

    def save(self, keys: Iterable[StoredKey] = (), teams: Iterable[StoredTeam] = ()) -> None:
        """See `KeyStore.save`."""
        with self._database.writing() as (connection, version):
            for team in teams:
                connection.execute(
                    _SAVE_TEAM,
                    (team.name, version, team.created, team.removed, _encode(team.rules).decode()),
                )
            for key in keys:
                _save(connection, version, key)

    def limit_resets(self) -> Mapping[str, float]:
        """See `KeyStore.limit_resets`."""
        with self._database.reading() as connection:
            return asked_resets(connection, 0)()

    def reset_limits(self, resets: Mapping[str, float]) -> None:
        """See `KeyStore.reset_limits`."""
        with self._database.writing() as (connection, version):
            rows = [(ledger, version, at) for ledger, at in resets.items()]
            connection.executemany(_SAVE_RESET, rows)

    def used(self, name: str, since: float, *, is_team: bool = False) -> Sequence[UsedInHour]:
        """See `KeyStore.used`."""
        owner, statement = name.removeprefix(ACCOUNT), _USED_BY_TEAM if is_team else _USED
        if owner != name:
            statement = _USED_OF_ACCOUNT
        with self._database.reading() as connection:
            rows = connection.execute(statement, (owner, ceil(since)))
            return [UsedInHour(*row) for row in rows]

    def users(self, since: float, *, is_team: bool = False) -> frozenset[str]:
        """See `KeyStore.users`."""
        with self._database.reading() as connection:
            rows = connection.execute(_TEAM_USERS if is_team else _USERS, (ceil(since),))
            return frozenset([name for (name,) in rows])


def _save(connection: Connection, version: int, key: StoredKey) -> None:
    rules = _encode(key.rules).decode()
    row = (key.name, version, key.created, key.removed, rules)
    if not connection.execute(_SAVE_KEY, row).rowcount:
        return
    most = MOST_SECRETS
    if key.removed is None:
        connection.executemany(_SAVE_SECRET, [_secret_row(key, one) for one in key.secrets])
    else:
        most = 0
    connection.execute(_PRUNE, (key.name, most))


def add_uses(connection: Connection, uses: Uses) -> None:
    """Add to the uses of secrets. Workers need not learn of it."""
    rows = [(digest.hex(), count, at) for digest, (count, at) in uses.items()]
    connection.executemany(_USE, rows)


def asked_keys(connection: Connection, version: int) -> Callable[[], tuple[StoredKey, ...]]:
    """Request the keys that changed after a version, with all of their secrets; the result reads
    them, by name."""
    return _asked_keys(connection, "version > ?", version)


def _asked_keys(
    connection: Connection, which: str, value: object
) -> Callable[[], tuple[StoredKey, ...]]:
    rows = connection.execute(
        f"SELECT name, created, removed, rules FROM client_keys WHERE {which} ORDER BY name",
        (value,),
    )
    where = f" WHERE client_key IN (SELECT name FROM client_keys WHERE {which}) ORDER BY created"
    secret_rows = connection.execute(_SECRETS + where, (value,))

    def read() -> tuple[StoredKey, ...]:
        secrets: dict[str, list[StoredSecret]] = {}
        for name, *fields in secret_rows:
            secrets.setdefault(name, []).append(_secret(fields))
        return tuple(
            StoredKey(
                name=name,
                created=created,
                removed=removed,
                rules=_zones_checked(_read_rules(_without_shares(rules, name)), name),
                secrets=tuple(secrets.get(name, ())),
            )
            for name, created, removed, rules in rows
        )

    return read


def _without_shares(stored: str, name: str) -> str:
    """The rules of a key or a team without limits that are a share of what accounts have, which
    former versions stored: they were no caps, and what accounts have is no longer learned."""
    if '"share"' not in stored:
        return stored
    rules = strict(stored)
    limits = rules.get("limits", [])
    rules["limits"] = [limit for limit in limits if "share" not in limit]
    if len(rules["limits"]) < len(limits):
        _log.warning("%s: a limit that is a share of what accounts have is left out", name)
    return _encode(rules).decode()


def _zones_checked(rules: R, name: str) -> R:
    """The rules; a limit of which this machine does not know the time zone is reported."""
    for limit in rules.limits:
        if not knows_zone(limit.zone):
            message = "%s: the time zone %s of a limit is not known here: requests are refused"
            _log.error(message, name, limit.zone)
    return rules


def asked_teams(connection: Connection, version: int) -> Callable[[], tuple[StoredTeam, ...]]:
    """Request the teams that changed after a version; the result reads them, by name."""
    rows = connection.execute(
        "SELECT name, created, removed, rules FROM teams WHERE version > ? ORDER BY name",
        (version,),
    )
    return lambda: tuple(
        StoredTeam(
            name=name,
            created=created,
            removed=removed,
            rules=_zones_checked(_read_team_rules(_without_shares(rules, name)), name),
        )
        for name, created, removed, rules in rows
    )


def asked_resets(connection: Connection, version: int) -> Callable[[], Mapping[str, float]]:
    """Request the resets that came after a version; the result reads them."""
    rows = connection.execute("SELECT ledger, at FROM limit_resets WHERE version > ?", (version,))
    return lambda: dict(rows)


def _secret(fields: Sequence[Any]) -> StoredSecret:
    digest, ending, created, revoked, uses, used = fields
    return StoredSecret(
        digest=bytes.fromhex(digest),
        ending=ending,
        created=created,
        revoked=revoked,
        uses=uses,
        used=used,
    )


def _secret_row(key: StoredKey, one: StoredSecret) -> tuple[Any, ...]:
    return (one.digest.hex(), key.name, one.ending, one.created, one.revoked, one.uses, one.used)
