"""An agent of openai-agents: reads one task as JSON from standard input, works on it with a tool
that writes files, and prints what the model said. It runs in a virtual environment of its own,
without this project.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from agents import (  # type: ignore[import-not-found]  # it has an environment of its own
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning

IS_SOCKET = os.environ.get("TRANSPORT") == "websocket"
MODELS = {
    "chat": OpenAIChatCompletionsModel,
    "responses": OpenAIResponsesWSModel if IS_SOCKET else OpenAIResponsesModel,
}


@function_tool  # type: ignore[untyped-decorator]
def write_file(path: str, content: str) -> str:
    """Write a text file, replacing what it held."""
    Path(path).write_text(content)
    return f"wrote {len(content)} characters"


@function_tool  # type: ignore[untyped-decorator]
def list_files() -> str:
    """List the files of the folder."""
    return "nothing"


async def main() -> None:
    task = json.load(sys.stdin)
    client = AsyncOpenAI(base_url=f"{task['url']}/v1", api_key=task["key"], max_retries=0)
    agent = Agent(
        name="writer",
        instructions=task["system"],
        model=MODELS[task["provider"]](task["model"], client),
        model_settings=ModelSettings(reasoning=Reasoning(effort="low", summary="auto")),
        tools=[write_file, list_files],
    )
    result = Runner.run_streamed(agent, task["prompt"], max_turns=20)
    async for _ in result.stream_events():
        pass
    sys.stdout.write(f"{result.final_output}\n")


set_tracing_disabled(True)
asyncio.run(main())
