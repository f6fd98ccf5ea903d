"""Google's Interactions API: the simulator itself, its clients over all upstreams, and all clients
over it, judged by the vendors' SDKs. Each pair is met whole and streamed, with thoughts, two calls
at once, and the turn after them.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import types
from google.genai._interactions_errors import NotFoundError

from dragoman.demo import KEY, demo_config
from dragoman.lab.simulator.script import ParallelTools, Reasoning, Scenario, Text, ToolCall
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import running_gateway
from tests.matrix.bodies import Result, Wish, body, next_turn
from tests.matrix.cases import FINISH
from tests.matrix.conftest import JUDGES, PROTOCOLS, Stage
from tests.matrix.interactions import next_interaction
from tests.matrix.judges import Api, Ask, Mode, Seen
from tests.simulator.interactions import SUMMARIES, TOOLS, results

WEATHER = ToolCall("get_weather", '{"city": "Paris"}')
TIME = ToolCall("get_time", '{"city": "Tokyo"}')
THOUGHT = Reasoning(("Two towns, two calls.",))
MODES: tuple[Mode, ...] = ("full", "helper")
names = itertools.count()


def called(seen: Seen, finish: str = "requires_action") -> list[tuple[str, str]]:
    """The results of all calls."""
    assert seen.error is None, seen.error
    assert seen.reasoning == "Two towns, two calls."
    assert [(call.name, call.input) for call in seen.calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_time", {"city": "Tokyo"}),
    ]
    assert len({call.id for call in seen.calls}) == 2
    assert seen.finish == finish
    return [(call.id, "sunny") for call in seen.calls]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("judge", ["python", "node"])
def test_the_simulator_speaks_it(stage: Stage, judge: str, mode: Mode) -> None:
    name = f"spoken{next(names)}"
    ask = Ask(
        "interactions",
        mode,
        stage.simulator.base_url,
        {"model": f"sim-{name}", "input": "Go.", "tools": TOOLS, "store": False, **SUMMARIES},
    )
    stage.script(name, Scenario((THOUGHT, Text("Looking."), ParallelTools((WEATHER, TIME)))))
    seen = stage.judge(judge).ask(ask)
    answers = called(seen)
    assert (seen.text, seen.usage["total"]) == ("Looking.", sum_of(seen))
    stage.script(name, Scenario((Text("It is sunny."),)))
    body = next_interaction(ask.body, seen.final, answers, "")
    seen = stage.judge(judge).ask(Ask("interactions", mode, ask.base_url, body))
    assert (seen.text, seen.finish) == ("It is sunny.", "completed")
    body["input"].pop()
    refused = stage.judge(judge).ask(Ask("interactions", mode, ask.base_url, body))
    assert refused.error is not None
    assert refused.error.status == 400


def sum_of(seen: Seen) -> int:
    return seen.usage["input"] + seen.usage["output"]


CELLS = [
    (upstream, mode, judge)
    for number, upstream in enumerate([*PROTOCOLS, "interactions"])
    for turn, mode in enumerate(MODES, number)
    for judge in (JUDGES[turn % 2],)
]
"""The judges take turns."""


@pytest.mark.parametrize(("upstream", "mode", "judge"), CELLS)
def test_its_clients_call_tools_of_every_upstream(
    stage: Stage, upstream: Api, mode: Mode, judge: str
) -> None:
    name = f"served{next(names)}"
    model = f"{upstream}/sim-{name}"
    asked = {"model": model, "input": "Go.", "tools": TOOLS, "store": False, **SUMMARIES}
    stage.script(name, Scenario((THOUGHT, Text("Looking."), ParallelTools((WEATHER, TIME)))))
    seen = stage.ask(judge, "interactions", mode, asked)
    answers = called(seen)
    assert (seen.text, seen.usage["total"]) == ("Looking.", sum_of(seen))
    assert seen.model == model
    stage.script(name, Scenario((Text("It is sunny."),)))
    seen = stage.ask(
        judge, "interactions", mode, next_interaction(asked, seen.final, answers, "And?")
    )
    assert seen.error is None, seen.error
    assert (seen.text, seen.finish) == ("It is sunny.", "completed")


@pytest.mark.parametrize(("client", "mode", "judge"), CELLS[: 2 * len(PROTOCOLS)])
def test_clients_of_every_protocol_call_its_tools(
    stage: Stage, client: Api, mode: Mode, judge: str
) -> None:
    name = f"asked{next(names)}"
    wish = Wish(tools=("get_weather", "get_time"), thinking=True)
    asked = body(client, f"interactions/sim-{name}", wish)
    stage.script(name, Scenario((THOUGHT, Text("Looking."), ParallelTools((WEATHER, TIME)))))
    seen = stage.ask(judge, client, mode, asked)
    answers = called(seen, FINISH["tools"][client])
    assert (seen.text, seen.usage["total"]) == ("Looking.", sum_of(seen))
    stage.script(name, Scenario((Text("It is sunny."),)))
    follow = next_turn(client, asked, seen, tuple(Result(*one) for one in answers), "")
    seen = stage.ask(judge, client, mode, follow)
    assert seen.error is None, seen.error
    assert (seen.text, seen.finish) == ("It is sunny.", FINISH["stop"][client])
    sent = [step["type"] for step in stage.sent()["input"]]
    assert sent[-5:].count("function_result") == 2
    assert stage.sent()["store"] is False


@pytest.fixture(scope="module")
def interactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The SDK's client of a gateway that stores."""
    store = tmp_path_factory.mktemp("interactions") / "store.db"
    with (
        warnings.catch_warnings(),
        running_simulator() as simulator,
        running_gateway(demo_config(simulator.base_url, store=str(store)), None) as gateway,
        genai.Client(
            api_key=KEY, http_options=types.HttpOptions(base_url=gateway.base_url)
        ) as client,
    ):
        warnings.simplefilter("ignore")
        yield client.interactions


@pytest.mark.parametrize("upstream", [*PROTOCOLS, "interactions"])
def test_the_sdk_goes_on_from_what_is_stored(interactions: Any, upstream: str) -> None:
    """An interaction in the background is streamed, streamed again from an event on, shown with its
    steps, gone on from, and deleted."""
    asked = {"model": f"{upstream}/sim-parallel_tools", "tools": TOOLS, **SUMMARIES}
    events = list(interactions.create(**asked, input="Go.", stream=True, background=True))
    name, last = events[0].interaction.id, events[-1]
    assert last.event_type == "interaction.completed"
    assert (last.interaction.id, last.interaction.status) == (name, "requires_action")
    rest = list(interactions.get(name, stream=True, last_event_id=events[2].event_id))
    assert [one.event_id for one in rest] == [one.event_id for one in events[3:]]
    stored = interactions.get(name, include_input=True)
    steps = [step.model_dump(exclude_none=True) for step in stored.steps]
    kinds = [step["type"] for step in steps if step["type"] != "thought"]
    assert kinds == ["user_input", "function_call", "function_call"]
    assert stored.input == "Go."
    outputs = results(steps, "sunny", "noon")
    answer = interactions.create(**asked, previous_interaction_id=name, input=outputs)
    assert (answer.status, answer.output_text) == ("completed", "The tool answered: sunny; noon")
    interactions.delete(name)
    for verb in (interactions.get, interactions.cancel, interactions.delete):
        with pytest.raises(NotFoundError):
            verb(name)
