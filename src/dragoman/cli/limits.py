"""`dragoman limit`: how much a key, or all keys of a team, may use.

Everything happens in the store, whether a gateway runs or not; a running one takes it over within a
second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dragoman.cli.common import CONFIG, JSON, failures_told, print_json, read_config, table, tell
from dragoman.cli.keys import Moment, opened

if TYPE_CHECKING:
    from dragoman.accounts.store import Store
    from dragoman.config import Config
    from dragoman.config.limits import Limit
    from dragoman.operations.limits import LimitAdministration, NumberedLimit, Owner
    from dragoman.serving.simulated_admission import LimitState

F = TypeVar("F", bound=Callable[..., Any])

_TEAM = click.option("--team", "of_team", is_flag=True, help="NAME is a team.")


@click.group()
def limit() -> None:
    """Set, list, reset and remove limits of keys and teams."""


@contextmanager
def _opened(path: Path) -> Iterator[LimitAdministration]:
    from dragoman.operations.limits import LimitAdministration, UnknownLimit

    with opened(path) as keys:
        try:
            yield LimitAdministration(keys)
        except UnknownLimit as error:
            raise click.ClickException(str(error)) from None


@contextmanager
def _stored(path: Path) -> Iterator[tuple[Config, Store]]:
    """A configuration and its store."""
    config = read_config(path, serving=False)
    from dragoman.storage.opening import store_for

    store = store_for(config)
    assert store is not None, "there is a key in it"
    with failures_told(), closing(store):
        yield config, store


def _owner(of_team: bool) -> Owner:
    return "team" if of_team else "key"


_SETTINGS = (
    click.option("--amount", help="How much; a cost in US dollars: 12.50."),
    click.option(
        "--share", help="Of what accounts of --upstream have, in place of an amount: 40%."
    ),
    click.option("--upstream", help="Upstream that --share is of."),
    click.option("--window", help="30s, 1m, 5h, 7d, hour, day, week, month or total."),
    click.option("--zone", help="Time zone of the calendar."),
    click.option("--anchor", help="Where its window begins: 06:00, sunday or 15."),
    click.option("--mode", help="enforce (the default), soft or shadow."),
    click.option(
        "--model", "models", multiple=True, help="Model that is counted, such as gpt-*; repeatable."
    ),
    click.option(
        "--clamp/--no-clamp", default=None, help="Lower output limits to what is left, or do not."
    ),
    click.option(
        "--count-cached/--no-count-cached",
        default=None,
        help="Count cached tokens, too, or do not.",
    ),
    click.option(
        "--weight",
        "weights",
        multiple=True,
        metavar="PART=N",
        help="What a token counts: input, cached, cache_write, output or reasoning=N.",
    ),
    click.option("--unpriced", help="refuse (the default) or allow models without a price."),
    click.option("--subscriptions", help="count (the default) or ignore what they would cost."),
    click.option("--queue", "queue_s", help="Seconds to wait for a turn."),
)


def _settings(command: F) -> F:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


def _fields(options: dict[str, Any], kind: str | None) -> dict[str, Any]:
    """The settings that are given for a limit of a kind; None for one that is taken away."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    fields = {
        name: None if value in ("none", ("none",)) else value for name, value in given.items()
    }
    amount, queue_s = fields.get("amount") or "", fields.get("queue_s") or ""
    if kind != "cost" and amount.lstrip("-").isdecimal():
        fields["amount"] = int(amount)
    with suppress(ValueError):
        if queue_s:
            fields["queue_s"] = float(queue_s)
    if weights := fields.get("weights"):
        pairs = (one.partition("=") for one in weights)
        fields["weights"] = {
            part: int(weight) if weight.isdecimal() else weight for part, _, weight in pairs
        }
    return fields


@limit.command()
@CONFIG
@_TEAM
@click.option(
    "--kind",
    required=True,
    help="requests, tokens, input_tokens, output_tokens, cost or concurrent.",
)
@_settings
@JSON
@click.argument("name")
def add(config: Path, of_team: bool, as_json: bool, name: str, kind: str, **options: Any) -> None:
    """Add a limit to the key NAME."""
    fields = {"kind": kind, **_fields(options, kind)}
    given = {field: value for field, value in fields.items() if value is not None}
    with _opened(config) as administration:
        limits = administration.add(_owner(of_team), name, given)
    _print(limits, as_json)


@limit.command("set")
@CONFIG
@_TEAM
@_settings
@JSON
@click.argument("name")
@click.argument("number", type=int)
def set_limit(
    config: Path, of_team: bool, as_json: bool, name: str, number: int, **options: Any
) -> None:
    """Change limit NUMBER of the key NAME; `none` takes a setting away.

    What was used stays used, unless the limit counts something else from now on, or in another
    window.
    """
    with _opened(config) as administration:
        owner = _owner(of_team)
        kinds = {one.number: one.limit.kind for one in administration.limits(owner, name)}
        fields = _fields(options, kinds.get(number))
        if not fields:
            raise click.UsageError("name at least one setting to change")
        limits = administration.change(owner, name, number, fields)
    _print(limits, as_json)


