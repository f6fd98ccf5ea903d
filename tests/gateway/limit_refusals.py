"""`python -m tests.gateway.limit_refusals`: one key is refused a thousand times a second; what each
refusal costs, and how long another key's requests take meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from dragoman.simulator.testing import running_simulator
from tests.gateway.processes import ASKED, gateway_process

TABLES = """
[[clients]]
name = "good"
key = "sk-of-the-good"
[[clients]]
name = "refused"
key = "sk-of-the-refused"
[[clients.limits]]
kind = "requests"
amount = 0
window = "1m"
"""
CONNECTIONS = 20


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> int:
    data = json.dumps(ASKED).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(answer[9:12])


async def _refused(port: int, each_s: float, until: float) -> int:
    """Be refused every `each_s` seconds; how often it was."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count, due = 0, time.monotonic()
    while due < until:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        assert await _ask(reader, writer, "sk-of-the-refused") == 429
        count, due = count + 1, due + each_s
    writer.close()
    return count


async def _good(port: int, until: float) -> list[float]:
    """Ask a hundred times a second; how long each took, in milliseconds, in order."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took: list[float] = []
    while time.monotonic() < until:
        begun = time.monotonic()
        assert await _ask(reader, writer, "sk-of-the-good") == 200
        took.append((time.monotonic() - begun) * 1000)
        await asyncio.sleep(0.01)
    writer.close()
    return sorted(took)


async def _storm(port: int, rate: int, until: float) -> int:
    """How many were refused."""
    storm = [_refused(port, CONNECTIONS / rate, until) for _ in range(CONNECTIONS)]
    return sum(await asyncio.gather(*storm))


def _blow(port: int, rate: int, until: float, refused: SimpleQueue[int]) -> None:
    refused.put(asyncio.run(_storm(port, rate, until)))


def blow(port: int, seconds: float, rate: int) -> tuple[list[float], int]:
    """How long good requests took, and how many were refused: those who are come from another
    process, so that nobody waits here for them."""
    until = time.monotonic() + seconds
    if not rate:
        return asyncio.run(_good(port, until)), 0
    refused: SimpleQueue[int] = SimpleQueue(ctx=get_context("spawn"))
    storm = get_context("spawn").Process(target=_blow, args=(port, rate, until, refused))
    storm.start()
    took = asyncio.run(_good(port, until))
    storm.join()
    return took, refused.get()


def _cpu_s(pids: list[int]) -> float:
    """CPU seconds of processes so far."""
    ticks = 0
    for pid in pids:
        ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().split()[13:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="tests.gateway.limit_refusals", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=1000, help="refusals in a second")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="refusals-") as folder,
        running_simulator() as simulator,
    ):
        keys = {"a": "sk-sim-chat-0"}
        with gateway_process(
            Path(folder), simulator.base_url, keys, workers=2, tables=TABLES
        ) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            usual = 0.0
            for rate in (0, chosen.rate, 0, chosen.rate):
                before = _cpu_s(gateway.workers())
                took, refused = blow(port, chosen.seconds, rate)
                used = _cpu_s(gateway.workers()) - before
                told = (
                    f"{rate:5} refusals/s: good p50 {took[len(took) // 2]:.2f} ms,"
                    f" p99 {took[len(took) * 99 // 100]:.2f} ms"
                )
                if refused:
                    told += f"; {(used - usual) / refused * 1e6:.0f} us of CPU for a refusal"
                else:
                    usual = used
                sys.stdout.write(told + "\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
