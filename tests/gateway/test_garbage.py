"""What a request leaves dies with its last reference: no cycles are left for the collector.

The simulator runs in a process of its own, so that all garbage found here is the gateway's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from dragoman.config import Fallback, Route, Secret
from dragoman.config.limits import Limit
from dragoman.processes.listening import bind
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.translation import Call, ClientRequest
from dragoman.upstream.request import UpstreamRequest
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.processes import simulator_process, until

REQUESTS = 20
TRIES = 3
GOOD = "sk-sim-good"
STREAMED = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The simulator's."""
    with simulator_process() as (url, _):
        yield url


@pytest.fixture(scope="module")
def gateway(base_url: str) -> Iterator[RunningGateway]:
    """A gateway whose accounts are all good."""
    with running_gateway(config_for(base_url), None) as gateway:
        yield gateway


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage stays where it is."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_idle(gateway: RunningGateway) -> bool:
    accounts = gateway.app.pool.accounts()
    return not any(gateway.app.pool.in_flight(account.name) for account in accounts)


def garbage(gateway: RunningGateway, request: Callable[[], None]) -> int:
    """Objects in cycles that so many requests left, after some to warm up: the least of some tries,
    as where a machine is slow what is about to be freed may still be held."""
    for _ in range(3):
        request()
    found = REQUESTS
    for _ in range(TRIES):
        found = min(found, _left_by(gateway, request))
        if found < REQUESTS:
            break
    return found


def _left_by(gateway: RunningGateway, request: Callable[[], None]) -> int:
    until(lambda: is_idle(gateway))
    time.sleep(0.1)
    with uncollected():
        for _ in range(REQUESTS):
            request()
        until(lambda: is_idle(gateway))
        # A connection that was closed is seen to be in the loop's next turns.
        time.sleep(0.1)
        return gc.collect()


def asking(
    gateway: RunningGateway, api: str, model: str, status: int, *, stream: bool
) -> Callable[[], None]:
    def ask() -> None:
        asked = body(api, model, stream=stream)
        assert call(gateway.base_url, "POST", PATHS[api], asked).status == status

    return ask


@STREAMED
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize("api", APIS)
def test_answers_leave_no_cycles(
    gateway: RunningGateway, api: str, upstream: str, stream: bool
) -> None:
    ask = asking(gateway, api, f"{upstream}/sim-text", 200, stream=stream)
    assert garbage(gateway, ask) < REQUESTS


@STREAMED
@pytest.mark.parametrize("api", APIS)
def test_refusals_leave_no_cycles(gateway: RunningGateway, api: str, stream: bool) -> None:
    ask = asking(gateway, api, "nowhere/sim-text", 404, stream=stream)
    assert garbage(gateway, ask) < REQUESTS


@STREAMED
@pytest.mark.parametrize("api", APIS)
def test_limits_that_refuse_leave_no_cycles(base_url: str, api: str, stream: bool) -> None:
    """Who is refused comes again, a thousand times a second."""
    config = config_for(base_url)
    limit = Limit(kind="requests", amount=1, window="1h")
    limited = replace(config, clients=(replace(config.clients[0], limits=(limit,)),))
    with running_gateway(limited, None) as gateway:
        asking(gateway, api, "chat/sim-text", 200, stream=stream)()
        status = 402 if api == "messages" else 429  # for long
        ask = asking(gateway, api, "chat/sim-text", status, stream=stream)
        assert garbage(gateway, ask) < REQUESTS


def test_connections_that_fail_leave_no_cycles(base_url: str) -> None:
    with bind("127.0.0.1", 0) as plug:
        nobody = f"http://127.0.0.1:{plug.getsockname()[1]}/v1"
    config = config_for(base_url)
    upstreams = tuple(
        replace(one, base_url=nobody) if one.name == "chat" else one for one in config.upstreams
    )
    with running_gateway(replace(config, upstreams=upstreams), None) as gateway:
        ask = asking(gateway, "chat", "chat/sim-text", 502, stream=False)
        assert garbage(gateway, ask) < REQUESTS


