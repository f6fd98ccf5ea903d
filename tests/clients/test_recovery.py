"""What goes wrong upstream reaches a program in a form after which it tries again by itself."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.clients.asking import ARGUMENTS, CONTENT, ENVIRONMENT, SAID, ask
from tests.clients.stage import Stage, taking_turns

FAULTS = {
    "torn": "fault=truncate after=3 times=1",
    "broken": "fault=reset after=3 times=1",
    "failed": "fault=error_in_stream after=3 times=1",
    "busy": "fault=error status=429 retry_after=1 times=1",
}
PROGRAMS = {"claude-code": "claude-sonnet-5", "codex": "gpt-5.5"}


@pytest.mark.parametrize(
    ("stage", "program", "fault"),
    [(kind, *case) for kind, case in taking_turns(list(product(PROGRAMS, FAULTS)))],
    indirect=["stage"],
)
def test_a_program_tries_again(stage: Stage, program: str, fault: str, tmp_path: Path) -> None:
    """The first request fails; the loop is completed all the same."""
    target = tmp_path / "work" / "notes.txt"

    finished = stage.run(
        program,
        PROGRAMS[program],
        ask(target, FAULTS[fault]),
        tmp_path,
        arguments=ARGUMENTS.get(program, ()),
        environment=ENVIRONMENT.get(program),
    )

    assert finished.status == 0, finished
    assert target.read_text().rstrip("\n") == CONTENT
    assert SAID in finished.output
    assert len(stage.simulator.requests) >= 3, "two for the loop, and one that failed"
