"""The response object around an answer: what repeats the client's request, and what changes.

Every field that openai-python's `Response` or the Open Responses schema wants is there, with the
request's own value where it gave one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.options import Options
from dragoman.protocols.base import Reply, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.outcome import Status
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

_CACHE_OPTIONS: JsonObject = {"mode": "implicit", "ttl": "30m"}
"""What caching options are when the request gives only some of them."""

_FUNCTION_KEYS = {"description": None, "parameters": None, "strict": None}.keys()
"""Keys that every repeated function tool has, in the order in which missing ones are added."""


def echo(source: JsonObject) -> JsonObject:
    """The part of a response object that repeats the client's request body `source`."""
    repeated = _DEFAULTS.copy()
    for name, value in source.items():
        if name in _DEFAULTS and value is not None:
            repeated[name] = value
    reasoning, text, tools = source.get("reasoning"), source.get("text"), source.get("tools")
    repeated["reasoning"] = (
        {**_REASONING, **reasoning} if isinstance(reasoning, dict) else _REASONING
    )
    repeated["text"] = _TEXT if text is None else {**_TEXT, **_given(text)}
    repeated["tools"] = [_tool(tool) for tool in tools] if tools else []
    if source.get("prompt_cache_retention") is not None:
        repeated["prompt_cache_retention"] = source["prompt_cache_retention"]
    options = source.get("prompt_cache_options")
    if options is not None:
        repeated["prompt_cache_options"] = {**_CACHE_OPTIONS, **_given(options)}
    return repeated


CLASSIC = frozenset(
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
    }
)
"""The fields of a response object in the API's first year (requirement 105)."""


def selected(response: JsonObject, options: Options) -> JsonObject:
    """The fields of a response object, or of a part of it, that the client is shown."""
    if options.of(ResponsesOptions).response_fields == "all":
        return response
    return {name: value for name, value in response.items() if name in CLASSIC}


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


def service_tier(source: JsonObject) -> str:
    """The tier shown until the upstream names the one it used."""
    asked = source.get("service_tier")
    return asked if isinstance(asked, str) and asked != "auto" else "default"


def queued(name: str, created: int, source: JsonObject) -> JsonObject:
    """The response object of a request that nothing was done for yet."""
    return {
        "id": name,
        "object": "response",
        "created_at": created,
        "model": source.get("model"),
        "status": "queued",
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "service_tier": service_tier(source),
        "usage": None,
        "output": [],
        **echo(source),
    }


class Skeleton:
    """Renders the response objects of one stream. What repeats the request is encoded once, and
    the request is not kept. `created`, `tier` and `tool_usage` are what the upstream told, once it
    did.
    """

    __slots__ = ("_echo", "_head", "_model", "_options", "created", "tier", "tool_usage")

    def __init__(self, reply: Reply) -> None:
        source = reply.request.source
        self._head = to_json({"id": reply.id, "object": "response"})[:-1]
        self._model = to_json(reply.model)
        self._options = reply.options
        self._echo = to_json(selected(echo(source), reply.options))[1:]
        self.created = reply.created
        self.tier = service_tier(source)
        self.tool_usage: JsonObject | None = None

    def render(
        self,
        status: Status,
        output: list[bytes],
        *,
        usage: JsonObject | None = None,
        error: JsonObject | None = None,
        completed_at: int | None = None,
        moderation: JsonObject | None = None,
        action: JsonObject | None = None,
    ) -> bytes:
        """A response object as JSON; `output` are the items, encoded. With an `action` that the
        client is to take the response is incomplete."""
        fields = {
            "status": status.response if action is None else "incomplete",
            "completed_at": completed_at,
            "error": error,
            "incomplete_details": status.details,
            "service_tier": self.tier,
            "usage": usage,
            **({} if moderation is None else {"moderation": moderation}),
        }
        if usage is not None and self.tool_usage is not None:
            fields["tool_usage"] = self.tool_usage
        changing = selected(fields, self._options)
        if action is not None:
            changing["required_action"] = action
        items = b",".join(output)
        head = b'%b,"created_at":%d,"model":%b' % (self._head, self.created, self._model)
        return b'%b,%b,"output":[%b],%b' % (head, to_json(changing)[1:-1], items, self._echo)