@STREAMED
@pytest.mark.parametrize("bad", ["500", "429", "reset", "truncate", "error_200", "empty", "html"])
def test_retried_requests_leave_no_cycles(base_url: str, bad: str, stream: bool) -> None:
    with running_gateway(config_for(base_url, keys=(f"sk-sim-{bad}", GOOD)), None) as gateway:
        pool = gateway.app.pool
        ask = asking(gateway, "chat", "messages/sim-text", 200, stream=stream)

        def again() -> None:
            for account in pool.accounts():
                pool.enable(account.name)
            ask()

        assert garbage(gateway, again) < REQUESTS


@STREAMED
def test_requests_without_an_account_leave_no_cycles(base_url: str, stream: bool) -> None:
    with running_gateway(config_for(base_url, keys=("sk-sim-401",)), None) as gateway:
        ask = asking(gateway, "chat", "messages/sim-text", 403, stream=stream)
        assert garbage(gateway, ask) < REQUESTS


@STREAMED
@pytest.mark.parametrize("bad", ["500", "429", "reset"])
def test_requests_whose_last_account_failed_leave_no_cycles(
    base_url: str, bad: str, stream: bool
) -> None:
    with running_gateway(config_for(base_url, keys=(f"sk-sim-{bad}",)), None) as gateway:

        def ask() -> None:
            for account in gateway.app.pool.accounts():
                gateway.app.pool.enable(account.name)
            asked = body("chat", "messages/sim-text", stream=stream)
            assert call(gateway.base_url, "POST", PATHS["chat"], asked).status >= 400

        assert garbage(gateway, ask) < REQUESTS


@STREAMED
def test_clients_that_leave_leave_no_cycles(gateway: RunningGateway, stream: bool) -> None:
    pace = "delay_ms=30&words=30" if stream else "head_ms=500"

    def leave() -> None:
        with Connection(gateway.base_url) as connection:
            asked = body("chat", f"messages/sim-text?{pace}", stream=stream)
            connection.send("POST", PATHS["chat"], asked, AUTH)
            until(lambda: not is_idle(gateway))
            # Only then is it watched for.
            time.sleep(0.02)
        until(lambda: is_idle(gateway))

    assert garbage(gateway, leave) < REQUESTS


def requests_held() -> list[object]:
    """All requests in memory but those without a body, which accounts have in common."""
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, ClientRequest | Call) or (isinstance(one, UpstreamRequest) and one.body)
    ]


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize("api", APIS)
def test_a_stream_holds_no_request(gateway: RunningGateway, api: str, upstream: str) -> None:
    """Streams are long, and bodies large."""
    with Connection(gateway.base_url) as connection:
        model = f"{upstream}/sim-text?delay_ms=50&words=40"
        connection.send("POST", PATHS[api], body(api, model, stream=True), AUTH)
        assert connection.head().status == 200
        assert connection.chunk()
        assert requests_held() == []
    until(lambda: is_idle(gateway))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("first", ["account", "upstream"])
def test_a_stream_holds_no_request_that_failed_before(base_url: str, first: str, api: str) -> None:
    """Neither of the account before nor of the upstream before, which could not be reached."""
    with bind("127.0.0.1", 0) as plug:
        nobody = f"http://127.0.0.1:{plug.getsockname()[1]}"
    model = "sim-text?delay_ms=50&words=40"
    target = Route(match="m", upstream="messages", model=model)
    config = config_for(base_url, keys=("sk-sim-one", GOOD), routes=(target,))
    if first == "account":
        bad, *good = (one for one in config.accounts if one.upstream == "messages")
        config = replace(config, accounts=(replace(bad, proxy=Secret(nobody)), *good))
    else:
        there = replace(target, upstream="chat", fallbacks=(Fallback(upstream="messages"),))
        upstreams = tuple(
            replace(one, base_url=nobody) if one.name == "chat" else one for one in config.upstreams
        )
        config = replace(config, routes=(there,), upstreams=upstreams)
    with (
        running_gateway(config, None) as gateway,
        Connection(gateway.base_url) as connection,
        uncollected(),
    ):
        connection.send("POST", PATHS[api], body(api, "m", stream=True), AUTH)
        assert connection.head().status == 200
        assert connection.chunk()
        assert requests_held() == []
