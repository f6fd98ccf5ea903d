"""Truncated histories, errors before a stream and in one: requirements 151 to 156."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from dragoman.gateway.testing import RunningGateway
from dragoman.simulator.testing import RunningSimulator
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, stream_error
from tests.gateway.http import JSON, Answer, call, events
from tests.requirements.cells import (
    CHAT,
    MESSAGES,
    RESPONSES,
    ROLE,
    Json,
    asking,
    calling,
    chat_chunk,
    chat_stream,
    chunks,
    function_call,
    hand_parser,
    lost,
    sent,
    streamed,
)

CELLS = list(itertools.product(APIS, APIS))
UNAVAILABLE = "[Tool result unavailable - conversation history was truncated]"
CUT: dict[str, Json] = {
    CHAT: asking(
        CHAT,
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": [function_call(1), function_call(2)]},
            {"role": "tool", "tool_call_id": "call_2", "content": "seen"},
            {"role": "user", "content": "And?"},
        ],
    ),
    MESSAGES: asking(
        MESSAGES,
        messages=[
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": f"call_{n}", "name": "get_weather", "input": {}}
                    for n in (1, 2)
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "seen"},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
    ),
    RESPONSES: asking(
        RESPONSES,
        input=[
            {"role": "user", "content": "Hi"},
            *(
                {
                    "type": "function_call",
                    "call_id": f"call_{n}",
                    "name": "get_weather",
                    "arguments": "{}",
                }
                for n in (1, 2)
            ),
            {"type": "function_call_output", "call_id": "call_2", "output": "seen"},
            {"role": "user", "content": "And?"},
        ],
    ),
}
"""Two calls, of which the first has lost its result."""


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_a_lost_result_is_made_up_for_a_messages_upstream(client: str) -> None:
    """At its place, as an error, and reported. req: 151"""
    call = calling(client, MESSAGES, CUT[client])
    assert json.loads(call.body)["messages"][2] == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "call_1",
                "content": UNAVAILABLE,
                "is_error": True,
            },
            {"type": "tool_result", "tool_use_id": "call_2", "content": "seen"},
            {"type": "text", "text": "And?"},
        ],
    }
    assert list(lost(call).values()) == ["repaired"]


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_a_lost_result_is_made_up_for_a_chat_upstream(client: str) -> None:
    """req: 151"""
    made = sent(client, CHAT, CUT[client])["messages"]
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": UNAVAILABLE},
        {"role": "tool", "tool_call_id": "call_2", "content": "seen"},
        {"role": "user", "content": "And?"},
    ]


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_a_lost_result_is_made_up_for_a_responses_upstream(client: str) -> None:
    """req: 151"""
    made = sent(client, RESPONSES, CUT[client])["input"]
    assert made[3:5] == [
        {"type": "function_call_output", "call_id": "call_1", "output": UNAVAILABLE},
        {"type": "function_call_output", "call_id": "call_2", "output": "seen"},
    ]


# --- before the stream ----------------------------------------------------------------------------


def ask(gateway: RunningGateway, client: str, made: Any) -> Answer:
    return call(gateway.base_url, "POST", PATHS[client], made, JSON)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", APIS)
def test_errors_of_validation_are_json(
    gateway: RunningGateway, simulator: RunningSimulator, client: str, stream: bool
) -> None:
    """In the client's own shape, naming the field, before anything is sent upstream. req: 152"""
    answer = ask(gateway, client, body(client, "chat/sim-text", stream=stream, temperature="hot"))
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    error = error_of(client, answer)
    assert error["type"] == "invalid_request_error"
    assert "temperature" in error["message"]
    if client != "messages":  # whose errors have no such member
        assert error["param"] == "temperature"
    assert simulator.requests == []


SHAPES = [
    (400, "invalid_request_error", "invalid_request_error"),
    (404, "invalid_request_error", "not_found_error"),
    (429, "rate_limit_error", "rate_limit_error"),
    (500, "server_error", "api_error"),
]
"""Status of an upstream, and the types that clients are told."""


@pytest.mark.parametrize(("status", "openai", "anthropic"), SHAPES)
@pytest.mark.parametrize(("client", "upstream"), CELLS)
def test_kinds_and_statuses(
    gateway: RunningGateway,
    client: str,
    upstream: str,
    status: int,
    openai: str,
    anthropic: str,
) -> None:
    """The statuses of contract 001, under the names that the vendors' SDKs know; 500 is kept for
    failures of the gateway itself, one of the upstream is a 502. req: 153"""
    answer = ask(gateway, client, body(client, f"{upstream}/sim-{status}", stream=True))
    assert answer.status == (502 if status == 500 else status)
    assert answer.json["error"]["type"] == (anthropic if client == "messages" else openai)


@pytest.mark.parametrize("missing", [{}, {"model": None}, {"model": ""}])
@pytest.mark.parametrize("client", APIS)
def test_a_missing_model(
    gateway: RunningGateway, simulator: RunningSimulator, client: str, missing: Json
) -> None:
    """req: 154"""
    made = body(client, "x")
    del made["model"]
    answer = ask(gateway, client, {**made, **missing})
    assert answer.status == 400
    error = error_of(client, answer)
    assert error["message"].startswith("model")
    if client != "messages":
        assert error["param"] == "model"
    assert simulator.requests == []


# --- in the stream --------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", APIS)
def test_an_error_in_a_chat_stream(gateway: RunningGateway, upstream: str) -> None:
    """An object with message, type and code, then the terminator, and the end. req: 155"""
    model = f"{upstream}/sim-error_in_stream?after=6&words=9&message=worker+gone"
    answer = ask(gateway, "chat", body("chat", model, stream=True))
    error, done = [data for _, data in events(answer.body)][-2:]
    assert done == "[DONE]"
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert "worker gone" in error["error"]["message"]
    assert {"message", "type", "code"} <= error["error"].keys()
    assert error.keys() == {"error"}
    *before, last = hand_parser(answer.body)
    assert last == error
    assert not any(chunk["choices"][0].get("finish_reason") for chunk in before)


@pytest.mark.parametrize("ending", ["no_finish", "no_finish,no_done"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", APIS)
def test_a_chat_stream_without_a_finish_reason(
    gateway: RunningGateway, client: str, stream: bool, ending: str
) -> None:
    """It failed, whatever ends it: SDKs would take the half of an answer for the whole. req: 156"""
    model = f"chat/sim-text?words=9&quirks={ending}"
    answer = ask(gateway, client, body(client, model, stream=stream))
    if stream:
        assert answer.status == 200
        assert stream_error(client, answer.body) is not None
        assert not completed(client, answer.body)
    else:
        assert answer.status == 502
        error_of(client, answer)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES, CHAT])
def test_a_stream_cut_at_any_chunk(client: str, done: bool) -> None:
    """req: 156"""
    whole = [ROLE, *(chat_chunk({"content": word}) for word in ("one ", "two ", "three"))]
    for count in range(1, len(whole) + 1):
        made = streamed(client, CHAT, chat_stream(*whole[:count], done=done))
        if client == CHAT:
            *_, error, terminator = chunks(made)
            assert error.keys() == {"error"}
            assert terminator == "[DONE]"
        else:
            last = "error" if client == MESSAGES else "response.failed"
            assert made.split(b"event: ")[-1].startswith(last.encode())
