"""Items and blocks of types that nobody knows stay in a conversation without ending it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.conftest import Over
from tests.faults.upstream import Upstream
from tests.gateway.clients import PATHS, completed
from tests.gateway.http import call

KEY = "key-of-any-server"
USER = {"role": "user", "content": "U"}
ITEMS: dict[str, tuple[dict[str, Any], str]] = {
    "agent_message": ({"type": "agent_message", "content": [{"type": "x", "text": "T"}]}, "T"),
    "multi_agent_call": ({"type": "multi_agent_call", "call_id": "c", "output": "T"}, "T"),
    "context_compaction": ({"type": "context_compaction", "encrypted_content": "e"}, ""),
}
BLOCKS: dict[str, tuple[dict[str, Any], str]] = {
    "advisor_note": ({"type": "advisor_note", "content": [{"type": "text", "text": "T"}]}, "T"),
    "sealed_note": ({"type": "sealed_note", "data": "e"}, ""),
}


def asked(client: str, part: dict[str, Any]) -> dict[str, Any]:
    if client == "responses":
        return {"input": [USER, part, USER]}
    said = {"role": "assistant", "content": [{"type": "text", "text": "A"}, part]}
    return {"max_tokens": 50, "messages": [USER, said, USER]}


CASES = [
    *(("responses", *row) for row in ITEMS.values()),
    *(("messages", *row) for row in BLOCKS.values()),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("target", ["chat", "messages", "responses"])
@pytest.mark.parametrize(("client", "part", "text"), CASES, ids=[case[1]["type"] for case in CASES])
def test_an_unknown_part_is_carried_as_its_text(
    client: str,
    part: dict[str, Any],
    text: str,
    target: str,
    stream: bool,
    over: Over,
    upstream: Upstream,
) -> None:
    body = {"model": f"{target}/m", "stream": stream, **asked(client, part)}
    told = call(over(KEY).base_url, "POST", PATHS[client], body)
    assert told.status == 200, told.body
    assert not stream or completed(client, told.body)
    (sent,) = upstream.calls
    if client == target:
        assert json.loads(json.dumps(part)) in _parts(json.loads(sent.body))
    else:
        assert part["type"] not in sent.body.decode()
        assert (f'"{text}"' in sent.body.decode()) == bool(text)
        assert "knob" in told.headers["x-dragoman-losses"]


def _parts(body: dict[str, Any]) -> list[Any]:
    if "input" in body:
        return list(body["input"])
    return [part for message in body["messages"] for part in message["content"]]
