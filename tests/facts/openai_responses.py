"""Facts of Responses."""

from __future__ import annotations

from typing import Any

from tests.facts import SCHEMA, Facts


def _body(model: str, text: str, stream: bool) -> dict[str, Any]:
    turns = [{"role": "user", "content": text}]
    return {"model": model, "input": turns, "store": False, "stream": stream}


def _text_of(answer: Any) -> str:
    return "".join(
        part["text"]
        for item in answer["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


_TOOL = {"type": "function", "name": "get_weather", "parameters": SCHEMA}

FACTS = Facts(
    path=lambda model, stream: "/v1/responses",
    body=_body,
    tool=_TOOL,
    limit=lambda most: {"max_output_tokens": most},
    prompt={"instructions": "Be kind.", "tools": [_TOOL]},
    text_of=_text_of,
    ends=lambda stream: b"event: response.completed\n" in stream,
)
