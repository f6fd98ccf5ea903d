"""Whole answers of mere text in the official form are read as those in any other form."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.canonical.events import Event
from dragoman.canonical.losses import Loss
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.shapes import TextAnswer
from tests.properties.cells import inbound

USAGES: list[dict[str, Any]] = [
    {},
    {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1, "new": 2}, "new": 3},
]


def read(answer: dict[str, Any]) -> tuple[list[Event], list[Loss]]:
    """The events of an answer, and its losses."""
    context = inbound()
    return list(CODEC.translate.read_response(json.dumps(answer).encode(), context)), list(
        context.ledger
    )


@pytest.mark.parametrize("usage", USAGES, ids=["none", "usual", "more"])
@pytest.mark.parametrize("tier", [None, "", "flex"])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_the_official_form_is_read_as_any_other(
    usage: dict[str, Any], tier: str | None, reason: str
) -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "hi\u00e9",
        "refusal": None,
        "annotations": [],
    }
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": usage,
        "service_tier": tier,
    }
    msgspec.json.decode(json.dumps(answer), type=TextAnswer)
    assert read(answer) == read({**answer, "new": None})


@pytest.mark.parametrize("created", [-5, 0, 2**70])
def test_odd_times_are_read_alike(created: int) -> None:
    message = {"role": "assistant", "content": "hi"}
    answer = {
        "id": "",
        "created": created,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {},
    }
    assert read(answer) == read({**answer, "new": None})
