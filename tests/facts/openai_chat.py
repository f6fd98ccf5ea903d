"""Facts of Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.facts import SCHEMA, Facts


def _body(model: str, text: str, stream: bool) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}


_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}

FACTS = Facts(
    path=lambda model, stream: "/v1/chat/completions",
    body=_body,
    tool=_TOOL,
    limit=lambda most: {"max_completion_tokens": most},
    prompt={
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "tools": [_TOOL],
    },
    text_of=lambda answer: str(answer["choices"][0]["message"]["content"]),
    ends=lambda stream: stream.endswith(b"data: [DONE]\n\n"),
)
