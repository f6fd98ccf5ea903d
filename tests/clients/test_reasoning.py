"""What a Chat upstream's model thinks is shown by the clients that show thoughts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.simulator.testing import RunningSimulator
from tests.clients.installed import FRAMEWORKS_PYTHON
from tests.clients.stage import playing
from tests.clients.test_loops import THOUGHT, ask

CODEX = (
    "-cmodel_reasoning_summary=auto",
    "-cmodel_supports_reasoning_summaries=true",
    "-chide_agent_reasoning=false",
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
SHOWING = (
    "codex",
    "ai-sdk-compatible",
    "ai-sdk-summary",
    "ai-sdk-anthropic",
    "cline-chat",
)
FRAMEWORKS = tuple(
    f"{name}-{api}" for name in ("langchain", "pydantic-ai") for api in ("responses", "messages")
)
"""They have an environment that only `make record-clients` installs."""


@pytest.mark.parametrize("program", [*SHOWING, *FRAMEWORKS])
def test_thoughts_are_shown(simulator: RunningSimulator, program: str, tmp_path: Path) -> None:
    """Word by word as the model thought it, whatever the protocol of the client."""
    if program in FRAMEWORKS and not FRAMEWORKS_PYTHON.exists():
        pytest.skip("the frameworks are not installed (make record-clients)")
    target = tmp_path / "work" / "notes.txt"
    with playing("chat", simulator) as stage:
        finished = stage.run(
            program,
            "gpt-5.5",
            ask(target),
            tmp_path,
            arguments=CODEX if program == "codex" else (),
        )

    assert finished.status == 0, finished
    # The prompt, which holds the thought, may be shown as well.
    shown = _COLOURS.sub("", finished.output + finished.errors).replace(ask(target), "")
    assert THOUGHT in shown, finished
