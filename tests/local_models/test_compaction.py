"""Compaction asked for by Codex, where the upstream has none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.conftest import Over
from tests.faults.upstream import Upstream
from tests.gateway.clients import APIS, PATHS
from tests.gateway.http import Answer, call, events

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
