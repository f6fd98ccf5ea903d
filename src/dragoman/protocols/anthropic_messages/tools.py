"""Tools and the choice among them, both ways."""

from __future__ import annotations

from typing import Any

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
from dragoman.protocols.anthropic_messages import web_search, wire
from dragoman.protocols.anthropic_messages.caching import mark
from dragoman.protocols.anthropic_messages.content_reader import BlockReader
from dragoman.protocols.anthropic_messages.schemas import is_enforceable
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import Fields, JsonObject
from dragoman.protocols.tools import (
    NO_TOOLS,
    NOT_OFFERED,
    drop_deferral,
    drop_hosted,
    drop_strict,
    emulation_of,
    object_schema,
)

_MODES = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}


def read_tool(value: Any, path: str, blocks: BlockReader, extras: list[Extra]) -> Tool:
    """One declaration of `tools`.

    Raises:
        InvalidRequest: naming the field.
    """
    fields = Fields(value, path)
    kind = fields.take_str("type")
    if kind not in (None, "custom"):
        if not kind.startswith(wire.HOSTED_TOOLS):
            fields.fail("type", "is not a known tool type")
        search = web_search.read_search(value, kind, path)
        return HostedTool(origin=wire.NAME, type=kind, raw=value, search=search, path=path)
    tool = FunctionTool(
        name=_name(fields),
        description=fields.take_str("description"),
        schema=fields.take_object("input_schema"),
        strict=fields.take_bool("strict"),
        deferred=fields.take_bool("defer_loading") or False,
        cache=blocks.cache_mark(fields),
        path=path,
    )
    fields.rest(extras, wire.TOOL)
    return tool


def _name(fields: Fields) -> str:
    name = fields.need_str("name")
    if not name:
        fields.fail("name", "must not be empty")
    return name


def read_choice(fields: Fields, extras: list[Extra]) -> tuple[ToolChoice, bool | None]:
    """`tool_choice`, and whether parallel calls are allowed (None: not given).

    Raises:
        InvalidRequest: naming the field.
    """
    kind = fields.need_str("type")
    if kind not in _MODES:
        fields.fail("type", f"must be one of {', '.join(_MODES)}")
    tool = ToolRef(_name(fields)) if kind == "tool" else None
    alone = fields.take_bool("disable_parallel_tool_use")
    fields.rest(extras)
    mode: Any = _MODES[kind]
    return ToolChoice(mode=mode, tool=tool, path=fields.path), False if alone else None


def write_tools(request: Request, outbound: Outbound) -> list[JsonObject]:
    """The declarations of all tools the upstream can be offered."""
    choice = request.tool_choice
    allowed = None
    if choice is not None and choice.allowed is not None:
        allowed = {(ref.namespace, ref.name) for ref in choice.allowed}
        detail = "only the allowed tools are declared"
        outbound.ledger.add(choice.path, LossKind.CONVERTED, detail)
    if not request.tools:
        return []
    reachable = _deferral_works(request)
    written: dict[str, JsonObject] = {}
    hidden: list[tuple[JsonObject, str]] = []
    offered: set[tuple[str | None, str]] = set()
    allowed_as: tuple[str | None, str]
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            allowed_as = (None, str(tool.raw.get("name", "")))
            entry = _hosted(tool, request, outbound)
            if entry is not None and tool.search is not None and tool.search.choice is not None:
                written.setdefault(web_search.NAME, entry)
                continue
        else:
            allowed_as = (tool.namespace, tool.name)
            entry = _declaration(tool, outbound, reachable)
        if entry is None:
            continue
        offered.add(allowed_as)
        if allowed is not None and allowed_as not in allowed:
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
    tool: FunctionTool | CustomTool, outbound: Outbound, reachable: bool
) -> JsonObject | None:
    description: str | None
    if isinstance(tool, CustomTool):
        function = emulation_of(tool, outbound)
        if function is None:
            return None
        description, schema = function
    else:
        description, schema = tool.description, object_schema(tool, outbound)
    entry: JsonObject = {"name": outbound.names.outward(tool.name, tool.namespace)}
    if description:
        entry["description"] = description
    entry["input_schema"] = schema
    if isinstance(tool, FunctionTool) and tool.strict:
        if outbound.capabilities.strict_tools and is_enforceable(schema):
            entry["strict"] = True
        else:
            drop_strict(tool, outbound)
    if tool.deferred and reachable:
        entry["defer_loading"] = True
    elif tool.deferred:
        drop_deferral(tool.path, outbound)
    if isinstance(tool, FunctionTool) and tool.cache is not None:
        mark(entry, tool.cache, tool.path)
    return entry


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
