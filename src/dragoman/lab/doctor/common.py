"""What is looked at in the answers of every protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dragoman.lab.doctor.answers import Answer, Stream, read_stream
from dragoman.lab.doctor.report import Findings

WAIT_S = 0.5
"""Seconds before the first event that make a burst suspicious: less of a wait shows nothing."""

BURST = 0.05
"""All events within this part of the wait before them have come in one burst."""

LEAST_EVENTS = 8
"""The fewest events from which bursts can be recognised."""

_FRAMING = ("lines", "blank_lines", "json", "separators")


def look_at_stream(protocol: str, answer: Answer, findings: Findings) -> Stream | None:
    """Judge head and framing of a streamed answer; None if it is none."""
    refused = problem_of(answer, "text/event-stream")
    if answer.status != 200:
        findings.judge(f"{protocol}.stream", refused)
        return None
    findings.judge(f"{protocol}.content_type", refused)
    findings.judge(f"{protocol}.buffering", _buffering(answer.headers))
    coding = answer.headers.get("content-encoding", "identity")
    findings.judge(f"{protocol}.compression", "" if coding == "identity" else f"it is {coding}")
    # Google's own service ends lines in CR LF, and its clients take both.
    lines = answer.body.replace(b"\r\n", b"\n") if protocol == "google" else answer.body
    stream = read_stream(lines)
    findings.judge(f"{protocol}.flush", _burst(answer, stream))
    for name in _FRAMING:
        findings.judge(f"{protocol}.{name}", stream.problems.get(name))
    findings.judge(
        f"{protocol}.stream", answer.failure or (None if stream.events else "it is empty")
    )
    return stream


def look_at_full(protocol: str, answer: Answer, findings: Findings) -> dict[str, Any] | None:
    """Judge a full answer's head; its body if it is a JSON object."""
    body = answer.json
    problem = problem_of(answer, "application/json") or answer.failure
    if not problem and not isinstance(body, dict):
        problem = "the body is not a JSON object"
    findings.judge(f"{protocol}.full", problem)
    return body if answer.status == 200 and isinstance(body, dict) else None


def problem_of(answer: Answer, media_type: str) -> str:
    """Why an answer is not a good one of that media type; empty if it is."""
    if answer.status != 200:
        return answer.description()
    given = answer.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != media_type:
        return f"content-type is {given[:60] or 'missing'}"
    return ""


def _buffering(headers: Mapping[str, str]) -> str:
    if headers.get("x-accel-buffering", "").lower() == "no":
        return ""
    return "the header is missing"


def _burst(answer: Answer, stream: Stream) -> str:
    """Whether the events came all at once after a long wait."""
    if len(stream.events) < LEAST_EVENTS or not answer.pieces:
        return ""
    first, last = answer.pieces[0][0], answer.pieces[-1][0]
    if first >= WAIT_S and last - first <= first * BURST:
        return f"{len(stream.events)} events came at once, after {first:.1f} s of nothing"
    return ""


def look_at_model(protocol: str, asked: str, answers: Iterable[Any], findings: Findings) -> None:
    """Judge the names under which answers come; a date behind the name asked for is fine."""
    names = {name for name in answers if name is not None}
    other = sorted(str(name) for name in names if not str(name).startswith(asked))
    if not names:
        findings.judge(f"{protocol}.model", "no model is named")
    else:
        findings.judge(f"{protocol}.model", f"it is {other[0][:60]!r}" if other else None)


def look_at_error(protocol: str, answer: Answer, findings: Findings) -> None:
    """Judge the answer to a request that cannot be right."""
    findings.judge(f"{protocol}.error", error_problem(protocol, answer, (400, 422)))


def error_problem(protocol: str, answer: Answer, statuses: tuple[int, ...]) -> str:
    """What is wrong with an error answer; empty if nothing is."""
    body = answer.json
    if answer.status not in statuses:
        return answer.description() if answer.status != 200 else "it was answered with 200"
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return "the body holds no error.message"
    if protocol == "google":
        if type(error.get("code")) is not int or not isinstance(error.get("status"), str):
            return "the body holds no error.code or no error.status"
    elif protocol == "interactions":
        if not isinstance(error.get("code"), str):
            return "the body holds no error.code"
    elif not isinstance(error.get("type"), str):
        return "the body holds no error.type"
    if protocol == "messages" and body.get("type") != "error":
        return 'the body has no "type": "error" beside the error'
    return ""


def missing(value: Any, names: Iterable[str], what: str) -> str:
    """The members an object lacks; empty if it has them all."""
    if not isinstance(value, dict):
        return f"{what} is not there"
    lacks = [name for name in names if name not in value]
    return f"{what} has no {', '.join(lacks)}" if lacks else ""


def arguments_problem(text: str) -> str:
    """What is wrong with the arguments of a call."""
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "the arguments are not JSON"
    return "" if isinstance(value, dict) else "the arguments are not a JSON object"


def counts_problem(usage: Any, names: Iterable[str]) -> str:
    """What is wrong with token counts."""
    lacks = missing(usage, names, "usage")
    if lacks:
        return lacks
    odd = [name for name in names if type(usage[name]) is not int or usage[name] < 0]
    return f"usage.{odd[0]} is {usage[odd[0]]!r}" if odd else ""
