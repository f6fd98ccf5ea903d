"""Small servers that do exactly what a test needs, on real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
PATIENCE = 10.0
"""Seconds after which a test that waits for something has failed."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class Call:
    """One request as the server got it, and the means to answer."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    number: int
    """Requests on this connection before this one."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with a TCP reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def client_left(self) -> None:
        """Wait until the client closes the connection."""
        try:
            async with asyncio.timeout(PATIENCE):
                while await self.reader.read(1024):
                    pass
        except ConnectionError:
            pass


Handler = Callable[[Call], Awaitable[None]]


class Server:
    """An HTTP server whose handler writes the raw answer. A handler may close the connection."""

    def __init__(self, handler: Handler, *, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.tls = tls
        self.connections = 0
        self.reached = asyncio.Event()
        """A client has connected."""
        self.abandoned = asyncio.Event()
        """A connection is gone."""
        self.calls: list[Call] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        self.port: int = self.server.sockets[0].getsockname()[1]
        scheme = "https" if self.tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        self.reached.set()
        try:
            await self.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self.tasks.discard(task)
            self.abandoned.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        while not writer.is_closing():
            call = await read_call(reader, writer, number)
            if call is None:
                return
            number += 1
            self.calls.append(call)
            await self.handler(call)


async def read_call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
) -> Call | None:
    """The next request of a connection; None when the client closed it."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip()))
    size = int(dict(headers).get("content-length", "0"))
    body = await reader.readexactly(size)
    return Call(method, target, headers, body, number, reader, writer)


def answers(*raw: bytes, close: bool = False) -> Handler:
    """A handler that sends these bytes, and closes afterwards if asked."""

    async def handler(call: Call) -> None:
        for part in raw:
            await call.send(part)
        if close:
            call.writer.close()

    return handler


async def silence(call: Call) -> None:
    """A handler that never answers."""
    await call.client_left()


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Unaccepting:
    """A port where connections neither succeed nor fail: its queue of them is full."""

    def __enter__(self) -> int:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        address = self.listener.getsockname()
        self.fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            self.fillers.append(filler)
        port: int = address[1]
        return port

    def __exit__(self, *_: object) -> None:
        for sock in (*self.fillers, self.listener):
            sock.close()
