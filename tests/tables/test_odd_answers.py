"""Whole answers that are none."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.errors import FaultKind, UpstreamError
from tests.protocols.openai_responses.upstream import call, response
from tests.tables.cells import chat_answer
from tests.tables.odd import calling
from tests.tables.requests import A, C, JsonObject, R

CHOICE = chat_answer({"content": "x"})["choices"][0]
WHOLE: list[tuple[str, JsonObject, FaultKind]] = [
    (C, {}, FaultKind.UPSTREAM_FAILED),
    (C, chat_answer({}, choices=[]), FaultKind.UPSTREAM_FAILED),
    (C, chat_answer({}, choices=[CHOICE, CHOICE]), FaultKind.UPSTREAM_FAILED),
    (C, chat_answer({}, choices=[{"index": 0}]), FaultKind.UPSTREAM_FAILED),
    (C, chat_answer({}, choices=["x"]), FaultKind.UPSTREAM_FAILED),
    (C, chat_answer({}, choices=[CHOICE, "x"]), FaultKind.UPSTREAM_FAILED),
    (
        C,
        chat_answer({}, choices=[{**CHOICE, "finish_reason": None}]),
        FaultKind.UPSTREAM_FAILED,
    ),
    (C, chat_answer({"content": "x"}, "error"), FaultKind.UPSTREAM_FAILED),
    (C, chat_answer({"content": "x"}, "aborted"), FaultKind.UPSTREAM_FAILED),
    (C, {"error": {"message": "m", "code": "slow_down"}}, FaultKind.OVERLOADED),
    (C, chat_answer({"content": "x"}, error={"message": "m"}), FaultKind.UPSTREAM_FAILED),
    (C, {"type": "message", "content": []}, FaultKind.UPSTREAM_FAILED),
    (
        A,
        {"type": "error", "error": {"type": "overloaded_error", "message": "m"}},
        FaultKind.OVERLOADED,
    ),
    (A, {"error": {"type": "overloaded_error", "message": "m"}}, FaultKind.OVERLOADED),
    (A, {"error": {"message": "Network connection lost"}}, FaultKind.UPSTREAM_FAILED),
    (A, {"error": "text"}, FaultKind.UPSTREAM_FAILED),
    (A, {"type": "message"}, FaultKind.UPSTREAM_FAILED),
    (A, {"type": "message", "content": "x"}, FaultKind.UPSTREAM_FAILED),
    (A, {"type": "message", "content": []}, FaultKind.UPSTREAM_FAILED),
    (A, {"type": "message", "content": [{"type": "text", "text": "x"}]}, FaultKind.UPSTREAM_FAILED),
    (
        A,
        {"type": "message", "content": [{"type": "text", "text": "x"}], "stop_reason": "aborted"},
        FaultKind.UPSTREAM_FAILED,
    ),
    (A, {"type": "message", "content": [5], "stop_reason": "end_turn"}, FaultKind.UPSTREAM_FAILED),
    (R, {}, FaultKind.UPSTREAM_FAILED),
    (R, {"object": "chat.completion", "choices": []}, FaultKind.UPSTREAM_FAILED),
    (R, {"type": "message", "content": []}, FaultKind.UPSTREAM_FAILED),
    (R, response(status="queued"), FaultKind.UPSTREAM_FAILED),
    (R, response(status="in_progress"), FaultKind.UPSTREAM_FAILED),
    (R, response(status="cancelled"), FaultKind.UPSTREAM_FAILED),
    (R, response(output="none"), FaultKind.UPSTREAM_FAILED),
    (R, response(output=["none"]), FaultKind.UPSTREAM_FAILED),
    (R, response({"id": "x"}), FaultKind.UPSTREAM_FAILED),
    (R, response(call(name="")), FaultKind.UPSTREAM_FAILED),
    (R, response({"type": "shell_call", "id": "x", "call_id": "c"}), FaultKind.UPSTREAM_FAILED),
    (R, {"error": {"message": "no"}}, FaultKind.UPSTREAM_FAILED),
    (R, {"error": {"message": "no", "code": "rate_limit_exceeded"}}, FaultKind.RATE_LIMITED),
    (R, response(status="failed"), FaultKind.UPSTREAM_FAILED),
    (
        R,
        response(status="failed", error={"code": "bio_policy", "message": "m"}),
        FaultKind.INVALID_REQUEST,
    ),
]


@pytest.mark.parametrize(("upstream", "body", "kind"), WHOLE)
def test_a_whole_answer_that_is_none(upstream: str, body: JsonObject, kind: FaultKind) -> None:
    """An error, no or several choices, no end, another protocol: whatever its status said.
    req: 61, 62"""
    with pytest.raises(UpstreamError) as caught:
        calling(upstream).translate_response(json.dumps(body).encode())
    assert caught.value.fault.kind is kind


@pytest.mark.parametrize("upstream", [C, A, R])
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"5", b'"a\x80"'])
def test_what_is_no_json_object(upstream: str, body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        calling(upstream).translate_response(body)
    assert caught.value.fault.kind is FaultKind.UPSTREAM_FAILED
