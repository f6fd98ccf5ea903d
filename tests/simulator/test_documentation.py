"""The page about the simulator names everything there is."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.lab.simulator.registry import named_scenarios
from dragoman.lab.simulator.steering import FORBIDDEN_TEXTS, OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"


def test_every_scenario_quirk_fault_and_option_is_described() -> None:
    described = set(re.findall(r"`([a-z_0-9]+)=?`", PAGE.read_text()))
    assert {*named_scenarios(), *OPTIONS, *FORBIDDEN_TEXTS} - described == set()
