"""Tables of what was measured, for a terminal and as Markdown, and the budgets."""

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import isnan, nan
from pathlib import Path

from bench.plan import Figures, Results, Row

Table = tuple[str, list[list[str]]]
"""A title, and rows of cells of which the first is the header."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit, and the worst figure that was measured against it."""

    what: str
    limit: float
    unit: str
    worst: float
    where: str

    @property
    def met(self) -> bool:
        """Whether the worst figure is within the limit."""
        return self.worst <= self.limit


CAUSES = "Why budgets are missed"


def tables(results: Results) -> list[Table]:
    """Everything that was measured, as tables."""
    found = [("Cost per request and per event", _main(results)), ("Extremes", _extremes(results))]
    checked = budgets(results)
    if checked:
        found.append(("Budgets", _budgets(checked)))
    missed = _misses(checked)
    if missed:
        found.append((CAUSES, missed))
    failed = _failures(results)
    if failed:
        found.append(("Failed", failed))
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
    direct = _quantile(results.direct_first_token, 0.5)
    for row, figures in results.rows:
        first = sorted(figures.first_token)
        median = _quantile(first, 0.5)
        table.append(
            [
                row.name,
                _number(figures.median("request") * 1e6),
                _number(_ratio(results, row, "request")),
                _number(figures.median("event") * 1e6),
                _number(_ratio(results, row, "event")),
                _number(median * 1e3),
                _number(_quantile(first, 0.99) * 1e3),
                _number((median - direct) * 1e3 if first else nan),
                _number(figures.agent * 1e3),
                _number(_over(figures.agent, _floor(results, row).agent)),
            ]
        )
    return table


def _extremes(results: Results) -> list[list[str]]:
    table = [
        [
            "target",
            "start s",
            "idle MB",
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
                _number(found.started),
                _number(found.idle / 1e6),
                _number(found.per_stream / 1e3),
                _number(found.slow_reader / 1e3),
                *(_number(found.long_stream.get(n, nan) * 1e6) for n in (10_000, 100_000)),
                *(_number(found.image.get(n, nan) * 1e3) for n in (1_000_000, 10_000_000)),
            ]
        )
    return table


def budgets(results: Results) -> list[Budget]:
    """The limits the project sets itself, with the worst figure of the gateway for each."""
    own = [(row, fig) for row, fig in results.rows if row.target.name == "dragoman"]
    translated = [(row, fig) for row, fig in own if row.kind == "translated" and not row.cell.tls]
    found: list[Budget] = []

    def worst(what: str, limit: float, unit: str, values: Sequence[tuple[float, str]]) -> None:
        known = [value for value in values if not isnan(value[0])]
        if known:
            value, where = max(known)
            found.append(Budget(what, limit, unit, value, where))

    for what, limit, name in (
        ("small request, translated", 150.0, "request"),
        ("streamed event, translated", 30.0, "event"),
    ):
        figures = [(fig.median(name) * 1e6, row.name) for row, fig in translated]
        worst(what, limit, "µs", figures)
    worst("120 KB request", 1.0, "ms", [(fig.agent * 1e3, row.name) for row, fig in translated])
    direct = _quantile(results.direct_first_token, 0.5)
    added = [
        ((_quantile(sorted(fig.first_token), 0.5) - direct) * 1e3, row.name)
        for row, fig in translated
        if fig.first_token
    ]
    worst("added to the first token, p50", 1.0, "ms", added)
    for what, limit, name in (
        ("request against nginx", 8.0, "request"),
        ("event against nginx", 2.5, "event"),
    ):
        ratios = [(_ratio(results, row, name), row.name) for row, _ in translated]
        worst(what, limit, "x", ratios)
    extremes = results.extremes.get("dragoman")
    if extremes is not None:
        name = "dragoman"
        worst("start", 0.5, "s", [(extremes.started, name)])
        worst("idle", 60.0, "MB", [(extremes.idle / 1e6, name)])
        worst("open stream", 60.0, "KB", [(extremes.per_stream / 1e3, name)])
        long_stream, image = extremes.long_stream, extremes.image
        if len(long_stream) == 2:
            grown = long_stream[100_000] / long_stream[10_000]
            worst("event of a ten times longer stream", 1.2, "x", [(grown, name)])
        if len(image) == 2:
            grown = image[10_000_000] / image[1_000_000] / 10
            worst("byte of a ten times larger body", 1.5, "x", [(grown, name)])
    found += _against_litellm(results)
    return found


