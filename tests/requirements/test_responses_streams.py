"""Streams for Responses clients: requirements 98 to 118."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.protocols.settings import make_options
from tests.requirements.cells import (
    CHAT,
    CHAT_USAGE,
    DONE,
    MESSAGES,
    RESPONSES,
    ROLE,
    STOP,
    WEATHER,
    Event,
    Json,
    asking,
    chat_chunk,
    chat_stream,
    events,
    message_end,
    message_start,
    named_stream,
    streamed,
    streaming,
    text_block,
    tool_block,
)

USAGE = chat_chunk(usage=CHAT_USAGE)
FINISHED_CALLS = chat_chunk({}, "tool_calls")


def head(index: int, number: int) -> Json:
    """The first fragment of a tool call."""
    function = {"name": "look", "arguments": ""}
    call = {"index": index, "id": f"call_{number}", "type": "function", "function": function}
    return chat_chunk({"tool_calls": [call]})


def more(index: int, arguments: str) -> Json:
    """A later fragment."""
    return chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def said(text: str) -> Json:
    return chat_chunk({"content": text})


def told(*chunks: Json, body: Json | None = None, **how: Any) -> list[Event]:
    """The client's events for a Chat stream."""
    return events(streamed(RESPONSES, CHAT, chat_stream(*chunks), body, **how))


def numbered(*made: Json, begin: int = 0) -> list[Event]:
    """Events under their names and with their numbers."""
    return [
        (
            f"response.{data['type']}",
            {**data, "type": f"response.{data['type']}"} | {"sequence_number": number},
        )
        for number, data in enumerate(made, begin)
    ]


def part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(name: str, status: str, *content: Json) -> Json:
    return {
        "type": "message",
        "id": name,
        "status": status,
        "role": "assistant",
        "content": list(content),
    }


def call(name: str, call_id: str, arguments: str, status: str, tool: str = "look") -> Json:
    return {
        "type": "function_call",
        "id": name,
        "call_id": call_id,
        "name": tool,
        "arguments": arguments,
        "status": status,
    }


