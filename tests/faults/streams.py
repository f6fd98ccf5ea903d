"""Parts of the streams of odd servers, and the calls of an answer."""

from __future__ import annotations

import json
from typing import Any

from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.protocols.openai_responses.upstream import events_of, response
from tests.tables.cells import (
    chat_chunk,
)

Json = dict[str, Any]

PROTOCOL = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
CALLING = chat_chunk({}, "tool_calls")
DONE = b"[DONE]"

CREATED = events_of(response())[0]
F, H = ("get_weather", '{"a": 1}'), ("h", '{"b": 2}')


def ended(*output: Any, **members: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": response(*output, **members)}


def calls_of(client: str, answer: Json) -> list[tuple[str, str]]:
    """The calls of a whole answer."""
    if client == "chat":
        made = answer["choices"][0]["message"].get("tool_calls") or ()
        found = [
            (one["function"]["name"], json.loads(one["function"]["arguments"])) for one in made
        ]
    elif client == "messages":
        made = [one for one in answer["content"] if one["type"] == "tool_use"]
        found = [(one["name"], one["input"]) for one in made]
    else:
        made = [one for one in answer["output"] if one["type"] == "function_call"]
        found = [(one["name"], json.loads(one["arguments"])) for one in made]
    return [(name, json.dumps(arguments)) for name, arguments in found]
