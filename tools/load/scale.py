"""``python -m tools.load.scale [NAME ...]``: a gateway and thousands of clients that ask little,
slowly, or nothing, and what it holds for them.

``slow``      connections that send a byte of a request's head each second
``idle``      connections that have asked once, and are kept
``half``      clients that have ended their side behind a request, and clients that have vanished
``streams``   streams of which every tenth reader has stopped

Good requests are sent meanwhile. Told are those that failed, how long they took (on a machine with
other work that says little), memory and files at most, and whether all was given back at the end.
Limits of open files are raised as far as the system lets one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import targets
from bench.targets import Cores
from tests.gateway.clients import PATHS, body
from tests.gateway.http import KEY
from tests.gateway.processes import GatewayProcess, gateway_process

SETTINGS = """
head_timeout_s = 8.0
idle_timeout_s = {idle_s}
send_timeout_s = 4.0
max_connections = 15000
max_concurrent = 5000
"""
BUDGET = 512 * 1024 * 1024
AT_ONCE = 200
"""Connections that are opened at the same time."""

_ESTABLISHED = "01"
LAST = b"0\r\n\r\n"


@dataclass
class Run:
    """One run: the gateway, and what was seen of it."""

    process: GatewayProcess
    count: int
    memory: int = 0
    files: int = 0
    good: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where the gateway listens."""
        return int(self.process.url.rpartition(":")[2])

    def resident(self) -> int:
        """Bytes of the gateway's that are in memory."""
        pages = int(Path(f"/proc/{self.process.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def clients(self) -> int:
        """Connections of clients that the gateway holds."""
        own = f":{self.port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(one[1].endswith(own) and one[3] == _ESTABLISHED for one in lines)

    def open_files(self) -> int:
        """Files that the gateway has open."""
        return len(os.listdir(f"/proc/{self.process.process.pid}/fd"))


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(events: int = 1, rate: int = 0, *, stream: bool = False) -> bytes:
    """A request to which the upstream answers with so many events, so many in a second."""
    made = body("chat", "chat/bench", f"bench-e{events}-r{rate}", stream=stream)
    data = json.dumps(made).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def opened(run: Run, received: int = 0) -> Streams:
    """A connection; `received` are the bytes that its kernel takes, 0 for the usual."""
    sock = socket.socket()
    sock.setblocking(False)
    if received:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", run.port))
    return await asyncio.open_connection(sock=sock, limit=received or 65536)


async def all_opened(run: Run, received: int = 0) -> list[Streams]:
    """As many connections as are wanted."""
    found: list[Streams] = []
    while len(found) < run.count:
        some = min(AT_ONCE, run.count - len(found))
        found += await asyncio.gather(*[opened(run, received) for _ in range(some)])
    return found


async def answered(reader: asyncio.StreamReader) -> bytes:
    """Read a whole answer; returns its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length or b"0"))
    return head


async def good(run: Run) -> None:
    """One request after another, until cancelled."""
    asked = request()
    while True:
        started = time.monotonic()
        try:
            async with asyncio.timeout(30):
                reader, writer = await opened(run)
                writer.write(asked)
                head = await answered(reader)
                writer.close()
        except (OSError, EOFError, TimeoutError) as error:
            run.failures.append(type(error).__name__)
            continue
        if not head.startswith(b"HTTP/1.1 200 "):
            run.failures.append(head[:40].decode())
        run.good.append(time.monotonic() - started)
        await asyncio.sleep(0.02)


async def watch(run: Run) -> None:
    """Notes what the gateway takes, until cancelled."""
    while True:
        run.memory = max(run.memory, run.resident())
        run.files = max(run.files, run.open_files())
        await asyncio.sleep(0.2)


async def slow(run: Run) -> None:
    """Bytes of a head, one each second, until the gateway ends it."""
    before = run.resident()
    connections = await all_opened(run)
    for _, writer in connections:
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: ")
    await asyncio.sleep(1)
    each = (run.resident() - before) / run.count
    run.told.append(f"{each / 1024:.1f} KB for each of {len(connections)}")
    ended = [asyncio.create_task(reader.read()) for reader, _ in connections]
    for _ in range(12):
        for _, writer in connections:
            if not writer.is_closing():
                writer.write(b"x")
        await asyncio.sleep(1)
    done, waiting = await asyncio.wait(ended, timeout=20)
    refused = sum(one.exception() is None and b" 408 " in one.result()[:20] for one in done)
    run.told.append(f"{len(done)} ended by the gateway, {refused} with 408, {len(waiting)} not")
    for _, writer in connections:
        writer.transport.abort()


async def idle(run: Run) -> None:
    """One request each, and then nothing."""
    warm = await all_opened(Run(run.process, 200))
    await asyncio.gather(*[_ask(*one) for one in warm])
    for _, writer in warm:
        writer.close()
    await asyncio.sleep(1)
    before = run.resident()
    connections = await all_opened(run)
    for start in range(0, run.count, AT_ONCE):
        await asyncio.gather(*[_ask(*one) for one in connections[start : start + AT_ONCE]])
    await asyncio.sleep(2)
    each = (run.resident() - before) / run.count
    run.told.append(f"{each / 1024:.1f} KB for each of {run.count} (budget: 8 KB)")
    for start in range(0, run.count, AT_ONCE):
        await asyncio.gather(*[_ask(*one) for one in connections[start : start + AT_ONCE]])
    run.told.append("all answer again")
    for _, writer in connections:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(request())
    head = await answered(reader)
    assert head.startswith(b"HTTP/1.1 200 "), head


async def half(run: Run) -> None:
    """Half of them end their side behind a request for a stream, half take nothing of one."""
    connections = await all_opened(run, 4096)
    for number, (_, writer) in enumerate(connections):
        if number % 2:
            writer.write(request(50, 10, stream=True))
            writer.write_eof()
        else:
            writer.write(request(5000, stream=True))
    ended = await asyncio.gather(
        *[reader.read() for reader, _ in connections[1::2]], return_exceptions=True
    )
    run.told.append(f"{len(ended)} that were half closed were left")
    # Those that read nothing are cut off: what they were sent is not all there was to be.
    async with asyncio.timeout(120):
        while run.clients() > 10:  # noqa: ASYNC110 - those of another process
            await asyncio.sleep(0.2)
    run.told.append(f"{len(connections) // 2} that took nothing were cut off")
    for _, writer in connections:
        writer.transport.abort()


async def streams(run: Run) -> None:
    """Nine of ten read 100 events in ten seconds; the tenth asks for 2 MB and stops to read."""
    stopped = await all_opened(Run(run.process, run.count // 10), 4096)
    connections = await all_opened(Run(run.process, run.count - len(stopped)))
    whole = 0

    async def read(reader: asyncio.StreamReader) -> None:
        nonlocal whole
        last = b""
        while data := await reader.read(65536):
            last = (last + data)[-len(LAST) :]
            if last == LAST:
                whole += 1
                return

    reading = []
    for number, (reader, writer) in enumerate(connections):
        if number % 9 == 0 and number // 9 < len(stopped):
            stopped[number // 9][1].write(request(10_000, stream=True))
        writer.write(request(100, 10, stream=True))
        reading.append(asyncio.create_task(read(reader)))
    await asyncio.wait(reading, timeout=120)
    run.told.append(f"{whole} of {len(connections)} good streams were whole")
    for _, writer in [*connections, *stopped]:
        writer.transport.abort()


KINDS: dict[str, tuple[int, Callable[[Run], Awaitable[None]]]] = {
    "slow": (10_000, slow),
    "idle": (5_000, idle),
    "half": (400, half),
    "streams": (2_000, streams),
}


async def run_of(process: GatewayProcess, name: str, count: int) -> Run:
    """One run of a kind."""
    run = Run(process, count)
    tasks = [asyncio.create_task(work) for work in (good(run), watch(run))]
    if name == "idle":
        tasks.pop(0).cancel()  # Its own memory would be counted.
    await KINDS[name][1](run)
    await asyncio.sleep(1.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    run.told.append(f"then {run.open_files()} files, {run.resident() / 1e6:.0f} MB")
    return run


@contextmanager
def gateway(folder: Path, idle_s: float) -> Iterator[GatewayProcess]:
    """A gateway over the load upstream, in a process of its own."""
    with (
        targets.upstreams(folder, Cores(None, None)) as up,
        gateway_process(
            folder,
            f"http://127.0.0.1:{up.plain}",
            {"one": "sk-sim-one"},
            server=SETTINGS.format(idle_s=idle_s),
            files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ) as process,
    ):
        yield process


def raise_files() -> None:
    """Let this process and those it starts open as many files as they may."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    """Run and tell."""
    parser = argparse.ArgumentParser(prog="tools.load.scale", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(KINDS))
    parser.add_argument("--count", type=int, help="clients, instead of those of each kind")
    chosen = parser.parse_args()
    raise_files()
    for name in chosen.names or KINDS:
        with (
            tempfile.TemporaryDirectory() as folder,
            gateway(Path(folder), 600.0 if name == "idle" else 5.0) as process,
        ):
            run = asyncio.run(run_of(process, name, chosen.count or KINDS[name][0]))
        times = sorted(run.good) or [0.0]
        middle, most = times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000
        sys.stdout.write(
            f"{name}: {'; '.join(run.told)}\n"
            f"  at most {run.memory / 1e6:.0f} MB, {run.files} files\n"
            f"  good: {len(run.good)}, failed {len(run.failures)} {run.failures[:3]},"
            f" p50 {middle:.1f} ms, p99 {most:.1f} ms\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
