"""Operations on the keys of the administration."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.config.access_rules import Name
from dragoman.keys.admins import Role
from dragoman.operations.admin_service import AdminView, MadeAdmin
from dragoman.operations.context import StoreContext
from dragoman.operations.inputs import given
from dragoman.operations.operation import (
    Command,
    Http,
    Named,
    Nothing,
    Removed,
    operation,
    operations_in,
)

Note = Annotated[str, Meta(max_length=500)]

RoleField = Annotated[Role | UnsetType, Meta(description="What it may do.")]
NoteField = Annotated[Note | UnsetType, Meta(description="Whose it is, or what for.")]


class AdminList(Struct, frozen=True):
    """The keys, by name."""

    admins: tuple[AdminView, ...]


class AddAdmin(Struct, frozen=True, kw_only=True):
    """A key to be made."""

    name: Name
    role: Annotated[Role, Meta(description="What it may do.")]
    note: Annotated[Note, Meta(description="Whose it is, or what for.")] = ""
    enabled: bool = True


class ChangeAdmin(Named, frozen=True, kw_only=True):
    """What to change of a key."""

    role: RoleField = UNSET
    note: NoteField = UNSET
    enabled: bool | UnsetType = UNSET


@operation(
    "admins.add",
    "admin",
    Http("POST", "admins", status=201),
    audit=("add admin",),
    command=Command(
        "admin add", ("name",), {"role": "--role", "note": "--note"}, {"role": "viewer"}
    ),
)
def _add(context: StoreContext, asked: AddAdmin) -> MadeAdmin:
    """Make a key and print it. It is shown this once, and can be replaced by `rotate`."""
    return context.admins.add(asked.name, asked.role, asked.note, enabled=asked.enabled)


@operation(
    "admins.change",
    "admin",
    Http("PATCH", "admins/{name}"),
    audit=("change admin",),
    command=Command("admin set", ("name",), {"role": "--role", "note": "--note"}),
)
def _change(context: StoreContext, asked: ChangeAdmin) -> AdminView:
    """Change the role or the note of the key NAME."""
    return context.admins.change(asked.name, given(asked), context.check)


@operation("admins.list", "viewer", Http("GET", "admins"), command=Command("admin list"))
def _list(context: StoreContext, _: Nothing) -> AdminList:
    """List the keys, without that of the configuration file."""
    return AdminList(context.admins.admins())


@operation(
    "admins.show",
    "viewer",
    Http("GET", "admins/{name}"),
    version=lambda view: (view.role, view.enabled, view.note),
)
def _show(context: StoreContext, asked: Named) -> AdminView:
    """Show one key."""
    return context.admins.admin(asked.name)


@operation(
    "admins.rotate",
    "admin",
    Http("POST", "admins/{name}/rotate", status=201),
    audit=("rotate admin",),
    command=Command("admin rotate", ("name",)),
)
def _rotate(context: StoreContext, asked: Named) -> MadeAdmin:
    """Give a key another secret, and print it. The old one ends at once."""
    return context.admins.rotate(asked.name)


@operation(
    "admins.disable",
    "admin",
    Http("POST", "admins/{name}/disable"),
    audit=("change admin",),
    command=Command("admin disable", ("name",)),
)
def _disable(context: StoreContext, asked: Named) -> AdminView:
    """Refuse a key until it is enabled. Its sessions end."""
    return context.admins.change(asked.name, {"enabled": False})


@operation(
    "admins.enable",
    "admin",
    Http("POST", "admins/{name}/enable"),
    audit=("change admin",),
    command=Command("admin enable", ("name",)),
)
def _enable(context: StoreContext, asked: Named) -> AdminView:
    """Accept a key again."""
    return context.admins.change(asked.name, {"enabled": True})


@operation(
    "admins.remove",
    "admin",
    Http("DELETE", "admins/{name}"),
    audit=("remove admin",),
    command=Command("admin remove", ("name",)),
)
def _remove(context: StoreContext, asked: Named) -> Removed:
    """Remove a key for good. Its sessions end."""
    return Removed(context.admins.remove(asked.name))


OPERATIONS = operations_in(globals())
