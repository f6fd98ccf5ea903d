"""Instances that are killed, drained and started, and a database that is restarted and cut off,
under clients of all protocols: in short what `python -m tools.load.chaos` does at length."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from tools.load.chaos import Plan, disturb


def test_nothing_fails_or_is_lost_but_what_was_at_the_instance_that_was_killed(
    tmp_path: Path,
) -> None:
    plan = Plan(
        clients=20, pause_s=0.15, budget=300, between_s=1.0, cut_s=2.0, delay_s=0.0,
        sync_s=0.05,
    )  # fmt: skip
    run = disturb(tmp_path, plan)
    assert not run.faults(), "\n".join((*run.faults(), *run.log[-200:]))
    assert run.told_apart()["answered"] > 300
