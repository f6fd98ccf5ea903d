"""The workbench of the administration: a request in every protocol, and one that is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Options
from dragoman.config import Admin, Config, Route, Secret, Storage
from dragoman.gateway.testing import RunningGateway, running_gateway
from dragoman.protocols import CODECS
from dragoman.simulator.testing import RunningSimulator
from dragoman.translation import translate_request
from tests.gateway.conftest import config_for
from tests.gateway.test_admin import TOKEN
from tests.gateway.test_sign_in import ask

MESSAGES = {
    "model": "any",
    "max_tokens": 100,
    "top_k": 40,
    "stop_sequences": ["</answer>"],
    "messages": [{"role": "user", "content": "What is in a.py?"}],
    "container": "c1",
}
CHAT = {"model": "any", "messages": [{"role": "user", "content": "Hi"}], "seed": 7, "n": 2}
RESPONSES = {"model": "any", "input": "Hi", "truncation": "auto", "max_tool_calls": 3}
EXAMPLES = {"anthropic_messages": MESSAGES, "openai_chat": CHAT, "openai_responses": RESPONSES}


@pytest.fixture
def config(simulator: RunningSimulator, tmp_path: Path) -> Config:
    return replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )


@pytest.fixture
def gateway(config: Config) -> Iterator[RunningGateway]:
    with running_gateway(config) as running:
        yield running


def translate(gateway: RunningGateway, source: str, body: object, **more: str) -> Any:
    asked = {"from": source, "body": json.dumps(body), **more}
    return ask(gateway, "POST", "/translate", asked, key=TOKEN)


def refusal(source: Any, target: Any, body: str, policy: Policy) -> Refused | None:
    """What the library raises."""
    try:
        translate_request(source, target, body, options=Options(policy=policy))
    except Refused as refused:
        return refused
    return None


@pytest.mark.parametrize("source", EXAMPLES)
def test_it_shows_what_the_library_does(gateway: RunningGateway, source: Any) -> None:
    answer = translate(gateway, source, EXAMPLES[source])
    assert answer.status == 200, answer.body
    targets = answer.json["targets"]
    assert [one["protocol"] for one in targets] == [name for name in CODECS if name != source]
    body, lost = json.dumps(EXAMPLES[source]), 0
    for one in targets:
        options = Options(policy=Policy.LENIENT)
        expected = translate_request(source, one["protocol"], body, options=options)
        assert one["body"] == expected.body.decode()
        assert [(loss["path"], loss["kind"]) for loss in one["losses"]] == [
            (loss.path, loss.kind) for loss in expected.losses
        ]
        lost += len(expected.losses)
        for policy in Policy:
            refused = refusal(source, one["protocol"], body, policy)
            assert one["verdicts"][policy] == {
                "passes": refused is None,
                "message": "" if refused is None else refused.fault.message,
                "paths": [] if refused is None else list(refused.paths),
            }
    assert lost


def test_the_options_of_a_route_apply(config: Config) -> None:
    route = Route(match="strictly-*", upstream="responses", model="there", policy=Policy.STRICT)
    config = replace(config, routes=(route, *config.routes))
    with running_gateway(config) as gateway:
        found = translate(gateway, "openai_chat", CHAT, model="strictly-any")
    assert found.status == 200, found.body
    assert found.json["upstream"] == "responses"
    assert found.json["policy"] == "strict"
    bodies = {one["protocol"]: json.loads(one["body"]) for one in found.json["targets"]}
    assert bodies["openai_responses"]["model"] == "there"
    assert bodies["anthropic_messages"]["model"] == "any"


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"from": "telepathy", "body": "{}"}, "from"),
        ({"from": "openai_chat", "body": {}}, "body"),
        ({"from": "openai_chat", "body": '{"model": "a"}'}, "messages"),
        ({"from": "openai_chat", "body": json.dumps(CHAT), "model": "\0no"}, "model"),
        ({"from": "openai_chat", "body": json.dumps(CHAT), "colour": "red"}, "colour"),
        ({"from": "openai_chat", "body": "{\ud800"}, None),
    ],
)
def test_what_cannot_be_read_is_told(
    gateway: RunningGateway, asked: object, param: str | None
) -> None:
    answer = ask(gateway, "POST", "/translate", asked, key=TOKEN)
    assert answer.status == 400
    assert answer.json["error"]["param"] == param
