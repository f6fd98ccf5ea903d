"""Damaged requests over real sockets, in all cells: never a 5xx, never a hang."""

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
from tests.facts import facts_of
from tests.fuzz.counts import REQUESTS
from tests.fuzz.mutations import damage, encode
from tests.fuzz.requests import CLIENTS, corpus, merged

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
            UPSTREAM.format(protocol=protocol, base_url=simulator.base_url) for protocol in CLIENTS
        )
        with running_gateway(parse_config(text + '[options]\npolicy = "lenient"\n')) as running:
            yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_damaged_requests_over_http(gateway: RunningGateway, client: str) -> None:
    rng = random.Random(client)
    bodies, path = corpus(client), facts_of()[client].path
    statuses: dict[int, int] = {}
    upstreams = itertools.cycle(CLIENTS)
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)) as connection:
        for number in range(REQUESTS // 100):
            model = f"{next(upstreams)}/sim-text"
            whole = merged(rng, bodies) | {"model": model}
            body = encode(rng, damage(rng, whole))
            headers = {"content-type": "application/json"}
            connection.request("POST", path(model, number % 8 > 3), body, headers)
            answer = connection.getresponse()
            text = answer.read()
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            assert answer.status < 500, f"{answer.status} {text!r} for {body!r}"
    assert statuses.get(200, 0), statuses
    assert statuses.get(400, 0), statuses
