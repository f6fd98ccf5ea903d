"""Whole answers in the exact form are read as those in any other form."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.canonical.events import Event
from dragoman.canonical.losses import Loss
from dragoman.protocols.anthropic_messages import CODEC
from dragoman.protocols.anthropic_messages.shapes import Answer
from tests.properties.cells import inbound

URL = {"type": "web_search_result_location", "url": "https://a.example", "encrypted_index": "x"}
PLACE = {"type": "char_location", "document_index": 0}
CONTENTS: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "text": [{"type": "text", "text": "hi"}, {"type": "text", "text": ""}],
    "cited text": [{"type": "text", "text": "hi", "citations": [URL, PLACE]}],
    "thinking": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    ],
    "calls": [
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1.0, {}]}},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "", "name": "f", "input": {}},
    ],
}
USAGES: list[dict[str, Any] | None] = [
    None,
    {},
    {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": None, "new": 1},
    {"input_tokens": 1, "output_tokens": 2, "service_tier": "batch", "speed": "fast"},
]


def read(answer: dict[str, Any]) -> tuple[list[Event], list[Loss]]:
    """The events of an answer, and its losses."""
    context = inbound()
    body = json.dumps(answer, separators=(",", ":")).encode()
    return list(CODEC.translate.read_response(body, context)), list(context.ledger)


@pytest.mark.parametrize("usage", USAGES, ids=["none", "empty", "new", "fast"])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_the_exact_form_is_read_as_any_other(
    content: list[dict[str, Any]], usage: dict[str, Any] | None
) -> None:
    for reason in ("end_turn", "tool_use", "max_tokens", "stop_sequence"):
        answer = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": "END" if reason == "stop_sequence" else None,
            "usage": usage,
        }
        msgspec.json.decode(json.dumps(answer), type=Answer)
        assert read(answer) == read({**answer, "new": None})
