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
from statistics import median

from tests.gateway.processes import ASKED, gateway_process, simulator_process

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


async def _refused(port: int, each_s: float, until: float, place: int) -> int:
    """Be refused every `each_s` seconds; how often it was. By their `place` connections ask one
    after another, not all at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count, due = 0, time.monotonic() + each_s * place / CONNECTIONS
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
    each_s = CONNECTIONS / rate
    storm = [_refused(port, each_s, until, place) for place in range(CONNECTIONS)]
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


def _ready_s(pids: list[int]) -> float:
    """Seconds for which processes could have run and had no core."""
    stats = (Path(f"/proc/{pid}/schedstat").read_text().split() for pid in pids)
    return sum(int(one[1]) for one in stats) / 1e9


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="tests.gateway.limit_refusals", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=6, help="with and without refusals in turn")
    parser.add_argument("--rate", type=int, default=1000, help="refusals in a second")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--apart", action="store_true", help="core 0 is the gateway's alone")
    chosen = parser.parse_args()
    found: dict[int, list[tuple[float, float]]] = {0: [], chosen.rate: []}
    used: dict[int, float] = {0: 0.0, chosen.rate: 0.0}
    ready = dict.fromkeys(found, 0.0)
    refused = 0
    with (
        tempfile.TemporaryDirectory(prefix="refusals-") as folder,
        simulator_process() as (simulator, simulator_pid),
        gateway_process(
            Path(folder), simulator, {"a": "sk-sim-chat-0"}, workers=chosen.workers, tables=TABLES
        ) as gateway,
    ):
        serving = gateway.workers() or [gateway.process.pid]
        if chosen.apart:
            for pid in serving:
                os.sched_setaffinity(pid, {0})
            for pid in (0, simulator_pid):
                os.sched_setaffinity(pid, {1})
        port = int(gateway.url.rpartition(":")[2])
        for _ in range(chosen.rounds):
            for rate in found:
                before, waited = _cpu_s(serving), _ready_s(serving)
                took, more = blow(port, chosen.seconds, rate)
                used[rate] += _cpu_s(serving) - before
                ready[rate] += _ready_s(serving) - waited
                refused += more
                found[rate].append((took[len(took) // 2], took[len(took) * 99 // 100]))
    for rate, rounds in found.items():
        p50, p99 = zip(*rounds, strict=True)
        sys.stdout.write(
            f"{rate:5} refusals/s: good p50 {median(p50):.2f} ms, p99 {median(p99):.2f} ms"
            f" (least {min(p99):.2f}); {used[rate]:.2f} s of CPU,"
            f" {ready[rate]:.2f} s without a core that it could have used\n"
        )
    each = (used[chosen.rate] - used[0]) / max(1, refused) * 1e6
    sys.stdout.write(f"{refused} refused, {each:.0f} us of CPU for each\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
