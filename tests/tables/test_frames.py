"""Streams as clients are sent them, event by event with all members, and when each is sent.

The tables of streams tell an event in a few words; here is what stands in it.
"""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.protocols.settings import make_options
from tests.tables.cells import (
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
    block,
    chat_chunk,
    chat_stream,
    chunks,
    events,
    message_end,
    message_start,
    named_stream,
    streamed,
    streaming,
    text_block,
    tool_block,
)


def head(index: int, arguments: str = "") -> Json:
    """The first fragment of a tool call."""
    function = {"name": "look", "arguments": arguments}
    call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
    return chat_chunk({"tool_calls": [call]})


def more(index: int, arguments: str) -> Json:
    """A later fragment."""
    return chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


HI = chat_chunk({"content": "Hi"})
USAGE = chat_chunk(usage=CHAT_USAGE)
CALLS = chat_chunk({}, "tool_calls")
FROM_CHAT = [
    ROLE,
    chat_chunk({"reasoning_content": "Hm"}),
    chat_chunk({"reasoning_content": "."}),
    chat_chunk({"content": "Look"}),
    chat_chunk({"content": "ing."}),
    head(0),
    more(0, '{"city":'),
    more(0, '"Paris"}'),
    head(1, "{}"),
    CALLS,
    USAGE,
]
"""A Chat stream with all that the others can show."""
FROM_MESSAGES = named_stream(
    message_start(input_tokens=5),
    {"type": "ping"},
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "c2ln"},
    ),
    *text_block(1, "Look", "ing."),
    *tool_block(2, 1, '{"city":', '"Paris"}'),
    *tool_block(3, 2),
    *message_end("tool_use"),
)
"""A Messages stream with all that the others can show."""

# --- Chat clients ---------------------------------------------------------------------------------


def fragment(index: int, **members: Any) -> Json:
    return {"tool_calls": [{"index": index, **members}]}


@pytest.mark.parametrize("usage", [False, True])
def test_chat(usage: bool) -> None:
    """Nothing but data lines, and the terminator last; usage in a chunk of its own, if it was
    asked for. req: 71, 72, 73, 74, 75, 76, 77, 78, 79, 80"""
    body = asking(CHAT, stream=True, stream_options={"include_usage": usage})
    made = streamed(CHAT, MESSAGES, FROM_MESSAGES, body)
    told: list[Json] = [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "Hm."},
        {"content": "Look"},
        {"content": "ing."},
        fragment(
            0, id="toolu_1", type="function", function={"name": "get_weather", "arguments": ""}
        ),
        fragment(0, function={"arguments": '{"city":'}),
        fragment(0, function={"arguments": '"Paris"}'}),
        fragment(
            1, id="toolu_2", type="function", function={"name": "get_weather", "arguments": ""}
        ),
        fragment(1, function={"arguments": "{}"}),
        {},
    ]
    common: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "asked",
        **({"usage": None} if usage else {}),
    }
    expected: list[Any] = [
        {
            **common,
            "choices": [
                {
                    "index": 0,
                    "delta": delta,
                    "logprobs": None,
                    "finish_reason": None if delta else "tool_calls",
                }
            ],
        }
        for delta in told
    ]
    if usage:
        counted = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        expected.append({**common, "choices": [], "usage": counted})
    assert chunks(made) == [*expected, "[DONE]"]
    assert made.endswith(b"\n\n" + DONE)
    assert {line[:6] for line in made.split(b"\n") if line} == {b"data: "}


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("done", [False, True])
def test_chat_passed_on(asked: bool, done: bool) -> None:
    """Usage, for which the upstream is always asked, is for those who asked. req: 78"""
    body = asking(CHAT, stream=True, stream_options={"include_usage": asked})
    stream = chat_stream(ROLE, HI, STOP, USAGE, done=done)
    shown = [ROLE, HI, STOP, USAGE] if asked else [ROLE, HI, STOP]
    expected = [{**chunk, "model": "asked"} for chunk in shown]
    assert chunks(streamed(CHAT, CHAT, stream, body)) == [*expected, "[DONE]"]


# --- Messages clients -----------------------------------------------------------------------------


def named(kind: str, **members: Any) -> Event:
    return kind, {"type": kind, **members}


def start(index: int, **content: Any) -> Event:
    return named("content_block_start", index=index, content_block=content)


def delta(index: int, kind: str, **members: str) -> Event:
    return named("content_block_delta", index=index, delta={"type": f"{kind}_delta", **members})


def stop(index: int) -> Event:
    return named("content_block_stop", index=index)


