"""Conversations that go on: resumed, and interrupted in the middle of an answer or of a call."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.clients.accounting import unaccounted
from tests.clients.asking import CONTENT, SAID, ask
from tests.clients.reading import called
from tests.clients.stage import Stage, taking_turns

NOTES_S = 3.0
"""In which a program has written down what it was asked, and shown what it has heard."""
PROGRAMS = [("claude-code", "claude-sonnet-5"), ("codex", "gpt-5.5")]


@pytest.mark.parametrize(
    ("stage", "program", "model"),
    [(kind, *case) for kind, case in taking_turns(PROGRAMS)],
    indirect=["stage"],
)
def test_a_conversation_is_resumed(stage: Stage, program: str, model: str, tmp_path: Path) -> None:
    """The second run's requests hold the first run's whole conversation."""
    first, second = (tmp_path / "work" / name for name in ("first.txt", "second.txt"))
    assert stage.run(program, model, ask(first), tmp_path).status == 0

    finished = stage.run(program, model, ask(second), tmp_path, resume=True)

    assert finished.status == 0, finished
    assert second.read_text().rstrip("\n") == CONTENT
    assert SAID in finished.output
    exchanges = stage.exchanges()
    assert [len(called(exchange.received)) for exchange in exchanges] == [1, 2]
    for exchange in exchanges:
        assert unaccounted(exchange.sent, exchange.received, exchange.losses) == []


@pytest.mark.parametrize(("program", "model"), PROGRAMS)
def test_an_interrupted_conversation_is_resumed(
    stage: Stage, program: str, model: str, tmp_path: Path
) -> None:
    """Killed in the middle of an answer that never ends; the upstream is let go, and the next run
    of the conversation is understood upstream, whatever the program kept of the broken turn."""
    target = tmp_path / "work" / "notes.txt"
    endless = "Go. [[sim: scenario=reasoning_tool fault=silence after=3 ms=60000]]"

    def is_answered() -> bool:
        if not any(one.bytes_sent for one in stage.simulator.requests):
            return False
        time.sleep(NOTES_S)
        return True

    killed = stage.run(program, model, endless, tmp_path, killed_when=is_answered)
    assert killed.status is None, killed
    stage.simulator.wait_for(lambda: stage.simulator.last.disconnected)

    finished = stage.run(program, model, ask(target), tmp_path, resume=True)

    assert finished.status == 0, finished
    assert target.read_text().rstrip("\n") == CONTENT
    assert SAID in finished.output
    for exchange in stage.exchanges():
        assert "Go." in str(exchange.received), "what was said before is there"
