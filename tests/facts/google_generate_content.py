"""Facts of generateContent."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.facts import SCHEMA, Facts


def _path(model: str, stream: bool) -> str:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1/models/{quote(model, safe='')}:{method}"


def _body(model: str, text: str, stream: bool) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def _text_of(answer: Any) -> str:
    parts = answer["candidates"][0]["content"]["parts"]
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def _ends(stream: bytes) -> bool:
    """The last data has the reason of the end."""
    frames = [line for line in stream.splitlines() if line.startswith(b"data: ")]
    last = json.loads(frames[-1][len(b"data: ") :]) if frames else {}
    return any("finishReason" in candidate for candidate in last.get("candidates", ()))


_TOOL = {"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": SCHEMA}]}

FACTS = Facts(
    path=_path,
    body=_body,
    tool=_TOOL,
    limit=lambda most: {"generationConfig": {"maxOutputTokens": most}},
    prompt={"systemInstruction": {"parts": [{"text": "Be kind."}]}, "tools": [_TOOL]},
    text_of=_text_of,
    ends=_ends,
)
