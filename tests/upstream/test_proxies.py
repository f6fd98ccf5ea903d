"""Through proxies: HTTP, HTTPS and SOCKS5, and whose fault it is when that fails."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from dragoman.upstream import (
    ConnectFailed,
    ConnectTimeout,
    ProxyFailed,
    Timeouts,
    TLSFailed,
    UpstreamClient,
)
from tests.upstream.calling import post
from tests.upstream.proxies import HttpProxy, SocksProxy

from .servers import OK, PATIENCE, Call, Server, Unaccepting, answers, free_port

SOON = 0.15


async def through(client: UpstreamClient, url: str, proxy: str) -> bytes:
    async with await client.send(
        post(url, proxy=proxy, timeouts=Timeouts(connect=PATIENCE))
    ) as response:
        return await response.read(10)


async def test_an_http_proxy_forwards_plain_requests(client: UpstreamClient) -> None:
    async with HttpProxy(auth="me:p@ss") as proxy:
        url = f"http://me:p%40ss@127.0.0.1:{proxy.port}"
        for _ in range(2):
            assert await through(client, "http://upstream.invalid:8000/v1/x?a=b", url) == b"ok"
        assert proxy.connections == 1
        assert proxy.calls[0].target == "http://upstream.invalid:8000/v1/x?a=b"
        assert dict(proxy.calls[0].headers)["host"] == "upstream.invalid:8000"


@pytest.mark.parametrize("proxy_tls", [False, True])
async def test_an_http_proxy_tunnels_tls(
    proxy_tls: bool, client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    async with (
        UpstreamClient(tls=client_tls) as client,
        Server(answers(OK), tls=server_tls) as upstream,
        HttpProxy(auth="me:secret", tls=server_tls if proxy_tls else None) as proxy,
    ):
        url = f"{'https' if proxy_tls else 'http'}://me:secret@127.0.0.1:{proxy.port}"
        for _ in range(2):
            assert await through(client, upstream.url, url) == b"ok"
        assert (proxy.connections, upstream.connections) == (1, 1)
        assert proxy.calls[0].target == f"127.0.0.1:{upstream.port}"
        assert "proxy-authorization" not in dict(upstream.calls[0].headers)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("auth", [None, ("me", "p@ss")])
async def test_a_socks_proxy_tunnels_everything(
    tls: bool,
    auth: tuple[str, str] | None,
    client_tls: ssl.SSLContext,
    server_tls: ssl.SSLContext,
) -> None:
    async with (
        UpstreamClient(tls=client_tls) as client,
        Server(answers(OK), tls=server_tls if tls else None) as upstream,
        SocksProxy(auth=auth) as proxy,
    ):
        url = f"socks5://{'me:p%40ss@' if auth else ''}127.0.0.1:{proxy.port}"
        for _ in range(2):
            assert await through(client, upstream.url, url) == b"ok"
        assert proxy.asked == [(1, "127.0.0.1", upstream.port)]


@pytest.mark.parametrize(
    ("scheme", "asked"), [("socks5", (1, "127.0.0.1")), ("socks5h", (3, "localhost"))]
)
async def test_who_resolves_the_name(
    client: UpstreamClient, scheme: str, asked: tuple[int, str]
) -> None:
    async with Server(answers(OK)) as upstream, SocksProxy() as proxy:
        url = f"http://localhost:{upstream.port}"
        with contextlib.suppress(ConnectFailed):
            await through(client, url, f"{scheme}://127.0.0.1:{proxy.port}")
        # Where localhost is ::1 first, the name is resolved here all the same.
        assert asked[0] == 3 or proxy.asked != [(3, "localhost", upstream.port)]
        assert asked[0] == 1 or proxy.asked == [(3, "localhost", upstream.port)]


async def test_connections_are_not_shared_between_proxies(client: UpstreamClient) -> None:
    async with HttpProxy() as one, HttpProxy() as other, Server(answers(OK)) as upstream:
        for proxy in (f"http://127.0.0.1:{one.port}", f"http://127.0.0.1:{other.port}", ""):
            assert await through(client, upstream.url, proxy) == b"ok"
        assert (one.connections, other.connections, upstream.connections) == (1, 1, 1)


@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
@pytest.mark.parametrize("upstream", ["http", "https"])
async def test_a_proxy_that_is_not_there(
    client: UpstreamClient, scheme: str, upstream: str
) -> None:
    """A dead proxy is not the upstream's or the account's fault. req: 141"""
    with pytest.raises(ProxyFailed) as caught:
        await through(
            client, f"{upstream}://127.0.0.1:9/", f"{scheme}://me:hunter2@127.0.0.1:{free_port()}"
        )
    assert not caught.value.sent
    assert "hunter2" not in str(caught.value)


async def test_a_proxy_that_does_not_accept_in_time(client: UpstreamClient) -> None:
    with Unaccepting() as port:
        request = post(
            "http://h/", proxy=f"http://127.0.0.1:{port}", timeouts=Timeouts(connect=SOON)
        )
        with pytest.raises(ProxyFailed):
            await client.send(request)


async def test_a_tunnel_that_is_not_made_in_time(client: UpstreamClient) -> None:
    """The proxy took the call; whether it or the upstream hangs cannot be told."""

    async def hang(call: Call) -> None:
        await call.client_left()

    async with Server(hang) as proxy:
        # Long enough for the proxy to be reached however busy the machine is.
        request = post("https://h/", proxy=proxy.url, timeouts=Timeouts(connect=10 * SOON))
        with pytest.raises(ConnectTimeout):
            await client.send(request)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_another_password(client: UpstreamClient, scheme: str) -> None:
    async with HttpProxy(auth="me:right") as proxy:
        with pytest.raises(ProxyFailed, match=r"407|authentication"):
            await through(client, f"{scheme}://h/", f"http://me:wrong@127.0.0.1:{proxy.port}")


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, ProxyFailed), (503, ProxyFailed), (502, ConnectFailed), (504, ConnectFailed)],
)
async def test_a_tunnel_that_is_refused(
    client: UpstreamClient, status: int, error: type[Exception]
) -> None:
    async with HttpProxy(refuse=status) as proxy:
        with pytest.raises(error, match=str(status)):
            await through(client, "https://h/", proxy.url)


@pytest.mark.parametrize(
    ("reply", "error"),
    [(1, ProxyFailed), (2, ProxyFailed), (4, ConnectFailed), (5, ConnectFailed), (99, ProxyFailed)],
)
async def test_a_socks_proxy_that_refuses(
    client: UpstreamClient, reply: int, error: type[Exception]
) -> None:
    async with SocksProxy(reply=reply) as proxy:
        with pytest.raises(error):
            await through(client, "http://127.0.0.1:9/", f"socks5://127.0.0.1:{proxy.port}")


@pytest.mark.parametrize("given", ["", "me:wrong@"])
async def test_a_socks_proxy_that_wants_another_password(
    client: UpstreamClient, given: str
) -> None:
    async with SocksProxy(auth=("me", "right")) as proxy:
        with pytest.raises(ProxyFailed):
            await through(client, "http://127.0.0.1:9/", f"socks5://{given}127.0.0.1:{proxy.port}")


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_speaks_something_else(client: UpstreamClient, scheme: str) -> None:
    async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(banner, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(ProxyFailed):
        await through(client, "https://127.0.0.1:9/", f"{scheme}://127.0.0.1:{port}")
    listener.close()


async def test_tls_inside_a_tunnel_is_the_upstreams(
    client: UpstreamClient, server_tls: ssl.SSLContext
) -> None:
    async with Server(answers(OK), tls=server_tls) as upstream, HttpProxy() as proxy:
        with pytest.raises(TLSFailed, match="self-signed"):
            await through(client, upstream.url, proxy.url)


@pytest.mark.parametrize("proxy", ["ftp://h", "127.0.0.1:8080", "http://"])
async def test_what_is_not_a_proxy_is_refused(client: UpstreamClient, proxy: str) -> None:
    with pytest.raises(ValueError, match="proxy"):
        await through(client, "http://127.0.0.1:9/", proxy)
