"""``python -m bench.pool``: what a pool of accounts costs a request.

The same requests go to gateways of 1, 100 and 10,000 accounts, without a store and with one, in
turn. ``--against`` adds those of another checkout, to compare before and after. Ratios are taken
within a round, to the first row; medians of the rounds are shown. A row is CPU time of the process
with all its threads:

- ``request``: a small one, translated; each conversation is new.
- ``turn``: a later turn of one of 1,000 conversations, each of which stays with its account.
- ``event``, ``first token``, ``agent``, ``idle``, ``stream``: as in ``python -m bench``.

Last comes what a turn costs in the pool's own code, run by itself: the conversation found, an
account chosen, lent, told of and given back, and usage and metrics counted.
"""

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench import bodies, targets
from bench.load_client import close, connect, send_all
from bench.measure import (
    MARK,
    Cell,
    Load,
    event_cost,
    first_token,
    idle_memory,
    request_cost,
    stream_memory,
)
from bench.page import write_pool
from bench.processes import Child, cpu_seconds, free_port
from bench.report import machine
from bench.targets import CLIENT_KEY, Cores, Target, Upstreams
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.accounts.usage import Attribution, Meter
from dragoman.canonical.usage import Usage
from dragoman.config import Account, Config, Secret, Upstream
from dragoman.edge.record import Record
from dragoman.observability.metrics.metrics import Metrics
from dragoman.serving.affinity import conversation_keys
from dragoman.serving.upstream_requests import UpstreamRequestBuilders
from dragoman.translation import ClientRequest

