"""A tool loop with LangChain's chat models: reads one task as JSON from standard input, works on it
with a tool that writes files, and prints what the model said, and on standard error what it
thought. It runs in a virtual environment of its own, without this project.
"""

import json
import sys
from pathlib import Path
from typing import Any

from langchain_anthropic import (  # type: ignore[import-not-found]  # an environment of its own
    ChatAnthropic,
)
from langchain_core.messages import (  # type: ignore[import-not-found]
    HumanMessage,
    SystemMessage,
)
from langchain_core.tools import tool  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

_MOST_TURNS = 8


@tool  # type: ignore[untyped-decorator]
def write_file(path: str, content: str) -> str:
    """Write a text file, replacing what it held."""
    Path(path).write_text(content)
    return f"wrote {len(content)} characters"


@tool  # type: ignore[untyped-decorator]
def list_files() -> str:
    """List the files of the folder."""
    return "nothing"


TOOLS = {one.name: one for one in (write_file, list_files)}


def _model(task: dict[str, Any]) -> Any:
    name, url = task["model"], task["url"]
    common = {"model": name, "api_key": task["key"], "max_retries": 0}
    match task["provider"]:
        case "anthropic":
            return ChatAnthropic(
                **common, base_url=url, max_tokens=4096, thinking={"type": "adaptive"}
            )
        case "responses":
            return ChatOpenAI(
                **common,
                base_url=f"{url}/v1",
                use_responses_api=True,
                store=False,
                include=["reasoning.encrypted_content"],
                reasoning={"effort": "low", "summary": "auto"},
            )
        case _:
            return ChatOpenAI(**common, base_url=f"{url}/v1", reasoning_effort="low")


task = json.load(sys.stdin)
model = _model(task).bind_tools(list(TOOLS.values()))
messages = [SystemMessage(task["system"]), HumanMessage(task["prompt"])]
for _ in range(_MOST_TURNS):
    answer = model.invoke(messages)
    messages.append(answer)
    for block in answer.content_blocks:
        if block["type"] == "reasoning":
            sys.stderr.write(block.get("reasoning", ""))
    if not answer.tool_calls:
        break
    messages += [TOOLS[call["name"]].invoke(call) for call in answer.tool_calls]
sys.stdout.write(f"{answer.text}\n")
