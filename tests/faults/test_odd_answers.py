"""Answers that are whole, however they arrive; and answers that are not."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.conftest import Over, leased, rested
from tests.faults.upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Upstream,
    answer,
    api_of,
    event,
    events,
    good,
    is_streamed,
    streamed,
    whole,
)
from tests.gateway.clients import (
    APIS,
    PATHS,
    body,
    completed,
    stream_error,
    streamed_text,
    text_of,
)
from tests.gateway.http import AUTH, Connection, call
from tests.upstream.servers import Call, Handler, chunk

KEY = "key-of-the-only-one"


def content(call: Call) -> bytes:
    """The answer's body, without its framing."""
    api = api_of(call)
    return b"".join(events(api, "Go", "od")) if is_streamed(call) else whole(api, "Good")


def media(call: Call) -> str:
    return "text/event-stream" if is_streamed(call) else "application/json"


def framed(call: Call, *lines: str, end: bytes = LAST_CHUNK) -> bytes:
    head = ["HTTP/1.1 200 OK", f"content-type: {media(call)}", "transfer-encoding: chunked"]
    return "\r\n".join([*head, *lines, "", ""]).encode() + chunk(content(call)) + end


def dribbled(size: int) -> Handler:
    async def handler(call: Call) -> None:
        data = framed(call)
        for at in range(0, len(data), size):
            await call.send(data[at : at + size])
            await asyncio.sleep(0)

    return handler


def mislabelled(start: int) -> Handler:
    """A stream that is called plain text, its first bytes one by one."""

    async def handler(call: Call) -> None:
        data = content(call)
        await call.send(SSE_HEAD.replace(b"text/event-stream", b"text/plain"))
        for at in range(start):
            await call.send(chunk(data[at : at + 1]))
            await asyncio.sleep(0.002)
        await call.send(chunk(data[start:]) + LAST_CHUNK)

    return handler


async def crlf_in_pieces(call: Call) -> None:
    data = content(call).replace(b"\n", b"\r\n")
    pieces = [data[at : at + 3] for at in range(0, len(data), 3)]
    head = SSE_HEAD.replace(b"text/event-stream", media(call).encode())
    await call.send(head + b"".join(map(chunk, pieces)) + LAST_CHUNK)


async def http_1_0(call: Call) -> None:
    await call.send(f"HTTP/1.0 200 OK\r\ncontent-type: {media(call)}\r\n\r\n".encode())
    await call.send(content(call))
    call.writer.close()


