"""One simulator, one gateway and the judges for all cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dragoman.config import parse_config
from dragoman.lab.simulator.script import Scenario
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import running_gateway
from tests.matrix.judges import (
    Api,
    Ask,
    DiallingJudge,
    Mode,
    NodeJudge,
    PythonJudge,
    Seen,
    find_node,
)

PROTOCOLS: dict[Api, str] = {
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "responses": "openai_responses",
    "google": "google_generate_content",
}
DIALLED = "sockets"
"""What the upstreams are called that the gateway calls over WebSocket."""
UPSTREAMS: dict[str, str] = {
    **dict(PROTOCOLS.items()),
    DIALLED: "openai_responses",
    "interactions": "google_interactions",
}
SOCKETS: list[tuple[Api, Api, Mode, str]] = [
    *(("responses", upstream, "socket", "python") for upstream in PROTOCOLS),
    *((client, "responses", "helper", DiallingJudge.name) for client in PROTOCOLS),
    ("responses", "responses", "socket", DiallingJudge.name),
]
"""The cells of a Responses client that uses a WebSocket, of an upstream that is called over one,
and of both."""
JUDGES = ("python", "node")


def cells(modes: Sequence[Mode]) -> list[tuple[Api, Api, Mode, str]]:
    """All pairs, whole and streamed. Where one side is Google's and the other is not, each way to
    ask has one of the judges, which take turns."""
    found: list[tuple[Api, Api, Mode, str]] = []
    for (number, client), upstream in itertools.product(enumerate(PROTOCOLS), PROTOCOLS):
        for turn, mode in enumerate(modes, number):
            crosses = (client == "google") is not (upstream == "google")
            judges = (JUDGES[turn % 2],) if crosses else JUDGES
            found += [(client, upstream, mode, judge) for judge in judges]
    return found


CONFIG = """
[server]
port = 0
keepalive_s = 0.04
commit_after_s = 1.0

[[clients]]
name = "judge"
key = "sk-test-key"
"""
UPSTREAM = """
[[upstreams]]
name = "{api}"
protocol = "{protocol}"
base_url = "{base_url}"
websocket = "{websocket}"
[upstreams.timeouts]
idle_s = 3.0

[[accounts]]
name = "{api}-1"
upstream = "{api}"
key = "sk-sim-account"
"""


@dataclass(frozen=True)
class Stage:
    """Where a case is played."""

    simulator: RunningSimulator
    gateway: str
    judges: dict[str, PythonJudge | NodeJudge]

    def judge(self, name: str) -> PythonJudge | NodeJudge:
        """The judge of that name. Where there is no Node, its tests skip (in CI they fail)."""
        if name not in self.judges:
            self.judges[name] = NodeJudge(find_node())
        return self.judges[name]

    def script(self, name: str, scenario: Scenario) -> None:
        """Have the upstreams answer the model `sim-NAME` with `scenario`."""
        assert "-" not in name, "the simulator reads a dash as an underscore"
        self.simulator.app.scenarios[name] = scenario

    def ask(self, judge: str, client: Api, mode: Mode, made: dict[str, Any]) -> Seen:
        """Send a native request body through the gateway with one of the judges' SDKs."""
        return self.judge(judge).ask(Ask(client, mode, self.gateway, made))

    def sent(self) -> dict[str, Any]:
        """The body that the upstream received last."""
        received = self.simulator.last.json
        assert isinstance(received, dict)
        return received


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    judges: dict[str, PythonJudge | NodeJudge] = {
        one.name: one for one in (PythonJudge(), DiallingJudge(DIALLED))
    }
    try:
        with running_simulator() as simulator:
            text = CONFIG + "".join(
                UPSTREAM.format(
                    api=api,
                    protocol=protocol,
                    base_url=simulator.base_url,
                    websocket="on" if api == DIALLED else "off",
                )
                for api, protocol in UPSTREAMS.items()
            )
            with running_gateway(parse_config(text)) as gateway:
                yield Stage(simulator, gateway.base_url, judges)
    finally:
        for judge in judges.values():
            judge.close()
