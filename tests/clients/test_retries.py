"""Agents ask again by themselves after an answer that broke off, and not at all where that does not
help. `docs/decisions/0013-retries-of-agents.md` has each one's rule."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.asking import ARGUMENTS, CONTENT, ENVIRONMENT, MODELS, SAID, TITLED, TORN, ask
from tests.clients.programs import KEY, Api, Finished, run
from tests.clients.stage import UPSTREAMS, Stage, playing
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.http import call

BEFORE: dict[Api, list[str]] = {
    "chat": ["claude-code", "qwen-code-chat", "cline-responses"],
    "messages": ["codex", "qwen-code-messages"],
    "responses": ["qwen-code-responses", "cline-chat"],
}
"""Agents whose first answer breaks off, by the upstream: with pi and opencode, which meet that in
`test_loops.py`, each protocol of clients is before each."""
REFUSED = (
    "claude-code",
    "codex",
    "opencode-chat",
    "pi-messages",
    "pi-responses",
    "pi-chat",
    "qwen-code-responses",
    "cline-chat",
)
"""Agents whose every key is refused: in each protocol pi, which goes by the words; of the others
one, since they go by the status, which is the same in all."""

AT_ONCE = 3
"""Programs that run side by side: most of their time they start."""
MOST_S = 20.0


class Run(NamedTuple):
    """A run of an agent: how it ended, the file it was to write, how many of its requests arrived
    at the upstream, and the seconds from its first request to the end."""

    finished: Finished
    target: Path
    requests: int
    took: float

    @property
    def succeeded(self) -> bool:
        """Whether the work was done and told of."""
        return (
            self.finished.status == 0
            and self.target.exists()
            and self.target.read_text().rstrip("\n") == CONTENT
            and SAID in self.finished.output
        )


def side_by_side(
    stage: Stage, agents: Iterable[str], folder: Path, fault: Sequence[str] = ()
) -> dict[str, Run]:
    """Run agents at the same time, each on a task of its own."""

    def one(agent: str) -> Run:
        workdir = folder / agent
        target = workdir / "work" / "notes.txt"
        finished = run(
            agent,
            stage.url,
            MODELS.get(agent, "some-model"),
            ask(target, *fault),
            workdir,
            arguments=(*ARGUMENTS.get(agent, ()), *TITLED.get(agent, ())),
            environment=ENVIRONMENT.get(agent),
        )
        ended = time.monotonic()
        name = str(target).encode()
        arrived = [one for one in stage.simulator.requests if name in one.body]
        began = min(one.at for one in stage.tap.heard if name in one.body)
        return Run(finished, target, len(arrived), ended - began)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(agents, pool.map(one, agents), strict=True))


DECIDING = ("content-type", "retry-after", "x-should-retry", "retry-after-ms")
"""Headers by which clients decide whether to ask again."""


@pytest.mark.parametrize("kind", BEFORE)
def test_agents_ask_again_when_an_answer_breaks_off(
    kind: Api, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Two requests for the work, and the one that broke off."""
    with playing(kind, simulator) as stage:
        runs = side_by_side(stage, BEFORE[kind], tmp_path, TORN)
    for agent, ended in runs.items():
        assert ended.succeeded, (agent, ended)
        assert ended.requests >= 3, (agent, ended)


def test_agents_end_at_once_when_every_key_is_refused(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """And say why: whose fault it is, and that it is not the key that the agent sent."""
    with playing("messages", simulator, key="sk-sim-401") as stage:
        runs = side_by_side(stage, REFUSED, tmp_path)
    for agent, ended in runs.items():
        said = ended.finished.output + ended.finished.errors
        assert ended.finished.status not in (0, None), (agent, ended)
        assert "the upstream refused" in said, (agent, ended)
        assert "not your key" in said, (agent, ended)
        assert ended.took < MOST_S, (agent, ended)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_key_is_told_alike_whatever_the_upstream(
    simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """To the byte, so that what agents do before one kind of upstream they do before all."""
    told: list[set[Any]] = [set(), set()]
    for kind in UPSTREAMS:
        with playing(kind, simulator, key="sk-sim-401") as stage:
            asked = body(api, "some-model", stream=stream)
            for found in told:  # when it is tried, and when it is known
                answer = call(stage.url, "POST", PATHS[api], asked, key=KEY)
                deciding = [(name, answer.headers.get(name)) for name in DECIDING]
                said = answer.body.decode().replace(answer.headers["x-request-id"], "ID")
                found.add((answer.status, said.replace(f"{kind}-0", "ACCOUNT"), *deciding))
    for found in told:
        ((status, *_),) = found
        assert status == 403


@pytest.mark.parametrize(
    ("status", "agents"),
    [
        (529, ["claude-code", "opencode-chat", "cline-responses"]),
        (429, ["codex", *(f"pi-{api}" for api in UPSTREAMS), "cline-chat"]),
    ],
    ids=["overload", "rate limit"],
)
def test_an_agent_asks_again_after_an_error_in_the_stream(
    simulator: RunningSimulator, tmp_path: Path, status: int, agents: list[str]
) -> None:
    """Where a client of the upstream's own protocol would have been told by a status. Agents that
    wait a minute then are left out: qwen-code, and opencode after a rate limit; and opencode on
    Messages, which goes by the same words as on Chat, and on Responses, where any error will do."""
    fault = ("fault=error_in_stream", "after=3", "times=1", f"status={status}")
    with playing("chat", simulator) as stage:
        runs = side_by_side(stage, agents, tmp_path, fault)
    for agent, ended in runs.items():
        assert ended.succeeded, (agent, ended)
        assert ended.requests >= 3, agent