ROOT = Path(__file__).parent.parent
CELL = Cell("anthropic_messages", "openai_chat")
CONVERSATIONS = 1000
LOAD = Load(requests=1500, streams=200, rate=50, seconds=1.0, lone_requests=100)
COLUMNS = {
    "request": (1e6, "us"),
    "turn": (1e6, "us"),
    "event": (1e6, "us"),
    "first": (1e3, "ms"),
    "agent": (1e3, "ms"),
    "idle": (1e-6, "MB"),
    "stream": (1e-3, "KB"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A gateway from the checkout at `root`; `store` is None for one that knows of no store."""

    name: str
    accounts: int
    store: bool | None = True
    root: Path = ROOT


@dataclass(slots=True)
class Found:
    """What was measured of a case, one figure per round: seconds, or bytes."""

    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Take a figure of this round."""
        self.figures.setdefault(name, []).append(value)


@contextmanager
def gateway(case: Case, folder: Path, cores: Cores, up: Upstreams) -> Iterator[Target]:
    """One worker over the load upstream."""
    folder.mkdir()
    port, config = free_port(), folder / "dragoman.toml"
    lines = ["[server]", f"port = {port}", "[[clients]]", 'name = "bench"', f'key = "{CLIENT_KEY}"']
    lines += ["[[upstreams]]", 'name = "chat"', 'protocol = "openai_chat"']
    lines += [f'base_url = "http://127.0.0.1:{up.plain}"']
    for number in range(case.accounts):
        lines += ["[[accounts]]", f'name = "a{number:05}"', 'upstream = "chat"']
        lines += [f'key = "sk-{number:040}"']
    lines += ["[[routes]]", 'match = "bench-chat"', 'upstream = "chat"']
    if case.store is not None:
        lines += ["[storage]", f'path = "{"kept.db" if case.store else ""}"']
    config.write_text("\n".join(lines))
    env = {"PYTHONPATH": os.pathsep.join([str(case.root / "src"), str(case.root)])}
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    with Child(command, core=cores.gateway, log=folder / "log", env=env) as child:
        yield Target(case.name, port, child.pid, child.listening(port, 60.0))


async def turn_cost(target: Target, count: int) -> float:
    """CPU seconds for a turn, when each of the conversations has had one before."""
    name = CELL.model()
    turns = [CELL.post(bodies.turn(CELL.client, name, number)) for number in range(CONVERSATIONS)]
    links = await connect(target.port, 16, MARK)
    try:
        await send_all(links, turns)
        before = cpu_seconds(target.pid)
        await send_all(links, itertools.islice(itertools.cycle(turns), count))
        return (cpu_seconds(target.pid) - before) / count
    finally:
        close(links)


async def once(target: Target, found: Found) -> None:
    """Memory, before anything else was asked of the process."""
    idle = await idle_memory(target, CELL)
    found.add("idle", idle)
    found.add("stream", await stream_memory(target, CELL, 200, idle))


async def measure(running: dict[str, Target], rounds: int) -> dict[str, Found]:
    """All rounds, each case in turn."""
    found = {name: Found() for name in running}
    for name, target in running.items():
        await once(target, found[name])
    for number in range(rounds):
        for name, target in running.items():
            sys.stderr.write(f"round {number + 1} of {rounds}: {name}\n")
            add = found[name].add
            add("request", await request_cost(target, CELL.request(stream=False), LOAD.requests))
            add("turn", await turn_cost(target, LOAD.requests))
            add("event", await event_cost(target, CELL, LOAD))
            add("first", statistics.median(await first_token(target, CELL, LOAD.lone_requests)))
            add("agent", await request_cost(target, CELL.agent(), LOAD.requests // 10, 4))
    return found


def alone(accounts: int) -> float:
    """CPU seconds of a turn for what the pool does, in this process, with nothing between."""
    upstream = Upstream(name="chat", protocol="openai_chat", base_url="http://127.0.0.1:1")
    keys = tuple(
        Account(name=f"a{number:05}", upstream="chat", key=Secret(f"sk-{number:040}"))
        for number in range(accounts)
    )
    pool, meter, metrics = (
        AccountPool(Config(upstreams=(upstream,), accounts=keys)),
        Meter(),
        Metrics(),
    )
    builders = UpstreamRequestBuilders((upstream,))
    name = CELL.model()
    turns = itertools.cycle(
        [
            ClientRequest(CELL.client, bodies.turn(CELL.client, name, number))
            for number in range(CONVERSATIONS)
        ]
    )
    record, usage = Record(), Usage(input=10, output=5)
    record.upstream, record.attempts = "chat", 1
    has_choice = len(pool.accounts()) > 1

    def turn() -> None:
        request, pin = next(turns), b""
        if has_choice:
            pin = conversation_keys({}, request, "bench", "chat", False).lookup
        with pool.lease(LeaseRequest("chat", name, pin)) as lease:
            builders.of(lease.account)
            lease.succeeded(usage.total)
        whose = Attribution(lease.account.name, "bench", name, "/v1/messages")
        meter.count(time.time(), whose, usage, 12.0)
        metrics.finished("/v1/messages", 200, record, usage, 0.012, 0.012)

    count = 3 * CONVERSATIONS
    timer = timeit.Timer(turn, timer=time.process_time)
    return min(timer.repeat(repeat=7, number=count)) / count


def table(found: dict[str, Found]) -> list[list[str]]:
    """Medians, and their ratios to the first row."""
    first = next(iter(found.values()))
    rows = [["", *(f"{name}, {unit}" for name, (_, unit) in COLUMNS.items())]]
    for name, case in found.items():
        cells = [name]
        for column, (scale, _) in COLUMNS.items():
            ours, base = case.figures[column], first.figures[column]
            ratio = statistics.median(a / b for a, b in zip(ours, base, strict=True))
            cells.append(f"{statistics.median(ours) * scale:.3g} ({ratio:.2f} x)")
        rows.append(cells)
    return rows


def as_text(rows: list[list[str]]) -> str:
    """For a terminal."""
    return "".join(f"{row[0]:22}{''.join(f'{cell:>18}' for cell in row[1:])}\n" for row in rows)


def own(counts: Sequence[int]) -> str:
    """What the pool's own code costs, in a sentence."""
    figures = ", ".join(f"{alone(count) * 1e6:.1f} µs with {count:,}" for count in counts)
    return f"Alone, in one process, the pool takes for a turn, by number of accounts: {figures}."


def as_markdown(rows: list[list[str]], rounds: int, alone: str) -> str:
    """For the page."""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [f"Written by `python -m bench.pool` on {when}: {rounds} rounds. {machine()}", ""]
    lines += [_ROWS, ""]
    lines += ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    return "\n".join([*lines, "", alone, "", _CAUSES, ""])


_ROWS = """\
Messages over Chat. `before` is an earlier version with a plain list of accounts, without
affinity, store or usage, if it was measured (`--against`). `request` is a small one that begins a
conversation, `turn` a later turn of one of 1,000 conversations, each of which stays with its
account. Ratios, to the first row, are taken within a round."""
_CAUSES = """\
The budget was 15 µs for a request, over a plain list of accounts. With many accounts a request
costs more than the code of the pool: the headers, masks and leases of its account are not in the
CPU cache. [Decision 9](decisions/0009-cost-of-a-request.md) describes how the cost of a request was
reduced.

The store has a thread of its own, and writes in batches: with few accounts many requests share
a row. The cost of storing a response is among the budgets above; `python -m bench.stored` measures
it separately."""


COUNTS = (1, 100, 10_000)


def cases(against: Path | None) -> list[Case]:
    """What is compared."""
    other = (
        [Case(f"before, {count:,}", count, None, against) for count in COUNTS] if against else []
    )
    return [
        *other[:2],
        Case("1 account, no store", 1, store=False),
        *(Case(f"{count:,} account{'s' * (count > 1)}", count) for count in COUNTS),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.pool", description=__doc__)
    parser.add_argument("--against", type=Path, help="root of another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, too")
    chosen = parser.parse_args()
    cores = Cores.of_this_machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        up = stack.enter_context(targets.upstreams(folder, cores))
        if cores.load is not None:
            os.sched_setaffinity(0, {cores.load})
        running = {
            case.name: stack.enter_context(gateway(case, folder / f"{number}", cores, up))
            for number, case in enumerate(cases(chosen.against))
        }
        rows = table(uvloop.run(measure(running, chosen.rounds)))
    figures = own(COUNTS)
    sys.stdout.write(f"{as_text(rows)}\n{figures}\n")
    if chosen.write:
        write_pool(as_markdown(rows, chosen.rounds, figures))


if __name__ == "__main__":
    main()
