"""Keys below `/admin`: those of clients with their teams and limits, and those of the
administration itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from io import BytesIO
from math import inf
from operator import attrgetter
from typing import Any, Protocol, TypeVar, cast, get_args

import msgspec

from dragoman.admin.calls import (
    MOST_ON_PAGE,
    AdminRoute,
    Call,
    Handler,
    Refusal,
    Reply,
    bad,
    choice,
    faults_of_rows_told,
    flag,
    number,
    only,
    read_object,
)
from dragoman.config.limits import Limit
from dragoman.limits.bound_limits import kind_of
from dragoman.operations.admins import AdminAdministration
from dragoman.operations.drafts import FieldError, InvalidDraft
from dragoman.operations.foreign_keys import Source, read_keys
from dragoman.operations.keys import (
    GRACE_S,
    KeyAdministration,
    KeyView,
    TeamView,
    found_in,
)
from dragoman.operations.limits import LimitAdministration, Owner, read_limit
from dragoman.operations.times import LONGEST_SPAN_S
from dragoman.serving.limit_counters import LimitView
from dragoman.serving.limits_told import amount_text, moment_text
from dragoman.serving.past_use import PastUse
from dragoman.serving.simulated_admission import SimulatedAdmission, state_of

T = TypeVar("T")

_PAST_S = 7 * 86_400.0
"""Seconds of the past with which a limit is compared that is not stored yet."""


class AskKeys(Protocol):
    """Calls a function with the administration of keys, in the thread of the store."""

    def __call__(self, work: Callable[[KeyAdministration], T], /) -> Awaitable[T]: ...


class AskAdmins(Protocol):
    """The same, with that of the administration's own keys."""

    def __call__(self, work: Callable[[AdminAdministration], T], /) -> Awaitable[T]: ...


