"""Rows of the tables of answers: what an upstream answers, what its client is given, what is lost.

A row holds an upstream's whole answer. Of the client's it states everything that differs from the
translation of the least answer, by place, and of the ledger everything. Each row is run a second
time as a stream, which has to say the same; so the tables of streams hold as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dragoman.canonical.envelope import MARKER, PREFIX, Sealer
from dragoman.canonical.errors import FaultKind, UpstreamError
from dragoman.canonical.losses import LossKind
from dragoman.protocols.settings import make_options
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.library import translate_request
from tests.tables.clients import answer_of
from tests.tables.requests import LEAST, A, C, G, JsonObject, R, value_at
from tests.tables.upstreams import STREAMS

__all__ = ["CHAT_USAGE", "MESSAGES_USAGE", "RESPONSES_USAGE", "Row", "check", "ids"]

CHAT_USAGE: JsonObject = {
    "prompt_tokens": 20,
    "completion_tokens": 7,
    "total_tokens": 27,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
MESSAGES_USAGE: JsonObject = {
    "input_tokens": 13,
    "cache_creation_input_tokens": 3,
    "cache_read_input_tokens": 4,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 2},
}
RESPONSES_USAGE: JsonObject = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 27,
}
GOOGLE_USAGE: JsonObject = {
    "promptTokenCount": 20,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 27,
}
"""The same counts in the words of each protocol."""

LEAST_ANSWER: dict[str, JsonObject] = {
    C: {
        "id": "up",
        "object": "chat.completion",
        "created": 5,
        "model": "up",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
        ],
        "usage": CHAT_USAGE,
    },
    A: {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": MESSAGES_USAGE,
    },
    R: {
        "id": "resp_up",
        "object": "response",
        "created_at": 5,
        "model": "up",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_up",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "x", "annotations": [], "logprobs": []}
                ],
            }
        ],
        "usage": RESPONSES_USAGE,
        "error": None,
        "incomplete_details": None,
    },
    G: {
        "candidates": [
            {
                "content": {"parts": [{"text": "x"}], "role": "model"},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": GOOGLE_USAGE,
        "modelVersion": "up",
        "responseId": "up",
    },
}
"""The least answer of each protocol; a row replaces members of it."""

_OWN = {"id", "created", "created_at", "completed_at"}
"""Members that differ from answer to answer."""
_MINTED = re.compile(r"\b(msg|rs|fc|ctc|ws)_[0-9a-f]{24}\b")
_ENVELOPE = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Row:
    """One row. `answer` replaces members of the least answer, `asked` is added to the client's
    request. `fault` is the kind of failure of an answer that cannot be used. `streamed` is False
    for what only whole answers can show.
    """

    name: str
    answer: JsonObject
    shown: Mapping[str, Any] = field(default_factory=dict)
    lost: Mapping[str, LossKind] = field(default_factory=dict)
    asked: JsonObject = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    fault: FaultKind | None = None
    streamed: bool = True


def ids(rows: list[Row]) -> list[str]:
    """Names for pytest; two rows of one name would hide a mistake."""
    names = [row.name for row in rows]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
    return names


def check(upstream: str, client: str, row: Row) -> None:
    """Translate the row, whole and as a stream, and compare."""
    answer = {**LEAST_ANSWER[upstream], **row.answer}
    call = _call(client, upstream, row)
    before = len(call.losses)
    if row.fault is not None:
        with pytest.raises(UpstreamError) as caught:
            call.translate_response(json.dumps(answer).encode())
        assert caught.value.fault.kind is row.fault
        if row.streamed:
            streamed = _call(client, upstream, row, stream=True)
            assert not CHECKERS[client](_stream(streamed, upstream, answer)).succeeded
        return
    whole = _plain(json.loads(call.translate_response(json.dumps(answer).encode())))
    for place, value in row.shown.items():
        assert value_at(whole, place) == value, place
    least = _call(client, upstream, Row("", {}, asked=row.asked))
    usual = _plain(
        json.loads(least.translate_response(json.dumps(LEAST_ANSWER[upstream]).encode()))
    )
    stated = {re.split(r"[.\[]", place)[0] for place in row.shown}
    assert _without(whole, stated) == _without(usual, stated)
    assert {loss.path: loss.kind for loss in call.losses[before:]} == dict(row.lost)
    if row.streamed:
        _check_stream(upstream, client, row, answer, whole, call)


def _check_stream(
    upstream: str, client: str, row: Row, answer: JsonObject, whole: JsonObject, call: Call
) -> None:
    streamed = _call(client, upstream, row, stream=True)
    read = _plain(answer_of(client, _stream(streamed, upstream, answer)))
    assert _without(read, set()) == _without(whole, set())
    # A stream names other places, so the reasons are compared.
    assert _reasons(streamed) == _reasons(call)


def _reasons(call: Call) -> set[tuple[str, LossKind]]:
    return {(loss.detail, loss.kind) for loss in call.losses}


def _stream(call: Call, upstream: str, answer: JsonObject) -> bytes:
    stream = call.open_stream()
    return stream.feed(STREAMS[upstream](answer)) + stream.finish()


def _call(client: str, upstream: str, row: Row, *, stream: bool = False) -> Call:
    body: JsonObject = {**LEAST[client], **row.asked}
    if stream:
        body["stream"] = True
        if client == C:
            body["stream_options"] = {"include_usage": True}
    return translate_request(
        client, upstream, json.dumps(body).encode(), options=make_options(**row.options)
    )


def _without(body: JsonObject, names: set[str]) -> JsonObject:
    return {name: value for name, value in body.items() if name not in names | _OWN}


def _plain(answer: JsonObject) -> JsonObject:
    """The answer with minted ids shortened to their prefix, and envelopes told by content."""
    text = _MINTED.sub(r"\1_", json.dumps(answer))
    plain: JsonObject = json.loads(_ENVELOPE.sub(_told, text))
    return plain


def _told(found: re.Match[str]) -> str:
    block = Sealer().open(found.group())
    assert block is not None
    assert block.opaque is not None
    if block.opaque.origin == MARKER:
        return "envelope of nothing"
    return "envelope of " + json.dumps(block.opaque.data)[1:-1]
