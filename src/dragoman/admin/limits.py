"""Operations that ask a running gateway about the limits of keys and teams."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.admin.call import Call
from dragoman.admin.replies import Refusal
from dragoman.operations import keys
from dragoman.operations.inputs import given
from dragoman.operations.key_service import KeyView
from dragoman.operations.keys import KeyList, ListOwners, TeamList
from dragoman.operations.limits import OfOwner, of_both
from dragoman.operations.operation import (
    Command,
    Http,
    Named,
    Nothing,
    Operation,
    operation,
    operations_in,
)
from dragoman.operations.team_service import TeamView
from dragoman.serving.limits.client import LimitView
from dragoman.serving.limits.responses import moment_text
from dragoman.serving.limits.simulation import (
    Answer,
    LimitState,
    Question,
    SharedView,
    shared_view,
    state_of,
)


class LimitNow(Struct, frozen=True):
    """A limit with its number, and its state."""

    number: int
    limit: Any
    state: LimitState


class LimitsNow(Struct, frozen=True):
    """The limits of a key or team."""

    limits: tuple[LimitNow, ...]


class SharedLimits(Struct, frozen=True):
    """Limits that machines share, and since when the database is away, None if it is not."""

    away_since: str | None
    limits: tuple[SharedView, ...]


async def _list_keys(call: Call, asked: ListOwners) -> KeyList:
    plain = _of_kind("keys.list")
    found: KeyList = await call.in_store(lambda context: plain.run(context, asked))
    return replace(found, keys=await _with_limits(call, asked, found.keys, is_team=False))


async def _list_teams(call: Call, asked: ListOwners) -> TeamList:
    plain = _of_kind("teams.list")
    found: TeamList = await call.in_store(lambda context: plain.run(context, asked))
    return replace(found, teams=await _with_limits(call, asked, found.teams, is_team=True))


async def _with_limits(
    call: Call, asked: ListOwners, found: Sequence[KeyView | TeamView], *, is_team: bool
) -> Any:
    """Keys or teams, if that is asked for with the state of their limits."""
    if not (asked.state or asked.ending):
        return found
    limits = call.gateway.simulated.limits
    rules = [(owner.name, owner.rules.limits) for owner in found]
    if asked.ending:
        found = [found[place] for place in await limits.counted(rules, is_team=is_team)]
        rules = [(owner.name, owner.rules.limits) for owner in found]
    shown: list[Raw] = []
    async for place, views in limits.views_of_all(rules, is_team=is_team):
        if not asked.ending or any(view.state.exhausted_at < inf for view in views):
            owner = msgspec.to_builtins(found[place])
            # Encoded one by one: all at once would block the event loop for long.
            shown.append(Raw(msgspec.json.encode({**owner, "limits": _now(views)})))
    return shown


def _now(views: Sequence[LimitView]) -> tuple[LimitNow, ...]:
    return tuple(
        LimitNow(number, view.rule.limit, state_of(view)) for number, view in enumerate(views, 1)
    )


@operation(
    "limits.list", "viewer", *of_both("GET", "limits"), command=Command("limit list", is_own=True)
)
async def _limits(call: Call, asked: OfOwner) -> LimitsNow:
    """List the limits of the key NAME, and what is left of them."""
    numbered = await call.in_store(
        lambda context: context.limits.limits(asked.name, is_team=asked.team)
    )
    limits = [one.limit for one in numbered]
    views = await call.gateway.simulated.limits.views_of(asked.name, limits, is_team=asked.team)
    return LimitsNow(_now(views))


SimulateRequest: Any = msgspec.defstruct(
    "SimulateRequest",
    [(info.name, info.type, info.default) for info in msgspec.structs.fields(Question)],
    bases=(Named,),
    namespace={"__doc__": Question.__doc__},
    frozen=True,
    kw_only=True,
)
"""A request that might be made with a key."""


@operation(
    "keys.simulate",
    "viewer",
    Http("POST", "keys/{name}/simulate"),
    input=SimulateRequest,
    command=Command("limit simulate", is_own=True),
)
async def _simulate(call: Call, asked: Any) -> Answer:
    """Check whether a request of the key NAME would be admitted.

    Nothing is sent, and nothing counted.
    """
    await call.in_store(lambda context: context.keys.key(asked.name))
    return await call.gateway.simulated.ask(asked.name, given(asked))


@operation("limits.shared", "viewer", Http("GET", "limits"))
async def _shared(call: Call, _: Nothing) -> SharedLimits:
    """Show the limits that machines share."""
    away = call.gateway.observed.scrape.limits_away
    if away is None:
        raise Refusal(409, "conflict", "Limits are not shared: [storage] url is not set.")
    shared = await call.gateway.simulated.limits.shared()
    return SharedLimits(
        moment_text(since) if (since := away()) else None, tuple(map(shared_view, shared))
    )


def _of_kind(name: str) -> Operation:
    return next(one for one in keys.OPERATIONS if one.name == name)


WITH_LIMITS = {"keys.list": _list_keys, "teams.list": _list_teams}
"""Operations on the store to which a running gateway adds the state of limits."""


OPERATIONS = operations_in(globals())
