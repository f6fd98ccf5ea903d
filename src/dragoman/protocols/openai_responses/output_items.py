"""Output items and content parts as clients see them (types: response_output_item.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import Reasoning, ToolCall
from dragoman.canonical.envelope import Sealer
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.machine_tools import PREFIXES, machine_call_item
from dragoman.protocols.openai_responses.tool_search import TOOL_SEARCH, search_call_item

CALL_PAYLOAD = {False: "arguments", True: "input"}
"""The field of a call that the model writes, by whether the tool is custom."""


def text_part(
    text: str = "", annotations: Iterable[JsonObject] = (), logprobs: Iterable[Any] = ()
) -> JsonObject:
    """A text part. Clients expect both lists even when they are empty."""
    return {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": list(logprobs),
    }


def refusal_part(text: str = "") -> JsonObject:
    """A refusal part."""
    return {"type": "refusal", "refusal": text}


def message_item(
    item_id: str, phase: str | None, parts: list[JsonObject], status: str
) -> JsonObject:
    """A message of the model."""
    item: JsonObject = {
        "type": "message",
        "id": item_id,
        "status": status,
        "role": "assistant",
        "content": parts,
    }
    if phase is not None:
        item["phase"] = phase
    return item


def call_item(item_id: str, call: ToolCall, payload: str, status: str) -> JsonObject:
    """A call of a function, of a custom tool, or of a tool that has items of its own."""
    if call.form == TOOL_SEARCH:
        return search_call_item(item_id, call, payload, status)
    if call.form is not None:
        return machine_call_item(item_id, call, payload, status)
    item: JsonObject = {
        "type": "custom_tool_call" if call.custom else "function_call",
        "id": item_id,
        "call_id": call.id,
        "name": call.name,
        CALL_PAYLOAD[call.custom]: payload,
        "status": status,
    }
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item


def call_prefix(call: ToolCall) -> str:
    """Prefix of the ids of such items."""
    if call.form is not None:
        return "tsc_" if call.form == TOOL_SEARCH else PREFIXES[call.form]
    return "ctc_" if call.custom else "fc_"


def reasoning_part(text: str, *, as_summary: bool) -> JsonObject:
    """A piece of readable reasoning."""
    return {"type": "summary_text" if as_summary else "reasoning_text", "text": text}


def reasoning_item(
    item_id: str, block: Reasoning, encrypted: str | None, status: str, *, as_summary: bool
) -> JsonObject:
    """An item of reasoning, its text as a summary or as raw content. Its status is only told
    when it was cut short, as the service does.
    """
    item: JsonObject = {"type": "reasoning", "id": item_id, "summary": []}
    if as_summary:
        item["summary"] = [reasoning_part(text, as_summary=True) for text in block.parts]
    elif block.parts:
        item["content"] = [reasoning_part(text, as_summary=False) for text in block.parts]
    if encrypted is not None:
        item["encrypted_content"] = encrypted
    if status != "completed":
        item["status"] = status
    return item


def encrypted_content(block: Reasoning, sealer: Sealer) -> str:
    """What a client is to send back for its reasoning to be recognised: this protocol's own
    state as it is, anything else in an envelope.
    """
    if block.opaque is not None and block.opaque.origin == wire.NAME:
        return block.opaque.data
    return sealer.seal(block)
