"""The tool runners of the vendors' own Python SDKs: reads one task as JSON from standard input,
works on it with a tool that writes files, and prints what the model said. It runs in a virtual
environment of its own, without this project.
"""

import json
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner
from openai.types.responses import FunctionToolParam


def write_file(path: str, content: str) -> str:
    """Write a text file, replacing what it held."""
    Path(path).write_text(content)
    return f"wrote {len(content)} characters"


def list_files() -> str:
    """List the files of the folder."""
    return "nothing"


def _with_openai(task: dict[str, Any]) -> str:
    text = {"type": "string"}
    parameters = {
        "type": "object",
        "properties": {"path": text, "content": text},
        "required": ["path", "content"],
        "additionalProperties": False,
    }
    tool = FunctionToolParam(
        type="function",
        name="write_file",
        description=write_file.__doc__,
        parameters=dict(parameters),
        strict=True,
    )

    def execute(given: dict[str, object]) -> str:
        return write_file(str(given["path"]), str(given["content"]))

    client = openai.OpenAI(base_url=f"{task['url']}/v1", api_key=task["key"], max_retries=0)
    runner = ResponsesToolRunner(functions=[RegisteredFunction(tool, execute)])
    response = runner.run(
        client,
        {
            "model": task["model"],
            "instructions": task["system"],
            "input": task["prompt"],
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
        },
        max_steps=8,
        stream=True,
    )
    return response.output_text


def _with_anthropic(task: dict[str, Any]) -> str:
    client = anthropic.Anthropic(base_url=task["url"], api_key=task["key"], max_retries=0)
    runner = client.beta.messages.tool_runner(
        model=task["model"],
        max_tokens=4096,
        system=task["system"],
        thinking={"type": "adaptive"},
        tools=[anthropic.beta_tool(write_file), anthropic.beta_tool(list_files)],
        messages=[{"role": "user", "content": task["prompt"]}],
    )
    final = runner.until_done()
    return "".join(block.text for block in final.content if block.type == "text")


RUNNERS = {"openai": _with_openai, "anthropic": _with_anthropic}
given_task = json.load(sys.stdin)
sys.stdout.write(f"{RUNNERS[given_task['provider']](given_task)}\n")
