"""Tables of what was measured, for a terminal and as Markdown."""

import platform
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import isnan, nan
from pathlib import Path

from bench.budgets import CAUSES, Budget, budgets
from bench.figures import floor_of, over, quantile, ratio, same_cell
from bench.measure import Cell
from bench.plan import OWN, Results


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, of which the first is the header, and sentences to be read with them.

    One that is not ``for_terminal`` holds sentences in its cells.
    """

    title: str
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    for_terminal: bool = True


def tables(results: Results) -> list[Table]:
    """Everything that was measured, as tables."""
    found = [
        Table("Cost per request and per event", _main(results)),
        *_peers(results),
        Table("Extremes", _extremes(results)),
    ]
    checked = budgets(results)
    if checked:
        found.append(Table("Budgets", _budgets(checked)))
    missed = [
        [budget.what, CAUSES.get(budget.what, "not known yet")]
        for budget in checked
        if budget.missed
    ]
    if missed:
        rows = [["budget", "cause"], *missed]
        found.append(Table("Why budgets are missed", rows, for_terminal=False))
    failed = _failures(results)
    if failed:
        found.append(Table("Failed", failed))
    return found


def _main(results: Results) -> list[list[str]]:
    table = [
        [
            "row",
            "µs/request",
            "x nginx",
            "µs/event",
            "x nginx",
            "first token p50 ms",
            "p99 ms",
            "added p50 ms",
            "120 KB request ms",
            "x nginx",
        ]
    ]
    direct = quantile(results.direct_first_token, 0.5)
    for row, figures in results.rows:
        first = sorted(figures.first_token)
        median = quantile(first, 0.5)
        table.append(
            [
                row.name,
                number(figures.median("request") * 1e6),
                number(ratio(figures, floor_of(results, row), "request")),
                number(figures.median("event") * 1e6),
                number(ratio(figures, floor_of(results, row), "event")),
                number(median * 1e3),
                number(quantile(first, 0.99) * 1e3),
                number((median - direct) * 1e3 if first else nan),
                number(figures.agent * 1e3),
                number(over(figures.agent, floor_of(results, row).agent)),
            ]
        )
    return table


def _extremes(results: Results) -> list[list[str]]:
    table = [
        [
            "target",
            "start s",
            "idle MB",
            "KB per idle connection",
            "KB per open stream",
            "KB per stopped reader",
            "µs/event, 10k",
            "µs/event, 100k",
            "ms/request, 1 MB",
            "ms/request, 10 MB",
        ]
    ]
    for name, found in results.extremes.items():
        table.append(
            [
                name,
                number(found.started),
                number(found.idle / 1e6),
                number(found.per_connection / 1e3),
                number(found.per_stream / 1e3),
                number(found.slow_reader / 1e3),
                *(number(found.long_stream.get(n, nan) * 1e6) for n in (10_000, 100_000)),
                *(number(found.image.get(n, nan) * 1e3) for n in (1_000_000, 10_000_000)),
            ]
        )
    return table


def _budgets(checked: list[Budget]) -> list[list[str]]:
    return [["budget", "limit", "worst", "that is", "where", ""]] + [
        [
            budget.what,
            f"{number(budget.limit)} {budget.unit}",
            "-" if isnan(budget.worst) else f"{number(budget.worst)} {budget.unit}",
            budget.absolute or "-",
            budget.where or "-",
            budget.verdict,
        ]
        for budget in checked
    ]


def _peers(results: Results) -> list[Table]:
    """Gateways of others beside ours, cell by cell: microseconds, and how many times ours."""
    peers = [name for name in results.extremes if name not in OWN]
    if not peers:
        return []
    cells: dict[Cell, str] = {}
    for row, _ in results.rows:
        if row.target.name in peers:
            cells.setdefault(row.cell, row.name.partition(": ")[2])
    notes = [
        f"**{name}**: {' '.join(results.caveats.get(name, ()))}".removesuffix(": ")
        for name in peers
    ]
    found = []
    for title, name in (("request", "request"), ("streamed event", "event")):
        rows = [["gateway", *cells.values(), "idle MB"]]
        for target in [name for name in OWN if name in results.extremes] + peers:
            shown = [_beside_ours(results, target, cell, name) for cell in cells]
            rows.append([target, *shown, number(results.extremes[target].idle / 1e6)])
        found.append(Table(f"Other gateways: µs per {title} (times ours)", rows, notes))
    return found


def _beside_ours(results: Results, target: str, cell: Cell, name: str) -> str:
    theirs, ours = same_cell(results, target, cell), same_cell(results, "dragoman", cell)
    if theirs is None or isnan(theirs.median(name)):
        return "-"
    times = ratio(theirs, ours, name) if ours is not None else nan
    return f"{number(theirs.median(name) * 1e6)} ({number(times)})"


def _failures(results: Results) -> list[list[str]]:
    failed = [[row.name, figures.failure] for row, figures in results.rows if figures.failure]
    failed += [
        [f"{row.name}, stream", figures.no_stream]
        for row, figures in results.rows
        if figures.no_stream
    ]
    for name, found in results.extremes.items():
        failed += [[name, failure] for failure in found.failures if failure]
    return [["row", "failure"], *failed] if failed else []


def number(value: float) -> str:
    """A figure for a table; a dash for none."""
    if isnan(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def as_text(found: list[Table]) -> str:
    """The tables for a terminal."""
    parts = []
    for table in found:
        if not table.for_terminal:
            continue
        rows = table.rows
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.insert(1, "-" * max(len(line) for line in lines))
        lines += [f"- {note.replace('**', '')}" for note in table.notes]
        parts.append(f"{table.title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_markdown(found: list[Table], how: str) -> str:
    """The tables as a page of the documentation; ``how`` tells the command and its load."""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [
        f"Written by `make bench` on {when}: {how}. {machine()}",
        "",
        "CPU time is that of the measured process alone, pinned to one core; the load runs on",
        "another. Requests are small, 16 at a time; events are those of 200 paced streams.",
        "Ratios are taken within a round and are more trustworthy than absolute figures.",
        "`relay` is two protocols on httptools without a gateway in between (`bench/relay.py`).",
        "Ratios to nginx are to its row for the same upstream protocol.",
        "",
        "`make bench ARGS=--quick` measures one small round, `ARGS=--write` writes this page.",
        "nginx and other gateways are measured too if they are installed.",
    ]
    return "\n".join([*lines, *_lines(found, "##")]) + "\n"


def markdown_of(found: list[Table], how: str) -> str:
    """Tables as a section of the page; ``how`` tells the command, its load, and the machine."""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return "\n".join([f"Written on {when} by {how}", *_lines(found, "###")]) + "\n"


def _lines(found: list[Table], level: str) -> Iterator[str]:
    for table in found:
        yield from ("", f"{level} {table.title}", "", "| " + " | ".join(table.rows[0]) + " |")
        yield "|" + "---|" * len(table.rows[0])
        yield from ("| " + " | ".join(row) + " |" for row in table.rows[1:])
        if table.notes:
            yield from ("", *(f"- {note}" for note in table.notes))


def machine() -> str:
    """What the figures were measured with."""
    model = "an unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = f"{len(names)} x {names[0].partition(':')[2].strip()}" if names else model
    packages = []
    for name in ("uvloop", "httptools", "msgspec"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{model}, Python {platform.python_version()} ({built()}), {', '.join(packages)}."


def built() -> str:
    """How the interpreter was optimised: one that a version manager builds often was not, and is a
    tenth slower."""
    flags = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    known = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}
    return ", ".join(name if flag in flags else f"no {name}" for name, flag in known.items())
