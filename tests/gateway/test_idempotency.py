"""A request that is repeated with its key is not bought again."""

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Config, Secret, Server, Storage
from dragoman.edge import idempotency
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from dragoman.storage.opening import store_for
from tests.gateway.clients import APIS, PATHS, body, completed, error_of
from tests.gateway.conftest import SERVER, Start, config_for
from tests.gateway.http import AUTH, KEY, Answer, Connection, call
from tests.gateway.processes import until

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
def test_it_is_given_the_same_answer(
    start: Start, simulator: RunningSimulator, api: str, stream: bool, upstream: str
) -> None:
    gateway = start(configured(simulator))
    model = f"{upstream}/sim-text"
    answers = [ask(gateway, api, model, stream) for _ in range(4)]
    assert len(simulator.requests) == 1
    assert all(answer.status == 200 for answer in answers)
    assert len({answer.body for answer in answers}) == 1
    if stream:
        assert completed(api, answers[0].body)
    assert "idempotent-replayed" not in answers[0].headers
    assert all(answer.headers["idempotent-replayed"] == "true" for answer in answers[1:])
    assert len({answer.headers["content-type"] for answer in answers}) == 1
    # Another key, none at all and another client are requests of their own.
    assert ask(gateway, api, model, stream, key="two").status == 200
    assert ask(gateway, api, model, stream, client=OTHER).status == 200
    for _ in range(2):
        call(gateway.base_url, "POST", PATHS[api], body(api, model, stream=stream))
    assert len(simulator.requests) == 5


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
def test_while_it_is_in_flight(
    start: Start, simulator: RunningSimulator, api: str, stream: bool
) -> None:
    gateway = start(configured(simulator))
    made = body(api, f"chat/{SLOW}", stream=stream)
    with Connection(gateway.base_url) as first:
        first.send("POST", PATHS[api], made, {**AUTH, HEADER: "one"})
        until(lambda: len(simulator.requests) == 1)
        refused = ask(gateway, api, f"chat/{SLOW}", stream)
        assert refused.status == 409
        assert "being answered" in error_of(api, refused)["message"]
        assert refused.headers["retry-after"] == "1"
        good = first.answer()
    assert good.status == 200
    again = ask(gateway, api, f"chat/{SLOW}", stream)
    assert (again.status, again.body) == (200, good.body)
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("api", APIS)
def test_the_same_key_for_another_request(
    start: Start, simulator: RunningSimulator, api: str
) -> None:
    gateway = start(configured(simulator))
    assert ask(gateway, api, "chat/sim-text").status == 200
    refused = ask(gateway, api, "chat/sim-text", text="Other words")
    assert refused.status == 422
    assert "another request" in error_of(api, refused)["message"]
    long = ask(gateway, api, "chat/sim-text", key="k" * 256)
    assert long.status == 400
    assert len(simulator.requests) == 1


@pytest.mark.parametrize(
    ("api", "headers"),
    [
        *((api, {"x-dragoman-policy": "strict"}) for api in APIS),
        ("chat", {"openai-beta": "assistants=v2"}),
        ("messages", {"anthropic-beta": "context-1m-2025-08-07"}),
        ("responses", {"openai-beta": "responses=v1"}),
    ],
)
def test_headers_that_change_what_is_asked_make_it_another_request(
    start: Start, simulator: RunningSimulator, api: str, headers: dict[str, str]
) -> None:
    gateway = start(configured(simulator))
    made = body(api, f"{api}/sim-text")
    for more, status in ({}, 200), (headers, 422), ({"x-unrelated": "1"}, 200):
        asked = {HEADER: "one", **more}
        answer = call(gateway.base_url, "POST", PATHS[api], made, asked, key=KEY)
        assert answer.status == status
    assert len(simulator.requests) == 1


@pytest.mark.parametrize(("api", "stream"), PATHS_AND_MODES)
@pytest.mark.parametrize(
    "fault",
    [
        Fault("error", failure=Failure(status=400), times=1),
        Fault("error", failure=Failure(status=503), times=3),
        Fault("reset", after=5, times=1),
    ],
    ids=["refused", "failed", "broke off"],
)
def test_a_failure_is_not_given_again(
    start: Start, simulator: RunningSimulator, api: str, stream: bool, fault: Fault
) -> None:
    """Who tries again after it wants a better answer."""
    gateway = start(configured(simulator))
    for key in KEYS:
        simulator.app.keys.behaviours[key] = KeyBehaviour(fault)
    made = [ask(gateway, api, "chat/sim-text", stream) for _ in range(6)]
    good = made[-1]
    assert good.status == 200
    assert completed(api, good.body) if stream else good.json
    assert good.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_left_may_ask_again(
    start: Start, simulator: RunningSimulator, stream: bool
) -> None:
    gateway = start(configured(simulator))
    model = f"chat/{SLOW}"
    with Connection(gateway.base_url) as first:
        first.send(
            "POST", PATHS["chat"], body("chat", model, stream=stream), {**AUTH, HEADER: "one"}
        )
        until(lambda: len(simulator.requests) == 1)
    until(lambda: simulator.requests[0].disconnected)
    until(lambda: ask(gateway, "chat", model, stream).status == 200)
    assert len(simulator.requests) == 2


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


