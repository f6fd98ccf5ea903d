"""Tools and tool choices, read and written (types: tool_param.py, namespace_tool_param.py,
tool_choice_*_param.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Raw

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    Extra,
    FunctionTool,
    Grammar,
    HostedTool,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject, check_depth
from dragoman.protocols.openai_responses import shapes, web_search, wire
from dragoman.protocols.openai_responses.client_tools import read_machine_tool, read_search_tool
from dragoman.protocols.openai_schemas import is_strict, write_parameters
from dragoman.protocols.portable_schemas import carried_schema
from dragoman.protocols.reading import Reader, report_lost, text
from dragoman.protocols.tools import NOT_OFFERED, drop_deferral, drop_hosted, drop_mark, drop_strict

_VERSION = re.compile(r"_\d{4}_\d{2}_\d{2}$")
_CALLABLE = ("function", "custom")
_MODES: dict[str, Literal["none", "auto", "required"]] = {
    "none": "none",
    "auto": "auto",
    "required": "required",
}


def read_tools(value: list[Raw] | None, path: str, extras: list[Extra]) -> list[Tool]:
    """The tools of a list; those of a namespace stand one by one.

    Raises:
        InvalidRequest: at the tool or field at fault.
    """
    tools: list[Tool] = []
    for number, raw in enumerate(value or ()):
        at = f"{path}[{number}]"
        tool = _tool.read(raw, extras, at)
        if isinstance(tool, shapes.Namespace):
            tools += _read_namespace(tool, at, extras)
        elif isinstance(tool, shapes.UnknownTool):
            tools.append(_read_hosted(tool.value, tool.kind, at, extras))
        else:
            tools.append(_read_callable(tool, None, at, extras))
    return tools


_tool: Reader[shapes.Tool] = Reader(shapes.Tool)  # type: ignore[arg-type]


def _read_hosted(value: JsonObject, kind: str, path: str, extras: list[Extra]) -> Tool:
    """A tool that the vendor runs or describes."""
    if not _is_hosted(kind):
        raise InvalidRequest.at(f"{path}.type", f"unknown tool type {kind!r}")
    check_depth(value, path)
    tool = read_search_tool(value, path, extras) or read_machine_tool(value, path, extras)
    if tool is not None:
        return tool
    search = web_search.read_search(value, kind, path)
    return HostedTool(origin=wire.NAME, type=kind, raw=value, search=search, path=path)


def _is_hosted(kind: str) -> bool:
    return _VERSION.sub("", kind) in wire.HOSTED_TOOLS


def _read_namespace(space: shapes.Namespace, path: str, extras: list[Extra]) -> Iterable[Tool]:
    if space.description and space.description != space.name:
        detail = "tools keep the name of their namespace, not its description"
        where = f"{path}.description"
        extras.append(Extra(where, space.description, LossKind.CONVERTED, detail))
    return [
        _read_callable(tool, space.name, f"{path}.tools[{number}]", extras)
        for number, tool in enumerate(space.tools or ())
    ]


def _read_callable(
    tool: shapes.Function | shapes.Custom, namespace: str | None, path: str, extras: list[Extra]
) -> FunctionTool | CustomTool:
    report_lost(tool, path, extras)
    if type(tool) is shapes.Function:
        schema, traits = carried_schema(tool.parameters, path, "parameters")
        return FunctionTool(
            name=tool.name,
            description=tool.description,
            schema=schema,
            traits=traits,
            strict=tool.strict,
            namespace=namespace,
            deferred=tool.defer_loading or False,
            path=path,
        )
    assert type(tool) is shapes.Custom
    return CustomTool(
        name=tool.name,
        description=tool.description,
        grammar=_read_grammar(tool.format, f"{path}.format"),
        namespace=namespace,
        deferred=tool.defer_loading or False,
        path=path,
    )


def _read_grammar(grammar: shapes.Grammar | None, path: str) -> Grammar | None:
    if grammar is None or grammar.type != "grammar":
        return None
    for name in ("syntax", "definition"):
        if getattr(grammar, name) is None:
            raise InvalidRequest.at(f"{path}.{name}", "is required")
    return Grammar(grammar.syntax or "", grammar.definition or "")


def read_tool_choice(
    value: str | JsonObject, tools: Sequence[Tool], extras: list[Extra]
) -> ToolChoice | None:
    """Which tools the model may call; None when that is the service's own default.

    Raises:
        InvalidRequest: not a choice this protocol knows.
    """
    path = "tool_choice"
    if isinstance(value, str):
        if value not in _MODES:
            raise InvalidRequest.at(path, "must be none, auto, required or an object")
        # Without any tool these two mean the default (seen from @ai-sdk).
        if value != "required" and not tools:
            return None
        return ToolChoice(mode=_MODES[value], path=path)
    kind = text(value.get("type"), path, "type")
    if kind == "allowed_tools":
        return _read_allowed(_allowed.convert(value, path, extras), tools, extras)
    ref = _read_ref(value, kind, path, tools, extras)
    if ref is not None:
        return ToolChoice(mode="tool", tool=ref, path=path)
    detail = "only the vendor of the service can run that tool"
    of_search = web_search.chosen(value, tools) == "forced"
    extras.append(Extra(path, value, LossKind.CONTENT, detail, of_search=of_search))
    return None


_allowed = Reader(shapes.AllowedTools)
_named = Reader(shapes.NamedTool)
_unnamed = Reader(shapes.ToolKind)


def _read_allowed(
    allowed: shapes.AllowedTools, tools: Sequence[Tool], extras: list[Extra]
) -> ToolChoice | None:
    path = "tool_choice"
    refs = []
    hosted = []
    for number, value in enumerate(allowed.tools or ()):
        where = f"{path}.tools[{number}]"
        kind = text(value.get("type"), where, "type")
        ref = _read_ref(value, kind, where, tools, extras)
        if ref is not None:
            refs.append(ref)
            continue
        detail = "hosted tools are not offered"
        of_search = web_search.is_search(kind) and web_search.is_declared(tools)
        hosted.append(Extra(where, value, LossKind.KNOB, detail, of_search=of_search))
    if hosted and not refs:
        detail = "only hosted tools are allowed, and none is offered"
        of_search = allowed.mode == "required" and all(extra.of_search for extra in hosted)
        lost = Extra(path, hosted[0].value, LossKind.CONTENT, detail, of_search=of_search)
        extras.append(lost)
        return None
    extras += hosted
    mode: Literal["required", "auto"] = "required" if allowed.mode == "required" else "auto"
    return ToolChoice(mode=mode, allowed=tuple(refs), path=path)


def _read_ref(
    value: JsonObject, kind: str, path: str, tools: Iterable[Tool], extras: list[Extra]
) -> ToolRef | None:
    """The tool that a choice names; None if it is the vendor's."""
    if kind in _CALLABLE:
        named = _named.convert(value, path, extras)
        spaces = {
            tool.namespace
            for tool in tools
            if not isinstance(tool, HostedTool) and tool.name == named.name
        }
        namespace = named.namespace
        # A choice has no place for the namespace of the tool it names.
        if namespace is None and len(spaces) == 1:
            (namespace,) = spaces
        return ToolRef(named.name, kind == "custom", namespace)
    if any(isinstance(tool, FunctionTool) and tool.form == kind for tool in tools):
        _unnamed.convert(value, path, extras)
        return ToolRef(kind, form=kind)
    if not _is_hosted(kind):
        raise InvalidRequest.at(f"{path}.type", f"unknown tool_choice type {kind!r}")
    return None


