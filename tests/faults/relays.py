"""Forward proxies that can be killed and brought back, in a thread of their own."""

from __future__ import annotations

import asyncio
import socket
import threading
from base64 import b64encode
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.upstream.proxies import SocksProxy
from tests.upstream.servers import Server, answers, read_call

USER = "relay"


class HttpRelay(Server):
    """Passes requests of the absolute form on, one for each connection."""

    def __init__(self, password: str) -> None:
        super().__init__(answers())
        self.expected = "Basic " + b64encode(f"{USER}:{password}".encode()).decode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = await read_call(reader, writer, 0)
        if call is None:
            return
        if dict(call.headers).get("proxy-authorization") != self.expected:
            await call.send(b"HTTP/1.1 407 Who\r\ncontent-length: 0\r\n\r\n")
            return
        url = urlsplit(call.target)
        assert url.hostname is not None
        assert url.port is not None
        kept = [
            pair for pair in call.headers if pair[0] not in ("connection", "proxy-authorization")
        ]
        lines = [
            f"{call.method} {url.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in kept),
        ]
        head = "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
        far_reader, far_writer = await asyncio.open_connection(url.hostname, url.port)
        try:
            far_writer.write(head + call.body)
            left = asyncio.ensure_future(reader.read(1))
            while not left.done():
                more = asyncio.ensure_future(far_reader.read(65536))
                await asyncio.wait((more, left), return_when=asyncio.FIRST_COMPLETED)
                if not more.done():
                    more.cancel()
                    break
                if not (data := more.result()):
                    break
                writer.write(data)
                await writer.drain()
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        finally:
            far_writer.transport.abort()
        writer.close()


class Relay:
    """One proxy on one port. While it is killed, its port stays its own and refuses connections."""

    def __init__(self, server: Server, scheme: str, password: str) -> None:
        self.server = server
        self._holder = self._socket()
        self.port: int = self._holder.getsockname()[1]
        self.url = f"{scheme}://{USER}:{password}@127.0.0.1:{self.port}"
        self._listening: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def _socket(self, port: int = 0) -> socket.socket:
        plug = socket.socket()
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        plug.setblocking(False)
        plug.bind(("127.0.0.1", port))
        return plug

    async def start(self) -> None:
        """Take connections."""
        self._listening = self._socket(self.port)
        self._listening.listen(512)
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    def _accept(self, plug: socket.socket) -> None:
        try:
            sock, _ = plug.accept()
        except (BlockingIOError, ConnectionError):
            return
        sock.setblocking(False)
        task = asyncio.ensure_future(self._serve(sock))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            sock.close()

        task.add_done_callback(ended)

    async def _serve(self, sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock)
        await self.server._accept(reader, writer)

    async def kill(self) -> None:
        """Take no more, and cut those there are."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def close(self) -> None:
        """End for good."""
        await self.kill()
        self._holder.close()


class Relays:
    """Proxies in a thread. Killed and started by name."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._relays: dict[str, Relay] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def add(self, name: str, scheme: str, password: str) -> str:
        """Start a proxy (`http` or `socks5`); gives its URL."""
        server = HttpRelay(password) if scheme == "http" else SocksProxy(auth=(USER, password))
        relay = self._relays[name] = Relay(server, scheme, password)
        self._run(relay.start())
        return relay.url

    def port(self, name: str) -> int:
        return self._relays[name].port

    def kill(self, name: str) -> None:
        self._run(self._relays[name].kill())

    def start(self, name: str) -> None:
        self._run(self._relays[name].start())

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        for relay in self._relays.values():
            self._run(relay.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def running_relays() -> Iterator[Relays]:
    """Proxies while the context lasts."""
    relays = Relays()
    relays.open()
    try:
        yield relays
    finally:
        relays.close()
