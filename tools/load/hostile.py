"""``python -m tools.load.hostile``: a gateway under good traffic, and clients that mean harm.

Good requests are sent all the time, alone at first and then among the others. Told are how many
failed, how long they took, and what memory and files the gateway had at most. Times are told only:
on a machine with other work they say little. The gateway has a core of its own, as clients have
machines of theirs. It takes ten minutes, unless told otherwise, and ends with status 1 if a good
request failed, or the gateway took more memory or files than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateway.clients import PATHS, body
from tests.gateway.http import KEY
from tests.gateway.processes import GatewayProcess, gateway_process, simulator_process

SETTINGS = """
head_timeout_s = 1.0
body_timeout_s = 2.0
idle_timeout_s = 2.0
send_timeout_s = 1.0
body_limit_bytes = 4000000
memory_limit_bytes = 60000000
max_connections = 300
trusted_proxies = ["127.0.0.1"]
"""
OTHER_UPSTREAM = """
[[upstreams]]
name = "harm"
protocol = "openai_chat"
base_url = "{base_url}"
[[accounts]]
name = "two"
upstream = "harm"
key = "sk-sim-two"
[admin]
key = "operators-key-0123456789"
"""
FILES = 1024
MOST_MEMORY = 200_000_000
MOST_FILES = 512
ALONE_S = 3.0
_END_S = 30.0
"""Seconds after its time within which the process that does harm must have ended."""
_GOOD = 6
_EACH = 4
"""Clients of each hostile kind at once."""

_PAUSE_S = 0.4
"""Seconds that each waits at most before it comes again."""


@dataclass
class Found:
    """What became of the good requests, and what the gateway took."""

    alone: list[float] = field(default_factory=list)
    """Seconds of each good request while nobody did harm."""
    among: list[float] = field(default_factory=list)
    """And among the others."""
    failures: list[str] = field(default_factory=list)
    memory: int = 0
    files: int = 0
    harm: dict[str, int] = field(default_factory=dict)
    """Times that each kind of harm was tried."""

    @property
    def withstood(self) -> bool:
        """Whether good requests were sent among the others, none failed, and memory and files
        stayed within their limits."""
        within = self.memory < MOST_MEMORY and self.files < MOST_FILES
        return bool(self.among) and not self.failures and within


def attack(
    process: GatewayProcess, seconds: float, kinds: Sequence[str] = (), alone_s: float = ALONE_S
) -> Found:
    """Send good requests alone, then among harm for so many seconds: of these kinds, or else of
    every kind."""
    return asyncio.run(_attack(process, seconds, kinds, alone_s))


async def _attack(
    process: GatewayProcess, seconds: float, kinds: Sequence[str], alone_s: float
) -> Found:
    found = Found()
    port = int(process.url.rpartition(":")[2])
    until_alone = time.monotonic() + alone_s
    until = until_alone + seconds
    good = [
        asyncio.create_task(_good(port, stream, until_alone, until, found))
        for stream in [False, True] * (_GOOD // 2)
    ]
    watch = asyncio.create_task(_watch(process.process.pid, until, found))
    await asyncio.sleep(alone_s)
    # Not in this process, whose own work would be taken for the gateway's slowness.
    command = [sys.executable, "-m", "tools.load.hostile", *kinds, "--harm", str(port)]
    harm = await asyncio.create_subprocess_exec(
        *command, "--seconds", str(seconds), stdout=asyncio.subprocess.PIPE
    )
    try:
        told, _ = await asyncio.wait_for(harm.communicate(), seconds + _END_S)
    finally:
        if harm.returncode is None:
            harm.kill()
    await asyncio.gather(*good, watch)
    found.harm = json.loads(told)
    return found


async def _harm(port: int, seconds: float, names: Sequence[str]) -> dict[str, int]:
    """Do harm of the kinds named for so many seconds; returns how often each was tried."""
    yield_to_others()
    until = time.monotonic() + seconds
    kinds = [kind for kind in HARM if kind.__name__ in names]
    tried: dict[str, int] = {kind.__name__: 0 for kind in kinds}
    tasks = [
        asyncio.create_task(_repeated(kind, port, until, tried))
        for kind in kinds
        for _ in range(_EACH)
    ]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tried


OFFICE = "x-forwarded-for: 192.0.2.1\r\n"
"""The address of good clients and of strangers who guess keys: that of one office."""


def _request(made: dict[str, object], extra: bytes = b"", key: str = KEY) -> bytes:
    data = json.dumps(made).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n{OFFICE}"
    return b"%bcontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b" % (
        head.encode(),
        extra,
        len(data),
        data,
    )


async def _good(port: int, stream: bool, until_alone: float, until: float, found: Found) -> None:
    """One request after another, on a connection that is kept as long as the gateway keeps it."""
    asked = _request(body("chat", "chat/sim-text?words=5", stream=stream))
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while time.monotonic() < until:
        started = time.monotonic()
        try:
            async with asyncio.timeout(20):
                if connection is None:
                    connection = await asyncio.open_connection("127.0.0.1", port)
                reader, writer = connection
                writer.write(asked)
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200 "):
                    found.failures.append(head[:60].decode())
                if stream:
                    await reader.readuntil(b"\r\n0\r\n\r\n")
                else:
                    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                    await reader.readexactly(int(length))
        except (OSError, EOFError, TimeoutError) as error:
            found.failures.append(f"{type(error).__name__}: {error}")
            connection = None
            continue
        ended = time.monotonic()
        (found.alone if ended < until_alone else found.among).append(ended - started)
        if b"connection: close" in head:
            writer.close()
            connection = None
        await asyncio.sleep(0.01)
    if connection is not None:
        connection[1].close()


async def _watch(pid: int, until: float, found: Found) -> None:
    while time.monotonic() < until:
        found.memory = max(found.memory, _resident(pid))
        found.files = max(found.files, len(os.listdir(f"/proc/{pid}/fd")))
        await asyncio.sleep(0.2)


def _resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _repeated(
    kind: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    port: int,
    until: float,
    tried: dict[str, int],
) -> None:
    while time.monotonic() < until:
        tried[kind.__name__] += 1
        writer = None
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await kind(reader, writer)
        if writer is not None:
            writer.transport.abort()
        await asyncio.sleep(random.random() * _PAUSE_S)


async def slow_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"GET /healthz HTTP/1.1\r\nhost: x\r\n" * 10:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def endless_trailers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ")
    for _ in range(200):
        writer.write(b"x" * 50_000)
        await writer.drain()


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def stops_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    made = body("chat", "harm/sim-flood?events=3000&bytes=1000", stream=True)
    writer.write(_request(made))
    await reader.read(10)
    await asyncio.sleep(3)


async def leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = _request(body("chat", "harm/sim-text?delay_ms=50&words=20", stream=True))
    writer.write(data[: random.randrange(len(data) + 1)])
    await asyncio.sleep(0.02)


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(random.randbytes(1000))
    await reader.read()


async def large_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 200_000)
    await reader.read()


async def sent_ahead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    offer = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    writer.write(offer * 300)
    await reader.read(1000)


async def packed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = gzip.compress(b'{"model":"chat/sim-text","messages":[' + b" " * 3_500_000)
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    head += f"content-encoding: gzip\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await reader.read(100)


async def many_messages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    turn = b'{"role":"user","content":"x"},'
    made = b'{"model":"chat/sim-text","messages":[%b]}' % (turn * 100_000).rstrip(b",")
    data = gzip.compress(made)
    head = f"POST {PATHS['messages']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    head += f"content-encoding: gzip\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await reader.read(100)


async def guesses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for number in range(20):
        writer.write(_request(body("chat", "chat/sim-text"), key=f"sk-guess-{number}"))
        await reader.read(10_000)


async def tiny_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    writer.write(head.encode() + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(100):
        writer.write(b"1\r\n \r\n" * 1000)
        await writer.drain()


def _post(path: str, data: bytes, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{OFFICE}"
    return f"{head}{more}content-length: {len(data)}\r\n\r\n".encode() + data


async def signs_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    values = b'{"y":"\\ud800","x":[%b{}]}' % (b"{}," * 345_000)
    writer.write(_post("/admin/session", gzip.compress(values, 9), "content-encoding: gzip\r\n"))
    await reader.read(1000)
    for number in range(20):
        writer.write(_post("/admin/session", b'{"key":"operators-key-of-mine-%d"}' % number))
        await reader.read(1000)


async def forwards(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    hops = "127.0.0.1," * 6000
    for path in ("/v1/models", "/metrics", "/admin/accounts"):
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n"
        writer.write(f"{head}x-forwarded-for: {hops}192.0.2.1\r\n\r\n".encode())
        await reader.read(10_000)


async def opens_sockets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = f"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n{OFFICE}connection: upgrade\r\n"
    head += "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
    head += "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    for _ in range(20):
        writer.write(head.encode())
        await reader.read(10_000)


STRANGERS = (
    slow_head,
    nothing,
    endless_trailers,
    trickle,
    garbage,
    large_head,
    sent_ahead,
    guesses,
    signs_in,
    forwards,
    opens_sockets,
)
"""Kinds of harm for which no key is needed."""
HARM = (
    slow_head,
    nothing,
    endless_trailers,
    trickle,
    stops_reading,
    leaves,
    garbage,
    large_head,
    sent_ahead,
    packed,
    many_messages,
    guesses,
    tiny_chunks,
    signs_in,
    forwards,
    opens_sockets,
)


@contextmanager
def victim(folder: Path, base_url: str, harm_url: str) -> Iterator[GatewayProcess]:
    """A gateway whose limits are short and small. Good requests go to one upstream, harm to the
    other."""
    keys = {"one": "sk-sim-one"}
    other = OTHER_UPSTREAM.format(base_url=harm_url)
    with gateway_process(
        folder, base_url, keys, server=SETTINGS, files=FILES, account=other
    ) as process:
        yield process


def yield_to_others(pid: int = 0) -> None:
    """Let a process run only while no other wants to. Who does harm has machines of his own: here
    his work would be taken for the gateway's slowness."""
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Run here only, and start processes that do."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def victim_apart() -> Iterator[GatewayProcess]:
    """A gateway with a core of its own, where there are two; this process has the others."""
    *others, last = sorted(os.sched_getaffinity(0))
    rest = set(others or [last])
    with (
        tempfile.TemporaryDirectory() as name,
        on_cores(rest),
        simulator_process() as (good, _),
        simulator_process() as (other, pid),
        on_cores({last}),
        victim(Path(name), good, other) as process,
        on_cores(rest),
    ):
        yield_to_others(pid)
        yield process


