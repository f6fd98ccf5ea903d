"""Client keys: those of the store are changed here, those of the configuration file only shown."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Actor, Change
from dragoman.config import Client, Config, KeyRules
from dragoman.config.access_rules import ANYONE
from dragoman.keys.records import MOST_SECRETS, KeyStore, StoredKey, StoredSecret
from dragoman.keys.secrets import RANDOM_BYTES, digest_of, ending_of, make_key
from dragoman.limits.rules import with_resets
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.key_fields import (
    Origin,
    State,
    check_name,
    found_in,
    moment,
    moment_if,
    rules_changed,
    set_rules,
    state_of,
    unknown_team,
    with_fields,
)
from dragoman.operations.team_service import TeamService
from dragoman.operations.terminal import this_user

GRACE_S = 24 * 3600.0
"""Seconds for which the old secret of a key that is rotated goes on."""


class SecretView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One secret as it is shown: its last four characters. `revoked` is from when on it is
    refused."""

    ending: str
    created: datetime
    revoked: datetime | None = None
    uses: int = 0
    used: datetime | None = None


class KeyView(Struct, frozen=True, kw_only=True):
    """A key as it is shown. `state` leaves out the state of its team."""

    name: str
    origin: Origin
    state: State
    created: datetime | None
    used: datetime | None
    rules: KeyRules
    secrets: tuple[SecretView, ...] = ()


class MadeKey(Struct, frozen=True, kw_only=True):
    """A key with its new secret, which is shown this once."""

    name: str
    secret: str
    key: KeyView