def ended(reason: str, fresh: int, output: int, **details: Any) -> list[Event]:
    """The last two events."""
    ending = {"stop_reason": reason, "stop_sequence": None, **details}
    return [
        named("message_delta", delta=ending, usage=counts(fresh, output)),
        named("message_stop"),
    ]


def counts(fresh: int, output: int) -> Json:
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
    }


BEGUN = [
    named(
        "message_start",
        message={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "asked",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": counts(0, 0),
        },
    ),
    named("ping"),
]


def test_messages() -> None:
    """Every event under the name that is its type; blocks one after another, numbered without
    gaps; a ping where clients wait for one; real counts at the end.
    req: 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91"""
    body = asking(MESSAGES, stream=True, max_tokens=9000, thinking={"type": "adaptive"})
    made = events(streamed(MESSAGES, CHAT, chat_stream(*FROM_CHAT), body))
    signature = made[5][1]["delta"]["signature"]
    assert signature.startswith("dgm1.")
    assert made == [
        *BEGUN,
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking", thinking="Hm"),
        delta(0, "thinking", thinking="."),
        delta(0, "signature", signature=signature),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text", text="Look"),
        delta(1, "text", text="ing."),
        stop(1),
        start(2, type="tool_use", id="call_0", name="look", input={}),
        delta(2, "input_json", partial_json='{"city":'),
        delta(2, "input_json", partial_json='"Paris"}'),
        stop(2),
        start(3, type="tool_use", id="call_1", name="look", input={}),
        delta(3, "input_json", partial_json="{}"),
        stop(3),
        *ended("tool_use", 9, 4),
    ]


def test_messages_of_a_refusal() -> None:
    """Visible text, and the reason why it stopped. req: 97"""
    stream = chat_stream(
        ROLE, chat_chunk({"refusal": "I "}), chat_chunk({"refusal": "won't."}), STOP
    )
    details = {"type": "refusal", "category": None, "explanation": "I won't."}
    assert events(streamed(MESSAGES, CHAT, stream)) == [
        *BEGUN,
        start(0, type="text", text=""),
        delta(0, "text", text="I "),
        delta(0, "text", text="won't."),
        stop(0),
        *ended("refusal", 0, 0, stop_details=details),
    ]


# --- Responses clients ----------------------------------------------------------------------------


def part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(name: str, status: str, *content: Json) -> Json:
    item = {"type": "message", "id": name, "status": status, "role": "assistant"}
    return {**item, "content": list(content)}


def call(name: str, call_id: str, arguments: str, status: str, tool: str) -> Json:
    head = {"type": "function_call", "id": name, "call_id": call_id, "name": tool}
    return {**head, "arguments": arguments, "status": status}


