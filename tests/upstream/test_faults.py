"""Each way in which a call fails has a class of its own."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from dragoman.upstream import (
    BadAnswer,
    CallError,
    ConnectFailed,
    ConnectionReset,
    ConnectTimeout,
    FirstByteTimeout,
    IdleTimeout,
    Timeouts,
    TLSFailed,
    TotalTimeout,
    Truncated,
    UpstreamClient,
    UpstreamResponse,
    UpstreamTimeout,
)
from tests.upstream.calling import post

from .conftest import Authority
from .servers import (
    OK,
    STREAM_HEAD,
    Call,
    Handler,
    Server,
    Unaccepting,
    answers,
    chunk,
    free_port,
    silence,
)

SOON = 0.15


async def read_all(client: UpstreamClient, url: str, timeouts: Timeouts | None = None) -> bytes:
    async with await client.send(post(url, timeouts=timeouts or Timeouts())) as response:
        return await response.read(1_000_000)


async def collect(response: UpstreamResponse, got: list[bytes]) -> None:
    """Read to the end; what came is in `got` also when the end is an error."""
    async for data in response:
        got.append(data)  # noqa: PERF401 - a comprehension would lose what came


async def test_nothing_listens(client: UpstreamClient) -> None:
    """A refused connection is told from other faults. req: 141"""
    with pytest.raises(ConnectFailed) as caught:
        await read_all(client, f"http://127.0.0.1:{free_port()}")
    assert not caught.value.sent


async def test_the_name_does_not_resolve(client: UpstreamClient) -> None:
    with pytest.raises(ConnectFailed, match="resolve"):
        await read_all(client, "http://no-such-host.invalid/")


async def test_no_connection_in_time(client: UpstreamClient) -> None:
    """A connect timeout is told from other faults. req: 141"""
    with Unaccepting() as port, pytest.raises(ConnectTimeout) as caught:
        await read_all(client, f"http://127.0.0.1:{port}", Timeouts(connect=SOON))
    assert not caught.value.sent


async def test_the_whole_call_is_limited_while_it_connects(client: UpstreamClient) -> None:
    with Unaccepting() as port, pytest.raises(TotalTimeout):
        await read_all(client, f"http://127.0.0.1:{port}", Timeouts(total=SOON))


async def test_no_answer_in_time(client: UpstreamClient) -> None:
    async with Server(silence) as server:
        with pytest.raises(FirstByteTimeout) as caught:
            await read_all(client, server.url, Timeouts(first_byte=SOON))
        assert caught.value.sent
        assert isinstance(caught.value, UpstreamTimeout)


async def test_half_a_head_is_no_answer(client: UpstreamClient) -> None:
    async def handler(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nx: ")
        await call.client_left()

    async with Server(handler) as server:
        with pytest.raises(FirstByteTimeout):
            await read_all(client, server.url, Timeouts(first_byte=SOON))


async def stall(call: Call) -> None:
    await call.send(STREAM_HEAD + chunk(b"one"))
    await call.client_left()


@pytest.mark.parametrize(
    ("timeouts", "error"),
    [(Timeouts(idle=SOON), IdleTimeout), (Timeouts(total=SOON), TotalTimeout)],
)
async def test_a_stream_that_falls_silent(
    client: UpstreamClient, timeouts: Timeouts, error: type[CallError]
) -> None:
    """What came before the silence is delivered first."""
    async with Server(stall) as server:
        response = await client.send(post(server.url, timeouts=timeouts))
        got: list[bytes] = []
        with pytest.raises(error):
            await collect(response, got)
        assert got == [b"one"]


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        (Timeouts(first_byte=SOON), FirstByteTimeout),
        (Timeouts(idle=SOON), IdleTimeout),
        (Timeouts(total=SOON), TotalTimeout),
    ],
)
async def test_shorter_limits_than_those_of_the_call_before(
    client: UpstreamClient, limits: Timeouts, error: type[CallError]
) -> None:
    async def handler(call: Call) -> None:
        if call.number and error is not FirstByteTimeout:
            await call.send(STREAM_HEAD + chunk(b"one"))
        await (call.client_left() if call.number else call.send(OK))

    async with Server(handler) as server:
        await read_all(client, server.url, Timeouts(first_byte=60.0, idle=60.0, total=60.0))
        with pytest.raises(error):
            await read_all(client, server.url, limits)
        assert server.connections == 1


async def test_limits_of_the_call_before_are_over(client: UpstreamClient) -> None:
    async def handler(call: Call) -> None:
        for part in (STREAM_HEAD, chunk(b"one"), b"0\r\n\r\n"):
            await asyncio.sleep(call.number * 2 * SOON)
            await call.send(part)

    async with Server(handler) as server:
        limits = Timeouts(first_byte=10 * SOON, idle=10 * SOON, total=10 * SOON)
        await read_all(client, server.url, limits)
        unlimited = Timeouts(connect=0.0, first_byte=0.0, idle=0.0)
        await asyncio.sleep(8 * SOON)
        assert await read_all(client, server.url, unlimited) == b"one"
        assert server.connections == 1


async def test_a_slow_caller_is_not_the_upstreams_silence(client: UpstreamClient) -> None:
    async with (
        Server(answers(STREAM_HEAD + chunk(b"one") + chunk(b"two"), b"0\r\n\r\n")) as server,
        await client.send(post(server.url, timeouts=Timeouts(idle=SOON))) as response,
    ):
        await asyncio.sleep(3 * SOON)
        assert await response.read(100) == b"onetwo"


async def test_a_stream_that_goes_on_outlives_the_idle_limit(client: UpstreamClient) -> None:
    async def handler(call: Call) -> None:
        await call.send(STREAM_HEAD)
        for _ in range(6):
            await asyncio.sleep(SOON / 3)
            await call.send(chunk(b"x"))
        await call.send(b"0\r\n\r\n")

    async with Server(handler) as server:
        limits = Timeouts(idle=SOON, first_byte=SOON, connect=SOON)
        assert await read_all(client, server.url, limits) == b"x" * 6


async def reset_unanswered(call: Call) -> None:
    call.reset()


async def half_head(call: Call) -> None:
    await call.send(b"HTTP/1.1 200 OK\r\n")
    call.writer.close()


@pytest.mark.parametrize("handler", [answers(close=True), reset_unanswered, half_head])
async def test_the_connection_ends_before_the_answer(
    client: UpstreamClient, handler: Handler
) -> None:
    async with Server(handler) as server:
        with pytest.raises(ConnectionReset) as caught:
            await read_all(client, server.url)
        assert caught.value.sent
        assert len(server.calls) == 1


async def reset_midway(call: Call) -> None:
    await call.send(STREAM_HEAD + chunk(b"one"))
    await asyncio.sleep(SOON)
    call.reset()


@pytest.mark.parametrize(
    "handler",
    [
        reset_midway,
        answers(STREAM_HEAD + chunk(b"one"), close=True),
        answers(STREAM_HEAD + chunk(b"one") + b"5\r\nab", close=True),
        answers(STREAM_HEAD + chunk(b"one") + b"0\r\n", close=True),
        answers(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\none", close=True),
    ],
)
async def test_an_answer_that_ends_early_is_never_whole(
    client: UpstreamClient, handler: Handler
) -> None:
    async with Server(handler) as server:
        response = await client.send(post(server.url))
        got: list[bytes] = []
        with pytest.raises(Truncated):
            await collect(response, got)
        assert b"".join(got).startswith(b"one")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot a size\r\n",
        b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_a_bad_answer(client: UpstreamClient, raw: bytes) -> None:
    async def handler(call: Call) -> None:
        await call.send(raw)
        await call.client_left()

    async with Server(handler) as server:
        with pytest.raises(BadAnswer):
            await read_all(client, server.url)


async def test_tls_that_is_trusted(client_tls: ssl.SSLContext, server_tls: ssl.SSLContext) -> None:
    async with (
        UpstreamClient(tls=client_tls) as client,
        Server(answers(OK), tls=server_tls) as server,
    ):
        for _ in range(2):
            assert await read_all(client, server.url) == b"ok"
        assert server.connections == 1


async def test_a_certificate_that_is_not_trusted(
    client: UpstreamClient, server_tls: ssl.SSLContext
) -> None:
    async with Server(answers(OK), tls=server_tls) as server:
        with pytest.raises(TLSFailed, match="self-signed") as caught:
            await read_all(client, server.url)
        assert not caught.value.sent


async def test_a_certificate_of_somebody_else(elsewhere: Authority) -> None:
    async with (
        UpstreamClient(tls=elsewhere.client) as client,
        Server(answers(OK), tls=elsewhere.server) as server,
    ):
        with pytest.raises(TLSFailed, match="mismatch"):
            await read_all(client, server.url)


async def test_an_upstream_without_tls(client: UpstreamClient) -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(TLSFailed):
        await read_all(client, f"https://127.0.0.1:{port}")
    server.close()


async def test_a_stream_over_tls_that_ends_early(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    handler = answers(STREAM_HEAD + chunk(b"one"), close=True)
    async with (
        UpstreamClient(tls=client_tls) as client,
        Server(handler, tls=server_tls) as server,
    ):
        with pytest.raises(Truncated):
            await read_all(client, server.url)


@pytest.mark.parametrize("started", [True, False])
async def test_a_client_that_is_not_open_says_so(started: bool) -> None:
    client = UpstreamClient()
    if started:
        await client.start()
        await client.aclose()
    with pytest.raises(RuntimeError, match="not started"):
        await client.send(post("http://127.0.0.1:9"))


async def test_errors_name_neither_url_nor_secret(client: UpstreamClient) -> None:
    request = post(
        f"http://127.0.0.1:{free_port()}/v1?key=hunter2",
        headers=(("authorization", "Bearer hunter2"),),
    )
    assert "hunter2" not in repr(request)
    with pytest.raises(ConnectFailed) as caught:
        await client.send(request)
    assert "hunter2" not in str(caught.value)
