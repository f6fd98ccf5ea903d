"""What programs ask besides answers, much of it only when a person sits before them."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients.asking import ask
from tests.clients.programs import KEY
from tests.clients.stage import Stage

CLAUDE_HEADERS = {
    "authorization": f"Bearer {KEY}",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,"
    "context-management-2025-06-27,effort-2025-11-24",
    "anthropic-dangerous-direct-browser-access": "true",
    "content-type": "application/json",
    "accept-encoding": "gzip, deflate, br, zstd",
    "x-app": "cli",
}
SYSTEM = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.329.e9f; cch=51c0d;"},
    {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
]


def request(
    stage: Stage, method: str, target: str, headers: dict[str, str], body: Any = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer."""
    host = stage.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, target, data, headers)
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, answer.read()
    finally:
        connection.close()


def test_tokens_are_counted_thirty_times_at_once(stage: Stage) -> None:
    """As Claude Code's `/context` does: one request per tool, none with `max_tokens`. Where the
    upstream cannot count, the estimate says that it is one."""

    def count(number: int) -> tuple[int, dict[str, str], bytes]:
        tool = {
            "name": f"Tool{number}",
            "description": "word " * 20 * number,
            "input_schema": {"type": "object", "properties": {}},
        }
        body = {
            "model": "claude-sonnet-5",
            "messages": [{"role": "user", "content": "foo"}],
            "tools": [tool],
        }
        target = "/v1/messages/count_tokens?beta=true"
        return request(stage, "POST", target, CLAUDE_HEADERS, body)

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(count, range(30)))

    counts = [json.loads(body)["input_tokens"] for _, _, body in answers]
    assert {status for status, _, _ in answers} == {200}
    assert counts == sorted(set(counts)), "each tool is larger than the one before"
    estimated = {headers.get("x-dragoman-estimate") for _, headers, _ in answers}
    assert estimated == ({"true"} if stage.kind == "chat" else {None})


def test_a_count_covers_instructions_tools_and_messages(stage: Stage) -> None:
    small: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "foo"}]}
    tool = {"name": "T", "description": "word " * 50, "input_schema": {"type": "object"}}
    longer = {
        "system": {**small, "system": [*SYSTEM, {"type": "text", "text": "word " * 50}]},
        "tools": {**small, "tools": [tool]},
        "messages": {**small, "messages": [{"role": "user", "content": "foo " * 50}]},
    }

    def count(body: Any) -> int:
        path = "/v1/messages/count_tokens"
        status, _, answer = request(stage, "POST", path, CLAUDE_HEADERS, body)
        assert status == 200, answer
        counted = json.loads(answer)["input_tokens"]
        assert isinstance(counted, int)
        return counted

    least = count(small)
    for name, body in longer.items():
        assert count(body) > least + 20, name


def test_models_are_listed_in_anthropics_shape(stage: Stage) -> None:
    """As Claude Code's model discovery asks."""
    status, _, body = request(stage, "GET", "/v1/models?limit=1000", CLAUDE_HEADERS)

    listed = json.loads(body)
    assert status == 200
    assert listed["has_more"] is False
    assert listed["data"]
    for model in listed["data"]:
        assert model["type"] == "model"
        assert isinstance(model["display_name"], str)
        assert isinstance(model["created_at"], str)


def test_models_are_listed_for_codex(stage: Stage) -> None:
    """Its version in the query is nothing to a list of models."""
    headers = {"authorization": f"Bearer {KEY}", "originator": "codex_exec"}
    status, _, body = request(stage, "GET", "/v1/models?client_version=0.169.0", headers)

    assert status == 200
    assert json.loads(body)["object"] == "list"


@pytest.mark.parametrize("target", ["/", "/v1/messages", "/v1/models"])
def test_a_head_request_gets_a_head(stage: Stage, target: str) -> None:
    """Clients look whether anybody is there; a connection that breaks or waits tells them no."""
    status, _, body = request(stage, "HEAD", target, CLAUDE_HEADERS)

    assert status < 500
    assert body == b""


def test_a_websocket_is_declined_where_it_has_no_place(stage: Stage) -> None:
    headers = {
        "authorization": f"Bearer {KEY}",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert request(stage, "GET", "/v1/messages", headers)[0] == 426


def test_claude_code_finds_the_models(stage: Stage, tmp_path: Path) -> None:
    target = tmp_path / "work" / "notes.txt"
    discovery = {"CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1"}

    finished = stage.run("claude-code", "some-model", ask(target), tmp_path, environment=discovery)

    assert finished.status == 0, finished
    asked = [one.target for one in stage.tap.heard if one.method == "GET"]
    assert asked == ["/v1/models?limit=1000"]
    [line] = [line for line in stage.lines if line["route"] == "GET /v1/models"]
    assert line["status"] == 200


def test_a_title_is_made(stage: Stage) -> None:
    """Beside an interactive session's first prompt: no tools, an answer in a schema, streamed."""
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "additionalProperties": False,
    }
    body = {
        "model": "claude-haiku-4-5",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Fix the login."}]}],
        "system": [*SYSTEM, {"type": "text", "text": "Write a title of 3 to 7 words."}],
        "tools": [],
        "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
        "max_tokens": 32000,
        "temperature": 1,
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
        "stream": True,
    }

    status, _, answer = request(stage, "POST", "/v1/messages?beta=true", CLAUDE_HEADERS, body)

    assert status == 200, answer
    events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: ")]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    text = "".join(delta.get("text", "") for delta in deltas)
    assert list(json.loads(text)) == ["title"]
    assert events[-1]["type"] == "message_stop"
    assert b"cch=" not in stage.simulator.last.body
