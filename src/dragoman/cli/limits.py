"""`dragoman limit`: how much a key, or all keys of a team, may use.

Everything happens in the store, whether a gateway runs or not; a running one takes it over within a
second.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.commands import Form, Values, add_commands
from dragoman.cli.common import CONFIG, JSON, opened, print_json, table
from dragoman.config.removed import REMOVED
from dragoman.config.windows import knows_zone
from dragoman.operations.limit_service import NumberedLimit
from dragoman.operations.limits import OPERATIONS, Limits

if TYPE_CHECKING:
    from dragoman.config.limits import Limit
    from dragoman.operations.context import StoreContext
    from dragoman.serving.limits.simulation import LimitState


@click.group()
def limit() -> None:
    """Set, list, reset and remove limits of keys and teams."""


@limit.command("list")
@CONFIG
@click.option("--team", "is_team", is_flag=True, help="NAME is a team.")
@JSON
@click.argument("name")
def list_limits(config: Path, is_team: bool, as_json: bool, name: str) -> None:
    """List the limits of the key NAME, and what is left of them."""
    from dragoman.cli.limit_states import states

    with opened(config) as context:
        limits = context.limits.limits(name, is_team=is_team)
        now = states(context.config, context.store, name, limits, is_team=is_team)
    if as_json:
        pairs = zip(limits, now, strict=True)
        print_json(
            [{"number": one.number, "limit": one.limit, "state": state} for one, state in pairs]
        )
        return
    click.echo(_table(limits, now))


@limit.command("simulate")
@CONFIG
@click.option("--model", required=True, help="Model that would be asked for.")
@click.option("--input-tokens", type=int, default=0, help="Tokens of the prompt.")
@click.option("--output-tokens", type=int, help="Output limit; as for a request without one.")
@click.option("--tier", help="Service tier: batch, flex, priority, fast or ultrafast.")
@click.option("--address", help="Address that it would come from.")
@JSON
@click.argument("name")
def simulate(config: Path, as_json: bool, name: str, **options: Any) -> None:
    """Check whether a request of the key NAME would be admitted.

    What each limit says of it is shown, too. Nothing is sent, and nothing counted. Ends with 1 if
    it would be refused.
    """
    from dragoman.cli.limit_states import simulated

    fields = {field: value for field, value in options.items() if value is not None}
    with opened(config) as context:
        context.keys.key(name)
        answer = simulated(context.config, context.store, name, fields)
    if as_json:
        print_json(answer)
    else:
        click.echo(answer.reason or "It would be admitted.")
        if answer.clamped_to is not None:
            click.echo(f"Its output limit would be {answer.clamped_to} tokens.")
        if answer.limits:
            rows = [
                (
                    one.limit,
                    one.mode,
                    str(one.asks),
                    str(one.remaining),
                    "yes" if one.admits else "no",
                    one.free_at or "",
                )
                for one in answer.limits
            ]
            heading = ("LIMIT", "MODE", "ASKS", "REMAINING", "ADMITS", "FREE AT")
            click.echo(table(heading, rows))
    if not answer.admitted:
        raise click.exceptions.Exit(1)


_HEADING = (
    *("NUMBER", "KIND", "AMOUNT", "WINDOW", "ZONE", "MODE", "MODELS"),
    *("SINCE", "GRANTED", "UNTIL"),
)
_STATE = ("USED", "RESERVED", "REMAINING", "RESETS", "EXHAUSTED")


def _table(limits: Sequence[NumberedLimit], states: Sequence[LimitState] = ()) -> str:
    if not states:
        return table(_HEADING, [_line(one) for one in limits])
    rows = [_line(one) for one in limits]
    cells = [
        (
            str(one.used),
            str(one.reserved),
            str(one.remaining),
            one.resets_at or "",
            one.exhausted_at or "",
        )
        for one in states
    ]
    return table([*_HEADING, *_STATE], [a + b for a, b in zip(rows, cells, strict=True)])


def _line(numbered: NumberedLimit) -> tuple[str, ...]:
    one = numbered.limit
    return (
        str(numbered.number),
        one.kind,
        _amount(one, one.amount),
        one.window or "",
        _calendar(one),
        one.mode,
        " ".join(one.models or ()),
        _moment(one.since),
        "" if one.granted is None else _amount(one, one.granted),
        _moment(one.granted_until),
    )


def _calendar(limit: Limit) -> str:
    """The zone of a limit's calendar, and where its window begins if that is set."""
    zone = limit.zone if limit.window in ("hour", "day", "week", "month") else ""
    if not knows_zone(limit.zone):
        zone = f"{limit.zone} (not known here: requests are refused)"
    return zone if limit.anchor is None else f"{zone} {limit.anchor}"


def _amount(limit: Limit, amount: float | str) -> str:
    return f"${amount}" if limit.kind == "cost" else str(amount)


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _settings(values: Values, _: Path, context: StoreContext) -> Values:
    """The settings of a limit, out of texts."""
    with suppress(ValueError, TypeError):
        if "queue_s" in values:
            values["queue_s"] = float(values["queue_s"])
    if values.get("weights"):
        pairs = (one.partition("=") for one in values["weights"])
        values["weights"] = {
            part: int(weight) if weight.isdecimal() else weight for part, _, weight in pairs
        }
    amount = values.get("amount") or ""
    if amount.lstrip("-").isdecimal() and _kind(values, context) != "cost":
        values["amount"] = int(amount)
    return values


def _kind(values: Values, context: StoreContext) -> str:
    """The kind of the limit that is added or changed; empty if there is none."""
    if "kind" in values:
        return str(values["kind"])
    limits = context.limits.limits(values["name"], is_team=values["team"])
    return next((one.limit.kind for one in limits if one.number == values["number"]), "")


def _changed(values: Values, config: Path, context: StoreContext) -> Values:
    if not values.keys() - {"name", "number", "team"}:
        raise click.UsageError("name at least one setting to change")
    return _settings(values, config, context)


def _print(done: Limits, _: object) -> None:
    click.echo(_table(done.limits))


def _refuse_share(context: click.Context, option: click.Parameter, value: object) -> None:
    if value is not None:
        raise click.UsageError(f"--share was removed: {REMOVED['clients.limits.share']}.")


_LIMITS = attrgetter("limits")

add_commands(
    limit,
    OPERATIONS,
    {
        "limits.add": Form(_print, _LIMITS, read=_settings),
        "limits.change": Form(_print, _LIMITS, read=_changed),
        "limits.grant": Form(_print, _LIMITS, read=_settings),
        "limits.remove": Form(shape=_LIMITS),
        "limits.reset": Form(shape=_LIMITS),
    },
)
for name in ("add", "set"):
    limit.commands[name].params.append(
        click.Option(["--share"], hidden=True, expose_value=False, callback=_refuse_share)
    )
