"""Stored keys of the administration, and the interface of their store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Literal, Protocol

from msgspec import Struct

from dragoman.audit import AuditLog

Role = Literal["viewer", "admin"]
"""What the holder of a key may do: `viewer` reads all but bodies of requests and the addresses of
the audit, and changes nothing; `admin` does everything."""

PREFIX: Final = "adm-drg-"
"""What the text of such a key begins with."""

FILE_NAME: Final = "admin"
"""The name under which the key of the configuration file acts."""


class StoredAdmin(Struct, frozen=True, kw_only=True):
    """A key of the administration: the SHA-256 of its secret, the last four signs of that, when it
    was made and last used, in Unix seconds."""

    name: str
    role: Role
    digest: bytes
    ending: str
    created: float
    enabled: bool = True
    note: str = ""
    used: float | None = None


class AdminStore(AuditLog, Protocol):
    """The store of the administration's keys. Every method raises `StoreError` when the store
    cannot be used, and has then changed nothing."""

    def deciding(self) -> AbstractContextManager[None]:
        """As `KeyStore.deciding`."""

    def admins(self) -> Sequence[StoredAdmin]:
        """All of them, by name."""

    def save_admin(self, admin: StoredAdmin) -> None:
        """Add one, or replace the one of its name."""

    def remove_admin(self, name: str) -> None:
        """Remove the one of this name, if there is one."""
