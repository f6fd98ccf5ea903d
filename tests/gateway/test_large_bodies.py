"""Which bodies are worked on beside the loop."""

from __future__ import annotations

import json

import pytest

from dragoman.gateway.serving.large import is_large

TURN = {"role": "user", "content": "x"}


def messages(count: int, length: int = 1) -> bytes:
    return json.dumps({"messages": [TURN | {"content": "x" * length}] * count}).encode()


@pytest.mark.parametrize("spacing", [40, 62, 64, 74, 111, 124, 128, 160, 310, 320])
def test_many_objects_are_much_work_however_they_are_spaced(spacing: int) -> None:
    """Also where all of them stand at the same place of every 31 or 37 bytes."""
    one = b'{"role":"user","content":"' + b"x" * (spacing - 29) + b'"},'
    assert len(one) == spacing
    for offset in range(38):
        body = b" " * offset + b'{"messages":[' + one * 1500 + b"]}"
        assert is_large(body[: 500 * 1024])


def test_few_objects_are_not() -> None:
    assert not is_large(messages(100, 1000))
    assert not is_large(messages(700, 1))


def test_much_text_is() -> None:
    assert is_large(messages(2, 300_000))
