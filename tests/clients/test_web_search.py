"""Claude Code and Codex search the web over a Chat upstream, by the operator's engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Client, Search, Secret
from dragoman.server.testing import running_gateway
from tests.clients.asking import ARGUMENTS, ENVIRONMENT
from tests.clients.programs import KEY, run
from tests.faults.upstream import answer, is_streamed, running_upstream
from tests.gateway.conftest import config_for
from tests.tables.cells import CHAT, chat_answer
from tests.tables.upstreams import STREAMS
from tests.upstream.servers import Call

MODEL_KEY, ENGINE_KEY = "key-of-the-model", "key-of-the-engine"
PAGE = "https://news.example.org/kyoto"
FOUND = {"results": [{"url": PAGE, "title": "Weather of Kyoto", "content": "Rain at seven."}]}


STEPS = {
    "WebSearch": {"query": "weather in Kyoto"},
    "web_search": {"query": "weather in Kyoto"},
    "ToolSearch": {"query": "select:WebSearch", "max_results": 1},
}
"""Tools that the model calls, the first that it has, until it is told of the page: the agent's own
search, which makes a request of its own; the gateway's; and what finds the former."""


def told(body: str) -> str:
    """What the model is told by tools."""
    messages = json.loads(body)["messages"]
    return "\n".join([str(one["content"]) for one in messages if one["role"] == "tool"])


def reply(body: str) -> dict[str, Any]:
    """What the model says."""
    asked = json.loads(body)
    if PAGE in told(body):
        return chat_answer({"content": f"It is said at {PAGE}: rain."})
    tools = [tool["function"]["name"] for tool in asked.get("tools", ())]
    name = next((name for name in STEPS if name in tools), None)
    if name is None:
        return chat_answer({"content": "Nothing is known."})
    function = {"name": name, "arguments": json.dumps(STEPS[name])}
    call = {"id": f"call_{len(asked['messages'])}", "type": "function", "function": function}
    return chat_answer({"content": None, "tool_calls": [call]}, "tool_calls")


@pytest.mark.parametrize("program", ["claude-code", "codex"])
def test_it_is_shown_the_links(program: str, tmp_path: Path) -> None:
    asked: list[str] = []
    queries: list[str] = []

    async def model(call: Call) -> None:
        asked.append(call.body.decode())
        made = reply(asked[-1])
        if is_streamed(call):
            await call.send(answer(STREAMS[CHAT](made), content_type="text/event-stream"))
        else:
            await call.send(answer(json.dumps(made).encode()))

    async def search(call: Call) -> None:
        queries.append(call.target)
        await call.send(answer(json.dumps(FOUND).encode()))

    with running_upstream() as upstream:
        upstream.behaviours.update({MODEL_KEY: model, ENGINE_KEY: search})
        config = config_for(upstream.url, keys=(MODEL_KEY,))
        engine = Search(engine="searxng", url=f"{upstream.url}/search", key=Secret(ENGINE_KEY))
        made = replace(
            config,
            clients=(Client(name="agent", key=Secret(KEY)),),
            search=engine,
            options=replace(config.options, hosted_tools="search"),
        )
        with running_gateway(made) as gateway:
            finished = run(
                program,
                gateway.base_url,
                "chat/house-coder",
                "What is the weather in Kyoto? Search the web.",
                tmp_path,
                arguments=(
                    *ARGUMENTS.get(program, ()),
                    *(("--allowedTools", "WebSearch") if program == "claude-code" else ()),
                ),
                environment=ENVIRONMENT.get(program),
            )
    assert finished.status == 0, finished
    assert queries
    assert PAGE in finished.output, finished
    if program == "claude-code":
        links = [{"title": "Weather of Kyoto", "url": PAGE}]
        assert f"Links: {json.dumps(links, separators=(',', ':'))}" in told(asked[-1])
    else:
        assert "web search: weather in Kyoto" in finished.errors