class KeyRoutes:
    """What serves the paths below `/admin/keys` and `/admin/teams`."""

    def __init__(self, ask: AskKeys, most_bytes: int, simulated: SimulatedAdmission) -> None:
        """`most_bytes` is how large a file of keys may be."""
        self._ask = ask
        self._most_bytes = most_bytes
        self._simulated = simulated

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("keys", {"GET": self._list, "POST": self._add}),
            AdminRoute("keys/import", {"POST": self._import}),
            AdminRoute(
                "keys/*",
                {"GET": self._show, "PATCH": self._patch, "DELETE": self._remove},
                settings=attrgetter("rules"),
            ),
            AdminRoute("keys/*/rotate", {"POST": self._rotate}),
            AdminRoute("keys/*/enable", {"POST": self._enable}),
            AdminRoute("keys/*/disable", {"POST": self._disable}),
            AdminRoute("keys/*/simulate", {"POST": self._simulate}, reads=frozenset({"POST"})),
            AdminRoute("teams", {"GET": self._list_teams, "POST": self._add_team}),
            AdminRoute(
                "teams/*",
                {"GET": self._show_team, "PATCH": self._patch_team, "DELETE": self._remove_team},
                settings=attrgetter("rules"),
            ),
            *self._limit_routes("keys", "key"),
            *self._limit_routes("teams", "team"),
        ]

    async def _import(self, call: Call) -> Reply:
        query = call.query
        only(query, "from", "team", "limits", "dry_run")
        source = choice(query, "from", get_args(Source))
        if source is None:
            bad(f"It must be one of {', '.join(get_args(Source))}.", "from")
        team, dry_run = query.get("team"), flag(query, "dry_run")
        limits = flag(query, "limits", default=True)
        body = await call.incoming.body(self._most_bytes)
        with faults_of_rows_told():
            rows = await asyncio.to_thread(lambda: read_keys(BytesIO(body), cast(Source, source)))
            done = await self._ask(
                lambda keys: keys.import_keys(rows, team=team, limits=limits, dry_run=dry_run)
            )
        return 200, done

    def _limit_routes(self, parent: str, owner: Owner) -> list[AdminRoute]:
        def on(
            change: Callable[[LimitAdministration, str, int], object], status: int = 200
        ) -> Handler:
            async def handle(call: Call) -> Reply:
                only(call.query)
                name, number = call.names[0], _number(call)
                return status, {
                    "limits": await self._ask(
                        lambda keys: change(LimitAdministration(keys), name, number)
                    )
                }

            return handle

        async def add(call: Call) -> Reply:
            fields = await read_object(call.incoming)
            return await on(lambda limits, name, _: limits.add(owner, name, fields), 201)(call)

        async def show(call: Call) -> Reply:
            only(call.query)
            (name,) = call.names
            numbered = await self._ask(lambda keys: LimitAdministration(keys).limits(owner, name))
            limits = [one.limit for one in numbered]
            return 200, {"limits": await self._states(name, limits, is_team=owner == "team")}

        async def change(call: Call) -> Reply:
            fields = await read_object(call.incoming)
            return await on(
                lambda limits, name, number: limits.change(owner, name, number, fields)
            )(call)

        async def simulate(call: Call) -> Reply:
            only(call.query)
            (name,) = call.names
            limit = read_limit(await read_object(call.incoming))
            await self._ask(lambda keys: LimitAdministration(keys).limits(owner, name))
            since = time.time() - _PAST_S
            past = await self._simulated.limits.history.past_use(
                name, limit, since, is_team=owner == "team"
            )
            return 200, {"since": moment_text(since), **_past_told(limit, past)}

        async def grant(call: Call) -> Reply:
            fields = await read_object(call.incoming)
            return await on(lambda limits, name, number: limits.grant(owner, name, number, fields))(
                call
            )

        return [
            AdminRoute(
                f"{parent}/*/limits",
                {"GET": show, "POST": add},
            ),
            AdminRoute(
                f"{parent}/*/limits/reset",
                {"POST": on(lambda limits, name, _: limits.reset(owner, name))},
            ),
            AdminRoute(
                f"{parent}/*/limits/simulate", {"POST": simulate}, reads=frozenset({"POST"})
            ),
            AdminRoute(
                f"{parent}/*/limits/*",
                {
                    "PATCH": change,
                    "DELETE": on(lambda limits, name, number: limits.remove(owner, name, number)),
                },
            ),
            AdminRoute(
                f"{parent}/*/limits/*/reset",
                {"POST": on(lambda limits, name, number: limits.reset(owner, name, number))},
            ),
            AdminRoute(f"{parent}/*/limits/*/grant", {"POST": grant}),
        ]

    async def _states(
        self, name: str, limits: Sequence[Limit], *, is_team: bool
    ) -> list[dict[str, object]]:
        """Limits of a key or a team with their numbers, and how they stand."""
        return _limits_told(await self._simulated.limits.views_of(name, limits, is_team=is_team))

    async def _told(
        self, call: Call, owners: Sequence[KeyView] | Sequence[TeamView], *, is_team: bool
    ) -> dict[str, object]:
        """Keys or teams, where `?state=true` with how their limits stand; with `?ending=true` only
        those that are using one up."""
        query, kind = call.query, "teams" if is_team else "keys"
        ending = flag(query, "ending")
        found: Sequence[KeyView | TeamView] = owners
        told: dict[str, object] = {kind: found}
        if ending or flag(query, "state"):
            limits = self._simulated.limits
            given = [(owner.name, owner.rules.limits) for owner in found]
            if ending:
                found = [found[place] for place in await limits.counted(given, is_team=is_team)]
                given = [(owner.name, owner.rules.limits) for owner in found]
            stand: list[object] = []
            told[kind] = stand
            async for place, views in limits.views_of_all(given, is_team=is_team):
                if not ending or any(map(_is_ending, views)):
                    owner = msgspec.to_builtins(found[place])
                    told_one = {**owner, "limits": _limits_told(views)}
                    # Piece by piece: all at once would keep the loop from others for long.
                    stand.append(msgspec.Raw(msgspec.json.encode(told_one)))
        return told

    async def _list(self, call: Call) -> Reply:
        after, most, text = _page(call)
        if most is None:
            found = await self._ask(
                lambda keys: [
                    one
                    for one in keys.keys()  # noqa: SIM118
                    if one.name > after and found_in(text, one.name, one.rules.team)
                ]
            )
            return 200, await self._told(call, found, is_team=False)
        size = most
        found, more, total = await self._ask(lambda keys: keys.page(after, size, text))
        told = await self._told(call, found, is_team=False)
        return 200, {**told, "next": more, "total": total}

    async def _add(self, call: Call) -> Reply:
        name, fields = await _named(call)
        return 201, await self._ask(lambda keys: keys.add(name, fields))

    async def _show(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, await self._ask(lambda keys: keys.key(name))

    async def _patch(self, call: Call) -> Reply:
        return await self._change(call, await read_object(call.incoming))

    async def _enable(self, call: Call) -> Reply:
        return await self._change(call, {"enabled": True})

    async def _disable(self, call: Call) -> Reply:
        return await self._change(call, {"enabled": False})

    async def _change(self, call: Call, fields: dict[str, Any]) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, await self._ask(lambda keys: keys.change(name, fields, call.check))

    async def _simulate(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        fields = await read_object(call.incoming)
        await self._ask(lambda keys: keys.key(name))
        return 200, await self._simulated.ask(name, fields)

    async def _rotate(self, call: Call) -> Reply:
        only(call.query)
        fields = await read_object(call.incoming, may_be_empty=True)
        grace = fields.pop("grace_s", GRACE_S)
        if fields:
            raise InvalidDraft((FieldError(next(iter(fields))[:60], "there is no such field"),))
        if type(grace) not in (int, float) or not 0 <= grace < LONGEST_SPAN_S:
            raise InvalidDraft((FieldError("grace_s", "expected a number of seconds"),))
        (name,) = call.names
        return 201, await self._ask(lambda keys: keys.rotate(name, float(grace)))

    async def _remove(self, call: Call) -> Reply:
        only(call.query)
        names = list(call.names)
        return 200, {"removed": await self._ask(lambda keys: keys.remove(names))}

    async def _list_teams(self, call: Call) -> Reply:
        after, most, text = _page(call)
        teams = await self._ask(lambda keys: keys.teams())
        fitting = [one for one in teams if found_in(text, one.name)]
        left = [one for one in fitting if one.name > after]
        told = await self._told(call, left[:most], is_team=True)
        if most is None:
            return 200, told
        more = left[most - 1].name if len(left) > most else None
        return 200, {**told, "next": more, "total": len(fitting)}

    async def _add_team(self, call: Call) -> Reply:
        name, fields = await _named(call)
        return 201, await self._ask(lambda keys: keys.add_team(name, fields))

    async def _show_team(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, await self._ask(lambda keys: keys.team(name))

    async def _patch_team(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        fields = await read_object(call.incoming)
        return 200, await self._ask(lambda keys: keys.change_team(name, fields, call.check))

    async def _remove_team(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, {"removed": await self._ask(lambda keys: keys.remove_team(name))}


class AdminKeyRoutes:
    """What serves the paths below `/admin/admins`: the administration's own keys."""

    def __init__(self, ask: AskAdmins) -> None:
        self._ask = ask

    def routes(self) -> list[AdminRoute]:
        """The routes."""
        return [
            AdminRoute("admins", {"GET": self._list, "POST": self._add}),
            AdminRoute(
                "admins/*",
                {"GET": self._show, "PATCH": self._patch, "DELETE": self._remove},
                settings=lambda view: (view.role, view.enabled, view.note),
            ),
            AdminRoute("admins/*/rotate", {"POST": self._rotate}),
            AdminRoute("admins/*/enable", {"POST": self._enable}),
            AdminRoute("admins/*/disable", {"POST": self._disable}),
        ]

    async def _list(self, call: Call) -> Reply:
        only(call.query)
        return 200, {"admins": await self._ask(lambda admins: admins.admins())}

    async def _show(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, await self._ask(lambda admins: admins.admin(name))

    async def _add(self, call: Call) -> Reply:
        name, fields = await _named(call)
        return 201, await self._ask(lambda admins: admins.add(name, fields))

    async def _patch(self, call: Call) -> Reply:
        return await self._change(call, await read_object(call.incoming))

    async def _enable(self, call: Call) -> Reply:
        return await self._change(call, {"enabled": True})

    async def _disable(self, call: Call) -> Reply:
        return await self._change(call, {"enabled": False})

    async def _change(self, call: Call, fields: dict[str, Any]) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, await self._ask(lambda admins: admins.change(name, fields, call.check))

    async def _rotate(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 201, await self._ask(lambda admins: admins.rotate(name))

    async def _remove(self, call: Call) -> Reply:
        only(call.query)
        (name,) = call.names
        return 200, {"removed": await self._ask(lambda admins: admins.remove(name))}


def _page(call: Call) -> tuple[str, int | None, str]:
    """After which name, how many, None for all, and what is looked for."""
    query = call.query
    only(query, "state", "ending", "q", "limit", "after")
    most = number(query, "limit", 1, MOST_ON_PAGE) if "limit" in query else None
    return query.get("after", ""), most, query.get("q", "").strip()


def _is_ending(view: LimitView) -> bool:
    """Whether a limit will be used up before its window is over, if use goes on as it does."""
    return view.exhausted_at < inf


def _limits_told(views: Sequence[LimitView]) -> list[dict[str, object]]:
    """Limits with their numbers, and how they stand."""
    return [
        {"number": number, "limit": view.bound.limit, "state": state_of(view)}
        for number, view in enumerate(views, 1)
    ]


def _past_told(limit: Limit, past: PastUse | None) -> dict[str, object]:
    if past is None:
        return {"hours": None, "over": None, "first": None, "most": None}
    return {
        "hours": past.hours,
        "over": past.over,
        "first": None if past.first is None else moment_text(past.first),
        "most": amount_text(kind_of(limit), past.most),
    }


def _number(call: Call) -> int:
    """The number of a limit, where the path has one; 0 where it has none."""
    if len(call.names) == 1:
        return 0
    text = call.names[1]
    if not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise Refusal(404, "not_found", "There is nothing at this path.")
    return int(text)


async def _named(call: Call) -> tuple[str, dict[str, Any]]:
    """The name among the fields of a body, and the others."""
    only(call.query)
    fields = await read_object(call.incoming)
    name = fields.pop("name", None)
    if not isinstance(name, str):
        raise InvalidDraft((FieldError("name", "a text is expected"),))
    return name, fields
