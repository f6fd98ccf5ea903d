"""Upstreams that work on several calls at once: clients see one after another, each whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.protocols.base import to_json_text
from tests.checkers import CHECKERS
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.properties import strategies as own
from tests.properties.cells import translated


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, str]]]:
    """Arguments of several calls, and their fragments in the order in which they come.

    A call's first fragment is empty: it stands for its head. Heads come in the calls' order.
    """
    arguments = [
        to_json_text(value) for value in draw(st.lists(own.arguments, min_size=2, max_size=4))
    ]
    queues = [["", *draw(own.pieces(text))] for text in arguments]
    order: list[tuple[int, str]] = []
    started = 0
    while any(queues):
        ready = [n for n, queue in enumerate(queues) if queue and n <= started]
        number = draw(st.sampled_from(ready))
        order.append((number, queues[number].pop(0)))
        started = max(started, number + 1)
    return arguments, order


def chat(order: list[tuple[int, str]]) -> bytes:
    """The fragments as a Chat upstream streams them."""
    seen: set[int] = set()
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for number, piece in order:
        fragment: dict[str, Any] = {"index": number, "function": {"arguments": piece}}
        if number not in seen:
            seen.add(number)
            fragment |= {"id": f"call_{number}", "type": "function"}
            fragment["function"]["name"] = f"f{number}"
        deltas.append({"tool_calls": [fragment]})
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    head: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    frames = [msgspec.json.encode({**head, "choices": [choice]}) for choice in choices]
    return b"".join(b"data: " + frame + b"\n\n" for frame in [*frames, b"[DONE]"])


def responses(order: list[tuple[int, str]]) -> bytes:
    """The fragments as a Responses upstream streams them; an item is done with its last one."""
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    last = {number: place for place, (number, _) in enumerate(order)}
    texts: dict[int, str] = {}
    for place, (number, piece) in enumerate(order):
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": f"f{number}",
        }
        at = {"output_index": number}
        if number not in texts:
            texts[number] = ""
            added = {**item, "arguments": "", "status": "in_progress"}
            events.append({"type": "response.output_item.added", **at, "item": added})
        else:
            texts[number] += piece
            delta = {"item_id": item["id"], "delta": piece}
            events.append({"type": "response.function_call_arguments.delta", **at, **delta})
        if last[number] == place:
            done = {**item, "arguments": texts[number], "status": "completed"}
            events.append({"type": "response.output_item.done", **at, "item": done})
    ended = {**response, "status": "completed"}
    events.append({"type": "response.completed", "response": ended})
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
        for event in events
    )


@pytest.mark.parametrize(
    ("client", "upstream"),
    [(MESSAGES, CHAT), (RESPONSES, CHAT), (CHAT, RESPONSES), (MESSAGES, RESPONSES)],
)
@given(calls=interleaved())
def test_interleaved_calls_come_out_whole(
    client: str, upstream: str, calls: tuple[list[str], list[tuple[int, str]]]
) -> None:
    """req: 70, 88, 112"""
    arguments, order = calls
    stream = {CHAT: chat, RESPONSES: responses}[upstream](order)

    verdict = CHECKERS[client](translated(client, upstream, [stream]))

    assert verdict.succeeded
    assert verdict.calls == [
        (f"call_{number}", f"f{number}", text) for number, text in enumerate(arguments)
    ]
