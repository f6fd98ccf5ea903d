"""Which bodies are worked on beside the loop."""

from __future__ import annotations

import json

import pytest

from bench.bodies import agent
from dragoman.gateway.edge.beside import is_large

TURN = {"role": "user", "content": "x"}


def messages(count: int, length: int = 1) -> bytes:
    return json.dumps({"messages": [TURN | {"content": "x" * length}] * count}).encode()


@pytest.mark.parametrize("spacing", [40, 61, 64, 67, 122, 128, 134, 160, 305, 320])
def test_many_objects_are_much_work_however_they_are_spaced(spacing: int) -> None:
    """Also where all of them stand at the same place of every 61 or 67 bytes."""
    one = b'{"role":"user","content":"' + b"x" * (spacing - 29) + b'"},'
    assert len(one) == spacing
    for offset in range(68):
        body = b" " * offset + b'{"messages":[' + one * 1500 + b"]}"
        assert is_large(body[: 500 * 1024])


def test_few_objects_are_not() -> None:
    assert not is_large(messages(100, 1000))
    assert not is_large(messages(700, 1))


def test_much_text_is() -> None:
    assert is_large(messages(2, 300_000))


@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic_messages", "openai_responses"])
@pytest.mark.parametrize("model", ["a", "bench-chat", "bench-messages", "bench-responses"])
def test_what_an_agent_sends_is_not(protocol: str, model: str) -> None:
    """It takes half a millisecond: less than to hand it to a thread and back is worth."""
    body = agent(protocol, model)
    assert len(body) > 100_000
    assert not is_large(body)
