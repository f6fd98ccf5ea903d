"""What real programs have an upstream read again is what it has read: prompts only grow."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.clients.prefixes import broken_prefix
from tests.clients.programs import PROGRAMS
from tests.clients.stage import UPSTREAMS, Stage, taking_turns

PROMPTS = (
    "Please write it down. [[sim: scenario=agent path=one.txt content=One calls=2]]",
    "Now the other. [[sim: scenario=agent path=two.txt content=Two]]",
)
CASES = [
    ("claude-code", "claude-sonnet-5"),
    ("claude-code", "some-model"),
    ("pi-messages", "claude-sonnet-5"),
    ("pi-chat", "some-model"),
    ("ai-sdk-chat", "gpt-5.5"),
    ("codex", "gpt-5.5"),
    ("codex", "gpt-6-sol"),
    ("pi-responses", "gpt-5.5"),
    ("ai-sdk-compatible", "some-model"),
    ("ai-sdk-anthropic", "claude-sonnet-5"),
]
"""Taking turns, each protocol of clients comes before each kind of upstream. What each was recorded
to send is held to the same before all (`test_recordings.py`)."""
MOVES_MARKS = frozenset({"claude-code", "pi-messages"})
"""Move their cache marks from turn to turn, and write texts now as text, now as a list."""


@pytest.mark.parametrize(
    ("stage", "program", "model"),
    [(kind, *case) for kind, case in taking_turns(CASES)],
    indirect=["stage"],
)
def test_each_request_goes_on_where_the_last_one_ended(
    stage: Stage, program: str, model: str, tmp_path: Path
) -> None:
    """Reasoning, calls, results and a second prompt come after what was there, which stays as it
    is to the byte: with reasoning that was made here and has come back."""
    received = []
    prompts = PROMPTS if PROGRAMS[program].resumable else PROMPTS[:1]
    for number, prompt in enumerate(prompts):
        finished = stage.run(program, model, prompt, tmp_path, resume=number > 0)
        assert finished.status == 0, finished
        bodies = [exchange.received for exchange in stage.exchanges()]
        # What is asked beside the conversation, as for a title, offers no tools.
        received += [body for body in bodies if body.get("tools")] or bodies

    assert len(received) >= 2 * len(prompts)
    moved = program in MOVES_MARKS and stage.kind == PROGRAMS[program].protocol
    for earlier, later in pairwise(received):
        assert broken_prefix(UPSTREAMS[stage.kind], earlier, later, exact=not moved) == ""
