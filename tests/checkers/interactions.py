"""What Google's SDKs, and the protocol, demand of a stream of the Interactions API."""

from __future__ import annotations

import base64
from typing import Any

from tests.checkers.framing import JsonObject, Verdict, as_object, count, frames, is_object

_CLEAN = ("completed", "requires_action", "incomplete")


def check_interactions(stream: bytes) -> Verdict:
    """Interactions: created, a status, steps one after another, a status, then completed or an
    error, and the mark of the end."""
    *given, last = frames(stream)
    assert (last.event, last.data) == ("done", "[DONE]"), "every stream has its mark of the end"
    events = [as_object(frame.data) for frame in given]
    for frame, event in zip(given, events, strict=True):
        assert frame.event == event["event_type"], "the line names the event"
    names = [event["event_id"] for event in events]
    assert len(set(names)) == len(names), "every event has an id of its own"
    failed = events[-1]["event_type"] == "error"
    verdict = Verdict("failure" if failed else "success", events=events)
    if failed:
        _check_error(events[-1]["error"])
        events = events[:-1]
    assert not failed or not events or events[0]["event_type"] == "interaction.created"
    if not events:
        return verdict
    created = events[0]["interaction"]
    assert created["id"].startswith("v1_")
    assert (created["object"], created["status"]) == ("interaction", "in_progress")
    _check_status(events[1], created["id"], "in_progress")
    if failed:
        _check_steps(events[2:], verdict, is_cut=True)
        return verdict
    completed = events[-1]
    assert completed["event_type"] == "interaction.completed"
    answer = completed["interaction"]
    assert answer["id"] == created["id"]
    assert answer["status"] in _CLEAN
    verdict.finish = answer["status"]
    _check_status(events[-2], created["id"], answer["status"])
    _check_usage(answer["usage"])
    verdict.usage = answer["usage"]
    _check_steps(events[2:-2], verdict, is_cut=answer["status"] == "incomplete")
    if verdict.finish == "requires_action":
        assert verdict.calls, "an action is required by calls"
    return verdict


def _check_error(error: JsonObject) -> None:
    assert isinstance(error["code"], str)
    assert error["code"]
    assert error["message"]


def _check_status(event: JsonObject, name: str, status: str) -> None:
    assert event["event_type"] == "interaction.status_update"
    assert (event["interaction_id"], event["status"]) == (name, status)


def _check_usage(usage: JsonObject) -> None:
    names = ("total_input_tokens", "total_output_tokens", "total_thought_tokens")
    assert count(usage["total_tokens"]) == sum(count(usage[name]) for name in names)


def _check_steps(events: list[JsonObject], verdict: Verdict, *, is_cut: bool) -> None:
    step: JsonObject | None = None
    arguments: list[str] = []
    sealed = ""
    number = 0
    for event in events:
        assert event["index"] == number, "steps are numbered without gaps, one at a time"
        match event["event_type"]:
            case "step.start":
                assert step is None, "one step is open at a time"
                step, arguments, sealed = event["step"], [], ""
                if step["type"] == "function_call":
                    assert step["id"]
                    assert step["name"]
                    assert step["arguments"] == {}
            case "step.delta":
                assert step is not None, "a piece is in a step"
                assert not sealed, "a signature comes last"
                sealed = _check_piece(step["type"], event["delta"], arguments, verdict)
            case "step.stop":
                assert step is not None, "a step has one end"
                if step["type"] == "function_call":
                    text = "".join(arguments)
                    assert is_cut or is_object(text), "fragments join to an object"
                    verdict.calls.append((step["id"], step["name"], text))
                step = None
                number += 1
            case other:
                raise AssertionError(f"no event of a step: {other}")
    assert step is None or is_cut, "every step ends"


def _check_piece(kind: str, delta: Any, arguments: list[str], verdict: Verdict) -> str:
    """Take a piece of a step. Returns the signature, if it is one."""
    match kind, delta["type"]:
        case "model_output", "text":
            assert delta["text"], "a piece says something"
            verdict.text += delta["text"]
        case "thought", "thought_summary":
            verdict.reasoning += delta["content"]["text"]
        case "thought", "thought_signature":
            assert base64.b64decode(delta["signature"], validate=True)
            return str(delta["signature"])
        case "function_call", "arguments_delta":
            arguments.append(delta["arguments"])
        case "model_output", "text_annotation_delta" | "image" | "audio" | "video" | "document":
            pass
        case _:
            raise AssertionError(f"{delta['type']} is no piece of {kind}")
    return ""
