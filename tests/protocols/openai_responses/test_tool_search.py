"""A tool search that the client carries out, over upstreams that have no such tool."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.translation import Outcome
from tests.library import translate_request

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
TOOL = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": PARAMETERS,
}
HI = {"role": "user", "content": "hi"}
CALL = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "call_id": "call_1",
    "execution": "client",
    "status": "completed",
    "arguments": {"query": "agents"},
}
FOUND = {
    "type": "namespace",
    "name": "team",
    "description": "team",
    "tools": [
        {"type": "function", "name": "ask", "parameters": PARAMETERS, "defer_loading": True},
    ],
}
OUTPUT = {
    "type": "tool_search_output",
    "id": "tso_1",
    "call_id": "call_1",
    "execution": "client",
    "status": "completed",
    "tools": [FOUND],
}
UPSTREAMS = ["openai_chat", "anthropic_messages"]


def sent(upstream: str, **body: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What the upstream is sent, and what is reported."""
    whole = {"model": "m", "stream": True, "input": [HI], "tools": [TOOL], **body}
    call = translate_request("openai_responses", upstream, msgspec.json.encode(whole))
    return msgspec.json.decode(call.body), {loss.path: loss.kind for loss in call.losses}


def declared(body: dict[str, Any]) -> dict[str, Any]:
    """The tools of an upstream's request by name."""
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return {tool["name"]: tool for tool in tools}


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_search_is_offered_as_a_function(upstream: str) -> None:
    body, losses = sent(upstream)

    tool = declared(body)["tool_search"]
    assert tool["description"] == "Finds tools."
    assert tool.get("parameters", tool.get("input_schema")) == PARAMETERS
    assert losses["tools[0]"] == "converted"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_search_of_the_vendors_own_is_not_offered(upstream: str) -> None:
    body, losses = sent(upstream, tools=[{"type": "tool_search"}])

    assert "tools" not in body
    assert losses["tools[0]"] == "knob"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_what_was_found_is_offered(upstream: str) -> None:
    """Twice found is offered once."""
    again = [{**CALL, "call_id": "call_2"}, {**OUTPUT, "call_id": "call_2"}]
    body, losses = sent(upstream, input=[HI, CALL, OUTPUT, *again])

    assert list(declared(body)) == ["tool_search", "team__ask"]
    assert set(losses.values()) <= {"converted", "knob"}


def test_chat_is_told_in_words_what_was_found() -> None:
    body, _ = sent("openai_chat", input=[HI, CALL, OUTPUT])

    [called] = body["messages"][1]["tool_calls"]
    assert called["function"] == {"name": "tool_search", "arguments": '{"query":"agents"}'}
    assert body["messages"][2] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "The tool team__ask is now available.",
    }


def test_messages_has_references_of_its_own() -> None:
    body, _ = sent("anthropic_messages", input=[HI, CALL, OUTPUT])

    [result] = body["messages"][2]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": "team__ask"}]
    assert declared(body)["team__ask"]["defer_loading"] is True


CHUNKS = [
    {"index": 0, "id": "call_9", "type": "function", "function": {"name": "tool_search"}},
    {"index": 0, "function": {"arguments": '{"query":'}},
    {"index": 0, "function": {"arguments": '"x"}'}},
]


def answered() -> bytes:
    """A Chat stream that calls the function, in two pieces."""
    deltas: list[dict[str, Any]] = [{"tool_calls": [chunk]} for chunk in CHUNKS]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    frames = [
        {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        for choice in choices
    ]
    lines = [b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames]
    return b"".join(lines) + b"data: [DONE]\n\n"


def check_item(item: dict[str, Any]) -> None:
    assert item.pop("id").startswith("tsc_")
    assert item == {
        "type": "tool_search_call",
        "call_id": "call_9",
        "execution": "client",
        "arguments": {"query": "x"},
        "status": "completed",
    }


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_streamed_call_comes_back_as_a_search(size: int) -> None:
    """The item comes whole: there are no deltas of its arguments."""
    whole = {"model": "m", "stream": True, "input": [HI], "tools": [TOOL]}
    call = translate_request("openai_responses", "openai_chat", msgspec.json.encode(whole))
    stream, data = call.open_stream(), answered()
    shown = b"".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
    shown += stream.finish()

    lines = [line[6:] for line in shown.splitlines() if line.startswith(b"data: {")]
    events = [msgspec.json.decode(line) for line in lines]
    assert not any("arguments" in event["type"] for event in events)
    [done] = [event for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == [done["item"]]
    check_item(done["item"])


def test_a_whole_answer_holds_the_search() -> None:
    whole = {"model": "m", "input": [HI], "tools": [TOOL]}
    call = translate_request("openai_responses", "openai_chat", msgspec.json.encode(whole))
    function = {"name": "tool_search", "arguments": '{"query":"x"}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_9", "type": "function", "function": function}],
    }
    answer = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }

    shown = msgspec.json.decode(call.translate_response(msgspec.json.encode(answer), Outcome()))

    [item] = shown["output"]
    check_item(item)
