"""Upstreams that stall, and clients that wait for them."""

from __future__ import annotations

import asyncio

from dragoman.server.testing import RunningGateway
from tests.faults.upstream import (
    SSE_HEAD,
    api_of,
    event,
    events,
    is_streamed,
)
from tests.gateway.clients import (
    PATHS,
    body,
    completed,
    streamed_text,
    text_of,
)
from tests.gateway.http import Answer, call
from tests.upstream.servers import Call, chunk


def ask(gateway: RunningGateway, client: str, target: str, stream: bool) -> Answer:
    made = body(client, f"{target}/m", stream=stream)
    return call(gateway.base_url, "POST", PATHS[client], made)


def is_good(client: str, answer: Answer, stream: bool) -> bool:
    assert answer.status == 200, answer
    if not stream:
        return text_of(client, answer) == "Good"
    return completed(client, answer.body) and streamed_text(client, answer.body) == "Good"


async def never(call: Call) -> None:
    """Takes the request and says nothing."""
    await call.client_left()


async def head_only(call: Call) -> None:
    """A head, and then silence."""
    lines = b"content-type: text/event-stream\r\ntransfer-encoding: chunked"
    if not is_streamed(call):
        lines = b"content-type: application/json\r\ncontent-length: 1000"
    await call.send(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n")
    await call.client_left()


async def pings(call: Call) -> None:
    """The handshake, and then nothing but signs of life."""
    api = api_of(call)
    sign = event({"type": "ping"}) if api == "messages" else b": ping\n\n"
    await call.send(SSE_HEAD + chunk(events(api, "Good")[0]))
    while not call.writer.is_closing():
        await call.send(chunk(sign))
        await asyncio.sleep(0.02)
