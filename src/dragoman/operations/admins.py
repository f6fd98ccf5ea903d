"""Operations on the keys of the administration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.config.access_rules import Name
from dragoman.keys.admins import Role
from dragoman.operations.admin_service import AdminView, MadeAdmin
from dragoman.operations.context import StoreContext
from dragoman.operations.inputs import given
from dragoman.operations.operation import Command, Http, Named, Nothing, Operation, Removed

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


def _add(context: StoreContext, asked: AddAdmin) -> MadeAdmin:
    return context.admins.add(asked.name, asked.role, asked.note, enabled=asked.enabled)


def _change(context: StoreContext, asked: ChangeAdmin) -> AdminView:
    return context.admins.change(asked.name, given(asked), context.check)


def _enable(enabled: bool) -> Callable[[StoreContext, Named], AdminView]:
    return lambda context, asked: context.admins.change(asked.name, {"enabled": enabled})


OPERATIONS = (
    Operation(
        name="admins.list",
        summary="List the keys, without that of the configuration file.",
        input=Nothing,
        output=AdminList,
        role="viewer",
        run=lambda context, _: AdminList(context.admins.admins()),
        http=(Http("GET", "admins"),),
        command=Command("admin list"),
    ),
    Operation(
        name="admins.show",
        summary="Show one key.",
        input=Named,
        output=AdminView,
        role="viewer",
        run=lambda context, asked: context.admins.admin(asked.name),
        version=lambda view: (view.role, view.enabled, view.note),
        http=(Http("GET", "admins/{name}"),),
    ),
    Operation(
        name="admins.add",
        summary="Make a key and print it. It is shown this once, and can be replaced by `rotate`.",
        input=AddAdmin,
        output=MadeAdmin,
        role="admin",
        run=_add,
        audit=("add admin",),
        http=(Http("POST", "admins", status=201),),
        command=Command(
            "admin add", ("name",), {"role": "--role", "note": "--note"}, {"role": "viewer"}
        ),
    ),
    Operation(
        name="admins.change",
        summary="Change the role or the note of the key NAME.",
        input=ChangeAdmin,
        output=AdminView,
        role="admin",
        run=_change,
        audit=("change admin",),
        http=(Http("PATCH", "admins/{name}"),),
        command=Command("admin set", ("name",), {"role": "--role", "note": "--note"}),
    ),
    Operation(
        name="admins.rotate",
        summary="Give a key another secret, and print it. The old one ends at once.",
        input=Named,
        output=MadeAdmin,
        role="admin",
        run=lambda context, asked: context.admins.rotate(asked.name),
        audit=("rotate admin",),
        http=(Http("POST", "admins/{name}/rotate", status=201),),
        command=Command("admin rotate", ("name",)),
    ),
    Operation(
        name="admins.disable",
        summary="Refuse a key until it is enabled. Its sessions end.",
        input=Named,
        output=AdminView,
        role="admin",
        run=_enable(False),
        audit=("change admin",),
        http=(Http("POST", "admins/{name}/disable"),),
        command=Command("admin disable", ("name",)),
    ),
    Operation(
        name="admins.enable",
        summary="Accept a key again.",
        input=Named,
        output=AdminView,
        role="admin",
        run=_enable(True),
        audit=("change admin",),
        http=(Http("POST", "admins/{name}/enable"),),
        command=Command("admin enable", ("name",)),
    ),
    Operation(
        name="admins.remove",
        summary="Remove a key for good. Its sessions end.",
        input=Named,
        output=Removed,
        role="admin",
        run=lambda context, asked: Removed(context.admins.remove(asked.name)),
        audit=("remove admin",),
        http=(Http("DELETE", "admins/{name}"),),
        command=Command("admin remove", ("name",)),
    ),
)
