"""`python -m tests.gateway.limit_storm`: requests of all protocols, whole and streamed, while
clients leave, upstreams fail and workers are killed; and what is counted in the end.

Afterwards nothing is reserved, and what was spent is what the rows of usage add up to, to the unit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dragoman.lab.simulator.testing import running_simulator
from tests.gateway.clients import PATHS, body
from tests.gateway.http import call
from tests.gateway.processes import GatewayProcess, gateway_process

KEY = "sk-of-the-storm"
SETTINGS = """
[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{base_url}"
[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "{base_url}"
{accounts}
[[prices]]
model = "*"
input = "3"
cached = "0.3"
cache_write = "3.75"
output = "15"
[[teams]]
name = "t"
[[teams.limits]]
kind = "requests"
amount = 100000000
window = "day"
[[teams.limits]]
kind = "concurrent"
amount = 60
queue_s = 20
[[clients]]
name = "storm"
key = "{key}"
team = "t"
"""
ACCOUNTS = 30
"""Of each upstream, since failures take accounts out for a while."""
ACCOUNT = """
[[accounts]]
name = "{name}"
upstream = "{upstream}"
key = "sk-sim-{name}"
"""
LIMIT = """
[[clients.limits]]
kind = "{kind}"
amount = {amount}
window = "{window}"
{more}
"""
MODELS = (
    "sim-text",
    "sim-text",
    "sim-cached_usage",
    "sim-reasoning",
    "sim-text?delay_ms=20",
    "sim-text?head_ms=40",
    "sim-text?words=300",
    "sim-429",
    "sim-500",
    "sim-error_in_stream?after=2",
    "sim-truncated",
    "sim-nothing",
)


def settings(base_url: str) -> str:
    """Further tables of the configuration: limits of every kind that are never reached."""
    much = {"cost": '"1000000"'}
    limits = [
        LIMIT.format(
            kind=kind,
            amount=much.get(kind, 10**14),
            window=window,
            more="count_cached = true" if kind in ("tokens", "input_tokens") else "",
        )
        for kind, window in (
            ("requests", "total"),
            ("tokens", "total"),
            ("input_tokens", "month"),
            ("output_tokens", "day"),
            ("cost", "total"),
            ("tokens", "5h"),
            ("requests", "1m"),
        )
    ]
    accounts = "".join(
        ACCOUNT.format(name=f"{name}-{number}", upstream=name)
        for name in ("messages", "responses")
        for number in range(ACCOUNTS)
    )
    return SETTINGS.format(base_url=base_url, key=KEY, accounts=accounts) + "".join(limits)


@dataclass
class Storm:
    """Clients that ask until so many requests were begun."""

    port: int
    chance: random.Random
    left: int
    ends: Counter[str] = field(default_factory=Counter)

    async def run(self, clients: int) -> None:
        """Ask, with so many clients at once."""
        await asyncio.gather(*(self._client() for _ in range(clients)))

    async def _client(self) -> None:
        while self.left > 0:
            self.left -= 1
            try:
                end = await asyncio.wait_for(self._ask(), 30)
            except (OSError, EOFError, ValueError) as error:
                end = type(error).__name__
            except TimeoutError:
                end = "timeout"
            self.ends[end] += 1

    async def _ask(self) -> str:
        chance = self.chance
        api = chance.choice(tuple(PATHS))
        model = f"{chance.choice(('chat', 'messages', 'responses'))}/{chance.choice(MODELS)}"
        more: dict[str, Any] = {"stream": chance.random() < 0.5}
        if api == "responses":
            more["store"] = False
        text = "word " * chance.randrange(1, 200)
        data = json.dumps(body(api, model, text, **more)).encode()
        head = (
            f"POST {PATHS[api]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
            "connection: close\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(head.encode() + data)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.08)
                if chance.random() < 0.5:
                    await asyncio.wait_for(reader.read(64), 30)
                return "left"
            answer = await reader.read()
            return answer[9:12].decode() or "broken off"
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@dataclass
class Found:
    """What was counted: by limits, and by the rows of usage."""

    limits: list[dict[str, Any]]
    rows: dict[str, int]
    ends: Counter[str]
    killed: int
    seconds: float
    log: list[str] = field(default_factory=list)
    """What the gateway logged at levels above info, but of requests."""

    def reserved(self) -> list[Any]:
        """What is still reserved, by limit."""
        return [one["reserved"] for one in self.limits if one["reserved"] not in (0, "0")]

    @property
    def agrees(self) -> bool:
        """Whether limits and rows say the same."""
        return all(limit == rows for _, limit, rows in self.spent())

    def spent(self) -> Iterator[tuple[str, int, int]]:
        """Of each limit of the key that keeps all: its name, what it says, and what rows say."""
        for one in self.limits:
            if one["scope"] == "key" and one["window"] != "1m":
                used = one["used"]
                if one["kind"] == "cost":
                    whole, _, part = used.partition(".")
                    used = int(whole) * 10**12 + int(part.ljust(12, "0"))
                yield f"{one['kind']}:{one['window']}", used, self.rows[one["kind"]]


async def _kill_now_and_then(
    gateway: GatewayProcess, chance: random.Random, every_s: float
) -> None:
    while True:
        await asyncio.sleep(every_s * (0.5 + chance.random()))
        workers = gateway.workers()
        if len(workers) > 1:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                _KILLED.append(1)


_KILLED: list[int] = []


async def _blow(gateway: GatewayProcess, requests: int, seed: int, kill_every_s: float) -> Storm:
    port = urlsplit(gateway.url).port
    assert port is not None
    storm = Storm(port, random.Random(seed), requests)
    killer = None
    if kill_every_s:
        chance = random.Random(seed + 1)
        killer = asyncio.create_task(_kill_now_and_then(gateway, chance, kill_every_s))
    await storm.run(40)
    if killer is not None:
        killer.cancel()
    return storm


@contextmanager
def _served(folder: Path, base_url: str, workers: int) -> Iterator[GatewayProcess]:
    more = settings(base_url)
    keys = {f"chat-{number}": f"sk-sim-chat-{number}" for number in range(ACCOUNTS)}
    with gateway_process(folder, base_url, keys, workers=workers, tables=more) as gateway:
        yield gateway


def blow(folder: Path, requests: int, workers: int, seed: int, kill_every_s: float) -> Found:
    """Let a storm blow over a gateway, and tell what was counted."""
    begun = time.monotonic()
    _KILLED.clear()
    with running_simulator() as simulator, _served(folder, simulator.base_url, workers) as gateway:
        storm = asyncio.run(_blow(gateway, requests, seed, kill_every_s))
        limits = _settled(gateway, folder)
        gateway.stop()
    rows = _rows(folder)
    log = [
        line
        for line in gateway.log.splitlines()
        if '"level":"info"' not in line and '"route"' not in line
    ]
    return Found(limits, rows, storm.ends, len(_KILLED), time.monotonic() - begun, log)


def _rows(folder: Path) -> dict[str, int]:
    """What rows of usage tell, of each kind."""
    with closing(sqlite3.connect(folder / "kept.db")) as store:
        found = store.execute(
            "SELECT sum(iif(account = '', 0, requests)), sum(input), sum(output),"
            " sum(input + output) FROM usage WHERE client = 'storm'"
        ).fetchone()
        rows = dict(
            zip(("requests", "input_tokens", "output_tokens", "tokens"), found, strict=True)
        )
        (rows["cost"],) = store.execute(
            "SELECT sum(cost) FROM charges WHERE client = 'storm'"
        ).fetchone()
    return rows


def _settled(gateway: GatewayProcess, folder: Path) -> list[dict[str, Any]]:
    """The limits, once they have been what rows say for longer than it takes to give back what a
    worker had; or, where they are not, nothing has changed for so long that nothing will."""
    deadline, same_since = time.monotonic() + 120, time.monotonic()
    last: list[dict[str, Any]] = []
    while time.monotonic() < deadline:
        same_s = time.monotonic() - same_since
        if same_s > 40.0 or (same_s > 3.0 and Found(last, _rows(folder), Counter(), 0, 0).agrees):
            break
        with suppress(OSError):
            found = call(gateway.url, "GET", "/v1/key", key=KEY).json["limits"]
            told = [(one["used"], one["reserved"]) for one in found]
            if told != [(one["used"], one["reserved"]) for one in last]:
                last, same_since = found, time.monotonic()
        time.sleep(0.1)
    return last


def main() -> int:
    """Blow, and print what was found; the status is 1 if anything does not add up."""
    parser = argparse.ArgumentParser(prog="tests.gateway.limit_storm", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-every", type=float, default=3.0, metavar="SECONDS")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        found = blow(Path(folder), chosen.requests, chosen.workers, chosen.seed, chosen.kill_every)
    write = sys.stdout.write
    write(f"{sum(found.ends.values())} requests in {found.seconds:.0f} s: {dict(found.ends)}\n")
    write(f"{found.killed} workers killed\nreserved: {found.reserved() or 0}\n")
    for name, limit, rows in found.spent():
        write(f"{name:24}{limit:>24}{rows:>24}  {'same' if limit == rows else 'DIFFERENT'}\n")
    return int(bool(found.reserved()) or not found.agrees)


if __name__ == "__main__":
    sys.exit(main())
