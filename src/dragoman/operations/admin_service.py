"""The named keys of the administration."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Actor, Change, changed
from dragoman.keys.admins import FILE_NAME, PREFIX, AdminStore, Role, StoredAdmin
from dragoman.keys.secrets import RANDOM_BYTES, digest_of, ending_of, make_key
from dragoman.operations.errors import Conflict, Unknown
from dragoman.operations.key_fields import moment, moment_if

_USE_RECORDED_S = 60.0
"""Seconds between two times that the use of a key is stored."""


class AdminView(Struct, frozen=True, kw_only=True):
    """A key of the administration as it is shown: of its secret, the last four characters."""

    name: str
    role: Role
    enabled: bool
    ending: str
    created: datetime
    used: datetime | None
    note: str


class MadeAdmin(Struct, frozen=True, kw_only=True):
    """A key of the administration with its new secret, which is shown this once."""

    name: str
    secret: str
    admin: AdminView


class AdminService:
    """The keys of the administration in one store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(
        self, store: AdminStore, actor: Actor, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._actor = actor
        self._store = store
        self._clock = clock

    def admins(self) -> tuple[AdminView, ...]:
        """All keys, by name."""
        return tuple(_view(one) for one in self._store.admins())

    def admin(self, name: str) -> AdminView:
        """One key.

        Raises:
            Unknown: there is none of this name.
        """
        return _view(self._find(name))

    def add(self, name: str, role: Role, note: str = "", *, enabled: bool = True) -> MadeAdmin:
        """Make a key.

        Raises:
            Conflict: the name is taken, or reserved.
        """
        if name == FILE_NAME:
            raise Conflict(f"{name} is the key of the configuration file", "name")
        with self._store.deciding():
            if self.stored(name) is not None:
                raise Conflict(f"{name} is taken", "name")
            secret = make_key(secrets.token_bytes(RANDOM_BYTES), PREFIX)
            made = StoredAdmin(
                name=name,
                role=role,
                digest=digest_of(secret.encode()),
                ending=ending_of(secret),
                created=self._clock(),
                enabled=enabled,
                note=note,
            )
            self._store.save_admin(made)
            self.record(Change(action="add", kind="admin", name=name, after=_settings(made)))
        return MadeAdmin(name=name, secret=secret, admin=_view(made))

    def change(
        self,
        name: str,
        fields: Mapping[str, Any],
        check: Callable[[AdminView], object] | None = None,
    ) -> AdminView:
        """Change `role`, `note` and `enabled`, unless `check` raises, which is called with the key
        as it is. What changes nothing is not recorded.

        Raises:
            Unknown: there is none of this name.
        """
        with self._store.deciding():
            before = self._find(name)
            if check is not None:
                check(_view(before))
            after = replace(before, **fields)
            if after != before:
                self._store.save_admin(after)
                self.record(changed("change", "admin", name, _settings(before), _settings(after)))
            return _view(after)

    def rotate(self, name: str) -> MadeAdmin:
        """Give a key another secret. The one before ends at once, and with it all sessions.

        Raises:
            Unknown: there is none of this name.
        """
        with self._store.deciding():
            found = self._find(name)
            secret = make_key(secrets.token_bytes(RANDOM_BYTES), PREFIX)
            made = replace(found, digest=digest_of(secret.encode()), ending=ending_of(secret))
            self._store.save_admin(made)
            self.record(Change(action="rotate", kind="admin", name=name))
            return MadeAdmin(name=name, secret=secret, admin=_view(made))

    def remove(self, name: str) -> int:
        """Remove a key for good. Returns 1.

        Raises:
            Unknown: there is none of this name.
        """
        with self._store.deciding():
            before = _settings(self._find(name))
            self._store.remove_admin(name)
            self.record(Change(action="remove", kind="admin", name=name, before=before))
            return 1

    def stored(self, name: str) -> StoredAdmin | None:
        """The key of this name as it is stored, None if there is none."""
        return next((one for one in self._store.admins() if one.name == name), None)

    def holder(self, digest: bytes) -> StoredAdmin | None:
        """The enabled key whose secret has this SHA-256, None if there is none. Its use is stored,
        at most once a minute."""
        found = next(
            (one for one in self._store.admins() if hmac.compare_digest(one.digest, digest)), None
        )
        if found is None or not found.enabled:
            return None
        now = self._clock()
        if found.used is None or not 0 <= now - found.used < _USE_RECORDED_S:
            with self._store.deciding():
                latest = next((one for one in self._store.admins() if one.digest == digest), None)
                if latest is None or not latest.enabled:
                    return None
                self._store.save_admin(replace(latest, used=now))
        return found

    def record(self, change: Change) -> None:
        """Add a line to the log of changes."""
        self._store.record(self._actor, (change,))

    def _find(self, name: str) -> StoredAdmin:
        found = self.stored(name)
        if found is None:
            known = [one.name for one in self._store.admins()]
            raise Unknown("key of the administration", name, known)
        return found


def _settings(admin: StoredAdmin) -> dict[str, Any]:
    return {"role": admin.role, "enabled": admin.enabled, "note": admin.note}


def _view(admin: StoredAdmin) -> AdminView:
    return AdminView(
        name=admin.name,
        role=admin.role,
        enabled=admin.enabled,
        ending=admin.ending,
        created=moment(admin.created),
        used=moment_if(admin.used),
        note=admin.note,
    )
