"""The acceptance cases of the Open Responses specification (its compliance-tests.ts), in its own
dialect: what they send, and what they check of every answer and every event."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.dialects.conftest import Start
from tests.dialects.serving import NAMES, events_of, post

EVENTS = {
    "error",
    *(
        f"response.{name}"
        for name in [
            "created",
            "queued",
            "in_progress",
            "completed",
            "failed",
            "incomplete",
            "output_item.added",
            "output_item.done",
            "content_part.added",
            "content_part.done",
            "output_text.delta",
            "output_text.done",
            "output_text.annotation.added",
            "refusal.delta",
            "refusal.done",
            "reasoning.delta",
            "reasoning.done",
            "reasoning_summary_part.added",
            "reasoning_summary_part.done",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "function_call_arguments.delta",
            "function_call_arguments.done",
        ]
    ),
}
"""The closed union of events."""

NUMBERS = ("top_p", "presence_penalty", "frequency_penalty", "temperature")
WHOLE_NUMBERS = ("created_at", "top_logprobs")
NULLABLE = [
    "completed_at",
    "incomplete_details",
    "previous_response_id",
    "instructions",
    "error",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
]
ITEM_STATUSES = {"in_progress", "completed", "incomplete"}

PIXEL = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
).decode()
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "City and state"}},
        "required": ["location"],
    },
}


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


CASES: dict[str, dict[str, Any]] = {
    "basic text": {"input": [message("user", "Say hello in exactly 3 words.")]},
    "system message": {
        "input": [
            message("system", "You are a pirate. Always respond in pirate speak."),
            message("user", "Say hello."),
        ]
    },
    "tool call": {
        "model": "sim-tool",
        "input": [message("user", "What's the weather like in San Francisco?")],
        "tools": [WEATHER],
    },
    "image": {
        "input": [
            message(
                "user",
                [
                    {"type": "input_text", "text": "What do you see? Answer in one sentence."},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                ],
            )
        ]
    },
    "several turns": {
        "input": [
            message("user", "My name is Alice."),
            message("assistant", "Hello Alice! Nice to meet you. How can I help you today?"),
            message("user", "What is my name?"),
        ]
    },
    "reasoning": {
        "model": "sim-reasoning",
        "input": [message("user", "Think.")],
        "reasoning": {"effort": "low", "summary": "auto"},
    },
}


def check_response(response: Any, *, finished: bool) -> None:
    """A response object has every key, and no number is null."""
    assert response["object"] == "response"
    assert response["id"]
    assert response["model"]
    for name in (*NUMBERS, *WHOLE_NUMBERS):
        kind = int if name in WHOLE_NUMBERS else int | float
        assert isinstance(response[name], kind), name
        assert not isinstance(response[name], bool)
    for name in NULLABLE:
        assert name in response
    for name in ("store", "background", "parallel_tool_calls"):
        assert isinstance(response[name], bool), name
    assert isinstance(response["service_tier"], str)
    assert response["truncation"] in ("auto", "disabled")
    assert response["text"]["format"]["type"]
    assert isinstance(response["metadata"], dict)
    assert {"effort", "summary"} <= response["reasoning"].keys()
    assert isinstance(response["tool_choice"], str | dict)
    for tool in response["tools"]:
        assert {"type", "name", "description", "parameters", "strict"} <= tool.keys()
        assert tool["strict"] is None or isinstance(tool["strict"], bool)
    for item in response["output"]:
        check_item(item)
    if finished:
        assert response["status"] == "completed"
        assert isinstance(response["completed_at"], int)
        assert response["output"]
        usage = response["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        assert isinstance(usage["input_tokens_details"]["cached_tokens"], int)
        assert isinstance(usage["output_tokens_details"]["reasoning_tokens"], int)
    else:
        assert response["status"] in ("queued", "in_progress")
        assert response["completed_at"] is None


def check_item(item: Any) -> None:
    assert item["id"]
    match item["type"]:
        case "message":
            assert item["role"] == "assistant"
            assert item["status"] in ITEM_STATUSES
            for part in item["content"]:
                assert part["type"] in ("output_text", "refusal")
                if part["type"] == "output_text":
                    assert isinstance(part["annotations"], list)
                    assert isinstance(part["logprobs"], list)
        case "function_call":
            assert item["status"] in ITEM_STATUSES
            assert all(isinstance(item[name], str) for name in ("call_id", "name", "arguments"))
        case "reasoning":
            assert isinstance(item["summary"], list)
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_whole(start: Start, case: str, upstream: str) -> None:
    gateway = start("openresponses")
    body = {"model": "sim-text", **CASES[case]}
    body["model"] = f"{upstream}/{body['model']}"
    answer = post(gateway, "/v1/responses", body)
    assert answer.status == 200, answer.body
    check_response(answer.json, finished=True)
    kinds = [item["type"] for item in answer.json["output"]]
    if case == "tool call":
        assert "function_call" in kinds
    else:
        assert "message" in kinds


@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_streamed(start: Start, case: str, upstream: str) -> None:
    gateway = start("openresponses")
    body = {"model": "sim-text", **CASES[case], "stream": True}
    body["model"] = f"{upstream}/{body['model']}"
    *events, done = events_of(post(gateway, "/v1/responses", body))
    assert done == "[DONE]"
    assert {event["type"] for event in events} <= EVENTS
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        if "response" in event:
            check_response(event["response"], finished=event is events[-1])
        if "item" in event:
            check_item(event["item"])
    assert events[-1]["type"] == "response.completed"
    kinds = [event["type"] for event in events]
    if case == "tool call":
        for kind in (
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ):
            assert f"response.{kind}" in kinds


@pytest.mark.parametrize("upstream", NAMES)
def test_a_failed_answer(start: Start, simulator: RunningSimulator, upstream: str) -> None:
    """Any error event is followed by `response.failed`."""
    gateway = start("openresponses")
    body = {"model": f"{upstream}/sim-truncate?after=8", "input": "Hi", "stream": True}
    *events, done = events_of(post(gateway, "/v1/responses", body))
    assert done == "[DONE]"
    assert {event["type"] for event in events} <= EVENTS
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"]
