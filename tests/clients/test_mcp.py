"""MCP servers through the gateway, judged by the official SDK on both sides, and by agents."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Secret
from dragoman.config.mcp import McpServer
from dragoman.lab.simulator.script import Scenario, Text, ToolCall
from dragoman.lab.simulator.steering import Options
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.lab.simulator.view import View
from tests.clients.programs import FOLDER, KEY, VENV_PYTHON, Api, missing
from tests.clients.stage import playing
from tests.gateway.processes import until
from tests.upstream.servers import free_port, is_open

ALLOWED = ["count_slowly", "count_tickets"]


@pytest.fixture(scope="module")
def server() -> Iterator[McpServer]:
    """A server of the SDK, and what the gateway is told of it."""
    if not VENV_PYTHON.exists():
        missing("the Python package mcp")
    port = free_port()
    command = [str(VENV_PYTHON), "-I", str(FOLDER / "mcp_http_server.py"), str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: is_open(port))
            yield McpServer(
                name="tickets",
                url=f"http://127.0.0.1:{port}/mcp",
                key=Secret("the-key-of-the-server"),
                tools=("count_*",),
            )
        finally:
            process.kill()


def test_the_sdk_s_client_and_server(server: McpServer, simulator: RunningSimulator) -> None:
    """It begins a session, lists, calls, is told of progress, resumes a stream that broke off, and
    ends the session; and the same by the newest version, which has no sessions."""
    with playing("chat", simulator, mcp_servers=(server,)) as stage:
        command = [str(VENV_PYTHON), "-I", str(FOLDER / "mcp_client.py")]
        done = subprocess.run(
            [*command, f"{stage.url}/mcp/tickets", KEY],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        for way, version in (("session", "2025-11-25"), ("newest", "2026-07-28")):
            seen = found[way]
            assert seen["version"] == version
            assert seen["tools"] == ALLOWED
            assert seen["counted"] == "4 tickets in mail"
            assert seen["progress"] == [[1, 2, "half"]]
            assert "delete_tickets may not be used" in seen["refused"]
        assert found["session"]["server"] == "tickets"
        assert found["session"]["resumed"] == "resumed"
        assert found["after"] == 404, "the session has ended"
        called = [line.get("model") for line in stage.lines if line.get("attempts")]
        assert called.count("mcp:tickets/count_tickets") == 2
        errors = [line["error"] for line in stage.lines if line.get("error")]
        assert errors == ["forbidden", "invalid_request", "forbidden"]


def counting(view: View, options: Options) -> Scenario:
    """Counts tickets with the tool, after searching for it if it must."""
    if view.results and "tickets in" in view.results[-1].text:
        return Scenario((Text(f"It said: {view.results[-1].text}"),))
    for tool in view.tools:
        if tool.name.endswith("count_tickets"):
            arguments: Any = json.dumps({"queue": "mail"})
            return Scenario((ToolCall(tool.name, arguments, "function", tool.namespace),))
    for tool in view.tools:
        if tool.name in ("ToolSearch", "tool_search"):
            return Scenario((ToolCall(tool.name, json.dumps({"query": "count_tickets"})),))
    return Scenario((Text("There is no such tool."),))


def claude_code(folder: Path, url: str) -> list[str]:
    headers = {"Authorization": f"Bearer {KEY}"}
    entry = {"type": "http", "url": url, "headers": headers}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"tickets": entry}}))
    allowed = ["--allowedTools", "mcp__tickets__count_tickets"]
    return ["--mcp-config", str(config), "--strict-mcp-config", *allowed]


def codex(folder: Path, url: str) -> list[str]:
    settings = {"url": url, "bearer_token_env_var": "GATEWAY_KEY", "required": True}
    words = [f"mcp_servers.tickets.{name}={json.dumps(value)}" for name, value in settings.items()]
    return [word for setting in words for word in ("-c", setting)]


@pytest.mark.parametrize(
    ("kind", "program", "model", "arguments"),
    [
        ("messages", "claude-code", "claude-sonnet-5", claude_code),
        ("chat", "codex", "some-model", codex),
    ],
)
def test_an_agent_calls_a_tool(
    server: McpServer,
    simulator: RunningSimulator,
    kind: Api,
    program: str,
    model: str,
    arguments: Callable[[Path, str], list[str]],
    tmp_path: Path,
) -> None:
    with playing(kind, simulator, mcp_servers=(server,)) as stage:
        stage.simulator.app.scenarios["counting"] = counting
        given = arguments(tmp_path, f"{stage.url}/mcp/tickets")
        prompt = "Count the tickets. [[sim: scenario=counting]]"
        finished = stage.run(program, model, prompt, tmp_path, arguments=given)
        assert finished.status == 0, finished
        assert "4 tickets in mail" in finished.output
        assert "delete_tickets" not in json.dumps([one.sent for one in stage.exchanges()])
