"""Tools and the choice among them, for an upstream of Google's (guide "Function calling").

`ToolWriter` decides; a protocol renders a declared function and its vendor's web search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Raw, Struct

from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import (
    CustomTool,
    FunctionTool,
    HostedTool,
    Request,
    SearchTool,
    ToolChoice,
    ToolRef,
)
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.tools import (
    NO_TOOLS,
    NOT_OFFERED,
    decoded,
    drop_deferral,
    drop_hosted,
    drop_mark,
    drop_strict,
    emulation_of,
    object_schema,
)


class Choice(Struct, frozen=True):
    """The choice among tools: AUTO, ANY, NONE or VALIDATED, and the names of those that may be
    called, none if all may."""

    mode: str
    names: Sequence[str] = ()


class Tools(Struct, frozen=True):
    """Declared functions, tools of the vendor's, and the choice, None if the model decides."""

    functions: list[JsonObject]
    hosted: list[JsonObject]
    choice: Choice | None


class ToolWriter:
    """Writes the tools of one request, those of the vendor's as the protocol `origin` has them."""

    __slots__ = ("_names", "_outbound", "_own")

    origin: ClassVar[str]
    search: ClassVar[JsonObject]
    """The vendor's web search."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._own = outbound.capabilities.of(GoogleCapabilities)
        self._names: dict[str, None] = {}
        """Upstream names of the functions."""

    def _parameters(self, tool: FunctionTool | CustomTool, schema: JsonObject | Raw) -> JsonObject:
        """The member with the schema of a function's arguments."""
        raise NotImplementedError

    def _defer(self, tool: FunctionTool | CustomTool, declared: JsonObject) -> None:
        """Declare a tool that is hidden until it is searched for, or report it."""
        drop_deferral(tool.path, self._outbound)

    def tools(self, request: Request) -> Tools:
        """The tools of a request."""
        functions: list[JsonObject] = []
        strict = True
        for tool in request.tools:
            if isinstance(tool, HostedTool):
                continue
            declared = self._declaration(tool)
            if declared is None:
                continue
            name = declared["name"]
            if name in self._names:
                self._lose(tool.path, LossKind.REPAIRED, "a tool of this name was declared")
                continue
            self._names[name] = None
            functions.append(declared)
            strict = strict and isinstance(tool, FunctionTool) and bool(tool.strict)
        hosted = self._hosted(request, bool(functions))
        is_strict = bool(functions) and strict and self._outbound.capabilities.strict_tools
        choice = self._choice(request, is_strict)
        is_held = is_strict and (choice is None or choice.mode != "NONE")
        for tool in request.tools:
            if isinstance(tool, FunctionTool) and tool.strict and not is_held:
                drop_strict(tool, self._outbound)
        if request.parallel_tool_calls is False and functions:
            path = request.path_of("parallel_tool_calls")
            self._lose(path, LossKind.KNOB, "calls of several tools at once cannot be forbidden")
        return Tools(functions, hosted, choice)

    def _lose(self, path: str, kind: LossKind, detail: str) -> None:
        self._outbound.ledger.add(path, kind, detail)

    # --- functions ------------------------------------------------------------------------------

    def _declaration(self, tool: FunctionTool | CustomTool) -> JsonObject | None:
        description: str | None
        schema: JsonObject | Raw
        if isinstance(tool, CustomTool):
            function = emulation_of(tool, self._outbound)
            if function is None:
                return None
            description, schema = function
        else:
            description, schema = tool.description, object_schema(tool, self._outbound)
            if tool.cache is not None:
                drop_mark(tool, self._outbound)
        declared: JsonObject = {
            "name": self._outbound.names.outward(tool.name, tool.namespace),
        }
        if tool.deferred:
            self._defer(tool, declared)
        if description:
            declared["description"] = description
        if _has_arguments(tool, schema):
            # The empty object of a tool without arguments is refused by older services.
            declared |= self._parameters(tool, schema)
        return self._outbound.with_unknown(declared, tool.path)

    # --- the vendors' own tools -----------------------------------------------------------------

    def _hosted(self, request: Request, beside_functions: bool) -> list[JsonObject]:
        """The vendor's own tools. A web search of another vendor becomes its own where the route
        maps it; the functions win where the two do not go together."""
        written: list[JsonObject] = []
        searches = False
        for tool in request.tools:
            if not isinstance(tool, HostedTool):
                continue
            if tool.origin == self.origin:
                written.append(tool.raw)
                searches = searches or tool.search is not None
            elif (
                tool.search is None
                or searches
                or self._outbound.options.hosted_tools != "map"
                or (beside_functions and not self._mixes)
            ):
                drop_hosted(tool, self._outbound)
            else:
                searches = True
                self._report_search(tool, tool.search)
                written.append(dict(self.search))
        return written

    @property
    def _mixes(self) -> bool:
        """Whether the vendor's tools may stand beside functions."""
        return self._own.is_signed and not self._own.google_cloud

    def _report_search(self, tool: HostedTool, search: SearchTool) -> None:
        if search.allowed_domains is not None:
            detail = "the search cannot be restricted to domains upstream"
            self._lose(f"{tool.path}.allowed_domains", LossKind.KNOB, detail)
        if search.location:
            detail = "where the user is has no counterpart upstream"
            self._lose(f"{tool.path}.user_location", LossKind.KNOB, detail)
        if search.context_size not in (None, "medium"):
            detail = "how much of the pages is read has no counterpart upstream"
            self._lose(f"{tool.path}.search_context_size", LossKind.KNOB, detail)
        for extra in search.extras:
            self._outbound.ledger.add(extra.path, extra.kind, extra.detail, extra.code)

    # --- the choice -----------------------------------------------------------------------------

    def _choice(self, request: Request, is_strict: bool) -> Choice | None:
        choice = request.tool_choice
        if not self._names:
            if choice is not None and choice.mode in ("required", "tool"):
                self._lose(choice.path, LossKind.CONTENT, NO_TOOLS)
            return None
        if choice is None:
            return Choice("VALIDATED") if is_strict else None
        if choice.mode == "none":
            return Choice("NONE")
        names = self._allowed(choice)
        if choice.mode == "auto":
            return Choice("VALIDATED" if names or is_strict else "AUTO", names)
        if not names and (choice.tool is not None or choice.allowed is not None):
            return None
        return Choice("ANY", names)

    def _allowed(self, choice: ToolChoice) -> list[str]:
        """The upstream's names of the tools that may be called, none if all may."""
        refs: Sequence[ToolRef] = () if choice.tool is None else (choice.tool,)
        refs = refs if choice.allowed is None else choice.allowed
        names = [self._outbound.names.outward(ref.name, ref.namespace) for ref in refs]
        offered = [name for name in names if name in self._names]
        if len(offered) < len(names):
            self._lose(choice.path, LossKind.CONTENT, NOT_OFFERED)
        return offered


def _has_arguments(tool: FunctionTool | CustomTool, schema: JsonObject | Raw) -> bool:
    """Whether the schema of a tool's arguments says anything."""
    if isinstance(tool, FunctionTool) and tool.traits is not None and tool.traits.is_complete:
        return True
    given = decoded(schema)
    return bool(given.get("properties")) or not given.keys() <= _SAYING_NOTHING


_SAYING_NOTHING = frozenset(
    {"type", "properties", "additionalProperties", "required", "$schema", "description", "title"}
)
"""Members of the schema of an object without properties that say nothing more."""
