"""What is known of upstreams by their address and the names of their models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.config import parse_config
from dragoman.protocols.presets import completed
from dragoman.protocols.settings import make_capabilities, setting
from dragoman.serving.routing import Router, takes_detour
from dragoman.translation import ClientRequest
from tests.library import translate_request

VLLM = "http://10.0.0.9:8000/v1"
OPENAI = "https://api.openai.com/v1"

ROWS: list[tuple[str, str, str, Any]] = [
    (VLLM, "qwen3.8-27b", "late_system", "user"),
    (VLLM, "Qwen/Qwen3.8-27B", "efforts", ("low", "medium", "xhigh")),
    (OPENAI, "gpt-5.5", "late_system", "message"),
    ("https://house.openai.azure.com/openai/v1", "gpt-5.5", "late_system", "message"),
    ("https://openai.com.example.org/v1", "m", "late_system", "user"),
    ("https://api.deepseek.com/v1", "deepseek-v4-pro", "replay_reasoning", "tool_turns"),
    ("https://api.deepseek.com/v1", "deepseek-v4-pro", "max_tokens_field", "max_tokens"),
    (VLLM, "moonshotai/Kimi-K3", "replay_reasoning", "tool_turns"),
    (VLLM, "openai/gpt-oss-120b", "efforts", ("low", "medium", "high")),
    (VLLM, "mistralai/Ministral-3-14B", "alternating_turns", True),
    (VLLM, "mistralai/Mistral-Small-3.2-24B-Instruct-2506", "short_call_ids", True),
    (VLLM, "tencent/Hy3", "efforts", ("low", "high")),
    ("https://api.mistral.ai/v1", "m", "short_call_ids", True),
    (OPENAI, "gpt-6-astra", "tools_without_reasoning", False),
    (VLLM, "gpt-6-astra", "tools_without_reasoning", True),
]


@pytest.mark.parametrize(("url", "model", "name", "value"), ROWS)
def test_preset(url: str, model: str, name: str, value: Any) -> None:
    assert setting(completed(make_capabilities(), "openai_chat", url, model), name) == value


def test_a_setting_takes_precedence() -> None:
    chosen = make_capabilities(late_system="message", efforts=("high",))
    found = completed(chosen, "openai_chat", VLLM, "qwen3.8-27b")
    assert (found.late_system, found.efforts) == ("message", ("high",))


def test_other_protocols_keep_later_system_messages() -> None:
    for protocol in ("anthropic_messages", "openai_responses"):
        assert completed(make_capabilities(), protocol, VLLM, "m").late_system == "message"


def test_claude_code_on_a_server_of_qwen() -> None:
    asked = {
        "model": "house-x",
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.329.3c4;"},
            {"type": "text", "text": "S1"},
            {"type": "text", "text": "S2"},
        ],
        "messages": [{"role": "user", "content": "U1"}, {"role": "system", "content": "L1"}],
        "output_config": {"effort": "high"},
        "thinking": {"type": "adaptive"},
        "max_tokens": 32000,
        "stream": True,
    }
    call = translate_request(
        "anthropic_messages",
        "openai_chat",
        json.dumps(asked).encode(),
        model="qwen3.8-27b",
        base_url=VLLM,
    )
    assert json.loads(call.body) == {
        "model": "qwen3.8-27b",
        "messages": [
            {"role": "system", "content": "S1\n\nS2"},
            {"role": "user", "content": "U1"},
            {"role": "user", "content": "<system-reminder>\nL1\n</system-reminder>"},
        ],
        "reasoning_effort": "medium",
        "max_completion_tokens": 32000,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


TWO = """\
[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "https://api.openai.com/v1"
reasoning_with_tools_via = "responses"

[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "https://api.openai.com/v1"

[[routes]]
match = "*"
upstream = "chat"
"""


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gpt-6-astra", None, "responses"),
        ("gpt-6-astra", "none", "responses"),
        ("gpt-5.5", None, "chat"),
        ("gpt-5.5", "none", "chat"),
        ("gpt-5.5", "low", "responses"),
    ],
)
def test_tools_alone_lead_to_responses_where_chat_takes_none(
    model: str, effort: str | None, expected: str
) -> None:
    router = Router(parse_config(TWO, environ={}).config)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [tool],
    }
    if effort is not None:
        asked["reasoning_effort"] = effort
    request = ClientRequest("openai_chat", json.dumps(asked).encode())
    target = router.resolve(model)
    chosen = target.detour if takes_detour(target, request) else target
    assert chosen is not None
    assert chosen.upstream.name == expected
