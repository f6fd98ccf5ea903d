"""Judging generateContent answers."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from dragoman.lab.doctor.answers import Answer, Stream, error_message
from dragoman.lab.doctor.common import (
    counts_problem,
    look_at_full,
    look_at_model,
    look_at_stream,
    missing,
    problem_of,
)
from dragoman.lab.doctor.report import Findings

_COUNTS = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
_REASONS = (
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
)
_TOP = ("candidates", "usageMetadata", "modelVersion", "responseId")
_MODEL = ("name", "displayName", "supportedGenerationMethods")


def full(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a full answer."""
    body = look_at_full("google", answer, findings)
    if body is None:
        return
    candidates = _candidates([body])
    problem = missing(body, _TOP, "the answer") or _turn_problem(candidates)
    findings.judge("google.full_shape", problem)
    findings.judge("google.usage", counts_problem(body.get("usageMetadata"), _COUNTS))
    look_at_model("google", model, [body.get("modelVersion")], findings)
    for candidate in candidates:
        findings.judge("google.stop", _reason_problem(candidate.get("finishReason")))
    _look_at_signatures(candidates, findings)


def stream(answer: Answer, model: str, findings: Findings) -> Stream | None:
    """Judge a streamed answer."""
    found = look_at_stream("google", answer, findings)
    if found is None:
        return None
    lines = [line for line in answer.body.splitlines() if line and not line.startswith(b"data:")]
    foreign = bytes(lines[0][:40]).decode(errors="replace") if lines else ""
    findings.judge("google.frames", f"there is the line {foreign!r}" if lines else None)
    if any(type(event.data) is str for event in found.events):
        findings.judge("google.frames", "there is a [DONE]")
    chunks = found.data
    for chunk in chunks:
        if chunk.get("error"):
            findings.judge("google.stream", f"it ends in an error: {error_message(chunk)}")
            return None
    candidates = _candidates(chunks)
    silent = len(chunks) - len(candidates)
    turn = f"{silent} of {len(chunks)} chunks have no candidate" if silent else ""
    findings.judge("google.turn", turn or _turn_problem(candidates))
    reasons = [candidate.get("finishReason") for candidate in candidates]
    findings.judge("google.finish", _end_problem(reasons))
    for reason in filter(None, reasons):
        findings.judge("google.stop", _reason_problem(reason))
    names = {name: {chunk.get(name) for chunk in chunks} for name in ("responseId", "modelVersion")}
    changing = [name for name, values in names.items() if len(values) > 1]
    findings.judge("google.one_id", f"{changing[0]} changes" if changing else None)
    look_at_model("google", model, names["modelVersion"], findings)
    counted = [chunk["usageMetadata"] for chunk in chunks if chunk.get("usageMetadata")]
    findings.judge("google.usage", counts_problem(counted[-1] if counted else None, _COUNTS))
    _look_at_signatures(candidates, findings)
    return found


def array(answer: Answer, findings: Findings) -> None:
    """Judge a stream that was not asked for as events."""
    problem = problem_of(answer, "application/json") or answer.failure
    chunks = answer.json
    if not problem and not (isinstance(chunks, list) and _candidates(chunks)):
        problem = "it is no array of chunks"
    findings.judge("google.array", problem)


def tools(answer: Answer, model: str, findings: Findings) -> None:
    """Judge a streamed answer that should call a tool."""
    found = stream(answer, model, findings)
    if found is None:
        return
    candidates = _candidates(found.data)
    calls = [part["functionCall"] for part in _parts(candidates) if "functionCall" in part]
    if not calls:
        findings.unseen("google.tools", "the model called no tool")
    for call in calls:
        problem = missing(call, ("name",), "the call")
        if not problem and not isinstance(call.get("args", {}), dict):
            problem = "the arguments are not a JSON object"
        findings.judge("google.tools", problem)


def count(answer: Answer, findings: Findings) -> None:
    """Judge the answer to countTokens."""
    problem = problem_of(answer, "application/json")
    findings.judge("google.count", problem or counts_problem(answer.json, ("totalTokens",)))


def models(answer: Answer, findings: Findings) -> None:
    """Judge the list of models."""
    body = answer.json
    problem = problem_of(answer, "application/json") or missing(body, ("models",), "it")
    if not problem:
        lacks = (missing(entry, _MODEL, "a model") for entry in body["models"])
        problem = next(filter(None, lacks), "")
        if body.get("nextPageToken") == "":
            problem = "nextPageToken is empty"
    findings.judge("google.models", problem)


def _candidates(chunks: list[Any]) -> list[dict[str, Any]]:
    return [one for chunk in chunks for one in chunk.get("candidates") or ()]


def _parts(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        part
        for candidate in candidates
        for part in (candidate.get("content") or {}).get("parts") or ()
    ]


def _turn_problem(candidates: list[dict[str, Any]]) -> str:
    """Why SDKs do not keep an answer as a turn of the conversation; empty if they do."""
    if not candidates:
        return "there is no candidate"
    for candidate in candidates:
        content = candidate.get("content") or {}
        if not content.get("parts"):
            return "a candidate has no parts"
        if content.get("role") != "model":
            return f"a candidate's role is {str(content.get('role'))[:40]!r}"
    return ""


def _end_problem(reasons: list[Any]) -> str:
    if not any(reasons):
        return "no chunk has a finishReason"
    return "" if reasons[-1] and not any(reasons[:-1]) else "not the last chunk alone has one"


def _reason_problem(reason: Any) -> str:
    return "" if reason in _REASONS else f"finishReason is {str(reason)[:40]!r}"


def _look_at_signatures(candidates: list[dict[str, Any]], findings: Findings) -> None:
    signatures = [one for part in _parts(candidates) if (one := part.get("thoughtSignature"))]
    if not signatures:
        findings.unseen("google.signature", "nothing was signed")
    for signature in signatures:
        try:
            base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            findings.judge("google.signature", "one is no base64")
        else:
            findings.judge("google.signature", None)
