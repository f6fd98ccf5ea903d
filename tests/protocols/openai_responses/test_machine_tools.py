"""Tools of the client's machine, over upstreams that have no such types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.openai_responses.conversations import unstored_members
from dragoman.protocols.raw import join_object
from dragoman.translation import Outcome
from tests.library import translate_request

HI = {"role": "user", "content": "hi"}
UPSTREAMS = ["openai_chat", "anthropic_messages"]
ACTIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "shell": (
        "action",
        {"commands": ["ls", "pwd"], "timeout_ms": 100, "max_output_length": None},
        {"commands": ["ls", "pwd"], "timeout_ms": 100},
    ),
    "local_shell": (
        "action",
        {"type": "exec", "command": ["ls", "-l"], "env": {}},
        {"command": ["ls", "-l"]},
    ),
    "apply_patch": (
        "operation",
        {"type": "create_file", "path": "a.txt", "diff": "+a\n"},
        {"type": "create_file", "path": "a.txt", "diff": "+a\n"},
    ),
}
"""By the tool's type: where the item of a call says what to do, how, and as arguments."""
OUTPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "shell": (
        {
            "call_id": "c1",
            "output": [
                {"stdout": "a.txt\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
                {"stdout": "no end"},
            ],
        },
        "a.txt\n\n[exit code 0]\nslow\n[timed out]\nno end\n[timed out]",
    ),
    "local_shell": ({"id": "c1", "output": "a.txt"}, "a.txt"),
    "apply_patch": ({"call_id": "c1", "status": "failed", "output": "why"}, "failed: why"),
}


def sent(upstream: str, **body: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What the upstream is sent, and what is reported."""
    whole = {"model": "m", "input": [HI], **body}
    call = translate_request("openai_responses", upstream, msgspec.json.encode(whole))
    return msgspec.json.decode(call.body), {loss.path: loss.kind for loss in call.losses}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("kind", ACTIONS)
def test_the_tool_is_offered_as_a_function(kind: str, upstream: str) -> None:
    body, losses = sent(upstream, tools=[{"type": kind}], tool_choice={"type": kind})

    [tool] = [tool.get("function", tool) for tool in body["tools"]]
    assert tool["name"] == kind
    assert set(ACTIONS[kind][2]) <= set(
        tool.get("parameters", tool.get("input_schema"))["properties"]
    )
    choice = body["tool_choice"]
    assert choice.get("function", choice)["name"] == kind
    assert losses == {"tools[0]": "converted"}


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_shell_on_the_vendors_machine_is_not(upstream: str) -> None:
    container = {"type": "container_auto"}
    body, losses = sent(upstream, tools=[{"type": "shell", "environment": container}])

    assert "tools" not in body
    assert losses == {"tools[0]": "knob"}


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_history_is_told(kind: str) -> None:
    where, action, arguments = ACTIONS[kind]
    given, text = OUTPUTS[kind]
    call = {
        "type": f"{kind}_call",
        "id": "i",
        "call_id": "c1",
        where: action,
        "status": "completed",
    }
    output = {"type": f"{kind}_call_output", **given}

    chat, _ = sent("openai_chat", input=[HI, call, output], tools=[{"type": kind}])
    messages, _ = sent("anthropic_messages", input=[HI, call, output], tools=[{"type": kind}])

    [called] = chat["messages"][1]["tool_calls"]
    assert called["id"] == "c1"
    assert called["function"]["name"] == kind
    assert msgspec.json.decode(called["function"]["arguments"]) == arguments
    assert chat["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": text}
    [block] = messages["messages"][1]["content"]
    assert (block["name"], block["input"]) == (kind, arguments)
    assert messages["messages"][2]["content"][0]["content"] == text


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_call_comes_back_as_the_clients_item(kind: str) -> None:
    where, action, arguments = ACTIONS[kind]
    whole = {"model": "m", "input": [HI], "tools": [{"type": kind}]}
    call = translate_request("openai_responses", "openai_chat", msgspec.json.encode(whole))
    function = {"name": kind, "arguments": msgspec.json.encode(arguments).decode()}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
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
    assert item.pop("id")
    expected = {"type": f"{kind}_call", "call_id": "c1", where: action, "status": "completed"}
    assert item == expected


def test_a_result_keeps_the_id_of_its_call_where_nothing_is_stored() -> None:
    """It has no other word for it."""
    output = {"type": "local_shell_call_output", "id": "c1", "output": "x"}
    message = {"type": "message", "id": "msg_1", "role": "user", "content": "hi"}
    body = msgspec.json.encode([message, output])

    left = msgspec.json.decode(join_object(unstored_members({"input": msgspec.Raw(body)})))

    assert left["store"] is False
    assert left["input"][1] == output
    assert "id" not in left["input"][0]


def test_a_deleted_file_has_no_diff() -> None:
    whole = {"model": "m", "stream": True, "input": [HI], "tools": [{"type": "apply_patch"}]}
    call = translate_request("openai_responses", "openai_chat", msgspec.json.encode(whole))
    arguments = '{"type":"delete_file","path":"a.txt","diff":""}'
    fragment = {"index": 0, "id": "c1", "function": {"name": "apply_patch", "arguments": arguments}}
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"tool_calls": [fragment]}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
    ]
    stream = call.open_stream()
    frames = [{"id": "c", "model": "m", "choices": [choice]} for choice in choices]
    data = b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)
    shown = stream.feed(data + b"data: [DONE]\n\n") + stream.finish()

    lines = [line[6:] for line in shown.splitlines() if line.startswith(b"data: {")]
    last = msgspec.json.decode(lines[-1])
    assert last["type"] == "response.completed"
    assert last["response"]["output"][0]["operation"] == {"type": "delete_file", "path": "a.txt"}


def test_an_action_that_a_client_cannot_be_asked_for_has_its_own_code() -> None:
    body = msgspec.json.encode({"model": "m", "messages": [HI]})
    call = translate_request("openai_chat", "openai_responses", body)
    asked = {"type": "computer_call", "id": "i", "call_id": "c", "status": "completed"}
    answer = {"id": "r", "object": "response", "status": "completed", "output": [asked]}
    with pytest.raises(UpstreamError) as caught:
        call.translate_response(msgspec.json.encode(answer), Outcome())
    assert caught.value.fault.code == "unsupported_output"
