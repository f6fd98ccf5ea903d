"""The strict policy: what cannot be carried as it is fails, and nothing is made up. Both ways
between Chat and Messages, and from Chat answers to Responses clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import DragomanError, Refused, UpstreamError
from dragoman.translation import Call
from tests.tables.cells import (
    CHAT,
    CHAT_USAGE,
    MESSAGES,
    RESPONSES,
    ROLE,
    STOP,
    WEATHER,
    Json,
    asking,
    calling,
    chat_answer,
    chat_chunk,
    chat_stream,
    events,
    function_call,
    sent,
    shown,
    streamed,
    streaming,
)

LOOK = {"type": "function", "function": {"name": "look", "parameters": WEATHER}}
PATCH = {"type": "custom", "custom": {"name": "patch"}}
USAGE = chat_chunk(usage=CHAT_USAGE)
HI = {"role": "user", "content": "Hi"}


def strict(client: str, upstream: str, **members: Any) -> Call:
    return calling(client, upstream, asking(client, **members), policy="strict")


def chat(*turns: Json, **more: Any) -> Call:
    """A Chat request before a Messages upstream."""
    return strict(CHAT, MESSAGES, messages=list(turns) or [HI], max_tokens=50, **more)


def called(*calls: Json) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(text: str = "found", number: int = 1) -> Json:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def test_what_has_a_place_goes_there() -> None:
    """Instructions to the top, calls and results to the blocks that are theirs, in their order."""
    made = json.loads(
        chat(
            {"role": "system", "content": "You are concise."},
            {"role": "developer", "content": "Prefer exact answers."},
            HI,
            called(function_call(1, "look", '{"city": "Bern"}')),
            result(),
            tools=[LOOK],
        ).body
    )
    assert [part["text"] for part in made["system"]] == [
        "You are concise.",
        "Prefer exact answers.",
    ]
    assert made["messages"][1]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"city": "Bern"}}
    ]
    [answered] = made["messages"][2]["content"]
    assert (answered["type"], answered["tool_use_id"]) == ("tool_result", "call_1")
    alone = json.loads(chat({"role": "system", "content": "You are concise."}, HI).body)
    assert alone["system"] == "You are concise."


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_data": "data:application/zip;base64,AAAA"}},
    ],
)
def test_parts_without_a_place_fail(part: Json) -> None:
    with pytest.raises(Refused) as caught:
        chat({"role": "user", "content": [part]})
    assert caught.value.fault.param is not None
    assert caught.value.fault.param.startswith("messages[0].content[0]")


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '"text"', "null", "{'a': 1}"])
def test_arguments_that_are_no_object_fail(arguments: str) -> None:
    """They are not replaced by an empty one."""
    with pytest.raises(DragomanError) as caught:
        chat(HI, called(function_call(1, "look", arguments)), result(), tools=[LOOK])
    assert caught.value.fault.param == "messages[1].tool_calls[0]"


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [HI], "tools": [PATCH]},
        {
            "messages": [HI],
            "tools": [LOOK],
            "tool_choice": {"type": "custom", "custom": {"name": "patch"}},
        },
        {
            "messages": [
                HI,
                called({"id": "call_1", "type": "custom", "custom": {"name": "p", "input": "+"}}),
                result(),
            ]
        },
    ],
    ids=["definition", "choice", "call"],
)
def test_free_text_tools_fail(asked: Json) -> None:
    """They are no tools of JSON objects. req: 41"""
    with pytest.raises(DragomanError):
        strict(CHAT, MESSAGES, max_tokens=50, **asked)


def test_function_messages_fail() -> None:
    """They name no call. req: 40"""
    with pytest.raises(Refused) as caught:
        chat(HI, {"role": "function", "name": "look", "content": "seen"})
    assert caught.value.fault.param == "messages[1]"


@pytest.mark.parametrize("upstream", [MESSAGES, RESPONSES])
def test_more_answers_than_one_fail(upstream: str) -> None:
    with pytest.raises(Refused) as caught:
        strict(CHAT, upstream, n=2, max_tokens=50)
    assert caught.value.fault.param == "n"


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_alternatives_are_no_sequence(client: str) -> None:
    """Neither merged nor cut to the first. req: 61"""
    answer = chat_answer({"content": "A"})
    answer["choices"].append({**answer["choices"][0], "index": 1})
    with pytest.raises(UpstreamError):
        shown(client, CHAT, answer, policy="strict")


def test_a_failed_tool_says_so_in_its_text() -> None:
    """No status is made of it: `incomplete` would say that it was cut short. req: 39"""
    history = [
        HI,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "Error: no such city",
                    "is_error": True,
                }
            ],
        },
    ]
    tools = [{"name": "look", "input_schema": WEATHER}]
    body = asking(MESSAGES, messages=history, tools=tools)
    told = sent(MESSAGES, CHAT, body)["messages"][-1]
    assert told == {"role": "tool", "tool_call_id": "toolu_1", "content": "Error: no such city"}
    item = sent(MESSAGES, RESPONSES, body)["input"][-1]
    assert item["output"] == "Error: no such city"
    assert item.get("status", "completed") == "completed"


def test_calls_are_items_beside_the_message() -> None:
    made = shown(
        RESPONSES,
        CHAT,
        chat_answer({"content": "Looking.", "tool_calls": [function_call()]}, "tool_calls"),
        policy="strict",
    )
    assert [item["type"] for item in made["output"]] == ["message", "function_call"]
    made = shown(
        RESPONSES,
        CHAT,
        chat_answer({"content": None, "tool_calls": [function_call()]}, "tool_calls"),
        policy="strict",
    )
    assert [item["type"] for item in made["output"]] == ["function_call"]
    made = shown(RESPONSES, CHAT, chat_answer({"content": None, "refusal": "No."}), policy="strict")
    assert made["output"][0]["content"][0] == {"type": "refusal", "refusal": "No."}


def told(*chunks: Json, client: str = MESSAGES) -> list[str]:
    """The names of the events of a stream."""
    stream = streamed(client, CHAT, chat_stream(*chunks), policy="strict")
    return [name for name, _ in events(stream)]


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("early", [USAGE, chat_chunk()], ids=["usage", "nothing"])
def test_chunks_without_choices_before_the_end_fail(client: str, place: int, early: Json) -> None:
    """Only usage comes without a choice, and only after the finish reason. req: 95"""
    chunks = [ROLE, chat_chunk({"content": "Hi"}), STOP]
    chunks.insert(place, early)
    assert told(*chunks, client=client)[-1] == (
        "error" if client == MESSAGES else "response.failed"
    )


@pytest.mark.parametrize("ending", [[STOP], [STOP, USAGE]])
def test_the_end_is_told_once(ending: list[Json]) -> None:
    names = told(ROLE, chat_chunk({"content": "Hi"}), *ending)
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert "error" not in names


def test_usage_beside_a_choice_ends_nothing() -> None:
    """Some servers tell it with every chunk; what is told last counts."""
    some = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    spoken = chat_chunk({"content": "Hi"})
    stream = chat_stream(ROLE, {**spoken, "usage": some}, spoken, STOP, USAGE)
    made = events(streamed(MESSAGES, CHAT, stream, policy="strict"))
    texts = [data["delta"]["text"] for name, data in made if name == "content_block_delta"]
    assert "".join(texts) == "HiHi"
    assert made[-2][1]["usage"]["output_tokens"] == CHAT_USAGE["completion_tokens"]


@pytest.mark.parametrize(
    "bad",
    [
        chat_chunk({"role": "user", "content": "Hi"}),
        {**ROLE, "choices": [{**ROLE["choices"][0], "index": number} for number in (0, 1)]},
        {**ROLE, "choices": [{**ROLE["choices"][0], "index": 1}]},
    ],
    ids=["role", "two choices", "the second choice"],
)
def test_chunks_that_nobody_could_carry_fail(bad: Json) -> None:
    """req: 96"""
    _, translator = streaming(MESSAGES, CHAT, policy="strict")
    translator.feed(chat_stream(bad, done=False))
    assert translator.outcome.fault is not None
    assert told(ROLE, bad, STOP)[-1] == "error"


def test_each_protocol_ends_its_own_way() -> None:
    """req: 117"""
    stream = chat_stream(ROLE, chat_chunk({"content": "Hi"}), STOP, USAGE)
    assert b"[DONE]" not in streamed(RESPONSES, CHAT, stream, policy="strict")
    assert b"[DONE]" not in streamed(MESSAGES, CHAT, stream, policy="strict")