def text_events(name: str, index: int, *pieces: str) -> list[Json]:
    """All events of a message with one text."""
    text = "".join(pieces)
    at = {"item_id": name, "output_index": index, "content_index": 0}
    added, done = message(name, "in_progress"), message(name, "completed", part(text))
    return [
        {"type": "output_item.added", "output_index": index, "item": added},
        {"type": "content_part.added", **at, "part": part("")},
        *({"type": "output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "output_text.done", **at, "text": text, "logprobs": []},
        {"type": "content_part.done", **at, "part": part(text)},
        {"type": "output_item.done", "output_index": index, "item": done},
    ]


def call_events(name: str, index: int, call_id: str, tool: str, *pieces: str) -> list[Json]:
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


def reasoning_events(name: str, *pieces: str, state: str) -> list[Json]:
    """All events of raw reasoning."""
    text = "".join(pieces)
    at = {"item_id": name, "output_index": 0, "content_index": 0}
    item: Json = {"type": "reasoning", "id": name, "summary": []}
    whole = {"type": "reasoning_text", "text": text}
    done = {**item, "content": [whole], "encrypted_content": state}
    return [
        {"type": "output_item.added", "output_index": 0, "item": item},
        {"type": "content_part.added", **at, "part": {"type": "reasoning_text", "text": ""}},
        *({"type": "reasoning_text.delta", **at, "delta": piece} for piece in pieces),
        {"type": "reasoning_text.done", **at, "text": text},
        {"type": "content_part.done", **at, "part": whole},
        {"type": "output_item.done", "output_index": 0, "item": done},
    ]


RESPONSE: Json = {
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


def test_responses() -> None:
    """Named, numbered from 0, in this order; the done events repeat the whole; an item each, with
    the same id in all its events and in the final output; the response in the first, second and
    last event. req: 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 116"""
    made = events(streamed(RESPONSES, CHAT, chat_stream(*FROM_CHAT)))
    completed = made[-1][1]["response"]
    assert completed.pop("completed_at") >= completed["created_at"]
    state = completed["output"][0]["encrypted_content"]
    assert state.startswith("dgm1.")
    items = [
        *reasoning_events("rs_a", "Hm", ".", state=state),
        *text_events("msg_b", 1, "Look", "ing."),
        *call_events("fc_c", 2, "call_0", "look", '{"city":', '"Paris"}'),
        *call_events("fc_d", 3, "call_1", "look", "{}"),
    ]
    last = {
        **RESPONSE,
        "status": "completed",
        "output": [data["item"] for data in items if data["type"] == "output_item.done"],
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 13,
        },
    }
    del last["completed_at"]
    assert made == [
        (
            f"response.{data['type']}",
            {**data, "type": f"response.{data['type']}", "sequence_number": number},
        )
        for number, data in enumerate(
            [
                {"type": "created", "response": RESPONSE},
                {"type": "in_progress", "response": RESPONSE},
                *items,
                {"type": "completed", "response": last},
            ]
        )
    ]


def test_responses_repeat_the_request() -> None:
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
    others = [
        {"type": "custom", "name": "free"},
        {**tool, "name": "find", "description": "d", "strict": True},
    ]
    body = asking(RESPONSES, stream=True, tools=[tool, *others], **asked)
    _, data = events(streamed(RESPONSES, CHAT, chat_stream(ROLE, STOP), body))[0]
    assert {name: data["response"][name] for name in asked} == asked
    whole = {**tool, "description": None, "strict": None}
    assert data["response"]["tools"] == [whole, *others]


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
@pytest.mark.parametrize("terminator", [False, True])
def test_the_terminal_event_of_responses(
    finish: str | None, status: str, reason: str | None, last_item: str | None, terminator: bool
) -> None:
    """One of three, exactly once, last; none is called cancelled; nothing follows it but the
    terminator of a route that is set so. req: 116, 117"""
    stream = chat_stream(ROLE, HI, *([chat_chunk({}, finish)] if finish else []))
    options = make_options(responses_done=terminator)
    written = streamed(RESPONSES, CHAT, stream, options=options)
    assert written.count(DONE) == int(terminator)
    made = events(written.removesuffix(DONE))
    terminal = {"response.completed", "response.incomplete", "response.failed"}
    assert [name for name, _ in made if name in terminal] == [f"response.{status}"]
    name, data = made[-1]
    assert name == f"response.{status}"
    assert data["response"]["incomplete_details"] == (reason and {"reason": reason})
    if last_item is not None:
        assert data["response"]["output"][-1]["status"] == last_item


@pytest.mark.parametrize(
    ("given", "kind", "code"),
    [
        ("rate_limit_exceeded", "rate_limit_error", "rate_limit_exceeded"),
        ("context_length_exceeded", "invalid_request_error", "context_length_exceeded"),
        ("insufficient_quota", "insufficient_quota", "insufficient_quota"),
        ("slow_down", "service_unavailable_error", "server_error"),
        ("image_too_large", "invalid_request_error", "image_too_large"),
        ("odd", "server_error", "server_error"),
        (None, "server_error", "server_error"),
    ],
)
def test_responses_of_a_failure(given: str | None, kind: str, code: str) -> None:
    """An error event, for clients that read only that, then the failed response under the same
    id, with the codes that clients know. req: 115"""
    refused = {"error": {"message": "slow down", "code": given}}
    made = events(streamed(RESPONSES, CHAT, chat_stream(ROLE, HI, refused)))
    (told_as, error), (ended_as, failed) = made[-2:]
    assert (told_as, ended_as) == ("error", "response.failed")
    message = failed["response"]["error"]["message"]
    assert message.removeprefix("Provider returned error: ") == "slow down"
    assert error["message"] == error["error"]["message"] == message
    assert failed["response"]["id"] == "resp_1"
    assert failed["response"]["error"] == {"type": kind, "code": code, "message": message}
    assert [data["sequence_number"] for _, data in made] == list(range(len(made)))


def test_messages_of_a_failure() -> None:
    """An error event and nothing else, with what explains it."""
    why = {"error_type": "other"}
    refused = {"error": {"message": "no", "code": "slow_down", "misalignment": why}}
    message = "Provider returned error: no"
    assert events(streamed(MESSAGES, CHAT, chat_stream(ROLE, refused))) == [
        *BEGUN,
        named(
            "error",
            error={
                "type": "overloaded_error",
                "message": message,
                "details": {"misalignment": why},
            },
        ),
    ]


# --- when it is sent ------------------------------------------------------------------------------

STEPS: list[tuple[str, str, list[tuple[Json, list[str]]]]] = [
    (
        RESPONSES,
        CHAT,
        [
            (ROLE, ["response.created", "response.in_progress"]),
            (head(0), ["response.output_item.added"]),
            (more(0, '{"a":'), ["response.function_call_arguments.delta"]),
            (more(0, "1}"), ["response.function_call_arguments.delta"]),
        ],
    ),
    (
        RESPONSES,
        MESSAGES,
        [
            (message_start(), ["response.created", "response.in_progress"]),
            (tool_block(0, 7)[0], ["response.output_item.added"]),
            # It may stand in the place of the pieces to come.
            (tool_block(0, 7, "{}")[1], []),
            (tool_block(0, 7, '{"a":1}')[1], ["response.function_call_arguments.delta"]),
            # A limit could have cut it: only the stop reason tells.
            (tool_block(0, 7)[1], []),
            (message_end("tool_use")[0], []),
            (
                message_end()[1],
                [
                    "response.function_call_arguments.done",
                    "response.output_item.done",
                    "response.completed",
                ],
            ),
        ],
    ),
    (
        RESPONSES,
        MESSAGES,
        [
            (message_start(), ["response.created", "response.in_progress"]),
            (text_block(0)[0], []),
            (
                text_block(0, "Hi")[1],
                [
                    "response.output_item.added",
                    "response.content_part.added",
                    "response.output_text.delta",
                ],
            ),
            (text_block(0, "")[1], []),
        ],
    ),
    (
        MESSAGES,
        CHAT,
        [
            # It says nothing yet, so another account could still answer.
            (chat_chunk(prompt_filter_results=[{"prompt_index": 0}]), []),
            (ROLE, ["message_start", "ping"]),
            (HI, ["content_block_start", "content_block_delta"]),
            (STOP, ["content_block_stop"]),
            (USAGE, []),
        ],
    ),
]


@pytest.mark.parametrize(("client", "upstream", "steps"), STEPS)
def test_steps(client: str, upstream: str, steps: list[tuple[Json, list[str]]]) -> None:
    """Each event leads to those that it can, at once. req: 92, 93, 94, 113, 118"""
    tool = {"type": "function", "name": "look"}
    body = asking(client, stream=True, **({"tools": [tool]} if client == RESPONSES else {}))
    _, translator = streaming(client, upstream, body)
    for given, told in steps:
        stream = chat_stream(given, done=False) if upstream == CHAT else named_stream(given)
        assert [name for name, _ in events(translator.feed(stream))] == told


def test_a_stream_has_begun_with_its_content() -> None:
    """Before it another account could still answer. req: 92"""
    _, translator = streaming(MESSAGES, CHAT)
    translator.feed(chat_stream(ROLE, done=False))
    assert not translator.begun
    translator.feed(chat_stream(HI, done=False))
    assert translator.begun


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize("done", [False, True])
def test_the_end_waits_for_the_usage(done: bool, usage: bool) -> None:
    """As long as it can come. req: 93"""
    _, translator = streaming(MESSAGES, CHAT)
    translator.feed(chat_stream(ROLE, HI, STOP, *([USAGE] if usage else []), done=False))
    rest = translator.feed(chat_stream()) if done else translator.finish()
    assert events(rest) == (ended("end_turn", 9, 4) if usage else ended("end_turn", 0, 0))
    assert translator.outcome.ended
    assert translator.over
    assert translator.feed(chat_stream(USAGE)) == translator.finish() == b""


OTHER_ROLE = chat_chunk({"role": "user", "content": "Hi"})
TWO_CHOICES = {**HI, "choices": [{**HI["choices"][0], "index": n} for n in (0, 1)]}


@pytest.mark.parametrize("bad", [OTHER_ROLE, TWO_CHOICES], ids=["role", "two choices"])
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_what_no_client_could_make_sense_of(client: str, bad: Json) -> None:
    """At once an error when it comes first, and one in the stream when it comes later. req: 96"""
    _, translator = streaming(client, CHAT)
    translator.feed(chat_stream(bad, done=False))
    assert translator.outcome.fault is not None
    assert not translator.begun
    made = events(streamed(client, CHAT, chat_stream(ROLE, bad, STOP)))
    assert made[-1][0] == ("error" if client == MESSAGES else "response.failed")
