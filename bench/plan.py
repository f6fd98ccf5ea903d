"""Which rows are measured, in which order, and how their figures are put together.

A round measures every row once, those of one cell after each other whatever their target, every
second round in reverse; so what the machine does meanwhile spoils a round and not a row, and does
not favour who comes first. The median of the rounds is reported.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan

from bench.load_client import LoadError
from bench.measure import (
    Cell,
    Load,
    connection_memory,
    event_cost,
    first_token,
    idle_memory,
    long_stream_cost,
    request_cost,
    slow_reader_memory,
    stream_memory,
)
from bench.probe import closes, is_slow, probe
from bench.targets import SHORT_NAMES, Target

PROTOCOLS = tuple(SHORT_NAMES)
TRANSLATED = Cell("anthropic_messages", "openai_chat")
"""The translation that stands for the others where one is enough."""

STORED = Cell("openai_responses", "openai_chat", stored=True)
"""A Responses client that leaves it to the gateway to keep the answer, as is the default."""

OWN = ("nginx", "relay", "dragoman")
"""The targets that are no peers."""

_MEGABYTE = 1_000_000
_CONNECTIONS = 400
_STEP_S = 180
"""Seconds after which one step of the plan is given up."""


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
    no_stream: str = ""
    """Why only requests without a stream are measured."""

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
    per_connection: float = nan
    slow_reader: float = nan
    long_stream: dict[int, float] = field(default_factory=dict)
    """CPU seconds per delta by number of deltas."""
    image: dict[int, float] = field(default_factory=dict)
    """CPU seconds per request by size of the picture."""
    failures: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    """Everything a run found out; ``caveats`` go by the names of targets."""

    rows: list[tuple[Row, Figures]]
    direct_first_token: list[float]
    extremes: dict[str, Extremes]
    caveats: dict[str, list[str]] = field(default_factory=dict)


def rows_of(
    targets: Mapping[str, Target],
    nginx_tls: Target | None,
    peers: Mapping[str, Sequence[Cell]],
    only: Sequence[Cell] = (),
) -> list[Row]:
    """The rows of the main table, those of targets that run.

    ``peers`` are the cells of the gateways that are compared with ours, ``only`` those that are
    wanted of any gateway, all if empty.
    """
    rows: list[Row] = []

    def add(target: Target | None, cell: Cell, kind: str = "") -> None:
        wanted = not only or kind or replace(cell, tls=False, stored=False) in only
        if target is None or not wanted:
            return
        same = cell.client == cell.upstream
        rows.append(
            Row(
                name=f"{target.name}: {_ways(cell, kind)}",
                kind=kind or ("passed through" if same else "translated"),
                target=target,
                cell=cell,
                floor=f"nginx: {_ways(cell, 'floor')}",
            )
        )

    nginx, gateway = targets.get("nginx"), targets.get("dragoman")
    for protocol in PROTOCOLS:
        add(nginx, Cell(protocol, protocol), "floor")
    add(nginx_tls, Cell("openai_chat", "openai_chat", tls=True), "floor")
    add(targets.get("relay"), Cell("openai_chat", "openai_chat"), "floor")
    for protocol in PROTOCOLS:
        add(gateway, Cell(protocol, protocol))
    for client in PROTOCOLS:
        for upstream in PROTOCOLS:
            if client != upstream:
                add(gateway, Cell(client, upstream))
    add(gateway, STORED)
    if nginx_tls is not None:
        add(gateway, replace(TRANSLATED, tls=True))
    for name, cells in peers.items():
        for cell in cells:
            add(targets[name], cell)
    return rows


def _ways(cell: Cell, kind: str) -> str:
    more = (", TLS" if cell.tls else "") + (", stored" if cell.stored and kind != "floor" else "")
    upstream = SHORT_NAMES[cell.upstream]
    return (upstream if kind == "floor" else f"{SHORT_NAMES[cell.client]} → {upstream}") + more


def in_turn(rows: Sequence[Row], number: int) -> list[Row]:
    """The rows in the order of a round: by cell, so that what is compared is measured together."""
    ordered = sorted(rows, key=lambda row: (row.cell.upstream, row.cell.tls, row.cell.client))
    return ordered[::-1] if number % 2 else ordered


async def measure(
    rows: Sequence[Row],
    targets: Mapping[str, Target],
    direct: Target,
    upstream: int,
    load: Load,
    rounds: int,
) -> Results:
    """Run the whole plan, but for what `alone` does, against targets that are up.

    ``upstream`` is the port of the load upstream.
    """
    found = {row.name: (row, Figures()) for row in rows}
    extremes = {name: Extremes(started=target.started) for name, target in targets.items()}
    results = Results(list(found.values()), [], extremes)
    slow = await _probe_peers(results, upstream)
    for name, target in targets.items():
        _say(f"memory of {name}")
        await _memory(replace(target, slow=name in slow), results)
    for number in range(rounds):
        direct_cell = Cell("openai_chat", "openai_chat")
        results.direct_first_token += await first_token(direct, direct_cell, load.lone_requests)
        for row in in_turn([row for row, _ in results.rows], number):
            figures = found[row.name][1]
            if not figures.failure:
                _say(f"round {number + 1} of {rounds}: {row.name}")
                await _round(row, figures, load.scaled(row.target))
    results.direct_first_token.sort()
    for row, figures in results.rows:
        if not figures.failure:
            _say(f"agent request: {row.name}")
            await _agent(row, figures, load.scaled(row.target))
    for name, target in targets.items():
        if name in OWN:
            _say(f"large bodies and long streams: {name}")
            await _large(target, results)
    _say("")
    return results


async def _probe_peers(results: Results, upstream: int) -> set[str]:
    """See what peers can do, and which take only a fraction of the load: their names.

    Rows and caveats are changed.
    """
    slow: dict[str, bool] = {}
    for place, (row, figures) in enumerate(results.rows):
        name = row.target.name
        if name in OWN:
            continue
        caveats = results.caveats.setdefault(name, list(row.target.caveats))
        _say(f"does it do so: {row.name}")
        probed = await probe(row.target, row.cell, upstream)
        figures.failure, figures.no_stream = probed.failure, probed.no_stream
        if probed.caveat:
            caveats.append(f"{_ways(row.cell, row.kind)}: {probed.caveat}.")
        if not probed.failure and name not in slow:
            slow[name] = await is_slow(row.target, row.cell)
            if await closes(row.target, row.cell):
                caveats.append(
                    "It closes the connection after an answer: each request has its own."
                )
            if slow[name]:
                caveats.append("It gets a fraction of the load; its figures are less exact.")
        row = replace(row, target=replace(row.target, slow=slow.get(name, False)))
        results.rows[place] = row, figures
    return {name for name, is_so in slow.items() if is_so}


def _usual_cell(target: Target, results: Results) -> Cell:
    """The cell that a target's memory and its extremes are measured with: one that works."""
    cells = [
        row.cell
        for row, figures in results.rows
        if row.target.name == target.name and not figures.failure
    ]
    if TRANSLATED in cells:
        return TRANSLATED
    return cells[0] if cells else Cell("openai_chat", "openai_chat")


