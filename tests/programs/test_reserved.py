"""What is reserved for a request is at least what it is billed, however its body is spelled."""

from __future__ import annotations

import random

from tools.money.reserved import bodies, run

COUNT = 1500
"""The program checks 200,000 of them."""


def test_what_is_reserved_is_at_least_what_is_billed() -> None:
    found = run(COUNT, seed=3)
    assert not found.leaks
    assert found.billed > COUNT // 10
    assert found.refused > COUNT // 10


def test_bodies_are_odd() -> None:
    bodies_of = [bodies(random.Random(number))[1] for number in range(300)]
    for odd in (b"MODEL", b"\\u006", b"Stream_Options", b'"n":', b"http://a.example"):
        assert any(odd in body for body in bodies_of), odd
