"""What a request made is freed with its last reference, refused or not: what only the collector
finds keeps the loop for milliseconds when it does."""

from __future__ import annotations

import gc
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Account, Secret, Upstream
from dragoman.config.limits import Limit
from dragoman.gateway.testing import RunningGateway, running_gateway
from dragoman.simulator.testing import running_simulator
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, Connection, call

EACH = 20
SETTLED_S = 0.3

HEADERS = {**AUTH, "content-type": "application/json"}

Ask = Callable[[RunningGateway], object]


def ask(api: str, model: str, **more: Any) -> Ask:
    return lambda gateway: call(gateway.base_url, "POST", PATHS[api], body(api, model, **more))


def leave(gateway: RunningGateway) -> None:
    """Go away in the middle of an answer."""
    data = body("chat", "messages/sim-text?delay_ms=20&words=500", stream=True)
    with Connection(gateway.base_url) as connection:
        connection.send("POST", PATHS["chat"], json.dumps(data).encode(), HEADERS)
        connection.head()


KINDS: dict[str, Ask] = {
    "translated": ask("chat", "messages/sim-text"),
    "streamed": ask("responses", "chat/sim-text", stream=True),
    "passed through": ask("messages", "messages/sim-text", stream=True),
    "refused by a limit": ask("chat", "chat/limited"),
    "refused by the upstream": ask("chat", "messages/sim-400"),
    "failed": ask("messages", "chat/sim-500"),
    "cut off": ask("chat", "messages/sim-text?fault=reset&after=3", stream=True),
    "unreachable": ask("chat", "dead/any"),
    "without a key": lambda gateway: call(
        gateway.base_url, "POST", PATHS["chat"], {}, key="sk-of-nobody-at-all"
    ),
    "not understood": lambda gateway: call(
        gateway.base_url, "POST", PATHS["messages"], {"model": "chat/x", "messages": 5}
    ),
    "left": leave,
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with running_simulator() as simulator:
        config = config_for(simulator.base_url)
        limit = Limit(kind="requests", amount=1, window="total", models=("*limited",))
        dead = Upstream(name="dead", protocol="openai_chat", base_url="http://127.0.0.1:9/v1")
        account = Account(name="dead", upstream="dead", key=Secret("sk-of-the-dead"))
        config = replace(
            config,
            clients=(replace(config.clients[0], limits=(limit,)),),
            upstreams=(*config.upstreams, dead),
            accounts=(*config.accounts, account),
        )
        with running_gateway(config) as running:
            yield running


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_the_collector(gateway: RunningGateway, kind: str) -> None:
    for _ in range(3):
        KINDS[kind](gateway)
    time.sleep(SETTLED_S)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(EACH):
            KINDS[kind](gateway)
        time.sleep(SETTLED_S)
        gc.collect()
        found = Counter(type(one).__name__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found.total() < EACH, found
