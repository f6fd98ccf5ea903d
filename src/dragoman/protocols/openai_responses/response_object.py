"""The response object around an answer: members that repeat the client's request, and members that
change.

It has every field that openai-python's `Response` or the Open Responses schema requires, with the
request's value if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw

from dragoman.canonical.requests import FunctionTool, Tool
from dragoman.jsontext import decode, decoder, has_halves
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.settings import ResponsesOptions

_DEFAULTS: JsonObject = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "store": False,
    "background": False,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "tool_choice": "auto",
    "truncation": "disabled",
    "user": None,
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""Fields every response has, and their value when the request has none. Numbers are never null:
Open Responses clients refuse that."""

_REASONING: JsonObject = {"effort": None, "summary": None}
_TEXT: JsonObject = {"format": {"type": "text"}}
"""Members that these objects have in every response."""

_ECHO: JsonObject = {**_DEFAULTS, "reasoning": _REASONING, "text": _TEXT, "tools": []}
"""Defaults of the members that repeat the request."""

_CHANGING: JsonObject = {
    "id": "",
    "object": "response",
    "created_at": 0,
    "model": "",
    "status": "",
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
    "service_tier": "default",
    "usage": None,
    "output": [],
}
"""The members that change during a response, with their initial values."""

_ALL: JsonObject = {**_CHANGING, **_ECHO}

_CACHE_OPTIONS: JsonObject = {"mode": "implicit", "ttl": "30m"}
"""Defaults of caching options that the request leaves out."""

_FUNCTION_KEYS = {"description": None, "parameters": None, "strict": None}.keys()
"""Keys that every repeated function tool has, in the order in which missing ones are added."""


def begun(
    name: str,
    created: int,
    model: str | None,
    status: str,
    source: JsonObject,
    *,
    whole: bool = True,
    tools: Sequence[Tool] = (),
) -> JsonObject:
    """A response object at its start; if not `whole`, without the members of `echo`.
    `created` is in Unix seconds, `source` the client's request body, `tools` are those in it."""
    response = _ALL.copy() if whole else _CHANGING.copy()
    response["id"] = name
    response["created_at"] = created
    response["model"] = model
    response["status"] = status
    response["output"] = []
    # The tier shown until the upstream names the one it used.
    asked = source.get("service_tier")
    if isinstance(asked, str) and asked != "auto":
        response["service_tier"] = asked
    return _repeat(response, source, tools) if whole else response


def echo(source: JsonObject, tools: Sequence[Tool]) -> JsonObject:
    """The members of a response object that repeat the client's request body `source`, which has
    these tools."""
    return _repeat(_ECHO.copy(), source, tools)


def _repeat(response: JsonObject, source: JsonObject, tools: Sequence[Tool]) -> JsonObject:
    for name, value in source.items():
        if value is None:
            continue
        if name in _DEFAULTS:
            response[name] = value
        elif name in _COMPLETED:
            response[name] = _COMPLETED[name](value)
        elif name == "tools":
            response[name] = _completed_tools(value, tools)
    return response


def queued(name: str, created: int, source: JsonObject) -> JsonObject:
    """The response object of a queued request."""
    return begun(name, created, source.get("model"), "queued", source)


_CLASSIC = frozenset(
    {
        "id",
        "object",
        "created_at",
        "status",
        "model",
        "output",
        "usage",
        "error",
        "incomplete_details",
        "instructions",
        "metadata",
        "parallel_tool_calls",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
        "max_output_tokens",
        "previous_response_id",
        "reasoning",
        "store",
        "truncation",
        "user",
        "required_action",
    }
)
"""The fields of a response object in the API's first year (requirement 105), and the one that a
dialect adds to all."""


def selected(response: JsonObject, own: ResponsesOptions) -> JsonObject:
    """The fields of a response object, or of a part of it, that the client is shown."""
    if own.response_fields == "all":
        return response
    return {name: value for name, value in response.items() if name in _CLASSIC}


def required_action(output: Iterable[Any]) -> JsonObject | None:
    """The calls in `output` as the required action of a client; None if there are none."""
    calls: list[JsonObject] = []
    for item in output:
        kind = item.get("type")
        if kind == "function_call":
            called = {"name": item["name"], "arguments": item["arguments"]}
            calls.append({"id": item["call_id"], "type": "function", "function": called})
        elif kind == "custom_tool_call":
            called = {"name": item["name"], "input": item["input"]}
            calls.append({"id": item["call_id"], "type": "custom", "custom": called})
    if not calls:
        return None
    return {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": calls}}


def _given(value: Any) -> JsonObject:
    """The members of an object that are not null."""
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if item is not None}


_tools = decoder(list[dict[str, Raw]])
_FUNCTION = ("function", Raw(b'"function"'))


def _shown_text(given: Raw) -> Any:
    """A text as it came: it is long, and only shown."""
    return decode(given) if has_halves(bytes(given)) else given


def _shown_tools(given: Raw) -> Any:
    """Declarations of tools as they came, for they are large, and only shown; but for line breaks
    between their members, which would end an event of a stream."""
    text = bytes(given).replace(b"\n", b" ").replace(b"\r", b" ")
    return Raw(text) if text.startswith(b"[") and not has_halves(text) else decode(given)


def _completed_tools(given: Any, read: Sequence[Tool]) -> Any:
    """Declarations with all members that each has in a response; `read` are the same tools, if they
    are known."""
    if isinstance(given, Raw):
        if read and not any(map(_lacks_members, read)):
            return given
        given = _tools(given)
    return [_tool(tool) for tool in given]


def _lacks_members(tool: Tool) -> bool:
    return type(tool) is FunctionTool and (
        tool.description is None or tool.schema is None or tool.strict is None
    )


def _tool(tool: Any) -> Any:
    is_function = isinstance(tool, dict) and tool.get("type") in _FUNCTION
    if not is_function or tool.keys() >= _FUNCTION_KEYS:
        return tool
    return {**tool, **{key: tool.get(key) for key in _FUNCTION_KEYS}}


_COMPLETED: dict[str, Callable[[Any], Any]] = {
    "reasoning": lambda given: {**_REASONING, **given} if isinstance(given, dict) else _REASONING,
    "text": lambda given: {**_TEXT, **_given(given)},
    "prompt_cache_retention": lambda given: given,
    "prompt_cache_options": lambda given: {**_CACHE_OPTIONS, **_given(given)},
}
"""Members derived from other fields of the request, by their values."""

REPEATED: Mapping[str, Callable[[Raw], Any]] = {
    **dict.fromkeys((*_DEFAULTS, *_COMPLETED, "include", "service_tier"), decode),
    "instructions": _shown_text,
    "tools": _shown_tools,
}
"""Members of a client's body that its answer depends on, and how they are decoded."""
