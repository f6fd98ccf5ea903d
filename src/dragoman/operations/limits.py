"""Operations on the limits of keys and teams. A limit is known by its number."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from dragoman.config.limits import Limit
from dragoman.operations.context import StoreContext
from dragoman.operations.inputs import Changes, changes_of, given
from dragoman.operations.limit_service import NumberedLimit
from dragoman.operations.operation import Command, Http, Method, operation, operations_in

IsTeam = Annotated[bool, Meta(description="NAME is a team.")]
_HELP = {
    "kind": "requests, tokens, input_tokens, output_tokens, cost or concurrent.",
    "amount": "How much; a cost in US dollars: 12.50.",
    "window": "30s, 1m, 5h, 7d, hour, day, week, month or total.",
    "zone": "Time zone of the calendar.",
    "anchor": "Where its window begins: 06:00, sunday or 15.",
    "mode": "enforce (the default), soft or shadow.",
    "models": "Model that is counted, such as gpt-*; repeatable.",
    "clamp": "Lower output limits to what is left, or do not.",
    "count_cached": "Count cached tokens, too, or do not.",
    "weights": "What a token counts: input, cached, cache_write, output or reasoning=N.",
    "unpriced": "refuse (the default) or allow models without a price.",
    "subscriptions": "count (the default) or ignore what they would cost.",
    "queue_s": "Seconds to wait for a turn.",
}
_SETTINGS = {
    "amount": "--amount",
    "window": "--window",
    "zone": "--zone",
    "anchor": "--anchor",
    "mode": "--mode",
    "models": "--model",
    "clamp": "--clamp/--no-clamp",
    "count_cached": "--count-cached/--no-count-cached",
    "weights": "--weight",
    "unpriced": "--unpriced",
    "subscriptions": "--subscriptions",
    "queue_s": "--queue",
}


class OfOwner(Changes, frozen=True, kw_only=True):
    """Limits of a key, or of a team."""

    team: IsTeam = False


class OfNumber(OfOwner, frozen=True, kw_only=True):
    """One limit."""

    number: int


AddLimit: Any = changes_of(Limit, "AddLimit", _HELP, OfOwner, required=("kind", "amount"))
ChangeLimit: Any = changes_of(Limit, "ChangeLimit", _HELP, OfNumber)


class ResetLimits(OfOwner, frozen=True, kw_only=True):
    """Which limits to reset: one, or all that have a window."""

    number: int | None = None


class GrantLimit(OfNumber, frozen=True, kw_only=True):
    """How much more a limit allows for a time: until so many windows are over, or until a time."""

    amount: Annotated[
        int | str | None, Meta(description="How much more; none ends what was granted.")
    ]
    windows: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Until so many windows are over; by default 1."),
    ] = None
    until: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Until then: 2h, 2027-01-31."),
    ] = None


class Limits(Struct, frozen=True):
    """All limits of the key or team, as they are then."""

    limits: tuple[NumberedLimit, ...]


PLACE = ("name", "team", "number")


def of_both(method: Method, path: str, status: int = 200) -> tuple[Http, ...]:
    """The same path below a key and below a team."""
    return (
        Http(method, f"keys/{{name}}/{path}", status, {"team": False}),
        Http(method, f"teams/{{name}}/{path}", status, {"team": True}),
    )


_CHANGES = ("change key", "change team")


@operation(
    "limits.add",
    "admin",
    *of_both("POST", "limits", 201),
    input=AddLimit,
    audit=_CHANGES,
    command=Command(
        "limit add", ("name",), {"team": "--team", "kind": "--kind", **_SETTINGS}, takes_none=True
    ),
)
def _add(context: StoreContext, asked: Any) -> Limits:
    """Add a limit to the key NAME."""
    return Limits(context.limits.add(asked.name, given(asked, PLACE), is_team=asked.team))


@operation(
    "limits.change",
    "admin",
    *of_both("PATCH", "limits/{number}"),
    input=ChangeLimit,
    audit=_CHANGES,
    command=Command(
        "limit set", ("name", "number"), {"team": "--team", **_SETTINGS}, takes_none=True
    ),
)
def _change(context: StoreContext, asked: Any) -> Limits:
    """Change limit NUMBER of the key NAME; `none` takes a setting away.

    What was used stays used, unless the limit counts something else from now on, or in another
    window.
    """
    fields = given(asked, PLACE)
    return Limits(context.limits.change(asked.name, asked.number, fields, is_team=asked.team))


@operation(
    "limits.remove",
    "admin",
    *of_both("DELETE", "limits/{number}"),
    audit=_CHANGES,
    command=Command("limit remove", ("name", "number"), {"team": "--team"}),
)
def _remove(context: StoreContext, asked: OfNumber) -> Limits:
    """Remove a limit of the key NAME, by its number."""
    return Limits(context.limits.remove(asked.name, asked.number, is_team=asked.team))


@operation(
    "limits.reset",
    "admin",
    *of_both("POST", "limits/reset"),
    *of_both("POST", "limits/{number}/reset"),
    audit=_CHANGES,
    command=Command("limit reset", ("name", "number"), {"team": "--team"}),
)
def _reset(context: StoreContext, asked: ResetLimits) -> Limits:
    """Count limits of the key NAME from now on.

    NUMBER is that of the limit; without one, all limits are reset. The key may be one of the
    configuration file, too.
    """
    return Limits(context.limits.reset(asked.name, asked.number, is_team=asked.team))


@operation(
    "limits.grant",
    "admin",
    *of_both("POST", "limits/{number}/grant"),
    audit=_CHANGES,
    command=Command(
        "limit grant",
        ("name", "number"),
        {"team": "--team", "amount": "--amount", "windows": "--windows", "until": "--until"},
        takes_none=True,
    ),
)
def _grant(context: StoreContext, asked: GrantLimit) -> Limits:
    """Allow the key NAME more for a time than limit NUMBER has."""
    return Limits(
        context.limits.grant(
            asked.name,
            asked.number,
            asked.amount,
            asked.windows,
            asked.until,
            is_team=asked.team,
        )
    )


OPERATIONS = operations_in(globals())
