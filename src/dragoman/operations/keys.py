"""Operations on client keys and on teams."""

from __future__ import annotations

from collections.abc import Sequence
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
    Removed,
    SeveralNamed,
    Upload,
    operation,
    operations_in,
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


@operation("keys.list", "viewer", Http("GET", "keys"), command=Command("key list"))
def _list(context: StoreContext, asked: ListOwners) -> KeyList:
    """List keys, those of the configuration file included."""
    if asked.limit is None:
        return KeyList(keys=context.keys.keys(asked.after, asked.q.strip()))
    keys, following, total = context.keys.page(asked.after, asked.limit, asked.q.strip())
    return KeyList(keys=keys, next=following, total=total)


@operation("teams.list", "viewer", Http("GET", "teams"), command=Command("team list"))
def _list_teams(context: StoreContext, asked: ListOwners) -> TeamList:
    """List teams."""
    found = context.keys.teams.teams(asked.q.strip())
    left = [one for one in found if one.name > asked.after]
    if asked.limit is None:
        return TeamList(teams=left)
    shown = left[: asked.limit]
    following = shown[-1].name if len(left) > len(shown) else None
    return TeamList(teams=shown, next=following, total=len(found))


def _read_keys(_: Resolve, asked: ImportKeys) -> _ReadKeys:
    return _ReadKeys(asked, read_keys(BytesIO(asked.file.data), asked.source))


@operation(
    "keys.import",
    "admin",
    Http("POST", "keys/import", query=("from", "team", "limits", "dry_run"), file="file"),
    input=ImportKeys,
    audit=("import key",),
    prepare=_read_keys,
    command=Command(
        "key import", ("file",), {"from": "--from", "team": "--team", "dry_run": "--dry-run"}
    ),
)
def _import(context: StoreContext, read: _ReadKeys) -> ImportedKeys:
    """Add keys that another gateway exported.

    FILE is - for standard input. CSV or JSON: LiteLLM's table of keys, whose hashes serve as they
    are; new-api's table of tokens; OpenRouter's list of keys, which has no keys in it: new ones are
    made, and printed this once as CSV. All of them are added, or none if a row is bad; each bad row
    is named. What is not taken over is reported.
    """
    asked = read.asked
    return import_keys(
        context.keys, read.rows, team=asked.team, limits=asked.limits, dry_run=asked.dry_run
    )


@operation(
    "keys.add",
    "admin",
    Http("POST", "keys", status=201),
    input=KeyChanges,
    audit=("add key",),
    command=Command("key add", ("name",), _KEY_RULES, takes_none=True),
)
def _add(context: StoreContext, asked: Changes) -> MadeKey:
    """Make a key and print it. It is shown this once, and can be replaced by `rotate`."""
    return context.keys.add(asked.name, given(asked))


@operation(
    "teams.add",
    "admin",
    Http("POST", "teams", status=201),
    input=TeamChanges,
    audit=("add team",),
    command=Command("team add", ("name",), _RULES, takes_none=True),
)
def _add_team(context: StoreContext, asked: Changes) -> TeamView:
    """Make a team."""
    return context.keys.teams.add(asked.name, given(asked))


@operation(
    "keys.change",
    "admin",
    Http("PATCH", "keys/{name}"),
    input=KeyChanges,
    audit=("change key",),
    command=Command("key set", ("name",), _KEY_RULES, takes_none=True),
)
def _change(context: StoreContext, asked: Changes) -> KeyView:
    """Change rules of the key NAME; `none` takes one away."""
    return context.keys.change(asked.name, given(asked), context.check)


@operation(
    "teams.change",
    "admin",
    Http("PATCH", "teams/{name}"),
    input=TeamChanges,
    audit=("change team",),
    command=Command("team set", ("name",), _RULES, takes_none=True),
)
def _change_team(context: StoreContext, asked: Changes) -> TeamView:
    """Change rules of the team NAME; `none` takes one away."""
    return context.keys.teams.change(asked.name, given(asked), context.check)


@operation(
    "keys.show",
    "viewer",
    Http("GET", "keys/{name}"),
    version=attrgetter("rules"),
    command=Command("key show", ("name",), is_json=True),
)
def _show(context: StoreContext, asked: Named) -> KeyView:
    """Show all there is of the key NAME, as JSON.

    Of its secrets that is their last four characters.
    """
    return context.keys.key(asked.name)


@operation(
    "keys.rotate",
    "admin",
    Http("POST", "keys/{name}/rotate", status=201),
    audit=("rotate key",),
    command=Command("key rotate", ("name",), {"grace_s": "--grace"}, {"grace_s": "24h"}),
)
def _rotate(context: StoreContext, asked: RotateKey) -> MadeKey:
    """Make another secret for a key, and print it.

    What is counted stays the key's.
    """
    return context.keys.rotate(asked.name, asked.grace_s)


@operation(
    "keys.disable",
    "admin",
    Http("POST", "keys/{name}/disable", only=True),
    audit=("change key",),
    command=Command("key disable", ("names",)),
)
def _disable(context: StoreContext, asked: SeveralNamed) -> tuple[KeyView, ...]:
    """Refuse keys until they are enabled: all of them, or none."""
    return context.keys.enable(asked.names, enabled=False)


@operation(
    "keys.enable",
    "admin",
    Http("POST", "keys/{name}/enable", only=True),
    audit=("change key",),
    command=Command("key enable", ("names",)),
)
def _enable(context: StoreContext, asked: SeveralNamed) -> tuple[KeyView, ...]:
    """Accept keys again: all of them, or none."""
    return context.keys.enable(asked.names, enabled=True)


@operation(
    "keys.remove",
    "admin",
    Http("DELETE", "keys/{name}"),
    audit=("remove key",),
    command=Command("key remove", ("names",)),
)
def _remove(context: StoreContext, asked: SeveralNamed) -> Removed:
    """Remove keys for good. Their names are given to no others."""
    return Removed(context.keys.remove(asked.names))


@operation(
    "teams.show",
    "viewer",
    Http("GET", "teams/{name}"),
    version=attrgetter("rules"),
    command=Command("team show", ("name",), is_json=True),
)
def _show_team(context: StoreContext, asked: Named) -> TeamView:
    """Show all there is of the team NAME, as JSON."""
    return context.keys.teams.team(asked.name)


@operation(
    "teams.disable",
    "admin",
    Http("POST", "teams/{name}/disable"),
    audit=("change team",),
    command=Command("team disable", ("name",)),
)
def _disable_team(context: StoreContext, asked: Named) -> TeamView:
    """Refuse all keys of a team until it is enabled."""
    return context.keys.teams.change(asked.name, {"enabled": False})


@operation(
    "teams.enable",
    "admin",
    Http("POST", "teams/{name}/enable"),
    audit=("change team",),
    command=Command("team enable", ("name",)),
)
def _enable_team(context: StoreContext, asked: Named) -> TeamView:
    """Accept a team's keys again."""
    return context.keys.teams.change(asked.name, {"enabled": True})


@operation(
    "teams.remove",
    "admin",
    Http("DELETE", "teams/{name}"),
    audit=("remove team",),
    command=Command("team remove", ("name",)),
)
def _remove_team(context: StoreContext, asked: Named) -> Removed:
    """Remove a team that has no keys."""
    return Removed(context.keys.teams.remove(asked.name))


OPERATIONS = operations_in(globals())
