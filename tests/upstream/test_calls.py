"""Requests out, answers in."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from dragoman.upstream import (
    BadAnswer,
    BodyTooLarge,
    Truncated,
    UpstreamClient,
)
from tests.upstream.calling import post

from .servers import OK, STREAM_HEAD, Call, Server, answers, chunk


def answer(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_a_request_arrives_as_it_was_given(client: UpstreamClient) -> None:
    async with Server(answers(OK)) as server:
        headers = (("authorization", "Bearer k"), ("X-Twice", "1"), ("x-twice", "2"))
        request = post(f"{server.url}/v1/x?a=b", b'{"m":1}', headers=headers)
        async with await client.send(request) as response:
            assert response.status == 200
            assert await response.read(10) == b"ok"
        (call,) = server.calls
        assert (call.method, call.target, call.body) == ("POST", "/v1/x?a=b", b'{"m":1}')
        assert call.headers == [
            ("host", f"127.0.0.1:{server.port}"),
            ("authorization", "Bearer k"),
            ("x-twice", "1"),
            ("x-twice", "2"),
            ("accept-encoding", "identity"),
            ("content-length", "7"),
        ]


async def test_headers_of_the_connection_are_not_the_callers(client: UpstreamClient) -> None:
    async with Server(answers(OK)) as server:
        headers = (
            ("Host", "elsewhere"),
            ("Content-Length", "99"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
            ("Accept-Encoding", "gzip"),
        )
        async with await client.send(post(server.url, headers=headers)) as response:
            await response.read(10)
        (call,) = server.calls
        assert dict(call.headers)["host"] == f"127.0.0.1:{server.port}"
        assert dict(call.headers)["content-length"] == "2"
        assert dict(call.headers)["accept-encoding"] == "gzip"
        assert not {"connection", "transfer-encoding"} & dict(call.headers).keys()


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b", "snow \u2603"])
async def test_a_header_that_would_break_the_request_is_refused_unshown(
    client: UpstreamClient, value: str
) -> None:
    with pytest.raises(ValueError, match="header") as caught:
        await client.send(post("http://127.0.0.1:9", headers=(("authorization", value),)))
    assert value not in str(caught.value)


async def test_the_headers_of_an_answer(client: UpstreamClient) -> None:
    raw = answer(b"", "X-A: 1", "x-a: 2", "Empty:", "X-Latin: caf\u00e9")
    async with (
        Server(answers(raw.replace("\u00e9".encode(), b"\xe9"))) as server,
        await client.send(post(server.url)) as response,
    ):
        headers = response.headers
        assert headers["X-A"] == "1, 2"
        assert headers["empty"] == ""
        assert headers["x-latin"] == "caf\u00e9"
        assert "x-b" not in headers
        assert headers.get("x-b", "none") == "none"
        assert list(headers) == ["content-length", "x-a", "empty", "x-latin"]


@pytest.mark.parametrize("status", [204, 304, 400, 429, 500, 529])
async def test_an_answer_of_any_status_is_an_answer(client: UpstreamClient, status: int) -> None:
    raw = f"HTTP/1.1 {status} Some\r\ncontent-length: 0\r\n\r\n".encode()
    async with (
        Server(answers(raw)) as server,
        await client.send(post(server.url)) as response,
    ):
        assert response.status == status
        assert await response.read(10) == b""


async def test_redirects_are_not_followed(client: UpstreamClient) -> None:
    raw = b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    async with (
        Server(answers(raw)) as server,
        await client.send(post(server.url)) as response,
    ):
        assert (response.status, response.headers["location"]) == (302, "/elsewhere")
        assert len(server.calls) == 1


async def test_chunks_come_as_the_upstream_sends_them(client: UpstreamClient) -> None:
    taken = asyncio.Semaphore(0)

    async def handler(call: Call) -> None:
        await call.send(STREAM_HEAD)
        for number in range(3):
            await call.send(chunk(b"data: %d\n\n" % number))
            await taken.acquire()
        await call.send(b"0\r\n\r\n")

    async with (
        Server(handler) as server,
        await client.send(post(server.url)) as response,
    ):
        got = []
        async for data in response:
            got.append(data)
            taken.release()
        assert got == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]


@pytest.mark.parametrize("step", [1, 7])
async def test_an_answer_cut_anywhere_is_the_same(client: UpstreamClient, step: int) -> None:
    raw = STREAM_HEAD + chunk(b"hello ") + chunk(b"world") + b"0\r\nx-trailer: 1\r\n\r\n"
    parts = [raw[at : at + step] for at in range(0, len(raw), step)]
    async with (
        Server(answers(*parts)) as server,
        await client.send(post(server.url)) as response,
    ):
        assert await response.read(100) == b"hello world"
        assert "x-trailer" not in response.headers


async def test_trailers_are_of_no_answer(client: UpstreamClient) -> None:
    raw = STREAM_HEAD + chunk(b"ok") + b"0\r\nx-trailer: 1\r\n\r\n"
    async with Server(answers(raw)) as server:
        for _ in range(2):
            async with await client.send(post(server.url)) as response:
                assert await response.read(10) == b"ok"
                assert "x-trailer" not in response.headers
        assert server.connections == 1


async def test_informational_answers_are_skipped(client: UpstreamClient) -> None:
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK
    async with Server(answers(raw)) as server:
        for _ in range(2):
            async with await client.send(post(server.url)) as response:
                assert response.status == 200
                assert "link" not in response.headers
                assert await response.read(10) == b"ok"
        assert server.connections == 1


async def test_a_body_may_end_with_its_connection(client: UpstreamClient) -> None:
    async with (
        Server(answers(b"HTTP/1.1 200 OK\r\n\r\n", b"to the end", close=True)) as server,
        await client.send(post(server.url)) as response,
    ):
        assert await response.read(100) == b"to the end"


async def test_a_large_request_and_a_large_answer(client: UpstreamClient) -> None:
    body = bytes(range(256)) * 4096 * 4

    async def echo(call: Call) -> None:
        await call.send(answer(call.body))

    async with (
        Server(echo) as server,
        await client.send(post(server.url, body)) as response,
    ):
        assert await response.read(len(body)) == body


@pytest.mark.parametrize("framed", [True, False])
async def test_a_body_over_the_limit_is_refused(client: UpstreamClient, framed: bool) -> None:
    body = b"x" * 1000
    raw = answer(body) if framed else STREAM_HEAD + chunk(body) + b"0\r\n\r\n"
    async with Server(answers(raw)) as server:
        with pytest.raises(BodyTooLarge):
            await (await client.send(post(server.url))).read(999)
        assert await (await client.send(post(server.url))).read(1000) == body


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


CODED = b"some text, some text, " * 50


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(CODED)),
        ("X-GZIP", gzip.compress(CODED)),
        ("gzip", gzip.compress(CODED[:100]) + gzip.compress(CODED[100:])),
        ("deflate", zlib.compress(CODED)),
        ("deflate", raw_deflate(CODED)),
        ("identity", CODED),
    ],
    ids=["gzip", "upper case", "two members", "zlib", "raw deflate", "identity"],
)
@pytest.mark.parametrize("step", [1, 1 << 20])
async def test_content_codings_are_undone(
    client: UpstreamClient, coding: str, packed: bytes, step: int
) -> None:
    parts = [chunk(packed[at : at + step]) for at in range(0, len(packed), step)]
    head = STREAM_HEAD[:-2] + f"content-encoding: {coding}\r\n\r\n".encode()
    async with (
        Server(answers(head, *parts, b"0\r\n\r\n")) as server,
        await client.send(post(server.url)) as response,
    ):
        assert await response.read(len(CODED)) == CODED


@pytest.mark.parametrize(
    ("coding", "packed", "error"),
    [
        ("gzip", b"not gzip at all", BadAnswer),
        ("gzip", gzip.compress(CODED)[:-9], Truncated),
        ("br", b"anything", BadAnswer),
        ("gzip, gzip", b"anything", BadAnswer),
    ],
    ids=["no gzip", "cut off", "unknown", "twice"],
)
async def test_a_coding_that_cannot_be_undone_is_an_error(
    client: UpstreamClient, coding: str, packed: bytes, error: type[Exception]
) -> None:
    async with Server(answers(answer(packed, f"content-encoding: {coding}"))) as server:
        with pytest.raises(error):
            await (await client.send(post(server.url))).read(10_000)


async def test_what_unpacks_into_more_than_the_limit_is_refused(client: UpstreamClient) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with Server(answers(answer(bomb, "content-encoding: gzip"))) as server:
        with pytest.raises(BodyTooLarge):
            await (await client.send(post(server.url))).read(1_000_000)
