"""What clients ask, so that everything in an answer may be shown to them."""

from __future__ import annotations

from typing import Any

from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES, USER
from tests.losses.values import FILLER

_SCHEMA = {"type": "object"}

_ASKING: dict[str, dict[str, Any]] = {
    CHAT: {
        "messages": [USER],
        "logprobs": True,
        "tools": [{"type": "function", "function": {"name": FILLER, "parameters": _SCHEMA}}],
    },
    MESSAGES: {
        "messages": [USER],
        "max_tokens": 50_000,
        "thinking": {"type": "adaptive"},
        "tools": [{"name": FILLER, "input_schema": _SCHEMA}],
    },
    RESPONSES: {
        "input": [USER],
        "include": ["message.output_text.logprobs"],
        "tools": [{"type": "function", "name": FILLER, "parameters": _SCHEMA, "strict": False}],
    },
    GOOGLE: {
        "contents": [{"role": "user", "parts": [{"text": FILLER}]}],
        "generationConfig": {
            "responseLogprobs": True,
            "thinkingConfig": {"includeThoughts": True},
        },
        "tools": [{"functionDeclarations": [{"name": FILLER, "parametersJsonSchema": _SCHEMA}]}],
    },
    "google_interactions": {
        "input": FILLER,
        "generation_config": {"thinking_summaries": "auto"},
        "tools": [{"type": "function", "name": FILLER, "parameters": _SCHEMA}],
    },
}


def asking(client: str, stream: bool) -> dict[str, Any]:
    """A request that allows thinking, tools and usage in its answer."""
    body = {"model": FILLER, "stream": stream, **_ASKING[client]}
    if client == CHAT and stream:
        body["stream_options"] = {"include_usage": True}
    return body
