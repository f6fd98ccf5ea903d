"""A simulator, and gateways over it that share one store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import read_config
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.matrix.judges import Ask, Mode, NodeJudge, PythonJudge, Seen, find_node

KEY, OTHER_KEY = "sk-key-of-me", "sk-key-of-you"
UPSTREAMS = {
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "responses": "openai_responses",
}

CLIENTS = f"""
[[clients]]
name = "me"
key = "{KEY}"
[[clients]]
name = "you"
key = "{OTHER_KEY}"
"""
UPSTREAM = """
[[upstreams]]
name = "{name}"
protocol = "{protocol}"
base_url = "{base_url}"
[[accounts]]
name = "{name}-1"
upstream = "{name}"
key = "sk-sim-account"
"""

Start = Callable[..., RunningGateway]


@pytest.fixture(scope="session")
def _simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as simulator:
        yield simulator


@pytest.fixture
def simulator(_simulator: RunningSimulator) -> RunningSimulator:
    _simulator.app.requests.clear()
    return _simulator


@pytest.fixture(scope="session")
def judges() -> Iterator[Callable[[str], PythonJudge | NodeJudge]]:
    """The vendors' SDKs by name; the Node ones skip where there is no Node (in CI they fail)."""
    made: dict[str, PythonJudge | NodeJudge] = {}

    def judge(name: str) -> PythonJudge | NodeJudge:
        if name not in made:
            made[name] = PythonJudge() if name == "python" else NodeJudge(find_node())
        return made[name]

    yield judge
    for one in made.values():
        one.close()


@pytest.fixture
def start(simulator: RunningSimulator, tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway; all of one test share a store, as workers and restarts do."""
    with ExitStack() as stack:

        def one(storage: str = "", routes: str = "", clients: str = CLIENTS) -> RunningGateway:
            upstreams = "".join(
                UPSTREAM.format(name=name, protocol=protocol, base_url=simulator.base_url)
                for name, protocol in UPSTREAMS.items()
            )
            text = f'[storage]\npath = "store.db"\n{storage}\n{clients}{upstreams}{routes}'
            file = tmp_path / "dragoman.toml"
            file.write_text(text)
            return stack.enter_context(running_gateway(read_config(file)))

        yield one


@dataclass
class Talk:
    """A Responses client of one gateway."""

    judge: PythonJudge | NodeJudge
    gateway: RunningGateway
    simulator: RunningSimulator
    mode: Mode = "full"
    key: str = KEY

    def ask(self, model: str, **body: Any) -> Seen:
        made = {"model": model, **body}
        return self.judge.ask(Ask("responses", self.mode, self.gateway.base_url, made, self.key))

    def answered(self, model: str, **body: Any) -> dict[str, Any]:
        """The response object of an answer that must be good."""
        seen = self.ask(model, **body)
        assert seen.error is None, seen.error
        final: dict[str, Any] = seen.final
        return final

    def sent(self) -> Any:
        """The body that the upstream received last."""
        return self.simulator.last.json


@pytest.fixture
def talk(
    judges: Callable[[str], PythonJudge | NodeJudge], simulator: RunningSimulator
) -> Callable[..., Talk]:
    def make(gateway: RunningGateway, judge: str = "python", **more: Any) -> Talk:
        return Talk(judges(judge), gateway, simulator, **more)

    return make
