"""An agent of pydantic-ai: reads one task as JSON from standard input, works on it with a tool that
writes files, and prints what the model said, and on standard error what it thought. It runs in a
virtual environment of its own, without this project.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent  # type: ignore[import-not-found]  # it has an environment of its own
from pydantic_ai.models.anthropic import (  # type: ignore[import-not-found]
    AnthropicModel,
    AnthropicModelSettings,
)
from pydantic_ai.models.openai import (  # type: ignore[import-not-found]
    OpenAIChatModel,
    OpenAIChatModelSettings,
    OpenAIResponsesModel,
    OpenAIResponsesModelSettings,
)
from pydantic_ai.providers.anthropic import (  # type: ignore[import-not-found]
    AnthropicProvider,
)
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]

task = json.load(sys.stdin)


def _model() -> Any:
    name, url, key = task["model"], task["url"], task["key"]
    match task["provider"]:
        case "anthropic":
            thinking = AnthropicModelSettings(anthropic_thinking={"type": "adaptive"})
            provider = AnthropicProvider(base_url=url, api_key=key)
            return AnthropicModel(name, provider=provider, settings=thinking)
        case "responses":
            reasoning = OpenAIResponsesModelSettings(
                openai_reasoning_effort="low", openai_reasoning_summary="auto"
            )
            provider = OpenAIProvider(base_url=f"{url}/v1", api_key=key)
            return OpenAIResponsesModel(name, provider=provider, settings=reasoning)
        case _:
            effort = OpenAIChatModelSettings(openai_reasoning_effort="low")
            provider = OpenAIProvider(base_url=f"{url}/v1", api_key=key)
            return OpenAIChatModel(name, provider=provider, settings=effort)


agent = Agent(_model(), instructions=task["system"])


@agent.tool_plain  # type: ignore[untyped-decorator]
def write_file(path: str, content: str) -> str:
    """Write a text file, replacing what it held."""
    Path(path).write_text(content)
    return f"wrote {len(content)} characters"


@agent.tool_plain  # type: ignore[untyped-decorator]
def list_files() -> str:
    """List the files of the folder."""
    return "nothing"


result = agent.run_sync(task["prompt"])
for message in result.all_messages():
    for part in message.parts:
        if part.part_kind == "thinking":
            sys.stderr.write(part.content)
sys.stdout.write(f"{result.output}\n")
