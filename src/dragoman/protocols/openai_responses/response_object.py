"""The response object around an answer: what repeats the client's request, and what changes.

Every field that openai-python's `Response` or the Open Responses schema wants is there, with the
request's own value where it gave one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
"""What every response has of these objects."""

_ECHO: JsonObject = {**_DEFAULTS, "reasoning": _REASONING, "text": _TEXT, "tools": []}
"""The members that repeat the request, where it says nothing."""

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
"""The members that change while a response is made, as they are when it begins."""

_ALL: JsonObject = {**_CHANGING, **_ECHO}

_CACHE_OPTIONS: JsonObject = {"mode": "implicit", "ttl": "30m"}
"""What caching options are when the request gives only some of them."""

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
) -> JsonObject:
    """A response object as it is when it begins; if not `whole`, without what `echo` gives.
    `created` is in Unix seconds, `source` the client's request body."""
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
    return _repeat(response, source) if whole else response


def echo(source: JsonObject) -> JsonObject:
    """The members of a response object that repeat the client's request body `source`."""
    return _repeat(_ECHO.copy(), source)


def _repeat(response: JsonObject, source: JsonObject) -> JsonObject:
    for name, value in source.items():
        if value is None:
            continue
        if name in _DEFAULTS:
            response[name] = value
        elif name in _COMPLETED:
            response[name] = _COMPLETED[name](value)
    return response


def queued(name: str, created: int, source: JsonObject) -> JsonObject:
    """The response object of a request that nothing was done for yet."""
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
    """The calls in `output` as the action that a client is asked for; None if there are none."""
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


def _tool(tool: Any) -> Any:
    is_function = isinstance(tool, dict) and tool.get("type") == "function"
    if not is_function or tool.keys() >= _FUNCTION_KEYS:
        return tool
    return {**tool, **{key: tool.get(key) for key in _FUNCTION_KEYS}}


_COMPLETED: dict[str, Callable[[Any], Any]] = {
    "reasoning": lambda given: {**_REASONING, **given} if isinstance(given, dict) else _REASONING,
    "text": lambda given: {**_TEXT, **_given(given)},
    "tools": lambda given: [_tool(tool) for tool in given],
    "prompt_cache_retention": lambda given: given,
    "prompt_cache_options": lambda given: {**_CACHE_OPTIONS, **_given(given)},
}
"""What is repeated of other fields of the request, from their values."""

LOOKED_AT = frozenset({*_DEFAULTS, *_COMPLETED, "include", "service_tier"})
"""Members of a client's body that are looked at for an answer to it."""
