"""Stop sequences that the upstream does not take, emulated, as the vendors' SDKs see it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from dragoman.config import parse_config
from dragoman.lab.simulator.script import Pace, Reasoning, Scenario, Text, ToolCall
from dragoman.server.testing import running_gateway
from tests.matrix.bodies import Wish, body
from tests.matrix.conftest import CONFIG, PROTOCOLS, UPSTREAM, Stage
from tests.matrix.judges import Api, Ask, Mode, Seen

LOOK = ToolCall("get_weather", '{"city": "Paris END"}')


class Case(NamedTuple):
    """What the upstream says, the client's stop sequences, and what the client is to see."""

    upstream: Api
    steps: tuple[Any, ...]
    stops: tuple[str, ...]
    text: str
    found: str | None


CASES = [
    Case("responses", (Text("one two three four"),), ("three",), "one two ", "three"),
    Case("responses", (Text("three four"),), ("three",), "", "three"),
    Case("responses", (Text("one two three"),), ("three",), "one two ", "three"),
    Case("responses", (Text("one two thre"),), ("three",), "one two thre", None),
    Case("responses", (Text("grüße ✋🏿 ✋🏽 und"),), ("✋🏽", "no"), "grüße ✋🏿 ", "✋🏽"),
    Case(
        "responses",
        (Reasoning(("END of it?",)), Text("Now END"), LOOK),
        ("END",),
        "Now ",
        "END",
    ),
    Case("chat", (Text("one two three four"),), (*"1234", "three"), "one two ", "three"),
    Case("messages", (Text("one\n\ntwo"),), ("three", "\n\n"), "one", "\n\n"),
]
GRID = [
    (client, *cell)
    for client, *cell in itertools.product(
        ("chat", "messages"), CASES, ("full", "helper"), ("python", "node")
    )
    if client != cell[0].upstream
]
names = itertools.count()


@pytest.fixture(scope="module")
def emulating(stage: Stage) -> Iterator[str]:
    """The address of a gateway that emulates stop sequences."""
    text = CONFIG
    for api, protocol in PROTOCOLS.items():
        text += UPSTREAM.format(
            api=api, protocol=protocol, base_url=stage.simulator.base_url, websocket="off"
        )
    with running_gateway(parse_config(text)) as gateway:
        yield gateway.base_url


@pytest.mark.parametrize(("client", "case", "mode", "judge"), GRID)
@pytest.mark.parametrize("size", [1, 50])
def test_answers_end_at_the_stop_sequence(
    stage: Stage, emulating: str, client: Api, case: Case, mode: Mode, judge: str, size: int
) -> None:
    """Whole and streamed, whatever the upstream's deltas are."""
    name = f"stops{next(names)}"
    stage.script(name, Scenario(case.steps, pace=Pace(size=size)))
    wish = Wish(tools=("get_weather",), thinking=case.steps[-1] is LOOK)
    made = body(client, f"{case.upstream}/sim-{name}", wish)
    made["stop" if client == "chat" else "stop_sequences"] = list(case.stops)

    seen = stage.judge(judge).ask(Ask(client, mode, emulating, made))

    assert seen.error is None, seen.error
    sent = stage.sent()
    assert case.found not in [*sent.get("stop", ()), *sent.get("stop_sequences", ())]
    assert seen.text == case.text
    assert not seen.calls
    check_finish(client, case, seen)


def check_finish(client: Api, case: Case, seen: Seen) -> None:
    if client == "chat":
        assert seen.finish == "stop"
    else:
        finish = "end_turn" if case.found is None else "stop_sequence"
        assert (seen.finish, seen.stop_sequence) == (finish, case.found)