def _against_litellm(results: Results) -> list[Budget]:
    by_name = {row.name: figures for row, figures in results.rows}
    ours = by_name.get("dragoman: messages → chat")
    theirs = by_name.get("litellm: messages → chat")
    if ours is None or theirs is None or not ours.request or not theirs.request:
        return []
    share = ours.median("request") / theirs.median("request")
    return [Budget("request against LiteLLM", 1 / 80, "x", share, "messages → chat")]


def _budgets(checked: list[Budget]) -> list[list[str]]:
    return [["budget", "limit", "worst", "where", ""]] + [
        [
            budget.what,
            f"{_number(budget.limit)} {budget.unit}",
            f"{_number(budget.worst)} {budget.unit}",
            budget.where,
            "met" if budget.met else "MISSED",
        ]
        for budget in checked
    ]


_WHY = {
    "small request, translated": "A fifth is the kernel, a fifth the server and the upstream "
    "client; of the rest no function takes more than a thirtieth.",
    "streamed event, translated": "Half is the kernel's work for one read, one write and one poll "
    "per event; the translation is 3 to 4 µs.",
    "request against nginx": "`relay`, which translates nothing, is at a third of the limit and "
    "passing through at five sixths; two bodies read and written in Python do not fit in what is "
    "left. nginx differs by a fifth from run to run.",
    "event against nginx": "nginx makes the same system calls, so the ratio follows what the "
    "kernel charges for them at the moment, half of all that an event costs here.",
    "request against LiteLLM": "The limit was set when LiteLLM took 12 to 24 ms per request; the "
    "release measured here takes less.",
}
"""The cause of each budget's miss that is known, by the budget."""


def _misses(checked: list[Budget]) -> list[list[str]]:
    missed = [
        [budget.what, _WHY.get(budget.what, "not known yet")]
        for budget in checked
        if not budget.met
    ]
    return [["budget", "cause"], *missed] if missed else []


def _failures(results: Results) -> list[list[str]]:
    failed = [[row.name, figures.failure] for row, figures in results.rows if figures.failure]
    for name, found in results.extremes.items():
        failed += [[name, failure] for failure in found.failures if failure]
    return [["row", "failure"], *failed] if failed else []


def _floor(results: Results, row: Row) -> Figures:
    return next((fig for other, fig in results.rows if other.name == row.floor), Figures())


def _ratio(results: Results, row: Row, name: str) -> float:
    figures = next(fig for other, fig in results.rows if other is row)
    # A row and its floor are compared within each round, when the machine was in one mood.
    ours: list[float] = getattr(figures, name)
    floor: list[float] = getattr(_floor(results, row), name)
    ratios = [_over(mine, theirs) for mine, theirs in zip(ours, floor, strict=False)]
    return statistics.median(ratios) if ratios else nan


def _over(value: float, floor: float) -> float:
    return value / floor if floor else nan


def _quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return nan
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _number(value: float) -> str:
    if isnan(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def as_text(found: list[Table]) -> str:
    """The tables for a terminal."""
    parts = []
    for title, rows in found:
        if title == CAUSES:
            # Sentences: for the page.
            continue
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.insert(1, "-" * max(len(line) for line in lines))
        parts.append(f"{title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_markdown(found: list[Table], how: str) -> str:
    """The tables as a page of the documentation; ``how`` tells the command and its load."""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {when}: {how}. {machine()}",
        "",
        "CPU time is that of the measured process alone, held to one core; the load runs on",
        "another. A request is a small one, 16 at a time; events are those of 200 paced streams.",
        "Ratios are taken within a round and are more trustworthy than absolute figures.",
        "`relay` is our server and our upstream client with nothing in between (`bench/relay.py`).",
        "",
        "`make bench ARGS=--quick` takes under 90 s, `ARGS=--write` writes this page. nginx joins",
        "when it is installed, LiteLLM when `LITELLM_PYTHON` names the Python of a virtualenv that",
        "holds `litellm[proxy]`.",
    ]
    for title, rows in found:
        lines += ["", f"## {title}", ""]
        lines.append("| " + " | ".join(rows[0]) + " |")
        lines.append("|" + "---|" * len(rows[0]))
        lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    return "\n".join(lines) + "\n"


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
    return f"{model}, Python {platform.python_version()}, {', '.join(packages)}."
