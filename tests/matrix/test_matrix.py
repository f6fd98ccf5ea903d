"""Sixteen cells, full and streaming, judged by the vendors' six SDKs over real sockets.

`docs/matrix.md` is written from the same tables (`python -m tools.pages.matrix`).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from dragoman.lab.simulator.script import Reasoning, Scenario, Text, ToolCall
from tests.matrix.bodies import Result, Wish, body, next_turn, png
from tests.matrix.cases import CASES, WEATHER, Cannot, Case
from tests.matrix.conftest import SOCKETS, Stage, cells
from tests.matrix.judges import Api, Mode, Seen

MODES: tuple[Mode, ...] = ("full", "helper")
GRID = [*cells(MODES), *SOCKETS]
names = itertools.count()


def play(stage: Stage, case: Case, client: Api, upstream: Api, mode: Mode, judge: str) -> Seen:
    """One question about a case; the answer."""
    name = f"matrix{next(names)}"
    stage.script(name, case.say(client, upstream))
    return stage.ask(judge, client, mode, body(client, f"{upstream}/sim-{name}", case.wish))


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cell(stage: Stage, case: Case, client: Api, upstream: Api, mode: Mode, judge: str) -> None:
    """Every pair, full and streamed. req: 1, 7, 8, 9"""
    cannot = case.cannot(client, upstream)
    if isinstance(cannot, str):
        pytest.skip(cannot)
    seen = play(stage, case, client, upstream, mode, judge)
    if isinstance(cannot, Cannot):
        assert seen.error is not None
        assert seen.error.status == cannot.status
        assert cannot.mentions in seen.error.message
        return
    case.check(client, upstream, seen)
    case.arrived(upstream, stage.sent())
    assert seen.model == stage_model(stage, seen)


def stage_model(stage: Stage, seen: Seen) -> str:
    """The answer names the model the client asked for, not the upstream's name. req: 150"""
    assert seen.model is not None
    upstream_model = stage.simulator.last.model
    assert seen.model.endswith(f"/{upstream_model}")
    return seen.model


def two_turns(
    stage: Stage,
    cell: tuple[Api, Api, Mode, str],
    first: Scenario,
    wish: Wish,
    *,
    image: bool = False,
    custom: bool = False,
) -> tuple[Seen, Seen]:
    """An answer with tool calls, then the turn with their results."""
    client, upstream, mode, judge = cell
    name = f"loop{next(names)}"
    stage.script(name, first)
    asked = body(client, f"{upstream}/sim-{name}", wish)
    answered = stage.ask(judge, client, mode, asked)
    assert answered.error is None, answered.error
    results = tuple(
        Result(call.id, f"result of {call.name}", image=image, custom=call.custom)
        for call in answered.calls
    )
    stage.script(f"{name}after", Scenario(steps=(Text("It is sunny."),)))
    follow = next_turn(client, asked, answered, results, "" if results else "And now?")
    follow["model"] = f"{upstream}/sim-{name}after"
    final = stage.ask(judge, client, mode, follow)
    assert final.error is None, final.error
    assert final.text == "It is sunny."
    return answered, final


