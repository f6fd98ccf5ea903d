"""``python -m bench.store``: what a store costs the gateway, and what an exchange costs by itself.

The same small requests go to one worker without a store, with one, and with one of 10,000 accounts,
in turn: as fast as they are answered, and at 500 a second. With ``--url`` one more has its store in
that PostgreSQL; the statements that it makes are counted where pg_stat_statements is loaded there,
and the processor's time of the server where it is on this machine. ``--workers`` and ``--rate``
change how many processes each gateway has, and what it is asked in a second.
``python -m tests.storage.cluster python -m bench.store --url URL`` starts one.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from bench import targets
from bench.load_client import close, connect, repeat
from bench.measure import MARK, Cell, request_cost
from bench.processes import Child, cpu_seconds, free_port, resident_bytes
from bench.targets import CLIENT_KEY, Cores, Target, Upstreams
from dragoman.accounts.store import Batch, UsageCount, UsageKey
from dragoman.config import Account, Secret
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.sqlite import SqliteStore

MANY = 10_000
RATE = 500
SYNC_S = 0.2
STORE_KEY = "correct horse battery"
CELL = Cell("anthropic_messages", "openai_chat")
IN_DATABASE = "PostgreSQL, 1 account"
ROUNDS = 5
REQUESTS = 1500
PACED_S = 3.0


def fill(path: Path, count: int) -> None:
    """Make a store of so many accounts."""
    cipher = AesGcmCipher(Secret(STORE_KEY))
    store = SqliteStore(path)
    store.define(
        cipher.seal(
            Account(name=f"kept-{number:05}", upstream="chat", key=Secret(f"sk-{number:050}"))
        )
        for number in range(count)
    )
    store.close()


@contextmanager
def gateway(
    folder: Path, cores: Cores, up: Upstreams, store: str, workers: int
) -> Iterator[Target]:
    """A gateway over the load upstream."""
    folder.mkdir(exist_ok=True)
    port, config = free_port(), folder / "dragoman.toml"
    config.write_text(
        f"""
