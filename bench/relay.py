"""The least that this stack can do: our server and our upstream client, and nothing in between.

What the gateway costs beyond this row is the gateway's own work. The upstream is named by the
environment variable ``BENCH_UPSTREAM``, the port by the first argument.
"""

import os
import socket
import sys

import msgspec
import uvloop

from dragoman.http import ClientGone, Request, Server
from dragoman.upstream import Timeouts, Truncated, UpstreamClient, UpstreamRequest

_LIMIT = 64 * 1024 * 1024


class Head(msgspec.Struct):
    """What any gateway has to read of a request."""

    model: str
    stream: bool = False


class Relay:
    """An application that sends every request on and its answer back."""

    def __init__(self) -> None:
        self.base = os.environ["BENCH_UPSTREAM"]
        self.client = UpstreamClient()
        self.decoder = msgspec.json.Decoder(Head)

    async def __call__(self, request: Request) -> None:
        try:
            body = await request.body(_LIMIT)
        except ClientGone:
            return
        head = self.decoder.decode(body)
        call = UpstreamRequest(
            method="POST",
            url=self.base + request.path,
            headers=(("authorization", "Bearer bench"), ("content-type", "application/json")),
            body=body,
            timeouts=Timeouts(),
        )
        async with await self.client.send(call) as response:
            kind = response.headers.get("content-type", "").encode()
            lines = b"content-type: %b\r\n" % kind
            if not head.stream:
                request.respond(response.status, lines, await response.read(_LIMIT))
                return
            request.start(response.status, lines)
            request.on_gone = response.close
            try:
                async for chunk in response:
                    await request.write(chunk)
            except Truncated:
                return
            request.end()


async def main() -> None:
    """Serve until killed."""
    relay = Relay()
    await relay.client.start()
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as plug:
        await Server(relay).serve([plug])


if __name__ == "__main__":
    uvloop.run(main())
