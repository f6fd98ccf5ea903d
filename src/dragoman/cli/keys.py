"""`dragoman key` and `dragoman team`: who may call.

Everything happens in the store, whether a gateway runs or not; a running one takes it over within a
second. A new key is printed once, to standard output alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

import click

from dragoman.cli.common import (
    ALWAYS_JSON,
    CONFIG,
    JSON,
    ago,
    faults_of_file_told,
    file_name,
    key_store,
    print_json,
    read_config,
    table,
    tell,
)
from dragoman.operations.times import LONGEST_SPAN_S
from dragoman.printable import count, printable

if TYPE_CHECKING:
    from dragoman.operations.keys import KeyAdministration, KeyView, MadeKey, TeamView

F = TypeVar("F", bound=Callable[..., Any])

_DAY_S = 24 * 3600.0
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": _DAY_S, "w": 7 * _DAY_S}
_LONGEST_TEXT = 16
"""Characters of a span: more digits are more than any."""
_LIST_FIELDS = ("addresses", "addresses_denied", "models", "models_denied", "paths", "upstreams")
_NONE = "none"
_LONGEST_NOTE = 60
"""Characters of a note in a list; `show` has all of it."""


@click.group()
def key() -> None:
    """Make, list, change, rotate and remove keys of clients."""


@click.group()
def team() -> None:
    """Make teams: rules that hold for all of their keys."""


class Moment(click.ParamType[datetime | str]):
    """A point in time: a date, or how long from now; `none` for none."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | str:
        """The time, in UTC."""
        text = str(value).strip()
        if text == _NONE:
            return text
        span = _span(text)
        if span is not None:
            return datetime.fromtimestamp(time.time() + span, UTC)
        try:
            return datetime.fromisoformat(text).astimezone()
        except (ValueError, OverflowError):
            self.fail("expected a time such as 30d, 2027-01-31 or 2027-01-31T12:00Z", param, ctx)


class Tokens(click.ParamType[int | str]):
    """A number of tokens; `none` for none."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The number."""
        text = str(value).strip()
        if text == _NONE:
            return text
        if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_TEXT):
            self.fail("expected a number, or none", param, ctx)
        return int(text)


