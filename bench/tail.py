"""``python -m bench.tail``: what a page that watches the requests costs a gateway.

The same requests are served with and without a page open on ``/admin/events?topics=requests``, in
turn, round after round. Told is the CPU time of the gateway for a request, and the ratio of the two
in the same round, so that what else the machine does is in both.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench import targets
from bench.load_client import Connection, close, connect, repeat
from bench.measure import MARK, Cell, cell_of
from bench.processes import Child, cpu_seconds, free_port
from bench.targets import Cores, Upstreams

ROOT = Path(__file__).parent.parent
ADMIN_KEY = "bench-admin-0123456789"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a round: CPU seconds for each request, requests in a second, and bytes that the
    page was told."""

    cost: float
    speed: float
    told: int


@contextmanager
def gateway(
    folder: Path, up: Upstreams, cores: Cores, entries: str = ""
) -> Iterator[tuple[Child, int]]:
    """A gateway with an administration, and its port. `entries` are added to its configuration."""
    port, config = free_port(), folder / "tail.toml"
    more = f'[storage]\npath = "{folder}/tail.db"\n[admin]\nkey = "{ADMIN_KEY}"\n'
    config.write_text(targets.configuration(port, up) + more + entries)
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with Child(command, core=cores.gateway, log=folder / "tail.log", env=env) as child:
        child.listening(port)
        yield child, port


@asynccontextmanager
async def page(port: int) -> AsyncIterator[list[int]]:
    """A page that watches all requests; how many bytes it was told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /admin/events?topics=requests HTTP/1.1\r\nhost: bench\r\n"
        b"authorization: Bearer %b\r\n\r\n" % ADMIN_KEY.encode()
    )
    if b" 200 " not in await reader.readline():
        raise RuntimeError("the page was not let in")
    told = [0]

    async def read() -> None:
        while data := await reader.read(65536):
            told[0] += len(data)

    task = asyncio.create_task(read())
    try:
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        writer.close()


async def measured(pid: int, port: int, cell: Cell, count: int, *, watched: bool) -> Part:
    """One part of a round."""
    links = await connect(port, 16, MARK)
    try:
        request = cell.request(stream=False)
        await repeat(links, request, count // 10)
        if not watched:
            return await _timed(pid, links, request, count, [0])
        async with page(port) as told:
            return await _timed(pid, links, request, count, told)
    finally:
        close(links)


async def _timed(
    pid: int, links: list[Connection], request: bytes, count: int, told: list[int]
) -> Part:
    before, started = cpu_seconds(pid), perf_counter()
    await repeat(links, request, count)
    took = perf_counter() - started
    return Part((cpu_seconds(pid) - before) / count, count / took, told[0])


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        prog="bench.tail",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--cell", default="messages:chat")
    chosen = parser.parse_args()
    cell, cores = cell_of(chosen.cell), Cores.of_this_machine()
    rounds: list[tuple[Part, Part]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            targets.upstreams(folder, cores) as up,
            gateway(folder, up, cores) as (child, port),
        ):
            for number in range(chosen.rounds):
                parts: dict[bool, Part] = {}
                for watched in (False, True) if number % 2 else (True, False):
                    made = measured(child.pid, port, cell, chosen.requests, watched=watched)
                    parts[watched] = asyncio.run(made)
                rounds.append((parts[False], parts[True]))
    ratios = [watched.cost / alone.cost for alone, watched in rounds]
    speed = statistics.median(watched.speed for _, watched in rounds)
    alone_us = statistics.median(alone.cost for alone, _ in rounds) * 1e6
    # What a page costs is for each second, not for each request.
    more = statistics.median(
        (watched.cost - alone.cost) * watched.speed for alone, watched in rounds
    )
    sys.stdout.write(
        f"{chosen.cell}, {chosen.rounds} rounds of {chosen.requests} requests\n"
        f"a request: {alone_us:.0f} us; watched, at {speed:.0f} requests a second:"
        f" {statistics.median(ratios):.4f} x (rounds: {min(ratios):.3f} to {max(ratios):.3f})\n"
        f"a page: {more * 100:.2f} % of a core\n"
        f"told: {statistics.median(watched.told for _, watched in rounds):.0f} bytes a round\n"
    )


if __name__ == "__main__":
    main()
