"""Pieces of Messages bodies, for clients and for what upstreams are sent."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

EPHEMERAL = {"type": "ephemeral"}


def text(value: str, **fields: Any) -> JsonObject:
    return {"type": "text", "text": value, **fields}


def said(role: str, *blocks: JsonObject | str) -> JsonObject:
    """A message with its content in blocks, as the gateway writes them."""
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return {"role": role, "content": content}


def use(
    call_id: str, arguments: JsonObject | None = None, name: str = "f", **fields: Any
) -> JsonObject:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {}, **fields}


def given(call_id: str, content: Any = None, **fields: Any) -> JsonObject:
    told = {} if content is None else {"content": content}
    return {"type": "tool_result", "tool_use_id": call_id, **told, **fields}


def picture(data: str, media_type: str = "image/png", **fields: Any) -> JsonObject:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source, **fields}


def linked(url: str, kind: str = "image") -> JsonObject:
    return {"type": kind, "source": {"type": "url", "url": url}}


def stored(file_id: str, kind: str = "image") -> JsonObject:
    return {"type": kind, "source": {"type": "file", "file_id": file_id}}


def pdf(data: str, **fields: Any) -> JsonObject:
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "source": source, **fields}


def note(value: str, **fields: Any) -> JsonObject:
    source = {"type": "text", "media_type": "text/plain", "data": value}
    return {"type": "document", "source": source, **fields}


def thinking(value: str, signature: str) -> JsonObject:
    return {"type": "thinking", "thinking": value, "signature": signature}


def tool(name: str, schema: JsonObject, **fields: Any) -> JsonObject:
    return {"name": name, "input_schema": schema, **fields}


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
    return tool(name, schema, **told)


# --- pieces of answers ----------------------------------------------------------------------------


def content(*blocks: JsonObject | str, stop: str = "end_turn", **fields: Any) -> JsonObject:
    """The content of an answer, and why it ended."""
    found = [text(block) if isinstance(block, str) else block for block in blocks]
    return {"content": found, "stop_reason": stop, **fields}


def declined(explanation: str | None) -> JsonObject:
    """How `content` ends with a refusal."""
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return {"stop": "refusal", "stop_details": details}


def thought(value: str, state: str = "nothing") -> JsonObject:
    """Thinking as a client is shown it: what its envelope holds in words."""
    return thinking(value, f"envelope of {state}")
