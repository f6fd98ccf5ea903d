"""Streams for Messages clients: requirements 81 to 97."""

from __future__ import annotations

from typing import Any

import pytest

from tests.requirements.cells import (
    CHAT,
    CHAT_USAGE,
    MESSAGES,
    RESPONSES,
    ROLE,
    STOP,
    Event,
    Json,
    asking,
    chat_chunk,
    chat_stream,
    events,
    lost,
    named_stream,
    streamed,
    streaming,
)

THINKS = asking(MESSAGES, stream=True, max_tokens=9000, thinking={"type": "adaptive"})
USAGE = chat_chunk(usage=CHAT_USAGE)


def piece(index: int, **members: Any) -> Json:
    """A chunk with a fragment of a tool call."""
    return chat_chunk({"tool_calls": [{"index": index, **members}]})


def head(index: int, number: int, arguments: str = "") -> Json:
    """The first fragment of a tool call."""
    function = {"name": "look", "arguments": arguments}
    return piece(index, id=f"call_{number}", type="function", function=function)


def more(index: int, arguments: str) -> Json:
    return piece(index, function={"arguments": arguments})


SPOKEN = chat_stream(
    ROLE,
    chat_chunk({"reasoning_content": "Hm"}),
    chat_chunk({"reasoning_content": "."}),
    chat_chunk({"content": "Look"}),
    chat_chunk({"content": "ing."}),
    head(0, 1),
    more(0, '{"city":'),
    more(0, '"Paris"}'),
    head(1, 2, '{"city":"Rome"}'),
    chat_chunk({}, "tool_calls"),
    USAGE,
)


def told(*chunks: Json, body: Json | None = None, done: bool = True, **how: Any) -> list[Event]:
    """The client's events for a Chat stream."""
    return events(streamed(MESSAGES, CHAT, chat_stream(*chunks, done=done), body, **how))


def start(index: int, **block: Any) -> Event:
    data = {"type": "content_block_start", "index": index, "content_block": block}
    return "content_block_start", data


def delta(index: int, kind: str, **members: str) -> Event:
    data = {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **members},
    }
    return "content_block_delta", data


def stop(index: int) -> Event:
    return "content_block_stop", {"type": "content_block_stop", "index": index}


def counts(fresh: int, written: int, cached: int, output: int) -> Json:
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    }


MESSAGE_START: Event = (
    "message_start",
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "asked",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": counts(0, 0, 0, 0),
        },
    },
)
PING: Event = ("ping", {"type": "ping"})
MESSAGE_STOP: Event = ("message_stop", {"type": "message_stop"})


def message_delta(reason: str, usage: Json, **details: Any) -> Event:
    ending = {"stop_reason": reason, "stop_sequence": None, **details}
    return "message_delta", {"type": "message_delta", "delta": ending, "usage": usage}


def test_event_by_event() -> None:
    """Every event under the name that is its type; blocks one after another, numbered without
    gaps; a ping where clients wait for one; real counts at the end.
    req: 81, 82, 83, 84, 85, 86, 87, 88, 89, 90"""
    made = events(streamed(MESSAGES, CHAT, SPOKEN, THINKS))
    signature = made[5][1]["delta"]["signature"]
    assert signature.startswith("dgm1.")
    assert made == [
        MESSAGE_START,
        PING,
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking", thinking="Hm"),
        delta(0, "thinking", thinking="."),
        delta(0, "signature", signature=signature),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text", text="Look"),
        delta(1, "text", text="ing."),
        stop(1),
        start(2, type="tool_use", id="call_1", name="look", input={}),
        delta(2, "input_json", partial_json='{"city":'),
        delta(2, "input_json", partial_json='"Paris"}'),
        stop(2),
        start(3, type="tool_use", id="call_2", name="look", input={}),
        delta(3, "input_json", partial_json='{"city":"Rome"}'),
        stop(3),
        message_delta("tool_use", counts(9, 0, 0, 4)),
        MESSAGE_STOP,
    ]


