"""Accounts that hang: left in time, remembered, and never paid for twice unless that is set."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from dragoman.config import Timeouts
from tests.faults.conftest import SERVER, Over
from tests.faults.stalling import ask, is_good
from tests.faults.upstream import Upstream, good
from tests.gateway.clients import APIS
from tests.gateway.conftest import config_for
from tests.gateway.processes import until
from tests.upstream.servers import Call

HUNG, GOOD = "key-that-hangs", "key-that-answers"
CELLS = [
    (client, target, stream)
    for client, target in itertools.product(APIS, APIS)
    for stream in (False, True)
]


async def never(call: Call) -> None:
    await call.client_left()


@pytest.mark.parametrize(("client", "target", "stream"), CELLS)
def test_one_that_hangs_is_left_and_remembered(
    over: Over, upstream: Upstream, client: str, target: str, stream: bool
) -> None:
    """Also before anything is known of how long answers take."""
    gateway = over(HUNG, GOOD, timeouts=Timeouts(connect_s=2.0, first_byte_s=0.2))
    upstream.behaviours[HUNG] = never
    for _ in range(6):
        assert is_good(client, ask(gateway, client, target, stream), stream)
    assert upstream.asked().count(HUNG) == 1


@pytest.mark.parametrize("silent_calls", ["wait", "move"])
@pytest.mark.parametrize(("client", "target", "stream"), CELLS)
def test_a_silent_call_moves_only_where_that_is_set(
    over: Over,
    upstream: Upstream,
    caplog: pytest.LogCaptureFixture,
    client: str,
    target: str,
    stream: bool,
    silent_calls: str,
) -> None:
    """But its account is avoided in either case, from the moment that it is far too late."""
    limits = Timeouts(connect_s=2.0, first_byte_s=60.0)
    config = config_for(upstream.url, keys=(HUNG, GOOD), timeouts=limits, server=SERVER)
    upstreams = tuple(replace(one, silent_calls=silent_calls) for one in config.upstreams)
    gateway = over(config=replace(config, upstreams=upstreams))
    released = asyncio.Event()

    async def late(call: Call) -> None:
        await released.wait()
        await good(call)

    upstream.behaviours[HUNG] = late if silent_calls == "wait" else never
    # As if it had learned how long answers take.
    for wait in gateway.app.pool._pools[target].waits:
        wait.limit = 0.1
    with ThreadPoolExecutor(1) as clients:
        first = clients.submit(ask, gateway, client, target, stream)
        until(lambda: "it was silent for far longer than usual, avoided" in caplog.text)
        upstream.loop.call_soon_threadsafe(released.set)
        assert is_good(client, first.result(), stream)
    assert is_good(client, ask(gateway, client, target, stream), stream)
    assert upstream.asked() == [HUNG, *[GOOD] * (1 if silent_calls == "wait" else 2)]
