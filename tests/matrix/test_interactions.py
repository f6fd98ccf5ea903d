"""Google's Interactions API, judged by both of its SDKs: the simulator itself."""

from __future__ import annotations

import itertools

import pytest

from dragoman.lab.simulator.script import ParallelTools, Reasoning, Scenario, Text, ToolCall
from tests.matrix.conftest import Stage
from tests.matrix.interactions import next_interaction
from tests.matrix.judges import Ask, Mode, Seen
from tests.simulator.interactions import SUMMARIES, TOOLS

WEATHER = ToolCall("get_weather", '{"city": "Paris"}')
TIME = ToolCall("get_time", '{"city": "Tokyo"}')
THOUGHT = Reasoning(("Two towns, two calls.",))
MODES: tuple[Mode, ...] = ("full", "helper")
names = itertools.count()


def called(seen: Seen) -> list[tuple[str, str]]:
    """The results of all calls."""
    assert seen.error is None, seen.error
    assert seen.reasoning == "Two towns, two calls."
    assert [(call.name, call.input) for call in seen.calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_time", {"city": "Tokyo"}),
    ]
    assert len({call.id for call in seen.calls}) == 2
    assert seen.finish == "requires_action"
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
    results = called(seen)
    assert (seen.text, seen.usage["total"]) == ("Looking.", sum_of(seen))
    stage.script(name, Scenario((Text("It is sunny."),)))
    body = next_interaction(ask.body, seen.final, results, "")
    seen = stage.judge(judge).ask(Ask("interactions", mode, ask.base_url, body))
    assert (seen.text, seen.finish) == ("It is sunny.", "completed")
    body["input"].pop()
    refused = stage.judge(judge).ask(Ask("interactions", mode, ask.base_url, body))
    assert refused.error is not None
    assert refused.error.status == 400


def sum_of(seen: Seen) -> int:
    return seen.usage["input"] + seen.usage["output"]