@limit.command("list")
@CONFIG
@_TEAM
@JSON
@click.argument("name")
def list_limits(config: Path, of_team: bool, as_json: bool, name: str) -> None:
    """List the limits of the key NAME, and what is left of them."""
    with _opened(config) as administration:
        limits = administration.limits(_owner(of_team), name)
    from dragoman.cli.limit_states import states

    with _stored(config) as (settings, store):
        stand = states(settings, store, name, limits, is_team=of_team)
    if as_json:
        pairs = zip(limits, stand, strict=True)
        print_json(
            [{"number": one.number, "limit": one.limit, "state": state} for one, state in pairs]
        )
        return
    click.echo(_table(limits, stand))


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
    """Tell whether a request of the key NAME would pass.

    What each limit says of it is told, too. Nothing is sent, and nothing counted. Ends with 1 if it
    would be refused.
    """
    fields = {field: value for field, value in options.items() if value is not None}
    with opened(config) as keys:
        keys.key(name)
    from dragoman.cli.limit_states import simulated
    from dragoman.prices.table import PriceError

    with _stored(config) as (settings, store):
        try:
            answer = simulated(settings, store, name, fields)
        except PriceError as error:
            raise click.ClickException(str(error)) from None
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
                    "" if one.remaining is None else str(one.remaining),
                    "yes" if one.admits else "no",
                    one.free_at or "",
                )
                for one in answer.limits
            ]
            heading = ("LIMIT", "MODE", "ASKS", "REMAINING", "ADMITS", "FREE AT")
            click.echo(table(heading, rows))
    if not answer.admitted:
        raise click.exceptions.Exit(1)


@limit.command("remove")
@CONFIG
@_TEAM
@JSON
@click.argument("name")
@click.argument("number", type=int)
def remove(config: Path, of_team: bool, as_json: bool, name: str, number: int) -> None:
    """Remove a limit of the key NAME, by its number."""
    with _opened(config) as administration:
        tell(administration.remove(_owner(of_team), name, number), as_json)


@limit.command("reset")
@CONFIG
@_TEAM
@JSON
@click.argument("name")
@click.argument("number", type=int, required=False)
def reset(config: Path, of_team: bool, as_json: bool, name: str, number: int | None) -> None:
    """Count limits of the key NAME from now on.

    NUMBER is that of the limit; without one, all begin anew.
    """
    with _opened(config) as administration:
        tell(administration.reset(_owner(of_team), name, number), as_json)


@limit.command("grant")
@CONFIG
@_TEAM
@click.option("--amount", required=True, help="How much more; none ends what was granted.")
@click.option("--windows", type=int, help="Until so many windows are over; 1 if nothing is said.")
@click.option("--until", type=Moment(), help="Until then: 2h, 2027-01-31.")
@JSON
@click.argument("name")
@click.argument("number", type=int)
def grant(
    config: Path,
    of_team: bool,
    amount: str,
    windows: int | None,
    until: datetime | None,
    as_json: bool,
    name: str,
    number: int,
) -> None:
    """Allow the key NAME more for a time than limit NUMBER has."""
    with _opened(config) as administration:
        owner = _owner(of_team)
        kinds = {one.number: one.limit.kind for one in administration.limits(owner, name)}
        fields: dict[str, Any] = {"amount": None if amount == "none" else amount}
        if kinds.get(number) != "cost" and amount.lstrip("-").isdecimal():
            fields["amount"] = int(amount)
        fields |= {"windows": windows, "until": until}
        limits = administration.grant(owner, name, number, fields)
    _print(limits, as_json)


def _print(limits: tuple[NumberedLimit, ...], as_json: bool) -> None:
    if as_json:
        print_json(limits)
        return
    click.echo(_table(limits))


_HEADING = (
    *("NUMBER", "KIND", "AMOUNT", "WINDOW", "ZONE", "MODE", "MODELS"),
    *("SINCE", "GRANTED", "UNTIL"),
)
_STATE = ("USED", "RESERVED", "REMAINING", "RESETS", "EXHAUSTED")


def _table(limits: Sequence[NumberedLimit], states: Sequence[LimitState] = ()) -> str:
    if not states:
        rows = [_line(one) for one in limits]
        return table(_HEADING, rows)
    told = [
        (
            str(one.used),
            str(one.reserved),
            "" if one.remaining is None else str(one.remaining),
            one.resets_at or "",
            one.exhausted_at or "",
        )
        for one in states
    ]
    rows = [_line(one, state) for one, state in zip(limits, states, strict=True)]
    return table([*_HEADING, *_STATE], [a + b for a, b in zip(rows, told, strict=True)])


def _line(numbered: NumberedLimit, state: LimitState | None = None) -> tuple[str, ...]:
    one = numbered.limit
    return (
        str(numbered.number),
        one.kind,
        _amount(one, one.amount) if one.share is None else _share(one, state),
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
    return zone if limit.anchor is None else f"{zone} {limit.anchor}"


def _share(limit: Limit, state: LimitState | None) -> str:
    told = f"{limit.share} of {limit.upstream}"
    if state is None:
        return told
    return f"{told}: unknown" if state.amount is None else f"{told}: ${state.amount}"


def _amount(limit: Limit, amount: int | str | None) -> str:
    return f"${amount}" if limit.kind == "cost" else str(amount)


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"
