"""Tools that the client itself runs and that this protocol declares by their type: `shell`,
`local_shell` and `apply_patch` on its machine, and a `tool_search` with `execution: client`, by
which the model looks for tools that are not offered yet: those it finds can be called from then on.

Other protocols have no such types, so there each is a function of the same name; its calls come
back to the client as the items it knows, and what the client answers is given as text, or as
references to tools (types: function_shell_tool_param.py, response_function_shell_tool_call.py,
apply_patch_tool_param.py, response_apply_patch_tool_call.py, tool_search_tool_param.py,
response_tool_search_call.py, response_tool_search_output_item_param.py; LocalShellCall in
response_input_item_param.py).
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.blocks import Text, ToolCall, ToolReference, ToolResult
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, FunctionTool, HostedTool, Tool
from dragoman.jsontext import object_of
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import shapes
from dragoman.protocols.portable_schemas import carried_schema
from dragoman.protocols.reading import Reader, report_lost, text

TOOL_SEARCH: Final = "tool_search"
"""The wire type of the search, and the name of the function that replaces it."""

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_NUMBER: Final = {"type": "integer"}


def _schema(required: JsonObject, optional: JsonObject) -> JsonObject:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


_DECLARED: Final[dict[str, tuple[str, JsonObject]]] = {
    "shell": (
        "Runs shell commands on the user's machine and gives what they print.",
        _schema({"commands": _TEXTS}, {"timeout_ms": _NUMBER, "max_output_length": _NUMBER}),
    ),
    "local_shell": (
        "Runs a command, given as its words, on the user's machine and gives what it prints.",
        _schema({"command": _TEXTS}, {"working_directory": _TEXT, "timeout_ms": _NUMBER}),
    ),
    "apply_patch": (
        "Creates, changes or deletes a file. `diff` is in the V4A format: each line begins with a "
        "space (kept), `+` (added) or `-` (removed), each hunk with `@@`; all lines of a new file "
        "begin with `+`.",
        _schema(
            {
                "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                "path": _TEXT,
            },
            {"diff": _TEXT},
        ),
    ),
}
"""Description and parameters of the function that replaces a tool, by the tool's type."""

MACHINE_TOOLS: Final = frozenset(_DECLARED)
PREFIXES: Final = {
    "shell": "sh_",
    "local_shell": "lsh_",
    "apply_patch": "apc_",
    TOOL_SEARCH: "tsc_",
}
"""Prefixes of the ids of such calls."""

_PAYLOADS: Final = {
    "shell": "action",
    "local_shell": "action",
    "apply_patch": "operation",
    TOOL_SEARCH: "arguments",
}


def read_machine_tool(value: JsonObject, path: str, extras: list[Extra]) -> FunctionTool | None:
    """The function that replaces such a tool; None if it runs on the vendor's machine."""
    kind, environment = value["type"], value.get("environment")
    elsewhere = isinstance(environment, dict) and environment.get("type") != "local"
    if kind not in _DECLARED or elsewhere:
        return None
    description, schema = _DECLARED[kind]
    detail = "offered as a function; its calls are turned back"
    extras.append(Extra(path, value, LossKind.CONVERTED, detail))
    report_lost(_tool.convert(value, path, extras), path, extras)
    return FunctionTool(name=kind, description=description, schema=schema, form=kind, path=path)


_tool = Reader(shapes.MachineTool)


def client_call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    """The item of a call. `payload` is the JSON of its arguments, or the part received so far."""
    form = str(call.form)
    given = object_of(payload) or {}
    body: JsonObject
    if form == TOOL_SEARCH:
        body = given
    elif form == "apply_patch":
        body = {"type": "update_file", "path": "", "diff": "", **given}
        if body["type"] == "delete_file":
            del body["diff"]
    elif form == "shell":
        body = {"commands": [], "timeout_ms": None, "max_output_length": None, **given}
    else:
        body = {"type": "exec", "command": [], "env": {}, **given}
    searches = {"execution": "client"} if form == TOOL_SEARCH else {}
    return {
        "type": f"{form}_call",
        "id": item_id,
        "call_id": call.id,
        **searches,
        _PAYLOADS[form]: body,
        "status": status,
    }


def read_machine_call(item: shapes.Item, path: str) -> ToolCall:
    """A call in the history.

    Raises:
        InvalidRequest: it is malformed.
    """
    form = str(item.type).removesuffix("_call")
    body: JsonObject | None = getattr(item, _PAYLOADS[form])
    if body is None:
        raise InvalidRequest.at(f"{path}.{_PAYLOADS[form]}", "is required")
    given = {name: value for name, value in body.items() if value not in (None, {})}
    if form == "local_shell":
        given.pop("type", None)
    return ToolCall(
        id=text(item.call_id, path, "call_id"),
        name=form,
        arguments=to_json_text(given),
        form=form,
        path=path,
    )


def read_machine_output(item: shapes.Item, path: str) -> ToolResult:
    """The output of a call, as text.

    Raises:
        InvalidRequest: it is malformed.
    """
    if item.type == "local_shell_call_output":
        # It has only the id of its call.
        return _result(text(item.id, path, "id"), text(item.output, path, "output"), path)
    said = text(item.status, path, "status")
    if item.output:
        said = f"{said}: {text(item.output, path, 'output')}"
    return _result(text(item.call_id, path, "call_id"), said, path)


def _result(call_id: str, said: str, path: str) -> ToolResult:
    content = (Text(text=said, path=f"{path}.output"),) if said else ()
    return ToolResult(call_id=call_id, content=content, path=path)


def read_shell_output(item: shapes.ShellOutput, path: str) -> ToolResult:
    """The output of the client's shell, as text."""
    lines: list[str] = []
    for chunk in item.output or ():
        lines += filter(None, (chunk.stdout, chunk.stderr))
        if chunk.outcome is not None and chunk.outcome.type == "exit":
            lines.append(f"[exit code {chunk.outcome.exit_code}]")
        else:
            lines.append("[timed out]")
    return _result(item.call_id, "\n".join(lines), path)


# --- search for tools ---------------------------------------------------------------------------

_SEARCHES = "Searches for tools that are not offered yet. Those it finds can be called next."
_QUERY = _schema({"query": _TEXT}, {})


def read_search_tool(value: JsonObject, path: str, extras: list[Extra]) -> FunctionTool | None:
    """The function that replaces a tool search; None if the client does not search itself."""
    if value["type"] != TOOL_SEARCH or value.get("execution") != "client":
        return None
    detail = "offered as a function; its calls are turned back"
    extras.append(Extra(path, value, LossKind.CONVERTED, detail))
    tool = _search.convert(value, path, extras)
    schema, traits = carried_schema(tool.parameters, path, "parameters")
    return FunctionTool(
        name=TOOL_SEARCH,
        description=tool.description or _SEARCHES,
        schema=schema or _QUERY,
        traits=traits,
        form=TOOL_SEARCH,
        path=path,
    )


_search = Reader(shapes.ClientSearch)


def read_search_call(item: shapes.Item, path: str) -> ToolCall:
    """A search in the history."""
    return ToolCall(
        id=item.call_id or "",
        name=TOOL_SEARCH,
        arguments=to_json_text({} if item.arguments is None else item.arguments),
        form=TOOL_SEARCH,
        path=path,
    )


def search_result(call_id: str, found: list[Tool], path: str) -> ToolResult:
    """The results of a search, as references to offered tools."""
    references = tuple(
        ToolReference(name=tool.name, namespace=tool.namespace, path=tool.path)
        for tool in found
        if not isinstance(tool, HostedTool)
    )
    return ToolResult(call_id=call_id, content=references, path=path)
