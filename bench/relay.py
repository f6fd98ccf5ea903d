"""The least that this stack can do: uvicorn and our upstream client, and nothing in between.

What the gateway costs beyond this row is the gateway's own work. Served by uvicorn; the upstream
is named by the environment variable ``BENCH_UPSTREAM``.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from dragoman.upstream import (
    Timeouts,
    Truncated,
    UpstreamClient,
    UpstreamRequest,
    UpstreamResponse,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_LIMIT = 64 * 1024 * 1024


class Head(msgspec.Struct):
    """What any gateway has to read of a request."""

    model: str
    stream: bool = False


class Relay:
    """An ASGI application that sends every request on and its answer back."""

    def __init__(self) -> None:
        self.base = os.environ["BENCH_UPSTREAM"]
        self.client = UpstreamClient()
        self.decoder = msgspec.json.Decoder(Head)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        body = await _whole_body(receive)
        head = self.decoder.decode(body)
        request = UpstreamRequest(
            method="POST",
            url=self.base + scope["path"],
            headers=(("authorization", "Bearer bench"), ("content-type", "application/json")),
            body=body,
            timeouts=Timeouts(),
        )
        async with await self.client.send(request) as response:
            kind = response.headers.get("content-type", "").encode()
            headers = [(b"content-type", kind)]
            if not head.stream:
                data = await response.read(_LIMIT)
                headers.append((b"content-length", b"%d" % len(data)))
                await send(_start(response.status, headers))
                await send({"type": "http.response.body", "body": data})
                return
            await send(_start(response.status, headers))
            leaving = asyncio.ensure_future(_until_gone(receive, response))
            try:
                async for chunk in response:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except Truncated:
                return
            finally:
                leaving.cancel()
            await send({"type": "http.response.body", "body": b""})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.client.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.client.aclose()
        await send({"type": "lifespan.shutdown.complete"})


async def _until_gone(receive: Receive, response: UpstreamResponse) -> None:
    """End the upstream's answer when the client leaves: uvicorn's ``send`` does not tell."""
    while (await receive())["type"] != "http.disconnect":
        pass
    response.close()


async def _whole_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def create() -> Relay:
    """The application, for ``uvicorn --factory``."""
    return Relay()
