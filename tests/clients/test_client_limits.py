"""Agents meet the limits of their key: at a rate limit they wait and go on, at a spent budget they
stop at once and show why."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.canonical.options import Options
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_options
from tests.clients.asking import ARGUMENTS, CONTENT, ENVIRONMENT, MODELS, TITLED, ask
from tests.clients.stage import playing

WAITING = ("claude-code", "codex", "opencode-chat")
"""One for each protocol: what an agent is told, and when it may come again."""
AGENTS = (*WAITING, "opencode-messages")
STUBBORN = ("opencode-chat",)
"""Asks again after any 429, also on Responses, so it takes another status."""
RATE = Limit(kind="requests", amount=1, window="8s")
BUDGET = Limit(kind="cost", amount="0", window="month")


@pytest.mark.parametrize("agent", WAITING)
def test_it_waits_for_a_rate_and_does_its_work(
    agent: str, simulator: RunningSimulator, tmp_path: Path
) -> None:
    target = tmp_path / "work" / "notes.txt"
    with playing("chat", simulator, limits=(RATE,)) as stage:
        finished = stage.run(
            agent,
            MODELS.get(agent, "some-model"),
            ask(target),
            tmp_path,
            arguments=(*ARGUMENTS.get(agent, ()), *TITLED.get(agent, ())),
            environment=ENVIRONMENT.get(agent),
        )
        statuses = [line["status"] for line in stage.lines if line["route"].startswith("POST")]
        assert finished.status == 0, finished
        assert target.read_text().rstrip("\n") == CONTENT
        assert statuses.count(429) >= 1, "it met the limit"
        assert statuses.count(429) <= 3 * statuses.count(200), statuses


@pytest.mark.parametrize("agent", AGENTS)
def test_it_stops_at_a_spent_budget_and_shows_why(
    agent: str, simulator: RunningSimulator, tmp_path: Path
) -> None:
    options = make_options(budget_status=402) if agent in STUBBORN else Options()
    with playing("chat", simulator, limits=(BUDGET,), options=options) as stage:
        finished = stage.run(
            agent,
            MODELS.get(agent, "some-model"),
            ask(tmp_path / "work" / "notes.txt"),
            tmp_path,
            arguments=(*ARGUMENTS.get(agent, ()), *TITLED.get(agent, ())),
            environment=ENVIRONMENT.get(agent),
        )
        asked = [line for line in stage.lines if line["route"].startswith("POST")]
        assert not simulator.requests
        assert finished.status != 0
        assert [line["status"] for line in asked] == [asked[0]["status"]], "it does not ask again"
        said = finished.output + finished.errors
        assert "budget of this API key" in said or "Quota exceeded" in said, finished
