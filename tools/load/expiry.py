"""`python -m tools.load.expiry --seconds 60`: tokens that expire in the middle of 200 requests a
second over four workers. Prints how long requests took around each refresh, and otherwise."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from dragoman.lab.simulator.authority import Authority
from dragoman.lab.simulator.testing import running_simulator
from tests.gateway.clients import PATHS, body
from tests.gateway.http import KEY
from tests.gateway.processes import gateway_process
from tests.gateway.test_credentials_of_workers import TABLES

WORKERS = 4
RATE = 200
LIFE_S = 12.0
"""Of a token; it is refreshed when a fifth of that is left."""
CONNECTIONS = 40
NEAR_S = 0.5
"""Seconds before and after a refresh."""
WARM_UP_S = 5.0


class Sample:
    """One request: when it began, how long it took, and its status."""

    __slots__ = ("at", "seconds", "status")

    def __init__(self, at: float, seconds: float, status: int) -> None:
        self.at, self.seconds, self.status = at, seconds, status


async def asked(port: int, until: float, samples: list[Sample]) -> None:
    """Ask at the rate, each at its time whatever became of those before."""
    due: asyncio.Queue[float] = asyncio.Queue()
    sent = json.dumps(body("chat", "sim-text")).encode()
    head = (
        f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    )

    async def ask_on() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (at := await due.get()) < until:
            writer.write(head.encode() + sent)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            status = int(answer.split(b" ", 2)[1])
            samples.append(Sample(at, time.monotonic() - at, status))
        writer.close()

    asking = [asyncio.create_task(ask_on()) for _ in range(CONNECTIONS)]
    at = time.monotonic()
    while at < until:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        due.put_nowait(at)
        at += 1 / RATE
    for _ in asking:
        due.put_nowait(until)
    await asyncio.gather(*asking)


async def watch(authority: Authority, until: float, refreshes: list[float]) -> None:
    """Note when tokens are issued."""
    known = authority.issued["oauth"]
    while (now := time.monotonic()) < until:
        if authority.issued["oauth"] != known:
            known = authority.issued["oauth"]
            refreshes.append(now)
        await asyncio.sleep(0.005)


def quantile(samples: list[Sample], share: float) -> float:
    """Milliseconds within which so many of the requests were answered."""
    found = sorted(one.seconds for one in samples)
    return found[min(len(found) - 1, int(share * len(found)))] * 1000 if found else 0.0


def main() -> int:
    """Run it. Fails if a request failed, or a worker refreshed by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    samples: list[Sample] = []
    refreshes: list[float] = []
    with tempfile.TemporaryDirectory() as folder, running_simulator() as simulator:
        authority = simulator.app.authority = Authority(life_s=LIFE_S)
        tables = TABLES.format(url=simulator.base_url)
        with gateway_process(
            Path(folder), simulator.base_url, {}, workers=WORKERS, tables=tables
        ) as gateway:
            port = urlsplit(gateway.url).port or 0

            async def run() -> None:
                began = time.monotonic()
                await asyncio.gather(
                    asked(port, began + seconds, samples),
                    watch(authority, began + seconds, refreshes),
                )

            asyncio.run(run())
    failed = [one.status for one in samples if one.status != 200]
    write = sys.stdout.write
    write(f"{len(samples)} requests, {len(failed)} failed, {len(refreshes)} refreshes\n")
    began = min(one.at for one in samples) + WARM_UP_S
    end = max(one.at for one in samples) - NEAR_S
    counted = [at for at in refreshes if began < at - NEAR_S and at < end]
    # As many seconds half way between two refreshes.
    between = [(one + other) / 2 for one, other in pairwise(counted)]
    for name, moments in (("around a refresh", counted), ("between two", between)):
        windows = [[one for one in samples if abs(one.at - at) < NEAR_S] for at in moments]
        p50, p99 = (median([quantile(one, share) for one in windows]) for share in (0.5, 0.99))
        write(f"{name}: {len(windows)} seconds, of a median one p50 {p50:.1f}, p99 {p99:.1f} ms\n")
    most = 2 + seconds / (LIFE_S * 0.7)
    return int(bool(failed) or len(refreshes) > most)


if __name__ == "__main__":
    sys.exit(main())
