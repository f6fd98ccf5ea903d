"""Facts of Parley."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.facts import SCHEMA, Facts


def _path(model: str, stream: bool) -> str:
    return f"/p1/models/{quote(model, safe='')}:{'pieces?as=frames' if stream else 'answer'}"


def _body(model: str, text: str, stream: bool) -> dict[str, Any]:
    return {"lines": [{"from": "human", "text": text}]}


def _ends(stream: bytes) -> bool:
    """Each line of a stream is data or blank, and the last data has the end."""
    lines = [line for line in stream.split(b"\n") if line]
    frames = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    return stream.endswith(b"\n\n") and "end" in frames[-1]


_TOOL = {"name": "get_weather", "about": "Tells the weather.", "takes": SCHEMA}

FACTS = Facts(
    path=_path,
    body=_body,
    tool=_TOOL,
    limit=lambda most: {"bounds": {"most": most}},
    prompt={"rules": "Be kind.", "tools": [_TOOL]},
    text_of=lambda answer: "".join(piece.get("text", "") for piece in answer.get("says", ())),
    ends=_ends,
)
