"""Claude Code and Codex, where the operator's check of requests blocks them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.config import RequestCheck, Secret
from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.asking import ARGUMENTS, ENVIRONMENT, MODELS, TITLED, ask
from tests.clients.stage import playing
from tests.gateway.posts import Post, Posts, posts

REASON = "The folder Payroll must not be sent to a vendor."


@pytest.fixture
def check() -> Iterator[Posts]:
    with posts() as running:
        yield running


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_it_shows_the_reason_and_asks_once(
    agent: str, simulator: RunningSimulator, tmp_path: Path, check: Posts
) -> None:
    """The reason is on the screen, and each request that was blocked is sent one time."""

    def block(post: Post) -> tuple[int, bytes]:
        return 200, json.dumps({"block": True, "reason": REASON, "rule_id": "payroll"}).encode()

    check.answer = block
    settings = RequestCheck(url=Secret(check.url))
    with playing("chat", simulator, request_check=settings) as stage:
        finished = stage.run(
            agent,
            MODELS.get(agent, "some-model"),
            ask(tmp_path / "work" / "notes.txt"),
            tmp_path,
            arguments=(*ARGUMENTS.get(agent, ()), *TITLED.get(agent, ())),
            environment=ENVIRONMENT.get(agent),
        )
        asked = [line for line in stage.lines if line["route"].startswith("POST")]
        assert finished.status != 0
        assert REASON in finished.output + finished.errors, finished
        assert [(line["status"], line["error"]) for line in asked] == [(400, "policy_blocked")]
        assert len(check.got) == 1
        assert simulator.requests == []