def test_the_same_from_a_responses_upstream() -> None:
    """No terminator in the style of Chat, whatever the upstream speaks. req: 81, 82"""
    response = {"id": "resp_9", "model": "theirs", "output": []}
    item = {"type": "message", "id": "msg_9", "role": "assistant", "content": []}
    part = {"item_id": "msg_9", "output_index": 0, "content_index": 0}
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    ended = {**response, "status": "completed", "usage": usage}
    upstream = named_stream(
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", "delta": "Hi", **part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    )
    made = streamed(MESSAGES, RESPONSES, upstream)
    assert events(made) == [
        MESSAGE_START,
        PING,
        start(0, type="text", text=""),
        delta(0, "text", text="Hi"),
        stop(0),
        message_delta("end_turn", counts(9, 0, 0, 4)),
        MESSAGE_STOP,
    ]
    assert b"[DONE]" not in made


def test_one_ping_directly_after_the_start() -> None:
    """req: 84"""
    made = told(ROLE, chat_chunk({"content": "Hi"}), STOP)
    assert [name for name, _ in made].count("ping") == 1
    assert made[1] == PING


def test_the_first_text_is_not_in_the_start() -> None:
    """Clients lose what stands there. req: 86"""
    first = chat_chunk({"role": "assistant", "content": "Hi"})
    assert told(first, STOP)[2:4] == [
        start(0, type="text", text=""),
        delta(0, "text", text="Hi"),
    ]


def test_an_empty_text_opens_no_block() -> None:
    """req: 85, 86"""
    assert told(ROLE, chat_chunk({"content": ""}), STOP)[2:] == [
        message_delta("end_turn", counts(0, 0, 0, 0)),
        MESSAGE_STOP,
    ]


def test_interleaved_calls_are_put_one_after_another() -> None:
    """One block is open at a time; the pieces of the second wait. req: 85, 88, 89"""
    made = told(
        ROLE,
        head(0, 1),
        head(1, 2),
        more(0, '{"n":'),
        more(1, '{"n":'),
        more(0, "1}"),
        more(1, "2}"),
        chat_chunk({}, "tool_calls"),
    )
    inputs = {0: "", 1: ""}
    for name, data in made:
        if name == "content_block_delta":
            inputs[data["index"]] += data["delta"]["partial_json"]
    assert inputs == {0: '{"n":1}', 1: '{"n":2}'}
    blocks = [(name, data["index"]) for name, data in made if name.startswith("content_block_s")]
    assert blocks == [(f"content_block_{what}", n) for n in (0, 1) for what in ("start", "stop")]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    """req: 88"""
    assert told(ROLE, head(0, 1), chat_chunk({}, "tool_calls"))[2:5] == [
        start(0, type="tool_use", id="call_1", name="look", input={}),
        delta(0, "input_json", partial_json="{}"),
        stop(0),
    ]


def test_thinking_only_for_clients_that_enabled_it() -> None:
    """A hidden block takes no number. req: 91"""
    made = events(streamed(MESSAGES, CHAT, SPOKEN))
    starts = [data for name, data in made if name == "content_block_start"]
    assert [data["index"] for data in starts] == [0, 1, 2]
    assert [data["content_block"]["type"] for data in starts] == ["text", "tool_use", "tool_use"]
    disabled = asking(MESSAGES, stream=True, thinking={"type": "disabled"})
    assert events(streamed(MESSAGES, CHAT, SPOKEN, disabled)) == made


def test_the_start_waits_for_the_assistant() -> None:
    """Preambles without a choice say nothing, so another account could still answer. req: 92"""
    _, translator = streaming(MESSAGES, CHAT)
    preamble = chat_chunk(prompt_filter_results=[{"prompt_index": 0}])
    assert translator.feed(chat_stream(preamble, done=False)) == b""
    assert not translator.begun
    assert events(translator.feed(chat_stream(ROLE, done=False))) == [MESSAGE_START, PING]
    assert not translator.begun
    assert translator.feed(chat_stream(chat_chunk({"content": "Hi"}), done=False))
    assert translator.begun


@pytest.mark.parametrize("ending", ["usage", "done", "eof"])
def test_the_end_waits_for_the_usage(ending: str) -> None:
    """A finish reason closes the block; how it ended is told when usage can come no more.
    req: 93"""
    _, translator = streaming(MESSAGES, CHAT)
    translator.feed(chat_stream(ROLE, chat_chunk({"content": "Hi"}), done=False))
    assert events(translator.feed(chat_stream(STOP, done=False))) == [stop(0)]
    rest = b""
    if ending == "usage":
        rest += translator.feed(chat_stream(USAGE, done=False))
    if ending != "eof":
        rest += translator.feed(chat_stream())
    rest += translator.finish()
    usage = counts(9, 0, 0, 4) if ending == "usage" else counts(0, 0, 0, 0)
    assert events(rest) == [message_delta("end_turn", usage), MESSAGE_STOP]
    assert translator.outcome.ended


@pytest.mark.parametrize("where", ["role", "text", "stop", "own", "all"])
def test_usage_wherever_it_comes(where: str) -> None:
    """The last one counts, as servers send it on any chunk; none of them ends the stream.
    req: 94"""
    early = {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}
    last = {"usage": CHAT_USAGE}
    role: Json = {"role": {**ROLE, **last}, "all": {**ROLE, **early}}.get(where, ROLE)
    said = chat_chunk({"content": "Hi"})
    text: Json = {"text": {**said, **last}, "all": {**said, **early}}.get(where, said)
    finish: Json = {"stop": {**STOP, **last}, "all": {**STOP, **last}}.get(where, STOP)
    own = [USAGE] if where == "own" else []
    assert told(role, text, finish, *own)[2:] == [
        start(0, type="text", text=""),
        delta(0, "text", text="Hi"),
        stop(0),
        message_delta("end_turn", counts(9, 0, 0, 4)),
        MESSAGE_STOP,
    ]


EMPTY = chat_chunk()
EARLY = chat_chunk(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})


