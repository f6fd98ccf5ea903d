"""Reasoning that a client was given and sends back, on every upstream it may then reach.

A client keeps its conversation when its model moves to another upstream. What the upstream of
the first answer can use again has to arrive exactly as it was made; no other upstream may ever
see it, for each refuses state that is not its own.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from dragoman.canonical.envelope import PREFIX, Sealer
from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import LossKind, Policy
from dragoman.canonical.options import Options
from dragoman.protocols.settings import make_capabilities, make_options
from tests.library import translate_request
from tests.tables.clients import answer_of
from tests.tables.upstreams import STREAMS

JsonObject = dict[str, Any]

KNOB = LossKind.KNOB
DETAILS = make_options(reasoning_details=True)
C, A, R = "openai_chat", "anthropic_messages", "openai_responses"

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
ANSWERS: dict[str, JsonObject] = {
    C: {
        "id": "chatcmpl-u",
        "object": "chat.completion",
        "created": 5,
        "model": "up",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "plain",
                    "tool_calls": [CALL],
                },
            }
        ],
    },
    A: {
        "id": "msg_u",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": [
            {"type": "thinking", "thinking": "hm  é\n", "signature": "SIG+/="},
            {"type": "redacted_thinking", "data": "HIDDEN"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    R: {
        "id": "resp_u",
        "object": "response",
        "created_at": 5,
        "model": "up",
        "status": "completed",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_u",
                "summary": [
                    {"type": "summary_text", "text": "one"},
                    {"type": "summary_text", "text": "two"},
                ],
                "encrypted_content": "STATE+/=",
            },
            {
                "type": "function_call",
                "id": "fc_u",
                "call_id": "c1",
                "name": "f",
                "arguments": '{"a":1}',
                "status": "completed",
            },
        ],
    },
}
OWN: dict[str, list[JsonObject]] = {
    A: ANSWERS[A]["content"][:2],
    R: [{**ANSWERS[R]["output"][0]}],
    C: [{"reasoning_content": "plain"}],
}
"""The reasoning of each answer as its maker is to see it again."""


def first_request(client: str) -> JsonObject:
    """A client that wants to see reasoning."""
    match client:
        case "openai_chat":
            return {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        case "anthropic_messages":
            thinking = {"thinking": {"type": "adaptive"}, "max_tokens": 4096}
            return {"model": "m", **thinking, "messages": [{"role": "user", "content": "hi"}]}
    return {"model": "m", "input": [{"role": "user", "content": "hi"}]}


def next_request(client: str, answer: JsonObject) -> JsonObject:
    """The client's next request: its answer as it stands, and the result of the call."""
    body = first_request(client)
    match client:
        case "openai_chat":
            message = answer["choices"][0]["message"]
            body["messages"] += [message, {"role": "tool", "tool_call_id": "c1", "content": "r"}]
        case "anthropic_messages":
            result = {"type": "tool_result", "tool_use_id": "c1", "content": "r"}
            body["messages"] += [
                {"role": "assistant", "content": answer["content"]},
                {"role": "user", "content": [result]},
            ]
        case _:
            output = {"type": "function_call_output", "call_id": "c1", "output": "r"}
            body["input"] += [*answer["output"], output]
    return body


def reasoning_in(upstream: str, body: JsonObject) -> list[JsonObject]:
    """The reasoning an upstream is sent."""
    if upstream == R:
        return [item for item in body["input"] if item.get("type") == "reasoning"]
    message = next(entry for entry in body["messages"] if entry["role"] == "assistant")
    if upstream == A:
        kinds = ("thinking", "redacted_thinking")
        return [block for block in message["content"] if block["type"] in kinds]
    names = ("reasoning_content", "reasoning_details")
    return [{name: message[name]} for name in names if name in message]


WAYS = ("whole", "stream", "put together")
"""How an answer comes: whole, as a stream, or whole from a stream."""