[server]
port = {port}
workers = {workers}
[[clients]]
name = "bench"
key = "{CLIENT_KEY}"
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "http://127.0.0.1:{up.plain}"
[[accounts]]
name = "own"
upstream = "chat"
key = "bench"
[[routes]]
match = "bench-chat"
upstream = "chat"
[storage]
{store}
key = "{STORE_KEY}"
"""
    )
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    with Child(command, core=cores.gateway, log=folder / "log") as child:
        yield Target(folder.name, port, child.pid, child.listening(port))


async def paced_cost(target: Target, request: bytes, rate: int) -> float:
    """CPU seconds per second at so many requests a second."""
    links = await connect(target.port, 16, MARK)
    try:
        await repeat(links, request, 50)
        begun, before = time.perf_counter(), cpu_seconds(target.pid)
        sent, some = 0, max(1, rate // 20)
        while (passed := time.perf_counter() - begun) < PACED_S:
            if sent <= passed * rate:
                await repeat(links, request, some)
                sent += some
            else:
                await asyncio.sleep(sent / rate - passed)
        return (cpu_seconds(target.pid) - before) / (time.perf_counter() - begun)
    finally:
        close(links)


class Statements:
    """The statements that a PostgreSQL has done, by `pg_stat_statements`."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def count(self) -> int:
        """All of them so far but those that count."""
        row = self._connection.execute(
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements"
            " WHERE query NOT LIKE '%pg_stat_statements%'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def seconds(self) -> float:
        """CPU seconds of the server so far; 0 if it is on another machine."""
        backend = self._connection.info.backend_pid
        try:
            parent = Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            return 0.0
        return cpu_seconds(int(parent))

    async def idle(self) -> tuple[float, float]:
        """Statements and CPU seconds per second while nobody asks for anything."""
        before, busy = self.count(), self.seconds()
        await asyncio.sleep(PACED_S)
        return (self.count() - before) / PACED_S, (self.seconds() - busy) / PACED_S


async def measure(running: dict[str, Target], statements: Statements | None, rate: int) -> None:
    """Print the medians of all rounds."""
    request = CELL.request()
    fast: dict[str, list[float]] = {name: [] for name in running}
    paced: dict[str, list[float]] = {name: [] for name in running}
    made: list[float] = []
    served: list[float] = []
    for _ in range(ROUNDS):
        for name, target in running.items():
            fast[name].append(await request_cost(target, request, REQUESTS))
            before = (
                (statements.count(), statements.seconds()) if statements is not None else (0, 0)
            )
            paced[name].append(await paced_cost(target, request, rate))
            if statements is not None and name == IN_DATABASE:
                made.append((statements.count() - before[0]) / (rate * PACED_S / 1000))
                served.append((statements.seconds() - before[1]) / PACED_S)
    if statements is not None:
        idle, busy = await statements.idle()
        print(  # noqa: T201
            f"statements in the database: {statistics.median(made):.0f} per 1,000 requests at "
            f"{rate}/s; {idle:.0f} a second without any; the server takes "
            f"{statistics.median(served) * 100:.2f} % of a core, {busy * 100:.2f} % without any"
        )
    for name, target in running.items():
        each, share = statistics.median(fast[name]), statistics.median(paced[name])
        print(  # noqa: T201
            f"{name:24} {each * 1e6:6.0f} us CPU per request at full speed; "
            f"{share * 100:5.2f} % of a core at {rate}/s; "
            f"{resident_bytes(target.pid) / 1e6:5.1f} MB; started in {target.started:.2f} s"
        )


def exchanges(path: Path) -> None:
    """Print what an exchange costs by itself, with the accounts of `path` used at `RATE`."""
    store, rolls = SqliteStore(path), random.Random(3)
    version, spent = store.exchange("w", Batch(), 0).version, []
    for _ in range(50):
        now = time.time()
        names = [f"kept-{rolls.randrange(MANY):05}" for _ in range(round(RATE * SYNC_S))]
        batch = Batch(
            used=dict.fromkeys(names, now),
            usage={UsageKey(0, name, "me", "m", "/v1/messages"): UsageCount(1) for name in names},
            pins={rolls.randbytes(16): (name, now) for name in names},
            leases=dict.fromkeys(names[:20], 1),
        )
        before = time.process_time()
        version = store.exchange("w", batch, version).version
        spent.append(time.process_time() - before)
    busy = statistics.median(spent)
    spent.clear()
    for _ in range(200):
        before = time.process_time()
        store.exchange("w", Batch(leases=batch.leases), version)
        spent.append(time.process_time() - before)
    store.close()
    print(  # noqa: T201
        f"an exchange of {round(RATE * SYNC_S)} requests over {MANY} accounts: "
        f"{busy * 1e3:.2f} ms CPU ({busy / SYNC_S * 100:.2f} % of a core at {RATE}/s); "
        f"one without news: {statistics.median(spent) * 1e6:.0f} us"
    )


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="bench.store", description=__doc__)
    parser.add_argument("--url", help="of an empty PostgreSQL")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rate", type=int, default=RATE)
    chosen = parser.parse_args()
    cores = Cores.of_this_machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        up = stack.enter_context(targets.upstreams(folder, cores))
        if cores.load is not None:
            os.sched_setaffinity(0, {cores.load})
        (folder / "many").mkdir()
        fill(folder / "many" / "kept.db", MANY)
        stores = [
            ("no store", "none", 'path = ""'),
            ("a store, 1 account", "one", 'path = "kept.db"'),
            (f"a store, {MANY} accounts", "many", 'path = "kept.db"'),
        ]
        if chosen.url:
            stores.append((IN_DATABASE, "database", f'url = "{chosen.url}"'))
        running = {
            name: stack.enter_context(gateway(folder / place, cores, up, store, chosen.workers))
            for name, place, store in stores
        }
        counted = Statements(chosen.url) if chosen.url else None
        uvloop.run(measure(running, counted, chosen.rate))
        exchanges(folder / "many" / "kept.db")


if __name__ == "__main__":
    main()