class KeyService:
    """The keys of one configuration and one store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(
        self,
        config: Config,
        store: KeyStore,
        actor: Actor | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        self.teams = TeamService(config, store, actor, clock=clock)
        self._actor = actor or this_user()
        self._clients = {client.name: client for client in config.clients}

    def keys(self, after: str = "", text: str = "") -> list[KeyView]:
        """All keys by name, of those after a name that have a text in theirs, or in that of their
        team."""
        resets = self.store.limit_resets()
        views = [self._client_view(client, resets) for client in self._clients.values()]
        views += [self._view(key) for key in self._stored() if key.name not in self._clients]
        return [
            view
            for view in sorted(views, key=lambda view: view.name)
            if view.name > after and found_in(text, view.name, view.rules.team)
        ]

    def page(self, after: str, limit: int, text: str = "") -> tuple[list[KeyView], str | None, int]:
        """The first `limit` of these; the name to go on after, None at the end; and how many keys
        have the text."""
        teams = {**self.store.key_teams()}
        teams |= {name: client.rules.team for name, client in self._clients.items()}
        names = sorted(name for name, team in teams.items() if found_in(text, name, team))
        left = [name for name in names if name > after]
        resets = self.store.limit_resets()
        views = []
        for name in left[:limit]:
            key = None if name in self._clients else self.store.key(name)
            if name in self._clients:
                views.append(self._client_view(self._clients[name], resets))
            elif key is not None and key.removed is None:
                views.append(self._view(key))
        return views, left[limit - 1] if len(left) > limit else None, len(names)

    def key(self, name: str) -> KeyView:
        """One key.

        Raises:
            Unknown: there is none of this name.
        """
        if name in self._clients:
            return self._client_view(self._clients[name], self.store.limit_resets())
        return self._view(self._find(name))

    def add(self, name: str, fields: Mapping[str, Any]) -> MadeKey:
        """Make a key with these rules.

        Raises:
            Conflict: the name is taken, or was a key's that was removed, or is reserved.
            InvalidInput: a field is wrong.
        """
        check_name(name)
        if name == ANYONE:
            raise Conflict(f"{name} is the name of clients without a key", "name")
        if name in self._clients:
            raise Conflict(f"{name} is a client of the configuration file", "name")
        with self.store.deciding():
            rules = self._with_fields(KeyRules(), fields)
            now = self.clock()
            secret, stored = new_secret(now)
            key = StoredKey(name=name, created=now, rules=rules, secrets=(stored,))
            if not self.store.add(key):
                raise Conflict(f"{name} is, or was, the name of a key, and stays its own", "name")
            self.record(Change(action="add", kind="key", name=name, after=set_rules(rules)))
            return MadeKey(name=name, secret=secret, key=self._view(key))

    def change(
        self,
        name: str,
        fields: Mapping[str, Any] | Callable[[KeyRules], Mapping[str, Any]],
        check: Callable[[KeyView], object] | None = None,
    ) -> KeyView:
        """As `TeamService.change`, for a key.

        Raises:
            Unknown: there is no key of this name.
            Conflict: it is one of the configuration file.
            InvalidInput: a field is wrong.
        """
        with self.store.deciding():
            return self._change(name, fields, check)

    def enable(self, names: Sequence[str], *, enabled: bool = True) -> tuple[KeyView, ...]:
        """Accept keys again, or refuse them: all or none.

        Raises:
            Unknown: there is none of one of these names.
            Conflict: one is of the configuration file.
        """
        with self.store.deciding():
            return tuple(
                [self._change(name, {"enabled": enabled}) for name in dict.fromkeys(names)]
            )

    def rotate(self, name: str, grace_s: float = GRACE_S) -> MadeKey:
        """Make another secret for a key. Those it has are refused `grace_s` seconds from now, or
        sooner if that was set before. All that is counted stays the key's.

        Raises:
            Unknown: there is no key of this name.
            Conflict: it is one of the configuration file.
        """
        with self.store.deciding():
            key, now = self._find(name), self.clock()
            end = now + max(0.0, grace_s)
            old = [
                replace(one, revoked=end if one.revoked is None else min(one.revoked, end))
                for one in key.secrets
            ]
            secret, stored = new_secret(now)
            rotated = replace(key, secrets=(*old[-MOST_SECRETS + 1 :], stored))
            self.store.save([rotated])
            after = {"old_ends": moment(end).isoformat()}
            self.record(Change(action="rotate", kind="key", name=name, after=after))
            return MadeKey(name=name, secret=secret, key=self._view(rotated))

    def remove(self, names: Sequence[str]) -> int:
        """Remove keys: all or none. Their names are given to no others, since usage and stored
        responses belong to them. Returns how many.

        Raises:
            Unknown: there is none of one of these names.
            Conflict: one is of the configuration file.
        """
        with self.store.deciding():
            now = self.clock()
            removed = [
                replace(self._find(name), secrets=(), removed=now) for name in dict.fromkeys(names)
            ]
            self.store.save(removed)
            self.record(
                *(
                    Change(action="remove", kind="key", name=one.name, before=set_rules(one.rules))
                    for one in removed
                )
            )
            return len(removed)

    def record(self, *changes: Change) -> None:
        """Add lines to the log of changes."""
        self.store.record(self._actor, changes)

    def _change(
        self,
        name: str,
        fields: Mapping[str, Any] | Callable[[KeyRules], Mapping[str, Any]],
        check: Callable[[KeyView], object] | None = None,
    ) -> KeyView:
        key = self._find(name)
        if check is not None:
            check(self._view(key))
        values = fields(key.rules) if callable(fields) else fields
        after = replace(key, rules=self._with_fields(key.rules, values))
        if after != key:
            self.store.save([after])
            self.record(rules_changed("key", name, key.rules, after.rules))
        return self._view(after)

    def _with_fields(self, rules: KeyRules, fields: Mapping[str, Any]) -> KeyRules:
        team = fields.get("team")
        if team is not None and team not in (teams := self.teams.names()):
            raise unknown_team(team, sorted(teams))
        return with_fields(rules, fields, self.config)

    def _stored(self) -> list[StoredKey]:
        return [key for key in self.store.all_keys() if key.removed is None]

    def _find(self, name: str) -> StoredKey:
        if name in self._clients:
            raise Conflict(f"{name} is a client of the configuration file: change it there", "name")
        key = self.store.key(name)
        if key is None or key.removed is not None:
            raise Unknown("key", name, [*self._clients, *(one.name for one in self._stored())])
        return key

    def _client_view(self, client: Client, resets: Mapping[str, float]) -> KeyView:
        limits = with_resets(client.rules.limits, client.name, resets)
        return KeyView(
            name=client.name,
            origin="configuration",
            state=state_of(client, self.clock()),
            created=None,
            used=None,
            rules=replace(client.rules, limits=limits),
        )

    def _view(self, key: StoredKey) -> KeyView:
        used = max((one.used for one in key.secrets if one.used is not None), default=None)
        return KeyView(
            name=key.name,
            origin="store",
            state=state_of(key.rules, self.clock()),
            created=moment(key.created),
            used=moment_if(used),
            rules=key.rules,
            secrets=tuple(
                SecretView(
                    ending=one.ending,
                    created=moment(one.created),
                    revoked=moment_if(one.revoked),
                    uses=one.uses,
                    used=moment_if(one.used),
                )
                for one in key.secrets
            ),
        )


def new_secret(now: float) -> tuple[str, StoredSecret]:
    """A new secret, and what is stored of it."""
    secret = make_key(secrets.token_bytes(RANDOM_BYTES))
    digest = digest_of(secret.encode())
    return secret, StoredSecret(digest=digest, ending=ending_of(secret), created=now)
