"""`dragoman audit`: who changed what."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.accounts import opened
from dragoman.cli.common import CONFIG, JSON, print_json, table

if TYPE_CHECKING:
    from dragoman.audit import Line

_LONGEST = 100


@click.command()
@CONFIG
@click.option("--since", help="24h, 7d, a date, or Unix seconds.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--before", type=click.IntRange(1), help="Only changes of lower numbers.")
@click.option("--who", help="user@host, or the name of a key of the administration.")
@click.option("--kind", help="account, admin, key, team, prices, configuration, request or doctor.")
@click.option("--name", help="Name of what was changed.")
@click.option("--action", help="What was done: add, change, remove and so on.")
@JSON
def audit(
    config: Path, since: str | None, limit: int, before: int | None, as_json: bool, **filters: Any
) -> None:
    """Show who changed what, the last change first.

    Changes of accounts, keys, teams, prices and the configuration, on the command line and over
    /admin, with what was before and is after. Secrets are never shown.
    """
    from dragoman.operations.times import InvalidTime, parse_time

    try:
        begin = 0.0 if since is None else parse_time(since, time.time())
    except InvalidTime as error:
        raise click.ClickException(str(error)) from None
    only = {name: value for name, value in filters.items() if value is not None}
    with opened(config) as administration:
        page = administration.audit(limit, before, begin, only)
    if as_json:
        print_json(page)
        return
    heading = ("NUMBER", "TIME", "WHO", "FROM", "ACTION", "KIND", "NAME", "BEFORE", "AFTER")
    click.echo(table(heading, [_cells(line) for line in page.changes]))


def _cells(line: Line) -> tuple[str, ...]:
    return (
        str(line.id),
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.at)),
        line.who,
        line.address or line.origin,
        line.action,
        line.kind,
        line.name,
        _told(line.before),
        _told(line.after),
    )


def _told(fields: Any) -> str:
    text = ", ".join(f"{name}={value}" for name, value in (fields or {}).items())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
