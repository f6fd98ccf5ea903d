"""System text toward servers whose chat templates take it only at the beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.recordings import Recording, recordings
from tests.faults.conftest import Over
from tests.faults.upstream import Upstream
from tests.gateway.clients import PATHS, completed, streamed_text, text_of
from tests.gateway.http import call
from tests.local_models.templates import TEMPLATES, rendering

KEY = "key-of-a-local-server"


def reminder(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"<system-reminder>\n{text}\n</system-reminder>"}


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


CODEX = {
    "instructions": "I",
    "input": [
        said("developer", "D1"),
        said("developer", "D2"),
        said("user", "U1"),
        said("assistant", "A1"),
        said("developer", "D3"),
        said("user", "U2"),
    ],
}
CLAUDE_CODE = {
    "max_tokens": 100,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.329.3c4;"},
        {"type": "text", "text": "S1"},
        {"type": "text", "text": "S2"},
    ],
    "messages": [said("user", "U1"), said("system", "L1")],
}
BETWEEN = {
    "max_tokens": 100,
    "messages": [
        said("user", "U1"),
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}],
        },
        said("system", "L1"),
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "R"}],
        },
    ],
}
CHAT: dict[str, Any] = {
    "messages": [
        said("developer", "D1"),
        said("system", "D2"),
        {**said("user", "U1"), "unknown_to_us": 1},
        {
            "role": "user",
            "content": [{"type": "text", "text": "U2", "cache_control": {"type": "ephemeral"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "R1",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}", "nested": 2},
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "T1", "of_tool": 3},
        said("system", "D3"),
    ],
    "seed": 7,
    "top_k": 20,
    "chat_template_kwargs": {"enable_thinking": True},
}
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "responses": (
        CODEX,
        [
            said("system", "I\n\nD1\n\nD2"),
            said("user", "U1"),
            said("assistant", "A1"),
            reminder("D3"),
            said("user", "U2"),
        ],
    ),
    "chat": (CHAT, [said("system", "D1\n\nD2"), *CHAT["messages"][2:6], reminder("D3")]),
    "messages": (
        CLAUDE_CODE,
        [said("system", "S1\n\nS2"), said("user", "U1"), reminder("L1")],
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CASES)
def test_later_system_text_is_user_text_in_its_place(
    client: str, stream: bool, over: Over, upstream: Upstream
) -> None:
    gateway = over(KEY)
    request, expected = CASES[client]
    asked = {"model": "chat/m", "stream": stream, **request}
    answer = call(gateway.base_url, "POST", PATHS[client], asked)
    assert answer.status == 200, answer.body
    (sent,) = upstream.calls
    assert json.loads(sent.body)["messages"] == expected
    told = streamed_text(client, answer.body) if stream else text_of(client, answer)
    assert told == "Good"


def test_nothing_stands_between_a_call_and_its_result(over: Over, upstream: Upstream) -> None:
    asked = {"model": "chat/m", **BETWEEN}
    assert call(over(KEY).base_url, "POST", PATHS["messages"], asked).status == 200
    (sent,) = upstream.calls
    roles = [message["role"] for message in json.loads(sent.body)["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("recording", recordings(), ids=lambda recording: recording.name)
def test_no_request_of_an_agent_is_refused(
    recording: Recording, template: str, over: Over, upstream: Upstream
) -> None:
    gateway = over(KEY)
    upstream.behaviours[KEY] = rendering(TEMPLATES[template])
    for turn in recording.turns:
        for stream in (False, True):
            asked = {**turn.body, "model": "chat/m", "stream": stream}
            answer = call(gateway.base_url, "POST", PATHS[recording.api], asked)
            assert answer.status == 200, answer.body
            assert not stream or completed(recording.api, answer.body)
