"""Operations on client keys and on teams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from operator import attrgetter
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.config.convert import Resolve
from dragoman.operations.accounts import PageSize
from dragoman.operations.context import StoreContext
from dragoman.operations.errors import BadRow
from dragoman.operations.foreign_keys import ForeignKey, Source, read_keys
from dragoman.operations.inputs import Changes, given
from dragoman.operations.key_fields import KeyChanges, TeamChanges
from dragoman.operations.key_import import ImportedKeys, import_keys
from dragoman.operations.key_service import GRACE_S, KeyView, MadeKey
from dragoman.operations.operation import (
    Command,
    Http,
    Named,
    Operation,
    Removed,
    SeveralNamed,
    Upload,
)
from dragoman.operations.team_service import TeamView
from dragoman.times import LONGEST_SPAN_S

Span = Annotated[float, Meta(ge=0, lt=LONGEST_SPAN_S, extra={"text": "span"})]
"""Seconds, which a command takes as `24h`."""

_RULES = {
    "note": "--note",
    "not_before": "--not-before",
    "expires": "--expires",
    "addresses": "--address",
    "addresses_denied": "--deny",
    "models": "--model",
    "models_denied": "--deny-model",
    "paths": "--path",
    "upstreams": "--upstream",
    "max_output_tokens": "--max-output-tokens",
}
_KEY_RULES = {"team": "--team", "policy": "--policy", "dialect": "--dialect"} | _RULES


class ListOwners(Struct, frozen=True, kw_only=True):
    """Which keys or teams to list: those that have the text `q` in a name, a page of `limit` from
    the one after `after` on. With `state` each has the state of its limits, with `ending` only
    those are listed of which a limit will be used up at the present pace."""

    state: bool = False
    ending: bool = False
    q: str = ""
    limit: PageSize | None = None
    after: str = ""


class KeyList(Struct, frozen=True, kw_only=True):
    """Keys in order of name. Of a page, `next` is the name to go on after, None at the end, and
    `total` how many keys there are on all pages."""

    keys: Sequence[KeyView]
    next: str | UnsetType | None = UNSET
    total: int | UnsetType = UNSET


class TeamList(Struct, frozen=True, kw_only=True):
    """Teams, as `KeyList` has keys."""

    teams: Sequence[TeamView]
    next: str | UnsetType | None = UNSET
    total: int | UnsetType = UNSET


class RotateKey(Named, frozen=True, kw_only=True):
    """Which key gets another secret, and how long the old ones go on."""

    grace_s: Annotated[Span, Meta(description="How long the old one goes on; 0 ends it now.")] = (
        GRACE_S
    )


class ImportKeys(Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """The keys of another gateway, and what to do with them."""

    file: Upload
    source: Annotated[Source, Meta(description="Whose export it is.")]
    team: Annotated[str | None, Meta(description="Team of all of them.")] = None
    limits: Annotated[bool, Meta(description="Take over the limits they had.")] = True
    dry_run: Annotated[bool, Meta(description="Only report what would be done.")] = False


class _ReadKeys(Struct, frozen=True):
    """Keys of another gateway that were read."""

    asked: ImportKeys
    rows: list[ForeignKey | BadRow]


def _list(context: StoreContext, asked: ListOwners) -> KeyList:
    if asked.limit is None:
        return KeyList(keys=context.keys.keys(asked.after, asked.q.strip()))
    keys, following, total = context.keys.page(asked.after, asked.limit, asked.q.strip())
    return KeyList(keys=keys, next=following, total=total)


def _list_teams(context: StoreContext, asked: ListOwners) -> TeamList:
    found = context.keys.teams.teams(asked.q.strip())
    left = [one for one in found if one.name > asked.after]
    if asked.limit is None:
        return TeamList(teams=left)
    shown = left[: asked.limit]
    following = shown[-1].name if len(left) > len(shown) else None
    return TeamList(teams=shown, next=following, total=len(found))


def _read_keys(_: Resolve, asked: ImportKeys) -> _ReadKeys:
    return _ReadKeys(asked, read_keys(BytesIO(asked.file.data), asked.source))


def _import(context: StoreContext, read: _ReadKeys) -> ImportedKeys:
    asked = read.asked
    return import_keys(
        context.keys, read.rows, team=asked.team, limits=asked.limits, dry_run=asked.dry_run
    )


def _add(context: StoreContext, asked: Changes) -> MadeKey:
    return context.keys.add(asked.name, given(asked))


def _add_team(context: StoreContext, asked: Changes) -> TeamView:
    return context.keys.teams.add(asked.name, given(asked))


def _change(context: StoreContext, asked: Changes) -> KeyView:
    return context.keys.change(asked.name, given(asked), context.check)


def _change_team(context: StoreContext, asked: Changes) -> TeamView:
    return context.keys.teams.change(asked.name, given(asked), context.check)


def _enable(enabled: bool) -> Callable[[StoreContext, SeveralNamed], tuple[KeyView, ...]]:
    return lambda context, asked: context.keys.enable(asked.names, enabled=enabled)


def _enable_team(enabled: bool) -> Callable[[StoreContext, Named], TeamView]:
    return lambda context, asked: context.keys.teams.change(asked.name, {"enabled": enabled})


OPERATIONS = (
    Operation(
        name="keys.list",
        summary="List keys, those of the configuration file included.",
        input=ListOwners,
        output=KeyList,
        role="viewer",
        run=_list,
        http=(Http("GET", "keys"),),
        command=Command("key list"),
    ),
    Operation(
        name="keys.show",
        summary="Show all there is of the key NAME, as JSON.",
        details="Of its secrets that is their last four characters.",
        input=Named,
        output=KeyView,
        role="viewer",
        run=lambda context, asked: context.keys.key(asked.name),
        version=attrgetter("rules"),
        http=(Http("GET", "keys/{name}"),),
        command=Command("key show", ("name",), is_json=True),
    ),
    Operation(
        name="keys.add",
        summary="Make a key and print it. It is shown this once, and can be replaced by `rotate`.",
        input=KeyChanges,
        output=MadeKey,
        role="admin",
        run=_add,
        audit=("add key",),
        http=(Http("POST", "keys", status=201),),
        command=Command("key add", ("name",), _KEY_RULES, takes_none=True),
    ),
    Operation(
        name="keys.change",
        summary="Change rules of the key NAME; `none` takes one away.",
        input=KeyChanges,
        output=KeyView,
        role="admin",
        run=_change,
        audit=("change key",),
        http=(Http("PATCH", "keys/{name}"),),
        command=Command("key set", ("name",), _KEY_RULES, takes_none=True),
    ),
    Operation(
        name="keys.rotate",
        summary="Make another secret for a key, and print it.",
        details="What is counted stays the key's.",
        input=RotateKey,
        output=MadeKey,
        role="admin",
        run=lambda context, asked: context.keys.rotate(asked.name, asked.grace_s),
        audit=("rotate key",),
        http=(Http("POST", "keys/{name}/rotate", status=201),),
        command=Command("key rotate", ("name",), {"grace_s": "--grace"}, {"grace_s": "24h"}),
    ),
    Operation(
        name="keys.import",
        summary="Add keys that another gateway exported.",
        details="FILE is - for standard input. CSV or JSON: LiteLLM's table of keys, whose hashes "
        "serve as they are; new-api's table of tokens; OpenRouter's list of keys, which has no "
        "keys in it: new ones are made, and printed this once as CSV. All of them are added, or "
        "none if a row is bad; each bad row is named. What is not taken over is reported.",
        input=ImportKeys,
        output=ImportedKeys,
        role="admin",
        run=_import,
        prepare=_read_keys,
        audit=("import key",),
        http=(
            Http("POST", "keys/import", query=("from", "team", "limits", "dry_run"), file="file"),
        ),
        command=Command(
            "key import",
            ("file",),
            {
                "from": "--from",
                "team": "--team",
                "dry_run": "--dry-run",
            },
        ),
    ),
    Operation(
        name="keys.disable",
        summary="Refuse keys until they are enabled: all of them, or none.",
        input=SeveralNamed,
        output=tuple[KeyView, ...],
        role="admin",
        run=_enable(False),
        audit=("change key",),
        http=(Http("POST", "keys/{name}/disable", only=True),),
        command=Command("key disable", ("names",)),
    ),
    Operation(
        name="keys.enable",
        summary="Accept keys again: all of them, or none.",
        input=SeveralNamed,
        output=tuple[KeyView, ...],
        role="admin",
        run=_enable(True),
        audit=("change key",),
        http=(Http("POST", "keys/{name}/enable", only=True),),
        command=Command("key enable", ("names",)),
    ),
    Operation(
        name="keys.remove",
        summary="Remove keys for good. Their names are given to no others.",
        input=SeveralNamed,
        output=Removed,
        role="admin",
        run=lambda context, asked: Removed(context.keys.remove(asked.names)),
        audit=("remove key",),
        http=(Http("DELETE", "keys/{name}"),),
        command=Command("key remove", ("names",)),
    ),
    Operation(
        name="teams.list",
        summary="List teams.",
        input=ListOwners,
        output=TeamList,
        role="viewer",
        run=_list_teams,
        http=(Http("GET", "teams"),),
        command=Command("team list"),
    ),
    Operation(
        name="teams.show",
        summary="Show all there is of the team NAME, as JSON.",
        input=Named,
        output=TeamView,
        role="viewer",
        run=lambda context, asked: context.keys.teams.team(asked.name),
        version=attrgetter("rules"),
        http=(Http("GET", "teams/{name}"),),
        command=Command("team show", ("name",), is_json=True),
    ),
    Operation(
        name="teams.add",
        summary="Make a team.",
        input=TeamChanges,
        output=TeamView,
        role="admin",
        run=_add_team,
        audit=("add team",),
        http=(Http("POST", "teams", status=201),),
        command=Command("team add", ("name",), _RULES, takes_none=True),
    ),
    Operation(
        name="teams.change",
        summary="Change rules of the team NAME; `none` takes one away.",
        input=TeamChanges,
        output=TeamView,
        role="admin",
        run=_change_team,
        audit=("change team",),
        http=(Http("PATCH", "teams/{name}"),),
        command=Command("team set", ("name",), _RULES, takes_none=True),
    ),
    Operation(
        name="teams.disable",
        summary="Refuse all keys of a team until it is enabled.",
        input=Named,
        output=TeamView,
        role="admin",
        run=_enable_team(False),
        audit=("change team",),
        http=(Http("POST", "teams/{name}/disable"),),
        command=Command("team disable", ("name",)),
    ),
    Operation(
        name="teams.enable",
        summary="Accept a team's keys again.",
        input=Named,
        output=TeamView,
        role="admin",
        run=_enable_team(True),
        audit=("change team",),
        http=(Http("POST", "teams/{name}/enable"),),
        command=Command("team enable", ("name",)),
    ),
    Operation(
        name="teams.remove",
        summary="Remove a team that has no keys.",
        input=Named,
        output=Removed,
        role="admin",
        run=lambda context, asked: Removed(context.keys.teams.remove(asked.name)),
        audit=("remove team",),
        http=(Http("DELETE", "teams/{name}"),),
        command=Command("team remove", ("name",)),
    ),
)
