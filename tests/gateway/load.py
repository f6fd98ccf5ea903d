"""Bounded load on one address while the processes behind it change: what became of each request.
And rows that are checked at once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.gateway.clients import PATHS, body, completed
from tests.gateway.http import KEY

_TIMEOUT_S = 60.0


def at_once(rows: Sequence[tuple[Any, ...]], check: Callable[..., None]) -> None:
    """Check all rows at the same time, since each waits; all that fail are reported. It is skipped
    if one of them asks for that."""
    with ThreadPoolExecutor(len(rows)) as threads:
        checks = [(row, threads.submit(check, *row)) for row in rows]
    failures: list[BaseException] = []
    skips: list[BaseException] = []
    for row, outcome in checks:
        error = outcome.exception()
        if isinstance(error, pytest.skip.Exception):
            skips.append(error)
        elif error is not None:
            error.add_note(f"in the row {row}")
            failures.append(error)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(checks)} rows fail", failures)
    if skips:
        raise skips[0]


@dataclass
class Load:
    """Clients that ask one after the other until told to stop.

    Some open a connection for each request, some keep theirs as long as the gateway does, and some
    read streams. `outcomes` counts "ok" and every other end by its name.
    """

    port: int
    outcomes: Counter[str] = field(default_factory=Counter)
    pause_s: float = 0.01
    _stopping: bool = False
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, *, opening: int = 4, keeping: int = 4, streaming: int = 6) -> None:
        """Begin, in the running loop."""
        for count, client in (
            (opening, self._open),
            (keeping, self._keep),
            (streaming, self._stream),
        ):
            self._tasks += [asyncio.create_task(client()) for _ in range(count)]

    async def answered(self, *kinds: str) -> None:
        """Wait until a request of each kind that is named was answered from now on, or any request
        was not answered as it should be, which `outcomes` tells."""
        before = Counter(self.outcomes)
        while all(name.endswith(" ok") for name in self.outcomes) and any(
            self.outcomes[f"{kind} ok"] <= before[f"{kind} ok"] for kind in kinds
        ):
            self._ended.clear()
            await self._ended.wait()

    async def stop(self) -> Counter[str]:
        """Let all finish what they ask."""
        self._stopping = True
        await asyncio.gather(*self._tasks)
        return self.outcomes

    async def _open(self) -> None:
        while not self._stopping:
            connection = _Connection(self.port)
            await self._count("opening", connection.ask(close=True))
            connection.close()
            await asyncio.sleep(self.pause_s)

    async def _keep(self) -> None:
        connection = _Connection(self.port)
        while not self._stopping:
            if not await self._count("keeping", connection.ask(close=False)):
                connection.close()
            await asyncio.sleep(self.pause_s)
        connection.close()

    async def _stream(self) -> None:
        while not self._stopping:
            connection = _Connection(self.port)
            await self._count("streaming", connection.stream())
            connection.close()

    async def _count(self, kind: str, asked: Coroutine[None, None, str]) -> bool:
        try:
            outcome = await asyncio.wait_for(asked, _TIMEOUT_S)
        except ConnectionRefusedError:
            outcome = "refused"
        except (OSError, EOFError, asyncio.IncompleteReadError) as error:
            outcome = type(error).__name__
        except TimeoutError:
            outcome = "timeout"
        self.outcomes[f"{kind} {outcome}"] += 1
        self._ended.set()
        return outcome == "ok"


class _Connection:
    """A connection that is opened when needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def ask(self, *, close: bool) -> str:
        """One small request; "ok" if it was answered as it should be."""
        reader = await self._send(body("chat", "chat/sim-text"), close)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:])
            for line in head.lower().split(b"\r\n")
            if line[:15] == b"content-length:"
        )
        answer = json.loads(await reader.readexactly(length))
        if b"\r\nconnection: close\r\n" in head.lower():
            self.close()
        return "ok" if head.startswith(b"HTTP/1.1 200") and answer["choices"] else "wrong"

    async def stream(self) -> str:
        """One stream of about a second."""
        reader = await self._send(
            body("chat", "chat/sim-text?delay_ms=50&words=20", stream=True), True
        )
        data = await reader.read()
        return "ok" if completed("chat", _unchunked(data)) else "cut"

    async def _send(self, made: dict[str, object], close: bool) -> asyncio.StreamReader:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        data = json.dumps(made).encode()
        self._writer.write(
            b"POST %b HTTP/1.1\r\nhost: test\r\nauthorization: Bearer %b\r\n"
            b"content-type: application/json\r\nconnection: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (
                PATHS["chat"].encode(),
                KEY.encode(),
                b"close" if close else b"keep-alive",
                len(data),
                data,
            )
        )
        return self._reader


def _unchunked(data: bytes) -> bytes:
    _, _, rest = data.partition(b"\r\n\r\n")
    pieces = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        pieces.append(rest[:length])
        rest = rest[length + 2 :]
    return b"".join(pieces)
