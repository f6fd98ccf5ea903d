"""`dragoman key` and `dragoman team`: who may call.

Everything happens in the store, whether a gateway runs or not; a running one takes it over within a
second. A new key is printed once, to standard output alone.
"""

from __future__ import annotations

import time
from operator import attrgetter
from pathlib import Path

import click

from dragoman.cli.commands import Form, Values, add_commands
from dragoman.cli.common import ago, print_secret, table
from dragoman.operations.account_lists import csv_line
from dragoman.operations.context import StoreContext
from dragoman.operations.key_import import ImportedKeys
from dragoman.operations.key_service import KeyView, MadeKey
from dragoman.operations.keys import OPERATIONS, ImportKeys, KeyList, TeamList
from dragoman.printable import count, printable

_LONGEST_NOTE = 60
"""Characters of a note in a list; `show` has all of it."""


_WITHOUT_LIMITS = click.option(
    "--without-limits", is_flag=True, help="Leave out the limits they had."
)


@click.group()
def key() -> None:
    """Make, list, change, rotate and remove keys of clients."""


@click.group()
def team() -> None:
    """Make teams: rules that hold for all of their keys."""


def _print_keys(found: KeyList, _: object) -> None:
    now = time.time()
    heading = ("NAME", "STATE", "TEAM", "KEY", "EXPIRES", "LAST USED", "ORIGIN", "NOTE")
    click.echo(table(heading, [_line(view, now) for view in found.keys]))


def _line(view: KeyView, now: float) -> tuple[str, ...]:
    rules = view.rules
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


def _print_teams(found: TeamList, _: object) -> None:
    rows = [
        (
            view.name,
            view.state,
            str(view.keys),
            view.origin,
            printable(view.rules.note, _LONGEST_NOTE),
        )
        for view in found.teams
    ]
    click.echo(table(("NAME", "STATE", "KEYS", "ORIGIN", "NOTE"), rows))


def _with_warning(made: MadeKey) -> MadeKey:
    """The key that was made, after a warning if requests with it are refused."""
    if (state := made.key.state) in ("disabled", "expired"):
        click.echo(f"warning: {made.name} is {state}: requests with it are refused", err=True)
    return made


def _print_import(done: ImportedKeys, asked: ImportKeys) -> None:
    for name, missed in done.left_out.items():
        click.echo(f"warning: {name}: not taken over: {', '.join(missed)}", err=True)
    for one in done.made:
        click.echo(csv_line((one.name, one.secret)), nl=False)
    verb = "would be added" if asked.dry_run else "added"
    click.echo(f"{count(done.rows, 'row')}: {count(len(done.added), 'key')} {verb}", err=True)


def _import(values: Values, _path: Path, _context: StoreContext) -> Values:
    values["limits"] = not values.pop("without_limits")
    return values


def _some_rule(values: Values, _path: Path, _context: StoreContext) -> Values:
    if len(values) < 2:
        raise click.UsageError("name at least one rule to change")
    return values


_MADE = Form(lambda made, _: print_secret(_with_warning(made)), _with_warning)
_FORMS = {
    "keys.list": Form(_print_keys, attrgetter("keys")),
    "keys.add": _MADE,
    "keys.rotate": _MADE,
    "keys.change": Form(read=_some_rule),
    "keys.import": Form(_print_import, options=(_WITHOUT_LIMITS,), read=_import),
    "keys.remove": Form(lambda done, _: click.echo(f"{count(done.removed, 'key')} removed")),
    "teams.list": Form(_print_teams, attrgetter("teams")),
    "teams.change": Form(read=_some_rule),
}
add_commands(key, OPERATIONS, _FORMS)
add_commands(team, OPERATIONS, _FORMS)