class Span(click.ParamType[float]):
    """A span of time, in seconds."""

    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds."""
        text = str(value).strip()
        span = 0.0 if text == "0" else _span(text)
        if span is None:
            self.fail("expected a span such as 24h, 7d or 0, of at most 300 years", param, ctx)
        return span


def _span(text: str) -> float | None:
    """The seconds of a span such as `24h`; None if it is none, or too long."""
    if not text[:-1].isdecimal() or text[-1:] not in _UNITS or len(text) > _LONGEST_TEXT:
        return None
    seconds = int(text[:-1]) * _UNITS[text[-1]]
    return seconds if seconds < LONGEST_SPAN_S else None


def _rules(function: F) -> F:
    """The options for what a key and a team have in common."""
    for option in (
        click.option("--max-output-tokens", type=Tokens(), help="Longest answers; none for any."),
        click.option("--upstream", "upstreams", multiple=True, help="Upstream that may be used."),
        click.option(
            "--path",
            "paths",
            multiple=True,
            help="Path it may call, such as /v1/chat/*; repeatable.",
        ),
        click.option(
            "--deny-model",
            "models_denied",
            multiple=True,
            help="Model it may not ask for; repeatable.",
        ),
        click.option(
            "--model",
            "models",
            multiple=True,
            help="Model it may ask for, such as gpt-*; repeatable.",
        ),
        click.option(
            "--deny",
            "addresses_denied",
            multiple=True,
            help="Network it may not call from; repeatable.",
        ),
        click.option(
            "--address",
            "addresses",
            multiple=True,
            help="Network it may call from: 10.0.0.0/8; repeatable.",
        ),
        click.option("--expires", type=Moment(), help="Refused from then on: 30d, 2027-01-31."),
        click.option("--not-before", type=Moment(), help="Refused until then."),
        click.option("--note", help="What it is for."),
    ):
        function = option(function)
    return function


def _key_rules(function: F) -> F:
    for option in (
        click.option("--dialect", help="Contract it was written against."),
        click.option("--policy", help="Which losses refuse its requests."),
        click.option("--team", help="Team whose rules hold, too."),
    ):
        function = option(function)
    return _rules(function)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The fields that options name: `none` stands for the default."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if value in (None, ()):
            continue
        cleared = value in (_NONE, (_NONE,))
        fields[name] = None if cleared else list(value) if name in _LIST_FIELDS else value
    return fields


def _to_change(options: dict[str, Any]) -> dict[str, Any]:
    """The fields that options name, of which there must be one."""
    fields = _given(options)
    if not fields:
        raise click.UsageError("name at least one rule to change")
    return fields


@contextmanager
def opened(path: Path) -> Iterator[KeyAdministration]:
    """The administration of keys of a configuration; what is wrong is told as commands do."""
    config = read_config(path, serving=False)
    from dragoman.operations.keys import KeyAdministration

    with key_store(config) as store:
        yield KeyAdministration(config, store.client_keys)


@key.command()
@CONFIG
@_key_rules
@JSON
@click.argument("name")
def add(config: Path, as_json: bool, name: str, **options: Any) -> None:
    """Make a key and print it. It is shown this once, and can be replaced by `rotate`."""
    with opened(config) as administration:
        made = administration.add(name, _given(options))
    _print_made(made, as_json)


@key.command()
@CONFIG
@click.option(
    "--grace",
    type=Span(),
    default="24h",
    show_default=True,
    help="How long the old one goes on; 0 ends it now.",
)
@JSON
@click.argument("name")
def rotate(config: Path, grace: float, as_json: bool, name: str) -> None:
    """Make another secret for a key, and print it.

    What is counted stays the key's.
    """
    with opened(config) as administration:
        made = administration.rotate(name, grace)
    _print_made(made, as_json)


def _print_made(made: MadeKey, as_json: bool) -> None:
    if (state := made.key.state) in ("disabled", "expired"):
        click.echo(f"warning: {made.name} is {state}: requests with it are refused", err=True)
    if as_json:
        print_json(made)
        return
    click.echo(made.secret)
    click.echo(f"{made.name}: it is shown this once", err=True)


@key.command("import")
@CONFIG
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Choice(["litellm", "new-api", "openrouter"]),
    help="Whose export it is.",
)
@click.option("--team", help="Team of all of them.")
@click.option("--without-limits", is_flag=True, help="Leave out the limits they had.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@JSON
@click.argument("file", type=click.File("rb"))
def import_(
    config: Path,
    source: Literal["litellm", "new-api", "openrouter"],
    team: str | None,
    without_limits: bool,
    dry_run: bool,
    as_json: bool,
    file: BinaryIO,
) -> None:
    """Add keys that another gateway exported.

    FILE is - for standard input. CSV or JSON: LiteLLM's table of keys, whose hashes serve as they
    are; new-api's table of tokens; OpenRouter's list of keys, which has no keys in it: new ones are
    made, and printed this once as CSV. All of them are added, or none if a row is bad; each bad row
    is named. What is not taken over is told.
    """
    from dragoman.operations.foreign_keys import read_keys
    from dragoman.operations.rows import csv_line

    with opened(config) as administration, faults_of_file_told(file_name(file), as_json):
        done = administration.import_keys(
            read_keys(file, source), team=team, limits=not without_limits, dry_run=dry_run
        )
    if as_json:
        print_json(done)
        return
    for key_name, missed in done.left_out.items():
        click.echo(f"warning: {key_name}: not taken over: {', '.join(missed)}", err=True)
    for one in done.made:
        click.echo(csv_line((one.name, one.secret)), nl=False)
    verb = "would be added" if dry_run else "added"
    click.echo(f"{count(done.rows, 'row')}: {count(len(done.added), 'key')} {verb}", err=True)


@key.command("list")
@CONFIG
@JSON
def list_keys(config: Path, as_json: bool) -> None:
    """List keys, those of the configuration file included."""
    with opened(config) as administration:
        views = administration.keys()
    if as_json:
        print_json(views)
        return
    heading = ("NAME", "STATE", "TEAM", "KEY", "EXPIRES", "LAST USED", "ORIGIN", "NOTE")
    click.echo(table(heading, [_line(view) for view in views]))


def _line(view: KeyView) -> tuple[str, ...]:
    rules, now = view.rules, time.time()
    return (
        view.name,
        view.state,
        rules.team or "",
        " ".join(f"...{one.ending}" for one in view.secrets),
        f"{rules.expires:%Y-%m-%d}" if rules.expires else "",
        "" if view.used is None else ago(view.used.timestamp(), now),
        view.origin,
        printable(rules.note, _LONGEST_NOTE),
    )


@key.command("show")
@CONFIG
@ALWAYS_JSON
@click.argument("name")
def show_key(config: Path, name: str) -> None:
    """Show all there is of a key, as JSON.

    Of its secrets that is their last four signs.
    """
    with opened(config) as administration:
        print_json(administration.key(name))


@key.command("set")
@CONFIG
@_key_rules
@JSON
@click.argument("name")
def set_key(config: Path, as_json: bool, name: str, **options: Any) -> None:
    """Change rules of the key NAME; `none` takes one away."""
    with opened(config) as administration:
        tell(administration.change(name, _to_change(options)), as_json)


@key.command("disable")
@CONFIG
@JSON
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def disable_keys(config: Path, as_json: bool, names: tuple[str, ...]) -> None:
    """Refuse keys until they are enabled: all of them, or none."""
    with opened(config) as administration:
        tell(administration.enable(names, enabled=False), as_json)


@key.command("enable")
@CONFIG
@JSON
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def enable_keys(config: Path, as_json: bool, names: tuple[str, ...]) -> None:
    """Accept keys again: all of them, or none."""
    with opened(config) as administration:
        tell(administration.enable(names), as_json)


@key.command("remove")
@CONFIG
@JSON
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove_keys(config: Path, as_json: bool, names: tuple[str, ...]) -> None:
    """Remove keys for good. Their names are given to no others."""
    with opened(config) as administration:
        done = administration.remove(names)
    tell({"removed": done}, as_json, f"{count(done, 'key')} removed")


@team.command("add")
@CONFIG
@_rules
@JSON
@click.argument("name")
def add_team(config: Path, as_json: bool, name: str, **options: Any) -> None:
    """Make a team."""
    with opened(config) as administration:
        tell(administration.add_team(name, _given(options)), as_json)


@team.command("list")
@CONFIG
@JSON
def list_teams(config: Path, as_json: bool) -> None:
    """List teams."""
    with opened(config) as administration:
        views = administration.teams()
    if as_json:
        print_json(views)
        return
    heading = ("NAME", "STATE", "KEYS", "ORIGIN", "NOTE")
    click.echo(table(heading, [_team_line(view) for view in views]))


def _team_line(view: TeamView) -> tuple[str, ...]:
    note = printable(view.rules.note, _LONGEST_NOTE)
    return (view.name, view.state, str(view.keys), view.origin, note)


@team.command("show")
@CONFIG
@ALWAYS_JSON
@click.argument("name")
def show_team(config: Path, name: str) -> None:
    """Show all there is of the team NAME, as JSON."""
    with opened(config) as administration:
        print_json(administration.team(name))


@team.command("set")
@CONFIG
@_rules
@JSON
@click.argument("name")
def set_team(config: Path, as_json: bool, name: str, **options: Any) -> None:
    """Change rules of the team NAME; `none` takes one away."""
    with opened(config) as administration:
        tell(administration.change_team(name, _to_change(options)), as_json)


@team.command("disable")
@CONFIG
@JSON
@click.argument("name")
def disable_team(config: Path, as_json: bool, name: str) -> None:
    """Refuse all keys of a team until it is enabled."""
    with opened(config) as administration:
        tell(administration.change_team(name, {"enabled": False}), as_json)


@team.command("enable")
@CONFIG
@JSON
@click.argument("name")
def enable_team(config: Path, as_json: bool, name: str) -> None:
    """Accept a team's keys again."""
    with opened(config) as administration:
        tell(administration.change_team(name, {"enabled": True}), as_json)


@team.command("remove")
@CONFIG
@JSON
@click.argument("name")
def remove_team(config: Path, as_json: bool, name: str) -> None:
    """Remove a team that has no keys."""
    with opened(config) as administration:
        tell({"removed": administration.remove_team(name)}, as_json)
