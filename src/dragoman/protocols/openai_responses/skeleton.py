"""The response object around an answer: what repeats the client's request, and what changes.

Every field that openai-python's `Response` or the Open Responses schema wants is there, with the
request's own value where it gave one.
"""

from __future__ import annotations

from typing import Any

from dragoman.protocols.base import Reply, to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.outcome import Status

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

_CACHE_OPTIONS: JsonObject = {"mode": "implicit", "ttl": "30m"}
"""What caching options are when the request gives only some of them."""

_FUNCTION_KEYS: JsonObject = {"description": None, "parameters": None, "strict": None}
"""Keys that every repeated function tool has."""


def echo(source: JsonObject) -> JsonObject:
    """The part of a response object that repeats the client's request body `source`."""
    repeated = {name: _or(source.get(name), default) for name, default in _DEFAULTS.items()}
    repeated["reasoning"] = {"effort": None, "summary": None, **_object(source, "reasoning")}
    repeated["text"] = {"format": {"type": "text"}, **_given(_object(source, "text"))}
    repeated["tools"] = [_tool(tool) for tool in source.get("tools") or ()]
    if source.get("prompt_cache_retention") is not None:
        repeated["prompt_cache_retention"] = source["prompt_cache_retention"]
    if source.get("prompt_cache_options") is not None:
        given = _given(_object(source, "prompt_cache_options"))
        repeated["prompt_cache_options"] = {**_CACHE_OPTIONS, **given}
    return repeated


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _object(source: JsonObject, name: str) -> JsonObject:
    value = source.get(name)
    return value if isinstance(value, dict) else {}


def _given(value: JsonObject) -> JsonObject:
    return {key: item for key, item in value.items() if item is not None}


def _tool(tool: Any) -> Any:
    if isinstance(tool, dict) and tool.get("type") == "function":
        return {**tool, **{key: tool.get(key) for key in _FUNCTION_KEYS}}
    return tool


def service_tier(source: JsonObject) -> str:
    """The tier shown until the upstream names the one it used."""
    asked = source.get("service_tier")
    return asked if isinstance(asked, str) and asked != "auto" else "default"


class Skeleton:
    """Renders the response objects of one stream. What repeats the request is encoded once, and
    the request is not kept. `created` and `tier` are what the upstream told, once it did.
    """

    __slots__ = ("_echo", "_head", "_model", "created", "tier")

    def __init__(self, reply: Reply) -> None:
        source = reply.request.source
        self._head = to_json({"id": reply.id, "object": "response"})[:-1]
        self._model = to_json(reply.model)
        self._echo = to_json(echo(source))[1:]
        self.created = reply.created
        self.tier = service_tier(source)

    def render(
        self,
        status: Status,
        output: list[bytes],
        *,
        usage: JsonObject | None = None,
        error: JsonObject | None = None,
        completed_at: int | None = None,
        moderation: JsonObject | None = None,
    ) -> bytes:
        """A response object as JSON; `output` are the items, encoded."""
        changing = to_json(
            {
                "status": status.response,
                "completed_at": completed_at,
                "error": error,
                "incomplete_details": status.details,
                "service_tier": self.tier,
                "usage": usage,
                **({} if moderation is None else {"moderation": moderation}),
            }
        )
        items = b",".join(output)
        head = b'%b,"created_at":%d,"model":%b' % (self._head, self.created, self._model)
        return b'%b,%b,"output":[%b],%b' % (head, changing[1:-1], items, self._echo)
