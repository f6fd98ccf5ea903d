"""What lies between instances and their database: time, and sometimes nothing at all."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 256 * 1024


class Link:
    """Carries connections from a port of loopback to a Unix socket, each byte `delay_s` later in
    either direction. While it is `cut` it takes what comes and carries nothing."""

    def __init__(self, target: str, delay_s: float) -> None:
        self._target = target
        self._delay_s = delay_s
        self._loop = asyncio.new_event_loop()
        self._carries = asyncio.Event()
        self._carries.set()
        self._main = self._loop.create_task(self._serve())
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]

    def cut(self, *, again: bool = False) -> None:
        """Carry nothing, or what has come meanwhile and all that follows."""
        change = self._carries.set if again else self._carries.clear
        self._loop.call_soon_threadsafe(change)

    async def _serve(self) -> None:
        """Carry all that is connected, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                sock, _ = await self._loop.sock_accept(self._listening)
                tasks.create_task(self._carry(sock))

    async def _carry(self, sock: socket.socket) -> None:
        near, back = await asyncio.open_connection(sock=sock)
        try:
            far, forth = await asyncio.open_unix_connection(self._target)
            try:
                async with asyncio.TaskGroup() as ways:
                    ways.create_task(self._one_way(near, forth))
                    ways.create_task(self._one_way(far, back))
            finally:
                forth.close()
        except* OSError:
            pass  # One side is gone, and so is the other.
        finally:
            back.close()

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry until the end, which is later, too."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take() -> None:
            data = b"more"
            while data:
                data = b""
                with suppress(OSError):
                    data = await reader.read(_PIECE)
                pieces.put_nowait((self._loop.time() + self._delay_s, data))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(take())
            data = b"more"
            while data:
                due, data = await pieces.get()
                await asyncio.sleep(due - self._loop.time())
                await self._carries.wait()
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    def run(self) -> None:
        """Carry, in a thread of its own, until `stop`."""
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        self._loop.run_until_complete(
            asyncio.sleep(0)
        )  # What is closed is closed in the next turn.
        self._loop.close()
        self._listening.close()

    def stop(self) -> None:
        """Carry no more."""
        self._loop.call_soon_threadsafe(self._main.cancel)


@contextmanager
def link(target: str, delay_s: float = 0.0) -> Iterator[Link]:
    """A link to a Unix socket, as long as the context lasts."""
    made = Link(target, delay_s)
    thread = threading.Thread(target=made.run, name="link", daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join(10)
