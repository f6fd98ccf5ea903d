"""Damaged requests over real sockets, in all nine cells: never a 5xx, never a hang."""

from __future__ import annotations

import http.client
import itertools
import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from dragoman.config import parse_config
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.fuzz.counts import REQUESTS
from tests.fuzz.mutations import damage, encode
from tests.fuzz.requests import merged
from tests.losses.requests import PROTOCOLS, cases

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "openai_responses": "/v1/responses",
}
UPSTREAM = """
[[upstreams]]
name = "{protocol}"
protocol = "{protocol}"
base_url = "{base_url}"

[[accounts]]
name = "{protocol}"
upstream = "{protocol}"
key = "sk-sim-fuzz"
"""


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with running_simulator() as simulator:
        text = "".join(
            UPSTREAM.format(protocol=protocol, base_url=simulator.base_url)
            for protocol in PROTOCOLS
        )
        with running_gateway(parse_config(text + '[options]\npolicy = "lenient"\n')) as running:
            yield running


@pytest.mark.parametrize("client", PROTOCOLS)
def test_damaged_requests_over_http(gateway: RunningGateway, client: str) -> None:
    rng = random.Random(client)
    corpus = [case for case in cases() if case.client == client]
    statuses: dict[int, int] = {}
    upstreams = itertools.cycle(PROTOCOLS)
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)) as connection:
        for _ in range(REQUESTS // 100):
            whole = merged(rng, corpus) | {"model": f"{next(upstreams)}/sim-text"}
            body = encode(rng, damage(rng, whole))
            headers = {"content-type": "application/json"}
            connection.request("POST", PATHS[client], body, headers)
            answer = connection.getresponse()
            text = answer.read()
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            assert answer.status < 500, f"{answer.status} {text!r} for {body!r}"
    assert statuses.get(200, 0), statuses
    assert statuses.get(400, 0), statuses
