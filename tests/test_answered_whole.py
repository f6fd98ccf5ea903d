"""Whole answers of upstreams that were asked for a stream, shown as the client's stream."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.canonical.errors import UpstreamError
from dragoman.translation import Call, Outcome
from tests.library import translate_request

REQUEST = {
    "model": "m",
    "max_tokens": 5,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
}


def answer(arguments: str) -> bytes:
    """A Chat answer that thinks and calls a tool."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "reasoning_content": "hm", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    return msgspec.json.encode({"id": "x", "model": "m", "choices": [choice], "usage": usage})


def asked() -> Call:
    return translate_request("anthropic_messages", "openai_chat", msgspec.json.encode(REQUEST))


def test_it_is_streamed() -> None:
    call, outcome = asked(), Outcome()
    shown = call.response_as_stream(answer("{}"), outcome)
    assert shown.startswith(b"event: message_start")
    assert shown.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert outcome.ended
    assert [loss.path for loss in call.losses] == ["reasoning"]


def test_what_was_lost_before_it_failed_is_told_as_of_a_stream() -> None:
    call, outcome = asked(), Outcome()
    with pytest.raises(UpstreamError) as failed:
        call.response_as_stream(answer('{"a":'), outcome)
    assert failed.value.fault.code == "invalid_tool_arguments"
    assert outcome.fault == failed.value.fault
    assert not outcome.ended
    assert [loss.path for loss in call.losses] == ["reasoning"]


def test_what_a_failed_answer_lost_is_not_told_of_the_next() -> None:
    """Another account is asked: the request's own losses stay, those of the answer do not."""
    asks = REQUEST | {"top_k": 3}
    call = translate_request("anthropic_messages", "openai_chat", msgspec.json.encode(asks))
    assert [loss.path for loss in call.losses] == ["top_k"]
    with pytest.raises(UpstreamError):
        call.response_as_stream(answer('{"a":'))
    assert len(call.losses) == 2
    call.drop_reasoning()
    assert [loss.path for loss in call.losses] == ["top_k"]
    call.response_as_stream(answer("{}"))
    assert [loss.path for loss in call.losses] == ["top_k", "reasoning"]
