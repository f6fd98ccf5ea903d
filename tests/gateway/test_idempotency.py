"""What upstreams are sent for the `Idempotency-Key` of a client."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from dragoman.config import Client, Config, Secret
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, Answer, call

PATHS_AND_MODES = list(itertools.product(APIS, (False, True)))
KEYS = ("sk-sim-a", "sk-sim-b", "sk-sim-c")
OTHER = "sk-another-client"
HEADER = "idempotency-key"
SLOW = "sim-text?head_ms=500"


def ask(
    gateway: RunningGateway,
    api: str,
    model: str,
    stream: bool = False,
    key: str = "one",
    client: str = KEY,
    **more: Any,
) -> Answer:
    made = body(api, model, stream=stream, **more)
    return call(gateway.base_url, "POST", PATHS[api], made, {HEADER: key}, key=client)


def configured(simulator: RunningSimulator, **more: Any) -> Config:
    clients = tuple(
        Client(name=name, key=Secret(key)) for name, key in (("tester", KEY), ("other", OTHER))
    )
    return config_for(simulator.base_url, keys=KEYS, clients=clients, **more)


def sent(simulator: RunningSimulator) -> list[tuple[str, str | None]]:
    return [(request.key, request.header(HEADER)) for request in simulator.requests]


@pytest.mark.parametrize("upstream", APIS)
@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_what_upstreams_are_sent(
    start: Start, simulator: RunningSimulator, api: str, stream: bool, upstream: str
) -> None:
    """A key for each account, where the protocol takes keys; the client's own is shown to none."""
    gateway = start(configured(simulator))
    for key in KEYS[:2]:
        fault = Fault("error", failure=Failure(status=503), times=1)
        simulator.app.keys.behaviours[key] = KeyBehaviour(fault)
    model = f"{upstream}/sim-text"
    assert ask(gateway, api, model, stream).status == 200
    assert [key for key, _ in sent(simulator)] == list(KEYS)
    keys = [header for _, header in sent(simulator)]
    if upstream == "messages":
        assert keys == [None] * 3
        return
    assert all(re.fullmatch(r"dragoman-[0-9a-f]{40}", key or "") for key in keys)
    assert len(set(keys)) == 3
    # Another gateway sends each account the same.
    before = dict(sent(simulator))
    simulator.app.requests.clear()
    again = start(configured(simulator))
    for _ in KEYS:
        ask(again, api, model, stream)
    assert [before[key] for key, _ in sent(simulator)] == [key for _, key in sent(simulator)]
    simulator.app.requests.clear()
    ask(again, api, model, stream, client=OTHER)
    ((account, other),) = sent(simulator)
    assert other != before[account]
    simulator.app.requests.clear()
    call(gateway.base_url, "POST", PATHS[api], body(api, model, stream=stream))
    assert [key for _, key in sent(simulator)] == [None]


def test_a_repetition_is_a_new_request(start: Start, simulator: RunningSimulator) -> None:
    """Its answer comes from the upstream, which is sent the same key again. req: 13"""
    gateway = start(config_for(simulator.base_url, keys=KEYS[:1]))
    for _ in range(2):
        answer = ask(gateway, "chat", "chat/sim-text")
        assert (answer.status, answer.headers.get("idempotent-replayed")) == (200, None)
    (first, key), (second, again) = sent(simulator)
    assert (first, key) == (second, again)
    assert key
