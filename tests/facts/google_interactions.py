"""Facts of the Interactions API."""

from __future__ import annotations

from typing import Any

from tests.facts import SCHEMA, Facts


def _body(model: str, text: str, stream: bool) -> dict[str, Any]:
    return {"model": model, "input": text, "store": False, "stream": stream}


def _text_of(answer: Any) -> str:
    return "".join(
        part["text"]
        for step in answer["steps"]
        if step["type"] == "model_output"
        for part in step["content"]
    )


_TOOL = {"type": "function", "name": "get_weather", "parameters": SCHEMA}

FACTS = Facts(
    path=lambda model, stream: "/v1/interactions",
    body=_body,
    tool=_TOOL,
    limit=lambda most: {"generation_config": {"max_output_tokens": most}},
    prompt={"system_instruction": "Be kind.", "tools": [_TOOL]},
    text_of=_text_of,
    ends=lambda stream: b"event: interaction.completed\n" in stream,
)
