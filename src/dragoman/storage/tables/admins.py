"""Keys of the administration.

Workers read them when a key is presented, so that a change takes effect at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dragoman.keys.admins import StoredAdmin
from dragoman.storage.tables.audit import AuditTable
from dragoman.storage.tables.database import replacing

_FIELDS = "role, digest, ending, created, enabled, note, used"
_COLUMNS = f"name, {_FIELDS}"
_SAVE = replacing("admins", "name", _FIELDS)


class AdminTable(AuditTable):
    """Implements `AdminStore` on a database that is opened elsewhere."""

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """See `AdminStore.deciding`."""
        with self._database.deciding():
            yield

    def admins(self) -> Sequence[StoredAdmin]:
        """See `AdminStore.admins`."""
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM admins ORDER BY name")
            return [
                StoredAdmin(
                    name=name,
                    role=role,
                    digest=bytes.fromhex(digest),
                    ending=ending,
                    created=created,
                    enabled=bool(enabled),
                    note=note,
                    used=used,
                )
                for name, role, digest, ending, created, enabled, note, used in rows
            ]

    def save_admin(self, admin: StoredAdmin) -> None:
        """See `AdminStore.save_admin`."""
        row = (
            admin.name,
            admin.role,
            admin.digest.hex(),
            admin.ending,
            admin.created,
            admin.enabled,
            admin.note,
            admin.used,
        )
        with self._database.writing_unversioned() as connection:
            connection.execute(_SAVE, row)

    def remove_admin(self, name: str) -> None:
        """See `AdminStore.remove_admin`."""
        with self._database.writing_unversioned() as connection:
            connection.execute("DELETE FROM admins WHERE name = ?", (name,))
