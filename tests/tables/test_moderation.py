"""What a moderation found, which the two OpenAI protocols write in different shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from dragoman.canonical.losses import LossKind
from tests.library import translate_request
from tests.protocols.openai_responses.upstream import message, response, text
from tests.tables.upstreams import STREAMS

FOUND: dict[str, Any] = {
    "type": "moderation_result",
    "model": "omni-moderation-latest",
    "flagged": False,
    "categories": {"violence": False},
    "category_scores": {"violence": 0.1},
    "category_applied_input_types": {"violence": ["text"]},
}
BROKEN = {"type": "error", "code": "server_error", "message": "boom"}
ANSWER = response(message(text("hi")), moderation={"input": FOUND, "output": BROKEN})
ASKED = {"model": "omni-moderation-latest"}


def call_of(client: str, **fields: Any) -> Any:
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}
    return translate_request(client, "openai_responses", json.dumps({**body, **fields}).encode())


def test_a_chat_client_gets_a_list_of_results() -> None:
    call = call_of("openai_chat", moderation=ASKED)
    assert json.loads(call.body)["moderation"] == ASKED
    answer = json.loads(call.translate_response(json.dumps(ANSWER).encode()))
    results = {"type": "moderation_results", "model": FOUND["model"], "results": [FOUND]}
    assert answer["moderation"] == {"input": results, "output": BROKEN}
    ChatCompletion.model_validate(answer)
    assert call.losses == ()


@pytest.mark.parametrize("include_usage", [True, False])
def test_in_a_stream_it_is_told_once_and_last(include_usage: bool) -> None:
    options = {"stream_options": {"include_usage": include_usage}}
    stream = call_of("openai_chat", moderation=ASKED, stream=True, **options).open_stream()
    frames = (stream.feed(STREAMS["openai_responses"](ANSWER)) + stream.finish()).split(b"\n\n")
    chunks = [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-2]]
    assert [("moderation" in chunk) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["choices"] == []
    assert (chunks[-1]["usage"] is not None) is include_usage


def test_a_messages_client_has_no_place_for_it() -> None:
    call = call_of("anthropic_messages")
    call.translate_response(json.dumps(ANSWER).encode())
    losses = [(loss.path, loss.kind) for loss in call.losses]
    assert losses == [("moderation", LossKind.KNOB)]


def test_a_responses_client_is_not_told_its_own_wish_as_a_finding() -> None:
    body = json.dumps({"model": "m", "input": "hi", "moderation": ASKED}).encode()
    call = translate_request("openai_responses", "openai_chat", body)
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    upstream = {"id": "u", "object": "chat.completion", "created": 5, "choices": [choice]}
    answer = json.loads(call.translate_response(json.dumps(upstream).encode()))
    assert Response.model_validate(answer).moderation is None
