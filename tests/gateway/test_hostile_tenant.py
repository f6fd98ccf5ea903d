"""A hostile key beside good ones: the program, for a few seconds."""

from __future__ import annotations

from pathlib import Path

from tools.money.tenant import faults, play


def test_a_hostile_key_costs_nobody_anything(tmp_path: Path) -> None:
    found = play(4.0, tmp_path)
    assert not faults(found), found
    assert found["hostile"]["statuses"].get(200)
