"""What a model thinks is shown by the clients that show thoughts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.asking import THOUGHT, ask
from tests.clients.installed import FRAMEWORKS_PYTHON, missing
from tests.clients.programs import Api
from tests.clients.stage import UPSTREAMS, playing

CODEX = (
    "-cmodel_reasoning_summary=auto",
    "-cmodel_supports_reasoning_summaries=true",
    "-chide_agent_reasoning=false",
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
SHOWING = ("codex", "ai-sdk-compatible", "ai-sdk-summary", "ai-sdk-anthropic")
CELLS: list[tuple[Api, str]] = [
    *((kind, program) for kind in UPSTREAMS for program in SHOWING),
    # It asks for no reasoning: what shows it unasked is a Chat upstream.
    ("chat", "cline-chat"),
    # They take their time to start: each in each protocol, translated.
    ("chat", "langchain-responses"),
    ("responses", "langchain-messages"),
    ("messages", "pydantic-ai-responses"),
    ("chat", "pydantic-ai-messages"),
]


@pytest.mark.parametrize(("kind", "program"), CELLS)
def test_thoughts_are_shown(
    simulator: RunningSimulator, kind: Api, program: str, tmp_path: Path
) -> None:
    """Word by word as the model thought it, whatever the protocols of client and upstream."""
    if program.startswith(("langchain", "pydantic-ai")) and not FRAMEWORKS_PYTHON.exists():
        missing("the Python frameworks")
    target = tmp_path / "work" / "notes.txt"
    with playing(kind, simulator) as stage:
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
