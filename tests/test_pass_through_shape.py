"""Bodies that are passed through: well-known fields are checked, everything else is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.errors import InvalidRequest
from tests.library import translate_request

GOOD: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "anthropic_messages": {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    },
    "openai_responses": {"model": "m", "input": [{"role": "user", "content": "hi"}]},
}
WRONG = [
    ("openai_chat", {"messages": None}, "messages"),
    ("openai_chat", {"messages": []}, "messages"),
    ("openai_chat", {"messages": "hi"}, "messages"),
    ("openai_chat", {"messages": [{"role": "robot"}]}, "messages[0].role"),
    ("openai_chat", {"messages": [{"content": "hi"}]}, "messages[0].role"),
    ("openai_chat", {"temperature": "[undefined]"}, "temperature"),
    ("openai_chat", {"tool_choice": 3}, "tool_choice"),
    ("anthropic_messages", {"messages": [5]}, "messages[0]"),
    ("anthropic_messages", {"max_tokens": "many"}, "max_tokens"),
    ("anthropic_messages", {"tool_choice": "auto"}, "tool_choice"),
    ("openai_responses", {"input": 5}, "input"),
    ("openai_responses", {"input": [{"role": "robot"}]}, "input[0].role"),
    ("openai_responses", {"max_output_tokens": "[undefined]"}, "max_output_tokens"),
]


def passed(protocol: str, body: dict[str, Any]) -> bytes:
    return translate_request(protocol, protocol, json.dumps(body).encode()).body


@pytest.mark.parametrize(("protocol", "change", "path"), WRONG)
def test_a_wrong_field_is_named(protocol: str, change: dict[str, Any], path: str) -> None:
    body = {name: item for name, item in (GOOD[protocol] | change).items() if item is not None}
    with pytest.raises(InvalidRequest) as caught:
        passed(protocol, body)
    assert caught.value.fault.param == path


@pytest.mark.parametrize("protocol", GOOD)
def test_what_nobody_knows_yet_passes(protocol: str) -> None:
    body = GOOD[protocol] | {"brand_new": {"a": [1.10, "é"]}, "temperature": None}
    assert json.loads(passed(protocol, body)) == body


@pytest.mark.parametrize("protocol", GOOD)
def test_values_keep_their_bytes(protocol: str) -> None:
    text = json.dumps(GOOD[protocol])[:-1] + ', "x": [1.10,  2e3, "\\u00e9"]}'
    sent = translate_request(protocol, protocol, text.encode()).body
    assert b'[1.10,  2e3, "\\u00e9"]' in sent
