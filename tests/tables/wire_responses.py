"""Pieces of Responses bodies, for clients and for what upstreams are sent."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]


def items(*found: JsonObject) -> JsonObject:
    """The member `input`."""
    return {"input": list(found)}


def message(role: str, content: Any, **fields: Any) -> JsonObject:
    return {"type": "message", "role": role, "content": content, **fields}


def user(content: Any) -> JsonObject:
    return message("user", content)


def parts(*content: JsonObject) -> JsonObject:
    """`input` with one user message of these parts."""
    return items(user(list(content)))


def text(value: str, **fields: Any) -> JsonObject:
    return {"type": "input_text", "text": value, **fields}


def told(value: str, **fields: Any) -> JsonObject:
    """A text part of the model's own."""
    return {"type": "output_text", "text": value, "annotations": [], **fields}


def refused(value: str) -> JsonObject:
    return {"type": "refusal", "refusal": value}


def image(url: str, detail: str = "auto") -> JsonObject:
    return {"type": "input_image", "detail": detail, "image_url": url}


def file(**fields: Any) -> JsonObject:
    return {"type": "input_file", **fields}


def call(call_id: str, arguments: str = "{}", name: str = "f", **fields: Any) -> JsonObject:
    head = {"type": "function_call", "call_id": call_id, "name": name}
    return {**head, "arguments": arguments, **fields}


def output(call_id: str, value: Any, **fields: Any) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": value, **fields}


def free_call(call_id: str, value: str = "free", name: str = "g") -> JsonObject:
    return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": value}


def free_output(call_id: str, value: Any) -> JsonObject:
    return {"type": "custom_tool_call_output", "call_id": call_id, "output": value}


def summarized(*summary: str, **fields: Any) -> JsonObject:
    """A reasoning item."""
    texts = [{"type": "summary_text", "text": value} for value in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": texts, **fields}


def function(name: str = "f", **fields: Any) -> JsonObject:
    """A function tool, or a choice of it."""
    return {"type": "function", "name": name, **fields}


def free(name: str = "g", **fields: Any) -> JsonObject:
    """A free-text tool, or a choice of it."""
    return {"type": "custom", "name": name, **fields}


def grammar(definition: str) -> JsonObject:
    return {"type": "grammar", "syntax": "lark", "definition": definition}


def allowed(mode: str, *tools: JsonObject) -> JsonObject:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


def schema_format(schema: JsonObject, **fields: Any) -> JsonObject:
    return {"type": "json_schema", "schema": schema, **fields}


# --- pieces of answers ----------------------------------------------------------------------------


def answer(*found: JsonObject, **fields: Any) -> JsonObject:
    """The member `output`, and others."""
    return {"output": list(found), **fields}


def cut(reason: str, *found: JsonObject) -> JsonObject:
    """An answer that is incomplete."""
    return answer(*found, status="incomplete", incomplete_details={"reason": reason})


def failed(code: str) -> JsonObject:
    return answer(status="failed", error={"code": code, "message": "m"})


def part(value: str, *annotations: JsonObject, **fields: Any) -> JsonObject:
    """A text part as a client is shown it."""
    head = {"type": "output_text", "text": value, "annotations": list(annotations)}
    return {**head, "logprobs": [], **fields}


def spoken(*found: JsonObject | str, status: str = "completed") -> JsonObject:
    """A message as a client is shown it."""
    content = [part(piece) if isinstance(piece, str) else piece for piece in found]
    return {**message("assistant", content), "id": "msg_", "status": status}


def called(
    call_id: str, arguments: str = "{}", status: str = "completed", **fields: Any
) -> JsonObject:
    """A call as a client is shown it."""
    return call(call_id, arguments, id="fc_", status=status, **fields)


def called_free(call_id: str, value: str) -> JsonObject:
    """A call of a free-text tool as a client is shown it."""
    return {**free_call(call_id, value), "id": "ctc_", "status": "completed"}
