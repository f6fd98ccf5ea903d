"""Azure's reports of its filter, in every place of a stream of Chat."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dragoman.translation.library import translate_request

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x"}
NOBODY = {"id": "", "object": "", "created": 0, "model": ""}
SCORES = {"hate": {"filtered": False, "severity": "safe"}}
OFFSETS = {"check_offset": 44, "start_offset": 44, "end_offset": 198}
OF_PROMPT: dict[str, Any] = {
    **NOBODY,
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": SCORES}],
}
OF_TEXT: dict[str, Any] = {
    **NOBODY,
    "choices": [
        {
            "index": 0,
            "finish_reason": None,
            "content_filter_results": SCORES,
            "content_filter_offsets": OFFSETS,
        }
    ],
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "content_filter_results": {}}
    return {**HEAD, "choices": [choice]}


def call_chunk(arguments: str, **call: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "f"} if call else {})}
    return chunk({"tool_calls": [{"index": 0, **call, "function": function}]})


STREAM = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo"}),
    call_chunk("", id="call_1", type="function"),
    call_chunk('{"a":'),
    call_chunk("1}"),
    chunk({}, "tool_calls"),
    {
        **HEAD,
        "choices": [],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    },
]
SCHEMA = {"type": "object"}
ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [{"role": "user", "content": "Hi"}],
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    },
    "anthropic_messages": {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": SCHEMA}],
    },
    "openai_responses": {
        "input": "Hi",
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
    },
}
_MINTED = re.compile(rb'\b(msg|fc|rs|resp|item)_[0-9a-z]{20,}|"completed_at":\d+')


def told(client: Any, chunks: list[dict[str, Any]], *, stream: bool) -> tuple[bytes, int]:
    """What a client is sent, and the number of losses."""
    asked = {"model": "x", "stream": stream, **ASKED[client]}
    if not stream:
        asked.pop("stream_options", None)
    call = translate_request(
        client, "openai_chat", asked, service="azure_deployments", response_id="r_1", created=1
    )
    frames = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks]
    frames.append(b"data: [DONE]\n\n")
    if stream:
        answer = call.open_stream()
        written = b"".join(map(answer.feed, frames)) + answer.finish()
        assert answer.outcome.ended
    else:
        written = call.stream_as_response(b"".join(frames))
    return _MINTED.sub(b"ID", written), len(call.losses)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", ["anthropic_messages", "openai_responses"])
def test_translated_answers_are_those_without_reports(client: str, stream: bool) -> None:
    without = told(client, STREAM, stream=stream)
    for report in (OF_PROMPT, OF_TEXT):
        for at in range(len(STREAM) + 1):
            chunks = [*STREAM[:at], report, *STREAM[at:]]
            assert told(client, chunks, stream=stream) == without, at


def test_chat_clients_are_shown_the_answer_first() -> None:
    """The first chunk has the id and model of the answer."""
    for report, mark in ((OF_PROMPT, b"prompt_filter_results"), (OF_TEXT, b"content_filter_off")):
        for at in range(len(STREAM) + 1):
            chunks = [*STREAM[:at], report, *STREAM[at:]]
            written, losses = told("openai_chat", chunks, stream=True)
            first = json.loads(written.partition(b"\n\n")[0].removeprefix(b"data: "))
            assert first["id"] == "chatcmpl-1"
            assert first["model"] == "x"
            # While a call is under way, it is read and written anew, without them.
            assert written.count(mark) == 1 or at > 3
            assert not losses


def test_a_report_does_not_begin_an_answer() -> None:
    """Until there is something of an answer, another account can still give one."""
    for client in ASKED:
        call = translate_request(
            client,  # type: ignore[arg-type]
            "openai_chat",
            {"model": "x", "stream": True, **ASKED[client]},
        )
        stream = call.open_stream()
        for report in (OF_PROMPT, OF_TEXT):
            stream.feed(b"data: " + json.dumps(report).encode() + b"\n\n")
        assert not stream.begun
