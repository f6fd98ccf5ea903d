"""`dragoman usage`: what was used, by whom, of what."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dragoman.cli.commands import help_of, run
from dragoman.cli.common import CONFIG, print_json, table
from dragoman.operations.account_lists import csv_line
from dragoman.operations.account_views import UsageReport, UsageRow
from dragoman.operations.usage import report_usage

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

_HEADINGS = {"milliseconds": "mean ms", "cost_usd": "cost usd"}


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
    help="What to group by: key, team, user, tag, model, account, upstream, route, day, hour. "
    "Commas separate them; repeatable.  [default: account]",
)
@click.option(
    "--zone", default="UTC", show_default=True, help="Time zone of the days, Europe/Berlin."
)
@click.option("--cost", is_flag=True, help="Show what it cost, in US dollars; JSON always has it.")
@click.option("--json", "kind", flag_value="json", help="Print JSON.")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
def usage(config: Path, by: tuple[str, ...], cost: bool, kind: str | None, **asked: str) -> None:
    # Its help is that of the operation.
    names = [name.strip() for text in by for name in text.split(",")]
    chosen = [name for name in names if name] or ["account"]
    report: UsageReport
    report, _ = run(report_usage, config, {**asked, "by": chosen})
    sums = (*SUMS, *COSTS) if cost else SUMS
    if kind == "json":
        print_json(report)
    elif kind == "csv":
        click.echo(csv_line((*chosen, *sums)), nl=False)
        for row in report.rows:
            click.echo(csv_line(_cells(row, sums)), nl=False)
    else:
        heading = tuple(_HEADINGS.get(name, name).upper() for name in (*chosen, *sums))
        lines = [_cells(row, sums, shown=True) for row in report.rows]
        total = ("total", *[""] * (len(chosen) - 1), *_cells(report.total, sums))
        click.echo(table(heading, [*lines, total]))


usage.help = help_of(report_usage)


def _cells(row: UsageRow, sums: tuple[str, ...], *, shown: bool = False) -> tuple[str, ...]:
    places = (_hour(value) if shown and name == "hour" else value for name, value in row.by.items())
    return (*places, *(_number(getattr(row, name)) for name in sums))


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.15g}"


def _hour(value: str) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(int(value)))
