"""`python -m tools.load.chaos`: three instances of two workers on one PostgreSQL behind nginx,
while instances are killed, drained and started, and the database is restarted and cut off.

What a client may see of that, and nothing else: whoever was being answered by the instance that was
killed sees its answer end, or 502; while the database is away, what goes on from a stored response
is refused by 503 and new ones are not stored, and limits that say so are closed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg

from tests.gateway.limit_saturation import Hammered
from tests.gateway.processes import GatewayProcess, gateway_process, simulator_process
from tests.install.front import nginx
from tests.storage.chaos_clients import BUDGET, OPEN, TIGHT, Asked, Clients
from tests.storage.cluster import Cluster, running_cluster
from tests.storage.network import Link, link

RATE, WINDOW_S = 60, 3.0
INSTANCES = 3
_MOST_LOOKS = 300
"""Tenths of a second within which a conversation is to be completed, whatever happened before."""

_RECORDED_S = 1.0
"""Seconds between the end of an answer, as its client sees it, and its record in the gateway, on a
busy machine."""

_NOTICED_S = 1.0
"""Seconds within which nginx has noticed that an instance is gone, on a busy machine."""
_BACK_S = 8.0
"""Seconds within which every instance is to use a database that is back: pauses of up to 3 s, and
2 s of those who asked for stored responses."""

_TABLES = """
[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{upstream}"
[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "{upstream}/v1"
[[accounts]]
name = "m"
upstream = "messages"
key = "sk-sim-m"
[[accounts]]
name = "r"
upstream = "responses"
key = "sk-sim-r"
[[clients]]
name = "open"
key = "{open}"
[[clients.limits]]
kind = "requests"
amount = 1000000000
window = "day"
when_away = "share"
[[clients.limits]]
kind = "concurrent"
amount = 100000
when_away = "share"
[[clients]]
name = "tight"
key = "{tight}"
[[clients.limits]]
kind = "requests"
amount = {rate}
window = "{window:.0f}s"
[[clients]]
name = "budget"
key = "{budget}"
[[clients.limits]]
kind = "requests"
amount = {sum}
window = "total"
"""


class Plan(NamedTuple):
    """How much of it: clients, what the key with a sum may ask in all, seconds between two events,
    without the database, and between it and an instance one way; and between two exchanges of an
    instance with the database."""

    clients: int
    pause_s: float
    budget: int
    between_s: float
    cut_s: float
    delay_s: float
    sync_s: float


@dataclass
class Run:
    """What happened, and what became of the requests. Times are monotonic."""

    plan: Plan
    asked: list[Asked] = field(default_factory=list)
    killed: list[tuple[float, float, int]] = field(default_factory=list)
    """Between when and when, and which port."""
    reported: dict[int, float] = field(default_factory=dict)
    """When an instance that was killed had written its last batch, by its port: what came after it
    may be lost."""
    away: list[tuple[float, float]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """Requests that usage counts, by client."""
    events: list[tuple[float, str]] = field(default_factory=list)
    """Whatever was begun or was over, and when."""
    log: list[str] = field(default_factory=list)
    """What the instances logged at levels above info, but refusals of stored responses while the
    database was away, and nginx's errors."""

    async def do(self, name: str, event: Callable[[], object]) -> tuple[float, float]:
        """Let an event happen, and record it. Returns when it began and was over."""
        begun = time.monotonic()
        self.events.append((begun, name))
        await asyncio.to_thread(event)
        self.events.append((until := time.monotonic(), f"{name} (over)"))
        return begun, until

    def on_killed(self, one: Asked) -> bool:
        """Whether a request may have been at an instance while that was killed."""
        return any(
            one.instance in (port, 0) and one.sent <= until + _NOTICED_S and one.ended >= since
            for since, until, port in self.killed
        )

    def without_database(self, one: Asked) -> bool:
        """Whether a request that needs stored responses met a time without the database."""
        return any(one.sent < back + _BACK_S and one.ended > gone for gone, back in self.away)

    def excused(self, one: Asked) -> str:
        """Why a request that was not answered may have been so; empty if there is no reason."""
        if one.outcome == "429" and one.key in (TIGHT, BUDGET):
            return "over its limit"
        if self.on_killed(one) and one.outcome in ("cut", "502", "stream without an end"):
            return "at the instance that was killed"
        stored = one.kind in ("conversation", "items") and one.outcome in ("503", "unkept")
        return "without the database" if stored and self.without_database(one) else ""

    def failures(self) -> list[Asked]:
        """Requests that failed, though nothing excuses it."""
        return [one for one in self.asked if one.outcome != "ok" and not self.excused(one)]

    def when(self, one: Asked) -> str:
        """From when to when a request ran, in seconds after the last event before its end."""
        before = [(at, name) for at, name in self.events if at <= one.ended]
        if not before:
            return "before all events"
        at, name = max(before)
        return f"{one.sent - at:.3f} to {one.ended - at:.3f} s after {name}"

    def told_apart(self) -> Counter[str]:
        """How many requests ended how."""
        return Counter(
            "answered" if one.outcome == "ok" else self.excused(one) or f"FAILED: {one.outcome}"
            for one in self.asked
        )

    def most_in_window(self) -> int:
        """Requests of the key with a rate that were surely admitted within one window."""
        admitted = [one for one in self.asked if one.key == TIGHT and one.outcome == "ok"]
        found = Hammered([one.sent for one in admitted], [one.ended for one in admitted])
        return found.most_in(WINDOW_S, RATE)

    def spent(self) -> int:
        """Requests of the key with a sum that were answered."""
        return sum(one.outcome == "ok" for one in self.asked if one.key == BUDGET)

    def most_spent(self) -> int:
        """What the key with a sum may ask in all."""
        return self.plan.budget

    def counted(self) -> Iterator[tuple[str, int, int, int]]:
        """Of each client: what usage counts, and the least and the most that it may."""
        for client, key in (("open", OPEN), ("tight", TIGHT), ("budget", BUDGET)):
            mine = [one for one in self.asked if one.key == key and one.kind != "items"]
            sure = [one for one in mine if one.outcome in ("ok", "unkept")]
            lost = [one for one in sure if self._may_be_lost(one)]
            at_most = [one for one in mine if one.outcome not in ("429", "503")]
            yield client, self.rows.get(client, 0), len(sure) - len(lost), len(at_most)

    def _may_be_lost(self, one: Asked) -> bool:
        """Whether an instance that was killed may not have told of a request any more."""
        return any(
            one.instance == port
            and one.sent <= until
            and one.ended >= self.reported[port] - _RECORDED_S
            for _, until, port in self.killed
        )

    def done_after(self) -> dict[str, int]:
        """Of each event: the conversations that were completed after it."""
        whole = [one for one in self.asked if one.is_completed_conversation]
        return {name: sum(one.ended > at for one in whole) for at, name in self.events}

    def faults(self) -> list[str]:
        """What is not as it should be."""
        found = [
            f"{one.kind}: {one.outcome} at {one.instance}, {self.when(one)}"
            for one in self.failures()
        ]
        if self.most_in_window() > RATE:
            found.append(f"{self.most_in_window()} of {RATE} within a window")
        if self.spent() > self.most_spent():
            found.append(f"{self.spent()} of {self.most_spent()} in all")
        for event, done in self.done_after().items():
            if not done:
                found.append(f"no conversation was completed after: {event}")
        for client, rows, least, most in self.counted():
            if not least <= rows <= most:
                found.append(f"{client}: counted {rows}, not {least} to {most}")
        return found


def tables_of(upstream: str, plan: Plan) -> str:
    """The upstreams, accounts and clients of a gateway's configuration."""
    return _TABLES.format(
        upstream=upstream, open=OPEN, tight=TIGHT, budget=BUDGET,
        rate=RATE, window=WINDOW_S, sum=plan.budget,
    )  # fmt: skip


async def go_on(asked: Sequence[Asked], seconds: float) -> None:
    """Let clients ask for so long, and until a conversation was completed."""
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    for _ in range(_MOST_LOOKS):
        done = (one.ended > begun for one in reversed(asked) if one.is_completed_conversation)
        if any(done):
            return
        await asyncio.sleep(0.1)


class Machines:
    """Instances, each on a port of its own, and the database behind a link."""

    def __init__(self, folder: Path, plan: Plan, cluster: Cluster, wire: Link, upstream: str):
        self._folder = folder
        self._plan = plan
        self._cluster = cluster
        self._wire = wire
        self._upstream = upstream
        self._stack = ExitStack()
        self.ports = [lasting_port() for _ in range(INSTANCES)]
        self.running: dict[int, GatewayProcess] = {}

    def start(self, number: int) -> None:
        """Start an instance, and wait until it answers."""
        tables = tables_of(self._upstream, self._plan)
        self.running[number] = self._stack.enter_context(
            gateway_process(
                self._folder,
                f"{self._upstream}/v1",
                {"c": "sk-sim-c"},
                workers=2,
                name=f"instance{number}",
                store="",
                storage=f'url = "postgresql://dragoman@127.0.0.1:{self._wire.port}/postgres"',
                tables=tables,
                sync_s=self._plan.sync_s,
                grace_s=30,
                port=self.ports[number],
            )
        )

    def close(self) -> None:
        """Stop all."""
        self._stack.close()

    async def upset(self, run: Run, asked: Sequence[Asked]) -> None:
        """All that is done to them, one after the other; `asked` grows with what clients ask."""
        first, second = self.ports[:2]
        await go_on(asked, self._plan.between_s)
        workers = self.running[0].workers()
        begun, until = await run.do(f"killing {first}", self.running[0].kill_all)
        run.killed.append((begun, until, first))
        run.reported[first] = min(begun, _last_batch(self._cluster.url, workers))
        await go_on(asked, self._plan.between_s)
        await self._without(run, lambda: self._cluster.stop("immediate"), self._cluster.start)
        await go_on(asked, self._plan.between_s)
        await run.do(f"starting {first}", lambda: self.start(0))
        await go_on(asked, self._plan.between_s)
        await run.do(f"stopping {second}", self.running[1].stop)
        await go_on(asked, self._plan.between_s)
        await run.do(f"starting {second}", lambda: self.start(1))
        await self._without(run, lambda: self._cluster.stop("fast"), self._cluster.start)
        await go_on(asked, self._plan.between_s)
        await self._without(run, self._cut, lambda: self._wire.cut(again=True))
        await go_on(asked, self._plan.between_s)

    def _cut(self) -> None:
        self._wire.cut()
        time.sleep(self._plan.cut_s)

    async def _without(
        self, run: Run, gone: Callable[[], object], back: Callable[[], object]
    ) -> None:
        begun = time.monotonic()
        run.away.append((begun, begun + 3600.0))
        await run.do("taking the database away", gone)
        _, until = await run.do("bringing the database back", back)
        run.away[-1] = (begun, until)


def _last_batch(url: str, workers: Sequence[int]) -> float:
    """Since when what one of these processes has counted may be in no row, in monotonic time: when
    the oldest of their last batches was taken."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT until, name FROM claims WHERE name LIKE 'told by %'"
        ).fetchall()
    marks = [until for until, name in found if any(f".{pid}-" in name for pid in workers)]
    day_s = 24 * 3600.0  # for which a claim is kept
    ago_s = time.time() - (min(marks, default=0.0) - day_s)
    return time.monotonic() - ago_s


def lasting_port() -> int:
    """A port that no connection of ours is given while nobody listens there."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def machines(folder: Path, plan: Plan) -> Iterator[tuple[Machines, str, Cluster]]:
    """Instances that serve, the address before them, and their database."""
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        wire = stack.enter_context(link(cluster.socket, plan.delay_s))
        upstream, _ = stack.enter_context(simulator_process())
        made = Machines(folder, plan, cluster, wire, upstream)
        stack.callback(made.close)
        for number in range(INSTANCES):
            made.start(number)
        header = "add_header x-served-by $upstream_addr always;"
        yield made, stack.enter_context(nginx(made.ports, folder, headers=header)), cluster


def disturb(folder: Path, plan: Plan) -> Run:
    """Let clients ask while all of it happens."""
    run = Run(plan)
    with machines(folder, plan) as (made, url, cluster):

        async def all_of_it() -> None:
            port = urlsplit(url).port
            assert port is not None
            clients = Clients(port, plan.pause_s)
            clients.start(plan.clients)
            await made.upset(run, clients.asked)
            await clients.stop()
            run.asked = clients.asked

        asyncio.run(all_of_it())
        made.close()
        lines = [line for one in made.running.values() for line in one.log.splitlines()]
        quiet = ('"level":"info"', '"status":503')
        run.log = [line for line in lines if not any(words in line for words in quiet)]
        run.log += (folder / "error.log").read_text().splitlines()
        run.rows = _rows(cluster.url)
    return run


def _rows(url: str) -> dict[str, int]:
    """Requests that usage counts, by client."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT client, sum(requests)::bigint FROM usage WHERE account <> '' GROUP BY client"
        )
        return dict(found.fetchall())


def main() -> int:
    """Do it, and print what was found; the status is 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(prog="tools.load.chaos", description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--pause-ms", type=float, default=400.0, help="after each answer")
    parser.add_argument("--between", type=float, default=8.0, help="seconds between two events")
    parser.add_argument("--cut", type=float, default=30.0, help="seconds without the database")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="to the database, each way")
    chosen = parser.parse_args()
    plan = Plan(
        chosen.clients, chosen.pause_ms / 1000, 1000, chosen.between, chosen.cut,
        chosen.delay_ms / 1000, 0.2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        run = disturb(Path(folder), plan)
    return report(run)


def report(run: Run) -> int:
    """Print what was found; 1 if anything is not as it should be."""
    write = sys.stdout.write
    for what, count in run.told_apart().most_common():
        write(f"{count:8} {what}\n")
    write(f"{run.most_in_window():8} of {RATE} at most in {WINDOW_S:.0f} s\n")
    write(f"{run.spent():8} of {run.plan.budget} in all\n")
    for client, rows, least, most in run.counted():
        write(f"{rows:8} counted of {client}, of {least} to {most}\n")
    faults = run.faults()
    write("".join(f"{fault}\n" for fault in faults[:40]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
