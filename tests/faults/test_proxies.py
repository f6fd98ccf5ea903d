"""A proxy that fails is the proxy's trouble: neither the client nor an account pays for it."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Secret, Timeouts
from tests.faults.conftest import Over, leased
from tests.faults.upstream import Upstream
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, text_of
from tests.gateway.conftest import config_for
from tests.gateway.http import Answer, call
from tests.gateway.processes import until
from tests.upstream.proxies import SocksProxy
from tests.upstream.servers import Server

TIMEOUTS = Timeouts(connect_s=1.0, first_byte_s=1.0)
PATHS_AND_MODES = list(itertools.product(APIS, (False, True)))


@pytest.fixture
def dead() -> Iterator[str]:
    """A proxy that accepts no connection."""
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        yield f"socks5://127.0.0.1:{plug.getsockname()[1]}"


@contextmanager
def running(upstream: Upstream, server: Server) -> Iterator[int]:
    """Serve in the upstream's loop; gives the port."""

    def run(work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, upstream.loop).result(10)

    run(server.__aenter__())
    try:
        yield server.port
    finally:
        run(server.__aexit__())


def through(config: Config, *urls: str, **settings: Any) -> Config:
    """The same with a set of proxies in front of every upstream."""
    proxies = tuple(map(Secret, urls))
    upstreams = [replace(entry, proxies=proxies, **settings) for entry in config.upstreams]
    return replace(config, upstreams=tuple(upstreams))


def ask(base_url: str, api: str, stream: bool = False) -> Answer:
    return call(base_url, "POST", PATHS[api], body(api, "chat/m", stream=stream))


def is_good(api: str, answer: Answer, stream: bool) -> bool:
    assert answer.status == 200, answer
    return completed(api, answer.body) if stream else text_of(api, answer) == "Good"


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
@pytest.mark.parametrize("keys", [("key-a", "key-b"), ("key-a",)])
def test_a_dead_proxy_is_passed_over(
    over: Over, upstream: Upstream, dead: str, keys: tuple[str, ...], api: str, stream: bool
) -> None:
    """The next account's call takes another; a lone account, which never saw the request, is asked
    again through another. No account rests for it. req: 141"""
    proxy = SocksProxy()
    with running(upstream, proxy) as port:
        config = config_for(upstream.url, keys=keys, timeouts=TIMEOUTS)
        gateway = over(config=through(config, dead, f"socks5://127.0.0.1:{port}"))
        for _ in range(4):
            assert is_good(api, ask(gateway.base_url, api, stream), stream)
        assert len(upstream.calls) == 4
        for number in range(len(keys)):
            state = gateway.app.pool.state(f"chat-{number}")
            assert not state.disabled
            assert not state.cooling
        until(lambda: leased(gateway) == 0)


def test_a_proxy_that_hangs(over: Over, upstream: Upstream) -> None:
    """It takes connections and says nothing. req: 141"""

    class Silent(SocksProxy):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

    good = SocksProxy()
    with running(upstream, Silent()) as silent, running(upstream, good) as port:
        timeouts = Timeouts(connect_s=0.2, first_byte_s=1.0)
        config = config_for(upstream.url, keys=("key-a", "key-b"), timeouts=timeouts)
        urls = (f"socks5://127.0.0.1:{silent}", f"socks5://127.0.0.1:{port}")
        gateway = over(config=through(config, *urls))
        for _ in range(3):
            assert is_good("chat", ask(gateway.base_url, "chat"), False)
        assert len(upstream.calls) == 3


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_no_proxy_left(over: Over, upstream: Upstream, dead: str, api: str, stream: bool) -> None:
    """An error that names no proxy, and accounts as good as before."""
    config = config_for(upstream.url, keys=("key-a", "key-b"), timeouts=TIMEOUTS)
    gateway = over(config=through(config, dead))
    answer = ask(gateway.base_url, api, stream)
    assert answer.status == 502
    assert "127.0.0.1" not in error_of(api, answer)["message"]
    assert upstream.asked() == []
    assert not gateway.app.pool.state("chat-0").cooling
    until(lambda: leased(gateway) == 0)


def test_an_accounts_own_proxy(over: Over, upstream: Upstream, dead: str) -> None:
    """It goes over those of the upstream."""
    proxy = SocksProxy()
    with running(upstream, proxy) as port:
        config = through(config_for(upstream.url, keys=("key-a",), timeouts=TIMEOUTS), dead)
        own = Secret(f"socks5://127.0.0.1:{port}")
        accounts = tuple(replace(account, proxy=own) for account in config.accounts)
        gateway = over(config=replace(config, accounts=accounts))
        assert is_good("chat", ask(gateway.base_url, "chat"), False)
        assert proxy.connections == 1


def test_the_list_of_models_goes_through_the_proxy_too(over: Over, upstream: Upstream) -> None:
    proxy = SocksProxy()
    with running(upstream, proxy) as port:
        config = config_for(upstream.url, keys=("key-a",), timeouts=TIMEOUTS)
        gateway = over(config=through(config, f"socks5://127.0.0.1:{port}"))
        call(gateway.base_url, "GET", "/v1/models")
        assert proxy.connections
