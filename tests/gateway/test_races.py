"""People and traffic at four workers at once: how accounts end is what some order explains."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tools.load.races import Act, Standing, explained, play

INTERLEAVINGS = 150
"""Ten thousand are played by `python -m tools.load.races`."""


def test_every_end_at_four_workers_is_one_that_some_order_explains(tmp_path: Path) -> None:
    """All workers come to serve what the store says, and that follows from what was done, in an
    order that agrees with every answer that people were given.
    """
    stage = asyncio.run(play(tmp_path, INTERLEAVINGS, seed=20261123))

    assert sum(stage.ends.values()) == INTERLEAVINGS
    assert stage.ends.keys() == {"active", "by hand", "gone", "refused", "spent"}
    done = {kind: count for kind, count in stage.acts.items() if not kind.endswith(": no")}
    assert done.keys() == {"add", "remove", "enable", "disable", "rotate", "refused", "spent"}
    assert min(done.values()) > INTERLEAVINGS // 10


ADDED = Act("add", 0.0, 1.0)


@pytest.mark.parametrize(
    ("acts", "ends"),
    [
        # One after the other: the later word holds, whatever it is.
        ([ADDED, Act("refused", 1.1, 2.0), Act("enable", 2.1, 3.0)], {"active"}),
        ([ADDED, Act("enable", 1.1, 2.0), Act("refused", 2.1, 3.0)], {"refused"}),
        # At the same time: either order.
        ([ADDED, Act("refused", 1.1, 3.0), Act("enable", 2.0, 2.5)], {"active", "refused"}),
        # A failure of a key that is not the account's says nothing.
        ([ADDED, Act("rotate", 1.1, 2.0, 1), Act("refused", 2.1, 3.0, 0)], {"active"}),
        # Two that added the same name, and the one that ended first was told it was there.
        ([ADDED, Act("add", 1.1, 2.0, 1)], set()),
        ([ADDED, Act("remove", 1.1, 3.0), Act("enable", 1.2, 2.0, done=False)], {"gone"}),
        ([ADDED, Act("remove", 1.1, 3.0), Act("enable", 3.1, 4.0)], set()),
    ],
)
def test_the_oracle_tells_what_no_order_explains(acts: list[Act], ends: set[Standing]) -> None:
    assert {truth.standing for truth in explained(acts)} == ends
