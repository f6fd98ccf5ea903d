"""Stored keys and teams, and the interface of their store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from msgspec import Struct

from dragoman.audit import AuditLog
from dragoman.config.access_rules import AccessRules, KeyRules

MOST_SECRETS = 10
"""Secrets stored of one key, refused ones included."""


class StoredSecret(Struct, frozen=True, kw_only=True):
    """One secret of a key: its SHA-256, its last four signs, when it was made and from when on it
    is refused (None: never), in Unix seconds; how often it was used, and when last."""

    digest: bytes
    ending: str
    created: float
    revoked: float | None = None
    uses: int = 0
    used: float | None = None


class StoredKey(Struct, frozen=True, kw_only=True):
    """A client key. What it has used belongs to its name, which is therefore never given to
    another: `removed` is when it was removed, None if it was not."""

    name: str
    created: float
    rules: KeyRules = KeyRules()
    secrets: tuple[StoredSecret, ...] = ()
    removed: float | None = None


class StoredTeam(Struct, frozen=True, kw_only=True):
    """A team: the rules of all of its keys. `removed` is when it was removed, None if it was
    not."""

    name: str
    created: float
    rules: AccessRules = AccessRules()
    removed: float | None = None


ACCOUNT: Final = "account\n"
"""What the name begins with under which the limits of an account are kept: those of keys have no
line ends."""


class UsedInHour(Struct, frozen=True):
    """What was used of a model at an upstream in the hour that begins at `hour` (Unix seconds), by
    a key or by all keys of a team: requests that reached an upstream, tokens as in
    `dragoman.canonical.usage`, and pico-dollars; `route` is the path they came by."""

    hour: int
    model: str
    upstream: str
    requests: int
    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int
    cost: int
    route: str = ""


Uses = Mapping[bytes, tuple[int, float]]
"""By the SHA-256 of a secret: how often it was used, and when last, in Unix seconds."""


class KeyStore(AuditLog, Protocol):
    """The store of keys, teams and their changes. Every method raises `StoreError` when
    the store cannot be used, and has then changed nothing."""

    def deciding(self) -> AbstractContextManager[None]:
        """One transaction for all calls made inside: what is changed is decided on a state that
        nobody else changes meanwhile. What raises inside undoes all of it. Not to be nested."""

    def all_keys(self) -> Sequence[StoredKey]:
        """All keys that there are or were, by name."""

    def key_teams(self) -> Mapping[str, str | None]:
        """The teams of all keys that there are, by the names of these; None of those without."""

    def key(self, name: str) -> StoredKey | None:
        """The key of a name that there is or was; None if there never was one."""

    def all_teams(self) -> Sequence[StoredTeam]:
        """All teams that there are or were, by name."""

    def add(self, key: StoredKey) -> bool:
        """Add a key. False if there is, or was, one of its name: nothing is changed then."""

    def save(self, keys: Iterable[StoredKey] = (), teams: Iterable[StoredTeam] = ()) -> None:
        """Replace the rules of keys, add the secrets that are new, and have others end no later
        than given here; add teams, or replace those of the same name. All or none.

        A concurrent change of the same key loses no secret by it, and brings none back. What was
        removed stays removed. The latest `MOST_SECRETS` of each key are stored.
        """

    def limit_resets(self) -> Mapping[str, float]:
        """When limits of the configuration file were reset, in Unix seconds, by the names of the
        ledgers that they have without that."""

    def reset_limits(self, resets: Mapping[str, float]) -> None:
        """Replace these of them."""

    def used(self, name: str, since: float, *, is_team: bool = False) -> Sequence[UsedInHour]:
        """What the key of this name has used, or all keys while they were in the team of this name,
        in the hours that begin at `since` (Unix seconds) or later, in their order. After `ACCOUNT`,
        the name is that of an account: what was used of it."""

    def users(self, since: float, *, is_team: bool = False) -> frozenset[str]:
        """Names of the keys, or of the teams, for which `used` returns anything."""
