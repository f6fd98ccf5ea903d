"""Answers of loosely conforming servers, converted to the types of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.canonical.errors import UpstreamError
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.shapes import (
    OUTPUT_MEMBERS,
    Event,
    OutputItem,
    OutputPart,
    PartType,
    Response,
)

CALLS = ("function_call", "custom_tool_call")
"""Types of tool calls."""

ECHO = "echo"
"""The type given to messages of other roles, which some servers repeat before the answer."""


@cache
def _types(kind: type[Struct]) -> dict[str, Any]:
    """The members of a shape and their types, but for those that are only carried."""
    return {
        one.name: one.type
        for one in structs.fields(kind)
        if one.type is not Raw and one.name == one.encode_name
    }


def _fitting(kind: type[Struct], value: JsonObject, *left_out: str) -> dict[str, Any]:
    """The members of a shape in an object; those of another type count as absent."""
    found = {}
    for name, declared in _types(kind).items():
        if value.get(name) is not None and name not in left_out:
            try:
                found[name] = msgspec.convert(value[name], declared)
            except msgspec.ValidationError:
                continue
    return found


def _unknown(kind: type[Struct], value: JsonObject) -> JsonObject:
    """The members of an object that a shape does not know."""
    known = kind.__struct_encode_fields__
    return {name: inner for name, inner in value.items() if name not in known}


def read_event(value: JsonObject, kind: str) -> Event:
    """An event of the type `kind`.

    Raises:
        UpstreamError: content would be lost.
    """
    nested = ("type", "part", "item", "response", "arguments", "delta")
    members = {**_fitting(Event, value, *nested), **_payloads(value, "arguments")}
    if kind.endswith(".delta"):
        members["delta"] = _piece(value)
    response = value.get("response")
    if kind in _BEGINNINGS and isinstance(response, dict):
        value = {**value, "response": {**response, "output": None}}
    readers: Mapping[str, Any] = {"part": read_part, "item": read_item, "response": read_object}
    for name, read in readers.items():
        if isinstance(value.get(name), dict):
            members[name] = read(value[name])
    return Event(type=kind, **members)


_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")
"""Events of a response without output yet."""


def _piece(value: JsonObject) -> str:
    """The text of a delta, in `delta` or, from few servers, in `text`."""
    piece = value["delta"] if "delta" in value else value.get("text")
    if piece and not isinstance(piece, str):
        raise UpstreamError.unreadable("a delta of its stream is no text")
    return piece or ""


def _payloads(value: JsonObject, *names: str) -> dict[str, str]:
    """The arguments and the input of a call; some servers give them as the object itself."""
    found = {}
    for name in names:
        given = value.get(name)
        if isinstance(given, dict | list):
            found[name] = to_json_text(given)
        elif isinstance(given, str):
            found[name] = given
    return found


def read_object(value: JsonObject) -> Response:
    """A response object.

    Raises:
        UpstreamError: its output is not a list of objects.
    """
    members, output = _fitting(Response, value, "output"), value.get("output")
    if output and not isinstance(output, list):
        raise UpstreamError.unreadable("its output is no list")
    if isinstance(output, list):
        if not all(isinstance(item, dict) for item in output):
            raise UpstreamError.unreadable("an output item is not an object")
        members["output"] = [read_item(item) for item in output]
    return Response(**members, odd=_unknown(Response, value))


def read_item(value: JsonObject) -> OutputItem:
    """An item of an answer.

    Raises:
        UpstreamError: it has no type.
    """
    value = as_message(value)
    kind: Any = value.get("type")
    if type(kind) is not str:
        raise UpstreamError.unreadable("an output item has no type")
    parts = ("type", "content", "summary", "arguments", "input")
    members = {**_fitting(OutputItem, value, *parts), **_payloads(value, "arguments", "input")}
    if kind == "message":
        members["content"] = _parts_of(value)
    elif kind == "reasoning":
        thoughts = [
            OutputPart(type="reasoning_text", text=one) for one in _thoughts(value, "content")
        ]
        summary = [OutputPart(type="summary_text", text=one) for one in _thoughts(value, "summary")]
        members |= {"content": thoughts, "summary": summary}
    known = OUTPUT_MEMBERS.get(kind, ())
    odd = {name: inner for name, inner in value.items() if name not in known} if known else value
    return OutputItem(**members, type=value["type"], odd=odd)


def message_of(text: str) -> OutputItem:
    """A message of one text."""
    return OutputItem(type="message", content=[OutputPart(type="output_text", text=text)])


def _parts_of(value: JsonObject) -> list[OutputPart]:
    """The parts of a message."""
    content = value.get("content")
    found = []
    for part in content if isinstance(content, list) else (content,):
        if isinstance(part, str):
            found.append(OutputPart(type="output_text", text=part))
        elif isinstance(part, dict):
            found.append(read_part(part))
    return found


def read_part(value: JsonObject) -> OutputPart:
    """A part; one of an unknown type is text, if it has any."""
    kind, text = value.get("type"), value.get("text")
    if isinstance(text, dict):
        text = text.get("value")
    if not isinstance(text, str):
        text = None
    known: Any = kind if kind in _PART_TYPES or text is None else "output_text"
    return OutputPart(type=known, text=text, **_fitting(OutputPart, value, "type", "text"))


_PART_TYPES = get_args(PartType)
TEXTS = tuple(kind for kind in _PART_TYPES if kind != "reasoning_text")
"""Types of the parts of messages, including those of other places."""


def text_in(part: OutputPart) -> str:
    """The text of a part of a message."""
    return part.value or "" if part.type in TEXTS else ""


_THOUGHTS = ("text", "reasoning", "reasoning_content", "thinking")
"""Members with the text of reasoning, used by few servers."""


def _thoughts(item: JsonObject, name: str) -> list[str]:
    """The texts of readable reasoning in a member."""
    parts = item.get(name)
    listed = parts if isinstance(parts, list) else (parts,)
    found = (part.get("text") if isinstance(part, dict) else part for part in listed)
    return [text if isinstance(text, str) else "" for text in found]


def _as_reasoning(item: JsonObject) -> JsonObject:
    """A reasoning item with its text moved from a member into a part; unchanged if there is
    none."""
    found = next((name for name in _THOUGHTS if item.get(name)), None)
    if found is None or any(_thoughts(item, "summary") + _thoughts(item, "content")):
        return item
    remaining = {name: value for name, value in item.items() if name != found}
    return {**remaining, "content": [{"type": "reasoning_text", "text": item[found]}]}


def _with_parts(item: JsonObject) -> JsonObject:
    """A message with its text moved from a member into a part; unchanged if there is none."""
    found = next((name for name in _TEXT_MEMBERS if isinstance(item.get(name), str)), None)
    if found is None:
        return item
    remaining = {name: value for name, value in item.items() if name not in _TEXT_MEMBERS}
    if any(map(text_in, _parts_of(item))) or not item[found]:
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
    names = (item.get("name"), item.get("call_id"))
    if all(isinstance(name, str) and name for name in names) and "arguments" in item:
        return {**item, "type": "function_call"}
    if isinstance(item.get("text"), str) or isinstance(item.get("refusal"), str):
        content: Any = [{name: item[name] for name in _OF_PARTS if name in item}]
    elif (kind is None and "role" in item) or any(map(text_in, _parts_of(item))):
        content = item.get("content")
    else:
        return item
    named: JsonObject = {name: item[name] for name in ("id", "status", "phase") if name in item}
    return {**named, "type": "message", "content": content}


_NAMED = {"message", "reasoning", *CALLS, *wire.FOREIGN_ASSISTANT_ITEMS, *wire.CLIENT_ACTIONS}
_OTHERS = ("user", "system", "developer", "tool")
_HOSTED = ("_output", "_result", "_results", "_call")
_LOOSE_CALLS = ("tool_call", "function_call")
_OF_PARTS = ("type", "text", "refusal", "annotations", "logprobs")
