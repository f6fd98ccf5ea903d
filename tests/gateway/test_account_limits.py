"""Limits that upstreams set for accounts are kept before they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Account, Client, Config, ConfigError, Secret, Storage, parse_config
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.gateway.clients import APIS, PATHS, body, completed
from tests.gateway.conftest import PROTOCOLS, Start, config_for
from tests.gateway.http import KEY, Answer, call


def config(simulator: RunningSimulator, *limits: Limit, spare: bool = True) -> Config:
    """Of each upstream an account `first` that comes first, with limits, and a `spare` one."""
    made = config_for(simulator.base_url)
    accounts = tuple(
        Account(
            name=f"{name}-{which}",
            upstream=name,
            key=Secret(f"sk-sim-{which}"),
            priority=priority,
            limits=limits if which == "first" else (),
        )
        for name in PROTOCOLS
        for priority, which in enumerate(("first", "spare") if spare else ("first",))
    )
    return replace(made, accounts=accounts)


def ask(gateway: Any, api: str, **more: Any) -> Answer:
    asked = body(api, f"{api}/sim-text?input=40&output=20", **more)
    return call(gateway.base_url, "POST", PATHS[api], asked)


def keys(simulator: RunningSimulator) -> list[str]:
    return [one.key.removeprefix("sk-sim-") for one in simulator.requests]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_requests(api: str, stream: bool, start: Start, simulator: RunningSimulator) -> None:
    """The rest goes to another account, and none is refused upstream."""
    gateway = start(config(simulator, Limit(kind="requests", amount=2, window="1h")))
    for _ in range(4):
        told = ask(gateway, api, stream=stream)
        assert told.status == 200, told.body
        assert not stream or completed(api, told.body)
    assert keys(simulator) == ["first", "first", "spare", "spare"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_tokens(stream: bool, start: Start, simulator: RunningSimulator) -> None:
    """What was used counts once that is known; before, what may be used."""
    gateway = start(config(simulator, Limit(kind="tokens", amount=1000, window="1h")))
    limit = {"max_completion_tokens": 900}
    for _ in range(2):
        assert ask(gateway, "chat", stream=stream, **limit).status == 200
    # 60 of 1000 were used by the first: 900 more and a prompt do not fit.
    assert keys(simulator) == ["first", "spare"]
    assert ask(gateway, "messages", max_tokens=400, stream=stream).status == 200
    assert keys(simulator)[-1] == "first"  # of another upstream


def test_where_there_is_no_other_the_client_is_told_when(
    start: Start, simulator: RunningSimulator
) -> None:
    limit = Limit(kind="requests", amount=1, window="10m")
    gateway = start(config(simulator, limit, spare=False))
    assert ask(gateway, "chat").status == 200
    told = ask(gateway, "chat")
    assert told.status in (429, 503)
    assert "limit of requests for 10m" in told.json["error"]["message"]
    assert 500 < float(told.headers["retry-after"]) < 700
    assert keys(simulator) == ["first"]


def test_those_of_a_model(start: Start, simulator: RunningSimulator) -> None:
    limit = Limit(kind="requests", amount=1, window="1h", models=("sim-other*",))
    gateway = start(config(simulator, limit))
    for _ in range(2):
        assert ask(gateway, "chat").status == 200
    assert keys(simulator) == ["first", "first"]


@pytest.mark.parametrize("window", ["day", "5h", "30m"])
def test_what_was_used_is_known_after_a_restart(
    window: str, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Of an account whoever asked, and of no other account."""
    made = config(simulator, Limit(kind="requests", amount=3, window=window))
    other = Client(name="other", key=Secret("sk-other"))
    made = replace(made, clients=(*made.clients, other), storage=Storage(path=str(tmp_path / "s")))
    for _ in range(2):
        with running_gateway(made) as gateway:
            for key in (KEY, "sk-other"):
                asked = body("chat", "chat/sim-text")
                assert call(gateway.base_url, "POST", PATHS["chat"], asked, key=key).status == 200
    assert keys(simulator) == ["first", "first", "first", "spare"]


def test_faults_are_named() -> None:
    text = """
    [[upstreams]]
    name = "a"
    protocol = "openai_chat"
    base_url = "http://127.0.0.1:1/v1"

    [[accounts]]
    name = "a-1"
    upstream = "a"

    [[accounts.limits]]
    kind = "requests"
    amount = 5
    """
    with pytest.raises(ConfigError, match="window"):
        parse_config(text, environ={})
