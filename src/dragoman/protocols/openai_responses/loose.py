"""Items and parts of loosely conforming servers, converted to the protocol's form; their texts."""

from __future__ import annotations

from typing import Any

from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of tool calls, and where their arguments are."""

TEXTS = {
    "output_text": "text",
    "text": "text",
    "input_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
"""Types of message parts, including those of other places, and their member with the text."""


def word(value: JsonObject, name: str) -> str | None:
    """A text that is not empty."""
    found = value.get(name)
    return found if isinstance(found, str) and found else None


def parts_of(value: JsonObject) -> list[JsonObject]:
    """The parts of a message."""
    content = value.get("content")
    found = []
    for part in content if isinstance(content, list) else (content,):
        if isinstance(part, str):
            found.append({"type": "output_text", "text": part})
        elif isinstance(part, dict):
            found.append(as_known(part))
    return found


def as_known(part: JsonObject) -> JsonObject:
    """A part of unknown type as text, if it has any; else unchanged."""
    kind = part.get("type")
    if type(kind) is str and kind in _PARTS:
        return part
    text = part.get("text")
    if isinstance(text, dict):
        text = text.get("value")
    if not isinstance(text, str):
        return part
    return {**part, "type": "output_text", "text": text}


_PARTS = {*TEXTS, "reasoning_text"}


_THOUGHTS = ("text", "reasoning", "reasoning_content", "thinking")
"""Members with the text of reasoning, used by few servers."""


def _as_reasoning(item: JsonObject) -> JsonObject:
    """A reasoning item with its text moved from a member into a part; unchanged if there is
    none."""
    found = next((name for name in _THOUGHTS if item.get(name)), None)
    if found is None or any(reasoning_in(item, "summary") + reasoning_in(item, "raw")):
        return item
    remaining = {name: value for name, value in item.items() if name != found}
    return {**remaining, "content": [{"type": "reasoning_text", "text": item[found]}]}


def _with_parts(item: JsonObject) -> JsonObject:
    """A message with its text moved from a member into a part; unchanged if there is none."""
    found = next((name for name in _TEXT_MEMBERS if isinstance(item.get(name), str)), None)
    if found is None:
        return item
    remaining = {name: value for name, value in item.items() if name not in _TEXT_MEMBERS}
    if any(map(text_in, parts_of(item))) or not item[found]:
        return remaining
    return {**remaining, "content": [{"type": "output_text", "text": item[found]}]}


_TEXT_MEMBERS = ("text", "output_text")
"""Members with the text of a message, or a copy of it, used by few servers."""


def as_message(item: JsonObject) -> JsonObject:
    """An item of unknown type as a message if it has text, or as a call if it has a name and
    arguments; else unchanged. So is a message part in an item's place. A message of
    another role than the model's is an `ECHO`."""
    kind = item.get("type")
    if kind is not None and not isinstance(kind, str):
        return item
    if item.get("role", "assistant") in _OTHERS:
        return {**item, "type": ECHO} if kind == "message" else item
    if kind == "message":
        return _with_parts(item)
    if kind == "reasoning":
        return _as_reasoning(item)
    if kind in _NAMED:
        return item
    # Items of a service's own tools are neither text of the model nor calls to the client.
    if kind is not None and kind.endswith(_HOSTED) and kind not in _LOOSE_CALLS:
        return item
    if word(item, "name") and word(item, "call_id") and "arguments" in item:
        return {**item, "type": "function_call"}
    if isinstance(item.get("text"), str) or isinstance(item.get("refusal"), str):
        content: Any = [{name: item[name] for name in _OF_PARTS if name in item}]
    elif (kind is None and "role" in item) or any(text_in(part) for part in parts_of(item)):
        content = item.get("content")
    else:
        return item
    named: JsonObject = {name: item[name] for name in ("id", "status", "phase") if name in item}
    return {**named, "type": "message", "content": content}


_NAMED = {"message", "reasoning", *CALLS, *wire.FOREIGN_ASSISTANT_ITEMS, *wire.CLIENT_ACTIONS}
ECHO = "echo"
"""The type given to messages of other roles, which some servers repeat before the answer."""
_OTHERS = ("user", "system", "developer", "tool")
_HOSTED = ("_output", "_result", "_results", "_call")
_LOOSE_CALLS = ("tool_call", "function_call")
_OF_PARTS = ("type", "text", "refusal", "annotations", "logprobs")


def only_text(value: JsonObject) -> str | None:
    """The text of a text-only message; None for any other."""
    content = value.get("content")
    if type(content) is not list or len(content) != 1:
        return None
    part = content[0]
    if type(part) is not dict or part.get("type") != "output_text":
        return None
    text = part.get("text")
    plain = type(text) is str and not part.get("annotations") and not part.get("logprobs")
    return text if plain else None


def text_in(part: JsonObject) -> str:
    """The text of a part of a message."""
    text = part.get(TEXTS.get(str(part.get("type")), ""))
    if isinstance(text, dict):
        text = text.get("value")
    return text if isinstance(text, str) else ""


def reasoning_in(value: JsonObject, style: str) -> list[str]:
    """The parts of readable reasoning in one form, `summary` or `raw`."""
    parts = value.get("summary" if style == "summary" else "content")
    listed = parts if isinstance(parts, list) else (parts,)
    found = (part.get("text") if isinstance(part, dict) else part for part in listed)
    return [text if isinstance(text, str) else "" for text in found]


def arguments_of(value: JsonObject, kind: str) -> str:
    """The arguments or input of a call; some servers give them as the object itself."""
    given = value.get(CALLS[kind])
    if isinstance(given, dict | list):
        return to_json_text(given)
    return given if isinstance(given, str) else ""
