"""Whatever is wrong with an upstream before its first event, the good account's answer arrives."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.conftest import Over, leased, rested
from tests.faults.upstream import SSE_HEAD, Upstream, answer, api_of, event, streamed, whole
from tests.gateway.clients import APIS, PATHS, body, completed, streamed_text, text_of
from tests.gateway.http import call
from tests.gateway.processes import until
from tests.upstream.servers import Call, Handler, chunk

BAD = ("key-of-the-first", "key-of-the-second")
GOOD = "key-of-the-good-one"


def sends(data: bytes, *, close: bool = True) -> Handler:
    async def handler(call: Call) -> None:
        await call.send(data)
        if close:
            # What was sent must have been read before the connection's end is seen.
            await asyncio.sleep(0.005)
            call.writer.close()

    return handler


async def resets(call: Call) -> None:
    call.reset()


async def half_gzip(call: Call) -> None:
    packed = gzip.compress(whole(api_of(call), "Good"))[:-6]
    await call.send(answer(packed, 200, "content-encoding: gzip"))


ERROR = json.dumps({"type": "error", "error": {"type": "x", "code": "y", "message": "z"}}).encode()
OVERLOADED = event({"type": "error", "error": {"type": "overloaded_error", "message": "z"}})


def status(number: int, body: bytes = ERROR, *lines: str) -> Handler:
    return sends(answer(body, number, *lines), close=False)


FAULTS: dict[str, Handler] = {
    "nothing": sends(b""),
    "reset": resets,
    "no HTTP": sends(b"SSH-2.0-OpenSSH\r\n"),
    "noise": sends(bytes(range(256))),
    "half a head": sends(b"HTTP/1.1 200 OK\r\ncontent-ty"),
    "an endless head": sends(b"HTTP/1.1 200 OK\r\n" + b"name: value\r\n" * 20_000),
    "100 alone": sends(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 without end": sends(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 5000),
    "101": sends(b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"),
    "204": sends(b"HTTP/1.1 204 X\r\n\r\n"),
    "304": sends(b"HTTP/1.1 304 X\r\n\r\n"),
    "302": status(302, b"", "location: http://127.0.0.1:1/"),
    "307": status(307, b"", "location: /v1/elsewhere"),
    **{str(code): status(code) for code in (401, 402, 403, 408, 425, 429, 500, 529, 600, 999)},
    "502 page": status(502, b"<html>Bad gateway</html>"),
    "500 of megabytes": status(500, b"x" * 3_000_000),
    "500 of brackets": status(500, b"[" * 100_000),
    "500 cut off": sends(b"HTTP/1.1 500 X\r\ncontent-length: 100\r\n\r\n{}"),
    "429 for ages": status(429, ERROR, "retry-after: 100000000000000000000"),
    "429 and no number": status(429, ERROR, "retry-after: nan"),
    "429 till the end of time": status(429, ERROR, "retry-after: Fri, 31 Dec 9999 23:59:59 -2359"),
    "429 and nonsense": status(429, ERROR, "retry-after: ,;\xff"),
    "page": status(200, b"<html>hi</html>"),
    "empty": status(200, b""),
    "list": status(200, b"[]"),
    "null": status(200, b"null"),
    "object": status(200, b"{}"),
    "brackets": status(200, b"[" * 100_000),
    "UTF-16": status(200, "{}".encode("utf-16")),
    "200 error": status(200, ERROR),
    "too short": sends(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}"),
    "two lengths": sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} "),
    "length and chunks": sends(
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "no chunk": sends(SSE_HEAD + b"zzz\r\nabc"),
    "unknown coding": status(200, ERROR, "content-encoding: br"),
    "no gzip": status(200, ERROR, "content-encoding: gzip"),
    "half a gzip": half_gzip,
    "no event": sends(streamed([])),
    "comments": sends(streamed([b": hi\n\n"] * 3)),
    "only the end": sends(streamed([b"data: [DONE]\n\n"])),
    "no JSON event": sends(streamed([b"data: {nope\n\n"])),
    "null event": sends(streamed([b"data: null\n\n"])),
    "list event": sends(streamed([b"data: []\n\n"])),
    "object event": sends(streamed([b"data: {}\n\n"])),
    "bracket event": sends(streamed([b"data: " + b"[" * 50_000 + b"\n\n"])),
    "no text event": sends(streamed([b'data: {"a":"\xff"}\n\n'])),
    "error event": sends(streamed([OVERLOADED])),
    "head and end": sends(SSE_HEAD),
    "half an event": sends(SSE_HEAD + chunk(b'data: {"id":')),
}


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(*BAD, GOOD)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_good_account_answers(gateway: RunningGateway, upstream: Upstream, fault: str) -> None:
    """req: 133"""
    upstream.behaviours.update(dict.fromkeys(BAD, FAULTS[fault]))
    for client in APIS:
        for target in APIS:
            for stream in (False, True):
                rested(gateway)
                upstream.calls.clear()
                made = body(client, f"{target}/m", stream=stream)
                told = call(gateway.base_url, "POST", PATHS[client], made)
                where = (client, target, stream, told)
                assert told.status == 200, where
                if stream:
                    assert completed(client, told.body), where
                    assert streamed_text(client, told.body) == "Good", where
                else:
                    assert text_of(client, told) == "Good", where
                until(lambda: leased(gateway) == 0)
                # A connection that was kept may break as it is used again: then, and only then,
                # one more request comes with the same key.
                asked = upstream.asked()
                again = [key for key in set(asked) if asked.count(key) > 1]
                assert len(again) <= 1, (*where, asked)
                assert len(asked) - len(set(asked)) <= 1, (*where, asked)
