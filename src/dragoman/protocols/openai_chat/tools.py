"""Tools and the choice among them, both ways."""

from __future__ import annotations

from msgspec import Struct

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
from dragoman.protocols.fields import JsonObject, check_depth
from dragoman.protocols.openai_chat import shapes, wire
from dragoman.protocols.openai_chat.content_reader import report_other
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_schemas import (
    is_strict,
    write_parameters,
)
from dragoman.protocols.portable_schemas import carried_schema
from dragoman.protocols.reading import UNKNOWN
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


def read_tools(given: shapes.Request, extras: list[Extra]) -> tuple[Tool, ...]:
    """The tools of a request: `tools`, the older `functions`, and the vendor's web search.

    Raises:
        InvalidRequest: naming the tool or the member in it.
    """
    tools: list[Tool] = []
    for n, tool in enumerate(given.tools or ()):
        tools.append(_read_tool(tool, f"tools[{n}]", extras))
    if given.functions:
        detail = "sent as tools; answers carry tool_calls"
        extras.append(Extra("functions", None, LossKind.CONVERTED, detail))
        tools += [_function(tool, f"functions[{n}]") for n, tool in enumerate(given.functions)]
    search = given.web_search_options
    if search is not None:
        check_depth(search, wire.WEB_SEARCH)
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


def _read_search(options: JsonObject) -> SearchTool:
    """The options in canonical form; others are among the extras."""
    size, where = options.get("search_context_size"), options.get("user_location")
    place = where.get("approximate") if isinstance(where, dict) else None
    places = place if isinstance(place, dict) else {}
    known = {
        name: text for name, text in places.items() if isinstance(text, str) and name in PLACES
    }
    lost = []
    if size is not None and size not in CONTEXT_SIZES:
        lost.append(Extra(f"{wire.WEB_SEARCH}.search_context_size", size, LossKind.KNOB))
        size = None
    if where not in (None, {"type": "approximate", "approximate": known}):
        lost.append(Extra(f"{wire.WEB_SEARCH}.user_location", where, LossKind.KNOB))
    for name, value in options.items():
        if name not in ("search_context_size", "user_location") and value is not None:
            lost.append(Extra(f"{wire.WEB_SEARCH}.{name}", value, UNKNOWN.kind, UNKNOWN.detail))
    location = None if where is None else known
    return SearchTool(location=location, context_size=size, extras=tuple(lost))


def _read_tool(tool: shapes.Tool, path: str, extras: list[Extra]) -> Tool:
    report_other(tool, path, extras)
    if tool.type == "custom":
        if tool.custom is None:
            raise InvalidRequest.at(f"{path}.custom", "is required")
        return _custom(tool.custom, f"{path}.custom")
    if tool.function is None:
        raise InvalidRequest.at(f"{path}.function", "is required")
    return _function(tool.function, f"{path}.function")


def _function(function: shapes.Function, path: str) -> FunctionTool:
    schema, traits = carried_schema(function.parameters, path, "parameters")
    return FunctionTool(
        name=function.name,
        description=function.description,
        schema=schema,
        traits=traits,
        strict=function.strict,
        path=path,
    )


def _custom(custom: shapes.Custom, path: str) -> CustomTool:
    grammar = None
    if isinstance(custom.format, shapes.GrammarFormat):
        given = custom.format.grammar
        grammar = Grammar(given.syntax, given.definition)
    return CustomTool(name=custom.name, description=custom.description, grammar=grammar, path=path)


def read_tool_choice(given: shapes.Request, extras: list[Extra]) -> ToolChoice | None:
    """`tool_choice`, else the older `function_call`."""
    choice, legacy = given.tool_choice, given.function_call
    path = "tool_choice"
    if choice is None:
        path = "function_call"
        if legacy is None:
            return None
        if isinstance(legacy, str):
            return ToolChoice(mode=legacy, path=path)
        return ToolChoice(mode="tool", tool=ToolRef(legacy.name), path=path)
    if legacy is not None:
        extras.append(Extra("function_call", legacy, LossKind.KNOB, "tool_choice is used"))
    if isinstance(choice, str):
        return ToolChoice(mode=choice, path=path)
    if isinstance(choice, shapes.AllowedTools):
        allowed = choice.allowed_tools
        refs = tuple(map(_ref_of, allowed.tools))
        return ToolChoice(mode=allowed.mode or "auto", allowed=refs, path=path)
    return ToolChoice(mode="tool", tool=_ref_of(choice), path=path)


