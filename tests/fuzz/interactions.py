"""Answers of the Interactions API, whole and streamed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]

_GOLDEN = Path(__file__).parent.parent / "golden"
_CITED = {"type": "url_citation", "url": "https://h/a", "title": "A", "start_index": 0}
_SEARCHED: tuple[Json, Json] = (
    {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["a"]}},
    {"type": "google_search_result", "call_id": "s1", "result": [{"search_suggestions": "<b>"}]},
)
_QUOTED = {"type": "text", "text": "A", "annotations": [_CITED]}
_IMAGE = {"type": "image", "data": "ZmlsbGVy", "mime_type": "image/png"}
STEPS: tuple[tuple[Json, ...], ...] = (
    ({"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "So."}]},),
    ({"type": "model_output", "content": [{"type": "text", "text": "Hello, you."}]},),
    ({"type": "model_output", "content": [_QUOTED]},),
    ({"type": "model_output", "content": [_IMAGE]},),
    ({"type": "function_call", "id": "c1", "name": "filler", "arguments": {"a": [1, {"b": "c"}]}},),
    ({"type": "function_call", "id": "c2", "name": "filler", "arguments": {}},),
    _SEARCHED,
)
"""What an answer may consist of."""

_HEAD: Json = {"id": "v1_x", "object": "interaction", "model": "m"}
_USAGE = {
    "total_input_tokens": 50,
    "total_output_tokens": 5,
    "total_thought_tokens": 3,
    "total_tokens": 58,
    "output_tokens_by_modality": [{"modality": "text", "tokens": 5}],
}


def _status(steps: list[Json]) -> str:
    called = any(step["type"] == "function_call" for step in steps)
    return "requires_action" if called else "completed"


def _answer(steps: list[Json]) -> bytes:
    end = {"status": _status(steps), "usage": _USAGE}
    return msgspec.json.encode({**_HEAD, **end, "steps": steps})


def _stream(steps: list[Json]) -> bytes:
    events = [
        {"event_type": "interaction.created", "interaction": {**_HEAD, "status": "in_progress"}},
        *(event for at, step in enumerate(steps) for event in _events(at, step)),
        {
            "event_type": "interaction.completed",
            "interaction": {**_HEAD, "status": _status(steps), "usage": _USAGE},
        },
    ]
    named = (
        b"event: %b\ndata: %b\n\n" % (str(one["event_type"]).encode(), msgspec.json.encode(one))
        for one in events
    )
    return b"".join(named) + b"event: done\ndata: [DONE]\n\n"


def _events(at: int, step: Json) -> Iterator[Json]:
    growing = ("content", "summary", "signature", "arguments")
    begun = {name: value for name, value in step.items() if name not in growing}
    if step["type"].startswith("google_search"):
        begun = step
    yield {"event_type": "step.start", "index": at, "step": begun}
    for delta in _deltas(step) if begun is not step else ():
        yield {"event_type": "step.delta", "index": at, "delta": delta}
    yield {"event_type": "step.stop", "index": at}


def _deltas(step: Json) -> Iterator[Json]:
    for part in step.get("content", ()):
        if part["type"] != "text":
            yield part
            continue
        yield {"type": "text", "text": part["text"]}
        if "annotations" in part:
            yield {"type": "text_annotation_delta", "annotations": part["annotations"]}
    for part in step.get("summary", ()):
        yield {"type": "thought_summary", "content": part}
    if "signature" in step:
        yield {"type": "thought_signature", "signature": step["signature"]}
    if "arguments" in step:
        text = msgspec.json.encode(step["arguments"]).decode()
        for piece in (text[:4], text[4:]):
            yield {"type": "arguments_delta", "arguments": piece}


_ANSWERS = [
    [*itertools.chain.from_iterable(chosen)]
    for number in (1, 2, 3)
    for chosen in itertools.permutations(STEPS, number)
]
ANSWERS = [_answer(steps) for steps in _ANSWERS]
STREAMS = [
    *(_stream(steps) for steps in _ANSWERS),
    *((_GOLDEN / name).read_bytes() for name in ("interactions.sse", "interactions_call.sse")),
]
