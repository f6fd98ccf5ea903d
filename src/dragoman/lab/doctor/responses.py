"""Judging Responses answers."""

from __future__ import annotations

from typing import Any

from dragoman.lab.doctor.answers import DONE, Answer, Stream, error_message
from dragoman.lab.doctor.common import (
    arguments_problem,
    counts_problem,
    look_at_full,
    look_at_model,
    look_at_stream,
    missing,
)
from dragoman.lab.doctor.report import Findings

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_STATUSES = ("completed", "incomplete")
_TOP = ("id", "object", "created_at", "model", "status", "output")
_METADATA = (
    *_TOP,
    "error",
    "incomplete_details",
    "parallel_tool_calls",
    "tool_choice",
    "tools",
    "text",
    "usage",
)
_ABOUT_ITEMS = (
    "response.content_part.",
    "response.output_text.",
    "response.refusal.",
    "response.function_call_arguments.",
    "response.custom_tool_call_input.",
    "response.reasoning_summary_part.",
    "response.reasoning_summary_text.",
    "response.reasoning_text.",
)
_IN_PARTS = ("response.content_part.", "response.output_text.", "response.refusal.")
_TERMINALS = ("response.completed", "response.incomplete", "response.failed")


def full(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a full answer."""
    body = look_at_full("responses", answer, findings)
    if body is None:
        return
    findings.judge("responses.full_shape", missing(body, _TOP, "the response"))
    findings.judge("responses.metadata", missing(body, _METADATA, "the response"))
    findings.judge("responses.usage", counts_problem(body.get("usage"), _COUNTS))
    look_at_model("responses", model, [body.get("model")], findings)
    _look_at_status(body, findings)
    items = body.get("output")
    _look_at_items(items if isinstance(items, list) else [], findings)


def stream(answer: Answer, model: str, findings: Findings) -> Stream | None:
    """Judge a streamed answer."""
    found = look_at_stream("responses", answer, findings)
    if found is None:
        return None
    events = found.data
    failed = [event for event in events if event.get("type") in ("error", "response.failed")]
    if failed:
        response = failed[0].get("response")
        message = error_message(response) or error_message(failed[0]) or failed[0].get("message")
        findings.judge("responses.stream", f"it ends in an error: {message}")
        return None
    done = any(event.data == DONE for event in found.events)
    findings.judge("responses.no_done", "there is one" if done else None)
    unnamed = [event for event in found.events if event.type and event.name != event.type]
    findings.judge(
        "responses.event_names",
        f"{len(unnamed)} of {len(found.events)} have none or another" if unnamed else None,
    )
    findings.judge("responses.sequence_number", _sequence(events))
    findings.judge("responses.item_id", _item_ids(events))
    findings.judge("responses.indexes", _indexes(events))
    kinds = [event.get("type") for event in events]
    opened = kinds[:2] == ["response.created", "response.in_progress"]
    findings.judge("responses.in_progress", None if opened else f"it begins with {kinds[:2]}")
    findings.judge("responses.items", _items(events))
    findings.judge("responses.text_delta", _texts(events))
    _look_at_end(events, model, findings)
    return found


def _sequence(events: list[dict[str, Any]]) -> str:
    numbers: list[Any] = [event.get("sequence_number") for event in events]
    without = sum(type(number) is not int for number in numbers)
    if without:
        return f"{without} of {len(numbers)} events have none"
    gap = next((n for n, number in enumerate(numbers) if number != numbers[0] + n), None)
    return "" if gap is None else f"event {gap} has the number {numbers[gap]}"


def _item_ids(events: list[dict[str, Any]]) -> str:
    """Whether every event about an item names the item of its output_index."""
    ids: dict[Any, Any] = {}
    without, other, looked_at = 0, 0, 0
    for event in events:
        kind = str(event.get("type"))
        if kind == "response.output_item.added" and isinstance(event.get("item"), dict):
            ids[event.get("output_index")] = event["item"].get("id")
        elif kind.startswith(_ABOUT_ITEMS):
            looked_at += 1
            if not event.get("item_id"):
                without += 1
            elif ids.get(event.get("output_index"), event["item_id"]) != event["item_id"]:
                other += 1
    if without:
        return f"{without} of {looked_at} events about items have none"
    return f"{other} of {looked_at} events name another item than was added" if other else ""


def _indexes(events: list[dict[str, Any]]) -> str:
    for event in events:
        kind = str(event.get("type"))
        of_item = kind.startswith((*_ABOUT_ITEMS, "response.output_item."))
        if of_item and type(event.get("output_index")) is not int:
            return f"{kind} has no output_index"
        if kind.startswith(_IN_PARTS) and type(event.get("content_index")) is not int:
            return f"{kind} has no content_index"
    return ""


def _items(events: list[dict[str, Any]]) -> str:
    def numbers(kind: str) -> list[Any]:
        return [event.get("output_index") for event in events if event.get("type") == kind]

    added, done = numbers("response.output_item.added"), numbers("response.output_item.done")
    if not added:
        return "no item is added"
    if added != list(range(len(added))):
        return f"items are added as {added[:10]}"
    return "" if sorted(done) == added else f"{len(added)} items are added, {len(done)} are done"


def _texts(events: list[dict[str, Any]]) -> str:
    """Why the deltas of a text part differ from its done event, empty if they do not."""
    texts: dict[Any, str] = {}
    parts = 0
    for event in events:
        position = (event.get("output_index"), event.get("content_index"))
        kind = event.get("type")
        if kind == "response.output_text.delta":
            texts[position] = texts.get(position, "") + str(event.get("delta", ""))
        elif kind == "response.output_text.done":
            parts += 1
            if texts.get(position, "") != event.get("text"):
                return "output_text.done says something else than the deltas"
    return "a text has no output_text.done" if len(texts) > parts else ""


def _look_at_end(events: list[dict[str, Any]], model: str, findings: Findings) -> None:
    last = events[-1] if events else {}
    response = last.get("response")
    if last.get("type") not in _TERMINALS:
        findings.judge("responses.completed", f"the last event is {last.get('type')}")
        return
    findings.judge("responses.completed", missing(response, _TOP, "its response"))
    if not isinstance(response, dict):
        return
    _look_at_status(response, findings)
    items = response.get("output")
    items = items if isinstance(items, list) else []
    added = sum(event.get("type") == "response.output_item.added" for event in events)
    if len(items) != added:
        findings.judge("responses.completed", f"it holds {len(items)} of {added} items")
    findings.judge("responses.usage", counts_problem(response.get("usage"), _COUNTS))
    for event in events:
        if isinstance(event.get("response"), dict):
            what = f"the response in {event.get('type')}"
            findings.judge("responses.metadata", missing(event["response"], _METADATA, what))
    look_at_model("responses", model, [response.get("model")], findings)
    _look_at_items(items, findings)


def _look_at_status(response: dict[str, Any], findings: Findings) -> None:
    status = response.get("status")
    good = status in _STATUSES
    findings.judge("responses.stop", "" if good else f"status is {str(status)[:40]!r}")


def _look_at_items(items: list[Any], findings: Findings) -> None:
    """Judge output items for ids and annotations."""
    for item in items:
        if not isinstance(item, dict) or not item.get("id"):
            findings.judge("responses.item_ids", "an item has none")
            continue
        findings.judge("responses.item_ids", None)
        parts = item.get("content") if item.get("type") == "message" else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "output_text":
                findings.judge("responses.annotations", missing(part, ("annotations",), "a part"))


def tools(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a streamed answer that should call a tool."""
    found = stream(answer, model, findings)
    if found is None:
        return
    events = found.data
    calls = [
        event
        for event in events
        if event.get("type") == "response.output_item.added"
        and isinstance(event.get("item"), dict)
        and event["item"].get("type") == "function_call"
    ]
    if not calls:
        for name in ("responses.tools", "responses.call_items"):
            findings.unseen(name, "the model called no tool")
        return
    for call in calls:
        own = [event for event in events if event.get("output_index") == call.get("output_index")]
        findings.judge("responses.call_items", _call_problem(call["item"], own))
        text = _arguments(own)
        head = missing(call["item"], ("id", "call_id", "name"), "the call")
        findings.judge("responses.tools", head or arguments_problem(text))


def _call_problem(head: dict[str, Any], own: list[dict[str, Any]]) -> str:
    """Whether all events of one call agree: ids, name, statuses and arguments."""
    whole = [event["item"] for event in own if event.get("type") == "response.output_item.done"]
    if not whole:
        return "a call is not done"
    item = whole[0] if isinstance(whole[0], dict) else {}
    for name in ("type", "id", "call_id", "name"):
        if head.get(name) != item.get(name):
            return f"{name} of the added and of the done item differ"
    if head.get("status") != "in_progress" or item.get("status") != "completed":
        return f"the statuses are {head.get('status')} and {item.get('status')}"
    text = _arguments(own)
    ends = [e for e in own if e.get("type") == "response.function_call_arguments.done"]
    if any(end.get("arguments") != text for end in ends) or item.get("arguments") != text:
        return "deltas, done event and item hold different arguments"
    return ""


def _arguments(own: list[dict[str, Any]]) -> str:
    kind = "response.function_call_arguments.delta"
    return "".join(str(event.get("delta", "")) for event in own if event.get("type") == kind)
