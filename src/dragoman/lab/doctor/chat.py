"""Judging Chat Completions answers."""

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

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")
_TOP = ("id", "object", "created", "model", "choices")


def full(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a full answer."""
    body = look_at_full("chat", answer, findings)
    if body is None:
        return
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    findings.judge(
        "chat.full_shape",
        missing(body, _TOP, "the answer")
        or missing(choice, ("index", "message", "finish_reason"), "the choice")
        or missing(message, ("role", "content"), "the message"),
    )
    findings.judge("chat.usage", counts_problem(body.get("usage"), _COUNTS))
    look_at_model("chat", model, [body.get("model")], findings)
    if isinstance(choice, dict):
        findings.judge("chat.stop", _reason_problem(choice.get("finish_reason")))


def stream(answer: Answer, model: str, findings: Findings) -> Stream | None:
    """Judge a streamed answer, asked for with usage."""
    found = look_at_stream("chat", answer, findings)
    if found is None:
        return None
    chunks = found.data
    for chunk in chunks:
        if chunk.get("error"):
            findings.judge("chat.stream", f"it ends in an error: {error_message(chunk)}")
            return None
    _look_at_end(found, findings)
    ids = {name: {chunk.get(name) for chunk in chunks} for name in ("id", "created", "model")}
    changing = [name for name, values in ids.items() if len(values) > 1]
    findings.judge("chat.one_id", f"{changing[0]} changes" if changing else None)
    look_at_model("chat", model, ids["model"], findings)
    deltas = [choice.get("delta") or {} for choice in _choices(chunks)]
    roles = [number for number, delta in enumerate(deltas) if delta.get("role")]
    findings.judge("chat.role", "" if roles == [0] else "the role is not in the first delta alone")
    _look_at_usage(chunks, findings)
    return found


def stream_without_usage(answer: Answer, findings: Findings) -> None:
    """Judge a streamed answer for which no usage was asked."""
    if answer.status == 200:
        found = look_at_stream("chat", answer, findings)
        empty = [chunk for chunk in found.data if not chunk.get("choices")] if found else []
        unasked = "a chunk without choices comes unasked" if empty else None
        findings.judge("chat.usage_chunk", unasked)


def _look_at_end(found: Stream, findings: Findings) -> None:
    done = [number for number, event in enumerate(found.events) if event.data == DONE]
    last = len(found.events) - 1
    if not done:
        findings.judge("chat.done", "it is missing")
    else:
        findings.judge("chat.done", "" if done == [last] else "it is not the last event alone")
    reasons = [
        choice["finish_reason"] for choice in _choices(found.data) if choice.get("finish_reason")
    ]
    findings.judge("chat.finish", "" if reasons else "no chunk has a finish_reason")
    for reason in reasons:
        findings.judge("chat.stop", _reason_problem(reason))


def _look_at_usage(chunks: list[dict[str, Any]], findings: Findings) -> None:
    reporting = [chunk for chunk in chunks if chunk.get("usage")]
    if not reporting:
        findings.judge("chat.usage_chunk", "no chunk has usage although it was asked for")
        return
    findings.judge("chat.usage_chunk", None)
    findings.judge("chat.usage", counts_problem(reporting[-1]["usage"], _COUNTS))


def tools(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a streamed answer that should call a tool."""
    found = stream(answer, model, findings)
    if found is None:
        return
    calls: dict[Any, dict[str, Any]] = {}
    problem = ""
    choices = _choices(found.data)
    for choice in choices:
        for piece in (choice.get("delta") or {}).get("tool_calls") or ():
            problem = problem or _gather(piece, calls)
    if not calls:
        findings.unseen("chat.tools", "the model called no tool")
        return
    for call in calls.values():
        problem = problem or arguments_problem(call["arguments"])
    reasons = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    if not problem and reasons[-1:] != ["tool_calls"]:
        problem = f"the finish_reason beside calls is {reasons[-1:] or None}"
    findings.judge("chat.tools", problem)


def _gather(piece: dict[str, Any], calls: dict[Any, dict[str, Any]]) -> str:
    """Append a piece of a call to the others of its index; returns what is wrong with it."""
    index = piece.get("index")
    function = piece.get("function") or {}
    if type(index) is not int:
        return "a piece of a call has no index"
    call = calls.get(index)
    if call is None:
        calls[index] = call = {"arguments": ""}
        if not piece.get("id") or not function.get("name"):
            return "the first piece of a call has no id or no name"
        if index != len(calls) - 1:
            return f"the first call has the index {index}"
    elif piece.get("id") or function.get("name"):
        return "id and name come more than once in a call"
    call["arguments"] += function.get("arguments") or ""
    return ""


def _choices(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice for chunk in chunks for choice in chunk.get("choices") or ()]


def _reason_problem(reason: Any) -> str:
    return "" if reason in _REASONS else f"finish_reason is {str(reason)[:40]!r}"