def write_tools(request: Request, outbound: Outbound) -> list[JsonObject]:
    """The tools of a request; those of a namespace are gathered where its first one stands."""
    written: list[JsonObject] = []
    if not request.tools:
        return written
    spaces: dict[str, list[JsonObject]] = {}
    deferred: list[tuple[str, JsonObject]] = []
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            if tool.origin == wire.NAME:
                written.append(tool.raw)
            elif tool.search is not None and outbound.options.hosted_tools == "map":
                written.append(web_search.write_search(tool.search, outbound))
            else:
                drop_hosted(tool, outbound)
            continue
        body = _write_callable(tool, outbound)
        if tool.deferred:
            deferred.append((tool.path, body))
        if tool.namespace is None:
            written.append(body)
            continue
        if tool.namespace not in spaces:
            spaces[tool.namespace] = []
            written.append(
                {
                    "type": "namespace",
                    "name": tool.namespace,
                    "description": tool.namespace,
                    "tools": spaces[tool.namespace],
                }
            )
        spaces[tool.namespace].append(body)
    is_searchable = bool(deferred) and any(
        isinstance(tool, HostedTool) and tool.type == wire.SEARCH_TOOL for tool in request.tools
    )
    for path, body in deferred:
        if is_searchable:
            body["defer_loading"] = True
        else:
            drop_deferral(path, outbound)
    return written


def _write_callable(tool: FunctionTool | CustomTool, outbound: Outbound) -> JsonObject:
    body: JsonObject = {"type": "function", "name": outbound.names.outward(tool.name)}
    if tool.description is not None:
        body["description"] = tool.description
    if isinstance(tool, CustomTool):
        body["type"] = "custom"
        if tool.grammar is not None:
            body["format"] = {
                "type": "grammar",
                "syntax": tool.grammar.syntax,
                "definition": tool.grammar.definition,
            }
        return body
    schema = body["parameters"] = write_parameters(tool, outbound)
    takes, strict = outbound.capabilities.strict_tools, False
    if tool.strict:
        strict = takes and is_strict(schema)
        if not strict:
            # Other services enforce schemas that this one refuses to.
            drop_strict(tool, outbound)
    if takes:
        # Left out, it would mean "strict if possible" here and "not strict" elsewhere.
        body["strict"] = strict
    if tool.cache is not None:
        drop_mark(tool, outbound)
    return body


def write_tool_choice(
    choice: ToolChoice, request: Request, outbound: Outbound
) -> str | JsonObject | None:
    """A tool choice on the wire; None if none of the tools it names is offered."""
    if choice.allowed is None and choice.tool is None:
        return choice.mode
    named = choice.allowed if choice.tool is None else (choice.tool,)
    offered = {
        (tool.namespace, tool.name) for tool in request.tools if not isinstance(tool, HostedTool)
    }
    refs = [
        _write_ref(ref, outbound) for ref in named or () if (ref.namespace, ref.name) in offered
    ]
    if len(refs) < len(named or ()) and outbound.options.hosted_tools == "map":
        searches = web_search.names(request)
        refs += [web_search.REF for ref in named or () if ref.name in searches]
        if choice.tool is not None and refs == [web_search.REF]:
            # A search cannot be chosen by itself, but it can be all that is there or allowed.
            if len(request.tools) == 1:
                return "required"
            return {"type": "allowed_tools", "mode": "required", "tools": refs}
    if len(refs) < len(named or ()):
        outbound.ledger.add(choice.path, LossKind.CONTENT, NOT_OFFERED)
    if not refs:
        return None
    if choice.tool is not None:
        return refs[0]
    mode = "required" if choice.mode == "required" else "auto"
    return {"type": "allowed_tools", "mode": mode, "tools": refs}


def _write_ref(ref: ToolRef, outbound: Outbound) -> JsonObject:
    return {
        "type": "custom" if ref.custom else "function",
        "name": outbound.names.outward(ref.name),
    }
