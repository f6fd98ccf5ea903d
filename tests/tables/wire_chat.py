"""Pieces of Chat bodies, for clients and for what upstreams are sent."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]


def msgs(*messages: JsonObject) -> JsonObject:
    """The member `messages`."""
    return {"messages": list(messages)}


def user(content: Any, **fields: Any) -> JsonObject:
    return {"role": "user", "content": content, **fields}


def parts(*content: JsonObject) -> JsonObject:
    """`messages` with one user message of these parts."""
    return msgs(user(list(content)))


def system(content: Any, role: str = "system", **fields: Any) -> JsonObject:
    return {"role": role, "content": content, **fields}


def assistant(content: Any = None, **fields: Any) -> JsonObject:
    return {"role": "assistant", "content": content, **fields}


def result(call_id: str, content: Any) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> JsonObject:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def free_call(call_id: str, value: str = "free", name: str = "g") -> JsonObject:
    return {"id": call_id, "type": "custom", "custom": {"name": name, "input": value}}


def text(value: str, **fields: Any) -> JsonObject:
    return {"type": "text", "text": value, **fields}


def image(url: str, **fields: Any) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def file(**fields: Any) -> JsonObject:
    return {"type": "file", "file": fields}


def function(name: str = "f", **fields: Any) -> JsonObject:
    """A function tool, or a choice of it."""
    return {"type": "function", "function": {"name": name, **fields}}


def free(name: str = "g", **fields: Any) -> JsonObject:
    """A free-text tool, or a choice of it."""
    return {"type": "custom", "custom": {"name": name, **fields}}


def grammar(definition: str) -> JsonObject:
    return {"type": "grammar", "grammar": {"syntax": "lark", "definition": definition}}


def allowed(mode: str, *tools: JsonObject) -> JsonObject:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(tools)}}


def schema_format(schema: JsonObject, **fields: Any) -> JsonObject:
    return {"type": "json_schema", "json_schema": {"schema": schema, **fields}}


def emulated(name: str, description: str | None = None) -> JsonObject:
    """The function that stands in for a free-text tool, as it is sent."""
    schema = {
        "type": "object",
        "properties": {
            "input": {"type": "string", "description": "The whole input, as plain text."}
        },
        "required": ["input"],
        "additionalProperties": False,
    }
    told = {} if description is None else {"description": description}
    return function(name, **told, parameters=schema)


# --- pieces of answers ----------------------------------------------------------------------------


def choice(finish: str = "stop", logprobs: Any = None, **fields: Any) -> JsonObject:
    """The choice that a client is shown: a message with these fields, and why it ended."""
    told = {"role": "assistant", "content": "x", "refusal": None, **fields}
    made = {"index": 0, "message": told, "logprobs": logprobs, "finish_reason": finish}
    return {"choices": [made]}


def says(**fields: Any) -> JsonObject:
    """An upstream's choice whose message has these fields; `finish` and `choice` are about it."""
    finish = fields.pop("finish", "stop")
    more = fields.pop("choice", {})
    message = {"role": "assistant", "content": None, **fields}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish, **more}]}
