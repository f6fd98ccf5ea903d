"""What a request says in the words of no protocol: tools, instructions, calls, results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Offered:
    """A tool of a request. `schema` is None for a free-text tool, `hosted` are those without a
    schema or a text: the vendor's own."""

    path: str
    name: str
    schema: Any
    description: str
    hosted: bool = False


@dataclass(frozen=True)
class Called:
    """A call in the history with what it was answered; arguments as what their JSON says."""

    name: str
    arguments: Any
    result: str | None


def offered(body: dict[str, Any]) -> list[Offered]:
    """Every tool of a request; one in a namespace under the name `namespace__name`."""
    tools = [*_tools(body.get("tools") or [], "tools")]
    if isinstance(items := body.get("input"), list):
        for number, item in enumerate(items):
            if item.get("type") in ("additional_tools", "tool_search_output"):
                tools += _tools(item["tools"], f"input[{number}].tools")
    return tools


def _tools(tools: list[Any], where: str, namespace: str = "") -> Iterator[Offered]:
    for number, tool in enumerate(tools):
        path, kind = f"{where}[{number}]", tool.get("type") or "custom"
        if kind == "namespace":
            yield from _tools(tool["tools"], f"{path}.tools", f"{tool['name']}__")
            continue
        inner = tool.get(kind) if isinstance(tool.get(kind), dict) else tool
        schema = inner.get("parameters", inner.get("input_schema"))
        name = namespace + inner.get("name", kind)
        hosted = schema is None and kind not in ("function", "custom")
        yield Offered(path, name, schema, inner.get("description") or "", hosted)


def instructions(body: dict[str, Any]) -> list[str]:
    """The texts of system and developer messages, wherever they stand."""
    found = _texts(body.get("system") or []) + _texts(body.get("instructions") or [])
    for message in _conversation(body):
        if message.get("role") in ("system", "developer"):
            found += _texts(message.get("content") or [])
    return found


def called(body: dict[str, Any]) -> list[Called]:
    """Every call of the history, in order."""
    results = dict(_results(body))
    return [Called(name, value, results.get(key)) for key, name, value in _calls(body)]


def _conversation(body: dict[str, Any]) -> list[dict[str, Any]]:
    turns = body.get("messages", body.get("input"))
    return turns if isinstance(turns, list) else []


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if isinstance(part.get("text"), str)]


def _calls(body: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for message in _conversation(body):
        match message.get("type"):
            case "function_call":
                name = "__".join(filter(None, (message.get("namespace"), message["name"])))
                yield message["call_id"], name, json.loads(message["arguments"])
            case "custom_tool_call":
                name = "__".join(filter(None, (message.get("namespace"), message["name"])))
                yield message["call_id"], name, {"input": message["input"]}
        for call in message.get("tool_calls") or ():
            function = call["function"]
            yield call["id"], function["name"], json.loads(function["arguments"])
        for block in _blocks(message):
            if block.get("type") == "tool_use":
                yield block["id"], block["name"], block["input"]


def _results(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for message in _conversation(body):
        if message.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield message["call_id"], "".join(_texts(message["output"]))
        if message.get("role") == "tool":
            yield message["tool_call_id"], "".join(_texts(message["content"]))
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                yield block["tool_use_id"], "".join(_texts(block.get("content") or []))


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []
