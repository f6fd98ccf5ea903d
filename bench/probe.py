"""Whether a target does what a cell says, before it is measured.

A gateway that answers from somewhere else, or asks another endpoint than the cell names, would be
measured for something that it does not do; so the load upstream is asked what it was asked.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass

from bench.load_client import LoadError, checked, close, connect
from bench.measure import MARK, Cell, request_cost
from bench.targets import Target

SLOW = 0.5e-3
"""CPU seconds per small request from which a target gets only a fraction of the load."""

_DELTAS = 5
_WAIT_S = 30


@dataclass(frozen=True, slots=True)
class Probed:
    """What a cell does.

    ``failure`` is empty if it answers requests, ``no_stream`` if it streams, too; ``caveat`` is
    empty if it does both as is usual.
    """

    failure: str = ""
    no_stream: str = ""
    caveat: str = ""


async def asked(port: int) -> Counter[str]:
    """How often each of its protocols was asked of a load upstream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /asked HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return Counter(json.loads(await reader.readexactly(length)))
    finally:
        writer.close()


async def probe(target: Target, cell: Cell, upstream: int) -> Probed:
    """Send a request of each kind; ``upstream`` is the port of the load upstream."""
    full, failure = await _tried(target, cell, upstream, stream=False)
    if failure:
        return Probed(failure=failure)
    streamed, no_stream = await _tried(target, cell, upstream, stream=True)
    if no_stream:
        return Probed(no_stream=no_stream)
    if f"{cell.upstream} stream" in full:
        return Probed(caveat="asks its upstream for a stream where the client wants none")
    if cell.upstream in streamed:
        return Probed(caveat="asks its upstream for a whole answer where the client wants a stream")
    return Probed()


async def _tried(
    target: Target, cell: Cell, upstream: int, *, stream: bool
) -> tuple[Counter[str], str]:
    """What one request made the target ask of its upstream, and why that is a failure."""
    try:
        async with asyncio.timeout(_WAIT_S):
            found = await _asked_for(target, cell, upstream, stream=stream)
    except (LoadError, OSError, TimeoutError) as error:
        return Counter(), f"{type(error).__name__}: {error}"[:300]
    if not found.keys() <= {cell.upstream, f"{cell.upstream} stream"}:
        return found, f"it asked its upstream for {', '.join(found)}"
    if found.total() != 1:
        return found, f"it asked its upstream {found.total()} times"
    return found, ""


async def closes(target: Target, cell: Cell) -> bool:
    """Whether it closes the connection after an answer."""
    links = await connect(target.port, 1, MARK)
    try:
        checked(await links[0].send(cell.request(target.access, stream=False)))
        return links[0].closes
    finally:
        close(links)


async def _asked_for(target: Target, cell: Cell, upstream: int, *, stream: bool) -> Counter[str]:
    before = await asked(upstream)
    links = await connect(target.port, 1, MARK)
    try:
        request = cell.request(target.access, deltas=_DELTAS, stream=stream)
        checked(await links[0].send(request), _DELTAS if stream else 1)
    finally:
        close(links)
    return await asked(upstream) - before


async def is_slow(target: Target, cell: Cell) -> bool:
    """Whether a target can take only a fraction of the load."""
    request = cell.request(target.access, stream=False)
    async with asyncio.timeout(_WAIT_S):
        return await request_cost(target, request, 20, connections=4) > SLOW
