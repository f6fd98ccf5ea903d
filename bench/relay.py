"""The least that any gateway in Python does: two bare protocols on httptools, nothing between.

What the gateway costs beyond this row is its own work. It reads a request whole, finds the model in
it, sends it on over a connection that it keeps, and hands the answer's bytes over as they come.
Run as ``python -m bench.relay --port PORT --upstream PORT``.
"""

import argparse
import asyncio
from typing import cast

import httptools
import msgspec
import uvloop


class Head(msgspec.Struct):
    """What any gateway has to read of a request."""

    model: str = ""
    """Empty where the path names it."""
    stream: bool = False


_DECODER = msgspec.json.Decoder(Head)


class Pool:
    """Connections to the upstream that are idle."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.idle: list[UpstreamSide] = []

    async def connect(self) -> "UpstreamSide":
        """A new connection."""
        loop = asyncio.get_running_loop()
        _, side = await loop.create_connection(lambda: UpstreamSide(self), "127.0.0.1", self.port)
        return side


class UpstreamSide(asyncio.Protocol):
    """A connection to the upstream; ``client`` is who waits for its answer."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.client: ClientSide | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def send(self, client: "ClientSide", request: bytes) -> None:
        """Send a request whose answer is for this client."""
        self.client = client
        self.parser = httptools.HttpResponseParser(self)
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:
            self.transport.abort()
            return
        client.transport.write(data)
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            client.upstream = None
            self.transport.resume_reading()
            self.pool.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.pool.idle:
            self.pool.idle.remove(self)
        if self.client is not None:
            self.client.upstream = None
            self.client.transport.close()


class ClientSide(asyncio.Protocol):
    """A client's connection, with one request under way at a time."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.parser = httptools.HttpRequestParser(self)
        self.upstream: UpstreamSide | None = None
        self.parts: list[bytes] = []
        self.gone = False
        self.connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        if self.upstream is not None:
            self.upstream.client = None
            self.upstream.transport.abort()

    def pause_writing(self) -> None:
        if self.upstream is not None:
            self.upstream.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.upstream is not None:
            self.upstream.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)

    def on_message_complete(self) -> None:
        body = b"".join(self.parts)
        self.parts.clear()
        _DECODER.decode(body)
        request = (
            b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer bench\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (self.url, len(body), body)
        )
        if self.pool.idle:
            self._send(self.pool.idle.pop(), request)
        else:
            self.connecting = asyncio.ensure_future(self._connect_and_send(request))

    async def _connect_and_send(self, request: bytes) -> None:
        side = await self.pool.connect()
        if self.gone:
            side.transport.abort()
        else:
            self._send(side, request)

    def _send(self, side: UpstreamSide, request: bytes) -> None:
        self.upstream = side
        side.send(self, request)


async def serve(port: int, upstream: int) -> None:
    """Listen on loopback until cancelled."""
    pool, loop = Pool(upstream), asyncio.get_running_loop()
    server = await loop.create_server(lambda: ClientSide(pool), "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", type=int, required=True)
    chosen = parser.parse_args()
    uvloop.run(serve(chosen.port, chosen.upstream))


if __name__ == "__main__":
    main()
