"""Judging Messages answers."""

from __future__ import annotations

from typing import Any

from dragoman.lab.doctor.answers import Answer, Stream, error_message
from dragoman.lab.doctor.common import (
    arguments_problem,
    counts_problem,
    look_at_full,
    look_at_model,
    look_at_stream,
    missing,
)
from dragoman.lab.doctor.report import Findings

_COUNTS = ("input_tokens", "output_tokens")
_CACHE = ("cache_creation_input_tokens", "cache_read_input_tokens")
_REASONS = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
)
_TOP = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage")
_EVENTS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
)


def full(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a full answer."""
    body = look_at_full("messages", answer, findings)
    if body is None:
        return
    problem = missing(body, _TOP, "the answer")
    if not problem and not isinstance(body["content"], list):
        problem = "content is not a list"
    findings.judge("messages.full_shape", problem)
    findings.judge("messages.usage", counts_problem(body.get("usage"), _COUNTS))
    findings.judge("messages.cache_counters", missing(body.get("usage"), _CACHE, "usage"))
    look_at_model("messages", model, [body.get("model")], findings)
    findings.judge("messages.stop", _reason_problem(body.get("stop_reason")))


def stream(answer: Answer, model: str, findings: Findings) -> Stream | None:
    """Judge a streamed answer."""
    found = look_at_stream("messages", answer, findings)
    if found is None:
        return None
    failed = next((event for event in found.events if event.type == "error"), None)
    if failed is not None:
        findings.judge("messages.stream", f"it ends in an error: {error_message(failed.data)}")
        return None
    unnamed = [event for event in found.events if event.type and event.name != event.type]
    findings.judge(
        "messages.event_names",
        f"{len(unnamed)} of {len(found.events)} have none or another" if unnamed else None,
    )
    unknown = [event for event in found.events if event.type not in _EVENTS]
    first = unknown[0].type or unknown[0].data if unknown else ""
    findings.judge("messages.unknown_events", f"there is {str(first)[:40]!r}" if unknown else None)
    findings.judge("messages.order", _order(found))
    findings.judge("messages.index", _indexes(found.data))
    pings = any(event.type == "ping" for event in found.events)
    findings.judge("messages.ping", None if pings else "there is none")
    _look_at_start(found, model, findings)
    _look_at_end(found, findings)
    return found


def _order(found: Stream) -> str:
    """What is wrong with the order of the events."""
    kinds = [event.type for event in found.events if event.type in _EVENTS and event.type != "ping"]
    if kinds[:1] != ["message_start"]:
        return "message_start is not the first event"
    if kinds[-1] != "message_stop":
        return "message_stop is not the last event"
    if kinds.count("message_delta") < 1:
        return "there is no message_delta"
    blocks = [kind for kind in kinds if kind.startswith("content_block_")]
    if blocks.count("content_block_start") != blocks.count("content_block_stop"):
        return "a block is not stopped"
    between = kinds[1 : kinds.index("message_delta")]
    return "" if between == blocks else "block events stand outside of their place"


def _indexes(events: list[dict[str, Any]]) -> str:
    """What is wrong with the numbers of the blocks."""
    current, count = None, 0
    for event in events:
        kind, index = event.get("type"), event.get("index")
        if kind == "content_block_start":
            if current is not None:
                return f"block {index} starts while block {current} is open"
            if index != count:
                return f"a block has the index {index}, not {count}"
            current = index
        elif kind in ("content_block_delta", "content_block_stop"):
            if index != current:
                return f"a {kind} has the index {index}, the open block {current}"
            if kind == "content_block_stop":
                current, count = None, count + 1
    return ""


def _look_at_start(found: Stream, model: str, findings: Findings) -> None:
    starts = [event for event in found.data if event.get("type") == "message_start"]
    message = starts[0].get("message") if starts else None
    message = message if isinstance(message, dict) else {}
    findings.judge("messages.start_usage", counts_problem(message.get("usage"), _COUNTS))
    look_at_model("messages", model, [message.get("model")], findings)
    usage = message.get("usage")
    findings.judge("messages.cache_counters", missing(usage, _CACHE, "usage of message_start"))


def _look_at_end(found: Stream, findings: Findings) -> None:
    ends = [event for event in found.data if event.get("type") == "message_delta"]
    if not ends:
        return
    delta, usage = ends[-1].get("delta") or {}, ends[-1].get("usage")
    findings.judge("messages.stop", _reason_problem(delta.get("stop_reason")))
    findings.judge("messages.usage", counts_problem(usage, ("output_tokens",)))


def _reason_problem(reason: Any) -> str:
    return "" if reason in _REASONS else f"stop_reason is {str(reason)[:40]!r}"


def tools(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a streamed answer that should call a tool."""
    found = stream(answer, model, findings)
    if found is None:
        return
    calls = _blocks(found.data, "tool_use")
    if not calls:
        for name in ("messages.tools", "messages.tool_blocks"):
            findings.unseen(name, "the model called no tool")
        return
    for head, deltas in calls:
        whole = "" if not head.get("input") else "content_block_start holds the input"
        pieces = [delta for delta in deltas if delta.get("type") == "input_json_delta"]
        if len(pieces) != len(deltas):
            whole = whole or "a delta is no input_json_delta"
        findings.judge("messages.tool_blocks", whole)
        text = "".join(str(piece.get("partial_json", "")) for piece in pieces)
        problem = missing(head, ("id", "name"), "the call") or arguments_problem(text)
        findings.judge("messages.tools", problem)
    reasons = [
        event["delta"].get("stop_reason")
        for event in found.data
        if event.get("type") == "message_delta" and isinstance(event.get("delta"), dict)
    ]
    if "tool_use" not in reasons:
        findings.judge("messages.tools", f"the stop_reason beside calls is {reasons}")


def thinking(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a streamed answer that may think."""
    found = stream(answer, model, findings) if answer.status == 200 else None
    blocks = _blocks(found.data, "thinking") if found is not None else []
    if not blocks:
        findings.unseen("messages.signature", "the model showed no thinking")
        return
    for _, deltas in blocks:
        signatures = [one for one in deltas if one.get("type") == "signature_delta"]
        problem = ""
        if len(signatures) != 1:
            problem = f"a block has {len(signatures)} signatures"
        elif not signatures[0].get("signature"):
            problem = "a signature is empty"
        elif deltas[-1] is not signatures[0]:
            problem = "the signature is not the last delta"
        findings.judge("messages.signature", problem)


def _blocks(
    events: list[dict[str, Any]], kind: str
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The first events of all blocks of a type, each with its deltas."""
    blocks: dict[Any, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for event in events:
        block, delta = event.get("content_block"), event.get("delta")
        if event.get("type") == "content_block_start" and isinstance(block, dict):
            blocks[event.get("index")] = (block, [])
        elif event.get("index") in blocks and isinstance(delta, dict):
            blocks[event.get("index")][1].append(delta)
    return [pair for pair in blocks.values() if pair[0].get("type") == kind]
