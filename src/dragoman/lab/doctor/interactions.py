"""Judging interactions."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from dragoman.lab.doctor.answers import DONE, Answer, Event, Stream, error_message
from dragoman.lab.doctor.common import (
    arguments_problem,
    counts_problem,
    look_at_full,
    look_at_model,
    look_at_stream,
    missing,
)
from dragoman.lab.doctor.report import Findings

_COUNTS = ("total_input_tokens", "total_output_tokens", "total_tokens")
_STATUS = ("completed", "requires_action", "incomplete")
_TOP = ("id", "object", "model", "status", "created", "updated", "steps", "usage")


def full(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a whole interaction."""
    body = look_at_full("interactions", answer, findings)
    if body is None:
        return
    problem = missing(body, _TOP, "the interaction")
    if not problem and not all(isinstance(step.get("type"), str) for step in body["steps"]):
        problem = "a step has no type"
    findings.judge("interactions.full_shape", problem)
    findings.judge("interactions.usage", counts_problem(body.get("usage"), _COUNTS))
    findings.judge("interactions.stop", _status_problem(body.get("status")))
    look_at_model("interactions", model, [body.get("model")], findings)


def stream(answer: Answer, model: str, findings: Findings) -> Stream | None:
    """Judge a streamed interaction."""
    found = look_at_stream("interactions", answer, findings)
    if found is None:
        return None
    events = found.data
    for event in events:
        if event.get("event_type") == "error":
            findings.judge("interactions.stream", f"it ends in an error: {error_message(event)}")
            return None
    findings.judge("interactions.event_names", _names_problem(found.events))
    findings.judge("interactions.done", _done_problem(found.events))
    kinds = [event.get("event_type") for event in events]
    findings.judge("interactions.created", _created_problem(kinds))
    findings.judge("interactions.steps", _steps_problem(events))
    ends = [one["interaction"] for one in events if one.get("event_type") == _COMPLETED]
    problem = "" if len(ends) == 1 else f"{len(ends)} events are {_COMPLETED}"
    findings.judge("interactions.completed", problem)
    for end in ends:
        findings.judge("interactions.usage", counts_problem(end.get("usage"), _COUNTS))
        findings.judge("interactions.stop", _status_problem(end.get("status")))
    named = [one["interaction"].get("model") for one in events if "interaction" in one]
    look_at_model("interactions", model, named, findings)
    _look_at_signatures(events, findings)
    return found


def tools(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a streamed interaction that should call a tool."""
    found = stream(answer, model, findings)
    if found is None:
        return
    starts = [one for one in found.data if one.get("event_type") == "step.start"]
    calls = [one for one in starts if one["step"].get("type") == "function_call"]
    if not calls:
        findings.unseen("interactions.tools", "the model called no tool")
    for call in calls:
        problem = missing(call["step"], ("id", "name", "arguments"), "the call")
        given = call["step"].get("arguments")
        if not problem and not isinstance(given, dict):
            problem = "the arguments of a step.start are no object"
        pieces = [
            one["delta"].get("arguments") or ""
            for one in found.data
            if one.get("event_type") == "step.delta" and one.get("index") == call["index"]
        ]
        findings.judge("interactions.tools", problem or arguments_problem("".join(pieces)))


_COMPLETED = "interaction.completed"


def _names_problem(events: tuple[Event, ...]) -> str:
    for event in events:
        if isinstance(event.data, dict) and event.name != event.data.get("event_type"):
            return f"{event.name or 'no name'!r} stands before {event.data.get('event_type')!r}"
    return ""


def _done_problem(events: tuple[Event, ...]) -> str:
    return "" if events and events[-1].data == DONE else "it does not end in [DONE]"


def _created_problem(kinds: list[Any]) -> str:
    if kinds[:1] != ["interaction.created"]:
        return f"the first event is {str(kinds[0])[:40] if kinds else 'missing'}"
    return "" if kinds.count("interaction.created") == 1 else "there is more than one"


def _steps_problem(events: list[dict[str, Any]]) -> str:
    """Why readers that key by index do not find each step; empty if they do."""
    count, is_open = 0, False
    for event in events:
        kind = event.get("event_type")
        if kind not in ("step.start", "step.delta", "step.stop"):
            continue
        expected = count if kind == "step.start" else count - 1
        if event.get("index") != expected:
            return f"the index of a {kind} is {event.get('index')!r}, not {expected}"
        if is_open is (kind == "step.start"):
            return f"a {kind} of {expected} comes {'before the last stop' if is_open else 'late'}"
        count += kind == "step.start"
        is_open = kind != "step.stop"
    return "the last step is not stopped" if is_open else ""


def _status_problem(status: Any) -> str:
    return "" if status in _STATUS else f"status is {str(status)[:40]!r}"


def _look_at_signatures(events: list[dict[str, Any]], findings: Findings) -> None:
    deltas = [one["delta"] for one in events if one.get("event_type") == "step.delta"]
    signatures = [one.get("signature") for one in deltas if one.get("type") == "thought_signature"]
    if not signatures:
        findings.unseen("interactions.signature", "nothing was signed")
    for signature in signatures:
        try:
            base64.b64decode(signature or "?", validate=True)
        except (binascii.Error, ValueError):
            findings.judge("interactions.signature", "one is empty, or no base64")
        else:
            findings.judge("interactions.signature", None)
