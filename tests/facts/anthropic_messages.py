"""Facts of Messages."""

from __future__ import annotations

from typing import Any

from tests.facts import SCHEMA, Facts


def _body(model: str, text: str, stream: bool) -> dict[str, Any]:
    turns = [{"role": "user", "content": text}]
    return {"model": model, "max_tokens": 99, "messages": turns, "stream": stream}


_TOOL = {"name": "get_weather", "input_schema": SCHEMA}

FACTS = Facts(
    path=lambda model, stream: "/v1/messages",
    body=_body,
    tool=_TOOL,
    limit=lambda most: {"max_tokens": most},
    prompt={"system": "Be kind.", "tools": [_TOOL]},
    text_of=lambda answer: "".join(block.get("text", "") for block in answer["content"]),
    ends=lambda stream: b"event: message_stop\n" in stream,
)
