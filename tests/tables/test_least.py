"""The least request and the least answer, whole: what the rows of the other tables differ from."""

from __future__ import annotations

import json

import pytest

from tests.library import translate_request
from tests.tables.answers import CHAT_USAGE, LEAST_ANSWER, MESSAGES_USAGE, RESPONSES_USAGE
from tests.tables.requests import HI, LEAST, A, C, JsonObject, R

PARTS = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
ITEMS = [{"type": "message", "role": "user", "content": "hi"}]

SENT: dict[tuple[str, str], JsonObject] = {
    (C, A): {"model": "theirs", "max_tokens": 16384, "messages": PARTS},
    (C, R): {"model": "theirs", "input": ITEMS, "store": False},
    (A, C): {"model": "theirs", "messages": [HI], "max_completion_tokens": 4096},
    (A, R): {"model": "theirs", "input": ITEMS, "max_output_tokens": 4096, "store": False},
    (R, C): {"model": "theirs", "messages": [HI]},
    (R, A): {"model": "theirs", "max_tokens": 16384, "messages": PARTS},
}
SHOWN: dict[str, JsonObject] = {
    C: {
        "id": "own_1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "x", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": CHAT_USAGE,
    },
    A: {
        "id": "own_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": MESSAGES_USAGE,
    },
    R: {
        "id": "own_1",
        "object": "response",
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "service_tier": "default",
        "usage": RESPONSES_USAGE,
        "output": [
            {
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "x", "annotations": [], "logprobs": []}
                ],
            }
        ],
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "background": False,
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "tool_choice": "auto",
        "truncation": "disabled",
        "user": None,
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "text": {"format": {"type": "text"}},
        "tools": [],
    },
}


@pytest.mark.parametrize(("client", "upstream"), SENT)
def test_request_and_answer(client: str, upstream: str) -> None:
    """All members of the answer, by the name of the model that was asked for. req: 59, 69"""
    call = translate_request(
        client,
        upstream,
        json.dumps(LEAST[client]).encode(),
        model="theirs",
        response_id="own_1",
        created=7,
    )
    assert json.loads(call.body) == SENT[client, upstream]
    answer = json.loads(call.translate_response(json.dumps(LEAST_ANSWER[upstream]).encode()))
    if client == R:
        assert answer.pop("completed_at") >= answer["created_at"]
        assert answer["output"][0].pop("id").startswith("msg_")
    if client != A:
        # Messages answers tell no time.
        created = answer.pop("created" if client == C else "created_at")
        assert created == (7 if upstream == A else 5)
    assert answer == SHOWN[client]
    assert call.losses == ()


@pytest.mark.parametrize(("client", "prefix"), [(C, "chatcmpl-"), (A, "msg_"), (R, "resp_")])
def test_ids_are_made_in_the_clients_style(client: str, prefix: str) -> None:
    """Where none is given. req: 59, 69"""
    upstream = C if client == A else A
    call = translate_request(client, upstream, json.dumps(LEAST[client]).encode())
    answer = json.dumps(LEAST_ANSWER[upstream]).encode()
    made = {json.loads(call.translate_response(answer))["id"] for _ in range(2)}
    assert len(made) == 2
    assert all(name.startswith(prefix) for name in made)
