"""What an operator can do with the named keys of the administration, and who holds one."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.audit import Actor, Change, changed
from dragoman.config.access_rules import Name
from dragoman.config.convert import suggestion
from dragoman.keys.admins import FILE_NAME, PREFIX, AdminStore, Role, StoredAdmin
from dragoman.keys.secrets import RANDOM_BYTES, digest_of, ending_of, make_key
from dragoman.operations.drafts import FieldError, InvalidDraft, shortened
from dragoman.operations.errors import Conflict
from dragoman.operations.keys import Unknown
from dragoman.operations.people import this_user

_USE_NOTED_S = 60.0
"""Seconds between two times that the use of a key is written down."""

_LONGEST_NOTE = 500


class AdminView(Struct, frozen=True, kw_only=True):
    """A key of the administration as it is shown: of its secret, the last four signs."""

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


class AdminAdministration:
    """What can be done with the keys of the administration in one store.

    Methods block, and are not for several threads at once. All of them may raise `StoreError`.
    """

    def __init__(
        self,
        store: AdminStore,
        actor: Actor | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._actor = actor or this_user()
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

    def add(self, name: str, fields: Mapping[str, Any]) -> MadeAdmin:
        """Make a key with a `role` and, if wanted, a `note`.

        Raises:
            Conflict: the name is taken, or reserved.
            InvalidDraft: a field is wrong.
        """
        _check_name(name)
        if name == FILE_NAME:
            raise Conflict(f"{name} is the key of the configuration file", "name")
        if "role" not in fields:
            raise InvalidDraft((FieldError("role", f"expected one of {', '.join(ROLES)}"),))
        checked = _checked(fields)
        with self._store.deciding():
            if any(one.name == name for one in self._store.admins()):
                raise Conflict(f"{name} is taken", "name")
            secret = make_key(secrets.token_bytes(RANDOM_BYTES), PREFIX)
            made = StoredAdmin(
                name=name,
                role="viewer",
                digest=digest_of(secret.encode()),
                ending=ending_of(secret),
                created=self._clock(),
            )
            made = replace(made, **checked)
            self._store.save_admin(made)
            self._note(Change(action="add", kind="admin", name=name, after=_fields(made)))
        return MadeAdmin(name=name, secret=secret, admin=_view(made))

    def change(
        self,
        name: str,
        fields: Mapping[str, Any],
        check: Callable[[AdminView], object] | None = None,
    ) -> AdminView:
        """Change `role`, `note` and `enabled`, unless `check` raises, which is called with the key
        as it is. What changes nothing is not written down.

        Raises:
            Unknown: there is none of this name.
            InvalidDraft: a field is wrong.
        """
        checked = _checked(fields)
        with self._store.deciding():
            before = self._find(name)
            if check is not None:
                check(_view(before))
            after = replace(before, **checked)
            if after != before:
                self._store.save_admin(after)
                self._note(changed("change", "admin", name, _fields(before), _fields(after)))
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
            self._note(Change(action="rotate", kind="admin", name=name))
            return MadeAdmin(name=name, secret=secret, admin=_view(made))

    def remove(self, name: str) -> int:
        """Remove a key for good. Returns 1.

        Raises:
            Unknown: there is none of this name.
        """
        with self._store.deciding():
            found = self._find(name)
            self._store.remove_admin(name)
            self._note(Change(action="remove", kind="admin", name=name, before=_fields(found)))
            return 1

    def stored(self, name: str) -> StoredAdmin | None:
        """The key of this name as it is kept, None if there is none."""
        return next((one for one in self._store.admins() if one.name == name), None)

    def holder(self, digest: bytes) -> StoredAdmin | None:
        """The enabled key whose secret has this SHA-256, None if there is none. That it was used is
        written down, at most once a minute."""
        for one in self._store.admins():
            if hmac.compare_digest(one.digest, digest):
                break
        else:
            return None
        if not one.enabled:
            return None
        now = self._clock()
        if one.used is None or not 0 <= now - one.used < _USE_NOTED_S:
            with self._store.deciding():
                latest = next((it for it in self._store.admins() if it.digest == digest), None)
                if latest is None or not latest.enabled:
                    return None
                self._store.save_admin(replace(latest, used=now))
        return one

    def note(self, change: Change) -> None:
        """Write down something that the actor did."""
        self._note(change)

    # Within

    def _find(self, name: str) -> StoredAdmin:
        stored = self._store.admins()
        for one in stored:
            if one.name == name:
                return one
        raise Unknown("key of the administration", name, [one.name for one in stored])

    def _note(self, change: Change) -> None:
        self._store.note(self._actor, (change,))


ROLES: tuple[Role, ...] = get_args(Role)
"""All roles, the one that may do least first."""

_TYPES: Mapping[str, Any] = {"role": Role, "note": str, "enabled": bool}


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    faults: list[FieldError] = []
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _TYPES:
            told = f"there is no such field{suggestion(name[:64], _TYPES)}"
            faults.append(FieldError(shortened(name), told))
            continue
        try:
            values[name] = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError:
            expected = {"role": f"one of {', '.join(ROLES)}", "enabled": "true or false"}
            faults.append(FieldError(name, f"expected {expected.get(name, 'a text')}"))
            continue
        if name == "note" and len(value) > _LONGEST_NOTE:
            faults.append(FieldError(name, f"expected at most {_LONGEST_NOTE} characters"))
    if faults:
        raise InvalidDraft(tuple(faults))
    return values


def _check_name(name: str) -> None:
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        told = "expected at most 64 letters, digits, _ . and -"
        raise InvalidDraft((FieldError("name", told),)) from None


def _fields(admin: StoredAdmin) -> dict[str, Any]:
    return {"role": admin.role, "enabled": admin.enabled, "note": admin.note}


def _view(admin: StoredAdmin) -> AdminView:
    return AdminView(
        name=admin.name,
        role=admin.role,
        enabled=admin.enabled,
        ending=admin.ending,
        created=_moment(admin.created),
        used=None if admin.used is None else _moment(admin.used),
        note=admin.note,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