def _ref_of(choice: shapes.FunctionChoice | shapes.CustomChoice) -> ToolRef:
    if isinstance(choice, shapes.CustomChoice):
        return ToolRef(choice.custom.name, custom=True)
    return ToolRef(choice.function.name)


# --- writing ------------------------------------------------------------------------------------


class ToolWriter(Struct, eq=False):
    """Writer of a request's tools and tool choice, and of what the upstream lacks of them."""

    _outbound: Outbound
    _tools: list[JsonObject] = []

    def write(self, request: Request, body: JsonObject) -> None:
        """Add `tools`, `tool_choice` and `parallel_tool_calls` to the body."""
        for tool in request.tools:
            if type(tool) is FunctionTool:
                self._tools.append(self._function(tool))
            elif type(tool) is CustomTool:
                self._custom(tool)
            elif type(tool) is HostedTool:
                if tool.origin == wire.NAME and tool.type == wire.WEB_SEARCH:
                    body[wire.WEB_SEARCH] = tool.raw
                else:
                    drop_hosted(tool, self._outbound)
        if self._tools:
            body["tools"] = self._tools
        choice = request.tool_choice
        if choice is not None:
            self._choice(choice, body)
        if request.parallel_tool_calls is not None and self._tools:
            body["parallel_tool_calls"] = request.parallel_tool_calls

    def _function(self, tool: FunctionTool) -> JsonObject:
        function: JsonObject = {"name": self._name(tool)}
        if tool.description is not None:
            function["description"] = tool.description
        function["parameters"] = write_parameters(tool, self._outbound)
        if tool.strict is not None:
            # Other services enforce schemas that this one refuses to.
            strict = tool.strict and is_strict(function["parameters"])
            if self._outbound.capabilities.strict_tools:
                function["strict"] = strict
            if tool.strict and not (strict and self._outbound.capabilities.strict_tools):
                drop_strict(tool, self._outbound)
        if tool.cache is not None:
            drop_mark(tool, self._outbound)
        return {"type": "function", "function": function}

    @property
    def _takes_custom(self) -> bool:
        return self._outbound.capabilities.of(ChatCapabilities).custom_tools_native

    def _custom(self, tool: CustomTool) -> None:
        if self._takes_custom:
            self._tools.append(self._native_custom(tool))
            return
        emulation = emulation_of(tool, self._outbound)
        if emulation is None:
            return
        description, schema = emulation
        function: JsonObject = {"name": self._name(tool)}
        if description:
            function["description"] = description
        function["parameters"] = schema
        self._tools.append({"type": "function", "function": function})

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
        return self._outbound.names.outward(tool.name, tool.namespace)

    def _choice(self, choice: ToolChoice, body: JsonObject) -> None:
        if not self._tools:
            # The services refuse a choice without tools; auto and none ask for nothing then.
            if choice.mode not in ("auto", "none"):
                self._outbound.ledger.add(choice.path, LossKind.CONTENT, NO_TOOLS)
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
        name = self._outbound.names.outward(ref.name, ref.namespace)
        if any(tool[tool["type"]]["name"] == name for tool in self._tools):
            return True
        self._outbound.ledger.add(choice.path, LossKind.CONTENT, NOT_OFFERED)
        return False

    def _ref(self, ref: ToolRef) -> JsonObject:
        kind = "custom" if ref.custom and self._takes_custom else "function"
        return {"type": kind, kind: {"name": self._outbound.names.outward(ref.name, ref.namespace)}}
