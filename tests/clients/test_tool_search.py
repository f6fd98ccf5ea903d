"""Tools that a client loads only when the model looks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.lab.simulator.script import Scenario, Text, ToolCall
from dragoman.lab.simulator.steering import Options
from dragoman.lab.simulator.view import View
from tests.clients.accounting import unaccounted
from tests.clients.reading import called, offered
from tests.clients.stage import Stage

NAMESPACE, FOUND = "multi_agent_v1", "close_agent"


def searcher(view: View, options: Options) -> Scenario:
    """Searches, calls what was found, and says how that went."""
    if view.turns == 0:
        return Scenario((ToolCall("tool_search", json.dumps({"query": "close an agent"})),))
    if view.turns == 1:
        [tool] = [tool for tool in view.tools if tool.name.endswith(FOUND)]
        return Scenario((ToolCall(tool.name, json.dumps({"target": "nobody"})),))
    return Scenario((Text(f"It said: {view.results[-1].text}"),))


# On Responses itself everything passes through, and the simulator has no tool search.
@pytest.mark.parametrize("stage", ["chat", "messages"], indirect=True)
def test_codex_finds_a_tool_and_calls_it(stage: Stage, tmp_path: Path) -> None:
    """The search is Codex's own; elsewhere it is a function whose calls are turned back."""
    stage.simulator.app.scenarios["searcher"] = searcher

    finished = stage.run("codex", "gpt-5.5", "Go. [[sim: scenario=searcher]]", tmp_path)

    assert finished.status == 0, finished
    assert "It said: " in finished.output
    first, second, third = stage.exchanges()
    items = {item["type"]: item for item in third.sent["input"]}
    assert items["tool_search_call"]["arguments"] == {"query": "close an agent"}
    assert items["function_call"]["name"] == FOUND
    assert items["function_call"]["namespace"] == NAMESPACE
    full_name = f"{NAMESPACE}__{FOUND}"
    assert full_name not in [tool.name for tool in offered(first.received)]
    assert full_name in [tool.name for tool in offered(second.received)]
    assert [call.name for call in called(third.received)] == ["tool_search", full_name]
    for exchange in (first, second, third):
        assert unaccounted(exchange.sent, exchange.received, exchange.losses) == []


def test_claude_code_finds_a_tool(stage: Stage, tmp_path: Path) -> None:
    """Its search gives references and no text; what they name is offered from then on."""
    arguments = json.dumps({"query": "select:WebFetch", "max_results": 3}).replace('"', '\\"')
    steering = f'scenario=tool tool=ToolSearch args="{arguments}"'

    finished = stage.run("claude-code", "claude-sonnet-5", f"Go. [[sim: {steering}]]", tmp_path)

    assert finished.status == 0, finished
    assert "WebFetch" in finished.output
    first, second = stage.exchanges()
    assert "WebFetch" not in [tool.name for tool in offered(first.received)]
    assert "WebFetch" in [tool.name for tool in offered(second.received)]
    assert unaccounted(second.sent, second.received, second.losses) == []
