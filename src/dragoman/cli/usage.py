"""`dragoman usage`: what was used, by whom, of what."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.accounts import opened
from dragoman.cli.common import CONFIG, print_json, table, time_span

if TYPE_CHECKING:
    from dragoman.operations.views import UsageReport, UsageRow

COSTS = ("cost_usd", "unpriced")
SUMS = (
    "requests",
    "errors",
    "attempts",
    "failed",
    "retries",
    "unmetered",
    "estimated",
    "input",
    "cached",
    "cache_write",
    "output",
    "reasoning",
    "milliseconds",
)


@click.command()
@CONFIG
@click.option(
    "--since",
    "--from",
    "since",
    default="24h",
    show_default=True,
    help="24h, 7d, a date, or Unix seconds.",
)
@click.option("--until", "--to", "until", default="now", show_default=True, help="As --since.")
@click.option(
    "--by",
    multiple=True,
    metavar="NAMES",
    help="What to tell apart: key, team, user, tag, model, account, upstream, route, day, hour. "
    "Commas separate them; repeatable.  [default: account]",
)
@click.option("--cost", is_flag=True, help="Show what it cost, in US dollars; JSON always has it.")
@click.option("--json", "kind", flag_value="json", help="Print JSON.")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
def usage(
    config: Path, since: str, until: str, by: tuple[str, ...], cost: bool, kind: str | None
) -> None:
    """Show requests, tokens, errors, latency and cost.

    Usage is kept by the hour: whole hours are shown that begin in the time asked for. Older usage
    is kept by the day (UTC). A request with several tags counts for each of them. Input
    includes cached tokens and those written to a cache, output includes reasoning. Requests and
    errors count each request once, with the account that was asked last; attempts, failed ones and
    those that another followed (retries) count with every account that was asked. Unpriced are
    answers for whose model no price is known: the cost is without them. Estimated are those whose
    usage was not told in full.
    """
    begin, end = time_span(since, until)
    names = [name.strip() for text in by for name in text.split(",")]
    chosen = tuple(filter(None, names)) or ("account",)
    sums = (*SUMS, *COSTS) if cost else SUMS
    with opened(config) as administration:
        report = administration.usage(begin, end, chosen)
    if kind == "json":
        print_json(report)
    elif kind == "csv":
        from dragoman.operations.rows import csv_line

        click.echo(csv_line((*chosen, *sums)), nl=False)
        for row in report.rows:
            click.echo(csv_line(_cells(row, sums)), nl=False)
    else:
        _show(report, chosen, sums)


_HEADINGS = {"milliseconds": "mean ms", "cost_usd": "cost usd"}


def _show(report: UsageReport, by: tuple[str, ...], sums: tuple[str, ...]) -> None:
    heading = tuple(_HEADINGS.get(name, name).upper() for name in (*by, *sums))
    lines = [_cells(row, sums, shown=True) for row in report.rows]
    total = ("total", *[""] * (len(by) - 1), *_cells(report.total, sums))
    click.echo(table(heading, [*lines, total]))


def _cells(row: UsageRow, sums: tuple[str, ...], *, shown: bool = False) -> tuple[str, ...]:
    places = (_hour(value) if shown and name == "hour" else value for name, value in row.by.items())
    return (*places, *(_number(getattr(row, name)) for name in sums))


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.15g}"


def _hour(value: str) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(int(value)))
