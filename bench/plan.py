"""Which rows are measured, in which order, and how their figures are put together.

Rows of one round are measured one after the other, and rounds are repeated, so that a machine
that is busy for a while spoils a round and not a row; the median of the rounds is reported.
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import nan

from bench.load_client import LoadError
from bench.measure import (
    Cell,
    Load,
    event_cost,
    first_token,
    idle_memory,
    long_stream_cost,
    request_cost,
    slow_reader_memory,
    stream_memory,
)
from bench.targets import SHORT_NAMES, Target

PROTOCOLS = tuple(SHORT_NAMES)
TRANSLATED = Cell("anthropic_messages", "openai_chat")
"""The translation that stands for the others where one is enough."""

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the main table. ``floor`` is the name of the row it is compared with."""

    name: str
    kind: str
    target: Target
    cell: Cell
    floor: str


@dataclass(slots=True)
class Figures:
    """What was measured for a row, one value per round; times in seconds."""

    request: list[float] = field(default_factory=list)
    event: list[float] = field(default_factory=list)
    first_token: list[float] = field(default_factory=list)
    agent: float = nan
    failure: str = ""

    def median(self, name: str) -> float:
        """The median of a figure's rounds; NaN where there is none."""
        values: list[float] = getattr(self, name)
        return statistics.median(values) if values else nan


@dataclass(slots=True)
class Extremes:
    """Figures of one target that are measured once; NaN where they could not be."""

    started: float = nan
    idle: float = nan
    per_stream: float = nan
    slow_reader: float = nan
    long_stream: dict[int, float] = field(default_factory=dict)
    """CPU seconds per delta by number of deltas."""
    image: dict[int, float] = field(default_factory=dict)
    """CPU seconds per request by size of the picture."""
    failures: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    """Everything a run found out."""

    rows: list[tuple[Row, Figures]]
    direct_first_token: list[float]
    extremes: dict[str, Extremes]


def rows_of(targets: dict[str, Target], nginx_tls: Target | None) -> list[Row]:
    """The rows of the main table, those of targets that run."""
    rows: list[Row] = []

    def add(kind: str, target: Target | None, cell: Cell) -> None:
        if target is None:
            return
        ways = f"{SHORT_NAMES[cell.client]} → {SHORT_NAMES[cell.upstream]}"
        tls = ", TLS" if cell.tls else ""
        floor = f"nginx: {SHORT_NAMES[cell.upstream]}{tls}"
        name = f"{target.name}: {ways}{tls}"
        if kind == "floor":
            name = f"{target.name}: {SHORT_NAMES[cell.upstream]}{tls}"
        rows.append(Row(name, kind, target, cell, floor))

    nginx, gateway = targets.get("nginx"), targets.get("dragoman")
    for protocol in PROTOCOLS:
        add("floor", nginx, Cell(protocol, protocol))
    add("floor", nginx_tls, Cell("openai_chat", "openai_chat", tls=True))
    add("floor", targets.get("relay"), Cell("openai_chat", "openai_chat"))
    for protocol in PROTOCOLS:
        add("passed through", gateway, Cell(protocol, protocol))
    for client in PROTOCOLS:
        for upstream in PROTOCOLS:
            if client != upstream:
                add("translated", gateway, Cell(client, upstream))
    if nginx_tls is not None:
        add("translated", gateway, Cell(TRANSLATED.client, TRANSLATED.upstream, tls=True))
    litellm = targets.get("litellm")
    add("passed through", litellm, Cell("openai_chat", "openai_chat"))
    add("translated", litellm, TRANSLATED)
    add("translated", litellm, Cell("openai_chat", "anthropic_messages"))
    return rows


async def measure(
    targets: dict[str, Target],
    nginx_tls: Target | None,
    direct: Target,
    load: Load,
    rounds: int,
) -> Results:
    """Run the whole plan, but for `stopped_readers`, against targets that are up."""
    rows = [(row, Figures()) for row in rows_of(targets, nginx_tls)]
    extremes = {name: Extremes(started=target.started) for name, target in targets.items()}
    for name, target in targets.items():
        _say(f"memory of {name}")
        await _memory(target, _usual_cell(name), extremes[name])
    direct_first: list[float] = []
    for number in range(rounds):
        direct_cell = Cell("openai_chat", "openai_chat")
        direct_first += await first_token(direct, direct_cell, load.lone_requests)
        for row, figures in rows:
            if not figures.failure:
                _say(f"round {number + 1} of {rounds}: {row.name}")
                await _round(row, figures, load.scaled(row.target))
    for row, figures in rows:
        if not figures.failure:
            _say(f"agent request: {row.name}")
            await _agent(row, figures, load.scaled(row.target))
    for name, target in targets.items():
        if not target.slow:
            _say(f"large bodies and long streams: {name}")
            await _large(target, _usual_cell(name), extremes[name])
    _say("")
    return Results(rows, sorted(direct_first), extremes)


def _usual_cell(name: str) -> Cell:
    return TRANSLATED if name in ("dragoman", "litellm") else Cell("openai_chat", "openai_chat")


async def _round(row: Row, figures: Figures, load: Load) -> None:
    async def all_three() -> None:
        request = row.cell.request(stream=False)
        figures.request.append(await request_cost(row.target, request, load.requests))
        figures.event.append(await event_cost(row.target, row.cell, load))
        figures.first_token += await first_token(row.target, row.cell, load.lone_requests)

    figures.failure = await _failure(all_three)


async def _agent(row: Row, figures: Figures, load: Load) -> None:
    async def agent() -> None:
        count = max(10, load.requests // 10)
        figures.agent = await request_cost(row.target, row.cell.agent(), count, connections=4)

    figures.failure = await _failure(agent)


async def _memory(target: Target, cell: Cell, found: Extremes) -> None:
    """First of all, while the process has no memory left over from larger work."""

    async def streams() -> None:
        idle = await idle_memory(target, cell)
        found.idle = idle
        found.per_stream = await stream_memory(target, cell, 20 if target.slow else 200, idle)

    found.failures.append(await _failure(streams))


async def stopped_readers(target: Target) -> tuple[float, str]:
    """Bytes per stream whose client stopped reading, and what went wrong if it could not be told.

    Asks for a process of its own: memory freed by earlier streams would hide these.
    """
    grown = nan

    async def measured() -> None:
        nonlocal grown
        cell = _usual_cell(target.name)
        idle = await idle_memory(target, cell)
        grown = await slow_reader_memory(target, cell, readers=20, deltas=400_000, idle=idle)

    failure = await _failure(measured)
    return grown, failure


async def _large(target: Target, cell: Cell, found: Extremes) -> None:
    async def images() -> None:
        for size, count in ((_MEGABYTE, 20), (10 * _MEGABYTE, 4)):
            found.image[size] = await request_cost(target, cell.image(size), count, connections=1)

    async def long_streams() -> None:
        for deltas in (10_000, 100_000):
            found.long_stream[deltas] = await long_stream_cost(target, cell, deltas)

    for step in (images, long_streams):
        found.failures.append(await _failure(step))


async def _failure(step: Callable[[], Awaitable[None]]) -> str:
    """Run a step; what went wrong in it, or an empty text. One broken row must not hide others."""
    try:
        await step()
    except (LoadError, OSError, RuntimeError, TimeoutError) as error:
        return f"{type(error).__name__}: {error}"[:300]
    return ""


def _say(what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()
    elif what:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")
