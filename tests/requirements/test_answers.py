"""Whole answers: requirements 54 to 70."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dragoman.canonical.errors import FaultKind, UpstreamError
from dragoman.protocols.settings import make_options
from dragoman.translation import translate_request
from tests.requirements.cells import (
    CHAT,
    CHAT_USAGE,
    MESSAGES,
    PROTOCOLS,
    RESPONSES,
    Json,
    asking,
    calling,
    chat_answer,
    function_call,
    messages_answer,
    responses_answer,
    shown,
)

THINKS = asking(MESSAGES, max_tokens=9000, thinking={"type": "adaptive"})
"""A Messages client that wants to see thinking."""
PARIS = function_call(1, "look", '{"city": "Paris"}')
ROME = function_call(2, "look", '{"city": "Rome"}')


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def used(number: int, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": f"call_{number}", "name": "look", "input": arguments}


def message(content: str | None = None, **more: Any) -> Json:
    return {"content": content, **more}


@pytest.mark.parametrize(
    ("answer", "content", "stop"),
    [
        (chat_answer(message("Hello")), [text("Hello")], "end_turn"),
        (chat_answer(message("Hel"), "length"), [text("Hel")], "max_tokens"),
        (
            chat_answer(message(tool_calls=[PARIS]), "tool_calls"),
            [used(1, city="Paris")],
            "tool_use",
        ),
        # Servers get the word wrong both ways; what was produced decides.
        (chat_answer(message(tool_calls=[PARIS]), "stop"), [used(1, city="Paris")], "tool_use"),
        (chat_answer(message("Hello"), "tool_calls"), [text("Hello")], "end_turn"),
        (chat_answer(message("Hel"), "content_filter"), [text("Hel")], "refusal"),
    ],
)
def test_text_calls_and_how_it_ended(answer: Json, content: list[Json], stop: str) -> None:
    """req: 54"""
    made = shown(MESSAGES, CHAT, answer)
    assert (made["content"], made["stop_reason"]) == (content, stop)


def test_the_order_of_blocks() -> None:
    """A Chat message has no order of its own, so it is given this one. req: 55"""
    spoken = message("Looking.", reasoning_content="Hm.", tool_calls=[PARIS])
    made = shown(MESSAGES, CHAT, chat_answer(spoken, "tool_calls"), THINKS)
    assert [block["type"] for block in made["content"]] == ["thinking", "text", "tool_use"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_only_for_clients_that_asked(field: str) -> None:
    """Its signature is a marker of ours and not empty, so that it is known again on its way back
    and never sent to a service that would refuse it. req: 56"""
    answer = chat_answer(message("Hello", **{field: "Hm."}))
    assert shown(MESSAGES, CHAT, answer)["content"] == [text("Hello")]
    thinking, said = shown(MESSAGES, CHAT, answer, THINKS)["content"]
    assert said == text("Hello")
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Hm.")
    assert thinking["signature"].startswith("dgm1.")
    back = asking(
        MESSAGES,
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [thinking, said]},
            {"role": "user", "content": "Bye"},
        ],
    )
    body = json.loads(calling(MESSAGES, CHAT, back).body)
    assert body["messages"][1] == {"role": "assistant", "content": "Hello"}


@pytest.mark.parametrize(
    ("show", "asked", "seen"),
    [
        ("auto", False, False),
        ("auto", True, True),
        ("always", False, True),
        ("never", True, False),
    ],
)
def test_routes_can_decide_on_thinking(show: Any, asked: bool, seen: bool) -> None:
    """req: 56"""
    answer = chat_answer(message("Hello", reasoning_content="Hm."))
    body = THINKS if asked else None
    made = shown(MESSAGES, CHAT, answer, body, options=make_options(show_reasoning=show))
    assert (made["content"][0]["type"] == "thinking") is seen


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("arguments", ['{"city": "Par', "Paris", "[]", "null"])
def test_arguments_of_an_answer_that_are_no_object(client: str, arguments: str) -> None:
    """An error, never `{}`: a tool called with nothing could do anything. req: 57"""
    answer = chat_answer(message(tool_calls=[function_call(1, "look", arguments)]), "tool_calls")
    with pytest.raises(UpstreamError) as caught:
        shown(client, CHAT, answer)
    assert caught.value.fault.kind is FaultKind.UPSTREAM_FAILED
    assert "look" in caught.value.fault.message


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    """req: 57"""
    answer = chat_answer(message(tool_calls=[function_call(1, "look", arguments)]), "tool_calls")
    assert shown(MESSAGES, CHAT, answer)["content"] == [used(1)]


def test_arguments_that_the_output_limit_cut() -> None:
    """What is there of them, and a stop reason that says so. req: 57"""
    cut = function_call(1, "look", '{"city": "Paris", "day": "Mon')
    made = shown(MESSAGES, CHAT, chat_answer(message(tool_calls=[cut]), "length"))
    assert made["content"][0]["input"]["city"] == "Paris"
    assert made["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (0, 0, 0, 0)),
        (CHAT_USAGE, (9, 0, 0, 4)),
        (
            # One vendor's input includes what the cache gave, the other's does not.
            {
                **CHAT_USAGE,
                "prompt_tokens": 100,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            },
            (30, 10, 60, 4),
        ),
    ],
)
def test_usage(usage: Json | None, counts: tuple[int, ...]) -> None:
    """All four counts, zeros too. req: 58"""
    made = shown(MESSAGES, CHAT, chat_answer(message("Hello"), usage=usage))
    names = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    )
    assert made["usage"] == dict(zip(names, counts, strict=True))


def test_the_message_around_it() -> None:
    """The model is the one the client named, not the upstream's. req: 59"""
    made = shown(MESSAGES, CHAT, chat_answer(message("Hello"), usage=CHAT_USAGE))
    assert made == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "asked",
        "content": [text("Hello")],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 9,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 4,
        },
    }


