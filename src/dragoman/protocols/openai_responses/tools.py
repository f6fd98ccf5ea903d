"""Tools and tool choices, read and written (types: tool_param.py, namespace_tool_param.py,
tool_choice_*_param.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

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
from dragoman.protocols.fields import Fields, JsonObject, check_depth
from dragoman.protocols.openai_responses import web_search, wire
from dragoman.protocols.openai_responses.machine_tools import read_machine_tool
from dragoman.protocols.openai_responses.tool_search import read_search_tool
from dragoman.protocols.openai_schemas import is_strict, write_parameters
from dragoman.protocols.tools import NOT_OFFERED, drop_deferral, drop_hosted, drop_mark, drop_strict

_VERSION = re.compile(r"_\d{4}_\d{2}_\d{2}$")
_CALLABLE = ("function", "custom")
_MODES: dict[str, Literal["none", "auto", "required"]] = {
    "none": "none",
    "auto": "auto",
    "required": "required",
}


def read_tools(value: list[Any] | None, path: str, extras: list[Extra]) -> list[Tool]:
    """The tools of a list; those of a namespace stand one by one.

    Raises:
        InvalidRequest: at the tool or field at fault.
    """
    tools: list[Tool] = []
    for number, item in enumerate(value or ()):
        tools += _read_tool(item, f"{path}[{number}]", extras)
    return tools


def _read_tool(value: Any, path: str, extras: list[Extra]) -> Iterable[Tool]:
    fields = Fields(value, path)
    kind = fields.need_str("type")
    if kind == "namespace":
        return _read_namespace(fields, extras)
    if kind in _CALLABLE:
        return (_read_callable(fields, kind, None, extras),)
    if not _is_hosted(kind):
        fields.fail("type", f"unknown tool type {kind!r}")
    check_depth(value, path)
    tool = read_search_tool(value, path, extras) or read_machine_tool(value, path, extras)
    if tool is not None:
        return (tool,)
    search = web_search.read_search(value, kind, path)
    return (HostedTool(origin=wire.NAME, type=kind, raw=value, search=search, path=path),)


def _is_hosted(kind: str) -> bool:
    return _VERSION.sub("", kind) in wire.HOSTED_TOOLS


def _read_namespace(fields: Fields, extras: list[Extra]) -> Iterable[Tool]:
    name = _read_name(fields)
    description = fields.take_str("description")
    if description and description != name:
        extras.append(
            Extra(
                fields.at("description"),
                description,
                LossKind.CONVERTED,
                "tools keep the name of their namespace, not its description",
            )
        )
    tools = []
    for number, item in enumerate(fields.take_list("tools") or ()):
        inner = Fields(item, f"{fields.at('tools')}[{number}]")
        kind = inner.need_str("type")
        if kind not in _CALLABLE:
            inner.fail("type", "must be function or custom in a namespace")
        tools.append(_read_callable(inner, kind, name, extras))
    fields.rest(extras)
    return tools


def _read_name(fields: Fields) -> str:
    name = fields.need_str("name")
    if not name:
        fields.fail("name", "must not be empty")
    return name


def _read_callable(
    fields: Fields, kind: str, namespace: str | None, extras: list[Extra]
) -> FunctionTool | CustomTool:
    name = _read_name(fields)
    description = fields.take_str("description")
    deferred = fields.take_bool("defer_loading") or False
    tool: FunctionTool | CustomTool
    if kind == "function":
        tool = FunctionTool(
            name=name,
            description=description,
            schema=fields.take_object("parameters"),
            strict=fields.take_bool("strict"),
            namespace=namespace,
            deferred=deferred,
            path=fields.path,
        )
    else:
        tool = CustomTool(
            name=name,
            description=description,
            grammar=_read_grammar(fields.take_fields("format"), extras),
            namespace=namespace,
            deferred=deferred,
            path=fields.path,
        )
    fields.rest(extras, wire.TOOL)
    return tool


def _read_grammar(fields: Fields | None, extras: list[Extra]) -> Grammar | None:
    if fields is None:
        return None
    grammar = None
    if fields.take_choice("type", ("text", "grammar")) == "grammar":
        syntax = fields.need_str("syntax")
        if syntax not in ("lark", "regex"):
            fields.fail("syntax", "must be one of lark, regex")
        grammar = Grammar(syntax, fields.need_str("definition"))
    fields.rest(extras)
    return grammar


def read_tool_choice(value: Any, tools: Sequence[Tool], extras: list[Extra]) -> ToolChoice | None:
    """Which tools the model may call; None when that is the service's own default.

    Raises:
        InvalidRequest: not a choice this protocol knows.
    """
    path = "tool_choice"
    if value is None:
        return None
    if type(value) is str and value in _MODES:
        # Without any tool these two mean the default (seen from @ai-sdk).
        if value != "required" and not tools:
            return None
        return ToolChoice(mode=_MODES[value], path=path)
    if type(value) is not dict:
        raise InvalidRequest.at(path, "must be none, auto, required or an object")
    fields = Fields(value, path)
    kind = fields.need_str("type")
    if kind in _CALLABLE:
        choice = ToolChoice(mode="tool", tool=_read_ref(fields, kind, tools), path=path)
        fields.rest(extras)
        return choice
    if kind == "allowed_tools":
        return _read_allowed(fields, tools, extras)
    if not _is_hosted(kind):
        fields.fail("type", f"unknown tool_choice type {kind!r}")
    if any(isinstance(tool, FunctionTool) and tool.form == kind for tool in tools):
        fields.rest(extras)
        return ToolChoice(mode="tool", tool=ToolRef(kind, form=kind), path=path)
    detail = "only the vendor of the service can run that tool"
    of_search = web_search.chosen(value, tools) == "forced"
    extras.append(Extra(path, value, LossKind.CONTENT, detail, of_search=of_search))
    return None


def _read_allowed(fields: Fields, tools: Iterable[Tool], extras: list[Extra]) -> ToolChoice | None:
    mode = fields.take_choice("mode", ("auto", "required"))
    refs = []
    hosted = []
    for number, item in enumerate(fields.take_list("tools") or ()):
        entry = Fields(item, f"{fields.at('tools')}[{number}]")
        kind = entry.need_str("type")
        if kind in _CALLABLE:
            refs.append(_read_ref(entry, kind, tools))
            entry.rest(extras)
        elif any(isinstance(tool, FunctionTool) and tool.form == kind for tool in tools):
            refs.append(ToolRef(kind, form=kind))
            entry.rest(extras)
        elif _is_hosted(kind):
            detail = "hosted tools are not offered"
            of_search = web_search.is_search(kind) and web_search.is_declared(tools)
            hosted.append(Extra(entry.path, item, LossKind.KNOB, detail, of_search=of_search))
        else:
            entry.fail("type", f"unknown tool_choice type {kind!r}")
    fields.rest(extras)
    if hosted and not refs:
        detail = "only hosted tools are allowed, and none is offered"
        of_search = mode == "required" and all(extra.of_search for extra in hosted)
        lost = Extra(fields.path, hosted[0].value, LossKind.CONTENT, detail, of_search=of_search)
        extras.append(lost)
        return None
    extras += hosted
    return ToolChoice(
        mode="required" if mode == "required" else "auto", allowed=tuple(refs), path=fields.path
    )


def _read_ref(fields: Fields, kind: str, tools: Iterable[Tool]) -> ToolRef:
    name = fields.need_str("name")
    namespace = fields.take_str("namespace")
    spaces = {
        tool.namespace for tool in tools if not isinstance(tool, HostedTool) and tool.name == name
    }
    # A choice has no place for the namespace of the tool it names.
    if namespace is None and len(spaces) == 1:
        (namespace,) = spaces
    return ToolRef(name, kind == "custom", namespace)


def write_tools(request: Request, outbound: Outbound) -> list[JsonObject]:
    """The tools of a request; those of a namespace are gathered where its first one stands."""
    written: list[JsonObject] = []
    if not request.tools:
        return written
    spaces: dict[str, list[JsonObject]] = {}
    searchable = any(
        isinstance(tool, HostedTool) and tool.type == wire.SEARCH_TOOL for tool in request.tools
    )
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
            if searchable:
                body["defer_loading"] = True
            else:
                drop_deferral(tool.path, outbound)
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
    return written


def _write_callable(tool: FunctionTool | CustomTool, outbound: Outbound) -> JsonObject:
    name = outbound.names.outward(tool.name)
    if isinstance(tool, CustomTool):
        body: JsonObject = {"type": "custom", "name": name}
        if tool.description is not None:
            body["description"] = tool.description
        if tool.grammar is not None:
            body["format"] = {
                "type": "grammar",
                "syntax": tool.grammar.syntax,
                "definition": tool.grammar.definition,
            }
        return body
    body = {"type": "function", "name": name}
    if tool.description is not None:
        body["description"] = tool.description
    schema = body["parameters"] = write_parameters(tool, outbound)
    takes = outbound.capabilities.strict_tools
    strict = bool(tool.strict) and takes and is_strict(schema)
    if takes:
        # Left out, it would mean "strict if possible" here and "not strict" elsewhere.
        body["strict"] = strict
    if tool.strict and not strict:
        # Other services enforce schemas that this one refuses to.
        drop_strict(tool, outbound)
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
