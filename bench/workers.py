"""``python -m bench.workers``: what a second worker is worth, and how evenly the two are used.

One worker and two serve the same requests in turn, round after round. Told are

- the CPU time of a request, with each number of workers,
- the share of the connections that the worker with more of them accepted (50 % is even),
- the share of the CPU time that the busier of two had: connections ask again when they are
  answered, so a worker whose core has other work is asked less,
- the capacity of two against that of one: two cores are used up when the busier worker has used up
  its own, so it is the cost of a request with one worker, divided by what the busier of two pays
  for each request of both. It needs no idle machine, for CPU time is all that it is made of.
- with four cores or more also the requests per second, the gateway on two of them and the load on
  others, and their ratio.

``--connections`` are opened anew in each round, and the kernel deals them out: with few of them
shares differ by chance.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import targets
from bench.load_client import close, connect, repeat
from bench.measure import MARK, Cell, cell_of
from bench.processes import Child, cpu_seconds, descendants, free_port
from bench.targets import Cores, Upstreams

ROOT = Path(__file__).parent.parent
WANTED = 1.9


@dataclass(frozen=True, slots=True)
class Round:
    """One round: CPU seconds for each request, the share of the busiest worker, and requests in a
    second."""

    cost: float
    share: float
    speed: float

    @property
    def capacity(self) -> float:
        """Requests in a second of all workers, each with a core of its own."""
        return 1 / (self.cost * self.share)


@contextmanager
def gateway(
    folder: Path, up: Upstreams, workers: int, cores: list[int]
) -> Iterator[tuple[Child, int]]:
    """A gateway of so many workers, and its port."""
    port, config = free_port(), folder / f"workers-{workers}.toml"
    text = targets.configuration(port, up).replace("[server]", f"[server]\nworkers = {workers}", 1)
    config.write_text(text + '[storage]\npath = ""\n')
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    if cores:
        command = ["taskset", "-c", ",".join(map(str, cores[:workers])), *command]
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with Child(command, core=None, log=folder / f"workers-{workers}.log", env=env) as child:
        child.listening(port)
        yield child, port


async def dealt(child: Child, port: int, connections: int) -> float:
    """The share of the worker that accepts most of some connections, of those that nobody has asked
    anything yet."""
    workers = descendants(child.pid)[1:] or [child.pid]
    before = [_files(pid) for pid in workers]
    links = await connect(port, connections, MARK)
    try:
        for _ in range(500):
            taken = [_files(pid) - had for pid, had in zip(workers, before, strict=True)]
            if sum(taken) >= connections:
                return max(taken) / sum(taken)
            await asyncio.sleep(0.02)
    finally:
        close(links)
    raise TimeoutError(f"{taken} of {connections} connections were accepted in 10 s")


def _files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def measured(child: Child, port: int, cell: Cell, connections: int, count: int) -> Round:
    """One round."""
    links = await connect(port, connections, MARK)
    try:
        request = cell.request(stream=False)
        await repeat(links, request, count // 10)
        workers = descendants(child.pid)[1:] or [child.pid]
        before = [cpu_seconds(pid) for pid in workers]
        started = time.perf_counter()
        await repeat(links, request, count)
        took = time.perf_counter() - started
        spent = [cpu_seconds(pid) - was for pid, was in zip(workers, before, strict=True)]
    finally:
        close(links)
    return Round(sum(spent) / count, max(spent) / sum(spent), count / took)


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        prog="bench.workers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--cell", default="messages:chat")
    chosen = parser.parse_args()
    cell = cell_of(chosen.cell)
    allowed = sorted(os.sched_getaffinity(0))
    own = allowed[-2:] if len(allowed) >= 4 else []
    if own:
        os.sched_setaffinity(0, set(allowed[:-2]))
    found: dict[int, list[Round]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            targets.upstreams(folder, Cores(None, None)) as up,
            gateway(folder, up, 1, own) as one,
            gateway(folder, up, 2, own) as two,
        ):
            accepted = asyncio.run(dealt(*two, chosen.connections))
            for _ in range(chosen.rounds):
                for workers, child in ((1, one), (2, two)):
                    made = measured(*child, cell, chosen.connections, chosen.requests)
                    found[workers].append(asyncio.run(made))
    costs = {
        workers: statistics.median(one.cost for one in rounds) for workers, rounds in found.items()
    }
    shares = [one.share for one in found[2]]
    ratio = statistics.median(
        two.capacity / one.capacity for one, two in zip(found[1], found[2], strict=True)
    )
    lines = [
        f"{chosen.cell}, {chosen.connections} connections, {chosen.rounds} rounds of"
        f" {chosen.requests} requests, {len(allowed)} cores",
        f"a request: {costs[1] * 1e6:.0f} us with one worker, {costs[2] * 1e6:.0f} us with two",
        f"accepted by the one with more: {accepted * 100:.0f} %",
        f"share of the busier of two: {statistics.median(shares) * 100:.0f} %"
        f" (at most {max(shares) * 100:.0f} %)",
        f"capacity of two: {ratio:.2f} x one (wanted: {WANTED})",
    ]
    if own:
        speeds = {
            workers: statistics.median(one.speed for one in rounds)
            for workers, rounds in found.items()
        }
        lines.append(
            f"in a second: {speeds[1]:.0f} and {speeds[2]:.0f}, {speeds[2] / speeds[1]:.2f} x"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
