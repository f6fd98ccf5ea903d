"""The workbench of the administration: a request in every protocol, and one that is sent."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Options
from dragoman.config import Admin, Config, Route, Secret, Storage
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols import CODECS
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.translation import translate_request
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tests.gateway.sessions import ask, made

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


HELLO = {"model": "none", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}


def send(gateway: RunningGateway, body: object, **more: object) -> list[dict[str, Any]]:
    """The frames that are told of a request that is sent."""
    asked = {"from": "openai_chat", "body": json.dumps(body), **more}
    answer = ask(gateway, "POST", "/workbench/send", asked, key=TOKEN)
    assert answer.status == 200, answer.body
    events = answer.body.decode().split("\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in events if event]


def joined(frames: list[dict[str, Any]], kind: str) -> str:
    return "".join(frame["raw"] for frame in frames if frame["event"] == kind)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_both_sides_are_shown_as_they_were_sent(
    gateway: RunningGateway, simulator: RunningSimulator, upstream: str, stream: bool
) -> None:
    body = {**HELLO, "stream": stream}
    frames = send(gateway, body, model=f"{upstream}/sim-text?text=one+two&chunks=4")
    attempt, done = frames[0], frames[-1]
    assert (attempt["event"], attempt["upstream"], attempt["status"]) == ("attempt", upstream, 200)
    assert json.loads(attempt["body"]) == simulator.last.json
    assert (done["event"], done["status"], done["error"], done["left_out"]) == ("done", 200, "", 0)
    assert done["account"] == attempt["account"]

    answered = call(
        gateway.base_url,
        "POST",
        "/v1/chat/completions",
        json.dumps({**body, "model": f"{upstream}/sim-text?text=one+two&chunks=4"}).encode(),
    )
    ids = re.compile(r'(chatcmpl-\w+|"created":\d+|resp_\w+|msg_\w+)')
    told = joined(frames, "client")
    assert ids.sub("", told) == ids.sub("", answered.body.decode())
    mine = [frame for frame in frames if frame["event"] == "upstream"]
    assert [frame["number"] for frame in mine] == list(range(1, len(mine) + 1))
    if stream:
        assert all(frame["raw"].endswith("\n\n") for frame in mine)
        caused = [frame["caused_by"] for frame in frames if frame["event"] == "client"]
        assert caused == sorted(caused)
        assert len(set(caused)) > 3  # what comes of an event is told beside it
    else:
        assert len(mine) == 1


def test_what_is_sent_counts_and_is_written_down(gateway: RunningGateway) -> None:
    done = send(gateway, HELLO, model="messages/sim-text", max_tokens=77)[-1]
    (row,) = eventually(lambda: ask(gateway, "GET", "/requests", key=TOKEN).json["rows"])
    assert row["id"] == done["id"]
    assert (row["key"], row["upstream"], row["status"]) == ("workbench", "messages", 200)
    (line,) = ask(gateway, "GET", "/audit?action=send", key=TOKEN).json["changes"]
    assert (line["kind"], line["name"]) == ("request", done["id"])
    assert line["after"] == {"from": "openai_chat", "model": "messages/sim-text"}
    assert "Hi" not in json.dumps(line)


def test_an_output_limit_and_a_policy_are_kept(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    send(gateway, HELLO, model="messages/sim-text", max_tokens=77)
    assert simulator.last.json["max_tokens"] == 77
    frames = send(gateway, {**HELLO, "seed": 7}, model="messages/sim-text", policy="strict")
    assert frames[-1]["status"] == 400
    assert "seed" in joined(frames, "client")
    assert [frame for frame in frames if frame["event"] in ("attempt", "upstream")] == []


def test_the_simulator_can_be_asked_without_a_route(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    before = len(simulator.requests)
    frames = send(gateway, HELLO, scenario="text?text=seven", to="openai_responses")
    assert "seven" in joined(frames, "upstream")
    assert "seven" in joined(frames, "client")
    assert "response.created" in joined(frames, "upstream")
    assert frames[-1]["upstream"] == "simulator"
    assert len(simulator.requests) == before
    assert ask(gateway, "GET", "/requests", key=TOKEN).json["rows"] == []


def test_who_may_not_change_may_not_send(gateway: RunningGateway) -> None:
    viewer = made(gateway, "looker", "viewer")
    asked = {"from": "openai_chat", "body": json.dumps(HELLO), "model": "chat/sim-text"}
    assert ask(gateway, "POST", "/workbench/send", asked, key=viewer).status == 403
    assert ask(gateway, "POST", "/translate", asked, key=viewer).status == 200


def test_a_failed_attempt_and_its_retry_are_both_shown(
    simulator: RunningSimulator, config: Config
) -> None:
    config = replace(config, accounts=config_for(simulator.base_url, keys=("a", "b")).accounts)
    simulator.app.keys.behaviours["a"] = KeyBehaviour(Fault("error", failure=Failure(status=529)))
    with running_gateway(config) as gateway:
        frames = send(gateway, HELLO, model="messages/sim-text")
    attempts = [frame for frame in frames if frame["event"] == "attempt"]
    assert [one["status"] for one in attempts] == [529, 200]
    assert attempts[0]["account"] != attempts[1]["account"] == frames[-1]["account"]


def test_who_leaves_ends_the_call_upstream(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    asked = {
        "from": "openai_chat",
        "body": json.dumps(HELLO),
        "model": "chat/sim-text?words=2000&delay_ms=20",
    }
    request = urllib.request.Request(
        f"{gateway.base_url}/admin/workbench/send",
        json.dumps(asked).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert b"attempt" in answer.readline()
    (row,) = eventually(lambda: ask(gateway, "GET", "/requests", key=TOKEN).json["rows"])
    assert row["error"] == "client_gone"
    assert row["ms"] < 10_000
    assert send(gateway, HELLO, model="chat/sim-text")[-1]["status"] == 200


def test_a_request_that_cannot_be_sent_is_refused(gateway: RunningGateway) -> None:
    for more, param in (
        ({"model": "\0"}, "model"),
        ({"scenario": "../../x", "to": "openai_chat"}, "scenario"),
        ({"scenario": "text", "to": "any"}, "to"),
        ({"model": "chat/sim-text", "policy": "mild"}, "policy"),
        ({"model": "chat/sim-text", "max_tokens": 0}, "max_tokens"),
        ({"model": ["chat"]}, "model"),
    ):
        asked = {"from": "openai_chat", "body": json.dumps(HELLO), **more}
        answer = ask(gateway, "POST", "/workbench/send", asked, key=TOKEN)
        assert (answer.status, answer.json["error"]["param"]) == (400, param)
