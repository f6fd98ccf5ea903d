"""The measurements by which gateways are compared: added latency, CPU time of all processes, the
highest rate, streams at once, and memory after minutes of load."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import nan
from time import perf_counter

from bench.figures import quantile
from bench.load_client import Connection, LoadError, checked, close, connect, repeat
from bench.measure import MARK, Cell, request_cost
from bench.processes import resident_bytes
from bench.targets import Target

CONCURRENCY = 8
"""Requests at once where CPU time is measured."""

LATE_S = 0.005
"""The highest rate is the one at which 99 of 100 answers take no longer."""

DELTAS, INTERVAL_S = 64, 0.02
LONGEST_GAP = 10
"""A stream is sustained if no two deltas are more than so many intervals apart."""

TURNS = {"120 KB": 22, "1 MB": 290}
"""Turns of an agent's session, by the size of the request that has them."""

_CONNECTIONS = 64
_FIRST_RATE = 50.0
_RATES = range(3)
_FIRST_STREAMS, _MOST_STREAMS = 16, 1024


@dataclass(slots=True)
class Terms:
    """What was found out about one cell of one target; times in seconds, one value per round.
    ``cpu`` goes by the size of the request."""

    target: Target
    cell: Cell
    alone: list[list[float]] = field(default_factory=list)
    """Seconds of lone requests, sorted."""
    cpu: dict[str, list[float]] = field(default_factory=dict)
    rate: list[float] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    memory: float = nan
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: requests of each measurement, seconds of each rate and number of
    streams, and of the load before memory is read."""

    requests: int
    seconds: float
    soak_s: float


async def latencies(target: Target, cell: Cell, count: int) -> list[float]:
    """Seconds of small requests, one at a time, sorted."""
    links = await connect(target.port, 1, MARK)
    try:
        request = cell.request(target.access, stream=False)
        await repeat(links, request, max(1, count // 10))
        return sorted(answer.total for answer in await repeat(links, request, count))
    finally:
        close(links)


async def measure_cpu(found: Terms, count: int) -> None:
    """CPU seconds per request of a target's processes, by the size of the request."""
    target, cell = found.target, found.cell
    requests = {"small": (cell.request(target.access, stream=False), count)}
    for size, turns in TURNS.items():
        share = max(2 * CONCURRENCY, count * TURNS["120 KB"] // turns // 4)
        requests[size] = cell.agent(target.access, turns), share
    for size, (request, share) in requests.items():
        # The first large ones start helper processes, where a target has such.
        await request_cost(target, request, CONCURRENCY, CONCURRENCY)
        cost = await request_cost(target, request, share, CONCURRENCY)
        found.cpu.setdefault(size, []).append(cost)


async def at_rate(port: int, request: bytes, rate: float, seconds: float) -> list[float]:
    """Seconds of requests that are due at a rate, sorted, whether or not those before are answered:
    time for which one waits for a free connection counts."""
    links = await connect(port, _CONNECTIONS, MARK)
    begun, numbers = perf_counter(), iter(range(max(1, round(rate * seconds))))

    async def one(link: Connection) -> list[float]:
        took = []
        for number in numbers:
            since = begun + number / rate
            early = since - perf_counter()
            if early > 0:
                await asyncio.sleep(early)
                since = perf_counter()
            checked(await link.send(request))
            took.append(perf_counter() - since)
        return took

    try:
        async with asyncio.timeout(2 * seconds + 5):
            parts = await asyncio.gather(*map(one, links))
    finally:
        close(links)
    return sorted(itertools.chain.from_iterable(parts))


async def highest_rate(target: Target, cell: Cell, seconds: float) -> float:
    """Requests a second up to which 99 of 100 are answered within `LATE_S`; 0 if none is."""
    request = cell.request(target.access, stream=False)

    async def holds(rate: float) -> bool:
        try:
            took = await at_rate(target.port, request, rate, seconds)
        except TimeoutError:
            return False
        return quantile(took, 0.99) <= LATE_S

    kept, rate = 0.0, _FIRST_RATE
    while await holds(rate):
        kept, rate = rate, 2 * rate
    for _ in _RATES:
        between = (kept + rate) / 2
        if await holds(between):
            kept = between
        else:
            rate = between
    return kept


class Watched(Connection):
    """A connection that measures the longest time between two deltas of its streams."""

    gap = 0.0
    _before = 0.0

    def data_received(self, data: bytes) -> None:
        seen = self.answer.marks
        super().data_received(data)
        if self.answer.marks > seen:
            now = perf_counter()
            if seen:
                self.gap = max(self.gap, now - self._before)
            self._before = now


async def longest_gap(target: Target, cell: Cell, count: int, seconds: float) -> float:
    """The longest time between two deltas, with so many streams one after another at once."""
    pace = round(1 / INTERVAL_S)
    request = cell.request(target.access, deltas=DELTAS, rate=pace)
    loop = asyncio.get_running_loop()
    links = []
    for _ in range(count):
        made = await loop.create_connection(lambda: Watched(MARK), "127.0.0.1", target.port)
        links.append(made[1])
    until = perf_counter() + seconds

    async def one(place: int) -> None:
        # Streams that begin together would have their deltas in one moment.
        await asyncio.sleep(INTERVAL_S * DELTAS * place / count)
        while perf_counter() < until:
            checked(await links[place].send(request), DELTAS)

    try:
        async with asyncio.timeout(seconds + 30):
            await asyncio.gather(*map(one, range(count)))
    finally:
        close(links)
    return max(link.gap for link in links)


async def most_streams(target: Target, cell: Cell, seconds: float) -> int:
    """How many streams at once are sustained, of numbers that double; 0 if not the first."""
    kept = 0
    for count in _doubled(_FIRST_STREAMS, _MOST_STREAMS):
        try:
            gap = await longest_gap(target, cell, count, seconds)
        except TimeoutError:
            break
        if gap > LONGEST_GAP * INTERVAL_S:
            break
        kept = count
    return kept


def _doubled(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2


async def soak(found: Sequence[Terms], seconds: float) -> None:
    """Read the memory of all targets after so many seconds of load on all of them at once."""
    targets = {one.target.name: one for one in reversed(found) if one.target.pid}
    living = list(targets.values())
    sizes = await asyncio.gather(
        *(soaked_memory(one.target, one.cell, seconds) for one in living), return_exceptions=True
    )
    for one, size in zip(living, sizes, strict=True):
        if isinstance(size, BaseException):
            one.failure = f"under load: {type(size).__name__}: {size}"[:300]
        else:
            one.memory = size


async def soaked_memory(target: Target, cell: Cell, seconds: float) -> float:
    """Resident bytes of a target's processes after so many seconds of requests and streams."""
    links = await connect(target.port, CONCURRENCY, MARK)
    small = cell.request(target.access, stream=False)
    agent = cell.agent(target.access)
    stream = cell.request(target.access, deltas=DELTAS, rate=round(1 / INTERVAL_S))
    until = perf_counter() + seconds
    try:
        while perf_counter() < until:
            for request in (small, agent, stream):
                await repeat(links, request, CONCURRENCY)
        return resident_bytes(target.pid)
    finally:
        close(links)


async def fill(found: Terms, effort: Effort) -> None:
    """Measure one cell of one target once. What fails is written down and left out."""
    target, cell = found.target, found.cell

    async def lone() -> None:
        found.alone.append(await latencies(target, cell, effort.requests))

    async def cpu() -> None:
        if target.pid:
            await measure_cpu(found, effort.requests)

    async def rate() -> None:
        found.rate.append(await highest_rate(target, cell, effort.seconds))

    async def streams() -> None:
        found.streams.append(await most_streams(target, cell, effort.seconds))

    for step in (lone, cpu, rate, streams):
        try:
            await step()
        except (LoadError, OSError, RuntimeError, TimeoutError) as error:
            found.failure = f"{step.__name__}: {type(error).__name__}: {error}"[:300]
