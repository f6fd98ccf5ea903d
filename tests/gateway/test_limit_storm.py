"""Limits after a storm of requests (`limit_storm`), and at saturation over all workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.limit_saturation import saturate
from tests.gateway.limit_storm import blow


@pytest.mark.parametrize(("workers", "kill_every_s"), [(1, 0.0), (3, 0.7)])
def test_nothing_is_reserved_in_the_end_and_all_that_was_spent_is_told(
    tmp_path: Path, workers: int, kill_every_s: float
) -> None:
    found = blow(tmp_path, 1000, workers, 7, kill_every_s)
    assert found.killed or not kill_every_s
    assert found.reserved() == []
    assert found.ends["200"] > 200
    assert found.ends["left"] > 60
    spent = list(found.spent())
    assert len(spent) == 6
    for name, limit, rows in spent:
        assert limit == rows > 0, (name, found)


@pytest.mark.parametrize("workers", [1, 4])
def test_what_is_admitted_over_all_workers_is_the_limit(tmp_path: Path, workers: int) -> None:
    """By 200 clients at once, to the last request."""
    found = saturate(tmp_path, workers, 400, "total", 3.0)
    assert set(found.statuses) == {200, 429}
    assert found.statuses[200] == 400


def test_a_rate_is_never_exceeded_and_used_up(tmp_path: Path) -> None:
    found = saturate(tmp_path, 2, 300, "3s", 5.5, pause_s=0.05)
    assert set(found.statuses) == {200, 429}
    assert found.most_in(3.0, 300) <= 300
    assert found.statuses[200] >= 0.99 * 600
