"""What the chat templates of models refuse, and the servers that render them.

Each refusal is rebuilt from the lines of a published template that raise an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.faults.upstream import answer, good
from tests.upstream.servers import Call, Handler

Message = dict[str, Any]
Template = Callable[[list[Message]], str | None]
"""The message of the error that a template raises for a conversation; None if it renders it."""


def qwen(messages: list[Message]) -> str | None:
    """Qwen 3.5 to 3.8."""
    for number, message in enumerate(messages):
        if message["role"] == "system" and number:
            return "System message must be at the beginning."
        if message["role"] not in ("system", "user", "assistant", "tool"):
            return "Unexpected message role."
    if all(message["role"] != "user" for message in messages):
        return "No user query found in messages."
    return None


def texts_only(messages: list[Message]) -> str | None:
    """Servers whose system messages are strings."""
    for message in messages:
        if message["role"] == "system" and not isinstance(message["content"], str):
            return 'can only concatenate str (not "list") to str'
    return None


def alternating(messages: list[Message]) -> str | None:
    """Mistral Small and Ministral, Gemma."""
    told = "conversation roles must alternate user and assistant roles except for tool calls"
    turns = messages[1:] if messages and messages[0]["role"] == "system" else messages
    plain = [
        message["role"]
        for message in turns
        if message["role"] in ("user", "system", "developer")
        or (message["role"] == "assistant" and not message.get("tool_calls"))
    ]
    wanted = ["user" if number % 2 == 0 else "assistant" for number in range(len(plain))]
    return None if plain == wanted else f"After the optional system message, {told}"


TEMPLATES: dict[str, Template] = {"qwen": qwen, "texts-only": texts_only}


def rendering(template: Template, status: int = 400) -> Handler:
    """A server that answers "Good" to what its template renders."""

    async def handler(call: Call) -> None:
        problem = template(json.loads(call.body)["messages"])
        if problem is None:
            await good(call)
        else:
            error = {"message": problem, "type": "BadRequestError", "code": status}
            await call.send(answer(json.dumps({"error": error}).encode(), status))

    return handler
