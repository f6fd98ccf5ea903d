"""Ready-made upstream answers in the four protocols.

The load upstream must cost next to nothing, so that it never limits a measurement: what can be
rendered beforehand is. The shapes are those of the golden streams; only text is produced.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

DELTA_TEXT = " some words"
"""The text of every streamed delta: about the size of two to three tokens."""

FULL_TEXT = DELTA_TEXT * 40

MODEL = "bench"

INPUT_TOKENS = 30_000
"""Tokens of each prompt: as many as the largest request without a helper process has. With fewer
than such a request has, it would seem cut by the upstream, which the gateway reports."""


def _data(payload: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def _named(payload: dict[str, Any]) -> bytes:
    return b"event: " + str(payload["type"]).encode() + b"\n" + _data(payload)


@dataclass(frozen=True, slots=True)
class Answers:
    """One protocol's answers.

    ``full`` is the body of a complete answer. A stream is ``head``, then ``delta(i)`` for each i
    from 0, then ``tail(n)`` once n deltas were sent; all are whole server-sent events.
    """

    full: bytes
    head: bytes
    delta: Callable[[int], bytes]
    tail: Callable[[int], bytes]


def _chat() -> Answers:
    base = {"id": "chatcmpl-bench", "created": 1, "model": MODEL}
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": 5}
    usage["total_tokens"] = sum(usage.values())

    def chunk(delta: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**base, "object": "chat.completion.chunk", "choices": [choice]})

    message = {"role": "assistant", "content": FULL_TEXT, "refusal": None}
    full = {
        **base,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": usage,
    }
    delta = chunk({"content": DELTA_TEXT}, None)
    last_usage = _data(
        {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage},
    )
    tail = chunk({}, "stop") + last_usage + b"data: [DONE]\n\n"
    return Answers(
        full=json.dumps(full).encode(),
        head=chunk({"role": "assistant", "content": "", "refusal": None}, None),
        delta=lambda _: delta,
        tail=lambda _: tail,
    )


def _messages() -> Answers:
    usage = {
        "input_tokens": INPUT_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 5,
    }
    message: dict[str, Any] = {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    head = (
        _named({"type": "message_start", "message": message})
        + _named({"type": "ping"})
        + _named(
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            }
        )
    )
    delta = _named(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": DELTA_TEXT},
        }
    )
    tail = (
        _named({"type": "content_block_stop", "index": 0})
        + _named(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": usage,
            }
        )
        + _named({"type": "message_stop"})
    )
    full = {
        **message,
        "content": [{"type": "text", "text": FULL_TEXT}],
        "stop_reason": "end_turn",
    }
    return Answers(
        full=json.dumps(full).encode(),
        head=head,
        delta=lambda _: delta,
        tail=lambda _: tail,
    )


def _responses() -> Answers:
    usage = {
        "input_tokens": INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT_TOKENS + 5,
    }

    def response(status: str, output: list[Any], spent: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "id": "resp_bench",
            "object": "response",
            "created_at": 1,
            "completed_at": 2 if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": MODEL,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": spent,
            "user": None,
            "metadata": {},
        }

    def numbered(first: int, *events: tuple[str, dict[str, Any]]) -> bytes:
        return b"".join(
            _named({"type": kind, "sequence_number": number, **rest})
            for number, (kind, rest) in enumerate(events, start=first)
        )

    def part(text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def item(status: str, content: list[Any]) -> dict[str, Any]:
        return {
            "type": "message",
            "id": "msg_bench",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    place = {"item_id": "msg_bench", "output_index": 0, "content_index": 0}
    started = response("in_progress", [], None)
    head = numbered(
        0,
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": item("in_progress", [])}),
        ("response.content_part.added", {**place, "part": part("")}),
    )
    before, after = _named(
        {
            "type": "response.output_text.delta",
            "sequence_number": -1,
            **place,
            "delta": DELTA_TEXT,
            "logprobs": [],
        }
    ).split(b"-1")

    @lru_cache(maxsize=8)
    def tail(deltas: int) -> bytes:
        text = DELTA_TEXT * deltas
        done = item("completed", [part(text)])
        return numbered(
            deltas + 4,
            ("response.output_text.done", {**place, "text": text, "logprobs": []}),
            ("response.content_part.done", {**place, "part": part(text)}),
            ("response.output_item.done", {"output_index": 0, "item": done}),
            ("response.completed", {"response": response("completed", [done], usage)}),
        )

    full = response("completed", [item("completed", [part(FULL_TEXT)])], usage)
    return Answers(
        full=json.dumps(full).encode(),
        head=head,
        delta=lambda index: b"%b%d%b" % (before, index + 4, after),
        tail=tail,
    )


def _google() -> Answers:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}

    def response(text: str, **end: str) -> dict[str, Any]:
        content = {"parts": [{"text": text}], "role": "model"}
        candidate = {"content": content, **end, "index": 0}
        head = {"modelVersion": MODEL, "responseId": "bench"}
        return {"candidates": [candidate], "usageMetadata": usage, **head}

    delta = _data(response(DELTA_TEXT))
    tail = _data(response("", finishReason="STOP"))
    return Answers(
        full=json.dumps(response(FULL_TEXT, finishReason="STOP")).encode(),
        head=b"",
        delta=lambda _: delta,
        tail=lambda _: tail,
    )


ANSWERS: dict[str, Answers] = {
    "openai_chat": _chat(),
    "anthropic_messages": _messages(),
    "openai_responses": _responses(),
    "google_generate_content": _google(),
}
"""Answers by protocol name."""

PATHS: dict[str, str] = {
    "openai_chat": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "openai_responses": "/v1/responses",
    "google_generate_content": "/v1beta/models/{model}:{method}",
}
"""The path of each protocol's main endpoint, with a place for the model if that is in the path."""

EMBEDDINGS_PATH = "/v1/embeddings"
EMBEDDINGS = json.dumps(
    {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": "AACAPwAA" * 171}],
        "model": MODEL,
        "usage": {"prompt_tokens": 29, "total_tokens": 29},
    }
).encode()
"""The answer to a request for embeddings: one vector of 256 numbers, in base64."""

METHODS = ("generateContent", "streamGenerateContent?alt=sse")
"""Methods in such a path: whole, and streamed."""
