"""Tools and the choice among them, for an upstream (guide "Function calling")."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

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
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.capabilities import GoogleCapabilities
from dragoman.protocols.google_generate_content.schemas import (
    is_read_whole,
    openapi_schema,
    read_schema,
)
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


class ToolWriter:
    """Writes the tools of one request."""

    __slots__ = ("_names", "_outbound", "_own")

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._own = outbound.capabilities.of(GoogleCapabilities)
        self._names: dict[str, None] = {}
        """Upstream names of the functions."""

    def write(self, request: Request, body: JsonObject) -> None:
        """Add `tools` and `toolConfig` to the body."""
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
        tools: list[JsonObject] = [{"functionDeclarations": functions}] if functions else []
        config: JsonObject = {}
        hosted = self._hosted(request, bool(functions))
        tools += hosted
        if functions and hosted and not self._own.google_cloud:
            config["includeServerSideToolInvocations"] = True
        is_strict = bool(functions) and strict and self._outbound.capabilities.strict_tools
        calling = self._calling(request, is_strict)
        if calling is not None:
            config["functionCallingConfig"] = calling
        self._report_strict(request, is_strict and (calling or {}).get("mode") != "NONE")
        if tools:
            body["tools"] = tools
        if config:
            body["toolConfig"] = config
        if request.parallel_tool_calls is False and functions:
            path = request.path_of("parallel_tool_calls")
            self._lose(path, LossKind.KNOB, "calls of several tools at once cannot be forbidden")

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
            drop_mark(tool, self._outbound)
        if tool.deferred:
            drop_deferral(tool.path, self._outbound)
        declared: JsonObject = {
            "name": self._outbound.names.outward(tool.name, tool.namespace),
        }
        if description:
            declared["description"] = description
        name, parameters = self._parameters(tool, schema)
        if parameters is not None:
            declared[name] = parameters
        return self._outbound.with_unknown(declared, tool.path)

    def _parameters(
        self, tool: FunctionTool | CustomTool, schema: JsonObject | Raw
    ) -> tuple[str, JsonObject | Raw | None]:
        """The schema of the arguments, under the member in which it goes; None for a tool without
        any, whose empty object older services refuse."""
        given = decoded(schema)
        if not given.get("properties") and given.keys() <= {"type", "properties", *_EMPTY}:
            return "", None
        if not self._own.google_json_schema:
            fitted, changed = openapi_schema(given)
            if changed:
                detail = f"the schema was fitted to the upstream's: {', '.join(changed)}"
                self._lose(tool.path, LossKind.CONVERTED, detail)
            return "parameters", fitted
        if isinstance(schema, Raw) and is_read_whole(schema):
            return "parametersJsonSchema", schema
        read, _ = read_schema(given)
        return "parametersJsonSchema", read

    def _report_strict(self, request: Request, is_kept: bool) -> None:
        for tool in request.tools:
            if isinstance(tool, FunctionTool) and tool.strict and not is_kept:
                drop_strict(tool, self._outbound)

    # --- the vendors' own tools -----------------------------------------------------------------

    def _hosted(self, request: Request, beside_functions: bool) -> list[JsonObject]:
        """The vendor's own tools. A web search of another vendor becomes its own where the route
        maps it; the functions win where the two do not go together."""
        written: list[JsonObject] = []
        searches = False
        for tool in request.tools:
            if not isinstance(tool, HostedTool):
                continue
            if tool.origin == wire.NAME:
                written.append({tool.type: tool.raw})
                searches = searches or tool.type == wire.SEARCH
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
                written.append({wire.SEARCH: {}})
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

    def _calling(self, request: Request, is_strict: bool) -> JsonObject | None:
        """`functionCallingConfig`; None if the model decides freely."""
        choice = request.tool_choice
        if not self._names:
            if choice is not None and choice.mode in ("required", "tool"):
                self._lose(choice.path, LossKind.CONTENT, NO_TOOLS)
            return None
        if choice is None:
            return {"mode": "VALIDATED"} if is_strict else None
        if choice.mode == "none":
            return {"mode": "NONE"}
        names = self._allowed(choice)
        if choice.mode == "auto":
            if names:
                return {"mode": "VALIDATED", "allowedFunctionNames": names}
            return {"mode": "VALIDATED" if is_strict else "AUTO"}
        calling: JsonObject = {"mode": "ANY"}
        if names:
            calling["allowedFunctionNames"] = names
        elif choice.tool is not None or choice.allowed is not None:
            return None
        return calling

    def _allowed(self, choice: ToolChoice) -> list[str]:
        """The upstream's names of the tools that may be called, none if all may."""
        refs: Sequence[ToolRef] = () if choice.tool is None else (choice.tool,)
        refs = refs if choice.allowed is None else choice.allowed
        names = [self._name_of(ref) for ref in refs]
        offered = [name for name in names if name in self._names]
        if len(offered) < len(names):
            self._lose(choice.path, LossKind.CONTENT, NOT_OFFERED)
        return offered

    def _name_of(self, ref: ToolRef) -> str:
        return self._outbound.names.outward(ref.name, ref.namespace)


_EMPTY = frozenset({"additionalProperties", "required", "$schema", "description", "title"})
"""Members of the schema of an object without properties that say nothing more."""