@pytest.mark.parametrize("extra", [EMPTY, EARLY], ids=["empty", "usage"])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_chunks_without_choices(extra: Json, place: int) -> None:
    """Real servers send them first, between and last. They change nothing but the usage, and the
    last usage counts. req: 95"""
    chunks = [ROLE, chat_chunk({"content": "Hi"}), STOP]
    plain = told(*chunks, USAGE)
    chunks.insert(place, extra)
    assert told(*chunks, USAGE) == plain


def test_a_stream_of_nothing_but_usage() -> None:
    """It is no answer. req: 95"""
    assert [name for name, _ in told(USAGE)] == ["error"]


def test_after_the_end_nothing_is_read() -> None:
    """req: 95"""
    _, translator = streaming(MESSAGES, CHAT)
    translator.feed(chat_stream(ROLE, STOP))
    assert translator.over
    assert translator.feed(chat_stream(USAGE)) == b""
    assert translator.finish() == b""


def test_log_probabilities_that_nobody_asked_for() -> None:
    """Some servers send them always: no answer is thrown away for them, and the ledger names them.
    req: 96"""
    record = {"token": "Hi", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    plain = chat_chunk({"content": "Hi"})
    spoken = chat_chunk({"content": "Hi"})
    spoken["choices"][0]["logprobs"] = {"content": [record], "refusal": None}
    call, translator = streaming(MESSAGES, CHAT)
    made = translator.feed(chat_stream(ROLE, spoken, STOP))
    assert events(made) == told(ROLE, plain, STOP)
    assert set(lost(call).values()) == {"knob"}


OTHER_ROLE = chat_chunk({"role": "user", "content": "Hi"})
TWO_CHOICES = {**ROLE, "choices": [{**ROLE["choices"][0], "index": n} for n in (0, 1)]}
SECOND_CHOICE = {**ROLE, "choices": [{**ROLE["choices"][0], "index": 1}]}


@pytest.mark.parametrize(
    "bad",
    [OTHER_ROLE, TWO_CHOICES, SECOND_CHOICE],
    ids=["role", "two choices", "the second choice"],
)
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_what_no_client_could_make_sense_of(client: str, bad: Json) -> None:
    """At once an error when it comes first, and one in the stream when it comes later. req: 96"""
    _, translator = streaming(client, CHAT)
    translator.feed(chat_stream(bad, done=False))
    assert translator.outcome.fault is not None
    assert not translator.begun
    made = events(streamed(client, CHAT, chat_stream(ROLE, bad, STOP)))
    assert made[-1][0] == ("error" if client == MESSAGES else "response.failed")


def test_a_refusal_is_visible_text() -> None:
    """And the reason why it stopped. req: 97"""
    made = told(ROLE, chat_chunk({"refusal": "I "}), chat_chunk({"refusal": "won't."}), STOP)
    details = {"type": "refusal", "category": None, "explanation": "I won't."}
    assert made[2:] == [
        start(0, type="text", text=""),
        delta(0, "text", text="I "),
        delta(0, "text", text="won't."),
        stop(0),
        message_delta("refusal", counts(0, 0, 0, 0), stop_details=details),
        MESSAGE_STOP,
    ]
