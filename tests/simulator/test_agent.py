"""The coding agent's model writes with whichever of the client's tools can."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

TEXT = {"type": "string"}


def offered(name: str, *properties: str, **more: Any) -> dict[str, Any]:
    """A Chat tool that requires texts of these names."""
    schema = {"type": "object", "properties": dict.fromkeys(properties, TEXT) | more}
    schema["required"] = list(schema["properties"])
    return {"type": "function", "function": {"name": name, "parameters": schema}}


WRITE = offered("Write", "file_path", "content")
PATCH = offered("apply_patch", "input")
SHELL = offered("functions__exec_command", "cmd")
WORDS = offered("shell", command={"type": "array", "items": TEXT}, timeout={"type": "integer"})
OTHER = offered("look", "path")


def ask(client: openai.OpenAI, tools: list[dict[str, Any]], options: str = "") -> Any:
    """The message that answers a request with these tools."""
    steering = f"[[sim: scenario=agent path=a.txt content=hi {options}]]"
    body: dict[str, Any] = {"tools": tools} if tools else {}
    answer = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": steering}], **body
    )
    return answer.choices[0].message


@pytest.mark.parametrize(
    ("tools", "name", "arguments"),
    [
        ([OTHER, SHELL, PATCH, WRITE], "Write", {"file_path": "a.txt", "content": "hi"}),
        (
            [OTHER, SHELL, PATCH],
            "apply_patch",
            {"input": "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"},
        ),
        (
            [OTHER, SHELL],
            "functions__exec_command",
            {"cmd": "printf %s hi > a.txt && echo written"},
        ),
        (
            [WORDS],
            "shell",
            {"command": ["bash", "-c", "printf %s hi > a.txt && echo written"], "timeout": 1},
        ),
    ],
    ids=["writer", "patch", "shell", "words"],
)
def test_the_best_tool_is_called(
    openai_client: openai.OpenAI, tools: Any, name: str, arguments: Any
) -> None:
    [call] = ask(openai_client, tools).tool_calls

    assert call.function.name == name
    assert json.loads(call.function.arguments) == arguments


def test_several_files_are_numbered(openai_client: openai.OpenAI) -> None:
    calls = ask(openai_client, [WRITE], "calls=3").tool_calls

    paths = [json.loads(call.function.arguments)["file_path"] for call in calls]
    assert paths == ["a.txt", "a-2.txt", "a-3.txt"]


def test_a_request_that_cannot_write_is_refused(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="needs a tool that writes files"):
        ask(openai_client, [OTHER])


def test_without_any_tool_a_title_is_made(openai_client: openai.OpenAI) -> None:
    assert ask(openai_client, []).content == "Writing a file"
