"""What real clients send, the simulator takes, as the vendors do; and so it takes translations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.lab.simulator.validation import check_chat, check_messages, check_responses
from tests.clients.recordings import PROTOCOLS, Recording, recordings
from tests.library import translate_request

_VERSION = {"anthropic-version": "2026-10-21"}
_SEALED = ("thinking", "redacted_thinking", "reasoning")


def without_seals(body: dict[str, Any]) -> dict[str, Any]:
    """The body without reasoning: the recordings hold filler in place of its seals. Nor is any
    asked for with a budget, where a tool's turn would have to begin with it."""
    turns = "input" if "input" in body else "messages"
    kept = []
    for turn in body[turns]:
        content = turn.get("content")
        if isinstance(content, list):
            content = [block for block in content if block.get("type") not in _SEALED]
            turn = {**turn, "content": content}
        if turn.get("type") not in _SEALED and content != []:
            kept.append(turn)
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and kept != body[turns]:
        body = {name: value for name, value in body.items() if name != "thinking"}
    return {**body, turns: kept}


def check(protocol: str, body: dict[str, Any], headers: dict[str, str]) -> None:
    """Raises what the service would answer if it did not take the body."""
    if protocol == "openai_chat":
        check_chat(body)
    elif protocol == "openai_responses":
        check_responses(body, "organization", frozenset())
    else:
        check_messages(body, headers, "organization")


@pytest.mark.parametrize("recording", recordings(), ids=lambda recording: recording.name)
def test_recorded_requests_are_taken(recording: Recording) -> None:
    for turn in recording.turns:
        body = without_seals(turn.body)
        headers = {name.lower(): value or "" for name, value in turn.headers.items()}
        check(recording.protocol, body, headers)


@pytest.mark.parametrize(
    ("recording", "upstream"),
    [
        pytest.param(recording, upstream, id=f"{recording.name}-{upstream}")
        for recording in recordings()
        for upstream in PROTOCOLS.values()
        if upstream != recording.protocol
    ],
)
def test_their_translations_are_taken(recording: Recording, upstream: str) -> None:
    for turn in recording.turns:
        call = translate_request(recording.protocol, upstream, turn.encoded)
        check(upstream, msgspec.json.decode(call.body), _VERSION)