PREFIXES = {CHAT: "chatcmpl-", MESSAGES: "msg_", RESPONSES: "resp_"}


@pytest.mark.parametrize("client", PROTOCOLS)
def test_ids_are_minted_in_the_clients_style(client: str) -> None:
    """The upstream's own id stays behind. req: 59, 68, 69"""
    upstream, answer = (
        (CHAT, chat_answer(message("Hello")))
        if client != CHAT
        else (MESSAGES, messages_answer(text("Hello")))
    )
    body = json.dumps(asking(client)).encode()
    call = translate_request(client, upstream, body)
    made = json.loads(call.response(json.dumps(answer).encode()))
    assert re.fullmatch(re.escape(PREFIXES[client]) + "[0-9a-f]{24}", made["id"])


def test_a_refusal_for_a_messages_client() -> None:
    """In words as text, and as the reason why the model stopped; no category is invented.
    req: 60"""
    made = shown(MESSAGES, CHAT, chat_answer(message(refusal="I won't.")))
    assert made["content"] == [text("I won't.")]
    assert made["stop_reason"] == "refusal"
    assert made["stop_details"] == {
        "type": "refusal",
        "category": None,
        "explanation": "I won't.",
    }


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_choice(client: str, count: int) -> None:
    """Alternatives are no sequence, and none of them may vanish. req: 61"""
    answer = chat_answer(message("Hello"))
    answer["choices"] = [{**answer["choices"][0], "index": n} for n in range(count)]
    with pytest.raises(UpstreamError) as caught:
        shown(client, CHAT, answer)
    assert f"{count} choices" in caught.value.fault.message


@pytest.mark.parametrize("empty", [message(None), message(""), message("", tool_calls=[])])
def test_an_answer_that_says_nothing(empty: Json) -> None:
    """Models do answer nothing; without a reason to stop it is no answer. req: 62"""
    made = shown(MESSAGES, CHAT, chat_answer(empty))
    assert (made["content"], made["stop_reason"]) == ([], "end_turn")
    for client in (MESSAGES, RESPONSES):
        unfinished = chat_answer(empty)
        unfinished["choices"][0]["finish_reason"] = None
        with pytest.raises(UpstreamError):
            shown(client, CHAT, unfinished)


def item(name: str, value: str, **more: Any) -> Json:
    """A message item with one text."""
    part = {"type": "output_text", "text": value, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": name,
        "status": "completed",
        "role": "assistant",
        "content": [part],
        **more,
    }


def call_item(name: str, number: int, arguments: str) -> Json:
    return {
        "type": "function_call",
        "id": name,
        "call_id": f"call_{number}",
        "name": "look",
        "arguments": arguments,
        "status": "completed",
    }


