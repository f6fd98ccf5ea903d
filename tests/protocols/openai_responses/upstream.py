"""Upstream answers for the tests: items, the streams of items, and whole answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

JsonObject = dict[str, Any]

USAGE: JsonObject = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 14,
}


def text(value: str, **fields: Any) -> JsonObject:
    """A text part."""
    return {"type": "output_text", "text": value, "annotations": [], "logprobs": [], **fields}


def refusal(value: str) -> JsonObject:
    """A refusal part."""
    return {"type": "refusal", "refusal": value}


def message(*parts: JsonObject, **fields: Any) -> JsonObject:
    """A message item."""
    item = {"type": "message", "id": "msg_u1", "status": "completed", "role": "assistant"}
    return {**item, "content": list(parts), **fields}


def reasoning(*summary: str, **fields: Any) -> JsonObject:
    """A reasoning item."""
    parts = [{"type": "summary_text", "text": part} for part in summary]
    return {"type": "reasoning", "id": "rs_u1", "summary": parts, **fields}


def call(arguments: str = "{}", **fields: Any) -> JsonObject:
    """A function call item."""
    item = {"type": "function_call", "id": "fc_u1", "call_id": "call_1", "name": "f"}
    return {**item, "arguments": arguments, "status": "completed", **fields}


def custom_call(value: str = "free", **fields: Any) -> JsonObject:
    """A custom tool call item."""
    item = {"type": "custom_tool_call", "id": "ctc_u1", "call_id": "call_2", "name": "g"}
    return {**item, "input": value, "status": "completed", **fields}


def response(*output: JsonObject, status: str = "completed", **fields: Any) -> JsonObject:
    """A whole answer."""
    return {
        "id": "resp_u1",
        "object": "response",
        "created_at": 7,
        "model": "upstream-model",
        "status": status,
        "output": list(output),
        "usage": USAGE,
        "service_tier": "default",
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def pieces_of(value: str, size: int = 3) -> list[str]:
    """A text in pieces."""
    return [value[at : at + size] for at in range(0, len(value), size)]


def _part_events(place: JsonObject, part: JsonObject) -> Iterable[JsonObject]:
    kind = part["type"]
    field = "refusal" if kind == "refusal" else "text"
    if field not in part:
        return
    empty = {**part, field: ""}
    if kind == "output_text":
        empty |= {"annotations": [], "logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": empty}
    family = {"output_text": "output_text", "refusal": "refusal"}.get(kind, kind)
    logprobs = part.get("logprobs") or []
    for number, piece in enumerate(pieces_of(part[field])):
        delta = {"type": f"response.{family}.delta", **place, "delta": piece}
        if kind == "output_text":
            delta["logprobs"] = logprobs if number == 0 else []
        yield delta
    for number, annotation in enumerate(part.get("annotations", ())):
        yield {
            "type": "response.output_text.annotation.added",
            **place,
            "annotation_index": number,
            "annotation": annotation,
        }
    yield {"type": f"response.{family}.done", **place, field: part[field]}
    yield {"type": "response.content_part.done", **place, "part": part}


def _summary_events(place: JsonObject, part: JsonObject) -> Iterable[JsonObject]:
    empty = {**part, "text": ""}
    yield {"type": "response.reasoning_summary_part.added", **place, "part": empty}
    for piece in pieces_of(part["text"]):
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def item_events(item: JsonObject, number: int) -> list[JsonObject]:
    """The events of one item, as the service sends them."""
    place = {"item_id": item["id"], "output_index": number}
    head = dict(item)
    if "status" in item:
        head["status"] = "in_progress"
    for name in ("content", "summary"):
        if name in item:
            head[name] = []
    for name in ("arguments", "input"):
        if name in item:
            head[name] = ""
    head.pop("encrypted_content", None)
    events = [{"type": "response.output_item.added", "output_index": number, "item": head}]
    for index, part in enumerate(item.get("summary", ())):
        events += _summary_events({**place, "summary_index": index}, part)
    for index, part in enumerate(item.get("content", ())):
        events += _part_events({**place, "content_index": index}, part)
    for name, family in (
        ("arguments", "function_call_arguments"),
        ("input", "custom_tool_call_input"),
    ):
        if name in item and item["type"] in ("function_call", "custom_tool_call"):
            for piece in pieces_of(item[name]):
                events.append({"type": f"response.{family}.delta", **place, "delta": piece})
            events.append({"type": f"response.{family}.done", **place, name: item[name]})
    return [*events, {"type": "response.output_item.done", "output_index": number, "item": item}]


def frame_events(answer: JsonObject, *body: JsonObject) -> list[JsonObject]:
    """A stream's first and last events around those of its items."""
    started = {**answer, "status": "in_progress", "output": [], "usage": None}
    return [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
        *body,
        {"type": f"response.{answer['status']}", "response": answer},
    ]


def events_of(answer: JsonObject) -> list[JsonObject]:
    """The stream of a whole answer, as the service sends it."""
    body: list[JsonObject] = []
    for number, item in enumerate(answer["output"]):
        body += item_events(item, number)
    return frame_events(answer, *body)


def stream_of(events: Iterable[JsonObject], named: bool = True) -> bytes:
    """The bytes of events as an upstream sends them, numbered."""
    frames = []
    for number, event in enumerate(events):
        data = json.dumps({"sequence_number": number, **event}, separators=(",", ":"))
        name = f"event: {event['type']}\n" if named else ""
        frames.append(f"{name}data: {data}\n\n".encode())
    return b"".join(frames)
