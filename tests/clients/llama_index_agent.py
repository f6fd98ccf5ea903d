"""An agent of LlamaIndex: reads one task as JSON from standard input, works on it with a tool that
writes files, and prints what the model said. It runs in a virtual environment of its own, without
this project.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import (  # type: ignore[import-not-found]  # of its own
    FunctionAgent,
)
from llama_index.llms.openai import (  # type: ignore[import-not-found]
    OpenAI,
    OpenAIResponses,
)


def write_file(path: str, content: str) -> str:
    """Write a text file, replacing what it held."""
    Path(path).write_text(content)
    return f"wrote {len(content)} characters"


def list_files() -> str:
    """List the files of the folder."""
    return "nothing"


def _model(task: dict[str, Any]) -> Any:
    common = {
        "model": task["model"],
        "api_base": f"{task['url']}/v1",
        "api_key": task["key"],
        "max_retries": 0,
    }
    if task["provider"] == "responses":
        return OpenAIResponses(**common, reasoning_options={"effort": "low", "summary": "auto"})
    return OpenAI(**common, reasoning_effort="low")


async def main() -> None:
    task = json.load(sys.stdin)
    agent = FunctionAgent(
        llm=_model(task), tools=[write_file, list_files], system_prompt=task["system"]
    )
    sys.stdout.write(f"{await agent.run(task['prompt'])}\n")


asyncio.run(main())
