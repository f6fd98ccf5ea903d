"""The measurements. Each sends load to one target and reads what it cost that process."""

import asyncio
from dataclasses import dataclass

from bench import bodies
from bench.answers import DELTA_TEXT
from bench.load_client import Answer, Connection, checked, close, connect, render, repeat
from bench.processes import cpu_seconds, resident_bytes
from bench.targets import LONG_NAMES, OURS, Access, Target

MARK = DELTA_TEXT.strip().encode()
"""What is counted in a stream: the text that every delta has once, in every protocol."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A client protocol over an upstream protocol.

    ``stored`` is for Responses clients, whose answers are then to be kept.
    """

    client: str
    upstream: str
    tls: bool = False
    stored: bool = False

    def request(
        self, access: Access = OURS, *, deltas: int = 1, rate: int = 0, stream: bool = True
    ) -> bytes:
        """A small request of this cell, ready to send."""
        pace = f"bench-e{deltas}-r{rate}"
        name, more = self.model(access), self._more()
        body = bodies.small(self.client, name, stream=stream, pace=pace, **more)
        return self.post(body, access, stream=stream)

    def agent(self, access: Access = OURS, turns: int = bodies.TURNS) -> bytes:
        """The large request of a coding agent, ready to send."""
        body = bodies.agent(self.client, self.model(access), turns, **self._more())
        return self.post(body, access)

    def image(self, size: int, access: Access = OURS) -> bytes:
        """A request with a picture of ``size`` bytes, ready to send."""
        return self.post(bodies.image(self.client, self.model(access), size), access)

    def post(self, body: bytes, access: Access = OURS, *, stream: bool = False) -> bytes:
        """A request with this body, ready to send; ``stream`` is what the body asks for."""
        more = access.headers.get(self.upstream, ())
        path = access.path(self.client, self.model(access), stream=stream)
        return render("127.0.0.1", path, body, access.key, more)

    def model(self, access: Access = OURS) -> str:
        """The name of the model that leads to the cell's upstream."""
        return access.models[self.upstream] + ("-tls" if self.tls else "")

    def _more(self) -> dict[str, bool]:
        return {"store": True} if self.stored else {}


def cell_of(text: str) -> Cell:
    """``client:upstream``, by their short names.

    :raises ValueError: it is not.
    """
    client, _, upstream = text.partition(":")
    if client not in LONG_NAMES or upstream not in LONG_NAMES:
        raise ValueError(f"{text!r} is not CLIENT:UPSTREAM of {', '.join(LONG_NAMES)}")
    return Cell(LONG_NAMES[client], LONG_NAMES[upstream])


