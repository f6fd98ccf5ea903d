"""The same two answers as each kind of upstream streams them: a text, and two tool calls."""

from __future__ import annotations

import json
from typing import Any

from dragoman.protocols import CODECS
from tests.library import translate_request

UPSTREAMS = tuple(CODECS)


def _chat(*deltas: Any, finish: str) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 5, "model": "up"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _call(index: int, name: str, *pieces: str) -> list[Any]:
    first = {
        "index": index,
        "id": f"call_{index}",
        "type": "function",
        "function": {"name": name, "arguments": ""},
    }
    rest = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [fragment]} for fragment in (first, *rest)]


_TEXT = _chat({"role": "assistant", "content": "Hel"}, {"content": "lo"}, finish="stop")
_CALLS = _chat(
    {"role": "assistant", "content": "I look."},
    *_call(0, "read", '{"path":', '"a"}'),
    *_call(1, "list", '{"all":', "true}"),
    finish="tool_calls",
)

_LEAST: dict[str, Any] = {
    "openai_chat": {"model": "up", "messages": [{"role": "user", "content": "hi"}]},
    "anthropic_messages": {
        "model": "up",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "hi"}],
    },
    "openai_responses": {"model": "up", "input": "hi"},
    "google_generate_content": {"model": "up", "contents": [{"parts": [{"text": "hi"}]}]},
    "google_interactions": {"model": "up", "input": "hi"},
}


def _told(protocol: str, chat: bytes) -> bytes:
    """The answer of a Chat upstream as an upstream of another protocol streams it."""
    if protocol == "openai_chat":
        return chat
    body = json.dumps({**_LEAST[protocol], "stream": True}).encode()
    stream = translate_request(protocol, "openai_chat", body).open_stream()
    return stream.feed(chat) + stream.finish()


TEXT = {protocol: _told(protocol, _TEXT) for protocol in UPSTREAMS}
CALLS = {protocol: _told(protocol, _CALLS) for protocol in UPSTREAMS}