def zipped(members: int) -> Handler:
    async def handler(call: Call) -> None:
        data = content(call)
        step = -(-len(data) // members)
        packed = [gzip.compress(data[at : at + step]) for at in range(0, len(data), step)]
        lines = ("content-encoding: gzip",)
        await call.send(answer(b"".join(packed), 200, *lines, content_type=media(call)))

    return handler


async def informed(call: Call) -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\ncontent-length: 5\r\n\r\n"
    await call.send(b"HTTP/1.1 100 Continue\r\n\r\n" + hint * 3)
    await good(call)


async def with_trailers(call: Call) -> None:
    await call.send(framed(call, "trailer: x-sum", end=b"0\r\nx-sum: 1\r\n\r\n"))


CLOSED = threading.Semaphore(0)
"""How many connections the gateway has closed for a second answer."""


async def twice(call: Call) -> None:
    """A second answer that nobody asked for must not become the next request's."""
    data = framed(call)
    await call.send(data + data.replace(b"Go", b"Ba"))
    await call.client_left()
    CLOSED.release()


async def twice_late(call: Call) -> None:
    data = framed(call)
    await call.send(data)
    await asyncio.sleep(0.005)
    await call.send(data.replace(b"Go", b"Ba"))
    await call.client_left()
    CLOSED.release()


async def on_and_on(call: Call) -> None:
    """After its end the stream goes on."""
    if not is_streamed(call):
        await good(call)
        return
    parts = events(api_of(call), "Go", "od")
    more = [*events(api_of(call), "Bad"), event({"type": "error", "error": {"message": "Bad"}})]
    await call.send(streamed([*parts, *more]))


async def never_over(call: Call) -> None:
    """The stream's end is there; the body's is not."""
    if not is_streamed(call):
        await good(call)
        return
    await call.send(SSE_HEAD + chunk(content(call)))
    await call.client_left()


async def early(call: Call) -> None:
    """Reads nothing more of the connection before the whole answer is out."""
    await call.send(framed(call, "connection: close"))
    call.writer.close()


WAYS: dict[str, Handler] = {
    "as usual": good,
    "byte by byte": dribbled(1),
    "three bytes at a time": dribbled(3),
    **{f"mislabelled, {count} bytes first": mislabelled(count) for count in (0, 1, 3, 5)},
    "CRLF in pieces": crlf_in_pieces,
    "HTTP/1.0": http_1_0,
    "gzip": zipped(1),
    "gzip of many members": zipped(30),
    "informational answers": informed,
    "trailers": with_trailers,
    "twice": twice,
    "twice, late": twice_late,
    "on and on": on_and_on,
    "never over": never_over,
    "and close": early,
}


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(KEY)


@pytest.mark.parametrize("way", WAYS)
def test_a_whole_answer_arrives(gateway: RunningGateway, upstream: Upstream, way: str) -> None:
    """Two times on one connection: nothing of the first answer may reach into the second."""
    upstream.behaviours[KEY] = WAYS[way]
    for client in APIS:
        for target in APIS:
            for stream in (False, True):
                made = body(client, f"{target}/m", stream=stream)
                with Connection(gateway.base_url) as connection:
                    for _ in range(2):
                        connection.send("POST", PATHS[client], made, AUTH)
                        told = connection.answer()
                        assert told.status == 200, (client, target, stream, told)
                        if "twice" in way:
                            # An answer that comes with the next request is taken for its answer.
                            assert CLOSED.acquire(timeout=20), "the connection is kept"
                        if stream:
                            assert completed(client, told.body), (client, target, told)
                            assert stream_error(client, told.body) is None
                            assert streamed_text(client, told.body) == "Good"
                        else:
                            assert text_of(client, told) == "Good"


def broken_after(count: int, rest: bytes, end: bytes | None = LAST_CHUNK) -> Handler:
    """So many texts, then `rest` and the body's end; without an end the connection is reset."""

    async def handler(call: Call) -> None:
        parts = events(api_of(call), "Go", "od", "!")
        first = next(number for number, part in enumerate(parts) if b'"Go"' in part)
        parts = parts[: first + count]
        await call.send(SSE_HEAD + b"".join(map(chunk, [*parts, rest] if rest else parts)))
        if end is None:
            await asyncio.sleep(0.01)
            call.reset()
        else:
            await call.send(end)

    return handler


BROKEN: dict[str, Handler] = {
    **{f"cut after {count}": broken_after(count, b"") for count in (1, 2)},
    **{f"reset after {count}": broken_after(count, b"", end=None) for count in (1, 2)},
    "half an event": broken_after(2, b'data: {"id":'),
    "half an event of a name": broken_after(2, b"event: content_block_delta\ndata: {"),
    "half a character": broken_after(2, b'data: {"a": "\xe2\x82'),
    "a page": broken_after(2, b"<html>502</html>"),
    "no chunk": broken_after(2, b"", end=b"zz\r\n"),
}


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_answer_ends_in_an_error(
    gateway: RunningGateway, upstream: Upstream, way: str
) -> None:
    """And each event before it can be read."""
    upstream.behaviours[KEY] = BROKEN[way]
    for client in APIS:
        for target in APIS:
            rested(gateway)
            made = body(client, f"{target}/m", stream=True)
            told = call(gateway.base_url, "POST", PATHS[client], made)
            assert told.status == 200
            assert stream_error(client, told.body) is not None, (client, target, told.body)
            assert not completed(client, told.body)
    gateway_is_free(gateway)


def gateway_is_free(gateway: RunningGateway) -> None:
    """All leases are given back; what follows a stream's end is awaited for half a second."""
    deadline = time.monotonic() + 30.0
    while leased(gateway):
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def refuses_early(call: Call) -> None:
    """Answers before it has read the request, and closes."""
    error = {"type": "error", "error": {"type": "request_too_large", "message": "too large"}}
    await call.send(answer(json.dumps(error).encode(), 413, "connection: close"))
    call.writer.close()


@pytest.mark.parametrize("client", APIS)
def test_a_large_request_that_is_refused_early(
    gateway: RunningGateway, upstream: Upstream, client: str
) -> None:
    upstream.behaviours[KEY] = refuses_early
    made = body(client, f"{client}/m", "word " * 1_000_000)
    told = call(gateway.base_url, "POST", PATHS[client], made)
    assert told.status == 413
    assert told.json["error"]["message"] == "too large"


async def odd_arguments(call: Call) -> None:
    """A whole answer whose tool call has arguments of the wrong type."""
    api = api_of(call)
    value = json.loads(whole(api, ""))
    if api == "chat":
        called = {"id": "a", "type": "function", "function": {"name": "f", "arguments": [1]}}
        value["choices"][0]["message"]["tool_calls"] = [called]
    elif api == "messages":
        value["content"] = [{"type": "tool_use", "id": "toolu_a", "name": "f", "input": [1]}] * 2
    else:
        item = {"type": "function_call", "id": "fc_a", "call_id": "a", "name": "f"}
        value["output"] = [{**item, "arguments": [1], "status": "completed"}]
    await call.send(answer(json.dumps(value).encode()))


@pytest.mark.parametrize("stream", [False, True])
def test_odd_whole_answers_are_the_upstreams_fault(
    gateway: RunningGateway, upstream: Upstream, stream: bool
) -> None:
    """Never the gateway's own."""
    upstream.behaviours[KEY] = odd_arguments
    for client in APIS:
        for target in APIS:
            rested(gateway)
            made = body(client, f"{target}/m", stream=stream)
            told = call(gateway.base_url, "POST", PATHS[client], made)
            assert told.status in (200, 502), (client, target, told)