def output(answer: Json) -> list[Json]:
    made: list[Json] = shown(RESPONSES, CHAT, answer)["output"]
    return made


def test_a_message_and_its_calls_are_siblings() -> None:
    """The message first, the calls after it. req: 63, 64, 66"""
    spoken = message("Looking.", tool_calls=[PARIS, ROME])
    assert output(chat_answer(spoken, "tool_calls")) == [
        item("msg_a", "Looking."),
        call_item("fc_b", 1, '{"city": "Paris"}'),
        call_item("fc_c", 2, '{"city": "Rome"}'),
    ]


@pytest.mark.parametrize("content", [None, ""])
def test_calls_alone_have_no_message(content: str | None) -> None:
    """req: 64"""
    spoken = message(content, tool_calls=[PARIS])
    assert output(chat_answer(spoken, "tool_calls")) == [call_item("fc_a", 1, '{"city": "Paris"}')]


def test_a_refusal_is_a_part_of_the_message() -> None:
    """req: 65"""
    (made,) = output(chat_answer(message("Well.", refusal="I won't.")))
    assert made == {
        **item("msg_a", "Well."),
        "content": [
            {"type": "output_text", "text": "Well.", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "I won't."},
        ],
    }


def test_calls_are_never_content() -> None:
    """Of neither an item nor a Chat message. req: 66"""
    for made in output(chat_answer(message("Hi", tool_calls=[PARIS]), "tool_calls")):
        for part in made.get("content", ()):
            assert part["type"] in ("output_text", "refusal")
    answer = messages_answer(text("Hi"), used(1, city="Paris"), stop="tool_use")
    said = shown(CHAT, MESSAGES, answer)["choices"][0]["message"]
    assert said["content"] == "Hi"
    assert said["tool_calls"] == [function_call(1, "look", '{"city":"Paris"}')]


def test_nothing_at_all_is_an_empty_message() -> None:
    """Clients expect an item. req: 67"""
    assert output(chat_answer(message(None))) == [item("msg_a", "")]
    empty = messages_answer(usage={"input_tokens": 1, "output_tokens": 0})
    assert shown(RESPONSES, MESSAGES, empty)["output"] == [item("msg_a", "")]


@pytest.mark.parametrize(
    ("usage", "counts"), [(None, (0, 0, 0)), (CHAT_USAGE, (9, 4, 13))], ids=["unknown", "known"]
)
def test_the_response_around_it(usage: Json | None, counts: tuple[int, int, int]) -> None:
    """With the client's name of the model, the upstream's time, and usage in all its parts.
    req: 68"""
    made = shown(RESPONSES, CHAT, chat_answer(message("Hello"), usage=usage))
    told = {name: made[name] for name in ("id", "object", "created_at", "status", "model")}
    assert told == {
        "id": "resp_1",
        "object": "response",
        "created_at": 1600000000,
        "status": "completed",
        "model": "asked",
    }
    assert made["usage"] == {
        "input_tokens": counts[0],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": counts[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counts[2],
    }


def test_an_answer_without_a_time_of_its_own() -> None:
    """req: 68"""
    assert shown(RESPONSES, MESSAGES, messages_answer(text("Hello")))["created_at"] == 1700000000


def test_the_completion_around_it() -> None:
    """req: 69"""
    made = shown(CHAT, MESSAGES, messages_answer(text("Hello")))
    usage = made.pop("usage")
    assert made == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "asked",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
    }
    numbers = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert tuple(usage[name] for name in numbers) == (5, 2, 7)


def test_parallel_calls() -> None:
    """Several blocks, items or calls of one answer. req: 70"""
    answer = chat_answer(message(tool_calls=[PARIS, ROME]), "tool_calls")
    assert shown(MESSAGES, CHAT, answer)["content"] == [
        used(1, city="Paris"),
        used(2, city="Rome"),
    ]
    assert [made["call_id"] for made in output(answer)] == ["call_1", "call_2"]
    answer = responses_answer(call_item("fc_1", 1, "{}"), call_item("fc_2", 2, "{}"))
    made = shown(CHAT, RESPONSES, answer)["choices"][0]
    assert made["message"]["tool_calls"] == [
        function_call(1, "look", "{}"),
        function_call(2, "look", "{}"),
    ]
    assert made["finish_reason"] == "tool_calls"
