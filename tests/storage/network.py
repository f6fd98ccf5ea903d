"""What lies between instances and their database: time, and sometimes nothing at all."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_PIECE = 256 * 1024
_TURNS = 20


class Link:
    """Carries connections from a port of loopback to a Unix socket, each byte `delay_s` later in
    either direction. While it is `cut` it takes what comes and carries nothing."""

    def __init__(self, target: str, delay_s: float) -> None:
        self._target = target
        self._delay_s = delay_s
        self._loop = asyncio.new_event_loop()
        self._carries = asyncio.Event()
        self._carries.set()
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]

    def cut(self, *, again: bool = False) -> None:
        """Carry nothing, or what has come meanwhile and all that follows."""
        change = self._carries.set if again else self._carries.clear
        self._loop.call_soon_threadsafe(change)

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                far, forth = await asyncio.open_unix_connection(self._target)
                try:
                    await asyncio.gather(self._one_way(near, forth), self._one_way(far, back))
                finally:
                    forth.close()
        finally:
            back.close()

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry until the end, which is later, too."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def put() -> None:
            data = b"more"
            while data:
                due, data = await pieces.get()
                await asyncio.sleep(due - self._loop.time())
                await self._carries.wait()
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

        async def take() -> None:
            data = b"more"
            while data:
                data = b""
                with suppress(OSError):
                    data = await reader.read(_PIECE)
                pieces.put_nowait((self._loop.time() + self._delay_s, data))

        taking = asyncio.ensure_future(take())
        try:
            await put()
        finally:
            taking.cancel()

    def run(self, ready: threading.Event) -> None:
        """Carry, in a thread of its own, until `stop`."""
        with suppress(asyncio.CancelledError):
            self._main = self._loop.create_task(self._serve(ready))
            self._loop.run_until_complete(self._main)
        # A connection that was taken in begins some turns of the loop later.
        for _ in range(_TURNS):
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(_ended(tasks))
        self._loop.close()

    def stop(self) -> None:
        """Carry no more."""
        self._loop.call_soon_threadsafe(self._main.cancel)


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.01)


@contextmanager
def link(target: str, delay_s: float = 0.0) -> Iterator[Link]:
    """A link to a Unix socket, as long as the context lasts."""
    made, ready = Link(target, delay_s), threading.Event()
    thread = threading.Thread(target=made.run, args=(ready,), name="link", daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield made
    finally:
        made.stop()
        thread.join(10)