def answered(
    client: str, maker: str, sealer: Sealer, way: str, options: Options = DETAILS
) -> JsonObject:
    """What the client is given of the maker's answer."""
    streams = {"stream": True} if way == "stream" else {}
    body = json.dumps({**first_request(client), **streams}).encode()
    call = translate_request(client, maker, body, options=options, envelope_key=sealer.key)
    given = {"usage": None, **ANSWERS[maker]}
    answer: JsonObject
    match way:
        case "whole":
            answer = json.loads(call.translate_response(json.dumps(given).encode()))
        case "put together":
            answer = json.loads(call.stream_as_response(STREAMS[maker](given)))
        case _:
            stream = call.open_stream()
            answer = answer_of(client, stream.feed(STREAMS[maker](given)) + stream.finish())
    return answer


@pytest.mark.parametrize("sealer", [Sealer(), Sealer(key=b"secret")], ids=["open", "keyed"])
@pytest.mark.parametrize("following", [C, A, R])
@pytest.mark.parametrize(
    ("client", "maker", "way"),
    [
        case
        for case in itertools.product((C, A, R), (C, A, R), WAYS)
        if case[0] != case[1] or case[2] == "whole"
    ],
)
def test_reasoning_reaches_its_maker_again_and_nobody_else(
    client: str, maker: str, following: str, way: str, sealer: Sealer
) -> None:
    answer = answered(client, maker, sealer, way)
    body = json.dumps(next_request(client, answer)).encode()
    replay = make_capabilities(replay_reasoning="always")
    call = translate_request(client, following, body, envelope_key=sealer.key, capabilities=replay)
    sent = json.loads(call.body)
    found = reasoning_in(following, sent)
    assert PREFIX not in json.dumps(sent), "an envelope means nothing to any upstream"
    told = {loss.path for loss in call.losses if "reasoning" in loss.detail}
    if following == maker:
        assert found == OWN[maker]
        assert not told
    elif following == C:
        assert found in ([], [{"reasoning_content": readable(maker)}])
    else:
        assert found == []
        assert told


@pytest.mark.parametrize("way", WAYS)
def test_hidden_reasoning_can_come_back(way: str) -> None:
    """A Responses client keeps its state, whose text nobody can read."""
    hidden = Options(show_reasoning="never")
    answer = answered(R, A, Sealer(), way, hidden)
    assert answer["output"][0]["summary"] == []
    body = json.dumps(next_request(R, answer)).encode()
    assert reasoning_in(A, json.loads(translate_request(R, A, body).body)) == OWN[A]


def readable(maker: str) -> str:
    """The text of the maker's reasoning."""
    return {A: "hm  é\n", R: "one\n\ntwo", C: "plain"}[maker]


PASSED = [
    (
        A,
        {"content": [{"type": "thinking", "thinking": "t", "signature": "%s"}]},
        "messages[1].content[0]",
    ),
    (A, {"content": [{"type": "redacted_thinking", "data": "%s"}]}, "messages[1].content[0]"),
    (
        C,
        {"content": "x", "reasoning_details": [{"type": "reasoning.encrypted", "data": "%s"}]},
        "messages[1].reasoning_details[0]",
    ),
]


@pytest.mark.parametrize(("protocol", "message", "path"), PASSED)
def test_a_passed_on_conversation_keeps_its_bytes_but_for_envelopes(
    protocol: str, message: JsonObject, path: str
) -> None:
    """Only what is left out is touched, and strict routes refuse even that."""
    text = json.dumps({"role": "assistant", **message}, indent=1)
    spoken = '{"role": "user",  "content": "say dgm1. twice: \\u0064gm1."}'
    extra = {"max_tokens": 9} if protocol == A else {}
    head = json.dumps({"model": "m", **extra})[:-1]
    body = '%s, "messages": [%s, %s, %s]}'
    own = (body % (head, spoken, text % "theirs", spoken)).encode()
    call = translate_request(protocol, protocol, own)
    assert (text % "theirs").encode() in call.body
    assert call.losses == ()
    sealed = (body % (head, spoken, text % (PREFIX + "WyJtIiwieCJd"), spoken)).encode()
    call = translate_request(protocol, protocol, sealed)
    assert call.body.count(spoken.encode()) == 2
    assert [(loss.path, loss.kind) for loss in call.losses] == [(path, KNOB)]
    with pytest.raises(Refused):
        translate_request(protocol, protocol, sealed, options=make_options(policy=Policy.STRICT))
