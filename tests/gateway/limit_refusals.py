"""`python -m tests.gateway.limit_refusals`: one key is refused a thousand times a second; what each
refusal costs, and how long another key's requests take meanwhile. Beside it, the same with as many
requests for `/healthz`: what any answers do, and whoever asks for them on the same machine.
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


def _request(key: str) -> bytes:
    data = json.dumps(ASKED).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


GOOD = _request("sk-of-the-good")
STORMS = {
    "nothing": (b"", 0),
    "/healthz": (b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", 200),
    "refusals": (_request("sk-of-the-refused"), 429),
}
"""What is asked for beside good requests, and the status of the answers."""


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    writer.write(request)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(answer[9:12])


async def _asked(port: int, storm: str, each_s: float, until: float, place: int) -> int:
    """Ask every `each_s` seconds; how often it was. By their `place` connections ask one after
    another, not all at once."""
    request, status = STORMS[storm]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count, due = 0, time.monotonic() + each_s * place / CONNECTIONS
    while due < until:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        assert await _ask(reader, writer, request) == status
        count, due = count + 1, due + each_s
    writer.close()
    return count


async def _good(port: int, until: float) -> list[float]:
    """Ask a hundred times a second; how long each took, in milliseconds, in order."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took: list[float] = []
    while time.monotonic() < until:
        begun = time.monotonic()
        assert await _ask(reader, writer, GOOD) == 200
        took.append((time.monotonic() - begun) * 1000)
        await asyncio.sleep(0.01)
    writer.close()
    return sorted(took)


async def _storm(port: int, storm: str, rate: int, until: float) -> int:
    each_s = CONNECTIONS / rate
    asked = [_asked(port, storm, each_s, until, place) for place in range(CONNECTIONS)]
    return sum(await asyncio.gather(*asked))


def _blow(port: int, storm: str, rate: int, until: float, count: SimpleQueue[int]) -> None:
    count.put(asyncio.run(_storm(port, storm, rate, until)))


def blow(port: int, storm: str, seconds: float, rate: int) -> tuple[list[float], int]:
    """How long good requests took, and how many others there were: these come from another process,
    so that nobody waits here for them."""
    until = time.monotonic() + seconds
    if not STORMS[storm][0]:
        return asyncio.run(_good(port, until)), 0
    count: SimpleQueue[int] = SimpleQueue(ctx=get_context("spawn"))
    others = get_context("spawn").Process(target=_blow, args=(port, storm, rate, until, count))
    others.start()
    took = asyncio.run(_good(port, until))
    others.join()
    return took, count.get()


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
    parser.add_argument("--rounds", type=int, default=6, help="of each in turn")
    parser.add_argument("--rate", type=int, default=1000, help="of them in a second")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--apart", action="store_true", help="core 0 is the gateway's alone")
    chosen = parser.parse_args()
    found: dict[str, list[float]] = {storm: [] for storm in STORMS}
    used, ready = dict.fromkeys(STORMS, 0.0), dict.fromkeys(STORMS, 0.0)
    others = dict.fromkeys(STORMS, 0)
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
            for storm in STORMS:
                before, waited = _cpu_s(serving), _ready_s(serving)
                took, more = blow(port, storm, chosen.seconds, chosen.rate)
                used[storm] += _cpu_s(serving) - before
                ready[storm] += _ready_s(serving) - waited
                others[storm] += more
                found[storm] += took
    for storm, all_took in found.items():
        took = sorted(all_took)
        p50, p90, p99 = (took[int(len(took) * share)] for share in (0.5, 0.9, 0.99))
        each = (used[storm] - used["nothing"]) / max(1, others[storm]) * 1e6
        sys.stdout.write(
            f"{others[storm]:6} {storm:8}: good p50 {p50:.2f} ms, p90 {p90:.2f}, p99 {p99:.2f};"
            f" {each:.0f} us of CPU for each of the others, {ready[storm]:.2f} s ready to run, and"
            " another process had the core\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