def test_what_is_known_is_bounded(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_MOST_KEYS", 3)
    monkeypatch.setattr(idempotency, "_LARGEST_ANSWER", 2000)
    gateway = start(configured(simulator))
    for number in range(4):
        ask(gateway, "chat", "chat/sim-text", key=f"key-{number}")
    for number, count in ((3, 4), (1, 4), (0, 5)):
        ask(gateway, "chat", "chat/sim-text", key=f"key-{number}")
        assert len(simulator.requests) == count
    large = f"chat/sim-text?text={'x' * 900}"
    for stream in (False, True):
        assert ask(gateway, "responses", large, stream, key=f"large-{stream}").status == 200
        refused = ask(gateway, "responses", large, stream, key=f"large-{stream}")
        assert refused.status == 422
        assert "too large" in error_of("responses", refused)["message"]
    assert len(simulator.requests) == 7


def test_what_is_known_is_forgotten(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(configured(simulator, server=replace(SERVER, idempotency_s=0.3)))
    for count in (1, 1):
        ask(gateway, "chat", "chat/sim-text")
        assert len(simulator.requests) == count
    time.sleep(0.4)
    ask(gateway, "chat", "chat/sim-text")
    assert len(simulator.requests) == 2


def test_a_response_in_the_background_is_begun_once(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    storage = Storage(path=str(tmp_path / "store.db"), sync_s=0.02)
    gateway = start(replace(configured(simulator), storage=storage))
    answers = [
        ask(gateway, "responses", "chat/sim-text", background=True, store=True) for _ in range(3)
    ]
    assert len({answer.json["id"] for answer in answers}) == 1
    until(lambda: len(simulator.requests) == 1)
    time.sleep(0.2)
    assert len(simulator.requests) == 1


def test_it_is_told_in_the_log_and_counted_once(
    start: Start, simulator: RunningSimulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dragoman.requests")
    storage = Storage(path=str(tmp_path / "store.db"), sync_s=0.02)
    gateway = start(replace(configured(simulator), storage=storage))
    model = "chat/sim-text?text=Counted"
    for _ in range(3):
        ask(gateway, "messages", model)

    def lines() -> list[dict[str, Any]]:
        # The log is shared with other gateways.
        found = [json.loads(text) for text in caplog.messages if text.startswith("{")]
        return [line for line in found if line.get("model") == model or "replayed" in line]

    until(lambda: len(lines()) == 3)
    assert [line.get("replayed") for line in lines()] == [None, True, True]
    assert gateway.app.account_sync is not None
    until(lambda: bool(_usage(gateway)))
    time.sleep(0.2)
    assert sum(count.requests for count in _usage(gateway).values()) == 1


def _usage(gateway: RunningGateway) -> dict[Any, Any]:
    store = store_for(gateway.app.config)
    assert store is not None
    try:
        return dict(store.usage(0, 2**40))
    finally:
        store.close()


def test_a_repetition_while_the_body_is_still_coming(
    start: Start, simulator: RunningSimulator
) -> None:
    """A key is held from when its request is there, so that a slow upload locks nobody out."""
    gateway = start(configured(simulator, server=Server(body_timeout_s=5.0)))
    raw = json.dumps(body("chat", "chat/sim-text")).encode()
    with Connection(gateway.base_url) as slow:
        headers = {
            **AUTH,
            HEADER: "one",
            "content-type": "application/json",
            "content-length": str(len(raw)),
        }
        slow.send("POST", PATHS["chat"], headers=headers)
        slow.sock.sendall(raw[:10])
        quick = call(gateway.base_url, "POST", PATHS["chat"], raw, {HEADER: "one"})
        assert quick.status == 200
        slow.sock.sendall(raw[10:])
        late = slow.answer()
    assert (late.status, late.body) == (200, quick.body)
    assert len(simulator.requests) == 1