def call_ids(upstream: Api, sent: dict[str, object]) -> tuple[list[str], list[str]]:
    """The ids of calls and of results in a body that an upstream received."""
    calls: list[str] = []
    results: list[str] = []
    match upstream:
        case "chat":
            for message in sent["messages"]:  # type: ignore[attr-defined]
                calls += [call["id"] for call in message.get("tool_calls") or ()]
                if message["role"] == "tool":
                    results.append(message["tool_call_id"])
        case "messages":
            for message in sent["messages"]:  # type: ignore[attr-defined]
                if isinstance(message["content"], str):
                    continue
                for block in message["content"]:
                    if block["type"] == "tool_use":
                        calls.append(block["id"])
                    elif block["type"] == "tool_result":
                        results.append(block["tool_use_id"])
        case "responses":
            for item in sent["input"]:  # type: ignore[attr-defined]
                if item.get("type") in ("function_call", "custom_tool_call"):
                    calls.append(item["call_id"])
                elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
                    results.append(item["call_id"])
        case "google":
            for content in sent["contents"]:  # type: ignore[attr-defined]
                for part in content["parts"]:
                    calls += [part["functionCall"]["id"]] if "functionCall" in part else []
                    answered = part.get("functionResponse") or {}
                    results += [answered["id"]] if answered else []
    return calls, results


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
def test_tool_loop(stage: Stage, client: Api, upstream: Api, mode: Mode, judge: str) -> None:
    """The upstream gets its own call ids back. req: 20, 21, 35, 37, 53, 111"""
    cell = (client, upstream, mode, judge)
    answered, _ = two_turns(stage, cell, Scenario(steps=(WEATHER,)), Wish(tools=("get_weather",)))
    ids = [call.id for call in answered.calls]
    assert call_ids(upstream, stage.sent()) == (ids, ids)


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
def test_image_in_a_tool_result(
    stage: Stage, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    import json

    cell = (client, upstream, mode, judge)
    first = Scenario(steps=(WEATHER,))
    two_turns(stage, cell, first, Wish(tools=("get_weather",)), image=True)
    assert png() in json.dumps(stage.sent()).replace("-", "+").replace("_", "/")


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
def test_custom_tool_loop(stage: Stage, client: Api, upstream: Api, mode: Mode, judge: str) -> None:
    if client in ("messages", "google"):
        pytest.skip("the client has no free-text tools")
    (case,) = (case for case in CASES if case.name == "custom tool")
    cell = (client, upstream, mode, judge)
    answered, _ = two_turns(stage, cell, case.say(client, upstream), case.wish)
    ids = [call.id for call in answered.calls]
    assert call_ids(upstream, stage.sent()) == (ids, ids)


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
def test_reasoning_round_trip(
    stage: Stage, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    """Reasoning state comes back to its upstream byte for byte over two turns.

    The simulator refuses signatures and encrypted reasoning that it did not make. Chat has no
    field for either, so a Chat client's second turn goes without (stated in the ledger).
    """
    import json

    cell = (client, upstream, mode, judge)
    first = Scenario(steps=(Reasoning(("I need the weather.",)), WEATHER))
    wish = Wish(tools=("get_weather",), thinking=True)
    answered, _ = two_turns(stage, cell, first, wish)
    assert answered.reasoning == "I need the weather."
    sent = json.dumps(stage.sent())
    assert "dgm1." not in sent
    if upstream == "google":
        assert '"thoughtSignature"' in sent
        return
    if client == "chat" and upstream != "chat":
        assert "signature" not in sent
        return
    if upstream == "messages":
        assert '"signature"' in sent
        assert "I need the weather." in sent
    elif upstream == "responses":
        assert '"encrypted_content"' in sent


@pytest.mark.parametrize(("client", "upstream", "mode", "judge"), GRID)
def test_parse_helpers_take_structured_output(
    stage: Stage, client: Api, upstream: Api, mode: Mode, judge: str
) -> None:
    """The SDKs' own parse helpers validate the answer."""
    if mode == "helper":
        pytest.skip("parse helpers are not streamed; the stream helpers run in every other test")
    if mode == "socket":
        pytest.skip("a socket has no parse helpers")
    name = f"parse{next(names)}"
    stage.script(name, Scenario(steps=(Text('{"name": "Ada", "age": 36}'),)))
    asked = body(client, f"{upstream}/sim-{name}", Wish())
    seen = stage.ask(judge, client, "parse", asked)
    assert seen.error is None, seen.error
    assert seen.parsed == {"name": "Ada", "age": 36}


def test_every_step_of_a_mixed_turn_arrives(stage: Stage) -> None:
    """Reasoning, text and two calls of one turn keep their order from Messages to Responses."""
    first = Scenario(
        steps=(Reasoning(("Hm.",)), Text("Looking."), replace(WEATHER), ToolCall("get_time", "{}"))
    )
    wish = Wish(tools=("get_weather", "get_time"), thinking=True)
    answered, _ = two_turns(stage, ("responses", "messages", "helper", "python"), first, wish)
    kinds = [item["type"] for item in answered.final["output"]]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
