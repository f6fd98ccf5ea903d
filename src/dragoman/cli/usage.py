"""`dragoman usage`: what was used, by whom, of what."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.accounts import opened
from dragoman.cli.common import CONFIG, print_json, table

if TYPE_CHECKING:
    from dragoman.administration.views import UsageReport, UsageRow

DIMENSIONS = ("account", "client", "model", "route", "hour")
SUMS = (
    "requests",
    "errors",
    "attempts",
    "failed",
    "retries",
    "unmetered",
    "input",
    "cached",
    "cache_write",
    "output",
    "reasoning",
    "milliseconds",
)


@click.command()
@CONFIG
@click.option("--since", default="24h", show_default=True, help="24h, 7d, a date, or Unix seconds.")
@click.option("--until", default="now", show_default=True, help="As --since.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(DIMENSIONS),
    help="What to tell apart; repeatable.  [default: account]",
)
@click.option("--json", "kind", flag_value="json", help="Print JSON.")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
def usage(config: Path, since: str, until: str, by: tuple[str, ...], kind: str | None) -> None:
    """Show requests, tokens, errors and latency.

    Usage is kept by the hour: whole hours are shown that begin in the time asked for. Input
    includes cached tokens and those written to a cache, output includes reasoning. Requests and
    errors count each request once, with the account that was asked last; attempts, failed ones and
    those that another followed (retries) count with every account that was asked.
    """
    from dragoman.administration.times import InvalidTime, parse_time

    now = time.time()
    try:
        begin, end = parse_time(since, now), now if until == "now" else parse_time(until, now)
    except InvalidTime as error:
        raise click.ClickException(str(error)) from None
    chosen = by or ("account",)
    with opened(config) as administration:
        report = administration.usage(begin, end, chosen)
    if kind == "json":
        print_json(report)
    elif kind == "csv":
        from dragoman.administration.rows import csv_line

        click.echo(csv_line((*chosen, *SUMS)), nl=False)
        for row in report.rows:
            click.echo(csv_line(_cells(row)), nl=False)
    else:
        _show(report, chosen)


def _show(report: UsageReport, by: tuple[str, ...]) -> None:
    heading = tuple(name.upper() for name in (*by, *SUMS[:-1], "mean ms"))
    lines = [_cells(row, shown=True) for row in report.rows]
    total = ("total", *[""] * (len(by) - 1), *_cells(report.total))
    click.echo(table(heading, [*lines, total]))


def _cells(row: UsageRow, *, shown: bool = False) -> tuple[str, ...]:
    places = (_hour(value) if shown and name == "hour" else value for name, value in row.by.items())
    return (*places, *(f"{getattr(row, name):.15g}" for name in SUMS))


def _hour(value: str) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(int(value)))
