"""A program that asks for more than the upstream's model can write is given what it can."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_capabilities
from tests.clients.asking import CONTENT, ask
from tests.clients.programs import Api
from tests.clients.stage import playing

LIMIT = 8192
FIELDS = {
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
    "responses": "max_output_tokens",
}


@pytest.mark.parametrize("kind", FIELDS)
def test_the_output_limit_is_fitted(kind: Api, simulator: RunningSimulator, tmp_path: Path) -> None:
    """Claude Code asks for 32,000 tokens and more, whatever the model."""
    target = tmp_path / "work" / "notes.txt"
    capabilities = make_capabilities(max_output_tokens=LIMIT)
    with playing(kind, simulator, capabilities=capabilities) as stage:
        finished = stage.run("claude-code", "claude-sonnet-5", ask(target), tmp_path)

        assert finished.status == 0, finished
        assert target.read_text() == CONTENT
        for exchange in stage.exchanges():
            assert exchange.sent["max_tokens"] > LIMIT
            assert exchange.received[FIELDS[kind]] == LIMIT
            assert exchange.losses["max_tokens"] == "repaired"
