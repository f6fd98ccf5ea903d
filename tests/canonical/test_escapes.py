"""Halves of characters inside arguments, wherever a stream cuts them."""

from __future__ import annotations

import random

import pytest

from dragoman.canonical.escapes import Escapes


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (r'{"a":"\ud83d"}', r'{"a":"\ufffd"}'),
        (r'{"a":"\ude00\ud83d"}', r'{"a":"\ufffd\ufffd"}'),
        (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
        (r'{"a":"\\\ud83d\n"}', r'{"a":"\\\ufffd\n"}'),
        (r'{"a":"\uD83D\uDE00"}', None),
        (r'{"a":"\\ud83d"}', None),
        (r'{"a":"\\\\"}', None),
        (r"cut \u12", None),
        ("cut \\", None),
    ],
)
def test_halves(text: str, mended: str | None) -> None:
    rng = random.Random(1)
    for _ in range(200):
        escapes, told, at = Escapes(), "", 0
        while at < len(text):
            size = rng.randint(1, len(text))
            told += escapes.push(text[at : at + size])
            at += size
        assert told + escapes.flush() == (mended or text)
        assert escapes.mended is (mended is not None)
