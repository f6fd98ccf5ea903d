"""A tool search that the client itself carries out (`execution: client`).

The model looks for tools that are not offered yet, and what the client found can be called from
then on. Other protocols have no such type of tool, so there it is a function; its calls come
back to the client as the items it knows (types: tool_search_tool_param.py,
response_tool_search_call.py, response_tool_search_output_item_param.py).
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.blocks import ToolCall, ToolReference, ToolResult
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, FunctionTool, HostedTool, Tool
from dragoman.jsontext import JsonError, decode
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import shapes
from dragoman.protocols.reading import Reader, carried_dict

TOOL_SEARCH = "tool_search"
"""The wire type of the tool, and the name of the function that replaces it."""

_DESCRIPTION = "Searches for tools that are not offered yet. Those it finds can be called next."
_PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}


def read_search_tool(value: JsonObject, path: str, extras: list[Extra]) -> FunctionTool | None:
    """The function that replaces a tool search; None if the client does not search itself."""
    if value["type"] != TOOL_SEARCH or value.get("execution") != "client":
        return None
    detail = "offered as a function; its calls are turned back"
    extras.append(Extra(path, value, LossKind.CONVERTED, detail))
    tool = _tool.convert(value, path, extras)
    return FunctionTool(
        name=TOOL_SEARCH,
        description=tool.description or _DESCRIPTION,
        schema=carried_dict(tool.parameters, f"{path}.parameters") or _PARAMETERS,
        form=TOOL_SEARCH,
        path=path,
    )


_tool = Reader(shapes.ClientSearch)


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


def search_call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    """The item of a search. `payload` is the JSON of its arguments, or the part received so far."""
    return {
        "type": "tool_search_call",
        "id": item_id,
        "call_id": call.id,
        "execution": "client",
        "arguments": _arguments(payload),
        "status": status,
    }


def _arguments(payload: str) -> Any:
    try:
        return decode(payload)
    except JsonError:
        return {}