async def _round(row: Row, figures: Figures, load: Load) -> None:
    async def all_three() -> None:
        request = row.cell.request(row.target.access, stream=False)
        figures.request.append(await request_cost(row.target, request, load.requests))
        if figures.no_stream:
            return
        figures.event.append(await event_cost(row.target, row.cell, load))
        figures.first_token += await first_token(row.target, row.cell, load.lone_requests)

    figures.failure = await _failure(all_three)


async def _agent(row: Row, figures: Figures, load: Load) -> None:
    async def agent() -> None:
        count = max(10, load.requests // 10)
        request = row.cell.agent(row.target.access)
        figures.agent = await request_cost(row.target, request, count, connections=4)

    figures.failure = await _failure(agent)


def _without_stream(target: Target, results: Results) -> list[Cell]:
    return [
        row.cell
        for row, figures in results.rows
        if row.target.name == target.name and figures.no_stream
    ]


async def _memory(target: Target, results: Results) -> None:
    """First of all, while the process has no memory left over from larger work."""
    cell, found = _usual_cell(target, results), results.extremes[target.name]

    async def streams() -> None:
        streaming = cell not in _without_stream(target, results)
        found.idle = idle = await idle_memory(target, cell, stream=streaming)
        if not streaming:
            return
        found.per_stream = await stream_memory(target, cell, 20 if target.slow else 200, idle)

    found.failures.append(await _failure(streams))


async def stopped_readers(target: Target) -> float:
    """Bytes per stream whose client stopped reading."""
    cell = _alone_cell(target)
    idle = await idle_memory(target, cell)
    return await slow_reader_memory(target, cell, readers=20, deltas=400_000, idle=idle)


async def idle_connections(target: Target) -> float:
    """Bytes per client's connection that waits for a next request."""
    cell = _alone_cell(target)
    idle = await idle_memory(target, cell)
    return await connection_memory(target, cell, _CONNECTIONS, idle)


ALONE: dict[str, Callable[[Target], Awaitable[float]]] = {
    "slow_reader": stopped_readers,
    "per_connection": idle_connections,
}
"""What asks for a process of its own, since memory freed by something else would hide it."""


def _alone_cell(target: Target) -> Cell:
    return TRANSLATED if target.name == "dragoman" else Cell("openai_chat", "openai_chat")


async def alone(name: str, target: Target) -> tuple[float, str]:
    """A figure of `ALONE`, and what went wrong if it could not be told."""
    grown = nan

    async def measured() -> None:
        nonlocal grown
        grown = await ALONE[name](target)

    failure = await _failure(measured)
    return grown, failure


async def _large(target: Target, results: Results) -> None:
    cell, found = _usual_cell(target, results), results.extremes[target.name]

    async def images() -> None:
        for size, count in ((_MEGABYTE, 20), (10 * _MEGABYTE, 4)):
            request = cell.image(size, target.access)
            found.image[size] = await request_cost(target, request, count, connections=1)

    async def long_streams() -> None:
        for deltas in (10_000, 100_000):
            found.long_stream[deltas] = await long_stream_cost(target, cell, deltas)

    for step in (images, long_streams):
        found.failures.append(await _failure(step))


async def _failure(step: Callable[[], Awaitable[None]]) -> str:
    """Run a step; what went wrong in it, or an empty text. One broken row must not hide others."""
    try:
        async with asyncio.timeout(_STEP_S):
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
