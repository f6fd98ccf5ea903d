"""Tools and the choice among them, both ways."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    Extra,
    FunctionTool,
    Grammar,
    HostedTool,
    Request,
    SearchTool,
    Tool,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import Fields, JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.content_reader import needed
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_schemas import (
    is_strict,
    write_parameters,
)
from dragoman.protocols.searches import CONTEXT_SIZES, PLACES
from dragoman.protocols.tools import (
    NO_TOOLS,
    NOT_OFFERED,
    drop_deferral,
    drop_hosted,
    drop_mark,
    drop_strict,
    emulation_of,
)

# --- reading ------------------------------------------------------------------------------------


def read_tools(fields: Fields, extras: list[Extra]) -> tuple[Tool, ...]:
    """The tools of a request: `tools`, the older `functions`, and the vendor's web search.

    Raises:
        InvalidRequest: naming the tool or the field in it.
    """
    tools: list[Tool] = []
    for n, tool in enumerate(fields.take_list("tools") or ()):
        tools.append(_read_tool(tool, f"tools[{n}]", extras))
    functions = fields.take_list("functions")
    if functions:
        legacy = wire.LEGACY_FUNCTIONS
        extras.append(Extra("functions", None, legacy.kind, legacy.detail))
        tools += [
            _read_function(Fields(function, f"functions[{n}]"), extras)
            for n, function in enumerate(functions)
        ]
    search = fields.take_object(wire.WEB_SEARCH)
    if search is not None:
        tools.append(
            HostedTool(
                origin=wire.NAME,
                type=wire.WEB_SEARCH,
                raw=search,
                search=_read_search(search),
                path=wire.WEB_SEARCH,
            )
        )
    return tuple(tools)


def _read_search(value: JsonObject) -> SearchTool:
    """The options in canonical form; unknown ones are among the extras."""
    fields = Fields(value, wire.WEB_SEARCH)
    extras: list[Extra] = []
    size, where = fields.take("search_context_size"), fields.take("user_location")
    if size is not None and size not in CONTEXT_SIZES:
        extras.append(Extra(fields.at("search_context_size"), size, LossKind.KNOB))
        size = None
    place = where.get("approximate") if isinstance(where, dict) else None
    places = place if isinstance(place, dict) else {}
    location = {name: text for name, text in places.items() if isinstance(text, str)}
    known = {name: text for name, text in location.items() if name in PLACES}
    asked = {"type": "approximate", "approximate": known}
    if where not in (None, asked):
        extras.append(Extra(fields.at("user_location"), where, LossKind.KNOB))
    fields.rest(extras)
    return SearchTool(
        location=None if where is None else known, context_size=size, extras=tuple(extras)
    )


def _read_tool(value: Any, path: str, extras: list[Extra]) -> Tool:
    fields = Fields(value, path)
    kind = fields.take_choice("type", ("function", "custom")) or "function"
    inner = needed(fields, kind)
    fields.rest(extras)
    return _read_function(inner, extras) if kind == "function" else _read_custom(inner, extras)


def _read_function(fields: Fields, extras: list[Extra]) -> FunctionTool:
    tool = FunctionTool(
        name=_read_name(fields),
        description=fields.take_str("description"),
        schema=fields.take_object("parameters"),
        strict=fields.take_bool("strict"),
        path=fields.path,
    )
    fields.rest(extras)
    return tool


def _read_custom(fields: Fields, extras: list[Extra]) -> CustomTool:
    tool = CustomTool(
        name=_read_name(fields),
        description=fields.take_str("description"),
        grammar=_read_grammar(fields, extras),
        path=fields.path,
    )
    fields.rest(extras)
    return tool


def _read_grammar(fields: Fields, extras: list[Extra]) -> Grammar | None:
    form = fields.take_fields("format")
    if form is None:
        return None
    kind = form.take_choice("type", ("text", "grammar"))
    if kind is None:
        form.fail("type", "is required")
    grammar = None
    if kind == "grammar":
        inner = needed(form, "grammar")
        syntax = inner.take_choice("syntax", wire.GRAMMARS)
        if syntax is None:
            inner.fail("syntax", "is required")
        grammar = Grammar(syntax, inner.need_str("definition"))
        inner.rest(extras)
    form.rest(extras)
    return grammar


def _read_name(fields: Fields) -> str:
    name = fields.need_str("name")
    if not name:
        fields.fail("name", "must not be empty")
    return name


def read_tool_choice(fields: Fields, extras: list[Extra]) -> ToolChoice | None:
    """`tool_choice`, else the older `function_call`.

    Raises:
        InvalidRequest: a word or type that is not known, or a field in it.
    """
    choice = fields.take("tool_choice")
    legacy = fields.take("function_call")
    if choice is None:
        return None if legacy is None else _read_legacy_choice(legacy, extras)
    if legacy is not None:
        extras.append(Extra("function_call", legacy, LossKind.KNOB, "tool_choice is used"))
    path = fields.at("tool_choice")
    if type(choice) is str:
        match choice:
            case "auto" | "none" | "required":
                return ToolChoice(mode=choice, path=path)
        raise InvalidRequest.at(path, "must be one of auto, none, required, or an object")
    inner = Fields(choice, path)
    kind = inner.take_choice("type", ("function", "custom", "allowed_tools"))
    if kind is None:
        inner.fail("type", "is required")
    read = (
        _read_allowed(inner, extras)
        if kind == "allowed_tools"
        else ToolChoice(mode="tool", tool=_read_ref(inner, kind, extras), path=path)
    )
    inner.rest(extras)
    return read


def _read_allowed(fields: Fields, extras: list[Extra]) -> ToolChoice:
    inner = needed(fields, "allowed_tools")
    mode = inner.take_choice("mode", ("auto", "required"))
    listed = inner.take_list("tools")
    if listed is None:
        inner.fail("tools", "is required")
    refs: list[ToolRef] = []
    for n, value in enumerate(listed):
        entry = Fields(value, f"{inner.path}.tools[{n}]")
        kind = entry.take_choice("type", ("function", "custom"))
        if kind is None:
            entry.fail("type", "is required")
        # The other OpenAI protocol wants a flat `name` along with the nested one.
        entry.ignore("name")
        refs.append(_read_ref(entry, kind, extras))
        entry.rest(extras)
    inner.rest(extras)
    return ToolChoice(
        mode="required" if mode == "required" else "auto", allowed=tuple(refs), path=fields.path
    )


def _read_ref(fields: Fields, kind: str, extras: list[Extra]) -> ToolRef:
    inner = needed(fields, kind)
    name = _read_name(inner)
    inner.rest(extras)
    return ToolRef(name, custom=kind == "custom")


def _read_legacy_choice(value: Any, extras: list[Extra]) -> ToolChoice:
    path = "function_call"
    if value == "auto" or value == "none":
        return ToolChoice(mode=value, path=path)
    if type(value) is not dict:
        raise InvalidRequest.at(path, "must be auto, none, or an object with a name")
    fields = Fields(value, path)
    name = _read_name(fields)
    fields.rest(extras)
    return ToolChoice(mode="tool", tool=ToolRef(name), path=path)


# --- writing ------------------------------------------------------------------------------------


class ToolWriter:
    """Writer of a request's tools and tool choice, and of what the upstream lacks of them."""

    __slots__ = ("_custom_natively", "_ledger", "_names", "_outbound", "_strict", "_written")

    def __init__(self, outbound: Outbound) -> None:
        self._custom_natively = outbound.capabilities.of(ChatCapabilities).custom_tools_native
        self._ledger = outbound.ledger
        self._names = outbound.names
        self._outbound = outbound
        self._strict = outbound.capabilities.strict_tools
        self._written: set[str] = set()

    def write(self, request: Request, body: JsonObject) -> None:
        """Add `tools`, `tool_choice` and `parallel_tool_calls` to the body."""
        written = [self._tool(tool, body) for tool in request.tools]
        tools = [tool for tool in written if tool is not None]
        if tools:
            body["tools"] = tools
        choice = request.tool_choice
        if choice is not None:
            self._choice(choice, bool(tools), body)
        if request.parallel_tool_calls is not None and tools:
            body["parallel_tool_calls"] = request.parallel_tool_calls

    def _tool(self, tool: Tool, body: JsonObject) -> JsonObject | None:
        match tool:
            case FunctionTool():
                return self._function(tool)
            case CustomTool():
                return self._custom(tool)
            case HostedTool(origin=wire.NAME, type=wire.WEB_SEARCH):
                body[wire.WEB_SEARCH] = tool.raw
            case HostedTool():
                drop_hosted(tool, self._outbound)
        return None

    def _function(self, tool: FunctionTool) -> JsonObject:
        function: JsonObject = {"name": self._name(tool)}
        if tool.description is not None:
            function["description"] = tool.description
        function["parameters"] = write_parameters(tool, self._outbound)
        # Other services enforce schemas that this one refuses to.
        strict = tool.strict and is_strict(function["parameters"])
        if tool.strict is not None and self._strict:
            function["strict"] = strict
        if tool.strict and not (strict and self._strict):
            drop_strict(tool, self._outbound)
        drop_mark(tool, self._outbound)
        return {"type": "function", "function": function}

    def _custom(self, tool: CustomTool) -> JsonObject | None:
        if self._custom_natively:
            return self._native_custom(tool)
        emulation = emulation_of(tool, self._outbound)
        if emulation is None:
            return None
        description, schema = emulation
        function: JsonObject = {"name": self._name(tool)}
        if description:
            function["description"] = description
        function["parameters"] = schema
        return {"type": "function", "function": function}

    def _native_custom(self, tool: CustomTool) -> JsonObject:
        custom: JsonObject = {"name": self._name(tool)}
        if tool.description is not None:
            custom["description"] = tool.description
        if tool.grammar is not None:
            grammar = {"syntax": tool.grammar.syntax, "definition": tool.grammar.definition}
            custom["format"] = {"type": "grammar", "grammar": grammar}
        return {"type": "custom", "custom": custom}

    def _name(self, tool: FunctionTool | CustomTool) -> str:
        if tool.deferred:
            drop_deferral(tool.path, self._outbound)
        name = self._names.outward(tool.name, tool.namespace)
        self._written.add(name)
        return name

    def _choice(self, choice: ToolChoice, any_tools: bool, body: JsonObject) -> None:
        if not any_tools:
            # The services refuse a choice without tools; auto and none ask for nothing then.
            if choice.mode not in ("auto", "none"):
                self._lose(choice.path, LossKind.CONTENT, NO_TOOLS)
            return
        if choice.allowed is not None:
            refs = [self._ref(ref) for ref in choice.allowed if self._is_offered(ref, choice)]
            mode = "required" if choice.mode == "required" else "auto"
            if refs:
                inner = {"mode": mode, "tools": refs}
                body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": inner}
        elif choice.tool is not None:
            if self._is_offered(choice.tool, choice):
                body["tool_choice"] = self._ref(choice.tool)
        else:
            body["tool_choice"] = choice.mode

    def _is_offered(self, ref: ToolRef, choice: ToolChoice) -> bool:
        if self._names.outward(ref.name, ref.namespace) in self._written:
            return True
        self._lose(choice.path, LossKind.CONTENT, NOT_OFFERED)
        return False

    def _ref(self, ref: ToolRef) -> JsonObject:
        kind = "custom" if ref.custom and self._custom_natively else "function"
        return {"type": kind, kind: {"name": self._names.outward(ref.name, ref.namespace)}}

    def _lose(self, path: str, kind: LossKind, detail: str) -> None:
        self._ledger.add(path, kind, detail)
