"""Compaction asked for by Codex, where the upstream has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Storage
from dragoman.lab.simulator.testing import RunningSimulator
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, answer, good, whole
from tests.gateway.clients import APIS, PATHS
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import Answer, call, events
from tests.upstream.servers import Call

KEY = "key-of-a-server-without-compaction"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
HISTORY = [
    {"role": "developer", "content": "D"},
    {"role": "user", "content": "U"},
    {"role": "assistant", "content": "A"},
]
TRIGGER = {"type": "compaction_trigger"}


def ask(over: Over, target: str, given: list[Any], **more: Any) -> Answer:
    body = {"model": f"{target}/m", "input": given, "store": False, "tools": [TOOL], **more}
    return call(over(KEY).base_url, "POST", PATHS["responses"], body)


def output_of(told: Answer, stream: bool) -> list[dict[str, Any]]:
    found = events(told.body)[-1][1]["response"]["output"] if stream else told.json["output"]
    return list(found)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("target", ["chat", "messages"])
def test_the_trigger_asks_for_a_summary_and_brings_one_item(
    target: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    told = ask(over, target, [*HISTORY, TRIGGER], stream=stream)
    assert told.status == 200, told.body
    (item,) = output_of(told, stream)
    assert item.keys() == {"id", "type", "encrypted_content"}
    assert item["type"] == "compaction"
    if stream:
        kinds = [name for name, _ in events(told.body)]
        assert kinds.count("response.output_item.added") == 1
        assert kinds.count("response.output_item.done") == 1
        assert kinds[-1] == "response.completed"
    sent = json.loads(upstream.calls[-1].body)
    assert "Write a summary" in json.dumps(sent["messages"][-1])
    assert sent["tool_choice"] in ("none", {"type": "none"})
    assert len(sent["tools"]) == 1


@pytest.mark.parametrize("target", ["chat", "messages"])
def test_a_trigger_that_is_not_last_asks_for_nothing(
    target: str, over: Over, upstream: Upstream
) -> None:
    told = ask(over, target, [*HISTORY, TRIGGER, {"role": "user", "content": "V"}])
    assert told.status == 200, told.body
    assert [item["type"] for item in output_of(told, False)] == ["message"]
    assert "input[3]" in told.headers["x-dragoman-losses"]
    sent = upstream.calls[-1].body.decode()
    assert "Write a summary" not in sent
    assert "compaction" not in sent


@pytest.mark.parametrize("later", APIS)
@pytest.mark.parametrize("target", ["chat", "messages"])
def test_every_upstream_can_go_on_from_it(
    target: str, later: str, over: Over, upstream: Upstream
) -> None:
    items = output_of(ask(over, target, [*HISTORY, TRIGGER]), False)
    told = ask(over, later, [*HISTORY[:2], *items, {"role": "user", "content": "V"}])
    assert told.status == 200, told.body
    sent = upstream.calls[-1].body.decode()
    assert "A summary of the conversation so far" in sent
    assert "Good" in sent  # what the upstream had answered
    assert "dgm1." not in sent


def test_a_responses_upstream_compacts_by_itself(over: Over, upstream: Upstream) -> None:
    assert ask(over, "responses", [*HISTORY, TRIGGER]).status == 200
    assert json.loads(upstream.calls[-1].body)["input"][-1] == TRIGGER


@pytest.mark.parametrize("target", ["chat", "messages"])
def test_a_damaged_or_foreign_one_is_refused(target: str, over: Over, upstream: Upstream) -> None:
    for content in ("dgm1.damaged", "gAAAA-of-the-vendor"):
        item = {"type": "compaction", "encrypted_content": content}
        told = ask(over, target, [*HISTORY, item])
        assert told.status == 400
        assert "input[3]" in told.json["error"]["message"]


# --- the endpoint that only compacts ------------------------------------------------------------

COMPACT = f"{PATHS['responses']}/compact"


@pytest.mark.parametrize("given", [HISTORY, "U"], ids=["items", "text"])
@pytest.mark.parametrize("target", APIS)
def test_the_endpoint_brings_the_users_messages_and_one_item(
    target: str, given: Any, over: Over, upstream: Upstream
) -> None:
    if target == "responses":
        upstream.behaviours[KEY] = compacts
    gateway = over(KEY)
    body = {"model": f"{target}/m", "input": given, "tools": [TOOL]}
    told = call(gateway.base_url, "POST", COMPACT, body)
    assert told.status == 200, told.body
    assert told.json.keys() == {"id", "object", "created_at", "output", "usage"}
    assert told.json["object"] == "response.compaction"
    said, item = told.json["output"]
    assert (said["type"], said["role"]) == ("message", "user")
    assert said["content"][0]["text"] == "U"
    assert item["type"] == "compaction"
    if target != "responses":
        later = ask(over, "chat", told.json["output"])
        assert later.status == 200
        assert "A summary of the conversation so far" in upstream.calls[-1].body.decode()


async def compacts(call: Call) -> None:
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA"}
    made = {**json.loads(whole("responses", "")), "output": [item]}
    await call.send(answer(json.dumps(made).encode()))


def test_it_goes_on_from_a_stored_response(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    storage = Storage(path=str(tmp_path / "kept.db"))
    gateway = start(replace(config_for(simulator.base_url), storage=storage))
    first = {"model": "chat/sim-text", "input": "U"}
    told = call(gateway.base_url, "POST", PATHS["responses"], first)
    body = {"model": "chat/sim-text", "previous_response_id": told.json["id"]}
    told = call(gateway.base_url, "POST", COMPACT, body)
    assert told.status == 200, told.body
    assert [item["type"] for item in told.json["output"]] == ["message", "compaction"]
    assert len(simulator.last.json["messages"]) == 3  # what was said, and what is asked


def test_what_is_no_request_is_named(over: Over) -> None:
    gateway = over(KEY)
    for body, named in (
        ({}, "model"),
        ({"model": "chat/m", "input": 1}, "input"),
        ({"model": "chat/m", "previous_response_id": "resp_none"}, "previous_response_id"),
    ):
        told = call(gateway.base_url, "POST", COMPACT, body)
        assert told.status == 400
        assert told.json["error"]["param"] == named


def test_an_answer_without_a_compaction_is_none(over: Over, upstream: Upstream) -> None:
    """It was made and paid for, and no account is at fault: it is asked for once more."""
    gateway = over(KEY)
    body = {"model": "responses/m", "input": HISTORY}
    assert call(gateway.base_url, "POST", COMPACT, body).status == 502
    assert upstream.asked() == [KEY, KEY]
    assert not gateway.app.pool.state("responses-0").cooling


async def refusing(call: Call) -> None:
    if b"compaction_trigger" not in call.body:
        await good(call)
    else:
        error = {"message": "Invalid value: 'compaction_trigger'.", "type": "invalid_request"}
        await call.send(answer(json.dumps({"error": error}).encode(), 400))


def test_the_endpoint_is_served_where_the_upstream_knows_no_trigger(
    over: Over, upstream: Upstream
) -> None:
    """And no account is blamed for what its service lacks."""
    keys = (KEY, f"{KEY}-2")
    upstream.behaviours |= dict.fromkeys(keys, refusing)
    gateway = over(*keys)
    told = call(gateway.base_url, "POST", COMPACT, {"model": "responses/m", "input": HISTORY})
    assert told.status == 200, told.body
    assert [item["type"] for item in told.json["output"]] == ["message", "compaction"]
    assert len(set(upstream.asked())) == 1
    for name in ("responses-0", "responses-1"):
        state = gateway.app.pool.state(name)
        assert not any((state.cooling, state.disabled, state.exhausted))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_responses_upstream_that_knows_no_trigger_is_asked_for_a_summary(
    stream: bool, over: Over, upstream: Upstream
) -> None:
    upstream.behaviours[KEY] = refusing
    told = ask(over, "responses", [*HISTORY, TRIGGER], stream=stream)
    assert told.status == 200, told.body
    (item,) = output_of(told, stream)
    assert item["type"] == "compaction"
    sent = json.loads(upstream.calls[-1].body)
    assert "Write a summary" in json.dumps(sent["input"][-1])
    assert sent["tool_choice"] == "none"