@dataclass(frozen=True, slots=True)
class Load:
    """How much load a measurement makes; a slow target gets a fraction of it."""

    requests: int
    streams: int
    rate: int
    seconds: float
    lone_requests: int

    def scaled(self, target: Target) -> "Load":
        """The load for one target."""
        if not target.slow:
            return self
        return Load(
            requests=max(20, self.requests // 50),
            streams=20,
            rate=20,
            seconds=self.seconds,
            lone_requests=max(20, self.lone_requests // 10),
        )


async def request_cost(
    target: Target, request: bytes, count: int, connections: int = 16, status: int = 200
) -> float:
    """CPU seconds per request, ``connections`` at a time, after a warm-up of a tenth; all are
    answered with ``status``."""
    links = await connect(target.port, min(connections, count), MARK)
    try:
        await repeat(links, request, max(1, count // 10), status)
        before = cpu_seconds(target.pid)
        await repeat(links, request, count, status)
        return (cpu_seconds(target.pid) - before) / count
    finally:
        close(links)


async def event_cost(target: Target, cell: Cell, load: Load) -> float:
    """CPU seconds per streamed delta, with many paced streams at once."""
    # Streams outlast the measurement and are given up after it.
    deltas = round(load.rate * (load.seconds + 30))
    request = cell.request(target.access, deltas=deltas, rate=load.rate)
    links = await connect(target.port, load.streams, MARK)
    try:
        await _open_streams(links, request)
        await asyncio.sleep(0.3)
        seen, before = _marks(links), cpu_seconds(target.pid)
        await asyncio.sleep(load.seconds)
        spent, events = cpu_seconds(target.pid) - before, _marks(links) - seen
        expected = load.streams * load.rate * load.seconds
        if events < 0.8 * expected:
            raise RuntimeError(f"{target.name} delivered {events} of {expected:.0f} events")
        return spent / events
    finally:
        close(links)


async def first_token(target: Target, cell: Cell, count: int) -> list[float]:
    """Seconds from the request to the first text, one request at a time, sorted."""
    links = await connect(target.port, 1, MARK)
    try:
        request = cell.request(target.access, deltas=2)
        await repeat(links, request, max(1, count // 10))
        return sorted(answer.first_mark for answer in await repeat(links, request, count))
    finally:
        close(links)


async def idle_memory(target: Target, cell: Cell, *, stream: bool = True) -> int:
    """Resident bytes after some requests, with none under way."""
    links = await connect(target.port, 4, MARK)
    await repeat(links, cell.request(target.access, stream=False), 40)
    if stream:
        await repeat(links, cell.request(target.access, deltas=5), 40)
    close(links)
    await asyncio.sleep(0.3)
    return resident_bytes(target.pid)


async def stream_memory(target: Target, cell: Cell, streams: int, idle: int) -> float:
    """More resident bytes than ``idle`` per stream that is open."""
    links = await connect(target.port, streams, MARK)
    try:
        await _open_streams(links, cell.request(target.access, deltas=1000, rate=10))
        await asyncio.sleep(1.0)
        return (resident_bytes(target.pid) - idle) / streams
    finally:
        close(links)


async def connection_memory(target: Target, cell: Cell, count: int, idle: int) -> float:
    """More resident bytes than ``idle`` per connection that had one answer and is kept."""
    links = await connect(target.port, count, MARK)
    try:
        request = cell.request(target.access, stream=False)
        for link in links:
            checked(await link.send(request))
        await asyncio.sleep(0.3)
        return (resident_bytes(target.pid) - idle) / count
    finally:
        close(links)


async def long_stream_cost(target: Target, cell: Cell, deltas: int) -> float:
    """CPU seconds per delta of one stream that comes as fast as it can be passed on."""
    links = await connect(target.port, 1, MARK)
    try:
        before = cpu_seconds(target.pid)
        async with asyncio.timeout(120):
            answer = await links[0].send(cell.request(target.access, deltas=deltas))
        # A mark that a chunk's edge cuts in two is not counted.
        checked(answer, deltas * 98 // 100)
        return (cpu_seconds(target.pid) - before) / deltas
    finally:
        close(links)


async def slow_reader_memory(
    target: Target, cell: Cell, readers: int, deltas: int, idle: int
) -> float:
    """More resident bytes than ``idle`` per stream whose client stopped reading in a flood."""
    links = await connect(target.port, readers, MARK)
    try:
        for link in links:
            link.send(cell.request(target.access, deltas=deltas)).add_done_callback(_ignore)
            link.transport.pause_reading()
        await asyncio.sleep(3.0)
        return (resident_bytes(target.pid) - idle) / readers
    finally:
        close(links)


async def _open_streams(links: list[Connection], request: bytes) -> None:
    """Send the request on every connection and wait until all have had text."""
    for number, link in enumerate(links):
        link.send(request).add_done_callback(_ignore)
        if number % 20 == 19:
            await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        while not all(link.answer.marks for link in links):
            failed = [link.answer for link in links if link.answer.status not in (0, 200)]
            if failed:
                checked(failed[0])
            await asyncio.sleep(0.05)


def _ignore(done: asyncio.Future[Answer]) -> None:
    """Take the error of a stream that was given up, so that asyncio does not report it."""
    if not done.cancelled():
        done.exception()


def _marks(links: list[Connection]) -> int:
    return sum(link.answer.marks for link in links)
