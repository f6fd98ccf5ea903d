"""Good requests among clients that mean harm; `python -m tools.load.hostile` runs for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tools.load.hostile import HARM, attack, victim

SECONDS = 5.0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs procfs")
def test_no_good_request_fails(tmp_path: Path, simulator: RunningSimulator) -> None:
    """And what the gateway takes stays within its limits."""
    with victim(tmp_path, simulator.base_url, simulator.base_url) as process:
        found = attack(process, SECONDS, alone_s=1.0)
    assert found.failures == []
    assert found.among
    assert set(found.harm) == {kind.__name__ for kind in HARM}
    assert found.withstood, (found.memory, found.files)
