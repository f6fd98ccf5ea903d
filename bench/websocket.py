"""``python -m bench.websocket``: a turn over WebSocket against the same turn by POST.

An agent's conversation of 120 KB goes on for some turns: over a socket the client sends only the
next message, by POST all of it. Both answers are streams of ten events, from the same upstream. CPU
time is of all threads of one worker. Before that the memory of connections, and of what they
remember. At last the same turn where the upstream, the simulator, is called by POST and over
WebSocket. ``--instructions`` counts instructions instead (see ``bench.instructions``), which what
else the machine does cannot change.
"""

import argparse
import asyncio
import base64
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench import bodies, instructions, targets
from bench.measure import Cell, request_cost
from bench.processes import Child, cpu_seconds, free_port, resident_bytes
from bench.stored import ROOT, gateway
from bench.targets import CLIENT_KEY, LONG_NAMES, OURS, Access, Cores, Target

ROUNDS = 7
TURNS = 20
AT_ONCE = 8
CONNECTIONS = 1900
_SETTINGS = f"[websocket]\nmax_connections_per_client = {CONNECTIONS}\n"
_MORE = [{"role": "user", "content": "Go on. bench-e10-r0"}]
_ENDS = (b'"type":"response.completed"', b'"type":"error"')


class Socket:
    """A client's WebSocket. It masks with zeros, which costs the client nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def opened(cls, port: int) -> "Socket":
        """A socket to the gateway on that port."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            "GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\n"
            f"upgrade: websocket\r\nauthorization: Bearer {CLIENT_KEY}\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n"
        )
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(answer.decode())
        return cls(reader, writer)

    async def turn(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask, and read the answer to its end. Returns the response."""
        data = _dumped({"type": "response.create", **body}).encode()
        assert len(data) > 125, "a short message has another head"
        if len(data) < 65536:
            head = b"\x81\xfe" + len(data).to_bytes(2, "big")
        else:
            head = b"\x81\xff" + len(data).to_bytes(8, "big")
        self._writer.write(head + bytes(4) + data)
        while True:
            event = await self._frame()
            if any(end in event for end in _ENDS):
                return _response_in(event)

    async def _frame(self) -> bytes:
        size = (await self._reader.readexactly(2))[1]
        if size > 125:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
        return await self._reader.readexactly(size)

    def close(self) -> None:
        """Leave."""
        self._writer.close()


def _dumped(value: Any) -> str:
    """JSON as clients write it."""
    return json.dumps(value, separators=(",", ":"))


def _response_in(event: bytes) -> dict[str, Any]:
    told = json.loads(event)
    if told["type"] == "error":
        raise RuntimeError(told["error"]["message"])
    response: dict[str, Any] = told["response"]
    return response


def _history(cell: Cell, number: int = 0) -> dict[str, Any]:
    """The conversation of that number so far, as one request."""
    body: dict[str, Any] = json.loads(bodies.agent(cell.client, cell.model(), store=False))
    body["input"][0]["content"] += f" It is number {number}."
    return body


class Simulated(Cell):
    """A Responses client over the simulator, which the gateway calls as the upstream is named."""

    def model(self, access: Access = OURS) -> str:
        """The name of the model that leads there."""
        return f"{self.upstream}/sim-text?words=8&chunks=8"


_SIMULATED = """
[[upstreams]]
name = "{way}"
protocol = "openai_responses"
base_url = "http://127.0.0.1:{port}"
websocket = "{websocket}"

[[accounts]]
name = "{way}"
upstream = "{way}"
key = "sk-sim-bench"
"""
WAYS = {"posted": "off", "dialled": "on"}
"""How the gateway calls the simulator."""


async def socket_cost(target: Target, cell: Cell) -> float:
    """CPU seconds for a turn over a socket that knows the conversation."""
    histories = [_history(cell, number) for number in range(AT_ONCE)]
    socks = [await Socket.opened(target.port) for _ in range(AT_ONCE)]
    own = {name: value for name, value in histories[0].items() if name != "input"}

    async def turns(sock: Socket, name: str) -> None:
        for _ in range(TURNS):
            asked = {**own, "input": _MORE, "previous_response_id": name}
            name = (await sock.turn(asked))["id"]

    try:
        begun = [await sock.turn(one) for sock, one in zip(socks, histories, strict=True)]
        before = cpu_seconds(target.pid)
        names = [one["id"] for one in begun]
        await asyncio.gather(*map(turns, socks, names))
        return (cpu_seconds(target.pid) - before) / (TURNS * AT_ONCE)
    finally:
        for sock in socks:
            sock.close()


async def post_cost(target: Target, cell: Cell) -> float:
    """CPU seconds for the same turn by POST, with all of the conversation as it is after half of
    the turns: the cost grows evenly."""
    history = _history(cell)
    sock = await Socket.opened(target.port)
    answered = (await sock.turn({**history, "input": _MORE}))["output"]
    sock.close()
    said = [*answered, *_MORE] * (TURNS // 2)
    whole = {**history, "input": [*history["input"], *said], "stream": True}
    request = cell.post(_dumped(whole).encode())
    return await request_cost(target, request, TURNS * AT_ONCE, AT_ONCE)


async def growing_cost(target: Target, cell: Cell) -> float:
    """CPU seconds for a turn by POST of conversations that grow by what was answered."""

    async def turns(number: int, body: dict[str, Any], count: int) -> None:
        for _ in range(count):
            response = await _posted(connections[number], cell, body)
            body["input"] += [*response["output"], *_MORE]

    histories = [{**_history(cell, number), "stream": True} for number in range(AT_ONCE)]
    connections = [
        await asyncio.open_connection("127.0.0.1", target.port, limit=1 << 24) for _ in histories
    ]
    try:
        await asyncio.gather(*(turns(number, one, 1) for number, one in enumerate(histories)))
        before = cpu_seconds(target.pid)
        await asyncio.gather(*(turns(number, one, TURNS) for number, one in enumerate(histories)))
        return (cpu_seconds(target.pid) - before) / (TURNS * AT_ONCE)
    finally:
        for _, writer in connections:
            writer.close()


async def _posted(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], cell: Cell, body: dict[str, Any]
) -> dict[str, Any]:
    """The response to one request by POST, streamed."""
    reader, writer = connection
    writer.write(cell.post(_dumped(body).encode()))
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    last = b"".join(parts).rpartition(b"event: response.completed\ndata: ")[2]
    return _response_in(last)


async def remembered(target: Target, cell: Cell) -> float:
    """More resident bytes for each connection that remembers the conversation."""
    count = 200
    socks = [await Socket.opened(target.port) for _ in range(count)]
    for sock in socks[:AT_ONCE]:
        await sock.turn(_history(cell))
    await asyncio.sleep(0.5)
    before = resident_bytes(target.pid)
    for number, sock in enumerate(socks[AT_ONCE:]):
        await sock.turn(_history(cell, number))
    await asyncio.sleep(0.5)
    after = resident_bytes(target.pid)
    for sock in socks:
        sock.close()
    await asyncio.sleep(0.5)
    return (after - before) / (count - AT_ONCE)


async def memory(target: Target, cell: Cell) -> tuple[float, float]:
    """More resident bytes for each idle connection, and when each has had a short turn."""
    await asyncio.sleep(0.5)
    before = resident_bytes(target.pid)
    socks = [await Socket.opened(target.port) for _ in range(CONNECTIONS)]
    await asyncio.sleep(0.5)
    idle = resident_bytes(target.pid)
    body = json.loads(bodies.small(cell.client, cell.model(), stream=True, pace="bench-e10-r0"))
    for sock in socks:
        await sock.turn(body)
    await asyncio.sleep(0.5)
    after = resident_bytes(target.pid)
    for sock in socks:
        sock.close()
    await asyncio.sleep(0.5)
    return (idle - before) / CONNECTIONS, (after - before) / CONNECTIONS


async def measure(target: Target, upstreams: list[str]) -> None:
    """Print the medians of all rounds."""
    tell = sys.stdout.write
    idle, after = await memory(target, Cell("openai_responses", LONG_NAMES[upstreams[0]]))
    tell(f"connection: {idle / 1e3:.1f} KB, after a short turn {after / 1e3:.1f} KB\n")
    cell = Cell("openai_responses", LONG_NAMES[upstreams[0]])
    size = len(_dumped(_history(cell)["input"]))
    kept = await remembered(target, cell)
    tell(f"connection that remembers {size / 1e3:.0f} KB: {kept / 1e3:.1f} KB\n")
    for name in upstreams:
        cell = Cell("openai_responses", LONG_NAMES[name])
        by_post, by_socket = [], []
        for _ in range(ROUNDS):
            by_post.append(await post_cost(target, cell))
            by_socket.append(await socket_cost(target, cell))
        ratio = statistics.median(b / a for a, b in zip(by_post, by_socket, strict=True))
        tell(
            f"turn at 120 KB, responses -> {name}: by POST {statistics.median(by_post) * 1e6:.0f} "
            f"us, over WebSocket {statistics.median(by_socket) * 1e6:.0f} us, ratio {ratio:.2f}\n"
        )
        sys.stdout.flush()
    await measure_dialling(target)


async def measure_dialling(target: Target) -> None:
    """Print the medians where the upstream is called by POST, and over WebSocket."""
    costs: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for way in WAYS:
            cell = Simulated("openai_responses", way)
            costs.setdefault(f"by POST, {way}", []).append(await growing_cost(target, cell))
            costs.setdefault(f"over WebSocket, {way}", []).append(await socket_cost(target, cell))
    least = costs["by POST, posted"]
    for name, found in costs.items():
        ratio = statistics.median(b / a for a, b in zip(least, found, strict=True))
        sys.stdout.write(
            f"turn at 120 KB {name}: {statistics.median(found) * 1e6:.0f} us, ratio {ratio:.2f}\n"
        )


async def _turns_counted(port: int, pid: int, cell: Cell, *, by_socket: bool) -> None:
    """A conversation that grows, of which the turns after the first half are counted."""
    history = {**_history(cell), "stream": True}
    own = {name: value for name, value in history.items() if name != "input"}
    sock = await Socket.opened(port)
    connection = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    asked = history
    for turn in range(2 * TURNS):
        if turn == TURNS:
            instructions.switch(pid, "on")
        if by_socket:
            response = await sock.turn(asked)
            asked = {**own, "input": _MORE, "previous_response_id": response["id"]}
        else:
            response = await _posted(connection, cell, history)
            history["input"] += [*response["output"], *_MORE]
    instructions.switch(pid, "off")
    sock.close()
    connection[1].close()


def count(cell: Cell, *, by_socket: bool) -> float:
    """Instructions of the gateway for a turn."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        up = stack.enter_context(targets.upstreams(folder, Cores(None, None)))
        protocol, more = cell.upstream, ""
        if isinstance(cell, Simulated):
            protocol = cell.client
            more = _simulated(stack.enter_context(simulator(Cores(None, None), folder)))
        with instructions.gateway(ROOT, folder, up, protocol, more) as (child, port):
            uvloop.run(_turns_counted(port, child.pid, cell, by_socket=by_socket))
        return instructions.total(folder) / TURNS


def count_all(upstreams: list[str]) -> None:
    """Print the instructions of a turn by POST and over WebSocket, and where the upstream is called
    in either way."""
    cells = [(name, Cell("openai_responses", LONG_NAMES[name])) for name in upstreams]
    cells += [(f"simulator, {way}", Simulated("openai_responses", way)) for way in WAYS]
    for name, cell in cells:
        by_post, by_socket = (count(cell, by_socket=way) for way in (False, True))
        sys.stdout.write(
            f"responses -> {name}: by POST {by_post:,.0f}, over WebSocket {by_socket:,.0f}, "
            f"ratio {by_socket / by_post:.2f}\n"
        )
        sys.stdout.flush()


def _simulated(port: int) -> str:
    """The configuration of the upstreams that the simulator on that port is."""
    ways = WAYS.items()
    return "".join(_SIMULATED.format(way=way, websocket=how, port=port) for way, how in ways)


@contextmanager
def simulator(cores: Cores, folder: Path) -> Iterator[int]:
    """The port of a running simulator."""
    port = free_port()
    command = [sys.executable, "-m", "dragoman", "simulate", "--port", str(port)]
    env = {"PYTHONPATH": str(ROOT / "src")}
    with Child(command, core=cores.load, log=folder / "simulator.log", env=env) as child:
        child.listening(port)
        yield port


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(prog="bench.websocket", description=__doc__)
    parser.add_argument("--upstreams", nargs="+", default=list(LONG_NAMES), choices=LONG_NAMES)
    parser.add_argument("--instructions", action="store_true", help="count instructions")
    chosen = parser.parse_args()
    if chosen.instructions:
        count_all(chosen.upstreams)
        return
    cores = Cores.of_this_machine()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with ExitStack() as stack:
            up = stack.enter_context(targets.upstreams(folder, cores))
            port = stack.enter_context(simulator(cores, folder))
            settings = _SETTINGS + _simulated(port)
            t = stack.enter_context(gateway(ROOT, folder / "ours", cores, up, settings))
            if cores.load is not None:
                os.sched_setaffinity(0, {cores.load})
            uvloop.run(measure(t, chosen.upstreams))


if __name__ == "__main__":
    main()
