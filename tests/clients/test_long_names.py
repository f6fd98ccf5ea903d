"""Tools of an MCP server whose names are longer than some upstreams allow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.lab.simulator.script import Scenario, Text, ToolCall
from dragoman.lab.simulator.steering import Options
from dragoman.lab.simulator.view import View
from tests.clients.accounting import unaccounted
from tests.clients.programs import FOLDER, VENV_PYTHON, missing
from tests.clients.reading import called
from tests.clients.stage import Stage

NAME = "write_a_text_file_into_the_archive_and_say_how_many_characters_it_holds"
DESCRIPTION = "the tool with the long name"
LIMITS = {"chat": 64, "messages": 128, "responses": 64}
CONTENT = "Archived."


def archivist(view: View, options: Options) -> Scenario:
    """Archives a text with the tool of the long name, after searching for it if it must."""
    if view.results and "archived" in view.results[-1].text:
        return Scenario((Text(f"It said: {view.results[-1].text}"),))
    for tool in view.tools:
        described = [entry for entry in view.request["tools"] if tool.name in str(entry)]
        if DESCRIPTION in str(described) and "path" in str(tool.schema):
            arguments = json.dumps({"path": options.text("path"), "content": CONTENT})
            return Scenario((ToolCall(tool.name, arguments, "function", tool.namespace),))
    for tool in view.tools:
        if tool.name in ("ToolSearch", "tool_search"):
            query = {"query": "archive text file", "max_results": 5}
            return Scenario((ToolCall(tool.name, json.dumps(query)),))
    return Scenario((Text("There is no such tool."),))


def claude_code(folder: Path) -> list[str]:
    config = folder / "mcp.json"
    server = {"command": str(VENV_PYTHON), "args": ["-I", str(FOLDER / "mcp_writer.py")]}
    config.write_text(json.dumps({"mcpServers": {"archive": server}}))
    allowed = ["--allowedTools", f"mcp__archive__{NAME}"]
    return ["--mcp-config", str(config), "--strict-mcp-config", *allowed]


def codex(folder: Path) -> list[str]:
    words = json.dumps(["-I", str(FOLDER / "mcp_writer.py")])
    command = f"mcp_servers.archive.command={json.dumps(str(VENV_PYTHON))}"
    settings = [command, f"mcp_servers.archive.args={words}"]
    # Else Codex asks without the tool when its server is slow to start.
    settings += ["mcp_servers.archive.required=true", "mcp_servers.archive.startup_timeout_sec=60"]
    return [word for setting in settings for word in ("-c", setting)]


# Codex on Responses is passed through, with a name as long as its author made it.
@pytest.mark.parametrize(
    ("stage", "program", "model", "arguments"),
    [
        ("chat", "claude-code", "claude-sonnet-5", claude_code),
        ("messages", "claude-code", "claude-sonnet-5", claude_code),
        ("responses", "claude-code", "claude-sonnet-5", claude_code),
        ("chat", "codex", "some-model", codex),
        ("messages", "codex", "some-model", codex),
    ],
    indirect=["stage"],
)
def test_a_long_name_is_shortened_and_comes_back(
    stage: Stage,
    program: str,
    model: str,
    arguments: Callable[[Path], list[str]],
    tmp_path: Path,
) -> None:
    if not VENV_PYTHON.exists():
        missing("the Python package mcp")
    stage.simulator.app.scenarios["archivist"] = archivist
    target = tmp_path / "archived.txt"
    prompt = f"Archive it. [[sim: scenario=archivist path={target}]]"

    finished = stage.run(program, model, prompt, tmp_path, arguments=arguments(tmp_path))

    assert finished.status == 0, finished
    assert target.read_text() == CONTENT
    assert "It said: " in finished.output
    last = stage.exchanges()[-1]
    sent, received = called(last.sent)[-1], called(last.received)[-1]
    assert sent.name.endswith(NAME), "the program knows its tool by its own name"
    assert (sent.arguments, sent.result) == (received.arguments, received.result)
    assert len(received.name) <= LIMITS[stage.kind]
    assert (received.name == sent.name) == (len(sent.name) <= LIMITS[stage.kind])
    lost = unaccounted(last.sent, last.received, last.losses)
    assert [path for path in lost if not path.endswith(".name")] == []