def text_events(name: str, index: int, *pieces: str) -> list[Json]:
    """All events of a message with one text."""
    text = "".join(pieces)
    at = {"item_id": name, "output_index": index, "content_index": 0}
    return [
        {
            "type": "output_item.added",
            "output_index": index,
            "item": message(name, "in_progress"),
        },
        {"type": "content_part.added", **at, "part": part("")},
        *({"type": "output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "output_text.done", **at, "text": text, "logprobs": []},
        {"type": "content_part.done", **at, "part": part(text)},
        {
            "type": "output_item.done",
            "output_index": index,
            "item": message(name, "completed", part(text)),
        },
    ]


def call_events(
    name: str, index: int, call_id: str, *pieces: str, tool: str = "look"
) -> list[Json]:
    """All events of a tool call."""
    at = {"item_id": name, "output_index": index}
    whole = "".join(pieces)
    added = call(name, call_id, "", "in_progress", tool)
    done = call(name, call_id, whole, "completed", tool)
    return [
        {"type": "output_item.added", "output_index": index, "item": added},
        *({"type": "function_call_arguments.delta", **at, "delta": piece} for piece in pieces),
        {"type": "function_call_arguments.done", **at, "name": tool, "arguments": whole},
        {"type": "output_item.done", "output_index": index, "item": done},
    ]


def test_text_event_by_event() -> None:
    """Named, numbered from 0, in this order; the done events repeat the whole.
    req: 98, 99, 100, 101, 102, 103, 104"""
    made = told(ROLE, said("Hel"), said("lo"), STOP)
    assert [name for name, _ in made[:2]] == ["response.created", "response.in_progress"]
    assert made[2:-1] == numbered(*text_events("msg_a", 0, "Hel", "lo"), begin=2)
    assert made[-1][0] == "response.completed"
    assert [data["sequence_number"] for _, data in made] == list(range(len(made)))
    assert all(data["type"] == name for name, data in made)


def test_calls_event_by_event() -> None:
    """An item each, numbered one after another, without any part; ids, names and arguments agree
    in all events and in the final output. req: 98, 100, 108, 109, 110, 111, 112"""
    made = told(
        ROLE,
        said("Hm."),
        head(0, 1),
        more(0, '{"n":'),
        more(0, "1}"),
        head(1, 2),
        more(1, "{}"),
        FINISHED_CALLS,
    )
    assert made[2:-1] == numbered(
        *text_events("msg_a", 0, "Hm."),
        *call_events("fc_b", 1, "call_1", '{"n":', "1}"),
        *call_events("fc_c", 2, "call_2", "{}"),
        begin=2,
    )
    assert made[-1][1]["response"]["output"] == [
        message("msg_a", "completed", part("Hm.")),
        call("fc_b", "call_1", '{"n":1}', "completed"),
        call("fc_c", "call_2", "{}", "completed"),
    ]


def test_which_events_tell_which_place() -> None:
    """req: 100"""
    for name, data in told(ROLE, said("Hm."), head(0, 1), more(0, "{}"), FINISHED_CALLS):
        kind = name.removeprefix("response.")
        of_text = kind.startswith(("content_part", "output_text"))
        of_item = of_text or kind.startswith("function_call_arguments")
        assert ("content_index" in data) is of_text
        assert ("item_id" in data) is of_item
        assert ("output_index" in data) is (of_item or kind.startswith("output_item"))


def test_calls_alone_have_no_message() -> None:
    """The first call is item 0. req: 104, 112"""
    made = told(ROLE, head(0, 1), more(0, "{}"), FINISHED_CALLS)
    assert made[2:-1] == numbered(*call_events("fc_a", 0, "call_1", "{}"), begin=2)


SKELETON: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1600000000,
    "completed_at": None,
    "status": "in_progress",
    "model": "asked",
    "output": [],
    "usage": None,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "max_output_tokens": None,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "truncation": "disabled",
    "user": None,
    # Nothing is stored unless the client asked for it, and the answer says so.
    "store": False,
    # What Open Responses clients want beside the 22 fields.
    "text": {"format": {"type": "text"}},
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "max_tool_calls": None,
    "background": False,
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}


def test_the_response_object() -> None:
    """All fields in all three events, with both members of reasoning. req: 105, 106"""
    made = told(ROLE, said("Hi"), STOP, USAGE)
    (_, created), (_, in_progress), *_, (_, completed) = made
    assert created["response"] == SKELETON
    assert in_progress["response"] == SKELETON
    changed = {"status", "output", "usage", "completed_at"}
    last = completed["response"]
    assert last.keys() == SKELETON.keys()
    assert {name: last[name] for name in SKELETON.keys() - changed} == {
        name: SKELETON[name] for name in SKELETON.keys() - changed
    }
    assert last["completed_at"] >= last["created_at"]


def test_the_response_object_repeats_the_request() -> None:
    """req: 105"""
    asked: Json = {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "temperature": 0.0,
        "top_p": 0.5,
        "max_output_tokens": 50,
        "reasoning": {"effort": "low", "summary": None},
        "tool_choice": "required",
        "user": "me",
    }
    tool = {"type": "function", "name": "look", "parameters": WEATHER}
    body = asking(RESPONSES, stream=True, tools=[tool], **asked)
    _, data = told(ROLE, STOP, body=body)[0]
    assert {name: data["response"][name] for name in asked} == asked
    assert data["response"]["tools"] == [{**tool, "description": None, "strict": None}]


def test_the_last_event_has_everything() -> None:
    """req: 107"""
    name, data = told(ROLE, said("Hi"), STOP, USAGE)[-1]
    response = data["response"]
    assert (name, response["status"]) == ("response.completed", "completed")
    assert response["output"] == [message("msg_a", "completed", part("Hi"))]
    assert response["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 13,
    }


def test_arguments_stream_as_they_come() -> None:
    """None is held until the call is whole. req: 113"""
    _, translator = streaming(RESPONSES, CHAT)
    translator.feed(chat_stream(ROLE, done=False))
    names = []
    for chunk in (head(0, 1), more(0, '{"a":'), more(0, "1"), more(0, "}")):
        made = translator.feed(chat_stream(chunk, done=False))
        names += [[name.removeprefix("response.") for name, _ in events(made)]]
    delta = ["function_call_arguments.delta"]
    assert names == [["output_item.added"], delta, delta, delta]


def test_a_turn_with_calls_is_completed() -> None:
    """The client answers with the outputs in its next request; no event of another API asks for
    them, for official clients break on events that they do not know. req: 107, 116"""
    names = [name for name, _ in told(ROLE, head(0, 1), more(0, "{}"), FINISHED_CALLS)]
    assert names[-1] == "response.completed"
    assert "response.required_action" not in names


ERROR = {"error": {"message": "worker gone", "type": "server_error", "code": None}}
LIMITED = {"error": {"message": "slow down", "type": "x", "code": "rate_limit_exceeded"}}


@pytest.mark.parametrize(
    ("chunk", "code", "text"),
    [(ERROR, "server_error", "worker gone"), (LIMITED, "rate_limit_exceeded", "slow down")],
)
def test_a_failure_after_the_start(chunk: Json, code: str, text: str) -> None:
    """An error event, for clients that read only that, then the failed response under the same
    id. req: 115"""
    made = told(ROLE, said("Hi"), chunk)
    (told_as, error), (ended_as, failed) = made[-2:]
    assert (told_as, ended_as) == ("error", "response.failed")
    assert error["message"] == error["error"]["message"] == text
    response = failed["response"]
    assert (response["id"], response["status"]) == ("resp_1", "failed")
    assert response["error"].keys() == {"code", "message", "type"}
    assert (response["error"]["code"], response["error"]["message"]) == (code, text)
    assert [data["sequence_number"] for _, data in made] == list(range(len(made)))


def ended(finish: str | None) -> list[Event]:
    return told(ROLE, said("Hi"), *([chat_chunk({}, finish)] if finish else []))


@pytest.mark.parametrize(
    ("finish", "status", "reason", "last_item"),
    [
        ("stop", "completed", None, "completed"),
        ("length", "incomplete", "max_output_tokens", "incomplete"),
        ("content_filter", "incomplete", "content_filter", "completed"),
        (None, "failed", None, None),
        ("error", "failed", None, None),
    ],
)
def test_the_terminal_event(
    finish: str | None, status: str, reason: str | None, last_item: str | None
) -> None:
    """One of three, exactly once, last; none is called cancelled. req: 116"""
    made = ended(finish)
    names = [name for name, _ in made]
    terminal = {"response.completed", "response.incomplete", "response.failed"}
    assert [name for name in names if name in terminal] == [f"response.{status}"]
    assert names[-1] == f"response.{status}"
    response = made[-1][1]["response"]
    assert response["status"] == status
    assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
    if last_item is not None:
        assert response["output"][-1]["status"] == last_item


@pytest.mark.parametrize("finish", ["stop", "length", None])
def test_what_follows_the_terminal_event(finish: str | None) -> None:
    """Nothing, as at the official service; `[DONE]` where a route is set so. req: 117"""
    stream = chat_stream(ROLE, *([chat_chunk({}, finish)] if finish else []))
    plain = streamed(RESPONSES, CHAT, stream)
    assert b"[DONE]" not in plain
    closed = streamed(RESPONSES, CHAT, stream, options=make_options(responses_done=True))
    assert closed.endswith(b"\n\n" + DONE)
    assert closed.count(DONE) == 1


def test_a_messages_stream() -> None:
    """Block by block: the calls' ids become call ids, the pieces deltas, and the items are done
    when the next begins or the model stops. req: 118, 111, 112"""
    upstream = named_stream(
        message_start(input_tokens=5),
        {"type": "ping"},
        *text_block(0, "Look", "ing."),
        *tool_block(1, 7, '{"city":', '"Paris"}'),
        *tool_block(2, 8),
        *message_end("tool_use"),
    )
    made = events(streamed(RESPONSES, MESSAGES, upstream))
    tool = "get_weather"
    assert made[2:-1] == numbered(
        *text_events("msg_a", 0, "Look", "ing."),
        *call_events("fc_b", 1, "toolu_7", '{"city":', '"Paris"}', tool=tool),
        *call_events("fc_c", 2, "toolu_8", "{}", tool=tool),
        begin=2,
    )
    assert made[-1][0] == "response.completed"


def test_blocks_and_events_of_a_messages_stream() -> None:
    """Which event leads to which. That the last item is done is told once the stop reason stands,
    for a limit could have cut it. req: 118"""
    _, translator = streaming(RESPONSES, MESSAGES)
    steps = []
    for event in (message_start(), *tool_block(0, 7, '{"a"', ":1}"), *message_end("tool_use")):
        made = events(translator.feed(named_stream(event)))
        steps.append([name.removeprefix("response.") for name, _ in made])
    assert steps == [
        ["created", "in_progress"],
        ["output_item.added"],
        ["function_call_arguments.delta"],
        ["function_call_arguments.delta"],
        [],
        [],
        ["function_call_arguments.done", "output_item.done", "completed"],
    ]
