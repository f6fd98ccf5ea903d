"""Whatever member of a request its model, its price and its use are determined by is refused in
other letters, also where the body is passed on without being read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.options import Capabilities
from dragoman.config import Config, OwnPrice, Route, Upstream
from dragoman.config.limits import Limit
from dragoman.limits.rules import Rule, Rules
from dragoman.prices.loading import load_prices
from dragoman.protocols import CODECS
from dragoman.serving.limits.use import ExpectedUse, asked_output
from dragoman.serving.routing import Router
from dragoman.translation import ClientRequest

BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "anthropic_messages": {"messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"input": "Hi"},
}
NOT_ITS_OWN = {(one, "web_search_options") for one in ("anthropic_messages", "openai_responses")}
"""Looked for in all protocols, and a member of another one alone."""


class Watched(dict[str, Raw]):
    """The members of a request, which remember by which names they were asked."""

    def __init__(self, members: dict[str, Raw]) -> None:
        super().__init__(members)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Raw:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


def determining(protocol: str) -> set[str]:
    """The names by which a request's model, price and use are looked for."""
    config = Config(
        upstreams=(Upstream(name="u", protocol=protocol, base_url="http://127.0.0.1:9"),),
        routes=(Route(match="*", upstream="u"),),
        prices=(OwnPrice(model="*", input="1", output="5", cache_write="9"),),
    )
    body = json.dumps({"model": "m", "stream": True, **BODIES[protocol]}).encode()
    members = Watched(dict(jsontext.members(body)))
    request = ClientRequest(protocol, body, members=members)
    limits = Limit(kind="tokens", amount=9, window="day"), Limit(kind="cost", amount="9")
    rules = Rules([Rule(one, "k") for one in limits])
    target = Router(config).resolve("m")
    ExpectedUse().of(rules, "k", request, target, load_prices(config), 0.0)
    codec = CODECS[protocol]
    assert asked_output(request) is None
    assert request.choices == 1
    codec.endpoint.limited(members, 5)
    codec.passthrough.asks_usage(members)
    codec.passthrough.forward_request(members, "m", Capabilities())
    return members.asked


CELLS = [
    (protocol, name)
    for protocol in BODIES
    for name in sorted(determining(protocol))
    if name and (protocol, name) not in NOT_ITS_OWN
]


@pytest.mark.parametrize(("protocol", "name"), CELLS)
def test_no_other_letters_are_passed_on(protocol: str, name: str) -> None:
    for spelled in {name.upper(), name.title(), name[:-1] + name[-1].upper()}:
        body = {"model": "m", **BODIES[protocol], spelled: 1}
        with pytest.raises(InvalidRequest, match=f"write {name}"):
            ClientRequest(protocol, json.dumps(body).encode())


def test_they_are_those_that_are_known_to_matter() -> None:
    """So that the test above does not hold because nothing is looked for."""
    found = {protocol: determining(protocol) for protocol in BODIES}
    assert found["openai_chat"] >= {
        "max_completion_tokens",
        "max_tokens",
        "model",
        "n",
        "n_predict",
        "service_tier",
        "stream",
        "stream_options",
        "tools",
        "web_search_options",
    }
    assert found["anthropic_messages"] >= {"max_tokens", "service_tier", "speed", "tools"}
    assert found["openai_responses"] >= {"max_output_tokens", "previous_response_id", "tools"}
