"""Tools and the choice among them, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    Extra,
    FunctionTool,
    HostedTool,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.anthropic_messages import shapes, web_search, wire
from dragoman.protocols.anthropic_messages.caching import Marks
from dragoman.protocols.anthropic_messages.content_reader import cache_mark
from dragoman.protocols.anthropic_messages.schemas import is_enforceable
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.portable_schemas import (
    carried_schema,
    legal_names,
    with_names,
)
from dragoman.protocols.reading import UNKNOWN, Reader, report_lost
from dragoman.protocols.tools import (
    NO_TOOLS,
    NOT_OFFERED,
    decoded,
    drop_deferral,
    drop_hosted,
    drop_strict,
    emulation_of,
    object_schema,
)

_tool = Reader(shapes.Tool)


def read_tools(
    declared: Iterable[shapes.Tool], added: Iterable[tuple[Any, str]], extras: list[Extra]
) -> tuple[Tool, ...]:
    """All declarations: of `tools`, and those `added` inside the conversation, with their paths.

    Raises:
        InvalidRequest: naming the field.
    """
    tools = [_read_tool(tool, f"tools[{at}]", extras) for at, tool in enumerate(declared)]
    for definition, path in added:
        tools.append(_read_tool(_tool.convert(definition, path, extras), path, extras))
    return tuple(tools)


def _read_tool(tool: shapes.Tool, path: str, extras: list[Extra]) -> Tool:
    if tool.hosted is not None:
        return _read_hosted(tool.hosted, path)
    rare = tool.allowed_callers, tool.eager_input_streaming, tool.input_examples
    if rare != (None, None, None):
        report_lost(tool, path, extras)
    schema, traits = carried_schema(tool.input_schema, path, "input_schema")
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        schema=schema,
        traits=traits,
        strict=tool.strict,
        deferred=tool.defer_loading or False,
        cache=cache_mark(tool.cache_control),
        path=path,
    )


def _read_hosted(value: JsonObject, path: str) -> HostedTool:
    kind = value.get("type")
    if not isinstance(kind, str) or not kind.startswith(wire.HOSTED_TOOLS):
        raise InvalidRequest.at(f"{path}.type", "is not a known tool type")
    search = web_search.read_search(value, kind, path)
    return HostedTool(origin=wire.NAME, type=kind, raw=value, search=search, path=path)


def read_choice(
    given: shapes.ToolChoice | None, extras: list[Extra]
) -> tuple[ToolChoice | None, bool | None]:
    """`tool_choice`, and whether parallel calls are allowed (None: not given).

    Raises:
        InvalidRequest: naming the field.
    """
    if given is None:
        return None, None
    tool = None
    if given.type == "tool":
        if not given.name:
            raise InvalidRequest.at("tool_choice.name", "is required")
        tool = ToolRef(given.name)
    elif given.name is not None:
        extras.append(Extra("tool_choice.name", given.name, UNKNOWN.kind, UNKNOWN.detail))
    mode = "required" if given.type == "any" else given.type
    choice = ToolChoice(mode=mode, tool=tool, path="tool_choice")
    return choice, False if given.disable_parallel_tool_use else None


def write_tools(request: Request, outbound: Outbound, marks: Marks) -> list[JsonObject]:
    """The declarations of all tools the upstream can be offered."""
    choice = request.tool_choice
    allowed = None
    if choice is not None and choice.allowed is not None:
        allowed = {(ref.namespace, ref.name) for ref in choice.allowed}
        detail = "only the allowed tools are declared"
        outbound.ledger.add(choice.path, LossKind.CONVERTED, detail)
    if not request.tools:
        return []
    written: dict[str, JsonObject] = {}
    hidden: list[tuple[JsonObject, str]] = []
    offered: set[tuple[str | None, str]] = set()
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            marks.expected = True
            entry = _hosted(tool, request, outbound)
            if entry is not None and tool.search is not None and tool.search.choice is not None:
                written.setdefault(web_search.NAME, entry)
                continue
        else:
            entry = _declaration(tool, request, outbound, marks)
        if entry is None:
            continue
        if allowed is not None:
            offered.add(_full_name(tool))
            if _full_name(tool) not in allowed:
                continue
        name = str(entry.get("name", tool.path))
        if name in written:
            outbound.ledger.add(tool.path, LossKind.REPAIRED, "a tool of this name was declared")
        else:
            written[name] = entry
            if entry.get("defer_loading"):
                hidden.append((entry, tool.path))
    if choice is not None and allowed is not None and not allowed <= offered:
        outbound.ledger.add(choice.path, LossKind.CONTENT, NOT_OFFERED)
    if len(hidden) == len(written):
        # The service refuses a request all of whose tools are hidden.
        for entry, path in hidden:
            del entry["defer_loading"]
            drop_deferral(path, outbound)
    return list(written.values())


def _full_name(tool: Tool) -> tuple[str | None, str]:
    """The name of a tool in the client's choice, with its namespace."""
    if isinstance(tool, HostedTool):
        return None, str(tool.raw.get("name", ""))
    return tool.namespace, tool.name


