"""``python -m bench.stored``: what it costs that a Responses answer is stored.

The same requests go to one worker with ``store`` false and true, in turn: small ones from 16
clients at a time and from one alone, streams of ten events, and an agent's 120 KB. CPU time is of
all threads. ``--against`` measures another checkout in the same rounds.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from bench import bodies, targets
from bench.measure import Cell, request_cost
from bench.processes import Child, free_port
from bench.targets import Cores, Target, Upstreams

ROOT = Path(__file__).parent.parent
CELL = Cell("openai_responses", "openai_chat")
KINDS = {"small, 16 at a time": (16, 1500), "small, alone": (1, 600), "stream": (16, 400)}
KINDS |= {"agent": (8, 150), "agent, alone": (1, 80)}
"""Clients at a time, and requests in a round."""

ROUNDS = 7


def request(kind: str, store: bool) -> bytes:
    """A request of that kind."""
    if kind.startswith("agent"):
        made = bodies.agent(CELL.client, CELL.model(), store=store)
    else:
        stream = kind == "stream"
        pace = f"bench-e{10 if stream else 1}-r0"
        made = bodies.small(CELL.client, CELL.model(), stream=stream, pace=pace, store=store)
    return CELL.post(made)


@contextmanager
def gateway(
    root: Path, folder: Path, cores: Cores, up: Upstreams, more: str = ""
) -> Iterator[Target]:
    """One worker of a checkout, with a store on disk, and ``more`` in its configuration."""
    folder.mkdir()
    port, config = free_port(), folder / "dragoman.toml"
    log = "[server]\nlog_level = 'error'"
    text = targets.configuration(port, up).replace("[server]", log, 1)
    text += '[storage]\npath = "kept.db"\nkey = "correct horse battery"\n'
    config.write_text(text + more)
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    env = {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    with Child(command, core=cores.gateway, log=folder / "log", env=env) as child:
        yield Target(folder.name, port, child.pid, child.listening(port))


@contextmanager
def checkouts(against: Path | None, more: str = "") -> Iterator[dict[str, Target]]:
    """Such a gateway of this checkout, and of another beside it. This process keeps off the
    gateway's core."""
    cores = Cores.of_this_machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        up = stack.enter_context(targets.upstreams(folder, cores))
        if cores.load is not None:
            os.sched_setaffinity(0, {cores.load})
        roots = {"ours": ROOT} | ({"before": against} if against else {})
        yield {
            name: stack.enter_context(gateway(root, folder / name, cores, up, more))
            for name, root in roots.items()
        }


def show(kind: str, name: str, words: tuple[str, str], found: list[tuple[float, float]]) -> None:
    """Print the medians of what two kinds of requests cost in each round, and of what the second
    costs more, in seconds."""
    plain, other = (statistics.median(column) for column in zip(*found, strict=True))
    added = statistics.median(second - first for first, second in found)
    print(  # noqa: T201
        f"{kind:20} {name:8} {words[0]} {plain * 1e6:6.1f} us, "
        f"{words[1]} {other * 1e6:6.1f} us, added {added * 1e6:6.1f} us",
        flush=True,
    )


async def measure(running: dict[str, Target], kinds: list[str]) -> None:
    """Print the medians of all rounds."""
    for kind in kinds:
        at_once, count = KINDS[kind]
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
        for _ in range(ROUNDS):
            for name, target in running.items():
                plain = await request_cost(target, request(kind, False), count, at_once)
                stored = await request_cost(target, request(kind, True), count, at_once)
                costs[name].append((plain, stored))
        for name, found in costs.items():
            show(kind, name, ("not stored", "stored"), found)


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="bench.stored", description=__doc__)
    parser.add_argument("--against", type=Path, help="root of another checkout")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    chosen = parser.parse_args()
    with checkouts(chosen.against) as running:
        uvloop.run(measure(running, chosen.kinds))


if __name__ == "__main__":
    main()