def percentile(values: list[float], share: float) -> float:
    """Of seconds, in milliseconds; 0 where there are none."""
    return sorted(values)[int(len(values) * share)] * 1000 if values else 0.0


def main() -> None:
    """Run and tell."""
    parser = argparse.ArgumentParser(prog="tools.load.hostile", description=__doc__)
    names = [kind.__name__ for kind in HARM]
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(names)}")
    parser.add_argument("--strangers", action="store_true", help="only kinds that need no key")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--alone", type=float, default=30.0, help="seconds without harm, before")
    parser.add_argument(
        "--harm", type=int, metavar="PORT", help="only do harm to who listens there"
    )
    chosen = parser.parse_args()
    strangers = [kind.__name__ for kind in STRANGERS]
    kinds = chosen.kinds or (strangers if chosen.strangers else names)
    if unknown := set(kinds) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if chosen.harm:
        json.dump(asyncio.run(_harm(chosen.harm, chosen.seconds, kinds)), sys.stdout)
        return
    with victim_apart() as process:
        found = attack(process, chosen.seconds, kinds, chosen.alone)
    for what, values in (("alone", found.alone), ("among others", found.among)):
        middle, most = percentile(values, 0.5), percentile(values, 0.99)
        sys.stdout.write(f"{what}: {len(values)} good, p50 {middle:.1f} ms, p99 {most:.1f} ms\n")
    sys.stdout.write(f"failed: {len(found.failures)} {found.failures[:5]}\n")
    sys.stdout.write(f"at most {found.memory / 1e6:.0f} MB, {found.files} files\n")
    sys.stdout.write(f"harm: {found.harm}\n")
    sys.exit(0 if found.withstood else 1)


if __name__ == "__main__":
    main()