def _deferral_works(request: Request) -> bool:
    """Whether hidden tools can be found upstream: not with another vendor's tool search."""
    for tool in request.tools:
        if type(tool) is HostedTool and tool.origin != wire.NAME and "tool_search" in tool.type:
            return False
    return True


def _hosted(tool: HostedTool, request: Request, outbound: Outbound) -> JsonObject | None:
    if tool.origin == wire.NAME:
        return dict(tool.raw)
    if tool.search is not None and tool is web_search.mapped_search(request, outbound):
        return web_search.write_search(tool, tool.search, outbound)
    drop_hosted(tool, outbound)
    return None


def _declaration(
    tool: FunctionTool | CustomTool, request: Request, outbound: Outbound, marks: Marks
) -> JsonObject | None:
    description: str | None
    schema: JsonObject | Raw
    if isinstance(tool, CustomTool):
        function = emulation_of(tool, outbound)
        if function is None:
            return None
        description, schema = function
    else:
        description, schema = tool.description, object_schema(tool, outbound)
    name = outbound.names.outward(tool.name, tool.namespace)
    known = outbound.names.inward(name)
    if known is not None and known.properties:
        schema = with_names(decoded(schema), known.properties)
        detail = "properties have other names upstream"
        outbound.ledger.add(tool.path, LossKind.CONVERTED, detail)
    entry: JsonObject = {"name": name}
    if description:
        entry["description"] = description
    entry["input_schema"] = schema
    if isinstance(tool, FunctionTool):
        if tool.strict and outbound.capabilities.strict_tools and is_enforceable(decoded(schema)):
            entry["strict"] = True
        elif tool.strict:
            drop_strict(tool, outbound)
    if tool.deferred:
        if _deferral_works(request):
            entry["defer_loading"] = True
        else:
            drop_deferral(tool.path, outbound)
    if type(tool) is FunctionTool and tool.cache is not None:
        marks.put(entry, tool.cache, tool.path)
    return entry


def renamed_properties(tool: FunctionTool) -> dict[str, str]:
    """The properties of a tool whose names the service refuses, with legal ones."""
    if not tool.schema or (tool.traits is not None and tool.traits.has_legal_names):
        return {}
    return legal_names(decoded(tool.schema))


def _must_search(request: Request, outbound: Outbound) -> bool:
    """Whether the client chose its vendor's web search, for which the service's own is used."""
    for tool in request.tools:
        if type(tool) is HostedTool and tool.search is not None and tool.search.choice == "forced":
            return tool is web_search.mapped_search(request, outbound)
    return False


def write_choice(
    request: Request, outbound: Outbound, tools: list[JsonObject]
) -> JsonObject | None:
    """`tool_choice` for the tools that were written; None if it equals the default."""
    choice = request.tool_choice
    mode = "auto" if choice is None else choice.mode
    if not tools:
        if choice is not None and mode in ("required", "tool"):
            outbound.ledger.add(choice.path, LossKind.CONTENT, NO_TOOLS)
        return None
    written: JsonObject | None = None
    if choice is not None:
        written = {"type": "any" if mode == "required" else mode}
        if choice.tool is not None:
            name = outbound.names.outward(choice.tool.name, choice.tool.namespace)
            written = {"type": "tool", "name": name}
            if not any(tool.get("name") == name for tool in tools):
                outbound.ledger.add(choice.path, LossKind.CONTENT, NOT_OFFERED)
                written = {"type": "auto"}
    elif outbound.options.hosted_tools == "map" and _must_search(request, outbound):
        written = {"type": "tool", "name": web_search.NAME}
    if request.parallel_tool_calls is False and mode != "none":
        written = {**(written or {"type": "auto"}), "disable_parallel_tool_use": True}
    return written
